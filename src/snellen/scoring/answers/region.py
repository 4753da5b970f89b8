"""Boxes and points in an image. A reply's coordinates count in the space of the gold answer, be that pixels, 0 to 1 or 0 to 1000."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from snellen.scoring.answers.base import AnswerType, Found, GoldError, corners_schema
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
_FIELDS = ("bbox2d", "bbox", "box", "boundingbox", "point2d", "point", "points", "coordinates")
_ORDERS = (*_FIELDS, "x1 y1 x2 y2", "x y w h", "x y radius", "x y")


class Box(AnswerType):
    """A box `[x1, y1, x2, y2]`, the same as another that it overlaps by half or more (intersection over union)."""

    kind = "box"
    expected = "a box of four numbers, such as `[16, 16, 48, 48]` from left and top to right and bottom"
    sizes: tuple[int, ...] = (4,)
    gold_sizes: tuple[int, ...] = (4,)

    def parse(self, text: str) -> tuple[float, ...] | None:
        return _coordinates(text, self.sizes)

    def schema(self) -> dict[str, Any]:
        return corners_schema(self.sizes[0])

    def parse_gold(self, cell: Any) -> tuple[float, ...]:
        data = cell.tolist() if hasattr(cell, "tolist") else cell
        value = _coordinates(undressed(data) if isinstance(data, str) else data, self.gold_sizes)
        if value is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def same(self, value: tuple[float, ...], gold: tuple[float, ...]) -> bool:
        lows, highs = map(max, value[:2], gold[:2]), map(min, value[2:], gold[2:])
        shared = math.prod(max(high - low, 0.0) for low, high in zip(lows, highs, strict=True))
        areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (value, gold))
        return shared >= OVERLAP * (areas - shared)

    def show(self, value: tuple[float, ...]) -> str:
        return "[" + ", ".join(f"{number:.12f}".rstrip("0").rstrip(".") for number in value) + "]"

    def find(self, sentence: Sentence) -> Sequence[Found]:
        found = [Found(_coordinates(one.value, self.sizes), *one[1:]) for one in json_in(sentence.text)]
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

    def same(self, value: tuple[float, ...], gold: tuple[float, ...]) -> bool:
        if len(gold) == 4:
            return gold[0] <= value[0] <= gold[2] and gold[1] <= value[1] <= gold[3]
        near = NEAR if self.context.tolerance is None else self.context.tolerance
        reach = gold[2] if len(gold) == 3 else near * max(map(abs, gold))
        return math.dist(value, gold[:2]) <= reach


def _coordinates(data: Any, sizes: Sequence[int]) -> tuple[float, ...] | None:
    """Return the numbers of a text, list or mapping if they are so many, and make a box, circle or point; a width is added to its corner."""
    if isinstance(data, str):
        if len(data) > MOST_CHARACTERS:
            return None
        text = _TAG.sub(" ", data).strip(" ,")
        named = "{" + _NAME.sub(r'"\1":', text.strip("[](){} ")) + "}"
        bare = _NUMBER.findall(text) if _MARKS.fullmatch(_NUMBER.sub("", text)) else None
        data = whole_json(text) or whole_json(named) or bare
    order = ""
    for _ in range(4):
        if isinstance(data, list) and len(data) == 1:
            data = data[0]
        elif isinstance(data, Mapping):
            names = {str(name).lower().replace("_", ""): value for name, value in data.items()}
            fields = {_EDGES.get(name, name.replace("min", "1").replace("max", "2")): names[name] for name in names}
            order = next((order for order in _ORDERS if fields.keys() >= {*order.split()}), "")
            data = fields[order] if order in _FIELDS else [fields[name] for name in order.split()]
    if not isinstance(data, list | tuple) or len(data) not in sizes or any(isinstance(number, bool) for number in data):
        return None
    try:
        numbers = tuple(float(str(number).replace("−", "-")) for number in data)
    except (ValueError, OverflowError):
        return None
    if order == "x y w h":
        numbers = (*numbers[:2], numbers[0] + numbers[2], numbers[1] + numbers[3])
    has_size = len(numbers) == 2 or (
        numbers[2] > 0 if len(numbers) == 3 else numbers[0] < numbers[2] and numbers[1] < numbers[3]
    )
    return numbers if has_size and all(abs(number) < 1e9 for number in numbers) else None
