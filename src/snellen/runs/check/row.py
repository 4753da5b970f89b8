"""A row under check: a question of a table, or a sample of a registered benchmark, with the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from snellen.benchmarks.table.question import Question
from snellen.types import Blob, Image, Kind, Prompt, Sample, Text


class CheckedRow(Struct, frozen=True):
    """One question, as the file has it, and the prompt that is sent.

    Attributes:
        place: file and row, or the sample's id where samples come from no table.
        id: the sample's id.
        question: the text of the question; of a registered benchmark the whole prompt, options and requests included.
        options: letter to text, in the order in which they are sent.
        answer: the gold answer, as `Sample.target`.
        kind: the family of extractors.
        images: in the order of the file.
        prompt: what is sent.
        level: how a gold text is compared, where another row's differs in case or accents alone; empty as usual.
        own_text: `question` holds nothing but the question.
        requests: how many requests it takes: one, or one for each rotation of its options.
        part: its subtask, data set, category or level, the first that it has; empty without any.
    """

    place: str
    id: str
    question: str
    options: Mapping[str, str]
    answer: Any
    kind: Kind
    images: tuple[Blob, ...]
    prompt: Prompt
    level: str = ""
    own_text: bool = True
    requests: int = 1
    part: str = ""


PARTS = ("task", "dataset", "category", "level")


def part_of(meta: Mapping[str, Any]) -> str:
    """Return the first value of PARTS that a row has, as text."""
    return str(next((meta[name] for name in PARTS if meta.get(name) not in (None, "")), ""))


def row_of_question(question: Question, prompt: Prompt, requests: int = 1) -> CheckedRow:
    """Return a row of a table, which is sent in this many rotations of its options."""
    return CheckedRow(
        question.place,
        question.id,
        question.question,
        question.options,
        question.answer,
        question.kind,
        question.images,
        prompt,
        question.known.get("level", ""),
        True,
        requests,
        part_of(question.columns),
    )


def row_of_sample(sample: Sample) -> CheckedRow:
    """Return a row of a registered benchmark."""
    parts = sample.prompt.parts
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    images = tuple(part.blob for part in parts if isinstance(part, Image))
    about = (sample.id, sample.id, text, sample.options, sample.target, sample.kind, images, sample.prompt)
    return CheckedRow(*about, own_text=False, part=part_of(sample.meta))
