"""The sink of a run: where each outcome goes, the journal before all that counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from snellen.engine.journal import Journal
from snellen.engine.progress import LiveScores, Progress
from snellen.engine.questions import Feed, Outcome, Question
from snellen.engine.resume import Key, key
from snellen.engine.stopping import FailureLimit, SpendingLimit, Stop
from snellen.errors import SnellenError
from snellen.types import Record, Sample, Score

if TYPE_CHECKING:
    from snellen.engine.answer_cache import AnswerCache


class RecordSink:
    """Writes the records of one session and counts them; requests a stop where the budget is used up, or everything fails.

    The traces of a record were written before. `repeated`: samples are asked several times, so that their repeats rise and
    fall together.

    Attributes:
        lost: failures for a reason that may pass, without their replies; they are asked once more at the end.
    """

    def __init__(
        self,
        journal: Journal,
        feed: Feed,
        progress: Progress,
        stop: Stop,
        budget: SpendingLimit,
        failures: FailureLimit,
        *,
        scores: LiveScores | None = None,
        cache: AnswerCache | None = None,
        repeated: bool = False,
    ) -> None:
        self.lost: dict[Key, Record] = {}
        self._journal, self._feed, self._progress, self._stop = journal, feed, progress, stop
        self._budget, self._failures = budget, failures
        self._scores, self._cache, self._repeated = scores, cache, repeated

    async def put(self, question: Question, outcome: Outcome) -> None:
        """Write a sample's first outcome and count it."""
        sample, record = question.sample, outcome.record
        self._journal.append(record)
        if self._cache is not None:
            self._cache.store(outcome.cache_key, record)
        self._feed.settle(sample, record)
        self._progress.add(record)
        failures = self._failures
        failures.add(sample, outcome)
        if failures.doubts_vision:
            await failures.test_vision()
        if outcome.error is not None and outcome.error.retry:
            self.lost[key(sample.id, question.repeat)] = structs.replace(record, response=None)
        if (score := await self._score(sample, record)) is not None:
            self._progress.add_score(record, score, self._cluster(sample))
        if self._budget.spent or failures.broken:
            self._stop.request()

    async def replace(self, question: Question, outcome: Outcome) -> None:
        """Write the outcome of a sample that failed before; another failure that may pass changes nothing."""
        sample, record, before = question.sample, outcome.record, question.failure
        if before is not None and (outcome.error is None or not outcome.error.retry):
            self._journal.append(record)
            self._feed.settle(sample, record)
            failed = before, await self._score(sample, before)
            self._progress.recover(failed, record, await self._score(sample, record), self._cluster(sample))
        if outcome.silent or self._budget.spent:
            self._stop.request()

    async def _score(self, sample: Sample, record: Record) -> Score | None:
        if self._scores is None:
            return None
        try:
            return await self._scores.score(sample, record)
        except Exception as error:  # noqa: BLE001 - the answer is safe; scoring is done again, and fails aloud, at the end
            cause = error.message if isinstance(error, SnellenError) else f"{type(error).__name__}: {error}"
            self._progress.note = f"{sample.id} cannot be scored: {' '.join(cause.split())}"
            return None

    def _cluster(self, sample: Sample) -> str:
        return sample.group or (sample.id if self._repeated else "")
