"""Start of a run, new or resumed: its totals so far, its pending samples, and the checks before its first request.

Checked are disk space, the samples' files, the video reader (PyAV), and the model.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark
from snellen.engine import journal
from snellen.engine.folder_checks import INT64, is_own
from snellen.engine.journal import RecordHead
from snellen.engine.run_folder import EmptyReplies, RunFolder, RunMeta, RunSpec, Totals
from snellen.errors import DataError, PreflightError
from snellen.media.video import check_pyav
from snellen.models.base import Model
from snellen.models.registry import runtime_of
from snellen.sources.blobs import stream
from snellen.sources.journal_lines import Damage, printable
from snellen.types import CUT_OFF, Image, Record, Sample, Usage, Video

Key: TypeAlias = str | tuple[str, int]
Work: TypeAlias = Iterator[tuple[Sample, int]]
ANSWERED = journal.ANSWERED
NAMED = 10
CHECKED_SAMPLES = 20
MOST_PLACES = 16
"""Different places of the text of empty replies that are counted; servers name them."""
LEAST_FREE_BYTES = 64 << 20


class _ReplyUsage(Struct, frozen=True, gc=False):
    usage: Usage = Usage()
    latency_s: float = 0.0
    finish_reason: str = ""
    empty: str = ""
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
    tokens_in = tokens_out = cached = cut_off = empty_cut = cache_read = cache_written = 0
    empty: Counter[str] = Counter()
    cost_lacks: Counter[str] = Counter()
    cost, saved, oversized, uncounted = None, None, None, False
    for head in journal.read(folder.results, UsageHead, damage, record_type=Record):
        sample_key = key(head.sample_id, head.repeat)
        if head.status in ANSWERED:
            answered[head.status] += sample_key not in done
            is_cut = head.response is not None and head.response.finish_reason == CUT_OFF
            cut_off += is_cut and sample_key not in done
            if head.response is not None and head.response.empty and sample_key not in done:
                empty[head.response.empty if len(empty) < MOST_PLACES else "another member"] += 1
                empty_cut += is_cut
            done.add(sample_key)
            failed.pop(sample_key, None)
        else:
            failed[sample_key] = head.status
        if head.response is not None:
            usage = head.response.usage
            tokens_in += usage.input_tokens
            tokens_out += usage.output_tokens
            cache_read += usage.cached_tokens
            cache_written += usage.cache_write_tokens
            if usage.cache_saved is not None:
                saved = (saved or 0.0) + usage.cache_saved
            if usage.cost is not None:
                cost = (cost or 0.0) + usage.cost
            cached += bool(head.response.cached_answer)
            if part := uncounted_part(usage, sent=bool(head.response.latency_s or head.response.batch)):
                cost_lacks[part] += 1
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
            cached_tokens=min(max(cache_read, 0), INT64 - 1),
            cache_write_tokens=min(max(cache_written, 0), INT64 - 1),
            cache_saved=saved,
            cost=cost,
            cached=cached,
            oversized_images=None if oversized is None or uncounted else min(oversized, INT64 - 1),
            cut_off=cut_off,
            empty=EmptyReplies(empty.total(), empty_cut, dict(empty)),
            uncounted={part: n for part, n in cost_lacks.items() if part != "cost" or cost is not None},
        ),
        done,
    )


def uncounted_part(usage: Usage, *, sent: bool) -> str:
    """Return what of an answer's cost is not known, as `Totals.uncounted` names it; "" if all of it is, or it was not sent."""
    return usage.lacks or ("cost" if usage.cost is None and sent else "")


def answer_costs(folder: RunFolder) -> Iterator[float]:
    """Yield the cost of each answer in the journal that was paid for, in dollars, in the order of their records."""
    for head in journal.read(folder.results, UsageHead, Damage(folder.results), record_type=Record):
        reply = head.response
        if reply is not None and not reply.cached_answer and reply.usage.cost is not None:
            yield reply.usage.cost


def verified_meta(folder: RunFolder) -> RunMeta:
    """Read run_meta.json; the totals of a run that it may be wrong about are counted from the journal.

    These are killed runs, those of another user, and those whose journal has changed since. A complete run that has fewer
    records than run_meta.json counted is `partial`. `seconds` are those of `RunFolder.seconds`.

    Raises:
        RunError: there is no run in the folder, or its journal cannot be read.
    """
    meta = folder.meta()
    if is_own(meta) and meta.state != "running" and not _journal_changed(folder, meta):
        return meta
    counted, _ = read_state(folder, Damage(folder.results))
    lost = meta.state == "complete" and counted.recorded < meta.totals.recorded
    return structs.replace(
        meta,
        totals=structs.replace(counted, seconds=folder.seconds(meta)),
        state="partial" if lost else meta.state,
    )


def _journal_changed(folder: RunFolder, meta: RunMeta) -> bool:
    """Return True if the journal is gone, is newer than run_meta.json, or does not end with the record that this names."""
    try:
        written = folder.results.stat().st_mtime_ns
        if meta.records is not None and journal.last_number(folder.results) != meta.records:
            return True
    except OSError:
        return True
    with contextlib.suppress(OSError):
        return written > folder.meta_path.stat().st_mtime_ns
    return False


def with_size(meta: RunMeta, size: int | None) -> RunMeta:
    """Return the meta with the benchmark's sample count; `complete` only with as many records.

    Args:
        meta: of a run whose own words about it are not believed, with verified totals.
        size: samples of the benchmark; None: not known.
    """
    totals, coverage = meta.totals, structs.replace(meta.coverage, of=size)
    known = [count for count in (coverage.limit, size) if count is not None]
    short = bool(known) and not coverage.shards and totals.recorded < min(known) * meta.spec.repeats
    state = "partial" if short and meta.state == "complete" and not meta.judges else meta.state
    return structs.replace(meta, coverage=coverage, state=state)


def samples_of(benchmark: Benchmark, spec: RunSpec) -> Iterator[Sample]:
    """Yield the samples that a run asks: up to the limit, and those of its part."""
    samples: Iterator[Sample] = itertools.islice(benchmark.samples(spec.data), spec.limit)
    if not spec.shard:
        return samples
    from snellen.engine.sharding import parse_shard

    shard = parse_shard(spec.shard)
    return (sample for sample in samples if shard.holds(sample.id))


def pending(benchmark: Benchmark, spec: RunSpec, done: set[Key]) -> Work:
    """Yield (sample, repeat) in the benchmark's order, up to the limit, without those that are done."""
    samples = samples_of(benchmark, spec)
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
    named = ", ".join(printable(name) for name in absent[:NAMED]) + (", …" if len(absent) > NAMED else "")
    have = "1 sample has" if len(absent) == 1 else f"{len(absent):,} samples have"
    lost = f"{have} no record ({named})" if absent else "every sample has a record"
    return f"results.jsonl has {damage.summary()}; {lost}"


def expected(size: int | None, spec: RunSpec) -> int | None:
    """Return the number of answers of this call; None if the benchmark's size is unknown, or a part of it is run."""
    if size is None or spec.shard:
        return None
    return min(size, spec.limit if spec.limit is not None else size) * spec.repeats


async def preflight(model: Model, folder: RunFolder, work: Work, before: Totals) -> Work:
    """Check disk space, data and model before the first request.

    Returns:
        `work` from its beginning.

    Raises:
        PreflightError: too little disk space, none of the samples looked at can be read, or the model is not ready.
    """
    free = shutil.disk_usage(folder.path).free
    if free < LEAST_FREE_BYTES:
        raise PreflightError(
            f"only {free / 2**20:.0f} MB are free under {folder.path}; a run needs at least {LEAST_FREE_BYTES >> 20} MB",
            "Free some space, or choose another folder with --out.",
        )
    work = require_readable(work, before)
    await model.preflight()
    return work


def require_readable(work: Work, before: Totals) -> Work:
    """Return `work` from its beginning, if the files of one of the first 20 samples can be read.

    Those before it are each recorded as failed when their turn comes. Only samples are held, and no file.

    Args:
        work: what is to be asked.
        before: the run so far. Samples that failed before stand first in `work`, and are not counted among the 20.

    Raises:
        PreflightError: none of them can be read; in a run that has answers, none of a full 20: it may be left with a
            few samples that cannot be read, and ends with them recorded.
    """
    limit = CHECKED_SAMPLES + before.error + before.timeout
    checked: list[tuple[Sample, int]] = []
    failed: dict[str, tuple[str, str]] = {}
    for each in work:
        checked.append(each)
        sample = each[0]
        if sample.id in failed:  # a repeat
            continue
        fault = unreadable(sample)
        if fault is None:
            return itertools.chain(iter(checked), work)
        failed[sample.id] = (fault.message, fault.hint)
        if len(failed) == limit:
            break
    if len(failed) == limit or before.done == 0:
        sample_id, (message, hint) = next(iter(failed.items()))
        looked = f"{len(failed):,} of the {len(failed):,} samples that were checked cannot be read."
        raise PreflightError(f"sample {sample_id}: {message}\n{looked}", hint)
    return itertools.chain(iter(checked), work)


def unreadable(sample: Sample) -> DataError | None:
    """Return the reason why a sample's files cannot be read, else None. Of a video the beginning is read."""
    for part in sample.prompt.conversation_parts:
        try:
            if isinstance(part, Image):
                part.blob.read()
            elif isinstance(part, Video):
                for frame in part.frames:
                    frame.blob.read()
                if part.blob is not None:
                    with stream(part.blob) as start:
                        start.read(1)
        except DataError as error:
            return error
    return None


def require_video_reader(benchmark: Benchmark, spec: RunSpec, done: set[Key] | None = None) -> None:
    """Refuse a run whose samples have videos to decode, where PyAV is not installed.

    The samples are gone through only where it is not installed; no file of theirs is opened.

    Args:
        benchmark: what is asked.
        spec: the run; an endpoint that is sent whole files (`--video native`) needs no reader.
        done: what has an answer already.

    Raises:
        MissingExtraError: a sample that is to be asked has a video.
    """
    runtime = runtime_of(spec.model)
    as_file = spec.options.media.video == "native" and not runtime.here
    if not runtime.decodes or as_file or find_spec("av"):
        return
    for sample, _ in pending(benchmark, spec, done or set()):
        for part in sample.prompt.conversation_parts:
            if isinstance(part, Video) and part.blob is not None:
                check_pyav(part.blob.key)
