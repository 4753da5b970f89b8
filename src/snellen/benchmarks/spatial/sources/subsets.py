"""Subsets of the further benchmarks (`-o subset=`): durations, splits, levels, forms, budgets of frames; and tables in parts.

Rows of streamed videos are asked only where their subset is named: they are one request for answers at several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.question import QuestionSource, ShownMedia, SpatialQuestion
from snellen.benchmarks.spatial.scorers.base import STREAMING
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, UsageError
from snellen.text import comma_list

OPTION = "subset"


def chosen_subsets(task: Task, data: Data) -> tuple[str, ...]:
    """Return the subsets that the user asks for; empty for all of them.

    Raises:
        UsageError: one that the benchmark does not have.
    """
    words = comma_list(data.options.get(OPTION, ""))
    spelled = {name.lower(): name for name in task.subsets}
    unknown = [word for word in words if word.lower() not in spelled]
    if unknown:
        known = f"One or more of these, by comma: {', '.join(task.subsets)}." if task.subsets else "Omit it."
        raise UsageError(f"{OPTION}={unknown[0]!r}: {task.name} has no such subset", known)
    if not words and task.declared.subset.one:
        return task.subsets[:1]
    return tuple(dict.fromkeys(spelled[word.lower()] for word in words))


@lru_cache(maxsize=64)  # the same task each time, by which tables are kept
def for_subsets(task: Task, subsets: tuple[str, ...]) -> Task:
    """Return a task with the names of its folders and archives filled in for the subsets."""
    bare = dict.fromkeys(name.removesuffix(STREAMING) for name in subsets) or {"*": None}
    folders = tuple(config.replace("{subset}", name) for config in task.configs for name in bare)
    media = tuple(pattern.replace("{subset}", name) for pattern in task.media for name in bare)
    return structs.replace(task, configs=tuple(dict.fromkeys(folders)), media=tuple(dict.fromkeys(media)))


@dataclass
class SelectedQuestions:
    """The source (`locate.Source`) over one or more sources of one benchmark, of which some questions are asked.

    Attributes:
        task: the benchmark.
        place: what messages call several sources.
        sources: one behind the other; questions are counted on from source to source.
        subsets: what is asked; empty for all but streamed videos.
    """

    task: Task
    place: str
    sources: Sequence[QuestionSource]
    subsets: tuple[str, ...] = ()
    _last: tuple[QuestionSource, SpatialQuestion, int] | None = None
    _streamed: dict[str, int] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return self.sources[0].file if len(self.sources) == 1 else self.place

    def questions(self) -> Iterator[tuple[str, SpatialQuestion | DataError]]:
        """(place, question) of those that are asked; what cannot be read is passed on."""
        first = 0
        self._streamed = {}
        for source in self.sources:
            last = -1
            for at, question in source.questions():
                place = at if len(self.sources) == 1 else f"{source.file}, {at}"
                if isinstance(question, DataError):
                    last += 1
                    yield place, question
                    continue
                last = question.row
                if not self._asked(question):
                    continue
                self._last = source, question, first + question.row
                yield place, structs.replace(question, row=first + question.row)
            first += last + 1

    def _asked(self, question: SpatialQuestion) -> bool:
        column = self.task.declared.subset.by
        value = question.groups.get(column, "")
        if column == "question_type" and value.endswith(STREAMING) and value not in self.subsets:
            self._streamed[value] = self._streamed.get(value, 0) + 1
            return False
        return not self.subsets or column not in question.groups or value in self.subsets

    def shown(self, question: SpatialQuestion) -> ShownMedia:
        """Return what the last question shows."""
        if self._last is None or self._last[2] != question.row:
            raise DataError(f"{self.file}: question {question.id} is not the last one that was read")
        source, original, _ = self._last
        return source.shown(original)

    def content(self) -> str:
        return "+".join(source.content() for source in self.sources)

    def remarks(self) -> list[str]:
        """Return the sources' remarks, and how many rows of streamed videos were left out."""
        lines = [remark for source in self.sources for remark in source.remarks()]
        if self._streamed:
            parts = ", ".join(f"{count:,} of {name}" for name, count in self._streamed.items())
            lines.append(
                f"{self.file}: {sum(self._streamed.values()):,} rows ask about a streamed video at several times ({parts}) "
                f"and are left out, as VLMEvalKit leaves them out; -o {OPTION}={next(iter(self._streamed))} asks them"
            )
        return lines
