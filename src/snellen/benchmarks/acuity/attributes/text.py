"""Text: five random consonants to be written down; the level at which nine in ten are read is the critical print size."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.attributes.letter import SLOAN, outline
from snellen.benchmarks.acuity.drawing import Raster

CONSONANTS = tuple(letter for letter in SLOAN if letter != "O")
LENGTH = 5
ADVANCE = 6.0
"""From letter to letter, in strokes: five of the letter and one between."""


def word_of(scene: Scene) -> str:
    """Return the letters of a scene."""
    return "".join(scene.stream.pick(CONSONANTS) for _ in range(LENGTH))


def draw(scene: Scene) -> Images:
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
    draw=draw,
    written=word_of,
    people="critical print size near 0 logMAR (Bach 2007)",
    confounds=("own outlines in capitals: print in other fonts has other thresholds",),
)
