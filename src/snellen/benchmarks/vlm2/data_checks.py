"""Checks of the questions of a subtask, reported before its scores are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from snellen.benchmarks.vlm2 import locate, parse_row
from snellen.benchmarks.vlm2.layout import Subtask
from snellen.benchmarks.vlm2.locate import SubtaskQuestions
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.sources.encodings import Row

LEAST_IMAGES = 2
NAMED = 5
UNITS = {"pair": "pairs", "count": "questions", "group": "questions", "video": "videos"}


@dataclass
class SubtaskSurvey:
    """The findings of one pass over the questions of a subtask.

    Attributes:
        rows: how many rows there are, unreadable ones among them.
        halves: pair to the halves that were seen of it (`p`, `n`, `?`).
        ids: how often each row's name was seen (for pairs: name and half).
        unreadable: rows that are no rows, each by its error.
        faulty: rows that cannot be asked, and why.
        unshown: rows with an image that cannot be had: the first reason of each.
        texts: ids of counting questions whose gold answer is a text.
        unpaired: ids from which no pair can be told.
        names: paths of all images.
    """

    rows: int = 0
    halves: dict[str, set[str]] = field(default_factory=dict)
    ids: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    faulty: list[str] = field(default_factory=list)
    unshown: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    unpaired: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def lines(self, subtask: Subtask, questions: SubtaskQuestions) -> list[str]:
        """Return one line per warning."""
        complete = {pair for pair, halves in self.halves.items() if {"p", "n"} <= halves}
        broken = [pair for pair in self.halves if pair not in complete]
        if subtask.family != "pair":
            units = self.rows
        else:
            units = len(self.halves) if subtask.cue == "gc" else len(complete)
        lines = [*questions.remarks]
        if units != subtask.units:
            lines.append(f"{units:,} {UNITS[subtask.family]}; published figures are of {subtask.units}")
        if broken:
            counted = "they count as wrong" if subtask.cue == "gc" else "the authors' scripts leave them out"
            lines.append(f"{_many(broken, 'pair')} without one half ({counted}): {_first(broken)}")
        if self.unpaired:
            lines.append(f"{_many(self.unpaired, 'row')} of no pair, by q_id: {_first(self.unpaired)}")
        if twice := [name for name, times in self.ids.items() if times > 1]:
            lines.append(f"{_many(twice, 'id')} more than once: {_first(twice)}")
        if self.texts:
            lines.append(
                f"{_many(self.texts, 'gold answer')} given as text, at which the authors' scripts stop: "
                f"{_first(self.texts)}"
            )
        for problem, reasons in (
            ("cannot be read", self.unreadable),
            ("cannot be asked", self.faulty),
            ("with a picture that cannot be had", self.unshown),
        ):
            if reasons:
                lines.append(f"{_many(reasons, 'row')} {problem}: {_first(reasons, '; ')}")
        return lines


def survey(subtask: Subtask, questions: SubtaskQuestions) -> SubtaskSurvey:
    """Go over the questions once. Images are looked for and not read."""
    about = SubtaskSurvey()
    for line, row in questions.rows():
        about.rows += 1
        if isinstance(row, DataError):
            about.unreadable.append(row.message)
            continue
        about.names.update(locate.names(subtask, row))
        if fault := row_fault(subtask, row):
            about.faulty.append(f"{questions.file}, line {line:,}: {fault}")
        elif lost := next((blob for blob in questions.shown(line, row) if isinstance(blob, Unreadable)), None):
            about.unshown.append(lost.message)
        name = parse_row.row_id(subtask, row)
        if subtask.family == "pair":
            place = parse_row.place(subtask, row.get("q_id"), row.get("gt_answer"))
            if "pair" in place:
                about.halves.setdefault(place["pair"], set()).add(place.get("half", "?"))
            else:
                about.unpaired.append(name)
            if subtask.cue == "gc":
                name = f"{name}_{place.get('half', '?')}"
        elif subtask.family == "count" and isinstance(row.get("gt_answer"), str):
            about.texts.append(name)
        about.ids[name] += 1
    return about


def row_fault(subtask: Subtask, row: Row) -> str:
    """Return why a row cannot be asked; empty where it can."""
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        return f"'question' is {_brief(question)}; a text was expected"
    if subtask.family == "video":
        vid = row.get("vid")
        return "" if isinstance(vid, str) and vid else f"'vid' is {_brief(vid)}; the name of a video was expected"
    images = row.get("images")
    if not isinstance(images, list) or not all(isinstance(name, str) for name in images):
        return f"'images' is {_brief(images)}; a list of paths was expected"
    if len(images) < LEAST_IMAGES:
        return f"{len(images)} image{'' if len(images) == 1 else 's'} in the row; {LEAST_IMAGES} or more were expected"
    return ""


def _brief(value: Any) -> str:
    text = ascii(value)
    return "missing" if value is None else text if len(text) <= 80 else text[:80] + "..."


def _many(items: Sequence[str], noun: str) -> str:
    return f"{len(items):,} {noun}{'' if len(items) == 1 else 's'}"


def _first(items: Sequence[str], mark: str = ", ") -> str:
    return mark.join(items[:NAMED]) + (f"{mark}..." if len(items) > NAMED else "")
