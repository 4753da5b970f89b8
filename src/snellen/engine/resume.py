"""Resume state: totals and pending samples of a run."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark
from snellen.engine import journal
from snellen.engine.folder_checks import INT64, is_own
from snellen.engine.journal import RecordHead
from snellen.engine.journal_damage import Damage, plain
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec, Totals
from snellen.types import Record, Sample, Usage

Key: TypeAlias = str | tuple[str, int]
Work: TypeAlias = Iterator[tuple[Sample, int]]
ANSWERED = journal.ANSWERED
NAMED = 10


class _ReplyUsage(Struct, frozen=True, gc=False):
    usage: Usage = Usage()
    cached_answer: str = ""
    oversized_images: int | None = None
    batch: str = ""


class UsageHead(RecordHead, frozen=True, gc=False):
    """Head of a journal line with the tokens that it used."""

    response: _ReplyUsage | None = None


def key(sample_id: str, repeat: int) -> Key:
    """Return the key of an answer; the id alone without repeats, since a million are held at once."""
    return sample_id if repeat == 0 else (sample_id, repeat)


def read_state(folder: RunFolder, damage: Damage) -> tuple[Totals, set[Key]]:
    """Return the totals of the journal, and the keys of all answered samples.

    A failed sample that was later answered counts as answered alone; its use of tokens counts each time. What is no
    intact record is left to `damage`.
    """
    done: set[Key] = set()
    failed: dict[Key, str] = {}
    answered: Counter[str] = Counter()
    tokens_in = tokens_out = cached = 0
    cost: float | None = None
    oversized: int | None = None
    uncounted = False
    for head in journal.read(folder.results, UsageHead, damage, record_type=Record):
        sample_key = key(head.sample_id, head.repeat)
        if head.status in ANSWERED:
            answered[head.status] += sample_key not in done
            done.add(sample_key)
            failed.pop(sample_key, None)
        else:
            failed[sample_key] = head.status
        if head.response is not None:
            usage = head.response.usage
            tokens_in += usage.input_tokens
            tokens_out += usage.output_tokens
            if usage.cost is not None:
                cost = (cost or 0.0) + usage.cost
            cached += bool(head.response.cached_answer)
            # Rows of batches that an older version made were not counted.
            uncounted |= bool(head.response.batch) and head.response.oversized_images is None
            if head.response.oversized_images is not None:
                oversized = (oversized or 0) + max(head.response.oversized_images, 0)
    lost = Counter(failed.values())
    return (
        Totals(
            ok=answered["ok"],
            refused=answered["refused"],
            error=lost["error"],
            timeout=lost["timeout"],
            input_tokens=min(
                max(tokens_in, 0), INT64 - 1
            ),  # a server's own words: what no file can hold is not written
            output_tokens=min(max(tokens_out, 0), INT64 - 1),
            cost=cost,
            cached=cached,
            oversized_images=None if oversized is None or uncounted else min(oversized, INT64 - 1),
        ),
        done,
    )


def verified_meta(folder: RunFolder) -> RunMeta:
    """Read run_meta.json; the totals of another user's run are counted from its journal.

    Of other runs, and of killed ones, the totals are counted from the journal: run_meta.json may say anything of it. `seconds` stays as recorded.

    Raises:
        RunError: there is no run in the folder.
    """
    meta = folder.meta()
    if is_own(meta) and meta.state != "running":
        return meta
    counted = Totals()
    if folder.results.exists():
        counted, _ = read_state(folder, Damage(folder.results))
    return structs.replace(meta, totals=structs.replace(counted, seconds=meta.totals.seconds))


def with_size(meta: RunMeta, size: int | None) -> RunMeta:
    """Return the meta with the benchmark's sample count; `complete` only with as many records.

    Args:
        meta: of a run whose own words about it are not believed, with verified totals.
        size: samples of the benchmark; None: not known.
    """
    totals, coverage = meta.totals, structs.replace(meta.coverage, of=size)
    recorded = totals.done + totals.error + totals.timeout
    known = [count for count in (coverage.limit, size) if count is not None]
    short = bool(known) and not coverage.shards and recorded < min(known) * meta.spec.repeats
    state = "partial" if short and meta.state == "complete" and not meta.judges else meta.state
    return structs.replace(meta, coverage=coverage, state=state)


def pending(benchmark: Benchmark, spec: RunSpec, done: set[Key]) -> Work:
    """Yield (sample, repeat) in the benchmark's order, up to the limit, without those that are done."""
    samples: Iterator[Sample] = itertools.islice(benchmark.samples(spec.data), spec.limit)
    if spec.shard:
        from snellen.engine.sharding import parse_shard

        shard, every = parse_shard(spec.shard), samples
        samples = (sample for sample in every if shard.holds(sample.id))
    if spec.repeats == 1:
        return ((sample, 0) for sample in samples if sample.id not in done)
    return (
        (sample, repeat) for sample in samples for repeat in range(spec.repeats) if key(sample.id, repeat) not in done
    )


def all_recorded(folder: RunFolder, benchmark: Benchmark, spec: RunSpec) -> bool:
    """Return True if every sample of the run has a record, be it a failure."""
    heads = journal.read(folder.results, RecordHead, Damage(folder.results))
    recorded = {key(head.sample_id, head.repeat) for head in heads}
    return next(pending(benchmark, spec, recorded), None) is None


def without_record(folder: RunFolder, benchmark: Benchmark, spec: RunSpec) -> str:
    """Name the samples without a record because the journal is damaged, in one line; empty if it is intact.

    Raises:
        SnellenError: the benchmark's samples cannot be read.
    """
    damage = Damage(folder.results, journal.expected_last(folder.results))
    heads = journal.read(folder.results, RecordHead, damage, record_type=Record)
    recorded = {key(head.sample_id, head.repeat) for head in heads}
    if not damage:
        return ""
    absent = [sample.id for sample, _ in pending(benchmark, spec, recorded)]
    named = ", ".join(plain(name) for name in absent[:NAMED]) + (", …" if len(absent) > NAMED else "")
    have = "1 sample has" if len(absent) == 1 else f"{len(absent):,} samples have"
    lost = f"{have} no record ({named})" if absent else "every sample has a record"
    return f"results.jsonl has {damage.summary()}; {lost}"


def expected(size: int | None, spec: RunSpec) -> int | None:
    """Return the number of answers of this call; None if the benchmark's size is unknown, or a part of it is run."""
    if size is None or spec.shard:
        return None
    return min(size, spec.limit if spec.limit is not None else size) * spec.repeats
