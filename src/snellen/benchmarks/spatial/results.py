"""Answers that another harness got, each row with its question and gold answer: lmms-eval's samples, VLMEvalKit's tables.

lmms-eval's `*_samples_<task>.jsonl` have the question's row as `doc`; VLMEvalKit's tables of predictions (xlsx, csv, TSV, and
those that its scorers write) have the question's columns beside `prediction`. Files of both halves of SITE in one folder are
one set of answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from snellen.benchmarks.base import Answered, Data, ResultReader
from snellen.benchmarks.spatial import kit, official
from snellen.benchmarks.spatial.question import Question, sample
from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import DataError
from snellen.interop.answers import Problems, missing
from snellen.interop.fields import text_of
from snellen.interop.harnesses import leaves
from snellen.interop.lines import JSON_LINES, table_rows
from snellen.types import Record, Response, Sample

TABLES = (*JSON_LINES, ".csv", ".tsv", ".xlsx", ".parquet")
PEEKED = 20
HALVES = ("image", "video")
VIDEOS = (".mp4", ".mov", ".mkv", ".webm", ".avi")


def of_task(task: Task, part: str = "") -> ResultReader:
    """The benchmark's `results`: (sample, record) of each row; None where the file is of neither harness."""

    def read(path: Path, data: Data, problems: Problems) -> Answered | None:
        form = kind_of(path)
        return None if form is None else _answered(task, part, path, form, problems)

    return read


def of_site(path: Path, data: Data, problems: Problems) -> Answered | None:
    """SITE's: one file of either half, told by what its rows show, or a folder with files of both."""
    task = TASKS["site"]
    if not path.is_dir():
        form = kind_of(path)
        return None if form is None else _half(task, path, form, problems)
    files = [one for one in sorted(path.iterdir()) if kind_of(one) and "site" in one.name.lower()]
    if not files:
        return None
    return itertools.chain.from_iterable(_half(task, one, str(kind_of(one)), problems) for one in files)


def kind_of(path: Path) -> str | None:
    """`lmms` (rows with doc and resps), `kit` (rows with index and prediction), or None."""
    if not path.is_file() or path.suffix.lower() not in TABLES:
        return None
    names: set[str] = set()
    for _, row in itertools.islice(table_rows(path, Problems()), PEEKED):
        names |= row.keys()
    if "doc" in names and names & {"resps", "filtered_resps"}:
        return "lmms"
    return "kit" if {"index", "prediction"} <= names else None


def _half(task: Task, path: Path, form: str, problems: Problems) -> Answered:
    """Rows of one half of SITE under the names that the suite gives them."""
    part = part_of(path, form)
    for one, record in _answered(task, part, path, form, problems):
        name = f"{part}/{one.id}"
        group = f"{part}/{one.group}" if one.group else ""
        yield (
            structs.replace(one, id=name, group=group, meta={**one.meta, "task": part}),
            structs.replace(record, sample_id=name),
        )


def part_of(path: Path, form: str) -> str:
    """Which half a file is of: by its name, else by what its first rows show.

    Raises:
        DataError: neither says.
    """
    lower = path.name.lower()
    named = [part for part in HALVES if part in lower.replace("multiimage", "")]
    if len(named) == 1:
        return named[0]
    for _, row in itertools.islice(table_rows(path, Problems()), PEEKED):
        given = row["doc"] if form == "lmms" and isinstance(row.get("doc"), dict) else row
        shown = str(given.get("visual") or given.get("video_path") or given.get("video") or "")
        if given.get("video_path") or any(ending in shown.lower() for ending in VIDEOS):
            return "video"
        if shown or given.get("image_path") or given.get("image"):
            return "image"
    raise DataError(
        f"{path}: neither its name nor its rows say whether it is SITE's images or videos",
        "Name the half: --benchmark site/image or --benchmark site/video.",
    )


def _answered(task: Task, part: str, path: Path, form: str, problems: Problems) -> Answered:
    for where, question, replies in asked(task, path, form, problems):
        one = sample(question)
        for repeat, reply in enumerate(replies):
            yield one, record_of(one, reply, repeat, where, problems)


def asked(task: Task, path: Path, form: str, problems: Problems) -> Iterator[tuple[str, Question, list[Any]]]:
    """(where, question, replies, one a repeat) of each row; a row of an id that was there already gets `#2` behind it."""
    rows = _lmms(task, path, problems) if form == "lmms" else _kit(task, path, problems)
    seen: dict[str, int] = {}
    for where, question, replies in rows:
        turn = seen[question.id] = seen.get(question.id, 0) + 1
        if turn == 2:
            problems.add(where, f"{question.id!r} is answered a second time; both rows are scored")
        yield where, question if turn == 1 else structs.replace(question, id=f"{question.id}#{turn}"), replies


def _lmms(task: Task, path: Path, problems: Problems) -> Iterator[tuple[str, Question, list[Any]]]:
    """(where, question, replies, one a repeat) of lmms-eval's rows."""
    for number, (where, row) in enumerate(table_rows(path, problems)):
        doc, at = row.get("doc"), row.get("doc_id")
        if not isinstance(doc, dict):
            problems.add(where, "there is no doc, so that nobody can say what was asked")
            continue
        try:
            question = official.QUESTIONS[task.name](doc, at if isinstance(at, int) else number)
            resps = row.get("resps")
            replies: list[Any] = list(leaves(resps if resps is not None else row.get("filtered_resps")))
        except (DataError, ValueError) as error:
            problems.add(where, error.message if isinstance(error, DataError) else str(error))
            continue
        yield where, question, replies or [None]


def _kit(task: Task, path: Path, problems: Problems) -> Iterator[tuple[str, Question, list[Any]]]:
    """(where, question, reply) of VLMEvalKit's rows."""
    for number, (where, row) in enumerate(table_rows(path, problems)):
        try:
            question = kit.QUESTIONS[task.name](row, number)
        except DataError as error:
            problems.add(where, error.message)
            continue
        reply = row.get("prediction")
        if reply is None or reply != reply:
            # A sheet does not tell an empty reply from none; the kit's scorers read both, as a text that says nothing.
            problems.add(where, "the prediction is empty; scored as an empty reply")
            reply = ""
        yield where, question, [reply]


def record_of(one: Sample, reply: Any, repeat: int, where: str, problems: Problems) -> Record:
    """A reply that is no text costs its own row."""
    why = "the reply is null or missing"
    try:
        text = text_of(reply)
    except ValueError as error:
        text, why = None, str(error)
    if text is None:
        problems.add(where, f"{why}; scored as no answer")
        return Record(one.id, "error", repeat, None, missing(one.id, where, why).failure)
    return Record(one.id, "ok", repeat, Response(text))
