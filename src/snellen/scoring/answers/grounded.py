"""Answers with coordinates of a declared space: boxes and points, one or several, in pixels of the image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from snellen.scoring.answers.base import AnswerContext, AnswerType, Found, GoldError, corners_schema
from snellen.scoring.answers.named_edges import named_boxes
from snellen.scoring.answers.structure import json_in
from snellen.scoring.answers.written_regions import MOST_REGIONS, Region, areas_of, named_region, places_of, regions_of
from snellen.scoring.coordinates import Coordinates, Numbers
from snellen.scoring.replies.sentences import Sentence, sentences, sentences_at

NO_NUMBER, INVERTED, NO_AREA = "a coordinate is no number", "inverted corners", "a box without area"
ODD, EMPTY = "an odd number of coordinates", "an outline or mask without area"
TOO_MANY = f"more than {MOST_REGIONS:,} boxes or points"

_FORM = re.compile(
    r"example|e\.g\.|format|\bform\b|size|resolution|beispiel|ejemplo|exemple|例|大小|尺寸", re.IGNORECASE
)
"""Words beside numbers that are no answer: a form that is shown, or the size of the image."""
_NONE = re.compile(r"(```(?:json)?\s*)?\[\s*\](?(1)\s*```)", re.IGNORECASE)
"""An empty list, fenced or not."""
MOST_REFUSED = 2_000
"""Characters of a reply in which it may say that it cannot answer, or that what was asked for is not there."""


class Fault(str):
    """The reason why what a reply writes is no answer."""


class Located(NamedTuple):
    """A box (left, top, right, bottom), a point or an outline in pixels of the image, with label and confidence, or a mask; see `Region`."""

    numbers: Numbers
    label: str = ""
    score: float | None = None
    mask: str = ""
    crowd: bool = False
    area: Fraction | None = None


Value: TypeAlias = tuple[Located, ...]


class Frame(Struct, frozen=True):
    """The image that coordinates are about, and the space in which they are written.

    Attributes:
        coordinates: space and order.
        size: width and height of the image in pixels, its EXIF rotation applied.
        sent: those of the image as the model received it; None: as it is.
    """

    coordinates: Coordinates
    size: tuple[int, int]
    sent: tuple[int, int] | None = None

    def located(self, region: Region) -> Located | Fault:
        """Return where a region lies, or why it is none."""
        if any(number is None for number in region.numbers):
            return Fault(NO_NUMBER)
        numbers = tuple(number for number in region.numbers if number is not None)
        # A key that says what a number is outweighs the order.
        order = {"corners": "xyxy", "sized": "xywh", "centre": "xyxy", "unit": "xyxy"}.get(region.form)
        space = "unit" if region.form == "unit" or region.share else self.coordinates.space
        where = Coordinates(space, order or self.coordinates.order)
        pixels = where.pixels(numbers, self.size, self.sent)
        if len(pixels) == 4:
            if pixels[0] > pixels[2] or pixels[1] > pixels[3]:
                return Fault(INVERTED)
            if pixels[0] == pixels[2] or pixels[1] == pixels[3]:
                return Fault(NO_AREA)
        if len(pixels) % 2:
            return Fault(ODD)
        area = region.area if space == "pixel" else None
        return Located(pixels, region.label, region.score, region.mask, region.crowd, area)


class Grounded(AnswerType):
    """Boxes or points in a frame; a value is a tuple of `Located`, of one of them unless several are asked for, or a `Fault`.

    Args:
        context: what the question says of its answer.
        frame: the image and the space of the reply.
        sides: four for boxes, two for points.
        several: a set is the answer; otherwise different boxes are no answer, and equal ones are one.
        centre: of a box that answers a question for a point, the centre counts.
    """

    kind = "box"

    def __init__(
        self, context: AnswerContext, frame: Frame, sides: int, *, several: bool = False, centre: bool = False
    ) -> None:
        super().__init__(context)
        self._frame, self._sides, self._several, self._centre = frame, sides, several, centre

    def parse(self, text: str) -> Value | Fault | None:
        if self._several and _NONE.fullmatch(text.strip()):
            return ()
        return self.value_of(regions_of(text))

    def schema(self) -> dict[str, Any]:
        one = corners_schema(self._sides)
        return {"type": "array", "items": one} if self._several else one

    def parse_gold(self, cell: Any) -> Value:
        value: Value | Fault = super().parse_gold(cell)
        if isinstance(value, Fault):
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}: {value}")
        return value

    def value_of(self, regions: Sequence[Region]) -> Value | Fault | None:
        """Return the value of written regions; None where there are none of the kind that was asked for."""
        if not regions:
            return None
        if len(regions) > MOST_REGIONS:
            return Fault(TOO_MANY)
        if self._sides == 4 and not self._several and [len(one.numbers) for one in regions] == [2, 2]:
            regions = [regions[0]._replace(numbers=regions[0].numbers + regions[1].numbers)]  # (x1, y1), (x2, y2)
        sizes = {len(one.numbers) for one in regions}
        if not sizes <= {self._sides, 4 if self._centre else self._sides}:
            return None
        located = [self._frame.located(one) for one in regions]
        placed = [one if isinstance(one, Fault) else self._as_asked(one) for one in located]
        if fault := next((one for one in placed if isinstance(one, Fault)), None):
            return fault
        return self._joined([one for one in placed if not isinstance(one, Fault)])

    def same(self, value: Any, gold: Any) -> bool:
        return bool(value == gold)

    def show(self, value: Any) -> str:
        if isinstance(value, Fault):
            return value
        return (
            shown(value[0].numbers) if len(value) == 1 else "[" + ", ".join(shown(one.numbers) for one in value) + "]"
        )

    def find(self, sentence: Sentence) -> Sequence[Found]:
        return self._written(sentence.text)

    def anywhere(self, text: str) -> Found | None:
        """Return what a text writes, of however many sentences; None where one denies, doubts or asks, or shows a form."""
        found = self._written(text)
        if len(found) > MOST_REGIONS:
            return Found(Fault(TOO_MANY), found[0].start, found[-1].end)
        if not found or any(_FORM.search(text, max(0, one.start - 40), one.end + 20) for one in found):
            return None
        around = sentences_at(text, [one.start for one in found])
        if any(one.asks or one.has("or") or _is_supposed(one) for one in around):
            return None
        others = (*sentences(text, 0, min(len(text), MOST_REFUSED)), *around)
        if any(one.has("refusal") or _is_denied(one) for one in others):
            return None  # `There is no umbrella. The bench is at [12, 30, 40, 80].`
        return self._only(found)

    def _written(self, text: str) -> list[Found]:
        """Return what a text writes as JSON, with named numbers, in brackets or as a click, in order; of two within each other the larger."""
        found = [Found(self.value_of(regions_of(one.value)), one.start, one.end) for one in json_in(text)]
        found += [
            Found(self.value_of([named]), one.start, one.end)
            for one in named_boxes(text)
            if (named := named_region(one.value))
        ]
        places = list(places_of(text))
        if self._sides == 4 and not self._several and len(places) == 2:  # from one corner to the other
            (start, middle), (resumed, end) = places
            if re.fullmatch(r"\W{0,4}\w{0,8}\W{0,4}", text[middle:resumed]):
                found.append(Found(self.parse(f"{text[start:middle]}, {text[resumed:end]}"), start, end))
        found += [Found(self.parse(text[start:end]), start, end) for start, end in places]
        found = sorted((one for one in found if one.value is not None), key=lambda one: (one.start, -one.end))
        ends = [0, *accumulate((one.end for one in found), max)]
        return [one for one, end in zip(found, ends, strict=False) if one.end > end]

    def short(self, sentence: Sentence) -> Found | None:
        found = self.find(sentence)
        if not found or _is_denied(sentence) or _is_supposed(sentence):
            return None
        return self._only(found)

    def _only(self, found: Sequence[Found]) -> Found:
        """Return what several places write as one value."""
        if fault := next((one for one in found if isinstance(one.value, Fault)), None):
            return fault
        return Found(self._joined([part for one in found for part in one.value]), found[0].start, found[-1].end)

    def _joined(self, located: Sequence[Located]) -> Value | Fault:
        """Return several regions as one value; different ones are no answer to a question with one."""
        different = list(dict.fromkeys(one.numbers for one in located))
        if len(different) > 1 and not self._several:
            return Fault(f"two answers: {', '.join(map(shown, different[:2]))}")
        return tuple(located) if self._several else tuple(located[:1])

    def _as_asked(self, one: Located) -> Located:
        if self._sides == 4 or len(one.numbers) == 2:
            return one
        left, top, right, bottom = one.numbers
        return one._replace(numbers=((left + right) / 2, (top + bottom) / 2))


class Boxes(Grounded):
    """A set of boxes, each `[x1, y1, x2, y2]`, in the space of the gold answer."""

    kind = "boxes"
    expected = "a list of boxes, such as `[[16, 16, 48, 48], [60, 8, 90, 30]]`"

    def __init__(self, context: AnswerContext = AnswerContext()) -> None:
        super().__init__(context, Frame(Coordinates("unit"), (1, 1)), 4, several=True)


class Points(Grounded):
    """A set of points, each `[x, y]`, in the space of the gold answer; the gold answer may be a box around them."""

    kind = "points"
    expected = "points `[[x, y], …]`, or the box `[x1, y1, x2, y2]` in which they are right"

    def __init__(self, context: AnswerContext = AnswerContext()) -> None:
        super().__init__(context, Frame(Coordinates("unit"), (1, 1)), 2, several=True)


class Area(Grounded):
    """An outline of three and more corners, of several parts or one, or a mask."""

    kind = "region"
    expected = "an outline `[[x, y], …]` or a mask of `size` and `counts`"

    def __init__(
        self, context: AnswerContext = AnswerContext(), frame: Frame = Frame(Coordinates("unit"), (1, 1))
    ) -> None:
        super().__init__(context, frame, 2)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": corners_schema(2)}

    def parse(self, text: str) -> Value | Fault | None:
        return self.value_of(areas_of(text))

    def value_of(self, areas: Sequence[Any]) -> Value | Fault | None:
        """Return the only one of several written areas; None without any."""
        located = [tuple(self._frame.located(part) for part in area) for area in dict.fromkeys(areas)]
        if fault := next((part for area in located for part in area if isinstance(part, Fault)), None):
            return fault
        different = list(dict.fromkeys(tuple(part.numbers or part.mask for part in area) for area in located))  # type: ignore[union-attr]
        if len(different) > 1:
            return Fault(f"two answers: {len(different)} different outlines or masks")
        return located[0] if located else None  # type: ignore[return-value]

    def _written(self, text: str) -> list[Found]:
        found = [Found(self.value_of(areas_of(one.value)), one.start, one.end) for one in json_in(text)]
        places = list(places_of(text))
        if not any(one.value is not None for one in found) and places:
            start, end = places[0][0], places[-1][1]
            found = [Found(self.parse(text[start:end].replace(" and ", ", ")), start, end)]
        return [one for one in found if one.value is not None]

    def _only(self, found: Sequence[Found]) -> Found:
        if all(one.value == found[0].value for one in found):
            return found[0]
        return Found(Fault("two answers"), found[0].start, found[-1].end)


def _is_denied(sentence: Sentence) -> bool:
    """Return True for a sentence that denies: `It is not at [12, 30, 40, 80]`; quoted words, such as labels, deny nothing."""
    denied = (sentence.words[one.first].start for one in sentence.phrases if one.table in ("negation", "wrong"))
    return any(sentence.text.count('"', 0, at) % 2 == 0 for at in denied)


def _is_supposed(sentence: Sentence) -> bool:
    """Return True for a sentence that decides nothing (`if it were there`, `maybe`), unless it chooses (`I would say`)."""
    return sentence.has("hedge") and not sentence.has("choose")


def shown(numbers: Sequence[Fraction]) -> str:
    """Return coordinates for people, to a hundredth of a pixel."""
    return "[" + ", ".join(f"{float(number):.2f}".rstrip("0").rstrip(".") for number in numbers) + "]"
