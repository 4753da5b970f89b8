"""What a run has and what it lacks: totals of its journal, and the questions still to ask."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from snellen.benchmarks.base import Benchmark
from snellen.engine import journal
from snellen.engine.folder import RunFolder, RunSpec, Totals
from snellen.types import Sample, Usage

Key: TypeAlias = str | tuple[str, int]
Work: TypeAlias = Iterator[tuple[Sample, int]]
ANSWERED = ("ok", "refused")


class _Reply(Struct, frozen=True, gc=False):
    usage: Usage = Usage()


class _Head(Struct, frozen=True, gc=False):
    """What resuming needs of a record; decoding it skips the reply."""

    sample_id: str
    status: str
    repeat: int = 0
    response: _Reply | None = None


def key(sample_id: str, repeat: int) -> Key:
    """What tells one answer from another; the id alone where nothing is repeated, since a million are held at once."""
    return sample_id if repeat == 0 else (sample_id, repeat)


def read_state(folder: RunFolder) -> tuple[Totals, set[Key]]:
    """Totals of the journal, and the keys of all that needs no further asking.

    A failed sample that was later answered counts as answered alone; its use of tokens counts each time.
    """
    done: set[Key] = set()
    failed: dict[Key, str] = {}
    answered: Counter[str] = Counter()
    tokens_in = tokens_out = 0
    cost: float | None = None
    for head in journal.read(folder.results, _Head):
        which = key(head.sample_id, head.repeat)
        if head.status in ANSWERED:
            done.add(which)
            answered[head.status] += 1
            failed.pop(which, None)
        else:
            failed[which] = head.status
        if head.response is not None:
            usage = head.response.usage
            tokens_in += usage.input_tokens
            tokens_out += usage.output_tokens
            if usage.cost is not None:
                cost = (cost or 0.0) + usage.cost
    lost = Counter(failed.values())
    return (
        Totals(
            ok=answered["ok"],
            refused=answered["refused"],
            error=lost["error"],
            timeout=lost["timeout"],
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost=cost,
        ),
        done,
    )


def pending(benchmark: Benchmark, spec: RunSpec, done: set[Key]) -> Work:
    """(sample, repeat) in the benchmark's order, up to the limit, without those that are done."""
    samples = itertools.islice(benchmark.samples(spec.data), spec.limit)
    if spec.repeats == 1:
        return ((sample, 0) for sample in samples if sample.id not in done)
    return (
        (sample, repeat) for sample in samples for repeat in range(spec.repeats) if key(sample.id, repeat) not in done
    )


def all_recorded(folder: RunFolder, benchmark: Benchmark, spec: RunSpec) -> bool:
    """Whether every question of the run has a record, be it a failure."""
    recorded = {key(head.sample_id, head.repeat) for head in journal.read(folder.results, _Head)}
    return next(pending(benchmark, spec, recorded), None) is None


def expected(size: int | None, spec: RunSpec) -> int | None:
    """How many answers this call is about, None where the benchmark's size is not known beforehand."""
    if size is None:
        return None
    return min(size, spec.limit if spec.limit is not None else size) * spec.repeats
