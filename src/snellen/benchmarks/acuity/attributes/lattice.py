"""Density and regularity: one of four patches of dots is denser, or more regular."""

from __future__ import annotations

from math import sqrt

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, around, disc
from snellen.benchmarks.acuity.random_numbers import uniform
from snellen.benchmarks.chart.rng import Stream

PATCH, PITCH, DOT, JITTER = 0.36, 0.045, 0.008, 0.2
"""Sides of a patch and of a cell, radius of a dot as shares of the side; jitter as a share of the cell."""


def _patch(raster: Raster, place: int, pitch: float, jitter: float, stream: Stream) -> None:
    side = raster.values.shape[0]
    left, top = (place % 2) * side / 2 + 0.07 * side, (place // 2) * side / 2 + 0.07 * side
    cells, radius = int(PATCH * side / pitch), DOT * side
    ox, oy = (uniform(stream, 0.0, PATCH * side - cells * pitch) for _ in "xy")
    for row in range(cells):
        for column in range(cells):
            cx = left + ox + (column + 0.5 + uniform(stream, -jitter, jitter)) * pitch
            cy = top + oy + (row + 0.5 + uniform(stream, -jitter, jitter)) * pitch
            raster.fill(disc(cx, cy, radius), around(cx, cy, radius), INK)


def draw_density(scene: Scene) -> Images:
    """Draw four jittered lattices, one denser by the share that is asked."""
    raster, pitch = Raster(scene.side, scene.side, PAPER), PITCH * scene.side
    for place in range(4):
        dense = pitch / sqrt(1.0 + scene.value) if place == scene.answer else pitch
        _patch(raster, place, dense, JITTER, scene.stream)
    return (raster.pixels(),)


def draw_regularity(scene: Scene) -> Images:
    """Draw four lattices, one of them jittered by a share of its cell, the others regular."""
    raster, pitch = Raster(scene.side, scene.side, PAPER), PITCH * scene.side
    for place in range(4):
        _patch(raster, place, pitch, scene.value if place == scene.answer else 0.0, scene.stream)
    return (raster.pixels(),)


DENSITY = Attribute(
    name="density",
    unit="share denser",
    about="the share by which one of four patches of dots is denser",
    questions=("Which patch of dots is denser than the others?", "One patch has its dots closer together. Which one?"),
    options=PLACES,
    easy=1.0,
    hard=0.03,
    draw=draw_density,
    people="worse than number (textbook value)",
    confounds=("the number of dots grows with density: patches have one size",),
)
REGULARITY = Attribute(
    name="regularity",
    unit="share of the pitch",
    about="how far the dots of one of four lattices are moved from their places",
    questions=("Which patch of dots is less regular than the others?", "One patch is irregular. Which one?"),
    options=PLACES,
    easy=0.5,
    hard=0.02,
    draw=draw_regularity,
    confounds=("jittered dots may touch at the easiest levels",),
)
