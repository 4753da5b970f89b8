"""The questions of VLM2-Bench as samples, from the official files or VLMEvalKit's table.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and
line, and fails when it is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import locate, parse_row, prompts
from snellen.benchmarks.vlm2.layout import Subtask
from snellen.benchmarks.vlm2.locate import SubtaskQuestions
from snellen.benchmarks.vlm2.prompts import VariantPrompting
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.sources.encodings import Row
from snellen.types import Image, Prompt, Sample, Text, Video

FIX_HINT = "Fix the row, or fetch the data again."


def samples(subtask: Subtask, data: Data) -> Iterator[Sample]:
    """Yield one sample a row, in the order of the file.

    Raises:
        UsageError: no data was given, or a prompting that does not fit.
        DataError: there is no question file, or nothing of it can be read.
    """
    how = prompts.prompt_variant(data, subtask)
    questions = locate.questions(subtask, data)
    counts: dict[str, int] = {}
    for line, row in questions.rows():
        if isinstance(row, DataError):
            yield _named(partial(_lost, subtask, questions.file, line, row), counts)
        else:
            yield _named(partial(_question_sample, subtask, questions, how, line, row), counts)


def size(subtask: Subtask, data: Data) -> int | None:
    """Count the rows; None where no data is given."""
    return None if data.path is None else locate.questions(subtask, data).count()


def digest(subtask: Subtask, data: Data) -> str:
    """Return the digest of questions and images (`locate.digest`), and of the boxes of vp-zoom."""
    return locate.digest(subtask, data) + prompts.digest(data)


def notices(subtask: Subtask, data: Data) -> list[str]:
    """Return warnings: counts that differ from the published ones, incomplete pairs, what cannot be read."""
    how = prompts.prompt_variant(data, subtask)
    questions = locate.questions(subtask, data)
    about = survey(subtask, questions)
    return [*about.lines(subtask, questions), *prompts.notices(how, about.names)]


def _named(make: Callable[[int], Sample], seen: dict[str, int]) -> Sample:
    """Return the sample that `make` makes of a turn, with the first turn from 0 on whose id is not taken yet."""
    sample = make(0)
    first, turn = sample.id, seen.get(sample.id, 0)
    while sample.id in seen:
        sample = make(turn)
        turn += 1
    seen[sample.id] = 1
    seen[first] = max(turn, 1)
    return sample


def _lost(subtask: Subtask, file: str, line: int, error: DataError, turn: int) -> Sample:
    blob = Unreadable(f"{file}, line {line:,}", error.message, error.hint)
    name = f"{PurePath(file).name}:{line}"
    return Sample(
        id=f"{name}#{turn + 1}" if turn else name,
        prompt=Prompt((_part(subtask, blob),)),
        target=None,
        kind=parse_row.KINDS[subtask.family],
        meta={"unreadable": "yes"},
    )


def _question_sample(
    subtask: Subtask, questions: SubtaskQuestions, how: VariantPrompting, line: int, row: Row, turn: int
) -> Sample:
    variant: dict[str, Any] = {} if how.variant == "vanilla" else {"prompting": how.variant}
    return parse_row.sample(subtask, row, _prompt(subtask, questions, how, line, row), turn, **variant)


def _prompt(subtask: Subtask, questions: SubtaskQuestions, how: VariantPrompting, line: int, row: Row) -> Prompt:
    question = row.get("question")
    fault = row_fault(subtask, row)
    if fault:
        at = f"{questions.file}, line {line:,}"
        text = (Text(question),) if isinstance(question, str) and question else ()
        return Prompt((_part(subtask, Unreadable(at, f"{at}: {fault}", FIX_HINT)), *text))
    parts = [_part(subtask, blob) for blob in questions.shown(line, row)]
    return prompts.compose(how, subtask, parts, locate.names(subtask, row), str(question))


def _part(subtask: Subtask, blob: Any) -> Image | Video:
    return Video(blob) if subtask.family == "video" else Image(blob)


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
