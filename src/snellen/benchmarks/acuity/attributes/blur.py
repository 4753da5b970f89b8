"""Blur: one of four patches is less sharp."""

from __future__ import annotations

import numpy as np

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene, place_centres
from snellen.benchmarks.acuity.attributes.letter import SLOAN, outline
from snellen.benchmarks.acuity.drawing import Array, Raster

BASE = 1.0
"""Standard deviation of the blur of all patches, in pixels."""
LETTER = 0.16


def blurred(values: Array, sigma: float) -> Array:
    """Return values under a Gaussian of this standard deviation, edges repeated."""
    radius = max(1, int(4 * sigma + 0.5))
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        padded = np.pad(values, [(radius, radius) if axis == each else (0, 0) for each in (0, 1)], mode="edge")
        values = np.apply_along_axis(np.convolve, axis, padded, weights, mode="valid")
    return values


def draw(scene: Scene) -> Images:
    """Draw four letters at one blur, one of them blurred further; variances add."""
    side, stream = scene.side, scene.stream
    size = LETTER * side
    raster = Raster(side, side, PAPER)
    reach = size * 0.75 + 12.0
    letter = stream.pick(SLOAN)
    for place, (cx, cy) in enumerate(place_centres(side, stream, reach)):
        sigma = float(np.hypot(BASE, scene.value)) if place == scene.answer else BASE
        left, top = int(cx - reach), int(cy - reach)
        patch = Raster(int(2 * reach), int(2 * reach), PAPER)
        x, y = cx - left - size / 2, cy - top - size / 2
        patch.fill(outline(letter, x, y, size / 5), (x, y, x + size, y + size), INK)
        window = raster.values[top : top + int(2 * reach), left : left + int(2 * reach)]
        window[:] = blurred(patch.values, sigma)[: window.shape[0], : window.shape[1]]
    return (raster.pixels(),)


BLUR = Attribute(
    name="blur",
    unit="px",
    about="the blur of one of four letters, as the standard deviation in pixels over a blur of 1 pixel",
    questions=("Which letter is less sharp than the others?", "One letter is blurred. Which one?"),
    options=PLACES,
    easy=8.0,
    hard=0.1,
    draw=draw,
    confounds=("all letters are blurred by one pixel, so that the raster does not tell",),
)
