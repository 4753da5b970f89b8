"""VQA v2's two files as a declared table: the questions, and beside them the annotations with ten answers a question.

Source: visualqa.org, VQA Input Questions Format and VQA Annotation Format; OK-VQA has the same two files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snellen.benchmarks.table.declaration import Declaration, PromptStyle, Report, ScoreRule, Source
from snellen.errors import DataError

FORM = "VQA JSON"
COLUMNS = ("question_id", "question", "image", "image_id", "answers", "answer_type", "question_type")
ENDS = 4096
"""Bytes at both ends of a file in which its own keys stand: those of its questions lie between."""
_MARKS = (b'"task_type"', b'"data_subtype"', b'"questions"')
_PREFIXES = ("OpenEnded_", "MultipleChoice_")


def annotations_of(name: str) -> str:
    """Return the name of the annotations that belong to a file of questions; empty for another file."""
    folder, slash, base = name.rpartition("/")
    if "questions" not in base or not base.endswith(".json"):
        return ""
    for prefix in _PREFIXES:
        base = base.replace(prefix, "")
    return f"{folder}{slash}{base.replace('questions', 'annotations')}"


def is_vqa(path: Path) -> bool:
    """Return True for a file of questions in the form of VQA v2, by its own keys."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        ends = file.read(ENDS)
        file.seek(max(0, path.stat().st_size - ENDS))
        ends += file.read(ENDS)
    return all(mark in ends for mark in _MARKS)


def questions_in(path: Path) -> Path | None:
    """Return the questions that a path is, or the only ones in a folder; None for another path."""
    if not path.is_dir():
        return path if is_vqa(path) else None
    there = [file for file in sorted(path.glob("*questions*.json"))[:100] if is_vqa(file)]
    return there[0] if len(there) == 1 else None


def declaration_of(path: Path) -> Declaration:
    """Return the declaration of a file of questions: VQA accuracy over ten answers, in all and by the type of the answer."""
    return Declaration(
        name=path.name,
        title=path.stem,
        source=Source(file=str(path.absolute())),
        rows={
            "id": "question_id",
            "image": "image",
            "question": "question",
            "answer": "answers",
            "answer_type": "answer_type",
            "question_type": "question_type",
        },
        prompt=PromptStyle(style="question", after="\nAnswer the question using a single word or phrase."),
        score=ScoreRule(read="whole", equals="vqa-score"),
        report=(Report(metric="vqa-score", headline=True), Report(metric="vqa-score", by="answer_type")),
    )


def is_questions(value: Any) -> bool:
    """Return True for a parsed file of questions."""
    keys = ("task_type", "data_subtype", "questions")
    return isinstance(value, dict) and all(key in value for key in keys) and isinstance(value["questions"], list)


def vqa_rows(
    value: Mapping[str, Any], annotations: Any, name: str, beside: str
) -> Iterator[dict[str, Any] | DataError]:
    """Yield the questions with their answers and the names of their images.

    Args:
        value: the parsed questions.
        annotations: the parsed annotations; None: there is no such file.

    Raises:
        DataError: there are no annotations, or the file is none.
    """
    if annotations is None:
        raise DataError(
            f"{name}: the answers are missing: no {beside} lies beside it",
            "Put the annotations there; of a split without public answers, export replies with --format jsonl.",
        )
    listed = annotations.get("annotations") if isinstance(annotations, dict) else None
    if not isinstance(listed, list):
        raise DataError(f"{beside}: a list `annotations` was expected", "Fetch it again.")
    by_question = {
        str(one["question_id"]): one for one in listed if isinstance(one, dict) and _is_id(one.get("question_id"))
    }
    asked = set()
    for number, question in enumerate(value["questions"], 1):
        if not isinstance(question, dict) or not _is_id(known := question.get("question_id")):
            yield DataError(f"{name}, question {number:,}: an object with a question_id was expected")
            continue
        asked.add(str(known))  # files write 2 and "2" for one question
        own = by_question.get(str(known))
        fault = _fault(question, own)
        if fault or own is None:
            yield DataError(f"{name}, question {known}: {fault}")
            continue
        yield {
            **{key: question.get(key) for key in ("question_id", "question", "image_id")},
            "image": _image(value, int(question["image_id"])),
            "answers": [str(one.get("answer", "")) for one in own["answers"]],
            **{key: own.get(key) for key in ("answer_type", "question_type")},
        }
    if lost := by_question.keys() - asked:
        yield DataError(f"{beside}: {len(lost):,} annotations name absent questions, such as {min(lost)}")


def _is_id(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _fault(question: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    """Return why a question cannot be asked; empty where it can."""
    if own is None:
        return "no annotation has its question_id"
    if str(own.get("image_id")) != str(question.get("image_id")):
        return f"it is about image {question.get('image_id')}, and its annotation about {own.get('image_id')}"
    answers = own.get("answers")
    if not isinstance(answers, list) or not answers or not all(isinstance(one, dict) for one in answers):
        return "its annotation has no list of answers"
    return (
        ""
        if type(number := question.get("image_id")) is int
        or (isinstance(number, str) and number.isdecimal() and len(number) < 13)
        else f"its image_id is {number!r}; a number was expected"
    )


def _image(value: Mapping[str, Any], number: int) -> str:
    """Return the name of an image as the authors' files have it; its end alone may be there."""
    kind, split = str(value.get("data_type", "mscoco")), str(value["data_subtype"])
    if "/" in split or "/" in kind:
        raise DataError(f"data_subtype is {split!r} and data_type {kind!r}; names without a slash were expected")
    prefix, suffix = ("COCO", "jpg") if kind == "mscoco" else (kind, "png")
    return f"/{split}/{prefix}_{split}_{number:012d}.{suffix}"
