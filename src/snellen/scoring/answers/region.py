"""Boxes and points in an image.

Nothing is converted: a reply's coordinates count in the space of the gold answer, be that pixels, 0 to 1 or 0 to 1000. A box in another
space overlaps the gold box by chance alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.structure import json_in, whole_json
from snellen.scoring.replies.sentences import Sentence

OVERLAP = 0.5
"""Minimum intersection over union of two boxes that are the same answer."""
NEAR = 0.01
"""Maximum distance of two points that are the same answer, as a share of the gold point's larger coordinate."""
MOST_CHARACTERS = 400
_NUMBER = r"[-−]?(?:0|[1-9]\d{0,8})(?:\.\d{1,12})?(?![\d.])"
_TAG = re.compile(r"</?\|?[a-zA-Z_]{2,20}\|?>")
_NAMED = re.compile(
    r"[\"']?\b(x1|y1|x2|y2|x_?min|y_?min|x_?max|y_?max|left|top|right|bottom|width|height|x|y|w|h)[\"']? ?[=:] ?("
    + _NUMBER
    + ")",
    re.IGNORECASE,
)
_ROW = re.compile(r"[\[({\s]*(" + _NUMBER + r")(?:[\])]?\s?[,; ]\s?[\[(]?(" + _NUMBER + r")){1,3}[\])}\s]*")
_IN_TEXT = re.compile(
    r"(?:<\|?[a-z_]{2,20}\|?>)?[\[(]\s?[\[(]?"
    + _NUMBER
    + r"(?:[\])]?\s?,\s?[\[(]?"
    + _NUMBER
    + r"){1,3}\s?[\])]{1,2}(?:<[/|][a-z_|]{2,20}>)?"
)
_KEYS = {
    "xmin": "x1",
    "ymin": "y1",
    "xmax": "x2",
    "ymax": "y2",
    "left": "x1",
    "top": "y1",
    "right": "x2",
    "bottom": "y2",
    "width": "w",
    "height": "h",
}
_BOXES = ("bbox_2d", "bbox", "box", "boundingbox", "bounding_box", "coordinates")
_POINTS = ("point_2d", "point", "points", "coordinates")


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


class _Region(AnswerType):
    """An answer in coordinates: in JSON, with names, between tags or brackets, or bare."""

    names: Sequence[str] = ()

    def value_of(self, data: Any) -> Any | None:
        """Return the value of numbers in a row or under their names; None if they are none of this type."""
        raise NotImplementedError

    def parse(self, text: str) -> Any | None:
        """Return the value that a text writes."""
        if len(text) > MOST_CHARACTERS:
            return None
        if (data := whole_json(text)) is not None:
            return self._of_json(data)
        bare = _TAG.sub(" ", text).strip().strip(",")
        if named := _NAMED.findall(bare):
            rest = _NAMED.sub("", bare).strip(" ,;[](){}\n")
            fields = {name.lower(): number for name, number in named}
            return self.value_of(fields) if not rest.strip(" ,;\n") and len(fields) == len(named) else None
        return self.value_of(re.findall(_NUMBER, bare)) if _ROW.fullmatch(bare) is not None else None

    def parse_gold(self, cell: Any) -> Any:
        """Return the value of a gold cell: text, a list, or a structure.

        Raises:
            GoldError: the cell holds no value of this type.
        """
        data = cell.tolist() if hasattr(cell, "tolist") else cell
        if isinstance(data, str):
            return super().parse_gold(data)
        value = self._of_json(list(data) if isinstance(data, tuple) else data)
        if value is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def find(self, sentence: Sentence) -> Sequence[Found]:
        """Return every value in brackets, tags or JSON of a text."""
        whole = sentence.text
        found = [
            Found(value, one.start, one.end)
            for one in json_in(whole, "{[")
            if (value := self._of_json(one.value)) is not None
        ]
        for match in _IN_TEXT.finditer(whole):
            inside = any(one.start <= match.start() < one.end for one in found)
            if not inside and (value := self.parse(match.group())) is not None:
                found.append(Found(value, match.start(), match.end()))
        return sorted(found, key=lambda one: one.start)

    def _of_json(self, data: Any) -> Any | None:
        """Return the one value that JSON holds, under a name that says so."""
        if isinstance(data, list) and len(data) == 1:
            return self._of_json(data[0])
        if isinstance(data, Mapping):
            named = next((data[name] for name in self.names if name in data), None)
            if named is not None:
                return self._of_json(named)
        return self.value_of(data)


class Box(_Region):
    """A box `[x1, y1, x2, y2]`, the same as another that it overlaps by half or more (intersection over union)."""

    kind = "box"
    expected = "a box of four numbers, such as `[16, 16, 48, 48]` from left and top to right and bottom"
    names = _BOXES

    def value_of(self, data: Any) -> Rectangle | None:
        """Return the box of four numbers; None if it has no area."""
        numbers = _numbers(data, ("x1", "y1", "x2", "y2"), ("x", "y", "w", "h"))
        if numbers is None or len(numbers) != 4:
            return None
        box = Rectangle(*numbers)
        return box if box.x1 < box.x2 and box.y1 < box.y2 else None

    def same(self, value: Rectangle, gold: Rectangle) -> bool:
        """Return True if the boxes overlap enough."""
        return value.overlap(gold) >= OVERLAP

    def show(self, value: Rectangle) -> str:
        """Return the box as a list."""
        return "[" + ", ".join(map(_shown, value)) + "]"


class Point(_Region):
    """A point `[x, y]`.

    A gold answer of four numbers is a box in which the point lies, edges included; of three, a circle `[x, y, radius]`; of two, a
    point from which the reply's is at most 1 % of the larger coordinate away, or the table's tolerance.
    """

    kind = "point"
    expected = "a point `[x, y]`, a circle `[x, y, radius]`, or a box `[x1, y1, x2, y2]`"
    names = _POINTS

    def value_of(self, data: Any) -> Spot | None:
        """Return the point of two numbers."""
        numbers = _numbers(data, ("x", "y"))
        return Spot(*numbers) if numbers is not None and len(numbers) == 2 else None

    def parse_gold(self, cell: Any) -> Spot | Rectangle:
        """Return the point, circle or box of a gold cell.

        Raises:
            GoldError: the cell holds none of them.
        """
        for kind in (_Circle, Box, Point):
            try:
                value: Spot | Rectangle = (
                    super().parse_gold(cell) if kind is Point else kind(self.context).parse_gold(cell)
                )
                return value
            except GoldError as error:
                refused = error
        raise refused

    def same(self, value: Spot, gold: Spot | Rectangle) -> bool:
        """Return True if a point lies in the gold region or near the gold point."""
        if isinstance(gold, Rectangle):
            return gold.x1 <= value.x <= gold.x2 and gold.y1 <= value.y <= gold.y2
        near = NEAR if self.context.tolerance is None else self.context.tolerance
        reach = gold.radius or near * max(abs(gold.x), abs(gold.y))
        return math.hypot(value.x - gold.x, value.y - gold.y) <= reach

    def show(self, value: Spot | Rectangle) -> str:
        """Return the point, circle or box as a list."""
        numbers = value[:2] if isinstance(value, Spot) and not value.radius else value
        return "[" + ", ".join(map(_shown, numbers)) + "]"


class _Circle(_Region):
    """A gold circle `[x, y, radius]`."""

    expected = Point.expected

    def value_of(self, data: Any) -> Spot | None:
        numbers = _numbers(data, ("x", "y", "radius"))
        return Spot(*numbers) if numbers is not None and len(numbers) == 3 and numbers[2] > 0 else None


def _numbers(data: Any, *orders: tuple[str, ...]) -> tuple[float, ...] | None:
    """Return finite numbers of a list, or of fields in one of the orders; width and height are added to the corner."""
    if isinstance(data, Mapping):
        fields = {
            _KEYS.get(str(name).lower().replace("_", ""), str(name).lower()): value for name, value in data.items()
        }
        order = next((order for order in orders if all(name in fields for name in order)), None)
        if order is None:
            return None
        data = [fields[name] for name in order]
        if "w" in order and (numbers := _numbers(data)) is not None:
            return (*numbers[:2], numbers[0] + numbers[2], numbers[1] + numbers[3])
    if not isinstance(data, list | tuple) or any(isinstance(number, bool | list | Mapping) for number in data):
        return None
    try:
        numbers = tuple(float(str(number).replace("−", "-")) for number in data)
    except (ValueError, OverflowError):
        return None
    return numbers if all(abs(number) < 1e9 for number in numbers) else None


def _shown(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:.12f}".rstrip("0")
