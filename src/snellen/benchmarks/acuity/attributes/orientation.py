"""Orientation: one of four lines is turned."""

from __future__ import annotations

from math import radians

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene, place_centres
from snellen.benchmarks.acuity.drawing import Raster, around, box
from snellen.benchmarks.chart.rng import uniform

LENGTH, THICKNESS = 0.2, 0.012
"""Of a line, as shares of the side."""


def draw(scene: Scene) -> Images:
    """Draw four lines of one random direction, one of them turned to either side."""
    side, stream = scene.side, scene.stream
    base, turn = uniform(stream, 0.0, 180.0), scene.value * (1 if stream.below(2) else -1)
    raster = Raster(side, side, PAPER)
    thickness = max(3.0, THICKNESS * side)
    for place, (cx, cy) in enumerate(place_centres(side, stream, LENGTH * side / 2)):
        angle = radians(base + (turn if place == scene.answer else 0.0))
        raster.fill(box(cx, cy, LENGTH * side, thickness, angle), around(cx, cy, LENGTH * side / 2 + thickness), INK)
    return (raster.pixels(),)


ORIENTATION = Attribute(
    name="orientation",
    unit="degrees",
    about="the angle by which one of four lines is turned",
    questions=("Which line has another direction than the others?", "One line is turned. Which one?"),
    options=PLACES,
    easy=45.0,
    hard=0.2,
    draw=draw,
    people="0.35 to 0.57 degrees (Regan 1995)",
    confounds=(
        "the common direction is random, so that upright lines are not special",
        "an edge near an axis has steps; people use them too",
    ),
)
