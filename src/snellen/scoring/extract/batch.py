"""Batch extraction for `snellen extract`: rows in, rows with extracted answers out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.scoring.extract import KINDS, correct, read

_FORMS = ("yes/no", "t/f", "true/false", "")


class Tally(Struct, frozen=True):
    """Counts for one kind: rows, rows that were read, rows with a gold answer, and correct rows."""

    kind: str
    n: int
    read: int
    graded: int
    correct: int


def extract_row(row: Mapping[str, Any], where: str = "row") -> dict[str, Any]:
    """Return the row with `extracted`, `reason` and, given a gold answer, `correct` added; all other fields stay.

    Args:
        row: `kind` and `reply`; optionally `question`, `options` (letter to text, or a list of texts), `gold`,
            `aliases`, `form` (`yes/no` or `T/F`) and `unit`.
        where: how an error names the row.

    Raises:
        DataError: if a field is missing or not of its type.
    """
    kind = row.get("kind")
    if kind not in KINDS:
        raise DataError(f"{where}: 'kind' is {kind!r}; expected one of {', '.join(KINDS)}.")
    if "reply" not in row:
        raise DataError(f"{where}: 'reply' is missing. The row has {', '.join(map(repr, row)) or 'no fields'}.")
    reply = "" if row["reply"] is None else row["reply"]  # a sample without an answer
    if not isinstance(reply, str):
        raise DataError(f"{where}: 'reply' is {type(reply).__name__}; expected a string.")
    options = row.get("options") or None
    if kind in ("choice", "choice_text"):
        _check_options(options, kind, where)
    aliases = row.get("aliases") or ()
    if isinstance(aliases, str):
        aliases = (aliases,)
    if not isinstance(aliases, list | tuple) or not all(isinstance(alias, str) for alias in aliases):
        raise DataError(f"{where}: 'aliases' is {aliases!r}; expected a list of strings.")
    form, unit, question = (row.get(name) or "" for name in ("form", "unit", "question"))
    for name, value in (("form", form), ("unit", unit), ("question", question)):
        if not isinstance(value, str):
            raise DataError(f"{where}: {name!r} is {value!r}; expected a string.")
    if form.lower() not in _FORMS:
        raise DataError(f"{where}: 'form' is {form!r}; expected 'yes/no' or 'T/F'.")
    reading = read(kind, reply, question=question, options=options, form=form or None, unit=unit or None)
    out = {**row, "extracted": reading.value, "reason": reading.reason}
    gold = row.get("gold")
    if gold is not None:
        out["correct"] = correct(kind, reading, gold, aliases)
    return out


def _check_options(options: Any, kind: str, where: str) -> None:
    if isinstance(options, Mapping) and all(isinstance(k, str) and isinstance(v, str) for k, v in options.items()):
        return
    if isinstance(options, list | tuple) and all(isinstance(text, str) for text in options) and len(options) <= 26:
        return
    options_text = "missing" if options is None else repr(options)[:80]
    raise DataError(
        f"{where}: 'options' of a {kind} row: {options_text}; expected {{letter: text}} or a list of at most 26 texts."
    )


def extract_lines(lines: Iterable[bytes], name: str) -> Iterator[dict[str, Any]]:
    """Yield the extracted row of each JSON line; empty lines are skipped.

    Raises:
        DataError: at the first line that is no JSON object or no valid row; it names the file and the line.
    """
    for where, row in json_rows(lines, name):
        yield extract_row(row, where)


def json_rows(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place, for errors, and the object of each JSON line; empty lines are skipped.

    Raises:
        DataError: at the first line that is no JSON object; it names the file and the line.
    """
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = decode(line.lstrip(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); expected one JSON object a line.") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: {type(row).__name__}; expected a JSON object.")
        yield where, row


class RowCounter:
    """A counter of rows by kind, in the order in which kinds first appear."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one extracted row."""
        counts = self._counts.setdefault(row["kind"], [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += row["extracted"] is not None
        counts[2] += "correct" in row and row.get("gold") is not None
        counts[3] += bool(row.get("correct")) and row.get("gold") is not None

    def tallies(self) -> list[Tally]:
        """Return the counts of each kind."""
        return [Tally(kind, *counts) for kind, counts in self._counts.items()]
