"""Prediction rows of the authors' demos, read and written.

A row has question_id, image, prompt (the question), text (the reply), class (the ground truth) and category, which the
BLIP-2 demo leaves out. So it is scored without the question file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec

from snellen.benchmarks.base import Answered, Data
from snellen.benchmarks.fgbmk import row_kinds, samples, taxonomy
from snellen.benchmarks.fgbmk.catalogue import Member
from snellen.benchmarks.fgbmk.locate import QuestionFile
from snellen.benchmarks.fgbmk.scorers import gold_text, prompt_question
from snellen.errors import DataError
from snellen.formats.base import Problems, missing
from snellen.formats.columns import text_of
from snellen.formats.readers import first_columns, table_rows
from snellen.formats.writers import Exported
from snellen.sources import FileBlob
from snellen.sources.encodings import Row
from snellen.types import Record, Response, Sample

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
FIELDS = frozenset({"question_id", "image", "prompt", "text", "class"})


def read_member_results(member: Member, path: Path, data: Data, problems: Problems) -> Answered | None:
    """Read prediction rows that answer one file of questions; None where the file is of another kind."""
    return _answered(member, path, data, problems) if is_authors(path) else None


def read_all_results(path: Path, data: Data, problems: Problems) -> Answered | None:
    """Read prediction rows of several kinds, levels and data sets; None where the file is of another kind.

    Each row says what it answers: its prompt the kind and level, its image the data set.
    """
    return _split(path, problems) if is_authors(path) else None


def is_authors(path: Path) -> bool:
    """Return True if a file holds the demos' prediction rows."""
    return first_columns(path, ENDINGS) >= FIELDS


def _answered(member: Member, path: Path, data: Data, problems: Problems) -> Answered:
    context = samples.prepare(QuestionFile(member, FileBlob(path), path.stem), data, None)
    context.answered = True
    ids = samples.Ids()
    scored = 0
    for number, (at, row) in enumerate(table_rows(path, problems), 1):
        question = {**row, "text": row.get("prompt")}
        if reason := samples.fault(question) or _of_another_kind(member, question):
            problems.add(at, f"{reason}; left out")
            continue
        scored += 1
        yield _pair(context, number, at, row, ids, problems)
    if not scored:
        raise DataError(
            f"{path}: no row is an answer to fgbmk/{member.name}",
            problems.first[0] if problems.first else "The file is empty.",
        )


def _split(path: Path, problems: Problems) -> Answered:
    """Yield the rows of all members, in the order of the file."""
    classes: dict[Member, set[str]] = defaultdict(set)
    image_paths: dict[Member, dict[str, str]] = defaultdict(dict)  # one image of each folder tells its taxonomy
    for _, row, member in _by_member(path, Problems()):
        if member is None or isinstance(row, DataError) or samples.fault(row):
            continue
        if member.kind == "short":
            classes[member].add(row["class"])
        if member.dataset == taxonomy.INAT:
            image_paths[member].setdefault(row["image"].rpartition("/")[0], row["image"])
    contexts: dict[Member, samples.FileContext] = {}
    ids: dict[Member, samples.Ids] = defaultdict(samples.Ids)
    scored = 0
    for number, row, member in _by_member(path, problems):
        at = f"row {number:,}"
        if member is None or isinstance(row, DataError):
            continue  # the reader has named it
        if reason := samples.fault(row):
            problems.add(at, f"{reason}; left out")
            continue
        if member not in contexts:
            paths_of_member = image_paths.get(member, {}).values()
            contexts[member] = samples.context_of(member, str(path), classes.get(member, ()), paths_of_member)
            contexts[member].answered = True
        scored += 1
        yield _pair(contexts[member], number, at, {**row, "text": row["reply"]}, ids[member], problems)
    if not scored:
        raise DataError(
            f"{path}: no row is an answer to a question of fgbmk",
            problems.first[0] if problems.first else "The file is empty.",
        )


def _by_member(path: Path, problems: Problems) -> Iterator[tuple[int, Row | DataError, Member | None]]:
    """Yield (number, row, member); a row's `text` is its question here, and `reply` what was answered."""
    questions = (
        (number, {**row, "text": row.get("prompt"), "reply": row.get("text")})
        for number, (_, row) in enumerate(table_rows(path, problems), 1)
    )
    return row_kinds.members_of_rows(questions)


def _of_another_kind(member: Member, question: Row) -> str:
    """Return why a row with readable question is no answer to a member's; empty where it may be one."""
    kind = row_kinds.kind_of_row(question, member.kind)
    if kind == member.kind or (member.ask == "attribute" and kind == "short"):
        return ""
    other = row_kinds.member_of_row(question, member.ask == "attribute")
    return f"an answer to fgbmk/{other.name}: score all kinds together with --benchmark fgbmk"


def _pair(
    context: samples.FileContext, number: int, at: str, row: Row, ids: samples.Ids, problems: Problems
) -> tuple[Sample, Record]:
    sample = samples.make(context, number, {**row, "text": row.get("prompt")}, ids)
    return sample, _record(sample, row.get("text"), at, problems)


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
