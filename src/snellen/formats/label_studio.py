"""Label Studio's JSON: tasks with annotations, as its export has them, and the labelling configuration of a review.

Read: a list of tasks (`JSON`), rows without `annotations` (`JSON_MIN`), a single task, or one task a line. Written: tasks that
its import takes, with annotations where there are any. Of a task's results `choices` and `textarea` are read.
Source: labelstud.io/guide/task_format, /guide/export and /tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec
from msgspec import Struct, field

from snellen.errors import DataError

MOST_BYTES = 1 << 30
LISTED = 20
EXPECTED = "Export the project from Label Studio as JSON or JSON-MIN."
REVIEWER = "reviewer"
"""Member of a result's `meta`, which Label Studio keeps as it is. Its own `completed_by` can only name one of its users."""


class StudioAnnotation(Struct, frozen=True, kw_only=True):
    """One annotator's labels of one task.

    Attributes:
        id: Label Studio's id of the annotation; empty where there is none.
        annotator: names of the annotator, the most telling first: full name, e-mail, id; of an annotation that was imported
            with a reviewer's name, that name alone. Empty: nobody is named.
        choices, texts: control tag to what was chosen or written.
        at: when it was last changed, seconds since the epoch; 0 where the file does not say.
    """

    id: str = ""
    annotator: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    at: float = 0.0


class StudioTask(Struct, frozen=True, kw_only=True):
    """One task: its data, its annotations, and where in the file it stands."""

    data: Mapping[str, Any]
    annotations: tuple[StudioAnnotation, ...] = ()
    where: str = ""


class StudioFile(Struct, frozen=True):
    """Tasks of a file, and what was passed over, one line each."""

    tasks: tuple[StudioTask, ...]
    problems: tuple[str, ...]
    skipped: int = 0
    """Annotations that their annotators cancelled (skipped tasks)."""


class _Task(Struct):
    data: dict[str, Any]
    annotations: list[Any] | None = None
    completions: list[Any] | None = None  # the name before version 1.0
    id: Any = None


def read_tasks(path: Path) -> StudioFile:
    """Read the tasks of an export.

    Raises:
        DataError: the file cannot be read, is too large, or holds no task.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} has more than {MOST_BYTES:,} bytes", "Export fewer tasks at a time.")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}", EXPECTED) from error
    problems: list[str] = []
    tasks: list[StudioTask] = []
    skipped = 0
    for where, row in _rows(path, content):
        try:
            task, cancelled = _task(where, row)
        except (ValueError, TypeError) as error:  # msgspec's errors are ValueErrors
            problems.append(f"{where}: {error}")
            continue
        skipped += cancelled
        tasks.append(task)
    if not tasks:
        why = f"; {problems[0]}" if problems else ""
        raise DataError(f"{path} holds no Label Studio task{why}", EXPECTED)
    listed = problems[:LISTED] + ([f"… and {len(problems) - LISTED:,} more"] if len(problems) > LISTED else [])
    return StudioFile(tuple(tasks), tuple(listed), skipped)


def _rows(path: Path, content: bytes) -> Iterator[tuple[str, Any]]:
    try:
        rows = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
        if len(lines) < 2:
            raise DataError(f"{path} is not JSON: {error}", EXPECTED) from error
        for number, line in lines:
            try:
                yield f"line {number}", msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
                raise DataError(f"{path}, line {number}: {fault}", EXPECTED) from fault
        return
    if isinstance(rows, dict):
        inner = rows.get("tasks")
        rows = inner if isinstance(inner, list) else [rows]
    if not isinstance(rows, list):
        raise DataError(f"{path} holds {type(rows).__name__}, not a list of tasks", EXPECTED)
    for number, row in enumerate(rows, 1):
        yield f"task {number}", row


def _task(where: str, row: Any) -> tuple[StudioTask, int]:
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, not {type(row).__name__}")
    if not isinstance(row.get("data"), dict):
        return _flat_task(where, row)
    task = msgspec.convert(row, _Task)
    annotations, skipped = [], 0
    for annotation in task.annotations if task.annotations is not None else task.completions or []:
        if not isinstance(annotation, dict):
            raise ValueError("an annotation is no object")
        if annotation.get("was_cancelled") is True or annotation.get("skipped") is True:
            skipped += 1
            continue
        annotations.append(_annotation(annotation))
    return StudioTask(data=task.data, annotations=tuple(annotations), where=where), skipped


def _annotation(row: Mapping[str, Any]) -> StudioAnnotation:
    choices: dict[str, tuple[str, ...]] = {}
    texts: dict[str, tuple[str, ...]] = {}
    reviewer: tuple[str, ...] = ()
    results = row.get("result")
    for result in results if isinstance(results, list) else []:
        value = result.get("value") if isinstance(result, dict) else None
        if not isinstance(value, dict):
            continue
        name = str(result.get("from_name", ""))
        meta = result.get("meta")
        reviewer = _texts(meta.get(REVIEWER)) if isinstance(meta, dict) and meta.get(REVIEWER) else reviewer
        if result.get("type") == "choices":
            choices[name] = (*choices.get(name, ()), *_texts(value.get("choices")))
        elif result.get("type") == "textarea":
            texts[name] = (*texts.get(name, ()), *_texts(value.get("text")))
    return StudioAnnotation(
        id=_id(row.get("id")),
        annotator=reviewer or _annotator(row.get("completed_by")),
        choices=choices,
        texts=texts,
        at=_seconds(row.get("updated_at")) or _seconds(row.get("created_at")),
    )


FLAT = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})
"""Members of a JSON_MIN row that are Label Studio's own; the others are the task's data and the labels."""


def _flat_task(where: str, row: Mapping[str, Any]) -> tuple[StudioTask, int]:
    """Build a task from a JSON_MIN row: data and labels stand side by side, and which is which only their names tell."""
    if not FLAT & row.keys():
        raise ValueError(f"neither a task with `data` nor a JSON-MIN row; its members: {', '.join(list(row)[:10])}")
    labels: dict[str, tuple[str, ...]] = {}
    for name, value in row.items():
        if name not in FLAT:
            inner = value.get("choices", value.get("text")) if isinstance(value, dict) else value
            if texts := _texts(inner):
                labels[name] = texts
    annotation = StudioAnnotation(
        id=_id(row.get("annotation_id")),
        annotator=_annotator(row.get("annotator")),
        choices=labels,
        texts=labels,
        at=_seconds(row.get("updated_at")) or _seconds(row.get("created_at")),
    )
    return StudioTask(data=row, annotations=(annotation,), where=where), 0


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _id(value: Any) -> str:
    return "" if value is None or isinstance(value, (dict, list)) else str(value)


def _annotator(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        full = " ".join(str(value[name]) for name in ("first_name", "last_name") if value.get(name))
        names = (full, value.get("email"), value.get("username"), value.get("id"))
        return tuple(dict.fromkeys(str(name) for name in names if name not in (None, "")))
    return () if value in (None, "") or isinstance(value, list) else (str(value),)


def _seconds(value: Any) -> float:
    """Return an ISO 8601 time, or one in seconds (as before version 1.0), in seconds since the epoch; 0 for no time."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return 0.0 if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def task_json(task: StudioTask, controls: Mapping[str, str], to_name: str) -> dict[str, Any]:
    """Build the JSON of a task for Label Studio's import, which makes the importing user the annotator.

    Args:
        task: data and annotations.
        controls: control tag to its type, `choices` or `textarea`.
        to_name: the object tag that the controls are about.
    """
    annotations = []
    for number, annotation in enumerate(task.annotations, 1):
        meta = {"meta": {REVIEWER: annotation.annotator[0]}} if annotation.annotator else {}
        results = [
            _result(f"{annotation.id or number}-{name}", name, to_name, kind, labels) | meta
            for name, kind in controls.items()
            if (labels := (annotation.choices if kind == "choices" else annotation.texts).get(name))
        ]
        moment = datetime.fromtimestamp(annotation.at, UTC).isoformat().replace("+00:00", "Z")
        annotations.append(
            {"result": results, "was_cancelled": False, "ground_truth": False}
            | {"created_at": moment, "updated_at": moment}
        )
    return {"data": dict(task.data), "annotations": annotations, "predictions": []}


def _result(id_: str, name: str, to_name: str, kind: str, labels: Sequence[str]) -> dict[str, Any]:
    member = "choices" if kind == "choices" else "text"
    return {"id": id_, "from_name": name, "to_name": to_name, "type": kind, "value": {member: list(labels)}}


def labelling_config(
    objects: Iterable[tuple[str, str, Mapping[str, str]]],
    choices: tuple[str, Mapping[str, str]],
    note: str,
    to_name: str,
) -> str:
    """Build the XML configuration of a project.

    Args:
        objects: what annotators see, in order: heading, tag and attributes (`("Reply", "Text", {"name": ...})`).
        choices: the control's name, and its words with a text for people; the words get the keys 1, 2 ...
        note: name of the text area.
        to_name: the object tag that both controls are about.
    """
    view = Element("View")
    for heading, tag, attributes in objects:
        SubElement(view, "Header", value=heading, size="4")
        SubElement(view, tag, dict(attributes))
    name, words = choices
    SubElement(view, "Header", value="Decision about the automatic verdict", size="4")
    control = SubElement(
        view, "Choices", name=name, toName=to_name, choice="single-radio", required="true", showInline="true"
    )
    for number, (word, text) in enumerate(words.items(), 1):
        SubElement(control, "Choice", value=word, hint=text, hotkey=str(number))
    SubElement(
        view,
        "TextArea",
        name=note,
        toName=to_name,
        placeholder="Note",
        rows="2",
        editable="true",
        maxSubmissions="1",
    )
    indent(view)
    return tostring(view, encoding="unicode") + "\n"
