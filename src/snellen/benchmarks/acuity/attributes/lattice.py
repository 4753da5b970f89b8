"""Density and regularity: one of four patches of dots is denser, or more regular."""

from __future__ import annotations

from math import sqrt

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import Stream, uniform

PATCH, PITCH, DOT, JITTER = 0.36, 0.045, 0.008, 0.2
"""Sides of a patch and of a cell, radius of a dot as shares of the side; jitter as a share of the cell."""


def _patch(raster: Raster, place: int, pitch: float, jitter: float, stream: Stream) -> None:
    """Draw the dots of a lattice that lie inside a patch: its size is the same at every pitch, and its phase is random."""
    side = raster.values.shape[0]
    left, top = (place % 2) * side / 2 + 0.07 * side, (place // 2) * side / 2 + 0.07 * side
    size, radius = PATCH * side, DOT * side
    ox, oy = (uniform(stream, 0.0, pitch) for _ in "xy")
    cells = int(size / pitch) + 1
    for row in range(cells):
        for column in range(cells):
            x = ox + (column + uniform(stream, -jitter, jitter)) * pitch
            y = oy + (row + uniform(stream, -jitter, jitter)) * pitch
            if 0.0 <= x <= size and 0.0 <= y <= size:
                fill_disc(raster, left + x, top + y, radius, INK)


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
