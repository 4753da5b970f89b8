"""Letters: ten Sloan letters as own outlines without a font, and five random consonants to be written down."""

from __future__ import annotations

from math import pi

import numpy as np

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.drawing import Raster, Shape, arc, box, segment, union

SLOAN = ("C", "D", "H", "K", "N", "O", "R", "S", "V", "Z")
"""Source: Sloan 1959, American Journal of Ophthalmology 48:807; as high and as wide as five strokes."""


def outline(letter: str, left: float, top: float, stroke: float) -> Shape:
    """Return a letter of 5 x 5 strokes, whose upper left corner is at (left, top)."""

    def line(x0: float, y0: float, x1: float, y1: float) -> Shape:
        return segment(left + x0 * stroke, top + y0 * stroke, left + x1 * stroke, top + y1 * stroke, stroke)

    def curve(cx: float, cy: float, radius: float, start: float, end: float) -> Shape:
        return arc(left + cx * stroke, top + cy * stroke, radius * stroke, start, end, stroke)

    left_stem, right_stem = line(0.5, 0, 0.5, 5), line(4.5, 0, 4.5, 5)
    parts: dict[str, list[Shape]] = {
        "C": [curve(2.5, 2.5, 2, 0.2527, 2 * pi - 0.2527)],
        "D": [left_stem, line(0, 0.5, 2.5, 0.5), line(0, 4.5, 2.5, 4.5), curve(2.5, 2.5, 2, -pi / 2, pi / 2)],
        "H": [left_stem, right_stem, line(0, 2.5, 5, 2.5)],
        "K": [left_stem, line(0.8, 3.2, 4.5, 0.2), line(1.9, 2.1, 4.4, 5.0)],
        "N": [left_stem, right_stem, line(0.5, 0.4, 4.5, 4.6)],
        "O": [curve(2.5, 2.5, 2, -pi, pi)],
        "R": [left_stem, line(0, 0.5, 3.5, 0.5), line(0, 2.5, 3.5, 2.5), curve(3.5, 1.5, 1, -pi / 2, pi / 2), line(2.2, 2.6, 4.4, 5.0)],
        "S": [
            *(line(1.5, 0.5, 4.6, 0.5), line(1.5, 2.5, 3.5, 2.5), line(0.4, 4.5, 3.5, 4.5)),
            *(curve(1.5, 1.5, 1, pi / 2, 3 * pi / 2), curve(3.5, 3.5, 1, -pi / 2, pi / 2)),
        ],
        "V": [line(0.5, 0, 2.5, 4.9), line(4.5, 0, 2.5, 4.9)],
        "Z": [line(0, 0.5, 5, 0.5), line(0, 4.5, 5, 4.5), line(4.5, 0.6, 0.5, 4.4)],
    }  # fmt: skip
    strokes, frame = union(*parts[letter]), box(left + 2.5 * stroke, top + 2.5 * stroke, 5 * stroke, 5 * stroke)
    return lambda x, y: np.maximum(strokes(x, y), frame(x, y))  # slanted strokes end at the box


def draw_letter(scene: Scene) -> Images:
    """Draw one letter on white paper, somewhere in the picture."""
    raster = Raster(scene.side, scene.side, PAPER)
    cx, cy = somewhere(scene.side, scene.stream, 2.6 * scene.value)
    left, top, size = cx - 2.5 * scene.value, cy - 2.5 * scene.value, 5 * scene.value
    shape = outline(SLOAN[scene.answer], left, top, scene.value)
    raster.fill(shape, (left - 1, top - 1, left + size + 1, top + size + 1), INK)
    return (raster.pixels(),)


LETTER = Attribute(
    name="letter",
    unit="px",
    about="the stroke of a letter that is five strokes high, in pixels",
    questions=("Which letter does the picture show?", "Which letter is drawn here?"),
    options=SLOAN,
    easy=32.0,
    hard=0.5,
    draw=draw_letter,
    people="1 arc minute (Sloan 1959; Bach 1996)",
    confounds=("letters differ in how easily they are read; each comes equally often",),
)


CONSONANTS = tuple(letter for letter in SLOAN if letter != "O")
LENGTH = 5
ADVANCE = 6.0
"""From letter to letter, in strokes: five of the letter and one between."""


def word_of(scene: Scene) -> str:
    """Return the letters of a scene."""
    return "".join(scene.stream.pick(CONSONANTS) for _ in range(LENGTH))


def draw_text(scene: Scene) -> Images:
    """Draw five letters side by side; the level is their height, five strokes."""
    word = word_of(scene)
    stroke = scene.value / 5.0
    width = (LENGTH * ADVANCE - 1.0) * stroke
    raster = Raster(scene.side, scene.side, PAPER)
    cx, cy = somewhere(scene.side, scene.stream, width / 2)
    top = cy - 2.5 * stroke
    for index, letter in enumerate(word):
        left = cx - width / 2 + index * ADVANCE * stroke
        raster.fill(
            outline(letter, left, top, stroke), (left - 1, top - 1, left + 5 * stroke + 1, top + 5 * stroke + 1), INK
        )
    return (raster.pixels(),)


TEXT = Attribute(
    name="text",
    unit="px",
    about="the height of printed letters, in pixels; all five of a word must be read",
    questions=(
        "Which five letters does the picture show? Answer with the letters.",
        "Read the five letters. Answer with them alone.",
    ),
    options=(),
    form="written",
    easy=40.0,
    hard=2.0,
    draw=draw_text,
    written=word_of,
    people="critical print size near 0 logMAR (Bach 2007)",
    confounds=("own outlines in capitals: print in other fonts has other thresholds",),
)
