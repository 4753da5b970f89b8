"""Area: one of four discs is larger."""

from __future__ import annotations

from math import sqrt

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene, place_centres
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import uniform


def draw(scene: Scene) -> Images:
    """Draw four discs of one random size, one larger by the share of area that is asked."""
    side, stream = scene.side, scene.stream
    base = uniform(stream, 0.05, 0.1) * side
    larger = base * sqrt(1.0 + scene.value)
    raster = Raster(side, side, PAPER)
    for place, (cx, cy) in enumerate(place_centres(side, stream, larger)):
        radius = larger if place == scene.answer else base
        fill_disc(raster, cx, cy, radius, INK)
    return (raster.pixels(),)


AREA = Attribute(
    name="area",
    unit="share larger",
    about="the share by which one of four discs has a larger area than the others",
    questions=("Which disc is larger than the others?", "One disc is larger. Which one?"),
    options=PLACES,
    easy=2.0,
    hard=0.01,
    draw=draw,
    people="about 6 % (textbook value)",
    confounds=("width grows with area; the common size is random",),
)
