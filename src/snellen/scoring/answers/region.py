"""Boxes and points in an image. A reply's coordinates count in the space of the gold answer, be that pixels, 0 to 1 or 0 to 1000."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from snellen.scoring.answers.base import AnswerType, Found, GoldError, corners_schema
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.structure import json_in
from snellen.scoring.answers.written_regions import places_of, regions_of
from snellen.scoring.replies.sentences import Sentence

OVERLAP = 0.5
"""Minimum intersection over union of two boxes that are the same answer."""
NEAR = 0.01
"""Maximum distance of two points that are the same answer, as a share of the gold point's larger coordinate."""
MOST_CHARACTERS = 400
_DIALLED = re.compile(r"\+|(?<![\d.])0\d")
"""Digits as a telephone's number has them."""


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
        for start, end in places_of(sentence.text):
            if not any(one.value and one.start <= start < one.end for one in found):
                found.append(Found(self.parse(sentence.text[start:end]), start, end))
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
    """Return the numbers of the only box, circle or point that a text, list or mapping writes, if they are so many; a width is added to its corner."""
    if isinstance(data, str) and (len(data) > MOST_CHARACTERS or _DIALLED.search(data)):
        return None
    regions = regions_of(data)
    if 4 in sizes and [len(one.numbers) for one in regions] == [2, 2]:
        regions = [regions[0]._replace(numbers=regions[0].numbers + regions[1].numbers)]  # (x1, y1), (x2, y2)
    numbers = [float(number) for number in regions[0].numbers if number is not None] if len(regions) == 1 else []
    if not numbers or len(numbers) != len(regions[0].numbers) or len(numbers) not in sizes:
        return None
    if regions[0].form == "sized":
        numbers[2:] = numbers[0] + numbers[2], numbers[1] + numbers[3]
    has_size = len(numbers) == 2 or (
        numbers[2] > 0 if len(numbers) == 3 else numbers[0] < numbers[2] and numbers[1] < numbers[3]
    )
    return tuple(numbers) if has_size and all(abs(number) < 1e9 for number in numbers) else None
