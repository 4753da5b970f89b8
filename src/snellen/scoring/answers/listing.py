"""Lists: several texts in one answer."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from functools import cached_property
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, GoldError
from snellen.scoring.rules.literals import literal_list

MOST_CHARACTERS = 4_000
MOST_ITEMS = 200
"""Maximum size of a list. A longer text is no list."""
LONGEST_ITEM = 100
"""Maximum characters of an item."""
_MARK = re.compile(r"\s*(?:(?P<number>\(?\d{1,3}[.)])|[-*•·–])\s+(?=\S)")
_SEPARATORS = tuple(
    re.compile(mark)
    for mark in (r"\s*\n\s*", r"\s*(?:→|->|=>|⇒|>)\s*", r"\s*[;；]\s*", r"\s*[|｜]\s*", r"\s*[,，、،]\s*")
)
_ARROWS = 1
_AND = re.compile(r"\s+(?:and|&|und|et|y|e|和|и)\s+", re.IGNORECASE)
_LAST_AND = re.compile(r"(?:and|und|et|or|&)\s+(?=\S)", re.IGNORECASE)
_BRACKETS = {"[": "]", "(": ")", "{": "}", "【": "】"}
_ANY_ORDER = re.compile(r"\b(?:any|no particular|whatever) order|beliebiger Reihenfolge|任意顺序", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:order|sequence|sort(?:ed)?|rank(?:ed|ing)?|ascending|descending|alphabetically|chronologically|Reihenfolge|sortiert|ordre|orden)\b",
    re.IGNORECASE,
)
_FROM_TO = re.compile(
    r"\b(?:left|right|top|bottom|first|front|inside|outside|\w{3,12}est) to \w+|顺序|順序|依次|从.{1,4}到",
    re.IGNORECASE,
)


def folded(text: str) -> str:
    """Return a text without case, repeated blanks and outer punctuation."""
    text = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    start, end = 0, len(text)
    while start < end and text[start] in _OUTER:
        start += 1
    while end > start and text[end - 1] in _OUTER:
        end -= 1
    return text[start:end] or text


_OUTER = "\"'“”‘’„«»`*_.,;: "


class Items(NamedTuple):
    """The items of a list, and whether it was written as a sequence: with arrows or numbers."""

    items: tuple[str, ...]
    is_sequence: bool


class Listing(AnswerType):
    """Several texts, as JSON, one a line, or between commas, semicolons, bars or arrows.

    The order counts where the question asks for one (`in order`, `from left to right`) or the gold answer is written as a sequence
    (`a → b`, `1. a 2. b` on lines). Elsewhere it does not; an item that is twice in the gold answer must be twice in the reply.
    """

    kind = "list"
    expected = 'a list, such as `red, green` or `["red", "green"]`'

    def parse(self, text: str) -> Items | None:
        """Return the items of a text."""
        text = text.strip()
        if not text or len(text) > MOST_CHARACTERS:
            return None
        if text[0] == "[" and text[-1] == "]" and (values := literal_list(text) or _json_list(text)) is not None:
            return _items(values, is_sequence=False)
        if text[0] in _BRACKETS and text[-1] == _BRACKETS[text[0]] and text.count(text[0]) == 1:
            text = text[1:-1].strip()
        lines = text.splitlines()
        marks = [_MARK.match(line) for line in lines]
        if len(lines) > 1 and all(marks):
            items = [line[mark.end() :] for line, mark in zip(lines, marks, strict=True) if mark is not None]
            return _items(items, is_sequence=all(mark is not None and mark["number"] for mark in marks))
        for at, separator in enumerate(_SEPARATORS):
            parts = [part for part in separator.split(text) if part]
            if len(parts) > 1:
                if at > _ARROWS:
                    last = (
                        _AND.split(parts[-1])
                        if len(parts) == 2 or not _LAST_AND.match(parts[-1])
                        else [_LAST_AND.sub("", parts[-1], 1)]
                    )
                    parts[-1:] = last if len(parts) > 2 or len(last) > 1 else parts[-1:]
                return _items(parts, is_sequence=at == _ARROWS)
        return _items(_AND.split(text), is_sequence=False)

    def parse_gold(self, cell: Any) -> Items:
        """Return the items of a gold cell: a list, or its text.

        Raises:
            GoldError: the cell holds no items.
        """
        values = cell.tolist() if hasattr(cell, "tolist") else cell
        if not isinstance(values, list | tuple | set | frozenset):
            parsed: Items = super().parse_gold(cell)
            return parsed
        items = _items(sorted(values, key=str) if isinstance(values, set | frozenset) else values, is_sequence=False)
        if items is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return items

    def same(self, value: Items, gold: Items) -> bool:
        """Return True if both have the same items, in the same order where that counts."""
        own, wanted = [folded(item) for item in value.items], [folded(item) for item in gold.items]
        return own == wanted if gold.is_sequence or self._is_ordered else Counter(own) == Counter(wanted)

    def show(self, value: Items) -> str:
        """Return the items with commas between them, or arrows; as JSON where that would be read otherwise."""
        text = (" → " if value.is_sequence else ", ").join(value.items)
        return text if self.parse(text) == value else json.dumps(value.items, ensure_ascii=False)

    @cached_property
    def _is_ordered(self) -> bool:
        question = self.context.question[-2_000:]
        return bool(_ORDER.search(question) or _FROM_TO.search(question)) and not _ANY_ORDER.search(question)


def _json_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _items(values: list[Any] | tuple[Any, ...], is_sequence: bool) -> Items | None:
    """Return items of texts and numbers; None for nested, empty or too long ones."""
    if not 0 < len(values) <= MOST_ITEMS or not all(isinstance(value, str | int | float) for value in values):
        return None
    items = tuple(" ".join(str(value).split()) for value in values)
    return (
        Items(items, is_sequence and len(items) > 1) if all(0 < len(item) <= LONGEST_ITEM for item in items) else None
    )
