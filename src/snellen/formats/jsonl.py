"""JSON lines of lm-eval (`samples_<task>_*.jsonl`), lmms-eval (`*_samples_<task>.jsonl`) and of Snellen itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from snellen.formats.base import PEOPLE, STATUSES, Answer, AnswerFile, Problems, missing, with_status
from snellen.formats.columns import id_of
from snellen.formats.readers import json_rows, raw_lines
from snellen.sources.journal_lines import never_sealed, record_number, sample_named
from snellen.types import Failure, Status

T = TypeVar("T", bound=Struct)


class _OwnResponse(Struct, frozen=True, gc=False):
    text: str
    latency_s: float = 0.0


class _OwnRecord(Struct, frozen=True, gc=False):
    sample_id: str
    status: Status
    repeat: int = 0
    response: _OwnResponse | None = None
    error: Failure | None = None


class _PersonAnswer(Struct, frozen=True, gc=False):
    sample_id: str
    person: str
    reply: str | None
    seconds: float = 0.0
    late: bool = False


def own(path: Path) -> AnswerFile:
    """Open a results.jsonl: a later answer to a sample replaces its failures (see `base.final`)."""
    return AnswerFile(path, "snellen", lambda problems: _own(path, problems), "Snellen's own records", "sample_id")


def _own(path: Path, problems: Problems) -> Iterator[Answer]:
    for number, row in _journal_rows(path, problems, _OwnRecord):
        response = row.response if row.status == "ok" else None
        failure = row.error
        if response is None and failure is None:
            failure = Failure(row.status, f"line {number}: the record holds no reply")
        text, seconds = (None, 0.0) if response is None else (response.text, response.latency_s)
        yield Answer(row.sample_id, text, f"line {number}", row.repeat, row.status, failure, seconds)


def people(path: Path, person: str) -> AnswerFile:
    """Open the answers of one person to `snellen answer`: the last one to a question counts, and null withdraws it."""
    return AnswerFile(path, PEOPLE, lambda problems: _people(path, problems), "a person's answers", "sample_id", person)


def _people(path: Path, problems: Problems) -> Iterator[Answer]:
    answers: dict[str, Answer] = {}
    for number, row in _journal_rows(path, problems, _PersonAnswer):
        answers.pop(row.sample_id, None)
        if row.reply is not None:
            late = "late" if row.late else ""
            answers[row.sample_id] = Answer(
                row.sample_id, row.reply, f"line {number}", latency_s=row.seconds, finish_reason=late
            )
    yield from answers.values()


def _journal_rows(path: Path, problems: Problems, type_: type[T]) -> Iterator[tuple[int, T]]:
    """Yield (number of the line, row) for each intact line of a journal, each record once."""
    decode = msgspec.json.Decoder(type_).decode
    upto = 0
    beyond: set[int] = set()  # numbers behind a gap; those up to `upto` were all there, in order
    for number, line in raw_lines(path, problems):
        record = record_number(line)
        if record is None and not never_sealed(line):
            problems.add(f"line {number}", f"{sample_named(line)!r} does not match its checksum")
            continue
        if record is not None and (record <= upto or record in beyond):
            problems.add(f"line {number}", f"repeats record {record}")
            continue
        try:
            row = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problems.add(f"line {number}", f"not a record: {error}")
            continue
        if record is not None and record == upto + 1 and not beyond:
            upto = record
        elif record is not None:
            beyond.add(record)
        yield number, row


def lmms(path: Path, id_field: str = "doc_id") -> AnswerFile:
    """Open samples of lm-eval or lmms-eval: `resps` holds the replies, a list per request of a list per repeat.

    `filtered_resps` is read only if there are no `resps`; lmms-eval omits them if the two are equal. `id_field` is
    `sample_id` in Snellen's own exports, which have the samples' ids beside the `doc_id`.
    """
    about = f"ids from {id_field!r}, replies from 'resps'"
    return AnswerFile(path, "lmms-eval", lambda problems: _lmms(path, id_field, problems), about, id_field)


def _lmms(path: Path, id_field: str, problems: Problems) -> Iterator[Answer]:
    first_filter: Any = None
    for number, row in json_rows(path, problems):
        where = f"line {number}"
        # lm-eval has a row for each filter; the reply before the filter is the same in all of them.
        first_filter = row.get("filter") if first_filter is None else first_filter
        if row.get("filter") != first_filter:
            continue
        try:
            sample_id = id_of(row.get(id_field))
        except ValueError as error:
            problems.add(where, f"{id_field}: {error}")
            continue
        try:
            if _is_likelihood(row):
                raise ValueError("a log-likelihood task has no reply; its resps are numbers")
            texts = list(leaves(row["resps"] if row.get("resps") is not None else row.get("filtered_resps")))
        except ValueError as error:
            problems.add(where, str(error))
            yield missing(sample_id, where, str(error))
            continue
        if not texts:
            yield missing(sample_id, where, "the row holds no reply")
        own = id_field == "sample_id"
        numbers, statuses = _parallel(row, "repeats", texts, own=own), _parallel(row, "status", texts, own=own)
        for at, text in enumerate(texts):
            repeat = numbers[at] if isinstance(numbers[at], int) and numbers[at] >= 0 else at
            if statuses[at] in STATUSES:
                yield with_status(Answer(sample_id, text, where, repeat), statuses[at])
            elif text is None:
                yield missing(sample_id, where, "the reply is null", repeat)
            else:
                yield Answer(sample_id, text, where, repeat)


def _is_likelihood(row: dict[str, Any]) -> bool:
    """Return True for a row of a task without replies: lm-eval's requests then are a context and a continuation."""
    arguments = row.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    return isinstance(first, dict) and isinstance(first.get("arg_1"), str)


def _parallel(row: dict[str, Any], name: str, texts: list[str | None], *, own: bool) -> list[Any]:
    """Return what Snellen's own exports say of each reply; None for every reply of another file."""
    values = row.get(name) if own else None
    return values if isinstance(values, list) and len(values) == len(texts) else [None] * len(texts)


def leaves(value: Any) -> Iterator[str | None]:
    """Yield the replies in nested lists such as `resps`, in order; None for a null.

    Raises:
        ValueError: they contain numbers or anything else that is no text.
    """
    if isinstance(value, list):
        for item in value:
            if item is None:
                yield None
            else:
                yield from leaves(item)
    elif isinstance(value, str):
        yield value
    elif value is not None:
        raise ValueError("resps holds numbers, not replies; log-likelihood tasks have no text to score")
