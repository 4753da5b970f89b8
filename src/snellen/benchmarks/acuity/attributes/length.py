"""Length: one of four lines is longer."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster
from snellen.benchmarks.chart.rng import uniform

THICKNESS = 0.012


def draw(scene: Scene) -> Images:
    """Draw four level lines whose ends are shifted at random, one longer by the share that is asked."""
    side, stream = scene.side, scene.stream
    longest = 0.46 * side
    base = uniform(stream, 0.1, 0.25) * side
    base = min(base, longest / (1.0 + scene.value))
    thickness = max(3.0, THICKNESS * side)
    raster = Raster(side, side, PAPER)
    for place in range(4):
        length = base * (1.0 + scene.value) if place == scene.answer else base
        column, row = place % 2, place // 2
        left = column * side / 2 + uniform(stream, 2.0, max(2.5, side / 2 - length - 2.0))
        top = row * side / 2 + uniform(stream, 0.1, 0.4) * side
        raster.bar(left, top, left + length, top + thickness, INK)
    return (raster.pixels(),)


LENGTH = Attribute(
    name="length",
    unit="share longer",
    about="the share by which one of four lines is longer than the others",
    questions=("Which line is longer than the others?", "One line is longer. Which one?"),
    options=PLACES,
    easy=1.0,
    hard=0.005,
    draw=draw,
    people="2 to 3 % (textbook value)",
    confounds=("area grows with length; ends are shifted and lengths are random, so that places of ends do not tell",),
)
