"""Motion: into which of four directions a disc moves."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import uniform

FRAMES = 5
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
RADIUS = 0.05


def draw(scene: Scene) -> Images:
    """Draw five frames; the disc moves by the same step from each to the next."""
    side, stream = scene.side, scene.stream
    radius, step = RADIUS * side, scene.value
    dx, dy = STEPS[scene.answer]
    room = radius + 2.0 + step * (FRAMES - 1) / 2
    middle_x, middle_y = (uniform(stream, min(room, side / 2), max(side - room, side / 2)) for _ in "xy")
    frames = []
    for number in range(FRAMES):
        away = (number - (FRAMES - 1) / 2) * step
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
    draw=draw,
    images=FRAMES,
    clip=True,
    confounds=("the middle of the path is random, so that one frame alone does not tell",),
)
