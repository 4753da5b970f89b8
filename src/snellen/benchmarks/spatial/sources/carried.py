"""The questions that another harness's answers bring along, kept beside the run that these answers became.

Such a run has no other data: the harness had it. With this file it can be scored, compared and reported like any other; it
cannot be asked again, because nothing of what was shown is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.spatial.question import ShownMedia, SpatialQuestion
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError
from snellen.sources import Unreadable, digest

NAME = "asked.jsonl"
"""What the file is called; a file of this name is read as one."""


class CarriedHead(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line.

    Attributes:
        benchmark: whose questions they are.
        harness: who asked them, `lmms-eval 0.7.3`.
        missing: how many questions the harness's data has that no answer was found to, by half (`image`, `video`; empty for
            benchmarks that have none).
    """

    benchmark: str
    harness: str
    missing: Mapping[str, int] = {}


class CarriedQuestion(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line: a question, and of SITE the half that it is of."""

    question: SpatialQuestion
    part: str = ""


def encode(head: CarriedHead, rows: Iterable[CarriedQuestion]) -> Iterator[bytes]:
    """Yield the lines of the file."""
    yield msgspec.json.encode(head) + b"\n"
    for row in rows:
        yield msgspec.json.encode(row) + b"\n"


@dataclass
class CarriedQuestions:
    """The source (`locate.Source`) over such a file. Questions without an answer count as unreadable."""

    task: Task
    part: str
    path: Path

    @property
    def file(self) -> str:
        return str(self.path)

    def questions(self) -> Iterator[tuple[str, SpatialQuestion | DataError]]:
        """(place, question); then one place for each question without an answer.

        Raises:
            DataError: the file is of another benchmark, or was changed by something else.
        """
        with self.path.open("rb") as file:
            head = self._head(file.readline())
            for number, line in enumerate(file, 2):
                try:
                    carried = msgspec.json.decode(line, type=CarriedQuestion)
                except (msgspec.DecodeError, RecursionError) as error:
                    raise DataError(f"{self.path}, line {number}: {error}", "Restore the file.") from error
                if carried.part == self.part:
                    yield f"line {number}", carried.question
        for number in range(head.missing.get(self.part, 0)):
            why = f"{self.path}: {head.harness} left no answer to this question, and nothing tells what it is"
            yield f"unanswered {number + 1}", DataError(why, "Run the harness again.")

    def shown(self, question: SpatialQuestion) -> ShownMedia:
        """Return a place without an image, whose reading says why."""
        why = f"{self.path}: the pictures stayed with the harness that showed them"
        blob = Unreadable(f"{NAME}, {question.id}", why, "Give the benchmark's data: --data.")
        return ShownMedia(images=(blob,))

    def content(self) -> str:
        return digest(self.path)

    def remarks(self) -> list[str]:
        with self.path.open("rb") as file:
            head = self._head(file.readline())
        missing = head.missing.get(self.part, 0)
        return [f"{self.path}: {head.harness} left no answer to {missing:,} questions"] if missing else []

    def _head(self, line: bytes) -> CarriedHead:
        try:
            head = msgspec.json.decode(line, type=CarriedHead)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DataError(
                f"{self.path}, line 1: {error}", "Files of this name hold the questions of a harness's answers."
            ) from error
        if head.benchmark != self.task.name:
            raise DataError(
                f"{self.path}: the questions of {head.benchmark}, not of {self.task.name}", "Name that one."
            )
        return head
