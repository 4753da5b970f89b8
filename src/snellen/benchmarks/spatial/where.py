"""From what the user gives to the questions of one benchmark: official parquet and archives, or VLMEvalKit's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import Shown
from snellen.benchmarks.spatial.question import Question
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, UsageError


class Source(Protocol):
    """The questions of one benchmark in one layout.

    `file` is what messages call it; `questions` starts a new pass over (place such as `row 7`, question or why there is
    none); `shown` is what a question shows; `content` the digest of the questions' bytes; `remarks` what is odd about the
    source, one line each.
    """

    file: str

    def questions(self) -> Iterator[tuple[str, Question | DataError]]: ...

    def shown(self, question: Question) -> Shown: ...

    def content(self) -> str: ...

    def remarks(self) -> list[str]: ...


def source(task: Task, part: str, data: Data) -> Source:
    """Where the user's data has the questions of a benchmark.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of this benchmark in it.
    """
    if data.path is None:
        raise UsageError(
            f"{task.name} needs its data, and none was given", f"Give it: --data hf:{task.hub}, a folder or file."
        )
    raise DataError(f"{data.path}: questions of {task.name} were expected")
