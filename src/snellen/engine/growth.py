"""Growing benchmarks: their next questions follow from the answers so far, and from nothing else.

A question's id says all about it, so the journal alone holds the state of a run. The same questions are asked whatever
the concurrency, the host and the number of interruptions.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from snellen.benchmarks.base import Benchmark, Data, ScoredAnswer
from snellen.engine import journal
from snellen.engine.final_records import final_records
from snellen.engine.journal import RecordHead
from snellen.engine.progress import GroupProgress
from snellen.engine.questions import Feed, Question
from snellen.engine.resume import ANSWERED, Work
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import DataError, PluginError, UsageError
from snellen.scoring.scores import score_record
from snellen.sources.journal_lines import Damage
from snellen.text import shorten
from snellen.types import Record, Sample


class GrowingFeed(Feed):
    """Questions that depend on answers. Whoever finds none waits while others are pending.

    The benchmark is asked for more when a group of questions has none left that is open; of samples without a group,
    after every answer.
    """

    def __init__(self, growth: Growth, work: Work, limit: int | None) -> None:
        self._growth, self._limit = growth, limit
        self._queue = deque(sample for sample, _ in work)
        self._open = Counter(sample.group for sample in self._queue)
        self._groups = {*growth.groups, *self._open} - {""}
        self._pending = {sample.id for sample in self._queue}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def take(self) -> Question | None:
        while not self._closed:
            if self._queue:
                return Question(self._queue.popleft(), 0)
            if not self._pending:
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        return None

    def settle(self, sample: Sample, record: Record) -> None:
        self._growth.add(sample, record)
        if sample.id in self._pending:  # not one that failed before, and was asked once more at the end
            self._pending.discard(sample.id)
            self._open[sample.group] -= 1
        if not sample.group or not self._open[sample.group]:
            known = len(self._growth.answers.keys() | self._pending)
            room = None if self._limit is None else max(0, self._limit - known)
            for each in self._growth.grow(self._pending)[:room]:
                self._queue.append(each)
                self._pending.add(each.id)
                self._open[each.group] += 1
                self._groups |= {each.group} - {""}
        if self._queue or not self._pending:
            self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()

    def holds_more(self) -> bool:
        return bool(self._queue)

    def groups(self) -> GroupProgress | None:
        if not self._groups:
            return None
        ended = sum(not self._open[group] for group in self._groups)
        return GroupProgress(f"{self._growth.benchmark.cluster}s", ended, len(self._groups))

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


@dataclass
class Growth:
    """The answers of a run so far, and what a growing benchmark asks next.

    Attributes:
        answers: sample id to answer; a failed question has the verdict `error`.
        failed: ids of those whose request failed: a continued run asks them again.
        groups: groups of the answered questions.
    """

    benchmark: Benchmark
    data: Data
    answers: dict[str, ScoredAnswer]
    failed: list[str]
    groups: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, benchmark: Benchmark, spec: RunSpec, results: Path) -> Growth:
        """Read the answers of a journal, and score each under the first profile.

        Raises:
            UsageError: the run asks each question several times.
            DataError: a record belongs to no question of the benchmark.
        """
        if spec.repeats > 1:
            raise UsageError(
                f"{benchmark.name} chooses each question by the answers before it, and --repeats {spec.repeats} asks for "
                "several answers to each",
                "Omit --repeats, and compare runs with other seeds: --seed 1.",
            )
        growth = cls(benchmark, spec.data, {}, [])
        for record in final_records(results) if results.exists() else ():
            growth.add(sample_of(benchmark, spec.data, record.sample_id), record)
            if record.status not in ANSWERED:
                growth.failed.append(record.sample_id)
        return growth

    def add(self, sample: Sample, record: Record) -> None:
        """Add an answer, or replace a failure."""
        scorer = next(iter(self.benchmark.score.values()))
        score = score_record(sample, record, scorer)
        self.groups.add(sample.group)
        self.answers[sample.id] = ScoredAnswer(record.status, score.verdict, score.extracted, score.value)

    def grow(self, pending: Iterable[str] = ()) -> list[Sample]:
        """Return the questions that are open now and neither answered nor pending.

        Raises:
            PluginError: the benchmark returned something else than samples, or one id twice.
        """
        assert self.benchmark.grow is not None  # noqa: S101 - asked by the caller
        omitted = {*self.answers, *pending}
        opened: dict[str, Sample] = {}
        for sample in self.benchmark.grow(self.data, self.answers):
            if not isinstance(sample, Sample) or sample.id in opened:
                returned = f"{sample.id!r} twice" if isinstance(sample, Sample) else f"a {type(sample).__name__}"
                raise PluginError(
                    f"grow of {self.benchmark.name} returned {returned}", "Return each open question once, as a Sample."
                )
            if sample.id not in omitted:
                opened[sample.id] = sample
        return list(opened.values())

    def open_questions(self, limit: int | None = None) -> list[Sample]:
        """Return what is to be asked now: questions that failed, then new ones, up to the limit of the whole run."""
        again = [sample_of(self.benchmark, self.data, name) for name in self.failed]
        room = None if limit is None else max(0, limit - len(self.answers))
        return [*again, *self.grow()[:room]]

    def work(self, limit: int | None = None) -> Work:
        """Yield the open questions with repeat 0, the only one."""
        return ((sample, 0) for sample in self.open_questions(limit))


def sample_of(benchmark: Benchmark, data: Data, sample_id: str) -> Sample:
    """Return a question of a growing benchmark, made from its id alone.

    Raises:
        DataError: the id is none of the benchmark's.
    """
    assert benchmark.sample is not None  # noqa: S101 - asked by the caller
    try:
        return benchmark.sample(data, sample_id)
    except (LookupError, ValueError, DataError) as error:
        raise DataError(
            f"record {shorten(repr(sample_id), 200)} belongs to no question of {benchmark.name}",
            "The answers were made with other settings: pass the same options, or name the right --benchmark.",
        ) from error


def recorded_view(benchmark: Benchmark, folder: RunFolder, limit_spec: Callable[[], RunSpec]) -> Benchmark:
    """Return a growing benchmark as that of one run: its samples are those that the journal holds, in that order.

    Everything that reads a run therefore treats it like any other. Its size is the number of recorded questions, and
    those that are open now: a run that goes on has answered fewer. Another benchmark is returned as it is.
    """
    if benchmark.grow is None:
        return benchmark

    def ids() -> Sequence[str]:
        heads = journal.read(folder.results, RecordHead, Damage(folder.results)) if folder.results.exists() else ()
        return list(dict.fromkeys(head.sample_id for head in heads))

    def samples(data: Data) -> Iterator[Sample]:
        # The journal is read when the first sample is needed: after the records of a run in progress, which has more by then.
        for name in ids():
            yield sample_of(benchmark, data, name)

    def size(data: Data) -> int:
        growth = Growth.read(benchmark, limit_spec(), folder.results)
        return len(growth.answers) + len(growth.grow())

    return replace(benchmark, samples=samples, size=size, grow=None, sample=None)
