"""Clips: into which of four directions a disc moves, and which of two discs appears first."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import uniform

MOTION_FRAMES = 5
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
MOTION_RADIUS = 0.05


def draw_motion(scene: Scene) -> Images:
    """Draw five frames; the disc moves by the same step from each to the next."""
    side, stream = scene.side, scene.stream
    radius, step = MOTION_RADIUS * side, scene.value
    dx, dy = STEPS[scene.answer]
    room = radius + 2.0 + step * (MOTION_FRAMES - 1) / 2
    middle_x, middle_y = (uniform(stream, min(room, side / 2), max(side - room, side / 2)) for _ in "xy")
    frames = []
    for number in range(MOTION_FRAMES):
        away = (number - (MOTION_FRAMES - 1) / 2) * step
        cx, cy = middle_x + dx * away, middle_y + dy * away
        raster = Raster(side, side, PAPER)
        fill_disc(raster, cx, cy, radius, INK)
        frames.append(raster.pixels())
    return tuple(frames)


MOTION = Attribute(
    name="motion",
    unit="px a frame",
    about="the step of a disc from frame to frame, in pixels",
    questions=("Into which direction does the disc move?", "Where does the disc move to, from frame to frame?"),
    options=("left", "right", "up", "down"),
    easy=40.0,
    hard=0.25,
    draw=draw_motion,
    images=MOTION_FRAMES,
    clip=True,
    confounds=("the middle of the path is random, so that one frame alone does not tell",),
)


ORDER_FRAMES = 16
INTERVALS = tuple(float(number) for number in range(1, 9))
ORDER_RADIUS = 0.06


def draw_order(scene: Scene) -> Images:
    """Draw a clip in which a disc appears on one side, and so many frames later one on the other; both stay."""
    side, stream, between = scene.side, scene.stream, round(scene.value)
    radius = ORDER_RADIUS * side
    begins = 1 + stream.below(ORDER_FRAMES - between - 1)
    centres = [((half + 0.5) * side / 2, uniform(stream, 2 * radius, side - 2 * radius)) for half in (0, 1)]
    frames = []
    for number in range(ORDER_FRAMES):
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
    draw=draw_order,
    images=ORDER_FRAMES,
    values=INTERVALS,
    clip=True,
    most=2,
    people="20 to 50 ms (textbook value)",
    confounds=("fewer frames than the clip has would make it harder: all are sent",),
)
