"""The chart's creatures and scanned digits, asked in the words that the embedded model knows.

The questions are those of the embedded model, which knows no others. A name is true, or that of a sibling from which the
creature differs in this mark alone. The other marks keep their full contrast.

Scanned digits, blurred or in noise, asked in the words that the embedded model knows.
The scans are those of `chart/digits` that the model was not trained on.

Where the chart's creatures are and where they move, asked in the words that the embedded model knows.
Bodies are drawn at four times the side and averaged, so that an offset of a quarter of a pixel shows as grey edges.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from snellen.benchmarks.acuity.attribute import Attribute, Images, Pixels, Scene
from snellen.benchmarks.acuity.drawing import Array
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.creatures import FRAMES, wrong
from snellen.benchmarks.chart.digits import enlarged, split
from snellen.benchmarks.chart.drawing import Canvas
from snellen.benchmarks.chart.rng import Stream, normals
from snellen.benchmarks.chart.world import Dials, Placed

SIDE, LEAST_SIDE = 96, 48
"""Pixels: what the embedded model is usually sent, and what it is shown after resizing."""
TYPICAL_WIDTH = 0.8
"""Decades from 5 to 95 % seen: most curves of the embedded model rise slowly. Surveys of 768 answers gave 0.4 to 1.1."""
MARKS = {"crest": "class", "belt": "genus", "eye": "species"}


def faded(value: float) -> int:
    """Return the thousandths by which a mark is moved towards grey for this share of its full contrast."""
    return 1000 - max(1, round(1000 * value))


def draw_mark(mark: str, scene: Scene) -> Images:
    """Draw a creature of which one mark is faded."""
    creature = world.creature(scene.stream)
    fades = [faded(scene.value) if mark == each else 0 for each in MARKS]
    canvas = world.portrait(creature, scene.stream, scene.side, Dials(), marks=(fades[0], fades[1], fades[2]))
    return (world.finished(canvas, scene.stream),)


def worded_mark(mark: str, scene: Scene, wording: int) -> ask.ChartQuestion:
    """Ask whether a name is true: that of the creature, or that of a sibling."""
    creature, level, true = world.creature(scene.stream), MARKS[mark], scene.answer == 0
    name = creature.name(level) if true else wrong(creature, level, scene.stream)
    return ask.truth(level, name, ask.TRUTH_FORMS[wording - 1], true)


def alternatives_of_mark(mark: str, scene: Scene) -> tuple[str, ...]:
    """Return the creature's name at the mark's level, and that of a sibling from which it differs in this mark alone."""
    creature, level = world.creature(scene.stream), MARKS[mark]
    return creature.name(level), wrong(creature, level, scene.stream)


def _attribute(mark: str, description: str) -> Attribute:
    return Attribute(
        name=f"chart/{mark}",
        unit="contrast",
        about=f"the contrast of a creature's {mark}, {description}, as a share of the full one",
        questions=(f"Is the {MARKS[mark]} of this creature …?", f"The {MARKS[mark]} of this creature is …."),
        options=("yes", "no"),
        easy=1.0,
        hard=0.02,
        draw=partial(draw_mark, mark),
        worded=partial(worded_mark, mark),
        alternatives=partial(alternatives_of_mark, mark),
        realised=lambda scene: (1000 - faded(scene.value)) / 1000,
        most=4 / 3,
        typical_width=TYPICAL_WIDTH,
        side=SIDE,
        least_side=LEAST_SIDE,
        confounds=("a false name is that of a sibling: the other marks tell nothing, and keep their contrast",),
    )


CREST = _attribute("crest", "which tells the class")
BELT = _attribute("belt", "which tells the genus")
EYE = _attribute("eye", "which tells the species")


LETTERS = ("A", "B", "C", "D")


def _scan(stream: Stream, side: int) -> tuple[Array, int]:
    """Return a scan at random, [side, side] grey levels, and its digit."""
    scans, labels = _test_scans()
    index = _scan_number(stream)
    return enlarged(scans[index], side).astype(np.float64), int(labels[index])


def _scan_number(stream: Stream) -> int:
    return stream.below(len(_test_scans()[0]))


def exemplar_digit(scene: Scene) -> int:
    """Return the number of the scan."""
    return _scan_number(scene.stream)


@lru_cache(maxsize=1)
def _test_scans() -> tuple[np.ndarray, np.ndarray]:
    return split("test")


@lru_cache(maxsize=64)
def _blur_matrix(side: int, sigma: float) -> Array:
    """Return [side, side]: a Gaussian of this standard deviation along one axis, edges repeated."""
    reach = int(4 * sigma + 0.5) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    columns = np.clip(np.arange(side)[:, None] + np.arange(-reach, reach + 1)[None, :], 0, side - 1)
    cells = (np.arange(side)[:, None] * side + columns).reshape(-1)
    counts = np.bincount(cells, np.tile(weights / weights.sum(), side), side * side)
    return counts.astype(np.float64).reshape(side, side)


def blurred_digit(scene: Scene) -> Images:
    """Draw a scan under a Gaussian blur."""
    values, _ = _scan(scene.stream, scene.side)
    matrix = _blur_matrix(scene.side, scene.value)
    return (np.clip(np.rint(matrix @ values @ matrix.T), 0, 255).astype(np.uint8),)


def noisy_digit(scene: Scene) -> Images:
    """Draw a scan in white noise; values below 0 and above 255 are cut off."""
    values, _ = _scan(scene.stream, scene.side)
    noise = scene.value * normals(scene.stream, scene.side, scene.side)
    return (np.clip(np.rint(values + noise), 0, 255).astype(np.uint8),)


def worded_digit(scene: Scene, wording: int) -> ask.ChartQuestion:
    """Ask which of four digits it is; the answer is the place of the right one."""
    right, *options = alternatives_of_digit(scene)
    options.insert(scene.answer, right)
    return ask.digit_choice(options, right)


def alternatives_of_digit(scene: Scene) -> tuple[str, ...]:
    """Return the digit of the scan and three others."""
    _, digit = _scan(scene.stream, scene.side)
    others = scene.stream.sample([each for each in range(10) if each != digit], 3)
    return str(digit), *map(str, others)


DIGIT_BLUR = Attribute(
    name="chart/digit-blur",
    unit="px",
    about="the blur of a scanned digit, as the standard deviation in pixels",
    questions=("Which digit is this?",) * 2,
    options=LETTERS,
    easy=0.5,
    hard=160.0,
    draw=blurred_digit,
    worded=worded_digit,
    alternatives=alternatives_of_digit,
    exemplar=exemplar_digit,
    side=SIDE,
    least_side=LEAST_SIDE,
    confounds=("the blur is in pixels of the picture that is sent: measure several sides to see what resizing does",),
)
DIGIT_NOISE = Attribute(
    name="chart/digit-noise",
    unit="code values",
    about="the noise over a scanned digit, as the standard deviation in code values",
    questions=("Which digit is this?",) * 2,
    options=LETTERS,
    easy=8.0,
    hard=800.0,
    draw=noisy_digit,
    worded=worded_digit,
    alternatives=alternatives_of_digit,
    exemplar=exemplar_digit,
    typical_width=TYPICAL_WIDTH,
    side=SIDE,
    least_side=LEAST_SIDE,
    confounds=("values are cut off at 0 and 255, so that strong noise is less strong in the picture",),
)


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
