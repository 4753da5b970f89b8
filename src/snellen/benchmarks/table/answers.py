"""How the answers of a table name their options, and what open ones say of their column, counted over all of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from snellen.benchmarks.table.cells import CONVENTIONS, letters_of, plain_answer
from snellen.benchmarks.table.gold_kinds import NUMBERS, ColumnForms
from snellen.benchmarks.table.markup import unmarked
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
_PLAIN_LETTERS = "ABCDEGHIJKLMOPQRSUVWXZ"
"""Letters that are no truth values."""


class AnswerCounts(Struct):
    """Counts over the answers of a table, row by row.

    Attributes:
        closed: answers to questions with options.
        fits: by convention, how many of these it reads.
        letters: by pair of conventions, how many they read differently.
        several: by convention, how many of these name several options.
        open: the answers to questions without options.
    """

    closed: int = 0
    fits: Counter[str] = field(default_factory=Counter)
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    several: Counter[str] = field(default_factory=Counter)
    open: ColumnForms = field(default_factory=ColumnForms)

    def add(self, value: Any, options: Mapping[str, str], question: str = "") -> None:
        """Count one answer; an empty one is none."""
        value = plain_answer(value)
        if value is None or value == "" or value != value:
            return
        if len(options) > 1:
            self._add_closed(value, options)
        else:
            self.open.add(unmarked(value) if isinstance(value, str) else value, question)

    def _add_closed(self, value: Any, options: Mapping[str, str]) -> None:
        self.closed += 1
        plain = isinstance(value, str) and len(value) == 1 and value in _PLAIN_LETTERS and value in options
        if plain and min(map(len, options.values())) > 1:
            self.fits["letter"] += 1  # no other convention reads it
            return
        read = {form: letters for form in CONVENTIONS if (letters := letters_of(value, options, form))}
        self.fits.update(read.keys())
        self.several.update(form for form, letters in read.items() if len(letters) > 1)
        forms = list(read)
        for at, first in enumerate(forms):
            for second in forms[at + 1 :]:
                if read[first] != read[second]:
                    self.letters[first, second] += 1

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

    def require_kind(self, column: str, name: str) -> None:
        """Raise UsageError if all open answers are 0 or 1, numbers or truth values, or lists of points."""
        if self.open.is_bits:
            raise UsageError(
                f"{name}: every answer in {column!r} is 0 or 1: a number, or no and yes",
                f"Say which: --map answer={column}:bool or --map answer={column}:number. No request was sent.",
            )

        if self.open.rows and self.open.forms["outline"] == self.open.rows:
            raise UsageError(
                f"{name}: every answer in {column!r} is a list of three and more points: an outline, or each a point of its own",
                "Say which: --kind region (replies are outlines too), --kind point (replies are points in it) or --kind points. "
                "No request was sent.",
            )

    def require_moment_or_point(self, column: str, name: str) -> None:
        """Raise UsageError if answers about clips are two numbers each, which could be moments or points."""
        if self.open.rows and self.open.forms["point"] == self.open.rows:
            raise UsageError(
                f"{name}: every answer in {column!r} is two numbers: start and end of a moment, or x and y of a point",
                "Say which: --kind moment or --kind point. No request was sent.",
            )

    def single_kind(self, column: str, name: str) -> Kind:
        """Return the one kind of all open answers, for a declared rule that reads them alike. Raises as `require_kind`."""
        if self.open.is_truth:
            return "truth"
        self.require_kind(column, name)
        if self.open.rows and sum(self.open.forms[form] for form in NUMBERS) == self.open.rows:
            return "number" if self.open.forms["number"] else "count"
        return "short"

    @property
    def truth_form(self) -> str:
        """Return the words by which truth questions are answered: those of the file."""
        words = self.open.truth_forms
        return "T/F" if words["T/F"] > words["yes/no"] else "yes/no"
