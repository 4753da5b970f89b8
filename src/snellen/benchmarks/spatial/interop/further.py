"""Result files of the further benchmarks: which files are one set of answers, rows that lack columns, and masks from the data.

Some benchmarks come in parts, each with a file of its own (durations, splits, levels): these are one set. Others come in variants,
the same questions asked in another way: of these one is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.benchmarks.spatial.scorers.base import STREAMING, is_yes_no
from snellen.benchmarks.spatial.sources import locate
from snellen.benchmarks.spatial.sources.rows import FILE, NOT_META, declared_columns
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, SnellenError
from snellen.media.decode import read_header

Fields: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "Iterator[tuple[str, SpatialQuestion, list[Any]]]"

_FRAMES = r"(?:_\d+frame|_\d+(?:\.\d+)?fps)?"


def kit_name(data: str, path: Path) -> str | None:
    """Return what a table's name has behind VLMEvalKit's data name (`_llm_...`, empty); None where it is another's."""
    stem = re.sub(r"_(\d+frame|\d+fps)$", "", data)
    hit = re.fullmatch(rf"(?:.*_)?{re.escape(stem)}{_FRAMES}(?P<rest>|_.*)\.(?:xlsx|csv|tsv)", path.name, re.IGNORECASE)
    return hit["rest"] if hit else None


def lmms_task(task: Task, name: str) -> bool:
    """Return True if a task of lmms-eval's asks this benchmark's questions."""
    begins = task.declared.lmms_eval.begins
    return bool(begins) and (name == begins or name.startswith(f"{begins}_"))


def chosen_samples(task: Task, files: Mapping[str, Path]) -> list[Path]:
    """Return lmms-eval's files that are one set of answers, of the last file of each task.

    Raises:
        DataError: they are answers to several variants.
    """
    names = task.declared.lmms_eval
    if names.whole in files:
        return [files[names.whole]]
    variants: dict[str, list[Path]] = {}
    for name, path in files.items():
        variant = ("json" if name.endswith("_json") else "") if names.in_parts else name
        variants.setdefault(variant, []).append(path)
    return _only(task, list(variants.values()))


def chosen_tables(task: Task, by_name: Mapping[str, list[Path]]) -> list[Path]:
    """Return VLMEvalKit's tables that are one set of answers, by the kit's data name.

    Raises:
        DataError: they are answers to several variants.
    """
    if task.declared.vlmevalkit.in_parts:
        return list(dict.fromkeys(path for paths in by_name.values() for path in paths))
    return _only(task, [paths for paths in by_name.values() if paths])


def _only(task: Task, variants: list[list[Path]]) -> list[Path]:
    if len(variants) > 1:
        names = ", ".join(path.name for paths in variants for path in paths[:2])
        raise DataError(
            f"{variants[0][0].parent}: {names} are answers to several variants of {task.name}", "Give one of the files."
        )
    return variants[0] if variants else []


_QUESTIONS = ("question", "Question", "question_raw", "prompt")


def completed(task: Task, layout: str, fields: Fields, path: Path) -> dict[str, Any]:
    """Return a row of a result file, of one of the layouts, with its file's name and what stands for columns that it lacks."""
    row = {**fields, FILE: _part_name(path)}
    if not any(row.get(column) for column in _QUESTIONS):
        row["question"] = ""
    if task.name == "vsi-super-count" and row.get("answers") is not None and row.get("answer") is None:
        minutes = re.search(r"(?:^|_)(\d+mins)", row[FILE])
        row["split"] = row.get("split") or f"{minutes[1] if minutes else 'unknown'}{STREAMING}"
    for value, default in task.declared.summary.unsaid.items():
        columns = declared_columns(task.columns[layout].rows[value])
        if all(row.get(column) in (None, "") for column in columns) and not _told_by_file(task, row):
            row[columns[0]] = default
    return row


def _part_name(path: Path) -> str:
    """Return the name by which a file's part is told: of lmms-eval's files the task, without the variant."""
    name = path.name
    task = re.fullmatch(r"(?:.*_)?samples_(.+?)(?:_json)?\.jsonl", name, re.IGNORECASE)
    return f"{task[1]}.jsonl" if task else name


def without_mask(task: Task, fields: Fields, question: SpatialQuestion) -> SpatialQuestion:
    """Return the question marked as one without a mask, where its row has an empty column for it: lmms-eval counts it as -1."""
    empty = any(column in fields and fields[column] in (None, "") for column in ("mask", "mask_path"))
    if task.name != "robospatial-home" or not empty:
        return question
    return structs.replace(question, scoring={**question.scoring, "mask": None})


def _told_by_file(task: Task, row: Fields) -> bool:
    """Return True if the name of a row's file says which part it is of."""
    name = str(row[FILE]).lower()
    return any(re.search(rf"(?:^|_){re.escape(subset.lower())}(?:[_.]|$)", name) for subset in task.subsets)


def logged_row(task: Task, logged: Fields) -> dict[str, Any]:
    """Return a row of the authors' file, as far as scoring needs it, made of a line of lmms-eval's that has no `doc`.

    Raises:
        DataError: the line says nothing of its gold answer.
    """
    row: dict[str, Any] = {}
    values = task.columns["official"].rows
    known = {*_LOGGED, *(column for name in values.keys() - NOT_META for column in declared_columns(values[name]))}
    for metric, value in logged.items():
        if isinstance(value, Mapping):
            row |= {name: item for name, item in value.items() if name in known}
            if task.name == "osi-bench" and value.get("total") == 1 and metric.endswith(("_mra", "_acc")):
                row["category"] = metric.rpartition("_")[0]
    gold = row.get("gt_content", row.get("gt_answer", row.get("ground_truth", logged.get("target"))))
    if gold is None and task.name != "refspatial":
        raise DataError("there is no doc and no target; the gold answer is unknown")
    question = logged.get("input")
    return {"question": question if isinstance(question, str) else "", "answer": gold, **row}


_LOGGED = ("id", "qid", "category", "task", "level", "question_type", "question_index", "gt_content", "gt_answer", "ground_truth", "type", "source", "choices", "options")  # fmt: skip
"""What the metrics' objects of a line keep of its question."""


def with_masks(task: Task, part: str, data: Data, rows: Rows) -> Rows:
    """Yield rows with the masks and image sizes of the data, where data are given and the benchmark is scored by them.

    A row is met by its name, else by its category, text and gold answer if one question of the data alone has these.
    """
    if "mask" not in task.columns["official"].rows or data.path is None:
        yield from rows
        return
    source = locate.source(task, part, data)
    by_name: dict[str, SpatialQuestion] = {}
    by_text: dict[tuple[str, str, str], SpatialQuestion | None] = {}
    for _, question in source.questions():
        if isinstance(question, SpatialQuestion):
            if task.name == "robospatial-home" and not is_yes_no(question.gold):
                # While the row is at hand: a source shows the images of the row that it read last.
                question = structs.replace(question, scoring={**question.scoring, **_size(source, question)})
            by_name.setdefault(question.id, question)
            key = _key(question)
            by_text[key] = None if key in by_text else question
    for where, question, replies in rows:
        own = by_name.get(question.id)
        if own is None or own.gold != question.gold:
            own = by_text.get(_key(question))
        if own is not None:
            question = structs.replace(question, scoring={**question.scoring, **own.scoring})
        yield where, question, replies


def _key(question: SpatialQuestion) -> tuple[str, str, str]:
    return question.groups.get("category", "").lower(), " ".join(question.text.split()), question.gold.strip()


def _size(source: Any, question: SpatialQuestion) -> dict[str, int]:
    """Return width and height of the image of a question; nothing where it cannot be read."""
    try:
        images = source.shown(question).images
        header = read_header(images[0].read()) if images else None
    except SnellenError:
        return {}
    return {} if header is None else {"width": header.width, "height": header.height}
