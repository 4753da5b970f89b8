"""Taking up the results of a batch: each row becomes a record, is asked again, or is recorded as failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import structs

from snellen.engine.batches.log import LoggedShard
from snellen.engine.batches.submit import SentRow, ShardRows
from snellen.engine.progress import Progress
from snellen.engine.resume import Key, key
from snellen.engine.retry import checked_reply, failed_record, recorded_failure, recorded_response
from snellen.engine.stopping import SpendingLimit
from snellen.engine.traces import RunWriters
from snellen.errors import BatchCancelledError, ModelError
from snellen.models.api.batches.service import BatchService, BatchStatus, RowResult
from snellen.types import Record

READS = 3
"""How often results are read before rows that they lack, or damaged lines, count as without an answer."""


class RowOutcomes:
    """What came of the rows of this session, over all batches.

    Attributes:
        done: samples that have an answer.
        again: attempts so far of the samples that are asked in a further batch.
        cancelled: rows that were not answered because their batch was cancelled while the run waited.
        strange: results that nothing was asked for, or that came twice.
        answered: answers that were recorded.
    """

    def __init__(self, done: set[Key]) -> None:
        self.done = done
        self.again: dict[Key, int] = {}
        self.cancelled = 0
        self.strange = 0
        self.answered = 0


class BatchCollector:
    """Reads results and writes records.

    Args:
        attempts: of a row, at most.
        concealed: gold answers that requests hold and that a service may quote.
    """

    def __init__(
        self,
        service: BatchService,
        files: RunWriters,
        outcomes: RowOutcomes,
        progress: Progress,
        budget: SpendingLimit,
        attempts: int,
        concealed: Sequence[str] = (),
    ) -> None:
        self._service, self._files, self._outcomes = service, files, outcomes
        self._progress, self._budget, self._attempts = progress, budget, attempts
        self._concealed = tuple(concealed)

    async def take_up(
        self, shard: LoggedShard, status: BatchStatus, rows: ShardRows, *, cancelled_before: bool
    ) -> tuple[int, int]:
        """Record the results of a batch that has ended. What was recorded before a kill is passed over.

        Args:
            shard: as the log has it.
            status: the service's last word.
            rows: whose they are.
            cancelled_before: it was cancelled before this session, so that its rows are asked again.

        Returns:
            Number of answers recorded now, and of rows that are asked again.

        Raises:
            ModelError: the results cannot be read.
        """
        order = rows.order()
        taken: set[str] = set()
        answered = again = 0
        failures: dict[str, ModelError] = {}
        for _ in range(READS):
            damaged = False
            number = 0
            async for result in self._service.results(status):
                number += 1
                if number % 32 == 0:  # the display and the signals have their turn
                    await asyncio.sleep(0)
                row = _named(result, order)
                if row is None:
                    damaged = damaged or result.error is not None
                    continue
                sent = rows.by_id.get(row)
                if sent is None or row in taken:
                    self._outcomes.strange += sent is None
                    continue
                error = result.error
                if error is None and result.reply is not None:
                    error = await self.answer(shard, sent, result, rows)
                if error is None:
                    taken.add(row)
                    failures.pop(row, None)
                    answered += 1
                else:
                    failures[row] = error
            missing = len(order) - len(taken) - len(failures)
            if not missing or not (damaged or _complete(status)):
                break
        for row in order:
            if row in taken:
                continue
            sent = rows.by_id[row]
            if key(sent.sample_id, sent.repeat) in self._outcomes.done:
                continue
            error = failures.get(row) or status.missing_row
            again += await self.failed(shard, sent, error, rows, cancelled_before=cancelled_before)
        self._files.traces.sync()
        self._files.journal.sync()
        return answered, again

    async def answer(self, shard: LoggedShard, sent: SentRow, result: RowResult, rows: ShardRows) -> ModelError | None:
        """Record an answer; return the error if the reply is none."""
        outcomes = self._outcomes
        sample_key = key(sent.sample_id, sent.repeat)
        if sample_key in outcomes.done:
            return None
        request = rows.request(sent)
        try:
            response = self._service.read(result, request)
        except ModelError as error:
            return error
        if response.trace is not None:
            await self._files.traces.add(sent.sample_id, sent.repeat, sent.attempt, response.trace)
        response = recorded_response(
            structs.replace(checked_reply(response), trace=None, batch=shard.id, oversized_images=sent.oversized)
        )
        self._record(Record(sent.sample_id, "ok", sent.repeat, response, None, sent.attempt, *_times(shard)))
        outcomes.done.add(sample_key)
        outcomes.again.pop(sample_key, None)
        outcomes.answered += 1
        return None

    async def failed(
        self, shard: LoggedShard, sent: SentRow, error: ModelError, rows: ShardRows, *, cancelled_before: bool
    ) -> bool:
        """Note that a row is asked again, or record its failure; return True if it is asked again."""
        outcomes = self._outcomes
        sample_key = key(sent.sample_id, sent.repeat)
        if isinstance(error, BatchCancelledError) and error.status != "refused":
            if cancelled_before:
                outcomes.again[sample_key] = sent.attempt - 1
                return True
            outcomes.cancelled += 1
            return False
        adapted = not error.retry and self._service.adapts(error, rows.request(sent))
        if (error.retry or adapted) and sent.attempt < self._attempts:
            outcomes.again[sample_key] = sent.attempt
            return True
        if error.response is not None:
            error.response = structs.replace(error.response, batch=shard.id, oversized_images=sent.oversized)
        if error.trace is not None:
            await self._files.traces.add(sent.sample_id, sent.repeat, sent.attempt, error.trace)
        self.fail(sent.sample_id, sent.repeat, error, sent.attempt, _times(shard))
        return False

    def fail(
        self, sample_id: str, repeat: int, error: ModelError, attempts: int, times: tuple[float, float] | None = None
    ) -> None:
        """Record a sample without an answer."""
        message = recorded_failure(error.message, self._concealed)
        times = times or (time.time(), time.time())
        self._record(failed_record(sample_id, repeat, error, message, attempts, *times))
        if error.status == "refused":
            self._outcomes.done.add(key(sample_id, repeat))

    def _record(self, record: Record) -> None:
        self._files.journal.append(record)
        self._progress.add(record)
        self._budget.spend(record)


def _named(result: RowResult, order: list[str]) -> str | None:
    """Return the id of the row that a result is about; None where it names none."""
    if result.row is not None:
        return result.row
    if result.index is not None and result.index < len(order):
        return order[result.index]
    return None


def _complete(status: BatchStatus) -> bool:
    """Return True if the service says that every row has a result."""
    return (
        not (status.expired or status.cancelled)
        and status.total > 0
        and status.completed + status.failed >= status.total
    )


def _times(shard: LoggedShard) -> tuple[float, float]:
    return shard.created_at or shard.made_at, round(time.time(), 3)
