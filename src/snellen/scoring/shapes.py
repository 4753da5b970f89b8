"""Gold and answer of a question with coordinates as shapes in pixels of its image, for pages that draw them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.scoring import grounding
from snellen.scoring.answers.grounded import Located, Value
from snellen.scoring.answers.video_moment import Moment, VideoMoment
from snellen.scoring.areas import run_lengths
from snellen.scoring.coordinates import is_grounded
from snellen.types import Image, Sample, Score


class Shape(Struct, frozen=True):
    """A point (two numbers), a box (left, top, right, bottom), a polygon (x and y in turn) or a mask, in pixels of the image.

    Of a video the numbers are start and end. The label is untrusted. `right` is None for gold. A mask has COCO's run lengths without compression and covers the image.
    """

    numbers: tuple[float, ...] = ()
    label: str = ""
    right: bool | None = None
    mask: Mapping[str, Any] | None = None


class Shapes(Struct, frozen=True):
    """Gold and answer on an image of this size, EXIF rotation applied, with the score's verdict and measure in words.

    Moments of a video have no image, and a `unit`: `s` or `frames`.
    """

    image: Image | None
    size: tuple[int, int]
    gold: tuple[Shape, ...]
    answer: tuple[Shape, ...] = ()
    verdict: str = ""
    measure: str = ""
    unit: str = ""


def shapes_of(sample: Sample, score: Score | None = None) -> Shapes | None:
    """Return gold and answer in the spaces that the run recorded; None for other kinds of answers and without an image.

    Raises:
        DataError: the gold answer is no box or point in its space, or no moment.
    """
    if sample.kind == "moment":
        return _moments(sample, score)
    image = next((part for part in sample.prompt.parts if isinstance(part, Image)), None)
    frames = grounding.frames_of(sample) if is_grounded(sample) else None
    if image is None or frames is None or (size := grounding.size_of(sample)) is None:
        return None
    gold = grounding.gold_of(sample.target, sample.kind, frames[1])
    parts = [(one.mask or list(map(float, one.numbers)), one.label) for one in gold] or [(str(sample.target), "")]
    golds = tuple(shape for part, label in parts if (shape := _shape(part, label)) is not None)
    if score is None:
        return Shapes(image, size, golds)
    return Shapes(image, size, golds, _answer_of(sample, score, gold, size), score.verdict, _measure(sample, score))


def _moments(sample: Sample, score: Score | None) -> Shapes:
    gold = VideoMoment().parse_gold(sample.target)
    read = None if score is None or score.extracted is None else VideoMoment().parse(str(score.extracted))
    golds = (Shape((float(gold.start), float(gold.end))),)
    if score is None or not isinstance(read, Moment):
        return Shapes(None, (0, 0), golds, verdict="" if score is None else score.verdict, unit=gold.unit)
    answer = (Shape((float(read.start), float(read.end)), right=score.verdict == "correct"),)
    return Shapes(None, (0, 0), golds, answer, score.verdict, _measure(sample, score), gold.unit)


def _answer_of(sample: Sample, score: Score, gold: Value, size: tuple[int, int]) -> tuple[Shape, ...]:
    """Return the answer that was read, each part with whether it is right."""
    if sample.kind == "boxes":
        boxes = msgspec.json.decode(score.detail.get(grounding.BOXES, "[[]]"))[0]
        right = grounding.right_places(tuple(Located(_exact(box[:4]), str(box[4])) for box in boxes), gold)
        return tuple(Shape(tuple(box[:4]), str(box[4]), at in right) for at, box in enumerate(boxes))
    read = score.extracted
    parts = read if isinstance(read, list) and isinstance((*read, 0)[0], (list, str)) else [read]
    shapes = [shape for part in parts if (shape := _shape(part, "", score.verdict == "correct")) is not None]
    if sample.kind != "points":
        return tuple(shapes)
    inside = [grounding.is_right_point(_exact(one.numbers), sample, gold, size) for one in shapes]
    return tuple(structs.replace(one, right=is_right) for one, is_right in zip(shapes, inside, strict=True))


def _shape(part: Any, label: str, right: bool | None = None) -> Shape | None:
    """Return a list of numbers, or a mask as it is written, as a shape; None for what is neither."""
    if isinstance(part, str):
        mask = run_lengths(part)
        return None if mask is None else Shape((), label, right, mask)
    return Shape(tuple(part), label, right) if part else None


def _measure(sample: Sample, score: Score) -> str:
    if grounding.IOU in score.detail:
        return f"IoU {float(score.detail[grounding.IOU]):.3f}"
    if grounding.DISTANCE in score.detail:
        return f"{float(score.detail[grounding.DISTANCE]):,.1f} pixels from the gold point"
    word = {"boxes": "F1", "points": "share"}.get(sample.kind)
    return f"{word} {score.value or 0:.3f}" if word else ""


def _exact(numbers: Any) -> tuple[Fraction, ...]:
    """Return the fractions that were scored of the floats of a score."""
    return tuple(Fraction(number).limit_denominator(1_000_000) for number in numbers)
