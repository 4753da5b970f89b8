"""Drawings of acuity with the alternatives that a picture decides between, for encoders, which read no question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import DECIMALS, Attribute, Pixels, Scene
from snellen.benchmarks.acuity.conditions import Condition
from snellen.benchmarks.chart.rng import Stream

Part: TypeAlias = Literal["train", "test"]


class LabelledDrawing(Struct, frozen=True, eq=False):
    """One drawing.

    Attributes:
        pixels: [height, width] or [height, width, 3] code values.
        level: that the pixels have, in decades.
        names: what the picture may show, the right name first.
    """

    pixels: Pixels
    level: float
    names: tuple[str, ...]


def refusal(attribute: Attribute) -> str | None:
    """Return why no readout of one picture's features can answer an attribute's questions; None if one can."""
    if attribute.clip:
        return "its pictures are the frames of a clip, and an encoder sees one picture at a time"
    if attribute.images > 1 or attribute.form == "same-different":
        return "it is about several pictures, and an encoder sees one picture at a time"
    if not attribute.options:
        return "its answer is written, so that there are no alternatives to separate"
    if attribute.worded is not None and attribute.alternatives is None:
        return "the words of the question decide what is right, and an encoder reads no words"
    return None


def drawings(
    condition: Condition, level: float, part: Part, number: int, *, seed: int, scale: float = 0.0
) -> Iterator[LabelledDrawing]:
    """Draw a condition at one level, each picture anew; right options come equally often, to within one.

    Training and test pictures have streams of their own, and show different recorded things (scans), so that no picture
    is in both.

    Args:
        condition: what is drawn; `refusal` of its attribute must be None.
        level: one of the attribute's levels, in decades.
        part: train or test.
        number: of drawings.
        seed: the same seed gives the same pictures.
        scale: length from another condition, as in `Scene`.
    """
    attribute = condition.attribute
    for index in range(number):
        answer = index % len(attribute.options)
        key = f"{condition.key}/x{level:+.{DECIMALS}f}/{part}/{index}"
        retry = 0
        while True:
            streams = partial(Stream, "acuity-features", seed, key, retry)
            scene = partial(_scene, condition, level, answer, scale, streams)
            if attribute.exemplar is None or attribute.exemplar(scene()) % 2 == (part == "test"):
                break
            retry += 1
        names = _options(attribute, answer) if attribute.alternatives is None else attribute.alternatives(scene())
        realised = level if attribute.realised is None else attribute.level(attribute.realised(scene()))
        (pixels,) = attribute.draw(scene())
        yield LabelledDrawing(pixels, realised, names)


def _scene(condition: Condition, level: float, answer: int, scale: float, streams: Callable[[], Stream]) -> Scene:
    """Return a scene with a stream at its beginning."""
    return Scene(condition.attribute.value(level), answer, streams(), condition.side, condition.variant, scale)


def _options(attribute: Attribute, answer: int) -> tuple[str, ...]:
    others = (option for place, option in enumerate(attribute.options) if place != answer)
    return attribute.options[answer], *others
