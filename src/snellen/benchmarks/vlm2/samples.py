"""The questions of VLM2-Bench as samples, from the official files or VLMEvalKit's table.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and
line, and fails when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Any

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import locate, parse_row, prompts
from snellen.benchmarks.vlm2.data_checks import row_fault, survey
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
