"""Count: how many dots there are, to be written down."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene
from snellen.benchmarks.acuity.attributes.number import scatter
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import uniform

NUMBERS = tuple(float(number) for number in range(2, 41))
"""Levels: less is easier. One dot is left out, because its answer tells of no counting."""


def draw(scene: Scene) -> Images:
    """Draw dots that do not touch, of one random size."""
    side, number = scene.side, round(scene.value)
    radius = uniform(scene.stream, 0.012, 0.022) * side
    raster = Raster(side, side, PAPER)
    for cx, cy in scatter(number, radius, (4, 4, side - 4, side - 4), scene.stream):
        fill_disc(raster, cx, cy, radius, INK)
    return (raster.pixels(),)


COUNT = Attribute(
    name="count",
    unit="dots",
    about="the number of dots, to be counted exactly",
    questions=(
        "How many dots does the picture show? Answer with the number.",
        "Count the dots. Answer with one number.",
    ),
    options=(),
    form="written",
    easy=2.0,
    hard=40.0,
    draw=draw,
    written=lambda scene: str(round(scene.value)),
    values=NUMBERS,
    people="up to 4 at a glance (subitizing)",
    confounds=("dots do not touch, and their size is random",),
)
