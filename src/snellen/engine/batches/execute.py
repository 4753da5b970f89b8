"""Executing a run by batches: what is open is found again, the rest is sent, and all of it is waited for and taken up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from snellen import exit_signals
from snellen.engine import journal
from snellen.engine.batches.collect import BatchCollector, RowOutcomes
from snellen.engine.batches.log import FOLDER, BatchLog, LoggedShard, batch_progress, local_time
from snellen.engine.batches.submit import RemainingWork, SentRow, ShardRows, Submitter
from snellen.engine.journal import RecordHead
from snellen.engine.progress import Display, Progress, shown
from snellen.engine.resume import ANSWERED, Key, key, pending
from snellen.engine.run_folder import RunFolder
from snellen.engine.session import Session
from snellen.engine.stopping import SpendingLimit, Stop
from snellen.engine.traces import RunWriters
from snellen.errors import BadRequestError, BatchError, BatchExpiredError, InterruptedRunError, ModelError
from snellen.models.api.batches.files import FileBatches
from snellen.models.api.batches.service import BatchService, BatchStatus
from snellen.sources.journal_lines import Damage
from snellen.types import Sample

POLL_S = 30.0
"""Seconds between two looks at the open batches."""


async def execute_batches(session: Session, progress: Progress, display: Display, files: RunWriters) -> None:
    """Ask everything that has no answer by batches, and return when all of them are taken up.

    Raises:
        BatchError: the service refuses a batch, or batches were cancelled while the run waited for them.
        InterruptedRunError: a signal; open batches go on at the service.
        BudgetError: the budget is used up.
    """
    service = session.model.batches()
    stop = Stop(progress)
    log = BatchLog(session.folder.path)
    try:
        log.begin(service.name, service.place)
        run = _BatchRun(session, service, log, stop, progress, files)
        try:
            async with shown(progress, display):
                with stop.on_signals():
                    await stop.run_all([run.execute()])
        finally:
            await service.close()
            files.close()
        run.conclude()
    finally:
        log.close()


class _BatchRun:
    def __init__(
        self,
        session: Session,
        service: BatchService,
        log: BatchLog,
        stop: Stop,
        progress: Progress,
        files: RunWriters,
    ) -> None:
        spec, backoff, concealed = session.spec, session.backoff, session.benchmark.concealed
        self._session, self._service, self._log, self._stop, self._progress = session, service, log, stop, progress
        self._poll_s = POLL_S if spec.poll_s is None else spec.poll_s
        self._budget = SpendingLimit(spec, session.meta.totals)
        self._outcomes = RowOutcomes(session.done)
        self._collector = BatchCollector(
            service, files, self._outcomes, progress, self._budget, backoff.attempts, concealed
        )
        self._submitter = Submitter(log, service, stop, backoff, session.seeds, self._poll_s, concealed=bool(concealed))
        self._attempts: dict[Key, int] = {}
        self._polled: set[str] = set()
        self._cancelled_before: set[str] = set()
        self._refused_before = False
        self._samples_left = False

    async def execute(self) -> None:
        self._budget.check()
        if isinstance(self._service, FileBatches) and self._service.result_files:
            await take_up_files(self._log, self._service, self._collector, self._outcomes, self._session.folder)
            return
        in_flight = self._recover()
        self._update()
        work: Iterator[tuple[Sample, int]] = (
            (sample, repeat)
            for sample, repeat in pending(self._session.benchmark, self._session.spec, self._outcomes.done)
            if key(sample.id, repeat) not in in_flight
        )
        while True:
            await self._round(RemainingWork(work))
            again, self._outcomes.again = self._outcomes.again, {}
            self._samples_left = self._samples_left or bool(again)
            if not again or self._service.offline or self._stop.requested() or self._budget.spent:
                return
            self._samples_left = False
            self._attempts.update(again)
            retried = frozenset(again)
            work = (
                (sample, repeat)
                for sample, repeat in pending(self._session.benchmark, self._session.meta.spec, set())
                if key(sample.id, repeat) in retried
            )

    def _recover(self) -> set[Key]:
        """Read what earlier calls left: drop shards that were never sent, and return the samples of the open ones."""
        folder = self._session.folder
        failed = {
            key(head.sample_id, head.repeat)
            for head in journal.read(folder.results, RecordHead, Damage(folder.results))
            if head.status not in ANSWERED
        }
        in_flight: set[Key] = set()
        for shard in list(self._log.state.shards.values()):
            if shard.id or shard.closed:  # a kill fell between its event and the removal of its file
                (folder.path / FOLDER / f"{shard.label}.jsonl").unlink(missing_ok=True)
            if not shard.closed and shard.creating_at is None and shard.shard(folder.path).path is None:
                self._log.append("dropped", label=shard.label, reason="its file is not there any more")
            elif shard.closed == "dropped":
                continue
            for sent in ShardRows(folder.path, shard.label).by_id.values():
                sample_key = key(sent.sample_id, sent.repeat)
                if not shard.closed:
                    in_flight.add(sample_key)
                elif sample_key not in self._outcomes.done and sample_key not in failed:
                    self._attempts[sample_key] = max(self._attempts.get(sample_key, 0), sent.attempt)
        return in_flight

    async def _round(self, work: RemainingWork) -> None:
        """Send what there is in `work`, and wait until no batch is open."""
        more = True
        if self._service.offline:
            await self._poll()  # a file that a kill left half made comes first
        while not self._stop.requested():
            while more and self._may_send():
                more = await self._send_next(work)
            if self._service.offline:
                self._samples_left = more
                return
            await self._poll()
            if not self._log.state.open() and not (more and self._may_send()):
                self._samples_left = more
                return
            if self._log.state.open() and not await self._stop.pause(self._poll_s):
                return

    def _may_send(self) -> bool:
        open_ = self._log.state.open()
        if self._stop.requested() or self._budget.spent or any(not shard.id for shard in open_):
            return False
        return not open_ or not (self._submitter.serial or self._budget.limited)

    async def _send_next(self, work: RemainingWork) -> bool:
        """Make and send one batch; return True if there may be more to send."""
        made = await self._submitter.make(work, self._attempts, self._budget.rows())
        for sample, repeat, error in made.unwritten:
            self._collector.fail(sample.id, repeat, error, 1)
        if made.shard is None:
            return made.more
        others = len([shard for shard in self._log.state.open() if shard.id])
        outcome = await self._submitter.send(made.shard, others)
        self._update()
        if outcome == "dropped":
            work.push_back(made.samples)
            return True
        return made.more

    async def _poll(self) -> None:
        """Look at each open batch once: find those without an id, and take up those that have ended."""
        for shard in self._log.state.open():
            if self._stop.requested():
                return
            try:
                if shard.id and self._service.offline:
                    continue
                if shard.id:
                    await self._update_shard(shard)
                else:
                    await self._settle(shard)
            except ModelError as error:
                raise BatchError(
                    f"{self._service.place}, batch {shard.id or shard.label}: {error.message}",
                    self._resume_hint(error.hint),
                ) from error
            self._update()

    async def _settle(self, shard: LoggedShard) -> None:
        """Send a shard that was never sent, or find out whether its batch exists."""
        others = len([each for each in self._log.state.open() if each.id])
        if shard.creating_at is None:
            outcome = await self._submitter.send(shard, others)
        elif self._submitter.serial and others:
            return
        else:
            resolution = await self._submitter.patiently(lambda: self._submitter.resolve(shard, others))
            outcome = resolution or "stopped"
        if outcome == "dropped":
            self._ask_again(shard)

    async def _update_shard(self, shard: LoggedShard) -> None:
        status = await self._submitter.patiently(lambda: self._service.status(shard.id))
        if status is None:
            return
        if shard.label not in self._polled:
            self._polled.add(shard.label)
            if status.cancelled:
                self._cancelled_before.add(shard.label)
        if (status.words, status.completed, status.failed) != (shard.state, shard.completed, shard.failed):
            self._log.append(
                "state",
                label=shard.label,
                state=status.words,
                total=status.total,
                completed=status.completed,
                failed=status.failed,
                expires_at=status.expires_at,
            )
        if status.state == "failed":
            self._invalid(shard, status)
        elif status.state == "ended":
            await self._take_up(shard, status)

    async def _take_up(self, shard: LoggedShard, status: BatchStatus) -> None:
        rows = ShardRows(self._session.folder.path, shard.label)
        before = shard.label in self._cancelled_before
        counts = await self._submitter.patiently(
            lambda: self._collector.take_up(shard, status, rows, cancelled_before=before)
        )
        if counts is not None:
            self._log.append("taken", label=shard.label, answered=counts[0], again=counts[1])

    def _invalid(self, shard: LoggedShard, status: BatchStatus) -> None:
        """Deal with a batch that failed validation: nothing was paid.

        Smaller limits are learned, or rows that the service names are recorded as failed; the others are asked again.

        Raises:
            BatchError: neither; or a second batch in a row.
        """
        message = status.message or f"the batch is {status.words}"
        rows = ShardRows(self._session.folder.path, shard.label)
        refused = {}
        if not self._submitter.learn(shard, message):
            order = rows.order()
            refused = {order[line - 1]: reason for line, reason in status.lines if line <= len(order)}
            if not refused and self._refused_before:
                self._log.append("dropped", label=shard.label, reason=message[:500])
                raise BatchError(
                    f"{self._service.place}: the batch {shard.id} failed: {message}",
                    self._resume_hint("Nothing was paid for it. Correct the cause."),
                )
            self._refused_before = not refused
        self._log.append("dropped", label=shard.label, reason=message[:500])
        for row, reason in refused.items():
            sent = rows.by_id[row]
            self._collector.fail(sent.sample_id, sent.repeat, BadRequestError(reason), sent.attempt)
        self._ask_again(shard, rows, without=frozenset(refused))

    def _ask_again(
        self, shard: LoggedShard, rows: ShardRows | None = None, without: frozenset[str] = frozenset()
    ) -> None:
        """Ask the rows of a shard for which nothing was paid in the next round, without an attempt used up."""
        rows = rows or ShardRows(self._session.folder.path, shard.label)
        for row, sent in rows.by_id.items():
            sample_key = key(sent.sample_id, sent.repeat)
            if row not in without and sample_key not in self._outcomes.done:
                self._outcomes.again[sample_key] = sent.attempt - 1

    def _update(self) -> None:
        self._progress.batches = batch_progress(self._log.state.open())
        if self._outcomes.strange:
            self._progress.note = f"{self._outcomes.strange:,} results for rows that were not asked; ignored"

    def _resume_hint(self, hint: str) -> str:
        sent = sum(1 for shard in self._log.state.open() if shard.id)
        others_text = (
            f"{sent} other batch{'es' * (sent != 1)} of the run {'goes' if sent == 1 else 'go'} on at the service. "
            if sent
            else ""
        )
        return f"{hint} {others_text}Run the same command again to resume.".strip()

    def conclude(self) -> None:
        """Raise the error by which the run ends early, if it does."""
        open_ = [shard for shard in self._log.state.open() if shard.creating_at is not None]
        folder, progress = self._session.folder.path, self._progress
        if self._stop.interrupted:
            state = batch_progress(open_)
            until = f", the last until {local_time(state.expires_at)} at most" if state.expires_at else ""
            batches_text = (
                f"{len(open_)} batch{'es' * (len(open_) != 1)} with {sum(s.rows for s in open_):,} samples "
                f"{'goes' if len(open_) == 1 else 'go'} on at the service{until}; "
                if open_
                else ""
            )
            cancel = f" To cancel the batches: snellen batch cancel {folder}" if open_ else ""
            raise InterruptedRunError(
                f"stopped by {exit_signals.by_what()} after {progress.done:,} of {progress.total or '?'} samples; {batches_text}"
                f"all answers are recorded in {folder}",
                f"Run the same command again to take up the batches and resume.{cancel}",
            )
        if self._budget.unpriced or (self._budget.spent and self._samples_left):
            self._budget.check()
        if self._outcomes.cancelled:
            raise BatchError(
                f"{self._outcomes.cancelled:,} samples have no answer: their batches were cancelled while the run waited",
                f"All other answers are recorded in {folder}. Run the same command again to ask these samples again.",
            )


class _FailedHead(RecordHead, frozen=True, gc=False):
    attempts: int = 1


async def take_up_files(
    log: BatchLog, service: FileBatches, collector: BatchCollector, outcomes: RowOutcomes, folder: RunFolder
) -> None:
    """Record the results in the service's files, each sample once; close the batches to which nothing is missing.

    Rows of all batches of the run are accepted, closed ones too, as long as their sample has no answer.

    The event `read` of the log says what was recorded.

    Raises:
        DataError: a file cannot be read. RunError: a file of rows is missing.
    """
    shards = [shard for shard in log.state.shards.values() if shard.creating_at is not None]
    rows = {shard.label: ShardRows(folder.path, shard.label) for shard in shards}
    owners = {row: label for label, each in rows.items() for row in each.by_id}
    failed_before = _failed_before(folder)
    failures: dict[str, ModelError] = {}
    answered: Counter[str] = Counter()
    again: Counter[str] = Counter()
    settled: set[str] = set()
    number = failed = 0
    async for result in service.read_files():
        number += 1
        if number % 32 == 0:  # the display and the signals have their turn
            await asyncio.sleep(0)
        label = owners.get(result.row or "")
        if result.row is None or label is None:
            outcomes.strange += 1
            continue
        if result.row in settled:
            continue
        sent = rows[label].by_id[result.row]
        done_before = key(sent.sample_id, sent.repeat) in outcomes.done
        error = result.error
        if error is None and not done_before:
            error = await collector.answer(log.state.shards[label], sent, result, rows[label])
        if error is None or done_before:
            settled.add(result.row)
            failures.pop(result.row, None)
            answered[label] += not done_before
        else:
            failures[result.row] = error
    if service.ended:
        for shard in shards:
            for row, sent in rows[shard.label].by_id.items():
                if not shard.closed and not _answered(sent, outcomes) and row not in failures:
                    failures[row] = BatchExpiredError("The results have no line for this request.")
    for row, error in failures.items():
        label = owners[row]
        sent = rows[label].by_id[row]
        sample_key = key(sent.sample_id, sent.repeat)
        if sample_key in outcomes.done or failed_before.get(sample_key, 0) >= sent.attempt:
            continue
        shard = log.state.shards[label]
        repeated = await collector.failed(shard, sent, error, rows[label], cancelled_before=True)
        again[label] += repeated
        failed += not repeated
    lacking = 0
    for shard in shards:
        if shard.closed:
            continue
        completed = sum(_answered(sent, outcomes) for sent in rows[shard.label].by_id.values())
        missing = sum(
            not _answered(sent, outcomes) and row not in failures for row, sent in rows[shard.label].by_id.items()
        )
        lacking += missing
        if missing:
            log.append("state", label=shard.label, state="written", total=shard.rows, completed=completed)
        else:
            log.append("taken", label=shard.label, answered=completed, again=again[shard.label])
    log.append(
        "read", answered=answered.total(), again=again.total(), failed=failed, missing=lacking, strange=outcomes.strange
    )


def _answered(sent: SentRow, outcomes: RowOutcomes) -> bool:
    return key(sent.sample_id, sent.repeat) in outcomes.done


def _failed_before(folder: RunFolder) -> dict[Key, int]:
    """Return attempts of the samples whose failure is recorded, so that a file read twice records it once."""
    return {
        key(head.sample_id, head.repeat): head.attempts
        for head in journal.read(folder.results, _FailedHead, Damage(folder.results))
        if head.status not in ANSWERED
    }
