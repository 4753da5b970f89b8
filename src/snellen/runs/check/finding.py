"""Findings: what is odd about some data, at which level, and in which rows; and a row under check, of a table or of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from snellen.benchmarks.table.question import Question
from snellen.scoring.scorers import UNJUDGED
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


Level: TypeAlias = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


class FindingKind(Struct, frozen=True):
    """A kind of finding: its level, and a sentence that is printed behind the number of rows."""

    level: Level
    text: str


KINDS: Mapping[str, FindingKind] = {
    "row-omitted": FindingKind("error", "cannot be asked and are left out"),
    "duplicate-id": FindingKind("error", "have the id of an earlier sample"),
    "image-unreadable": FindingKind("error", "have an image that cannot be decoded"),
    "gold-not-an-option": FindingKind("error", "have a gold answer that is not among the options"),
    "options-alike": FindingKind(
        "error", "have an option or a gold answer that equals another one but for case or accents, which count there"
    ),
    "always-first": FindingKind("warning", "have their first option as the gold answer, which is all of them"),
    "constant-answer": FindingKind("warning", "have the same gold answer, which is all of them"),
    "sentence-answers": FindingKind("warning", f"have a free text as gold answer: {UNJUDGED}"),
    "unbalanced-answers": FindingKind("warning", "have gold answers that are not equally frequent"),
    "longest-option": FindingKind("warning", "have the longest option as gold answer, more often than chance"),
    "contradicting-answers": FindingKind("warning", "repeat an earlier question with another gold answer"),
    "duplicate-question": FindingKind("warning", "repeat an earlier question with the same images and options"),
    "equal-options": FindingKind("warning", "have two options with the same text"),
    "letter-in-option": FindingKind("warning", "have an option that begins with, or is, another option's letter"),
    "option-names-options": FindingKind("warning", "have an option that names other options by letter"),
    "answer-in-question": FindingKind("warning", "have the gold answer in the question, and no other option"),
    "marked-option": FindingKind("warning", "have one option that is marked as the right one"),
    "mark-without-image": FindingKind("warning", "have an image mark in the text that is sent"),
    "long-text": FindingKind("warning", "have a text over 50,000 characters, which may not fit into a model's context"),
    "image-tiny": FindingKind("warning", "have an image with a side under 28 pixels, which some models refuse"),
    "image-elongated": FindingKind("warning", "have an image that is more than 20 times as long as wide"),
    "image-huge": FindingKind("warning", "have an image over 8,000 pixels a side or 5 MB, which some servers refuse"),
    "catch-all-option": FindingKind(
        "note", "have an option such as 'All of the above', and options that change places"
    ),
    "as-kit-differs": FindingKind(
        "note", "have a cell that pandas, and so VLMEvalKit, reads as another value, such as None or NA as an empty one"
    ),
    "duplicate-image": FindingKind("note", "images have the content of an image with another name"),
    "image-converted": FindingKind("note", "have an image that is converted before it is sent"),
    "without-image": FindingKind("note", "have no image, while other rows have one"),
}
"""Every kind of finding by its code, the gravest first. Codes are stable: scripts read them."""


class AffectedRow(Struct, frozen=True, omit_defaults=True):
    """A row that a finding is about: its place in the file, its id, and what was found there."""

    row: str
    id: str = ""
    detail: str = ""


class Finding(Struct, frozen=True):
    """A finding over the whole of the data.

    Attributes:
        code: the key in KINDS.
        level: `error`: rows cannot be asked; `warning`: the score may mislead; `note`: worth knowing.
        count: how many rows, or images, it is about.
        message: count and sentence, with figures where there are some.
        rows: the rows, all of them or the first ones; empty where it is about the data as a whole.
    """

    code: str
    level: Level
    count: int
    message: str
    rows: tuple[AffectedRow, ...] = ()


class Findings:
    """Findings as they come up, row by row.

    Args:
        limit: how many rows of a finding are held; None: all.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}
        self._rows: dict[str, list[AffectedRow]] = {}
        self._details: dict[str, str] = {}

    def add(self, code: str, row: str, sample_id: str = "", detail: str = "") -> None:
        """Add a row to a finding."""
        rows = self._rows.setdefault(code, [])
        if self._limit is None or len(rows) < self._limit:
            rows.append(AffectedRow(row, sample_id, detail))
        self._counts[code] = self._counts.get(code, 0) + 1

    def add_whole(self, code: str, count: int, detail: str) -> None:
        """Add a finding about the data as a whole, with its figures in words."""
        self._counts[code] = count
        self._details[code] = detail

    def __iter__(self) -> Iterator[Finding]:
        """Yield the findings, the gravest first."""
        for code, kind in KINDS.items():
            if count := self._counts.get(code):
                yield Finding(code, kind.level, count, self._message(code, count), tuple(self._rows.get(code, ())))

    def _message(self, code: str, count: int) -> str:
        text = KINDS[code].text
        noun = "" if text.startswith("images ") else "row " if count == 1 else "rows "
        if count == 1:
            text = _singular(text)
        details = self._details.get(code, "")
        return f"{count:,} {noun}{text}" + (f": {details}" if details else "")


def _singular(text: str) -> str:
    """Return a sentence about several rows as a sentence about one."""
    for plural, singular in (
        ("cannot be asked and are ", "cannot be asked and is "),
        ("images have ", "image has "),
        ("have ", "has "),
        ("repeat ", "repeats "),
    ):
        if text.startswith(plural):
            return singular + text.removeprefix(plural)
    return text
