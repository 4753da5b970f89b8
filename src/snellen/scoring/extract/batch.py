"""Batch extraction for `snellen extract`: rows in, rows with extracted answers out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.scoring.answers import AnswerContext, GoldError, kinds
from snellen.scoring.extract import is_right, read_as, type_for
from snellen.scoring.extract.base import lettered

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
    if kind not in kinds():
        raise DataError(f"{where}: 'kind' is {kind!r}; expected one of {', '.join(kinds())}.")
    if "reply" not in row:
        raise DataError(f"{where}: 'reply' is missing. The row has {', '.join(map(repr, row)) or 'no fields'}.")
    reply = "" if row["reply"] is None else row["reply"]  # a sample without an answer
    if not isinstance(reply, str):
        raise DataError(f"{where}: 'reply' is {type(reply).__name__}; expected a string.")
    options = row.get("options") or None
    if kind in ("choice", "choice_text", "multi-choice"):
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
    gold = row.get("gold")
    context = AnswerContext(dict(lettered(options)), question, unit, form)
    answer = type_for(kind, context)
    golds = gold if isinstance(gold, list | tuple) and not answer.takes_lists else [gold]
    accepted = [one for one in (*golds, *aliases) if one is not None]
    reading = read_as(answer, reply, list(map(str, accepted)))
    shown = context.options[reading.value] if kind == "choice_text" and reading.value else reading.value
    out = {**row, "extracted": answer.plain(shown), "reason": reading.reason}
    if reading.stage:
        out["stage"] = reading.stage
    if gold is not None:
        try:
            out["correct"] = reading.value is not None and is_right(answer, reading, accepted)
        except GoldError as error:
            raise DataError(f"{where}: 'gold': {error}.") from error
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


def converted(
    lines: Iterable[bytes], name: str, convert: Callable[[dict[str, Any], str], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield each JSON line as `convert` turns it, and one that cannot be read with the field `error`, which says why and where."""
    for where, row in json_rows(lines, name):
        try:
            if isinstance(row, DataError):
                raise row
            yield convert(row, where)
        except DataError as error:
            yield {**({} if isinstance(row, DataError) else row), "error": error.message}


def json_rows(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """Yield the place, for errors, and the object of each JSON line, or why it is none; empty lines are skipped."""
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = decode(line.lstrip(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield where, DataError(f"{where}: not JSON ({error}); expected one JSON object a line.")
            continue
        yield (
            where,
            row if isinstance(row, dict) else DataError(f"{where}: {type(row).__name__}; expected a JSON object."),
        )


class RowCounter:
    """A counter of rows by kind, in the order in which kinds first appear; `faults` are those that cannot be read."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self.faults: list[str] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row, which may not have been read."""
        if "error" in row and "extracted" not in row:
            self.faults.append(row["error"])
            return
        counts = self._counts.setdefault(row["kind"], [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += row["extracted"] is not None
        counts[2] += "correct" in row and row.get("gold") is not None
        counts[3] += bool(row.get("correct")) and row.get("gold") is not None

    def tallies(self) -> list[Tally]:
        """Return the counts of each kind."""
        return [Tally(kind, *counts) for kind, counts in self._counts.items()]
