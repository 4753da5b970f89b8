"""Vernier: two bars, one above the other, of which the lower one is offset."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster
from snellen.benchmarks.chart.rng import uniform

WIDTH, LENGTH, SPACE = 6.0, 0.2, 4.0
"""Width and space in pixels, length as a share of the side."""


def draw(scene: Scene) -> Images:
    """Draw two upright bars; coverage is exact, so that an offset of a tenth of a pixel is one of grey levels."""
    side, stream = scene.side, scene.stream
    length = LENGTH * side
    left = uniform(stream, 20.0, side - 20.0 - WIDTH)
    top = uniform(stream, 2.0, side - 2.0 * length - SPACE - 2.0)
    offset = scene.value if scene.answer == 1 else -scene.value
    raster = Raster(side, side, PAPER)
    raster.bar(left, top, left + WIDTH, top + length, INK)
    raster.bar(left + offset, top + length + SPACE, left + offset + WIDTH, top + 2.0 * length + SPACE, INK)
    return (raster.pixels(),)


VERNIER = Attribute(
    name="vernier",
    unit="px",
    about="the sideways offset of the lower one of two bars, in pixels",
    questions=(
        "Is the lower bar further left or further right than the upper one?",
        "To which side is the lower bar offset from the upper bar?",
    ),
    options=("left", "right"),
    easy=16.0,
    hard=0.05,
    draw=draw,
    most=2,
    people="3 to 5 arc seconds, a twelfth of a gap at 20/20 (Watt & Morgan 1983)",
    confounds=("below one pixel only the grey of the edges differs; people use it too",),
)
