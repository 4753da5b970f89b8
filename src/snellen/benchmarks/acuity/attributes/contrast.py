"""Contrast: the faintest grating whose direction is seen, at five frequencies."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np

from snellen.benchmarks.acuity.attribute import Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster
from snellen.benchmarks.chart.rng import uniform, uniforms

MEAN = 127.5
FREQUENCIES = ("4", "8", "16", "32", "64")
"""Cycles a picture."""
ANGLES = (0.0, 45.0, 90.0, 135.0)
"""Degrees that the stripes make with the vertical, clockwise."""


def draw(scene: Scene) -> Images:
    """Draw a Gabor patch: a grating under a Gaussian window, its mean the grey of the picture, rounded by noisy bits."""
    side, frequency = scene.side, float(scene.variant)
    sigma = max(side / 8.0, 1.5 * side / frequency)
    room = max(0.0, side / 2.0 - 2.0 * sigma)
    cx, cy = (side / 2.0 + uniform(scene.stream, -room, room) for _ in "xy")
    phase, angle = uniform(scene.stream, 0.0, 2.0 * pi), ANGLES[scene.answer] * pi / 180.0
    x, y = np.meshgrid(np.arange(side) + 0.5 - cx, np.arange(side) + 0.5 - cy)
    across = x * cos(angle) + y * sin(angle)
    window = np.exp(-(x * x + y * y) / (2.0 * sigma * sigma))
    raster = Raster(side, side, MEAN)
    raster.values += MEAN * scene.value * window * np.cos(2.0 * pi * frequency / side * across + phase)
    return (raster.noisy_pixels(uniforms(scene.stream, side, side)),)


CONTRAST = Attribute(
    name="contrast",
    unit="contrast",
    about="the contrast of stripes against their mean grey (Michelson: 1 is black on white), at so many cycles a picture",
    questions=("Which way do the stripes run?", "What is the direction of the stripes?"),
    options=(
        "vertical",
        "from the upper right to the lower left",
        "horizontal",
        "from the upper left to the lower right",
    ),
    easy=1.0,
    hard=0.002,
    draw=draw,
    variants=FREQUENCIES,
    people="peak sensitivity 100 to 500 (textbook value)",
    confounds=(
        "the mean stays the same at every contrast",
        "values are rounded up with the probability of their fraction; plain rounding erases faint stripes",
    ),
)
