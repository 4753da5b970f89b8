"""Structured answers: a JSON object, compared field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.fold import FOLDS
from snellen.scoring.answers.number import Amount, is_close
from snellen.scoring.answers.numerals import parse_number
from snellen.scoring.replies.sentences import Sentence

MOST_CHARACTERS = 200_000
"""Maximum characters of an answer in JSON."""
TRIES, PASSES = 200, 8
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
    bare = text.removeprefix("json").removeprefix("JSON").strip() if len(text) <= MOST_CHARACTERS else ""
    found = next(json_in(bare), None) if bare[:1] in ("{", "[") else None
    return found.value if found is not None and (found.start, found.end) == (0, len(bare)) else None


class JsonValue(AnswerType):
    """A JSON object that has every field of the gold object, compared as the kinds `number` and `text` do, lists item by item."""

    kind = "json"
    expected = 'a JSON object, such as `{"colour": "red", "count": 3}`'

    def parse(self, text: str) -> dict[str, Any] | None:
        value = whole_json(text)
        return value if isinstance(value, dict) and value else None

    def parse_gold(self, cell: Any) -> dict[str, Any]:
        value: dict[str, Any] = super().parse_gold(json.dumps(cell, default=str) if isinstance(cell, dict) else cell)
        return value

    def show(self, value: Any) -> str:
        if isinstance(value, dict):
            fields = (f"{json.dumps(key, ensure_ascii=False)}: {self.show(part)}" for key, part in value.items())
            return "{" + ", ".join(fields) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.show, value)) + "]"
        return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)

    def find(self, sentence: Sentence) -> Sequence[Found]:
        return [found for found in json_in(sentence.text[:MOST_CHARACTERS], "{") if found.value]

    def same(self, value: Any, gold: Any) -> bool:
        fold = FOLDS[self.context.level]
        if isinstance(gold, dict):
            inner = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else None
            if isinstance(inner, dict) and not value.keys() & gold.keys():
                value = inner  # `{"answer": {…}}`
            fields = {fold(key): part for key, part in value.items()} | value if isinstance(value, dict) else {}
            names = {key: key if key in fields else fold(key) for key in gold}
            return all(name in fields and self.same(fields[name], gold[key]) for key, name in names.items())
        if isinstance(gold, list):
            return isinstance(value, list) and len(value) == len(gold) and all(map(self.same, value, gold))
        if any(part is None or isinstance(part, bool | dict | list) for part in (value, gold)):
            return value is gold
        if isinstance(gold, str):
            return fold(str(value)) == fold(gold)
        read = parse_number(value, self.context.decimal) if isinstance(value, str) else (value, 0)
        wanted = Amount(Decimal(gold), -int(Decimal(gold).as_tuple().exponent))
        return read is not None and is_close(Decimal(read[0]), wanted, self.context.tolerance, self.context.level)
