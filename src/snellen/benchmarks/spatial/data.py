"""The questions of a spatial benchmark as samples: from the official files, or from VLMEvalKit's table.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and line,
and fails when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts, where
from snellen.benchmarks.spatial.question import Question, sample
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.types import Image, Prompt, Sample


def samples(task: Task, part: str = "") -> Callable[[Data], Iterator[Sample]]:
    """The benchmark's `samples`: one a row, in the order of the file.

    `part` is image or video for the halves of SITE, empty elsewhere. The returned function raises UsageError (no data given)
    and DataError (no questions there, or none that can be read).
    """

    def made(data: Data) -> Iterator[Sample]:
        how = prompts.of(data, task)
        source = where.source(task, part, data)
        seen: dict[str, int] = {}
        for place, question in source.questions():
            if isinstance(question, DataError):
                yield _lost(source.file, place, question)
                continue
            turn = seen[question.id] = seen.get(question.id, 0) + 1
            named = question if turn == 1 else structs.replace(question, id=f"{question.id}#{turn}")
            yield sample(named, prompts.compose(how, task, question, source.shown(question)))

    return made


def _lost(file: str, place: str, error: DataError) -> Sample:
    blob = Unreadable(f"{file}, {place}", error.message, error.hint)
    return Sample(
        id=f"{PurePath(file).name}:{place}",
        prompt=Prompt((Image(blob),)),
        target=None,
        kind="open",
        meta={"unreadable": "yes", "gold": ""},
    )


def size(task: Task, part: str = "") -> Callable[[Data], int | None]:
    """The benchmark's `size`: how many rows there are; None where no data is given."""

    def count(data: Data) -> int | None:
        return None if data.path is None else sum(1 for _ in where.source(task, part, data).questions())

    return count


def digest(task: Task, part: str = "") -> Callable[[Data], str]:
    """The benchmark's `digest`: over the questions' bytes and over how they are put."""
    return lambda data: where.source(task, part, data).content() + prompts.digest(data, task)


def notices(task: Task, part: str = "") -> Callable[[Data], list[str]]:
    """The benchmark's `notices`: what is odd about the source, and a count that differs from the whole set's."""

    def found(data: Data) -> list[str]:
        source = where.source(task, part, data)
        said = source.remarks()
        readable: list[Question] = [one for _, one in source.questions() if isinstance(one, Question)]
        if task.rows and not part and len(readable) not in task.rows:
            whole = " or ".join(f"{count:,}" for count in task.rows)
            said.append(f"{source.file}: {len(readable):,} questions can be read; the whole set has {whole}")
        return said

    return found
