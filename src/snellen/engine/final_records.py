"""Final records of a journal: one for each sample and repeat, without those that a later one replaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from snellen.engine import journal
from snellen.engine.journal import RecordHead
from snellen.engine.resume import ANSWERED, Key, key
from snellen.sources.journal_lines import Damage
from snellen.types import Record


def final_records(path: Path) -> Iterator[Record]:
    """Yield the records that no other one replaces: each sample (and repeat) once, in file order.

    An answer replaces failures, a later failure an earlier one; of two answers the first counts. What is no intact record is passed over, with a warning
    that names line and sample. Records that a run in progress appends after the first one was yielded are left out.
    """
    damage = Damage(path, journal.expected_last(path))
    counting: dict[Key, int] = {}  # of samples that have failed: where the record begins that counts
    answered: set[Key] = set()
    last = -1  # where the last of them begins
    for at, head in journal.placed(path, RecordHead, damage, record_type=Record):
        last = at
        record_key = key(head.sample_id, head.repeat)
        if head.status not in ANSWERED and record_key not in answered:
            counting[record_key] = at
        elif record_key in counting and record_key not in answered:
            counting[record_key] = at
            answered.add(record_key)
    damage.warn()
    # Numbers tell a line that was written once from one that something else wrote; without them only the sample does.
    every = bool(damage) or bool(damage.unnumbered) or not damage.highest
    yielded: set[Key] = set()
    for at, record in journal.placed(path, Record, Damage(path)):
        if at > last:  # what a run in progress has appended since: its failures were not looked at
            break
        record_key = key(record.sample_id, record.repeat) if counting or every else ""
        if record_key in yielded:
            continue
        if record_key not in counting:
            yield record
        elif counting[record_key] == at or record.status in ANSWERED:
            yielded.add(record_key)
            yield record
        if every and record_key not in counting:
            yielded.add(record_key)
