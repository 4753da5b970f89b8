"""Gap: the opening of a Landolt ring, the standard figure of sight tests (ISO 8596)."""

from __future__ import annotations

from math import pi

from snellen.benchmarks.acuity.attribute import DIRECTIONS, INK, PAPER, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.drawing import Raster, fill_ring

OUTER = 2.5
"""Radius of the ring in gaps."""


def draw_ring(raster: Raster, cx: float, cy: float, gap: float, answer: int, ink: float = INK) -> None:
    """Draw a Landolt ring whose opening points into one of eight directions."""
    fill_ring(raster, cx, cy, gap, answer * pi / 4, ink)


def draw(scene: Scene) -> Images:
    """Draw one ring on white paper, somewhere in the picture."""
    raster = Raster(scene.side, scene.side, PAPER)
    cx, cy = somewhere(scene.side, scene.stream, OUTER * scene.value)
    draw_ring(raster, cx, cy, scene.value, scene.answer)
    return (raster.pixels(),)


GAP = Attribute(
    name="gap",
    unit="px",
    about="the opening of a ring, in pixels of the picture that is sent",
    questions=("Where is the opening of the ring?", "On which side is the ring open?"),
    options=DIRECTIONS,
    easy=32.0,
    hard=0.5,
    draw=draw,
    people="1 arc minute; 18 trials do (Bach 1996, FrACT, 8 directions)",
    confounds=(
        "grey rims of anti-aliasing tell of an opening under one pixel; people use them too",
        "the place is drawn at sub-pixel steps, so that borders of patches average out",
    ),
)
