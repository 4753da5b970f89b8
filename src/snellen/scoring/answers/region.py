"""Boxes and points in an image. A reply's coordinates count in the space of the gold answer, be that pixels, 0 to 1 or 0 to 1000."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.structure import json_in, whole_json
from snellen.scoring.replies.sentences import Sentence

OVERLAP = 0.5
"""Minimum intersection over union of two boxes that are the same answer."""
NEAR = 0.01
"""Maximum distance of two points that are the same answer, as a share of the gold point's larger coordinate."""
MOST_CHARACTERS = 400
_NUMBER = re.compile(r"(?<![\d.])[-−]?(?:0|[1-9]\d{0,8})(?:\.\d{1,12})?(?![\d.])")
_TAG = re.compile(r"</?\|?[a-zA-Z_]{2,20}\|?>")
_NAME = re.compile(r"[\"']?\b([a-zA-Z_]{1,6}[12]?)[\"']? ?[=:]")
_MARKS = re.compile(r"[\s,;\[\](){}]*")
_ONE = r"[-−.\d]{1,20}"
_IN_TEXT = re.compile(
    rf"(?:<\|?[a-z_]{{2,20}}\|?>)?[\[(]\s?[\[(]?{_ONE}(?:[\])]?\s?,\s?[\[(]?{_ONE}){{1,3}}\s?[\])]{{1,2}}(?:<[/|][a-z_|]{{2,20}}>)?"
)
_EDGES = {"left": "x1", "top": "y1", "right": "x2", "bottom": "y2", "width": "w", "height": "h"}
_ORDERS = ("x1 y1 x2 y2", "x y w h", "x y radius", "x y")
_FIELDS = ("bbox_2d", "bbox", "box", "boundingbox", "bounding_box", "point_2d", "point", "points", "coordinates")


class Rectangle(NamedTuple):
    """A box from its left and upper to its right and lower edge."""

    x1: float
    y1: float
    x2: float
    y2: float

    def overlap(self, other: Rectangle) -> float:
        """Return the intersection over union with another box."""
        width = min(self.x2, other.x2) - max(self.x1, other.x1)
        height = min(self.y2, other.y2) - max(self.y1, other.y1)
        shared = max(width, 0.0) * max(height, 0.0)
        areas = [(box.x2 - box.x1) * (box.y2 - box.y1) for box in (self, other)]
        return shared / (sum(areas) - shared)


class Spot(NamedTuple):
    """A point; with a radius, every point that near is the same answer."""

    x: float
    y: float
    radius: float = 0.0


class Box(AnswerType):
    """A box `[x1, y1, x2, y2]`, the same as another that it overlaps by half or more (intersection over union)."""

    kind = "box"
    expected = "a box of four numbers, such as `[16, 16, 48, 48]` from left and top to right and bottom"
    sizes: tuple[int, ...] = (4,)
    gold_sizes: tuple[int, ...] = (4,)

    def parse(self, text: str) -> Any | None:
        return _shape(_coordinates(text), self.sizes)

    def parse_gold(self, cell: Any) -> Any:
        data = cell.tolist() if hasattr(cell, "tolist") else cell
        value = _shape(_coordinates(undressed(data) if isinstance(data, str) else data), self.gold_sizes)
        if value is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def same(self, value: Any, gold: Any) -> bool:
        return bool(value.overlap(gold) >= OVERLAP)

    def show(self, value: Rectangle | Spot) -> str:
        numbers = value[:2] if isinstance(value, Spot) and not value.radius else value
        return "[" + ", ".join(f"{number:.12f}".rstrip("0").rstrip(".") for number in numbers) + "]"

    def find(self, sentence: Sentence) -> Sequence[Found]:
        found = [Found(_shape(_coordinates(one.value), self.sizes), *one[1:]) for one in json_in(sentence.text)]
        for match in _IN_TEXT.finditer(sentence.text):
            if not any(one.value and one.start <= match.start() < one.end for one in found):
                found.append(Found(self.parse(match[0]), match.start(), match.end()))
        return sorted((one for one in found if one.value is not None), key=lambda one: one.start)


class Point(Box):
    """A point `[x, y]` in the gold box or circle, edges included, or near the gold point: `NEAR`, or the table's tolerance."""

    kind = "point"
    expected = "a point `[x, y]`, a circle `[x, y, radius]`, or a box `[x1, y1, x2, y2]`"
    sizes = (2,)
    gold_sizes = (2, 3, 4)

    def same(self, value: Any, gold: Any) -> bool:
        if isinstance(gold, Rectangle):
            return bool(gold.x1 <= value.x <= gold.x2 and gold.y1 <= value.y <= gold.y2)
        near = NEAR if self.context.tolerance is None else self.context.tolerance
        reach = gold.radius or near * max(abs(gold.x), abs(gold.y))
        return bool(math.hypot(value.x - gold.x, value.y - gold.y) <= reach)


def _coordinates(data: Any) -> Sequence[float] | None:
    """Return the numbers of a text, a list, or a mapping of names; a width and a height are added to the corner."""
    if isinstance(data, str):
        text = _TAG.sub(" ", data[: MOST_CHARACTERS + 1]).strip(" ,")
        named = "{" + _NAME.sub(r'"\1":', text.strip("[](){} ")) + "}"
        data = whole_json(text) or whole_json(named)
        if data is None and _MARKS.fullmatch(_NUMBER.sub("", text)):
            data = _NUMBER.findall(text)
        if len(data or "") == 0 or len(text) > MOST_CHARACTERS:
            return None
    if isinstance(data, Mapping):
        if (field := next((name for name in _FIELDS if name in data), None)) is not None:
            return None if isinstance(data[field], str) else _coordinates(data[field])
        names = {str(name).lower().replace("_", ""): value for name, value in data.items()}
        fields = {
            _EDGES.get(name, name.replace("min", "1").replace("max", "2")): value for name, value in names.items()
        }
        order = next((order.split() for order in _ORDERS if fields.keys() >= {*order.split()}), [])
        numbers = _coordinates([fields[name] for name in order])
        return [*numbers[:2], numbers[0] + numbers[2], numbers[1] + numbers[3]] if numbers and "w" in order else numbers
    if not isinstance(data, list | tuple) or not 1 <= len(data) <= 4:
        return None
    if len(data) == 1 and isinstance(data[0], list | tuple | Mapping):
        return _coordinates(data[0])
    try:
        numbers = [math.nan if isinstance(number, bool) else float(str(number).replace("−", "-")) for number in data]
    except (ValueError, OverflowError):
        return None
    return numbers if all(abs(number) < 1e9 for number in numbers) else None


def _shape(numbers: Sequence[float] | None, sizes: Sequence[int]) -> Rectangle | Spot | None:
    """Return the box, circle or point of numbers; None for another count, no area or no radius."""
    if numbers is None or len(numbers) not in sizes:
        return None
    if len(numbers) == 4:
        box = Rectangle(*numbers)
        return box if box.x1 < box.x2 and box.y1 < box.y2 else None
    return Spot(*numbers) if len(numbers) == 2 or numbers[2] > 0 else None
