"""The questions of a spatial benchmark as samples: from the official files, or from VLMEvalKit's table.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and line,
and fails when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from snellen.benchmarks.spatial.prompts import Prompting
from snellen.benchmarks.spatial.question import Question
from snellen.errors import DataError
from snellen.types import Part


class Source(Protocol):
    """The questions of one benchmark in one layout.

    `file` is what messages call it; `questions` starts a new pass over (place, question or why there is none); `shown` is
    what a question shows, in order, nothing of it read yet; `content` is the digest of the questions' bytes; `remarks` is
    what is odd about the source, one line each; `layout` is official or vlmevalkit.
    """

    file: str
    layout: str

    def questions(self) -> Iterator[tuple[str, Question | DataError]]: ...

    def shown(self, question: Question, how: Prompting) -> list[Part]: ...

    def content(self) -> str: ...

    def remarks(self) -> list[str]: ...
