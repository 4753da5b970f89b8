"""How the answers of a table name their options, and what open ones say of their column, counted over all of its rows.

Options of a row, and gold texts of a table, may differ in so little that an ordinary comparison would merge them: texts are compared
without case and accents; where two of them differ in nothing else, the next stricter level is used for these rows, and `snellen
check` names them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct, field

from snellen.benchmarks.table.cells import CONVENTIONS, letters_of, plain_answer
from snellen.benchmarks.table.gold_kinds import NUMBERS, ColumnForms
from snellen.benchmarks.table.literals import unmarked
from snellen.errors import UsageError
from snellen.scoring.answers.base import LEVELS
from snellen.scoring.answers.fold import accents, exact, folded
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


LONGEST = 200
"""Characters of a gold text that is compared with others; two longer ones differ in more than case."""


def _is_plain(text: str) -> bool:
    """Return True for a text of ASCII letters, digits and single blanks, which every fold leaves but for its case."""
    return text.isascii() and text.replace(" ", "").isalnum() and "  " not in text and text[0] != " " != text[-1]


@lru_cache(maxsize=65_536)
def _folded(text: str) -> str:
    return text.lower() if _is_plain(text) else folded(text)


def options_level(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the level at which the options of a row differ, as `level`; empty for the usual one.

    >>> options_level({"A": "Polish", "B": "polish"}), options_level({"A": "peché", "B": "péché"}), options_level({"A": "a", "B": "b"})
    ({'level': 'exact'}, {'level': 'accents'}, {})
    """
    whole = "\n".join(options.values())
    if whole.isascii() and whole.replace(" ", "").replace("\n", "").isalnum() and "  " not in whole:
        folds = set(
            map(str.strip, whole.lower().split("\n"))
        )  # of letters, digits and blanks a fold changes the case alone
    else:
        folds = set(map(_folded, options.values()))
    if len(folds) == len(options):
        return {}
    texts = list(options.values())
    return {"level": _level(len(set(map(exact, texts))), len({accents(text) for text in texts}))}


def _level(exactly: int, with_accents: int) -> str:
    return LEVELS[1] if with_accents == exactly else LEVELS[2]


class AlikeTexts(Struct, frozen=True):
    """Gold texts, by hash, that others of their table equal but for accents or case.

    Attributes:
        folded: hashes of texts, folded, that two different texts share.
        accents: hashes of texts without case that two different texts share.
    """

    folded: frozenset[int] = frozenset()
    accents: frozenset[int] = frozenset()

    def level_of(self, text: str) -> dict[str, Any]:
        """Return the level at which a gold text is compared, as `level`; empty for the usual one."""
        if not self.folded or len(text) > LONGEST or hash(_folded(text)) not in self.folded:
            return {}
        return {"level": LEVELS[2] if hash(accents(text)) in self.accents else LEVELS[1]}


class GoldTexts:
    """Hashes of the gold texts of a table: 24 bytes a text."""

    def __init__(self) -> None:
        self._folded, self._accents, self._exact = array("q"), array("q"), array("q")

    def add(self, text: str) -> None:
        """Add a text."""
        if not text or len(text) > LONGEST:
            return
        if _is_plain(text):
            self._folded.append(hash(text.lower()))
            self._accents.append(self._folded[-1])
            self._exact.append(hash(text))
        else:
            self._folded.append(hash(folded(text)))
            self._accents.append(hash(accents(text)))
            self._exact.append(hash(exact(text)))

    def alike(self) -> AlikeTexts:
        """Return which texts are alike."""
        return AlikeTexts(_shared(self._folded, self._exact), _shared(self._accents, self._exact))


def _shared(keys: array[int], values: array[int]) -> frozenset[int]:
    """Return the keys that several different values have."""
    if not keys:
        return frozenset()
    key, value = np.frombuffer(keys, np.int64), np.frombuffer(values, np.int64)
    order = np.lexsort((value, key))
    key, value = key[order], value[order]
    return frozenset(key[1:][(key[1:] == key[:-1]) & (value[1:] != value[:-1])].tolist())
