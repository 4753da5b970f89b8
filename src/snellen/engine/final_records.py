"""The records of a journal that count: one a sample and repeat, without those that a later one replaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from snellen.engine import journal
from snellen.engine.journal import RecordHead
from snellen.engine.journal_damage import Damage
from snellen.engine.resume import ANSWERED, Key, key
from snellen.types import Record


def final_records(path: Path) -> Iterator[Record]:
    """The journal without records that another one replaces: each sample (and repeat) once, in file order.

    An answer replaces failures, a later failure an earlier one; of two answers the first counts. What is no intact record is passed over, with a warning
    that names line and sample.
    """
    damage = Damage(path, journal.expected_last(path))
    counting: dict[Key, int] = {}  # of samples that have failed: where the record begins that counts
    answered: set[Key] = set()
    for at, head in journal.placed(path, RecordHead, damage, whole=Record):
        which = key(head.sample_id, head.repeat)
        if head.status not in ANSWERED and which not in answered:
            counting[which] = at
        elif which in counting and which not in answered:
            counting[which] = at
            answered.add(which)
    damage.tell()
    # Numbers tell a line that was written once from one that something else wrote; without them only the sample does.
    every = bool(damage) or bool(damage.unnumbered) or not damage.highest
    given: set[Key] = set()
    for at, record in journal.placed(path, Record, Damage(path)):
        which = key(record.sample_id, record.repeat) if counting or every else ""
        if which in given:
            continue
        if which not in counting:
            yield record
        elif counting[which] == at or record.status in ANSWERED:
            given.add(which)
            yield record
        if every and which not in counting:
            given.add(which)
