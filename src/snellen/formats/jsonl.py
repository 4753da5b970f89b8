"""JSON lines of lm-eval (`samples_<task>_*.jsonl`), lmms-eval (`*_samples_<task>.jsonl`) and of Snellen itself (results.jsonl)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.formats.base import STATUSES, Answer, AnswerFile, Problems, missing, with_status
from snellen.formats.columns import id_of
from snellen.formats.readers import json_rows, raw_lines
from snellen.sources.journal_lines import never_sealed, record_number, sample_named
from snellen.types import Failure, Status


class _OwnResponse(Struct, frozen=True, gc=False):
    text: str


class _OwnRecord(Struct, frozen=True, gc=False):
    sample_id: str
    status: Status
    repeat: int = 0
    response: _OwnResponse | None = None
    error: Failure | None = None


def own(path: Path) -> AnswerFile:
    """Open a results.jsonl: a later answer to a sample replaces its failures (see `base.final`)."""
    return AnswerFile(path, "snellen", lambda problems: _own(path, problems), "Snellen's own records", "sample_id")


def _own(path: Path, problems: Problems) -> Iterator[Answer]:
    decode = msgspec.json.Decoder(_OwnRecord).decode
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
        text = None if row.response is None or row.status != "ok" else row.response.text
        failure = row.error
        if text is None and failure is None:
            failure = Failure(row.status, f"line {number}: the record holds no reply")
        yield Answer(row.sample_id, text, f"line {number}", row.repeat, row.status, failure)


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
