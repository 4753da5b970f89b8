"""Structured answers: a JSON object, compared field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.listing import folded
from snellen.scoring.answers.numerals import parse_number
from snellen.scoring.replies.sentences import Sentence

MOST_CHARACTERS = 200_000
"""Maximum characters of an answer in JSON."""
TRIES = 200
PASSES = 8
"""Maximum places at which JSON is tried, and passes over the text, which keep the search linear."""


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _decimal(digits: str) -> Decimal:
    number = Decimal(digits)
    if abs(number.adjusted()) > 999:
        raise ValueError(f"{digits[:40]} is out of bounds")
    return number


_DECODER = json.JSONDecoder(parse_float=_decimal, parse_constant=_refused)


def json_in(text: str, opening: str = "{[") -> Iterator[Found]:
    """Yield the outermost JSON objects and arrays of a text, those that start with one of the opening brackets."""
    at, budget = 0, PASSES * len(text)
    for _ in range(TRIES):
        places = [place for bracket in opening if (place := text.find(bracket, at)) >= 0]
        if not places or budget <= 0:
            return
        start = min(places)
        at = start + 1
        try:
            value, at = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            budget -= (len(text) if error.msg.startswith("Unterminated") else error.pos) - start
            continue
        except (ValueError, RecursionError, ArithmeticError):  # a number of too many digits, brackets nested too deeply
            return
        budget -= at - start
        yield Found(value, start, at)


def whole_json(text: str) -> Any | None:
    """Return the JSON object or array that a text is, a code fence around it removed; None if it is none."""
    text = text.strip().removeprefix("```").removesuffix("```").strip()
    if len(text) > MOST_CHARACTERS:
        return None
    bare = text.removeprefix("json").removeprefix("JSON").strip()
    found = next(json_in(bare), None) if bare[:1] in ("{", "[") else None
    return found.value if found is not None and (found.start, found.end) == (0, len(bare)) else None


class JsonValue(AnswerType):
    """A JSON object.

    Every field of the gold object must be in the answer and be the same: numbers as numbers (whole ones exactly, others within 1 %,
    or the table's tolerance), texts without case and outer punctuation, lists item by item. Further fields are ignored.
    """

    kind = "json"
    expected = 'a JSON object, such as `{"colour": "red", "count": 3}`'

    def parse(self, text: str) -> dict[str, Any] | None:
        """Return the object of a text that is one JSON object."""
        value = whole_json(text)
        return value if isinstance(value, dict) and value else None

    def parse_gold(self, cell: Any) -> dict[str, Any]:
        """Return the object of a gold cell, text or structure.

        Raises:
            GoldError: the cell holds no object.
        """
        value = self.parse(json.dumps(cell, default=str) if isinstance(cell, dict) else str(cell))
        if value is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def same(self, value: dict[str, Any], gold: dict[str, Any]) -> bool:
        """Return True if the answer has every field of the gold object with the same value."""
        return self._same(value, gold)

    def show(self, value: dict[str, Any]) -> str:
        """Return the object as JSON."""
        return _written(value)

    def find(self, sentence: Sentence) -> Sequence[Found]:
        """Return every outermost object of a text."""
        whole = sentence.text
        return [found for found in json_in(whole[:MOST_CHARACTERS], "{") if found.value]

    def _same(self, value: Any, gold: Any) -> bool:
        if isinstance(gold, dict):
            if not isinstance(value, dict):
                return False
            fields = {folded(key): part for key, part in value.items()} | value
            return all(
                (name := key if key in fields else folded(key)) in fields and self._same(fields[name], part)
                for key, part in gold.items()
            )
        if isinstance(gold, list):
            return isinstance(value, list) and len(value) == len(gold) and all(map(self._same, value, gold))
        if gold is None or isinstance(gold, bool) or value is None or isinstance(value, bool):
            return value is gold
        if isinstance(gold, int | Decimal):
            return self._near(value, gold)
        return isinstance(value, str | int | Decimal) and folded(str(value)) == folded(gold)

    def _near(self, value: Any, gold: int | Decimal) -> bool:
        number = parse_number(value, self.context.decimal) if isinstance(value, str) else (value, 0)
        if number is None or not isinstance(number[0], int | Decimal):
            return False
        tolerance = self.context.tolerance
        if tolerance is None:
            tolerance = 0.0 if isinstance(gold, int) else 0.01
        return abs(Fraction(number[0]) - Fraction(gold)) <= abs(Fraction(gold)) * Fraction(tolerance)


def _written(value: Any) -> str:
    """Return a value as JSON, with its decimals as they were written."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_written(part)}" for key, part in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
