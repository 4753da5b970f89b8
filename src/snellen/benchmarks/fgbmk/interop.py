"""Prediction rows of the authors' demos, read and written.

A row has question_id, image, prompt (the question), text (the reply), class (the ground truth) and category, which the
BLIP-2 demo leaves out. So it is scored without the question file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec

from snellen.benchmarks.base import Answered, Data
from snellen.benchmarks.fgbmk import question_text, samples
from snellen.benchmarks.fgbmk.catalogue import Member
from snellen.benchmarks.fgbmk.locate import QuestionFile
from snellen.benchmarks.fgbmk.scorers import gold_text, prompt_question
from snellen.errors import DataError, UsageError
from snellen.formats.base import Problems, missing
from snellen.formats.columns import text_of
from snellen.formats.export import Exported
from snellen.formats.readers import first_columns, table_rows
from snellen.sources import FileBlob
from snellen.types import Record, Response, Sample

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
FIELDS = frozenset({"question_id", "image", "prompt", "text", "class"})


def read_member_results(member: Member, path: Path, data: Data, problems: Problems) -> Answered | None:
    """Read prediction rows that answer one file of questions; None where the file is of another kind."""
    return _answered(member, path, data, problems) if is_authors(path) else None


def read_all_results(path: Path, data: Data, problems: Problems) -> Answered | None:
    """Refuse the authors' rows for a run over several files: rows do not say which file they answer.

    Raises:
        UsageError: the rows are the authors'.
    """
    if is_authors(path):
        raise UsageError(
            f"{path}: prediction rows do not say which data set, level and kind they answer",
            "Name it: --benchmark fgbmk/cub/species/choice, say.",
        )
    return None


def is_authors(path: Path) -> bool:
    """Return True if a file holds the demos' prediction rows."""
    return first_columns(path, ENDINGS) >= FIELDS


def _answered(member: Member, path: Path, data: Data, problems: Problems) -> Answered:
    context = samples.prepare(QuestionFile(member, FileBlob(path), path.stem), data, None)
    ids = samples.Ids()
    scored = 0
    for number, (at, row) in enumerate(table_rows(path, problems), 1):
        question = {**row, "text": row.get("prompt")}
        sample = samples.make(context, number, question, ids)
        if "unreadable" in sample.meta:
            problems.add(at, f"{_fault(member, question)}; left out")
            continue
        scored += 1
        yield sample, _record(sample, row.get("text"), at, problems)
    if not scored:
        raise DataError(
            f"{path}: no row is an answer to fgbmk/{member.name}",
            problems.first[0] if problems.first else "The file is empty.",
        )


def _fault(member: Member, question: Mapping[str, Any]) -> str:
    text = question.get("text")
    options = question_text.options(text) if member.kind == "choice" and isinstance(text, str) else ()
    return samples.fault(member, dict(question), options)


def _record(sample: Sample, reply: Any, at: str, problems: Problems) -> Record:
    try:
        text, why = text_of(reply), "the reply is null or missing"
    except ValueError as error:
        text, why = None, str(error)
    if text is not None:
        return Record(sample.id, "ok", 0, Response(text))
    problems.add(at, f"{why}; scored as no answer")
    return Record(sample.id, "error", 0, None, missing(sample.id, at, why).failure)


def write(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
    """The authors' prediction rows, one file for each file of questions, for their answer_acc.py."""
    encode = msgspec.json.Encoder().encode
    open_files: dict[Path, IO[bytes]] = {}
    counted: Counter[str] = Counter()
    with ExitStack() as stack:
        for sample, record in answers:
            if record.status not in ("ok", "refused") or "row" not in sample.meta:
                counted["lost"] += 1
                continue
            name = f"{model}-repeat{record.repeat + 1}" if record.repeat else model
            path = folder / f"{str(sample.meta['task']).replace('/', '_')}_{name}_{stamp}.jsonl"
            if path not in open_files:
                open_files[path] = stack.enter_context(path.open("wb"))
            open_files[path].write(encode(row(sample, record)) + b"\n")
    lost = counted["lost"]
    note = f"{lost:,} samples have no answer and are left out: figures made from these files do not count them"
    return Exported(tuple(open_files), (note,) if lost else ())


def row(sample: Sample, record: Record) -> dict[str, Any]:
    """Return one prediction row. `category` is null where the question had none."""
    question_id, image, category = sample.meta["row"]
    return {
        "question_id": question_id,
        "image": image,
        "prompt": prompt_question(sample),
        "text": "" if record.response is None else record.response.text,
        "class": gold_text(sample),
        "category": category,
    }
