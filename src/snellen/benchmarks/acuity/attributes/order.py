"""Order: which of two discs appears first in a clip."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import uniform

FRAMES = 16
INTERVALS = tuple(float(number) for number in range(1, 9))
RADIUS = 0.06


def draw(scene: Scene) -> Images:
    """Draw a clip in which a disc appears on one side, and so many frames later one on the other; both stay."""
    side, stream, between = scene.side, scene.stream, round(scene.value)
    radius = RADIUS * side
    begins = 1 + stream.below(FRAMES - between - 1)
    centres = [((half + 0.5) * side / 2, uniform(stream, 2 * radius, side - 2 * radius)) for half in (0, 1)]
    frames = []
    for number in range(FRAMES):
        raster = Raster(side, side, PAPER)
        for half, (cx, cy) in enumerate(centres):
            if number >= begins + (0 if half == scene.answer else between):
                fill_disc(raster, cx, cy, radius, INK)
        frames.append(raster.pixels())
    return tuple(frames)


ORDER = Attribute(
    name="order",
    unit="frames",
    about="how many of 16 frames lie between the appearance of two discs",
    questions=("Which disc appears first?", "On which side does a disc appear first?"),
    options=("left", "right"),
    easy=INTERVALS[-1],
    hard=INTERVALS[0],
    draw=draw,
    images=FRAMES,
    values=INTERVALS,
    clip=True,
    most=2,
    people="20 to 50 ms (textbook value)",
    confounds=("fewer frames than the clip has would make it harder: all are sent",),
)
