"""Where the chart's creatures are and where they move, asked in the words that the embedded model knows.

Bodies are drawn at four times the side and averaged, so that an offset of a quarter of a pixel shows as grey edges.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from snellen.benchmarks.acuity.attribute import Attribute, Images, Pixels, Scene
from snellen.benchmarks.acuity.attributes.chart_taxa import LEAST_SIDE, SIDE, TYPICAL_WIDTH
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.creatures import FRAMES
from snellen.benchmarks.chart.drawing import Canvas
from snellen.benchmarks.chart.rng import Stream
from snellen.benchmarks.chart.world import Dials, Placed

FINER = 4
"""Times the side at which bodies are drawn."""
NEAREST, FARTHEST = 270, 420
"""Thousandths of the side between two bodies along the axis that is not asked about, as in chart/creatures."""
NEAR_RADIUS, FAR_RADIUS = 145, 85


def _averaged(placed: list[Placed], background: int, side: int, stream: Stream) -> Pixels:
    """Draw bodies finer, average down to the side, and add brightness and grain."""
    pixels = world.scene(placed, background, side * FINER, Dials()).pixels.astype(np.int32)
    sums = pixels.reshape(side, FINER, side, FINER, 3).sum(axis=(1, 3))
    canvas = Canvas(side, (0, 0, 0))
    canvas.pixels = ((sums + FINER**2 // 2) // FINER**2).astype(np.uint8)
    return world.finished(canvas, stream)


def _fine_pixels(thousandths: int, side: int) -> int:
    return thousandths * side * FINER // 1000


def couple(axis: str, scene: Scene) -> tuple[list[Placed], int]:
    """Place two bodies of different colours whose centres differ by the level along the axis, and pick a background."""
    stream, horizontal = scene.stream, axis == "horizontal"
    first, second = world.creature(stream), world.creature(stream)
    while second.colour == first.colour:
        second = world.creature(stream)
    radii = (NEAR_RADIUS, FAR_RADIUS) if stream.below(2) else (FAR_RADIUS, NEAR_RADIUS)
    across = stream.between(NEAREST, FARTHEST) * (1 if stream.below(2) else -1)
    along = round(1000 * scene.value) * (-1 if scene.answer == 0 else 1)
    middle_x, middle_y = stream.between(400, 600), stream.between(400, 600)
    dx, dy = (along, across) if horizontal else (across, along)
    left, top = middle_x - dx // 2, middle_y - dy // 2
    placed = [Placed(first, left + dx, top + dy, radii[0]), Placed(second, left, top, radii[1])]
    return placed, stream.below(3)


def realised_offset(axis: str, scene: Scene) -> float:
    """Return the offset that the drawing has, in whole pixels of the finer raster, as a share of the side."""
    (first, second), _ = couple(axis, scene)
    ends = (first.cx, second.cx) if axis == "horizontal" else (first.cy, second.cy)
    pixels = abs(_fine_pixels(ends[0], scene.side) - _fine_pixels(ends[1], scene.side))
    return max(pixels, 0.5) / (scene.side * FINER)


def draw_couple(axis: str, scene: Scene) -> Images:
    """Draw two bodies beside each other."""
    placed, background = couple(axis, scene)
    return (_averaged(placed, background, scene.side, scene.stream),)


def worded_couple(axis: str, scene: Scene, wording: int) -> ask.ChartQuestion:
    """Ask on which side of the second body the first one is."""
    placed, _ = couple(axis, scene)
    first, second = (body.who.name("colour") for body in placed)
    return ask.relation(axis, scene.answer, first, second)


def walk(scene: Scene) -> tuple[list[Placed], int]:
    """Place one body in four frames, each a step further on, and pick a background."""
    stream, direction = scene.stream, tuple(world.DIRECTIONS)[scene.answer]
    creature, across = world.creature(stream), stream.between(250, 750)
    start = 500 - round(1000 * scene.value * (FRAMES - 1) / 2) + stream.between(-60, 60)
    dx, dy = world.DIRECTIONS[direction]
    placed = []
    for frame in range(FRAMES):
        along = start + round(1000 * scene.value * frame)
        along = along if dx + dy > 0 else 1000 - along
        placed.append(Placed(creature, along if dx else across, along if dy else across, 120))
    return placed, stream.below(3)


def realised_step(scene: Scene) -> float:
    """Return the mean step that the drawing has, as a share of the side."""
    placed, _ = walk(scene)
    first, last = placed[0], placed[-1]
    ends = [
        abs(_fine_pixels(a, scene.side) - _fine_pixels(b, scene.side))
        for a, b in ((first.cx, last.cx), (first.cy, last.cy))
    ]
    return max(*ends, 0.5) / (FRAMES - 1) / (scene.side * FINER)


def draw_walk(scene: Scene) -> Images:
    """Draw the frames."""
    placed, background = walk(scene)
    return tuple(_averaged([body], background, scene.side, scene.stream) for body in placed)


def worded_walk(scene: Scene, wording: int) -> ask.ChartQuestion:
    """Ask for the direction, in words or with lettered options."""
    words = tuple(world.DIRECTIONS)
    right = words[scene.answer]
    if wording == 1:
        return ask.motion(words, right, "text")
    walk(scene)  # what follows is drawn behind the picture's own numbers
    return ask.motion(scene.stream.shuffled(words), right, "letter")


def _offset(axis: str) -> Attribute:
    return Attribute(
        name=f"chart/offset-{axis}",
        unit="share of the side",
        about=f"how far two creatures are apart along the {axis} axis, as a share of the side",
        questions=("On which side of the other creature is this one?",) * 2,
        options=("left", "right") if axis == "horizontal" else ("above", "below"),
        easy=0.4,
        hard=0.008,
        draw=partial(draw_couple, axis),
        worded=partial(worded_couple, axis),
        realised=partial(realised_offset, axis),
        most=4 / 3,
        typical_width=TYPICAL_WIDTH,
        side=SIDE,
        least_side=LEAST_SIDE,
        confounds=("the distance along the other axis is drawn at random, and so is which body is larger",),
    )


OFFSET_HORIZONTAL, OFFSET_VERTICAL = _offset("horizontal"), _offset("vertical")
CHART_MOTION = Attribute(
    name="chart/motion",
    unit="share of the side a frame",
    about="the step of a creature from frame to frame, as a share of the side",
    questions=("Which way does the creature move?",) * 2,
    options=tuple(world.DIRECTIONS),
    easy=0.17,
    hard=0.004,
    draw=draw_walk,
    worded=worded_walk,
    realised=realised_step,
    images=FRAMES,
    clip=True,
    typical_width=TYPICAL_WIDTH,
    side=SIDE,
    least_side=LEAST_SIDE,
    confounds=("the middle of the path is random, so that one frame alone does not tell",),
)
