"""Counts and numbers. A number may be asked for in a unit: another unit of the same dimension is converted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.name import stemmed
from snellen.scoring.answers.numerals import find_numbers, parse_number
from snellen.scoring.replies.phrases import phrases
from snellen.scoring.replies.sentences import Phrase, Sentence, words_of

RELATIVE = Decimal("0.01")
"""A number with decimals is right within 1 % of the gold value, or within half a unit of the gold's last digit."""
_ABOUT = re.compile(
    r"(?:about|approximately|approx\.?|around|roughly|nearly|almost|exactly|circa|ca\.?|~|≈|etwa|ungefähr|rund|environ|unos|unas|cerca de|circa|около|примерно|约|大约|約)\s*",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s{0,2}(?:-|–|—|to|bis|or|oder|或|~|à)\s{0,2}", re.IGNORECASE)
_ZERO = frozenset(
    (
        "none",
        "zero",
        "nil",
        "keine",
        "keiner",
        "aucun",
        "aucune",
        "ninguno",
        "ninguna",
        "nenhum",
        "nenhuma",
        "nessuno",
        "nessuna",
        "没有",
        "ноль",
    )
)
_NO = frozenset(
    ("no", "kein", "keine", "keinen", "aucun", "aucune", "ningún", "ninguna", "nenhum", "nenhuma", "nessun", "nessuna")
)


class Amount(NamedTuple):
    """A number as it was written: its value and the place of its last digit."""

    value: Decimal
    decimals: int


class Number(AnswerType):
    """A number, as a float."""

    kind: ClassVar[str] = "number"
    expected: ClassVar[str] = "a number"
    is_closed: ClassVar[bool] = True

    def parse(self, text: str) -> Any | None:
        """Return the number that a whole text writes, perhaps with `about` before it and a unit or a noun of the question behind."""
        text = text.strip()
        text = text[match.end() :] if (match := _ABOUT.match(text)) is not None else text
        found = parse_number(text, self.context.decimal)
        if found is not None:
            return self._value(found[0])
        sentence = Sentence(text, 0, len(text))
        listed = list(self._amounts(sentence))
        if len(listed) != 1 or text[: listed[0].start].strip():
            return None
        behind = [word.text for word in sentence.words if word.start >= listed[0].end]
        fits = len(behind) <= 3 and all(
            stemmed(word) in self._asked() or not word[0].isalnum() or self._is_unit(word) for word in behind
        )
        return self._value(listed[0].value) if fits and "?" not in behind else None

    def _is_unit(self, word: str) -> bool:
        return bool(self.context.unit) and word.casefold() == self.context.unit.casefold()

    def _value(self, value: Any) -> Any | None:
        return float(value)

    def parse_gold(self, cell: Any) -> Amount:
        """Return a gold number with the place of its last digit, by which a reply may be rounded."""
        text = undressed(repr(cell) if isinstance(cell, float) else str(cell))
        found = parse_number(text, self.context.decimal)
        if found is None or isinstance(cell, bool):
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return Amount(Decimal(found[0]), found[1])

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if a number is the gold one: exactly for whole numbers, else within 1 % or the gold's own rounding."""
        wanted = gold if isinstance(gold, Amount) else self.parse_gold(gold)
        return is_close(
            Decimal(repr(value)) if isinstance(value, float) else Decimal(value),
            wanted,
            self.context.tolerance,
            self.context.level,
        )

    def show(self, value: Any) -> str:
        """Return the number in digits."""
        return f"{value:.12g}"

    def find(self, sentence: Sentence) -> list[Found]:
        """Return the numbers that a sentence names as an answer; of several, those that the question's unit or noun follows."""
        found = list(self._amounts(sentence))
        if len({one.value for one in found}) > 1:
            found = self._asked_for(sentence, found) or self._total(sentence, found) or found
        values = [(self._value(one.value), one) for one in found]
        return [Found(value, one.start, one.end) for value, one in values if value is not None]

    def _amounts(self, sentence: Sentence) -> Iterator[Found]:
        """Yield the numbers of a sentence but for labels (`image 2`), marks of a list, ranges and bounds (`at least 3`)."""
        text = sentence.text
        numbers = find_numbers(text, self.context.decimal)
        bounds = _edges(sentence.phrases, sentence, ("bound",))
        labels = _edges(sentence.phrases, sentence, ("label",))
        skipped: set[int] = set()
        for at, number in enumerate(numbers):
            before = text[: number.start].rstrip(" (#:.~≈")
            if (
                len(before) in labels
                and Decimal(number.value) == int(number.value)
                and text[number.start - 1 : number.start] != ":"
            ):
                skipped.add(at)
            if (
                number.start == 0
                and text[number.end : number.end + 2] in (". ", ") ")
                and text[number.end + 2 :].strip()
            ):
                skipped.add(at)
            if len(_ABOUT.sub("", before[-40:] + " ").rstrip()) < len(before[-40:]):
                before = before[: -len(before[-40:]) or None] + _ABOUT.sub("", before[-40:] + " ").rstrip()
            if len(before) in bounds:
                skipped.add(at)
            if at + 1 < len(numbers) and _RANGE.fullmatch(text[number.end : numbers[at + 1].start]):
                skipped.update((at, at + 1))
        if skipped and any(len(text[: numbers[at].start].rstrip()) in bounds for at in skipped):
            skipped.update(
                at
                for at in range(len(numbers))
                if at - 1 in skipped
                and text[numbers[at - 1].end : numbers[at].start].strip()
                in ("and", "und", "et", "y", "to", "e", "и", "到", "和")
            )
        for at, number in enumerate(numbers):
            if at not in skipped:
                yield Found(number.value, number.start, number.end)

    def _asked(self) -> frozenset[str]:
        function = frozenset(phrases("function"))
        return frozenset(
            stemmed(word.text)
            for word in words_of(self.context.question)
            if word.text not in function and word.text[0].isalpha()
        )

    def _asked_for(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the numbers that are followed by a word of the question, within two words."""
        asked = self._asked()
        chosen = []
        for one in found:
            behind = [word for word in sentence.words if word.start >= one.end][:2]
            if any(stemmed(word.text) in asked for word in behind):
                chosen.append(one)
        return chosen if len({one.value for one in chosen}) == 1 else []

    def _total(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the number behind a word of summing up or a sign of equality, or just before such a word at the end."""
        text = sentence.text
        ends = [
            sentence.words[phrase.after - 1].end
            for phrase in sentence.phrases
            if phrase.table in ("total", "conclusion")
        ]
        ends += [match.end() for match in re.finditer(r"=|≈|→", text)]
        if ends:
            behind = [one for one in found if one.start >= max(ends)]
            if len({one.value for one in behind}) == 1:
                return behind
            before = [one for one in found if one.end <= max(ends)]
            if not behind and before and max(ends) - before[-1].end < 40:
                return before[-1:]
        return []


def is_close(value: Decimal, gold: Amount, tolerance: float | None, level: str = "folded") -> bool:
    """Return True if a value answers as a gold number does; see `RELATIVE`."""
    if value == gold.value or level == "exact":
        return value == gold.value
    if tolerance is not None:
        return abs(value - gold.value) <= Decimal(repr(tolerance)) * abs(gold.value)
    if gold.value == gold.value.to_integral_value() and gold.decimals <= 0:
        return False
    half = Decimal(5).scaleb(-gold.decimals - 1) if gold.decimals < 20 else Decimal(0)
    return abs(value - gold.value) <= max(RELATIVE * abs(gold.value), half)


def _edges(found: Sequence[Phrase], sentence: Sentence, tables: tuple[str, ...]) -> frozenset[int]:
    """Return the ends of phrases of some tables."""
    return frozenset(sentence.words[phrase.after - 1].end for phrase in found if phrase.table in tables)


class Count(Number):
    """A whole number from 0, as an int."""

    kind: ClassVar[str] = "count"
    expected: ClassVar[str] = "a whole number"

    def _value(self, value: Any) -> int | None:
        return int(value) if value == int(value) and value >= 0 else None

    def parse(self, text: str) -> int | None:
        """Return the whole number that a whole text writes; `none` is 0."""
        return 0 if text.strip().lower() in _ZERO else super().parse(text)

    def parse_gold(self, cell: Any) -> Amount:
        """Return a gold count; `3.0` is 3."""
        amount = super().parse_gold(cell)
        if amount.value != int(amount.value):
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return Amount(amount.value, 0)

    def show(self, value: Any) -> str:
        """Return the count in digits."""
        return str(value)

    def find(self, sentence: Sentence) -> list[Found]:
        """Return the counts of a sentence; `no birds` is 0 where birds are asked for."""
        found = super().find(sentence)
        if found:
            return found
        words, asked = sentence.words, self._asked()
        for at, word in enumerate(words):
            if (word.text in _ZERO and at == 0) or (
                word.text in _NO and any(stemmed(near.text) in asked for near in words[at + 1 : at + 4])
            ):
                return [Found(0, word.start, word.end)]
        return []
