"""Taking up files of results that another program wrote: any order, parts of them, files that were read before."""

from __future__ import annotations

import asyncio
from collections import Counter

from snellen.engine import journal
from snellen.engine.batches.collect import BatchCollector, RowOutcomes
from snellen.engine.batches.log import BatchLog
from snellen.engine.batches.shards import SentRow, ShardRows
from snellen.engine.journal import RecordHead
from snellen.engine.resume import ANSWERED, Key, key
from snellen.engine.run_folder import RunFolder
from snellen.errors import BatchExpiredError, ModelError
from snellen.models.api.batches.files import FileBatches
from snellen.sources.journal_lines import Damage


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
