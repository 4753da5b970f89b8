"""Scores of answers with coordinates: overlap of boxes, points in boxes and masks, distances, sets of boxes.

Areas are those of real coordinates (no added pixel), and the edges of a box belong to it. Everything is figured in pixels of
the image in the data, whatever the space of reply and gold answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from snellen.errors import DataError, SnellenError
from snellen.media.decode import read_header
from snellen.media.pdf import PdfPage
from snellen.scoring.answers.base import AnswerContext
from snellen.scoring.answers.grounded import INVERTED, Area, Fault, Frame, Grounded, Located, Value
from snellen.scoring.answers.structure import json_in
from snellen.scoring.answers.video_moment import Moment, VideoMoment
from snellen.scoring.answers.video_moment import overlap as moment_overlap
from snellen.scoring.answers.written_regions import areas_of, as_polygon, regions_of, tags_of
from snellen.scoring.areas import area_overlap, run_lengths
from snellen.scoring.coordinates import MOST, REPLY_SPACE, SIDES, Coordinates, Numbers, SentSize, parse_coordinates
from snellen.scoring.extract import Reading, read_as
from snellen.scoring.replies.reply import outside_thinking
from snellen.types import Blob, Image, Sample, Score

GOLD_SPACE, SENT_SIZE = "box.gold_space", "box.sent_size"
BOX_FOR_POINT, ALL_INSIDE = "box.for_point", "box.all_inside"
"""Names of meta. No column of a user's table has such names."""
IOU, CENTRE, DISTANCE, DISTANCE_SHARE = "box.iou", "box.centre_in_box", "box.distance_px", "box.distance_share"
PRECISION, RECALL, BOXES, ODD = "box.precision", "box.recall", "box.boxes", "box.odd"
META = (
    *(REPLY_SPACE, GOLD_SPACE, SENT_SIZE, BOX_FOR_POINT, ALL_INSIDE),
    *(IOU, CENTRE, DISTANCE, DISTANCE_SHARE, PRECISION, RECALL, BOXES, ODD),
)
"""Names of meta, and of what a score holds beside its value."""
OUTSIDE, TINY, NOT_ODD = "outside", "below 1", "no"
"""Signs of a wrong space, with inverted corners: a reply's coordinates lie outside of the image, or none is above 1."""
ABSENT = "absent"
"""The gold answer of a point where there is nothing to point at: coordinates below 0 say so."""
SLACK = Fraction(201, 200)
OVERLAP = Fraction(1, 2)
NEAR = 0.01
"""Maximum distance of two points that are the same answer, as a share of the image's diagonal."""
_UNIT = (1, 1)


def score_grounded(sample: Sample, reply: str) -> Score:
    """Score a reply with coordinates; a reply without exactly one answer is invalid and worth 0.

    A box is right if it overlaps the gold box by half or more (intersection over union); `detail` has the overlap and whether
    its centre lies in the gold box. A point is right in the gold box, or near the gold point; `detail` has the distance. Of
    several points the share inside is the score (or whether all are, where that is declared), of several boxes the F1 at an overlap of half.
    """
    frames = frames_of(sample)
    if frames is None:
        return Score(None, None, "unscored", "the size of the image is not known")
    reply_frame, gold_frame = frames
    gold = gold_of(sample.target, sample.kind, gold_frame)
    reading = _read(sample, reply, reply_frame)
    fault = reading.value if isinstance(reading.value, Fault) else None
    share: float | Fault = 0.0
    if sample.kind == "region" and reading.value is not None and fault is None:
        share = area_overlap(reading.value, gold, reply_frame.size)
        fault = share if isinstance(share, Fault) else None
    if reading.value is None or fault:
        reason = str(fault) if fault else reading.reason
        odd = {ODD: INVERTED} if reason == INVERTED else {}
        return Score(0.0, None, "invalid", reason, {**_nothing(sample.kind, gold), **odd})
    if isinstance(share, float) and sample.kind == "region":
        value, detail = float(share >= OVERLAP), {IOU: str(share)}
    else:
        value, detail = _compared(sample, reading.value, gold, reply_frame.size)
    detail[ODD] = _oddness(reading.value, reply_frame)
    verdict = "correct" if value == 1 else "partial" if value > 0 else "wrong"
    return Score(value, _plain(reading.value), verdict, reading.reason, detail)  # type: ignore[arg-type]


def score_moment(answer: VideoMoment, target: Any, reply: str) -> Score:
    """Score a reply with a moment of a video: right if it overlaps the gold moment by half or more; `detail` has the overlap."""
    gold, reading = answer.parse_gold(target), read_as(answer, reply)
    value: Moment | Fault | None = reading.value
    if isinstance(value, Moment) and value.unit not in ("", gold.unit):
        value = Fault(f"a moment in {value.unit}, and one in {gold.unit} was asked for")
    if not isinstance(value, Moment):
        return Score(0.0, None, "invalid", reading.reason if value is None else str(value), {IOU: "0.0"})
    share = moment_overlap(value, gold)
    detail = {IOU: str(float(share))}
    if share < OVERLAP:
        return Score(0.0, answer.show(value), "wrong", reading.reason, detail)
    return Score(1.0, answer.show(value), "correct", reading.reason, detail)


def grounded_reading(sample: Sample, reply: str) -> Reading | None:
    """Return how a reply is read; None where the size of the image is not known."""
    frames = frames_of(sample)
    return None if frames is None else _read(sample, reply, frames[0])


def _read(sample: Sample, reply: str, frame: Frame) -> Reading:
    several, centre = sample.kind in ("boxes", "points"), bool(sample.meta.get(BOX_FOR_POINT))
    answer = Grounded(AnswerContext(), frame, SIDES[sample.kind], several=several, centre=centre)
    if sample.kind == "region":
        area = Area(frame=frame)
        masks = [
            (at + one.start, at + one.end) for at, end in outside_thinking(reply) for one in json_in(reply[at:end])
        ]
        if masks and '"counts"' in reply:  # plain reading takes signs of compressed counts for markup
            value = area.value_of([one for first, last in masks for one in areas_of(reply[first:last])])
            if value is not None:
                return Reading(value, None, (), "declared", tuple(masks))
        return read_as(area, reply)
    tags = [(at + first, at + last) for at, end in outside_thinking(reply) for first, last in tags_of(reply[at:end])]
    if tags:
        value = answer.value_of([region for first, last in tags for region in regions_of(reply[first:last])])
        if value is not None:
            return Reading(value, None, (), "declared", tuple(tags))
    if sample.kind == "boxes" and "{" in reply:  # plain reading takes braces, and the labels in them, for markup
        quoted = reply if '"' in reply else reply.replace("'", '"')
        parts = [(at, one) for at, end in outside_thinking(quoted) for one in json_in(quoted[at:end])]
        value = answer.value_of([region for _, one in parts for region in regions_of(one.value)])
        if value is not None:
            return Reading(value, None, (), "declared", tuple((at + one.start, at + one.end) for at, one in parts))
    return read_as(answer, reply)


def gold_of(target: Any, kind: str, frame: Frame) -> Value:
    """Return the gold boxes or points of a cell. Raises DataError for a cell that holds none."""
    if kind == "region":
        areas = areas_of(target)
        area = Area(frame=frame).value_of(areas)
        damaged = isinstance(area, tuple) and any(one.mask and run_lengths(one.mask) is None for one in area)
        if area is None or isinstance(area, Fault) or damaged:
            raise DataError(
                f"the gold answer {str(target)[:80]!r} is no outline or mask"
                + (f": {area}" if area and not damaged else "")
            )
        return area
    if str(target).strip() == ("[]" if kind == "boxes" else ABSENT):
        return ()
    if kind in ("point", "points") and run_lengths(str(target)) is not None:
        return ()
    regions = as_polygon(regions_of(target)) if kind in ("point", "points") else regions_of(target)
    located = [frame.located(region) for region in regions]
    value = tuple(one for one in located if isinstance(one, Located))
    fault = next((one for one in located if isinstance(one, Fault)), None)
    lengths = {len(one.numbers) for one in value}
    wrong = lengths - {4} if kind in ("box", "boxes") else {length for length in lengths if length % 2 or length < 2}
    if fault or not value or (kind == "box" and len(value) > 1) or wrong:
        raise DataError(f"the gold answer {str(target)[:80]!r} is no {kind}" + (f": {fault}" if fault else ""))
    return value


def require_gold(target: Any, kind: str, space: Coordinates) -> None:
    """Raise DataError for a gold cell that holds no box or point of its kind; sizes do not count."""
    gold_of(target, kind, Frame(structs.replace(space, space="unit"), _UNIT))


def overlap(first: Numbers, second: Numbers) -> Fraction:
    """Return the intersection over union of two boxes of left, top, right, bottom.

    >>> overlap((0, 0, 2, 2), (1, 0, 3, 2))
    Fraction(1, 3)
    """
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    shared = wide * high if wide > 0 and high > 0 else Fraction(0)
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)) - shared
    return Fraction(shared) / union if union else Fraction(0)


def is_inside(point: Numbers, box: Numbers) -> bool:
    """Return True for a point in a box or on its edge."""
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def matched(predicted: Sequence[Numbers], gold: Sequence[Numbers]) -> int:
    """Count the pairs of a greedy matching by falling overlap, of half or more; each box is matched once."""
    return len(_paired(predicted, gold))


def _paired(predicted: Sequence[Numbers], gold: Sequence[Numbers]) -> set[int]:
    """Return the places of the predicted boxes that `matched` counts.

    Overlaps are compared as floats; exactly where their rounding could decide, near a half and between close ones.
    """
    if not predicted or not gold:
        return set()
    first, second = (np.array([[float(side) for side in box] for box in boxes]) for boxes in (predicted, gold))
    wide, high = (
        np.minimum(first[:, None, side + 2], second[:, side + 2]) - np.maximum(first[:, None, side], second[:, side])
        for side in (0, 1)
    )
    both = np.concatenate((first, second))
    shared = np.maximum(wide, 0) * np.maximum(high, 0)
    areas = [(boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) for boxes in (first, second)]
    narrowest = float(np.min(both[:, 2:] - both[:, :2]))
    slack = 1e-14 * (1 + float(np.abs(both).max()) / narrowest) if narrowest > 0 else 2.0
    with np.errstate(all="ignore"):
        shares = np.nan_to_num(shared / (areas[0][:, None] + areas[1] - shared), nan=float(OVERLAP))
    rows, columns = np.nonzero(shares >= float(OVERLAP) - slack)
    order = np.argsort(-shares[rows, columns], kind="stable")
    falling = shares[rows, columns][order]
    pairs = list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))
    ends = [*(np.flatnonzero(np.diff(falling) < -2 * slack) + 1).tolist(), len(pairs)]
    exact, half = _exact_overlap(predicted, gold)
    used, taken, start = set[int](), set[int](), 0
    for end in ends:
        close = [pair for pair in pairs[start:end] if pair[0] not in used and pair[1] not in taken]
        if len(close) > 1 or (close and falling[start] <= float(OVERLAP) + slack):
            close = [pair for share, pair in sorted((-exact(*pair), pair) for pair in close) if -share >= half]
        for at, place in close:
            if at not in used and place not in taken:
                used.add(at)
                taken.add(place)
        start = end
    return used


def _exact_overlap(predicted: Sequence[Numbers], gold: Sequence[Numbers]) -> tuple[Callable[[int, int], int], int]:
    """Return what gives the overlap of a predicted and a gold box as a whole number, equal only for equal overlaps; and a half."""
    scale = math.lcm(*{Fraction(side).denominator for box in (*predicted, *gold) for side in box})
    first, second = ([[int(side * scale) for side in box] for box in boxes] for boxes in (predicted, gold))
    areas = [[(box[2] - box[0]) * (box[3] - box[1]) for box in boxes] for boxes in (first, second)]
    bits = 2 * (max(areas[0]) + max(areas[1])).bit_length() + 1  # different fractions differ by more than their step

    def exact(at: int, place: int) -> int:
        one, other = first[at], second[place]
        wide, high = (min(one[side + 2], other[side + 2]) - max(one[side], other[side]) for side in (0, 1))
        shared = max(wide, 0) * max(high, 0)
        return (shared << bits) // (areas[0][at] + areas[1][place] - shared)

    return exact, 1 << (bits - 1)


def right_places(value: Value, gold: Value) -> set[int]:
    """Return the places of the boxes of a set that match one of the gold answer, within a label where the gold has labels."""
    labels = {one.label.casefold() for one in gold}
    right: set[int] = set()
    for label in labels:
        of_label = [at for at, one in enumerate(value) if labels == {""} or one.label.casefold() == label]
        known = [one.numbers for one in gold if one.label.casefold() == label and not one.crowd]
        right |= {of_label[at] for at in _paired([value[at].numbers for at in of_label], known)}
    return right


def _compared(sample: Sample, value: Value, gold: Value, size: tuple[int, int]) -> tuple[float, dict[str, Any]]:
    """Return the score of a value, and what stands beside it."""
    if sample.kind == "boxes":
        return _set_score(value, gold)
    numbers = value[0].numbers if value else ()
    if sample.kind == "box":
        share, middle = overlap(numbers, gold[0].numbers), _middle(numbers)
        detail = {IOU: str(float(share)), CENTRE: str(float(is_inside(middle, gold[0].numbers)))}
        return float(share >= OVERLAP), detail
    is_right = [is_right_point(one.numbers, sample, gold, size) for one in value]
    if sample.kind == "points":
        together = sum(is_right) / len(is_right) if is_right else 0.0
        return (float(together == 1) if sample.meta.get(ALL_INSIDE) else together), {}
    points = [one.numbers for one in gold if len(one.numbers) == 2]
    detail = {}
    if points and numbers:
        distance = min(math.dist(numbers, point) for point in points)
        detail = {DISTANCE: str(distance), DISTANCE_SHARE: str(distance / math.hypot(*size))}
    return float(any(is_right)), detail


def is_right_point(point: Numbers, sample: Sample, gold: Value, size: tuple[int, int]) -> bool:
    """Return True for a point in a gold box, polygon or mask, edges included, or near a gold point."""
    if sample.target == ABSENT:
        return max(point) < 0
    if (mask := run_lengths(str(sample.target))) is not None:
        if not all(0 <= number <= side for number, side in zip(point, size, strict=True)):
            return False
        high, wide = mask["size"]
        column, row = (
            min(round(number * side / whole), side - 1)
            for number, side, whole in zip(point, (wide, high), size, strict=True)
        )
        return _is_set(mask["counts"], column * high + row)
    near = sample.meta.get("tolerance")
    reach = (NEAR if near is None else float(near)) * math.hypot(*size)
    return any(
        math.dist(point, one.numbers) <= reach
        if len(one.numbers) == 2
        else is_inside(point, one.numbers)
        if len(one.numbers) == 4
        else is_in_polygon(point, one.numbers)
        for one in gold
    )


def is_in_polygon(point: Numbers, corners: Numbers) -> bool:
    """Return True for a point in a polygon of x, y, x, y … or on its edge (even-odd rule)."""
    x, y = point
    inside = False
    pairs = list(zip(corners[::2], corners[1::2], strict=True))
    for (x1, y1), (x2, y2) in zip(pairs, (*pairs[1:], pairs[0]), strict=True):
        cross = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
        if cross == 0 and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2):
            return True
        if (y1 > y) != (y2 > y) and (cross > 0) == (y2 > y1):
            inside = not inside
    return inside


def _is_set(counts: Sequence[int], place: int) -> bool:
    """Return True if the pixel at a place lies in a run of the mask: runs without and with it take turns."""
    ends = np.cumsum(counts)
    return bool(int(np.searchsorted(ends, place, side="right")) % 2 and place < ends[-1])


def _oddness(value: Value, frame: Frame) -> str:
    """Return the sign of a wrong space that coordinates show, if one does."""
    extent = frame.coordinates.extent(frame.size, frame.sent)
    sides = [(number, frame.size[at % 2], extent[at % 2]) for one in value for at, number in enumerate(one.numbers)]
    if any(number < 0 or number > SLACK * side for number, side, _ in sides):
        return OUTSIDE
    is_tiny = sides and frame.coordinates.space != "unit" and all(number * most <= side for number, side, most in sides)
    return TINY if is_tiny else NOT_ODD


def _set_score(value: Value, gold: Value) -> tuple[float, dict[str, Any]]:
    """Return the F1 of a set of boxes, with precision and recall; boxes match within a label where the gold has labels.

    As COCO has it, a crowd need not be found, and boxes that lie in it by half or more count neither way.
    """
    right, crowds = right_places(value, gold), [one for one in gold if one.crowd]
    ignored = [at for at, one in enumerate(value) if at not in right and any(_lies_in(one, crowd) for crowd in crowds)]
    hits, found, sought = len(right), len(value) - len(ignored), len(gold) - len(crowds)
    precision = hits / found if found else float(not sought)
    recall = hits / sought if sought else 1.0
    f1 = 2 * hits / (found + sought) if found + sought else 1.0
    boxes = [[[*map(float, one.numbers), one.label.casefold(), one.score] for one in part] for part in (value, gold)]
    for box, one in zip(boxes[1], gold, strict=True):
        box += [one.crowd, None if one.area is None else float(one.area)] if one.crowd or one.area is not None else []
    detail = {PRECISION: str(precision), RECALL: str(recall), BOXES: msgspec.json.encode(boxes).decode()}
    return f1, detail


def _lies_in(one: Located, crowd: Located) -> bool:
    """Return True if half or more of a box lies in a crowd of its label."""
    box, around = one.numbers, crowd.numbers
    sides = [min(box[at + 2], around[at + 2]) - max(box[at], around[at]) for at in (0, 1)]
    is_within = min(sides) > 0 and sides[0] * sides[1] >= OVERLAP * (box[2] - box[0]) * (box[3] - box[1])
    return is_within and crowd.label.casefold() in ("", one.label.casefold())


def _nothing(kind: str, gold: Value) -> dict[str, Any]:
    """Return what stands beside the score of a reply without an answer."""
    if kind in ("box", "region"):
        return {IOU: "0.0"} | ({CENTRE: "0.0"} if kind == "box" else {})
    return _set_score((), gold)[1] | {PRECISION: "0.0", RECALL: "0.0"} if kind == "boxes" else {}


def _middle(box: Numbers) -> Numbers:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _plain(value: Value) -> Any:
    """Return a value as JSON holds it: in pixels of the image, to a hundredth."""
    plain = [one.mask or [round(float(number), 2) for number in one.numbers] for one in value]
    return plain[0] if len(plain) == 1 else plain


def frames_of(sample: Sample) -> tuple[Frame, Frame] | None:
    """Return the frames of a sample's replies and of its gold answer; None where the size of its image is not known."""
    reply = parse_coordinates(str(sample.meta[REPLY_SPACE]))
    gold = parse_coordinates(str(sample.meta.get(GOLD_SPACE) or reply))
    size = size_of(sample)
    if size is None and {reply.space, gold.space} <= MOST.keys():
        size = _UNIT  # an overlap is the same in shares of the sides
    if size is None:
        return None
    sent = sample.meta.get(SENT_SIZE)
    received = msgspec.json.decode(sent, type=SentSize).of(*size) if sent else None
    return Frame(reply, size, received), Frame(gold, size)


def size_of(sample: Sample) -> tuple[int, int] | None:
    """Return width and height of a sample's first image, its EXIF rotation applied; None without a readable image."""
    image = next((part for part in sample.prompt.parts if isinstance(part, Image)), None)
    return None if image is None else blob_size(image.blob)


def blob_size(blob: Blob) -> tuple[int, int] | None:
    """Return width and height of an image, its EXIF rotation applied; None for one that cannot be read."""
    if isinstance(blob, PdfPage):
        return blob.pixels
    return _sized(_Keyed(blob))


class _Keyed:
    """A blob that a cache knows by its key."""

    def __init__(self, blob: Blob) -> None:
        self.blob = blob

    def __hash__(self) -> int:
        return hash(self.blob.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.blob.key == other.blob.key


@lru_cache(maxsize=4_096)
def _sized(keyed: _Keyed) -> tuple[int, int] | None:
    try:
        header = read_header(keyed.blob.read())
    except SnellenError:
        return None
    return None if header is None or header.width < 1 or header.height < 1 else header.upright_size
