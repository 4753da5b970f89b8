"""Noise: a ring under white noise."""

from __future__ import annotations

import numpy as np

from snellen.benchmarks.acuity.attribute import DIRECTIONS, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.attributes.gap import draw_ring
from snellen.benchmarks.acuity.drawing import Raster
from snellen.benchmarks.chart.rng import normals

GAP = 12.0
DARK, LIGHT = 97.5, 157.5
"""Code values of ring and ground: 60 apart, so that strong noise seldom leaves the range."""


def draw(scene: Scene) -> Images:
    """Draw a ring and add noise of the standard deviation that is asked, in code values."""
    side = scene.side
    gap = min(scene.scale or GAP, side / 8.0)
    raster = Raster(side, side, LIGHT)
    cx, cy = somewhere(side, scene.stream, 2.5 * gap)
    draw_ring(raster, cx, cy, gap, scene.answer, DARK)
    raster.values += scene.value * normals(scene.stream, side, side)
    np.clip(raster.values, 0.0, 255.0, out=raster.values)
    return (raster.pixels(),)


NOISE = Attribute(
    name="noise",
    unit="code values",
    about="the standard deviation of noise over a ring, in code values of 0 to 255",
    questions=("Where is the opening of the ring in the noise?", "On which side is the ring open?"),
    options=DIRECTIONS,
    easy=5.0,
    hard=120.0,
    draw=draw,
    scaled_by="gap",
    scale=(4.0, GAP),
    confounds=("noise beyond 0 and 255 is cut, so that its deviation is smaller there than asked",),
)
