"""How the answers of a table name their options, and of which kind open answers are, decided from all of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from snellen.benchmarks.table.cells import (
    CONVENTIONS,
    accepted_texts,
    letter_of,
    number_of,
    plain_answer,
    truth_of,
    whole,
)
from snellen.errors import UsageError
from snellen.types import Kind

WORDS = {
    "letter": "letters",
    "text": "option texts",
    "index0": "indexes from 0",
    "index1": "indexes from 1",
    "bool": "yes or no",
    "number": "numbers",
}
"""Forms of an answer, for people."""


class AnswerCounts(Struct):
    """Counts over the answers of a table, row by row.

    Attributes:
        closed: answers to questions with options.
        fits: by convention, how many of these it reads.
        letters: by pair of conventions, how many they read differently.
        open: answers to questions without options.
        truths, numbers, whole_numbers: how many of the open ones are truth values, numbers, whole numbers from 0.
        zeros_and_ones: how many are 0 or 1.
        words: the open answers that are truth values, as the file has them.
    """

    closed: int = 0
    fits: Counter[str] = field(default_factory=Counter)
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    open: int = 0
    truths: int = 0
    numbers: int = 0
    whole_numbers: int = 0
    zeros_and_ones: int = 0
    words: Counter[str] = field(default_factory=Counter)

    def add(self, value: Any, options: Mapping[str, str]) -> None:
        """Count one answer; an empty one is none."""
        value = plain_answer(value)
        if value is None or value == "" or value != value:
            return
        if len(options) > 1:
            self._add_closed(value, options)
        else:
            self._add_open(value)

    def _add_closed(self, value: Any, options: Mapping[str, str]) -> None:
        self.closed += 1
        read = {form: letter for form in CONVENTIONS if (letter := letter_of(value, options, form))}
        self.fits.update(read.keys())
        forms = list(read)
        for at, first in enumerate(forms):
            for second in forms[at + 1 :]:
                if read[first] != read[second]:
                    self.letters[first, second] += 1

    def _add_open(self, value: Any) -> None:
        self.open += 1
        if truth_of(value) is not None:
            self.truths += 1
            self.words["bool" if isinstance(value, bool) else str(value).strip().rstrip(".").lower()] += 1
        texts = accepted_texts(value)
        number = number_of(texts[0]) if len(texts) == 1 else None
        if number is not None:
            self.numbers += 1
            self.whole_numbers += isinstance(number, int) and number >= 0
            self.zeros_and_ones += whole(number) in (0, 1)

    def convention(self, column: str, name: str) -> str:
        """Return the convention that reads most answers.

        Raises:
            UsageError: two read equally many, and differ.
        """
        if not self.closed:
            return "letter"
        ranked = sorted(CONVENTIONS, key=lambda form: (-self.fits[form], CONVENTIONS.index(form)))
        best = ranked[0]
        for other in ranked[1:]:
            pair = (best, other) if (best, other) in self.letters else (other, best)
            if self.fits[other] == self.fits[best] and self.letters[pair]:
                raise UsageError(
                    f"{name}: the answers in {column!r} could be {WORDS[best]} or {WORDS[other]}: "
                    f"both fit all of {self.fits[best]:,}, and name other options",
                    f"Say which: --map answer={column}:{best} or --map answer={column}:{other}. No request was sent.",
                )
        return best

    def open_kind(self, column: str, name: str) -> Kind:
        """Return the kind of the open answers.

        Raises:
            UsageError: all are 0 or 1, so that they could be truth values or numbers.
        """
        if self.open and self.truths == self.open:
            return "truth"
        if self.open > 1 and self.zeros_and_ones == self.open:
            raise UsageError(
                f"{name}: every answer in {column!r} is 0 or 1: a number, or no and yes",
                f"Say which: --map answer={column}:bool or --map answer={column}:number. No request was sent.",
            )
        if self.open and self.numbers == self.open:
            return "count" if self.whole_numbers == self.open else "number"
        return "short"

    @property
    def truth_form(self) -> str:
        """Return the words by which truth questions are answered: those of the file."""
        plain = sum(count for word, count in self.words.items() if word in ("true", "false", "t", "f"))
        return "T/F" if plain > sum(self.words.values()) / 2 else "yes/no"
