"""Answers of lmms-eval and VLMEvalKit: their files in a folder, and their rows as samples and records.

lmms-eval writes `<time>_samples_<task>.jsonl`, for BLINK one a subtask; of several runs in a folder the last by name counts,
as for EASI. Its rows have the question's row as `doc`, or what `lmms_eval_rows` makes of the fields that newer versions log.

VLMEvalKit writes `<model>_<data>.xlsx` (or tsv, csv) and, beside it, tables that its scorers made of it, which are read where
the first is missing. Its rows have the question's columns beside `prediction`.

Files of both halves of SITE in one folder are one set of answers.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from snellen.benchmarks.base import Answered, Data
from snellen.benchmarks.spatial.interop import further
from snellen.benchmarks.spatial.question import VIDEOS, SpatialQuestion, sample
from snellen.benchmarks.spatial.sources import lmms_eval_rows, rows
from snellen.benchmarks.spatial.tasks import CONSTANTS, EVERY, SITE_HALVES, TASKS, Task
from snellen.errors import DataError
from snellen.formats.base import Problems, missing
from snellen.formats.columns import text_of
from snellen.formats.jsonl import leaves
from snellen.formats.readers import JSON_LINES, PEEKED, first_columns, table_rows
from snellen.types import Record, Response, Sample

SCORED = ("_exact_matching_result", "_extract_matching", "_llm_", "_Point2D")
OTHER_SETS = ("debiased", "pruned", "tiny")
_SAMPLES = re.compile(r"(?:.*_)?samples_(?P<task>.+)\.jsonl", re.IGNORECASE)


def folder_files(task: Task, part: str, folder: Path, problems: Problems) -> list[Path]:
    """Return the files of one benchmark, or of one half of SITE, in order of their names.

    None where the folder has none.

    Files that are passed over for a later one are noted.

    Raises:
        DataError: it has files of several variants of the task, of several models, or of both harnesses.
    """
    return benchmark_files(task, part, sorted(path for path in folder.iterdir() if path.is_file()), problems)


def benchmark_files(task: Task, part: str, files: list[Path], problems: Problems) -> list[Path]:
    """Return the same of files in order of their names."""
    lmms, kit = _samples(task, part, files, problems), _tables(task, part, files)
    if lmms and kit:
        raise DataError(
            f"{lmms[0].parent}: answers of lmms-eval ({lmms[0].name}) and of VLMEvalKit ({kit[0].name}) to one benchmark",
            "Give one of the files.",
        )
    return lmms or kit


def require_own(task: Task, path: Path) -> None:
    """Refuse a file that a harness named after another benchmark: many tables have the columns of several.

    Args:
        task: whose answers are asked for; of SITE either half's.
        path: one file; a name that is no harness's says nothing.

    Raises:
        DataError: it is named after another benchmark, and not after this one.
    """
    named = [other for other, half in _names() if benchmark_files(EVERY[other], half, [path], Problems())]
    if not named or task.name in named:
        return
    raise DataError(
        f"{path}: by its name these are answers to {' or '.join(named)}, not to {task.name}",
        f"Score it with --benchmark {named[0]}, or rename the file.",
    )


def _names() -> list[tuple[str, str]]:
    return [(name, half) for name in EVERY for half in (SITE_HALVES if name == "site" else ("",))]


def is_variant(name: str, task: str) -> bool:
    """Return True if a task of lmms-eval's asks the questions of `task`, perhaps in another way: `vsibench` is
    `vsibench_multiimage` with videos in place of frames, while the debiased and the tiny sets are others. Parts of BLINK are
    its variants."""
    stem = re.sub(r"_(multiimage|circular|u50|test)$", "", task)
    return (name == stem or name.startswith(f"{stem}_")) and all(
        (other_set in name) == (other_set in task) for other_set in OTHER_SETS
    )


def _samples(task: Task, part: str, files: list[Path], problems: Problems) -> list[Path]:
    own = task.lmms.split(", ")[SITE_HALVES.index(part) if part else 0]
    last: dict[str, Path] = {}
    for path in files:
        hit = _SAMPLES.fullmatch(path.name)
        name = hit["task"] if hit else ""
        if not (is_variant(name, own) if task.in_payload else further.lmms_task(task, name)):
            continue
        if name in last:
            problems.add(last[name].name, f"passed over for {path.name}, which is of the same task and later")
        last[name] = path
    if own == "blink":  # its parts are the set, also where a file of the whole group is there
        return [path for name, path in last.items() if name != own] or list(last.values())
    if task.in_payload and own in last:
        return [last[own]]
    return further.chosen_samples(task, last)


def _tables(task: Task, part: str, files: list[Path]) -> list[Path]:
    names = task.kit.split(", ")
    by_name: dict[str, list[Path]] = {}
    for data in [names[SITE_HALVES.index(part) if part else 0]] if task.in_payload else names:
        matches = [(rest, path) for path in files if (rest := further.kit_name(data, path)) is not None]
        by_name[data] = _best(data, matches)
    return further.chosen_tables(task, by_name)


def _best(data: str, matches: list[tuple[str, Path]]) -> list[Path]:
    """Return the table with the replies alone, else the first that a scorer made of it."""
    for wanted in ("", *SCORED):
        some = [path for rest, path in matches if (rest.startswith(wanted) if wanted else not rest)]
        if len(some) > 1:
            raise DataError(
                f"{some[0].parent}: {', '.join(path.name for path in some[:6])} all hold answers to {data}",
                "Give one of the files.",
            )
        if some:
            return some
    return []


GOLD_COLUMNS = {"answer", "answers", "ground_truth", "mask_path", "mask"}
"""Columns by which VLMEvalKit's tables have the gold answer: RefSpatial's is a mask alone."""
TABLES = (*JSON_LINES, ".csv", ".tsv", ".xlsx", ".parquet")
Row: TypeAlias = tuple[str, SpatialQuestion, list[Any]]
"""(where, question, replies, one a repeat)."""
FAILED: str = CONSTANTS["kit_choice"]["failure"]


NO_DATA = Data()


class InFile(Problems):
    """The problems of one file of several: each says which file it is of."""

    def __init__(self, whole: Problems, name: str) -> None:
        super().__init__()
        self._whole, self._name = whole, name

    def add(self, where: str, what: str) -> None:
        self._whole.add(f"{self._name}, {where}", what)


def read_task_results(task: Task, part: str, path: Path, data: Data, problems: Problems) -> Answered | None:
    """Read (sample, record) of each row of a file, or of a folder's files (`folder_files`).

    None where the file is of neither harness, the folder has no file of the benchmark's, or lmms-eval's rows have no
    question and the data are given: those are met by doc_id.
    """
    if path.is_dir():
        files = folder_files(task, part, path, problems)
        return _of_files(task, files, problems, part, data) if files else None
    form = kind_of(path)
    if form is None or (form == "lmms" and data.path is not None and "doc" not in first_columns(path, TABLES)):
        return None
    require_own(task, path)
    if part and (other := _stated_half(path, form)) not in (part, ""):
        raise DataError(
            f"{path}: these are answers to SITE's {other}s, not to its {part}s",
            f"Score it with --benchmark site/{other}.",
        )
    rows = further.with_masks(task, part, data, question_rows(task, path, form, problems))
    return _answered(_checked(task, path, rows, problems), problems)


def read_site_results(path: Path, data: Data, problems: Problems) -> Answered | None:
    """SITE's: one file of either half, told by what its rows show, or a folder with files of both."""
    task = TASKS["site"]
    if not path.is_dir():
        form = kind_of(path)
        if form is None:
            return None
        require_own(task, path)
        part = part_of(path, form)
        problems.add(str(path), _alone(part))
        return _half(part, _answered(question_rows(task, path, form, problems), problems))
    halves = {part: folder_files(task, part, path, problems) for part in SITE_HALVES}
    present = [part for part, files in halves.items() if files]
    if len(present) == 1:
        problems.add(str(path), _alone(present[0]))
    parts = [_half(part, _of_files(task, halves[part], problems)) for part in present]
    return itertools.chain.from_iterable(parts) if parts else None


def kind_of(path: Path) -> str | None:
    """`lmms` (rows with doc or doc_id, and resps), `kit` (rows with index, prediction and a gold answer), or None."""
    names = first_columns(path, TABLES)
    if names & {"doc", "doc_id"} and names & {"resps", "filtered_resps"}:
        return "lmms"
    return "kit" if {"index", "prediction"} <= names and names & GOLD_COLUMNS else None


def _of_files(task: Task, files: list[Path], problems: Problems, part: str = "", data: Data = NO_DATA) -> Answered:
    """Return the rows of several files as if of one file, with ids unique over all of them.

    Raises:
        DataError: one of them is not what its name says.
    """

    def rows() -> Iterator[Row]:
        for path in files:
            form = kind_of(path)
            if form is None:
                raise DataError(
                    f"{path}: no row with doc and resps, and none with index and prediction",
                    "Remove the file, or name another one.",
                )
            yield from _rows(task, path, form, InFile(problems, path.name) if len(files) > 1 else problems)

    joined = further.with_masks(task, part, data, _with_unique_ids(rows(), problems))
    return _answered(_checked(task, files[0].parent, joined, problems), problems)


def _checked(task: Task, path: Path, rows: Iterator[Row], problems: Problems) -> Iterator[Row]:
    """Yield the rows as they are; a note where their gold answers are those from before a correction."""
    correction = task.declared.correction
    if correction is None:
        yield from rows
        return
    group: list[SpatialQuestion] = []
    for row in rows:
        if correction.group in row[1].groups.values():
            group.append(row[1])
        yield row
    if correction.by_rows(group) == "before":
        note = f"these are {correction.name('before')}. {correction.sentence()}"
        problems.add(str(path), f"{note}; --data with the corrected table scores the replies against these")


def _half(part: str, answered: Answered) -> Answered:
    """Return rows of one half of SITE under the names that the suite gives them."""
    for member, record in answered:
        name = f"{part}/{member.id}"
        group = f"{part}/{member.group}" if member.group else ""
        yield (
            structs.replace(member, id=name, group=group, meta={**member.meta, "task": part}),
            structs.replace(record, sample_id=name),
        )


def part_of(path: Path, form: str) -> str:
    """Return the half that a file is of: by its name, else by the media of its first rows.

    Raises:
        DataError: neither says.
    """
    if half := _stated_half(path, form):
        return half
    raise DataError(
        f"{path}: neither its name nor its rows say whether it is SITE's images or videos",
        "Name the half: --benchmark site/image or --benchmark site/video.",
    )


def _alone(part: str) -> str:
    return f"only the {part}s are answered; the metrics are of this half"


def _stated_half(path: Path, form: str) -> str:
    """Return the half that a file says it is of, or empty."""
    lower = path.name.lower()
    named = [part for part in SITE_HALVES if part in lower.replace("multiimage", "")]
    if len(named) == 1:
        return named[0]
    for _, row in itertools.islice(table_rows(path, Problems()), PEEKED):
        fields = row["doc"] if form == "lmms" and isinstance(row.get("doc"), dict) else row
        media_path = str(fields.get("visual") or fields.get("video_path") or fields.get("video") or "")
        if fields.get("video_path") or any(ending in media_path.lower() for ending in VIDEOS):
            return "video"
        if media_path or fields.get("image_path") or fields.get("image"):
            return "image"
    return ""


def _answered(rows: Iterator[Row], problems: Problems) -> Answered:
    for where, question, replies in rows:
        answered = sample(question)
        if trouble := unscorable(answered):
            problems.add(where, trouble)
        for repeat, reply in enumerate(replies):
            yield answered, record_of(answered, reply, repeat, where, problems)


def unscorable(sample: Sample) -> str:
    """Return why the gold answer of a row cannot be compared; empty where it can."""
    gold = str(sample.meta["gold"])[:60]
    if sample.kind == "number" and not (isinstance(sample.target, float) and math.isfinite(sample.target)):
        return f"the gold answer {gold!r} is no number; the row is not scored"
    if sample.kind == "choice" and not (isinstance(sample.target, str) and len(sample.target) == 1):
        return f"the gold answer {gold!r} is no letter; its score depends on the profile"
    return ""


def question_rows(task: Task, path: Path, form: str, problems: Problems) -> Iterator[Row]:
    """(where, question, replies, one a repeat) of each row; a row of an id that was there already gets `#2` behind it."""
    return _with_unique_ids(_rows(task, path, form, problems), problems)


def _with_unique_ids(rows: Iterator[Row], problems: Problems) -> Iterator[Row]:
    counts: dict[str, int] = {}
    for where, question, replies in rows:
        count = counts[question.id] = counts.get(question.id, 0) + 1
        if count > 1:
            problems.add(where, f"{question.id!r} is answered once more; every row of it is scored")
        yield where, question if count == 1 else structs.replace(question, id=f"{question.id}#{count}"), replies


def _rows(task: Task, path: Path, form: str, problems: Problems) -> Iterator[Row]:
    return _lmms(task, path, problems) if form == "lmms" else _kit(task, path, problems)


def _lmms(task: Task, path: Path, problems: Problems) -> Iterator[Row]:
    """(where, question, replies, one a repeat) of lmms-eval's rows."""
    for number, (where, row) in enumerate(table_rows(path, problems)):
        doc, at = _doc(row.get("doc")), row.get("doc_id")
        fields: Mapping[str, Any]
        try:
            if task.in_payload:
                fields = lmms_eval_rows.row_of(task.name, row) if doc is None else doc
            else:
                fields = further.completed(
                    task, "official", further.logged_row(task, row) if doc is None else doc, path
                )
            question = rows.question(task, "official", fields, at if isinstance(at, int) else number)
            question = further.without_mask(task, fields, question)
        except DataError as error:
            problems.add(where, error.message)
            continue
        try:
            replies: list[Any] = _scored_replies(row)
        except ValueError as error:
            problems.add(where, f"{error}; scored as no answer")
            replies = []
        yield where, question, replies or [None]


def _scored_replies(row: Mapping[str, Any]) -> list[str | None]:
    """Return the replies that lmms-eval's scorer got: `filtered_resps`, of which newer versions remove reasoning and blanks.

    Where they are missing, or not one for each of `resps`, these.

    Raises:
        ValueError: the replies are no texts.
    """
    replies = list(leaves(row["resps"] if row.get("resps") is not None else row.get("filtered_resps")))
    try:
        filtered = list(leaves(row.get("filtered_resps")))
    except ValueError:
        return replies
    return filtered if len(filtered) == len(replies) else replies


def _doc(value: Any) -> Mapping[str, Any] | None:
    """Return the question's row, which tables and some versions have as JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _kit(task: Task, path: Path, problems: Problems) -> Iterator[Row]:
    """(where, question, reply) of VLMEvalKit's rows."""
    for number, (where, row) in enumerate(table_rows(path, problems)):
        try:
            fields = row if task.in_payload else further.completed(task, "kit", row, path)
            question = rows.question(task, "kit", fields, number)
        except DataError as error:
            problems.add(where, error.message)
            continue
        reply = row.get("prediction")
        if reply is None or reply != reply:
            # A sheet does not tell an empty reply from none; the kit's scorers read both, as a text that says nothing.
            problems.add(where, "the prediction is empty; scored as an empty reply")
            reply = ""
        elif reply == FAILED:
            problems.add(
                where, "the kit got no answer; its sentence about that is scored as the reply, as the kit does"
            )
        yield where, question, [reply]


def record_of(sample: Sample, reply: Any, repeat: int, where: str, problems: Problems) -> Record:
    """Return the record of a reply; one that is no text becomes an error."""
    why = "the reply is null or missing"
    try:
        text = text_of(reply)
    except ValueError as error:
        text, why = None, str(error)
    if text is None:
        problems.add(where, f"{why}; scored as no answer")
        return Record(sample.id, "error", repeat, None, missing(sample.id, where, why).failure)
    return Record(sample.id, "ok", repeat, Response(text))
