"""One row of a table, read: the question, its images and options, and the gold answer, before any prompt is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from snellen.types import Blob, Kind, Turn, Video


class Question(Struct, frozen=True):
    """A row that can be asked.

    Attributes:
        id: the file's own id, or the row's number from 0 as text where the file has none.
        place: file and line or row number, for messages.
        number: the row's number from 0.
        question: the text, with its image marks.
        images: in the order in which they are sent.
        videos: clips.
        options: letter to text in the order of the file; empty for open questions.
        answer: the gold answer as `Sample.target` has it for `kind`: a letter, bool, int, float,
            text, tuple of letters or of texts.
        kind: the family of extractors.
        hint: a text before the question; empty without one.
        columns: the other declared values, which become meta.
        history: earlier turns of its conversation.
        rubric: what counts in judging it; empty: nothing is said.
        system: the system text that is read before them; empty without one.
        cells: every text cell of the row, for operations and prompts that name a column; empty where none does.
        known: what the type of the answer must know beside the question, by its name in `AnswerContext`: `decimal`, `level` …
    """

    id: str
    place: str
    number: int
    question: str
    answer: Any
    kind: Kind
    images: tuple[Blob, ...] = ()
    videos: tuple[Video, ...] = ()
    options: Mapping[str, str] = {}
    hint: str = ""
    columns: Mapping[str, Any] = {}
    cells: Mapping[str, Any] = {}
    history: tuple[Turn, ...] = ()
    system: str = ""
    known: Mapping[str, Any] = {}
    rubric: str = ""


class OmittedRow(Struct, frozen=True):
    """A row that cannot be asked: where it stands, its id if it has one, and why."""

    place: str
    id: str
    reason: str


def shown_answer(answer: Any) -> str:
    """Return a gold answer for people."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return ", ".join(map(str, answer)) if isinstance(answer, (tuple, list)) else str(answer)
