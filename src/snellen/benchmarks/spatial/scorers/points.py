"""Points in replies, and where they lie: on a mask, in a polygon.

Readers turn a reply into normalised points (0 to 1 of width and height) or pixels. `easi_points` is EASI's reader,
`upstream_points` that of VLMEvalKit's main branch, `lmms_tuples`, `lmms_pairs` and `lmms_fenced` are lmms-eval's; the
strict one is in `strict_points`. All of them are linear in the length of the reply.

Source: `Point2DParser`, `RefSpatialDataset` and `RoboSpatialBench` of VLMEvalKit and its fork by EASI; the tasks `refspatial`
and `robo_spatial` of lmms-eval.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.spatial.scorers.base import line_spans
from snellen.errors import DataError, MediaError, SnellenError
from snellen.media.decode import FORMATS, checked_header, read_header
from snellen.scoring.rules.vlmevalkit import literal
from snellen.types import Blob, Image, Sample, Score

MASK_PIXELS = 64_000_000
"""Maximum pixels of a mask."""


Point: TypeAlias = tuple[float, float]


class ReferenceFailsError(Exception):
    """The reference's code ends with an error on such a reply, and so does its run."""


class Mask(Struct, frozen=True):
    """The mask of a question: an image that is read when a reply is scored."""

    blob: Blob

    def __str__(self) -> str:
        return self.blob.key

    __repr__ = __str__


class MaskPixels(NamedTuple):
    """A decoded mask: its first channel ([height, width]), and how many channels the image has."""

    first: NDArray[Any]
    channels: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return int(self.first.shape[1]), int(self.first.shape[0])


def mask_pixels(mask: Mask) -> MaskPixels:
    """Decode a mask.

    Raises:
        DataError: it cannot be read.
        MediaError: it is no image, or has more than `MASK_PIXELS` pixels.
    """
    return _decoded(mask.blob.read(), mask.blob.key)


@lru_cache(maxsize=4)
def _decoded(data: bytes, key: str) -> MaskPixels:
    from PIL import Image as PillowImage  # a plain reply to another benchmark needs no Pillow

    checked_header(data, key, MASK_PIXELS)
    try:
        with PillowImage.open(BytesIO(data), formats=FORMATS) as image:
            pixels = np.array(image)
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        raise MediaError(f"mask {key} cannot be decoded: {str(error)[:200]}", "Fetch the data again.") from error
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8)
    return MaskPixels(pixels if pixels.ndim == 2 else pixels[:, :, 0], 1 if pixels.ndim == 2 else pixels.shape[2])


NO_MASK = "the mask of this question is not at hand: give the benchmark's data (--data)"


def masked(sample: Sample, rule: Callable[[MaskPixels], Score]) -> Score:
    """Score by the pixels of the sample's mask; a row without one is left unscored."""
    mask = sample.meta.get("mask")
    if not isinstance(mask, Mask):
        return Score(None, verdict="unscored", reason=NO_MASK)
    try:
        return rule(mask_pixels(mask))
    except SnellenError as error:
        return Score(None, verdict="unscored", reason=error.message)


def image_size(sample: Sample) -> tuple[int, int] | None:
    """Return width and height of the image that is asked about: from meta, else from the header of the prompt's first image."""
    width, height = sample.meta.get("width"), sample.meta.get("height")
    if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0:
        return width, height
    image = next((part for part in sample.prompt.parts if isinstance(part, Image)), None)
    if image is None:
        return None
    try:
        header = read_header(image.blob.read())
    except SnellenError:
        return None
    return None if header is None or header.width < 1 or header.height < 1 else (header.width, header.height)


class PixelBox(NamedTuple):
    """All whole pixels from (x0, y0) up to, and without, (x1, y1)."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def area(self) -> int:
        return (self.x1 - self.x0) * (self.y1 - self.y0)


_NUMBER = r"[-+]?\d++(?:\.\d*+)?+"


_IN_BRACKETS = re.compile(rf"\(({_NUMBER}(?:,\s*+{_NUMBER})*+)\)")


NORMALISED, THOUSANDTHS = 1.5, 1000.0
"""EASI's bounds of coordinates that are taken as shares, and as thousandths, of a side."""


def easi_points(reply: str, width: int, height: int) -> list[Point | PixelBox]:
    """Read a reply as EASI does: normalised points in order, and boxes of pixels; none where there is no point.

    The whole reply (a fence around it aside) as JSON or a Python literal: items with `point_2d`, else `point`, of two numbers.
    Each point has a scale of its own: shares up to 1.5, thousandths up to 1000, pixels beyond. Where that gives nothing,
    `(x, y)` in the text, shares up to 1.5 and pixels beyond; `(x0, y0, x1, y1)` stands for every pixel of that box. A blank
    behind the opening bracket, or no digit before the point, hides the numbers. Thinking is not removed.

    Raises:
        ReferenceStopsError: a box has no finite corner; EASI takes such a reply for one that cannot be parsed.
    """
    return list(_easi_items(reply, width or 1, height or 1)) or list(_easi_brackets(reply, width or 1, height or 1))


def _easi_items(reply: str, width: int, height: int) -> Iterator[Point]:
    items = _json_or_literal(_unfenced(reply))
    if isinstance(items, dict):
        items = [items]
    for item in items if isinstance(items, list) else ():
        pair = (item.get("point_2d") or item.get("point")) if isinstance(item, dict) else None
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            continue
        try:
            x, y = float(pair[0]), float(pair[1])
        except (TypeError, ValueError, OverflowError):
            continue
        largest = max(abs(x), abs(y))
        if largest <= NORMALISED:
            yield x, y
        elif largest <= THOUSANDTHS:
            yield x / 1000.0, y / 1000.0
        else:
            yield x / width, y / height


def _easi_brackets(reply: str, width: int, height: int) -> Iterator[Point | PixelBox]:
    for match in _IN_BRACKETS.finditer(reply):
        if match[1].count(",") not in (1, 3):
            continue
        numbers = [float(number) for number in match[1].split(",")]
        shares = max(map(abs, numbers)) <= NORMALISED
        if len(numbers) == 2:
            yield (numbers[0], numbers[1]) if shares else (numbers[0] / width, numbers[1] / height)
            continue
        if shares:
            numbers = [number * side for number, side in zip(numbers, (width, height) * 2, strict=True)]
        try:
            x0, x1 = sorted((round(numbers[0]), round(numbers[2])))
            y0, y1 = sorted((round(numbers[1]), round(numbers[3])))
        except OverflowError as error:
            raise ReferenceFailsError(f"a corner of the box {match[0][:60]} is no number") from error
        if x0 < x1 and y0 < y1:
            yield PixelBox(x0, y0, x1, y1)


def _unfenced(reply: str) -> str:
    text = reply.strip()
    if not text.startswith("```"):
        return text
    _, line_break, inner = text.partition("\n")
    inner = (inner if line_break else text.lstrip("`")).strip()
    return inner.removesuffix("```").strip()


_MAY_BE_LITERAL = re.compile(r"\A[\[({](?s:.*)(?:[\])}]\Z|#)")
"""A list or object begins and ends with brackets, unless a comment follows; other replies are not parsed at length."""


def _json_or_literal(text: str) -> Any:
    """Parse JSON, else a Python literal; None where it is neither."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        value = None
    if value is not None or not _MAY_BE_LITERAL.search(text):
        return value
    return literal(text)


def count_points(points: Sequence[Point | PixelBox]) -> int:
    """Count points, each pixel of a box being one."""
    return sum(point.area if isinstance(point, PixelBox) else 1 for point in points)


def first_point(points: Sequence[Point | PixelBox], width: int, height: int) -> Point | None:
    """Return the first point, normalised: of a box its first pixel."""
    if not points:
        return None
    first = points[0]
    return (first.x0 / width, first.y0 / height) if isinstance(first, PixelBox) else first


def share_on_mask(points: Sequence[Point | PixelBox], on: NDArray[Any]) -> float:
    """Return EASI's share of points on the mask, 0 to 1; 0 for none.

    Each point is moved to the nearest pixel of the image (halves to even), so that none lies outside.

    Args:
        points: normalised points, and boxes of pixels.
        on: [height, width], True on the mask.
    """
    height, width = on.shape
    table: NDArray[np.int64] | None = None
    hits = 0
    for point in points:
        if isinstance(point, PixelBox):
            if table is None:
                table = np.zeros((height + 1, width + 1), dtype=np.int64)
                table[1:, 1:] = on.astype(np.int64).cumsum(0).cumsum(1)
            hits += _box_hits(point, table)
            continue
        column, row = _nearest(point[0] * width, width), _nearest(point[1] * height, height)
        hits += column is not None and row is not None and bool(on[row, column])
    total = count_points(points)
    return hits / total if total else 0.0


def _nearest(position: float, side: int) -> int | None:
    return None if math.isnan(position) else round(min(max(position, 0), side - 1))


def _box_hits(box: PixelBox, table: NDArray[np.int64]) -> int:
    """Count the box's pixels on the mask, those outside moved to the border; `table` holds sums up to each corner."""
    height, width = table.shape[0] - 1, table.shape[1] - 1
    hits = 0
    for top, bottom, high in _runs(box.y0, box.y1, height):
        for left, right, wide in _runs(box.x0, box.x1, width):
            inside = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
            hits += high * wide * int(inside)
    return hits


def _runs(start: int, end: int, side: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first, behind the last, how often each counts) of the positions of a side that start to end come to."""
    if side == 1:
        yield 0, 1, end - start
        return
    if (before := min(end, 1) - start) > 0:
        yield 0, 1, before
    if max(start, 1) < min(end, side - 1):
        yield max(start, 1), min(end, side - 1), 1
    if (behind := end - max(start, side - 1)) > 0:
        yield side - 1, side, behind


_FENCED_JSON = re.compile(r"```(?:json)?\n")


_POINTS_TAG = re.compile(r"<points\s+")


_COORDINATES = re.compile(r'x\d++="([\d.]++)"\s++y\d++="([\d.]++)"')


_TUPLES = re.compile(r"\(\s*+([\d.]++)\s*+,\s*+([\d.]++)\s*+\)")


def upstream_points(reply: str) -> list[Point]:
    """Read a reply as VLMEvalKit's own RefSpatial: normalised points.

    JSON, fenced anywhere or the whole reply: `point_2d` is [x, y], `point` is [y, x], a pair is [x, y]; above 1 thousandths.
    Else the pairs of a `<points x1="" y1="" />` tag, above 1 percent. Else `(x, y)`, taken as shares whatever they are.

    Raises:
        ReferenceStopsError: the reference stops on such a reply.
    """
    points: list[Point] = []
    if not reply.strip():
        return points
    try:
        _add_items(json.loads(_fenced(reply, _FENCED_JSON, reply).strip()), points)
    except ValueError:
        pass  # the reference goes on with what it has
    except (TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise ReferenceFailsError(type(error).__name__) from error
    if points:
        return points
    pairs = [match.groups() for match in _COORDINATES.finditer(_tag(reply))]
    try:
        for x, y in ((float(x), float(y)) for x, y in pairs):
            points.append((x / 100.0, y / 100.0) if x > 1 or y > 1 else (x, y))
        return points or [(float(match[1]), float(match[2])) for match in _TUPLES.finditer(reply)]
    except ValueError as error:  # "1.2.3"
        raise ReferenceFailsError("ValueError") from error


def _add_items(data: Any, points: list[Point]) -> None:
    """Add the points of parsed JSON; raises what the reference's code raises, having added those before."""
    alone = isinstance(data, dict)
    for item in [data] if alone else data if isinstance(data, list) else ():
        if isinstance(item, dict) and "point_2d" in item:
            pair = item["point_2d"]
            if len(pair) == 2:
                points.append(_thousandths(float(pair[0]), float(pair[1])))
        elif isinstance(item, dict) and "point" in item:
            pair = item["point"]
            if len(pair) == 2:
                y, x = pair
                if isinstance(y, (int, float)) and isinstance(x, (int, float)):
                    points.append(_thousandths(float(x), float(y)))
        elif not alone and isinstance(item, list) and len(item) == 2:
            points.append(_thousandths(float(item[0]), float(item[1])))


def _thousandths(x: float, y: float) -> Point:
    return (x / 1000.0, y / 1000.0) if x > 1 or y > 1 else (x, y)


def _fenced(text: str, head: re.Pattern[str], otherwise: str) -> str:
    """Return what stands between the first head of a fence and the next three back-ticks; `otherwise` where nothing does."""
    opening = head.search(text)
    if opening is None:
        return otherwise
    end = text.find("```", opening.end())
    return otherwise if end < 0 else text[opening.end() : end]


def _tag(reply: str) -> str:
    """Return the attributes of the first `<points .../>` tag that is closed on its line; empty where there is none."""
    return next(line_spans(reply, _POINTS_TAG, "/>"), "")


def any_on_mask(points: Sequence[Point], on: NDArray[Any]) -> bool:
    """Return True if a normalised point, cut to whole pixels and moved into the image, lies on the mask.

    Raises:
        ReferenceStopsError: a coordinate is no finite number, on which VLMEvalKit stops.
    """
    height, width = on.shape
    for x, y in points:
        try:
            column, row = int(x * width), int(y * height)
        except (ValueError, OverflowError) as error:
            raise ReferenceFailsError(type(error).__name__) from error
        if on[max(0, min(row, height - 1)), max(0, min(column, width - 1))]:
            return True
    return False


_PAIRS = re.compile(rf"[\[(]\s*+({_NUMBER})\s*+,\s*+({_NUMBER})\s*+[\])]")


_ANY_FENCE = re.compile(r"```(?:\w++)?\n")


def lmms_tuples(reply: str, width: int, height: int) -> list[tuple[int, int]]:
    """Read `(x, y)` as lmms-eval's RefSpatial: shares of the sides whatever they are, cut to whole pixels.

    Raises:
        ReferenceStopsError: a number is too large for it.
    """
    try:
        return [
            (int(_number(x) * width), int(_number(y) * height))
            for x, y in (match[1].split(",") for match in _IN_BRACKETS.finditer(reply) if match[1].count(",") == 1)
        ]
    except (ValueError, OverflowError) as error:
        raise ReferenceFailsError(type(error).__name__) from error


def _number(text: str) -> float:
    return float(text) if "." in text else int(text) / 1


def lmms_pairs(reply: str, width: int, height: int) -> list[tuple[int, int]]:
    """Read `[x, y]` and `(x, y)` as lmms-eval's JSON variant of RefSpatial: a point in either number means shares of the
    sides, none thousandths; cut to whole pixels.

    Raises:
        ReferenceStopsError: a number is too large for it.
    """
    points = []
    for match in _PAIRS.finditer(reply):
        x, y = float(match[1]), float(match[2])
        if "." not in match[1] and "." not in match[2]:
            x, y = x / 1000, y / 1000
        try:
            points.append((int(x * width), int(y * height)))
        except OverflowError as error:
            raise ReferenceFailsError("OverflowError") from error
    return points


def lmms_fenced(reply: str, width: int, height: int) -> list[tuple[int, int]]:
    """Read `point_2d` of the JSON in the first fence as lmms-eval's RoboSpatial: thousandths of the sides, cut to pixels.

    Raises:
        ReferenceStopsError: the JSON is of a shape on which it stops: an object in place of a list, quoted numbers.
    """
    content = _fenced(reply, _ANY_FENCE, "").strip()
    try:
        data = json.loads(content)
    except RecursionError as error:
        raise ReferenceFailsError("RecursionError") from error
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ReferenceFailsError("ValueError") from error
        return []
    points = []
    try:
        for item in data:
            if "point_2d" in item and isinstance(item["point_2d"], list) and len(item["point_2d"]) == 2:
                x, y = item["point_2d"]
                points.append((int(x / 1000 * width), int(y / 1000 * height)))
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise ReferenceFailsError(type(error).__name__) from error
    return points


def pixel_hits(points: Sequence[tuple[int, int]], on: NDArray[Any]) -> int:
    """Count the pixels (column, row) on the mask; those outside the image are none."""
    height, width = on.shape
    return sum(0 <= x < width and 0 <= y < height and bool(on[y, x]) for x, y in points)


def polygon(text: str) -> list[Point]:
    """Read the corners of a gold answer, a list of pairs as text; items that are no pairs are left out.

    Raises:
        DataError: the text is no list of at least three corners of finite numbers.
    """
    corners = literal(text)
    try:
        if isinstance(corners, (list, tuple)) and len(corners) >= 3:
            pairs = [(float(c[0]), float(c[1])) for c in corners if isinstance(c, (list, tuple)) and len(c) == 2]
            if len(pairs) >= 3 and all(math.isfinite(side) for pair in pairs for side in pair):
                return pairs
    except (TypeError, ValueError, OverflowError):
        pass
    raise DataError(f"the gold answer {text[:60]!r} is no list of at least three corners (x, y)")


def in_polygon_as_easi(x: float, y: float, corners: Sequence[Point]) -> bool:
    """Return True where EASI's ray casting says inside: a vertical edge counts for every point beside it, left or right.

    An upright rectangle therefore holds no point at all.
    """
    inside = False
    x1, y1 = corners[0]
    for x2, y2 in (*corners[1:], corners[0]):
        if min(y1, y2) < y <= max(y1, y2) and (x1 == x2 or x <= (y - y1) * (x2 - x1) / (y2 - y1) + x1):
            inside = not inside
        x1, y1 = x2, y2
    return inside


EDGE = 1e-9
"""How far from an edge, in shares of a side, a point still lies on it."""


def in_polygon(x: float, y: float, corners: Sequence[Point]) -> bool:
    """Return True for a point inside the polygon or on its edge (even-odd rule)."""
    inside = False
    x1, y1 = corners[-1]
    for x2, y2 in corners:
        length = math.hypot(x2 - x1, y2 - y1)
        along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length**2 if length else 0.0
        along = min(max(along, 0.0), 1.0)
        if math.hypot(x - x1 - along * (x2 - x1), y - y1 - along * (y2 - y1)) <= EDGE:
            return True
        if (y1 > y) != (y2 > y) and x < (y - y1) * (x2 - x1) / (y2 - y1) + x1:
            inside = not inside
        x1, y1 = x2, y2
    return inside


MAX_POINTS = 64
"""How many points stand in `extracted` at most."""


def graded_points(value: float, read: list[Any], detail: dict[str, Any] | None = None) -> Score:
    """Return the score of points that were read; none of them is an invalid reply."""
    verdict = "correct" if value == 1 else "partial" if value > 0 else "wrong" if read else "invalid"
    return Score(value, read or None, verdict, None if read else "no point", detail or {})  # type: ignore[arg-type]


def stops(error: str, why: str = "") -> str:
    """Return the reason of a row on which the reference ends with an error."""
    return f"the reference stops here: {error}" + (f" ({why})" if why else "")
