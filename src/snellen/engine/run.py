"""Execute a run: schedule pending samples, record results, always leave a valid journal."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec import structs

from snellen import exit_signals
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import fingerprint, journal
from snellen.engine.concurrency import Gate, RequestLimit, fit_open_files
from snellen.engine.data_paths import absolute_places
from snellen.engine.growth import Feed, GrowingFeed, Growth, sample_of
from snellen.engine.image_refusals import has_images, images_answered, plain_image_refusal
from snellen.engine.journal import Journal
from snellen.engine.pacing import Pacer
from snellen.engine.progress import Display, LiveScores, Progress, Silent
from snellen.engine.rate_limits import check_pace
from snellen.engine.resume import (
    FixedFeed,
    Key,
    Work,
    all_recorded,
    answer_costs,
    expected,
    key,
    pending,
    preflight,
    read_state,
    require_video_reader,
    without_record,
)
from snellen.engine.retry import Backoff, RetryingClient, SampleOutcome
from snellen.engine.run_folder import Coverage, RunFolder, RunMeta, RunSpec, Totals
from snellen.engine.stopping import FailureLimit, SpendingLimit, Stop, require_price
from snellen.engine.study import require_supported
from snellen.engine.traces import RunWriters, Traces
from snellen.errors import (
    InterruptedRunError,
    RunChangedError,
    RunError,
    SnellenError,
    StorageError,
    UsageError,
)
from snellen.models.base import Model
from snellen.models.registry import API_KINDS
from snellen.scoring.scores import LEFT_OUT
from snellen.sources.journal_lines import Damage
from snellen.types import Record, Sample, Score

REMOTE = (*API_KINDS, "tools")
"""Kinds of models behind a server that others may use too: a run begins gently, and its pace follows refusals."""


async def run(
    spec: RunSpec,
    benchmark: Benchmark,
    model: Model,
    folder: RunFolder,
    *,
    display: Display | None = None,
    backoff: Backoff | None = None,
    scores: LiveScores | None = None,
    limits: Sequence[RequestLimit] = (),
) -> RunMeta:
    """Request every answer that the folder lacks, and write each as it comes.

    Returns the meta of the run as it then stands on disk. The folder is locked meanwhile. `scores` scores each answer
    for the progress line, and collects the scores for a summary. `limits` are shared with other runs in this loop.

    Raises:
        UsageError: a bound on dollars without prices, a pace that cannot be kept, a prompt that the model cannot use; nothing was asked, and the folder is as it was.
        FingerprintError: the folder holds a run with other settings. RunError: answers of which nobody says whose.
        PreflightError, MissingExtraError: the model, the data or a reader of videos is not there; nothing was asked.
        StorageError, BudgetError, TooManyFailuresError, InterruptedRunError: ended early; the run can go on.
        RunChangedError: something else deleted, replaced or changed the folder's files meanwhile.
    """
    display = display or Silent()
    require_price(spec, model)
    if spec.batch or folder.batches.exists():
        from snellen.engine.batches.requirements import require_batches

        require_batches(spec, benchmark, model, folder)
    if spec.options.cache is not None:
        from snellen.engine.answer_cache import require_cacheable

        require_cacheable(model, by_batches=spec.batch)
    check_pace(spec.options.sample_patience_s(), spec.options.rpm, spec.options.tpm)
    if spec.system or spec.few_shot or spec.options.generation.logprobs is not None:
        require_supported(spec, model)
    if spec.shard and benchmark.grow is not None:
        raise UsageError(
            f"--shard: {benchmark.name} chooses each question by the answers before it, so that it cannot be divided.",
            "Omit --shard, and compare runs with other seeds: --seed 1.",
        )
    identity = fingerprint.identity(spec, benchmark, model)  # what cannot be read or asked leaves no folder
    with folder.locked():
        widest = spec.limit
        if folder.exists():
            fingerprint.require_same(folder, identity)
            widest = _wider(folder.meta().coverage.limit, spec.limit)
            _require_same_part(folder, spec)
        elif folder.results.exists() and folder.results.stat().st_size:
            raise RunError(
                f"{folder.results} exists without a run_meta.json, so its answers cannot be attributed",
                "Restore run_meta.json, or choose another folder with --out. Nothing was changed.",
            )
        earlier_s = folder.seconds(folder.meta()) if folder.exists() else 0.0  # before a repair writes to the journal
        repaired = journal.repair(folder.results)
        damage = Damage(folder.results, journal.expected_last(folder.results))
        before, done = read_state(folder, damage)
        lost = ""
        if damage:
            damage.warn(advised=False)  # this run asks the lost samples again
            lost = without_record(folder, benchmark, structs.replace(spec, limit=widest))
            journal.mend(folder.results, Record)
            before, done = read_state(folder, Damage(folder.results))  # less what the mending has put aside
        size = benchmark.size(spec.data)
        known = {"executor": folder.meta().environment.get("executor")} if folder.exists() else {}
        meta = RunMeta(
            fingerprint=fingerprint.digest(identity),
            identity=identity,
            coverage=Coverage(widest, size, (spec.shard,) if spec.shard else ()),
            spec=structs.replace(spec, limit=widest),
            environment={
                **fingerprint.environment(spec.options.media),
                **{name: facts for name, facts in known.items() if facts is not None},
                **_batch_facts(folder),
            },
            totals=structs.replace(before, seconds=earlier_s),
            restricted=benchmark.restricted,
            places=absolute_places(spec) if spec.data != Data() else {},
            records=journal.last_number(folder.results),
            reading=reading.text if (reading := benchmark.reading(spec.data)) is not None else "",
        )
        growth = None if benchmark.grow is None else Growth.read(benchmark, spec, folder.results)
        work = pending(benchmark, spec, done) if growth is None else growth.work(spec.limit)
        first = next(work, None)
        if first is None:
            folder.results.touch()  # a benchmark without questions leaves a run that can be read all the same
            folder.write_meta(meta := structs.replace(meta, state=_ended(benchmark, meta.spec, spec, folder)))
            return meta
        require_video_reader(benchmark, spec, done)
        model.attach(folder.path)
        model.hide([folder.path, *(path for path in (spec.data.path, spec.data.images) if path is not None)])
        work = await preflight(model, folder, itertools.chain(iter([first]), work), before)
        folder.write_meta(meta)
        concurrency = fit_open_files(spec.options.concurrency, spec.model.partition(":")[0])
        spec = structs.replace(spec, options=structs.replace(spec.options, concurrency=concurrency))
        progress = Progress(folder.path.name, expected(size, spec), before.done, spec.options.concurrency)
        progress.leaves_out_failed = benchmark.unanswered == LEFT_OUT
        if repaired:
            progress.note = f"cut {repaired} bytes of a torn last line"
        if lost:
            progress.note = lost
        traces = Traces(folder.traces, concealed=bool(benchmark.concealed))
        writer = Journal(folder.results, first=traces.sync)
        state, change = "partial", None
        feed = FixedFeed(work) if growth is None else GrowingFeed(growth, work, spec.limit)
        try:
            if spec.batch:
                from snellen.engine.batches.execute import BatchJob, execute_batches

                job = BatchJob(spec, meta.spec, benchmark, model, folder, done, meta.totals, _seed(spec, model))
                await execute_batches(job, progress, display, backoff, RunWriters(writer, traces))
            else:
                await _execute(
                    spec,
                    benchmark,
                    model,
                    folder,
                    feed,
                    meta.totals,
                    progress,
                    display,
                    backoff,
                    RunWriters(writer, traces),
                    scores,
                    limits,
                )
            state = _ended(benchmark, meta.spec, spec, folder)
        except RunChangedError as error:
            change = error
        finally:
            display.close(progress)
            damage = Damage(folder.results, writer.number)
            after, _ = read_state(folder, damage)
            change = change or _change(folder, damage)
            seconds = meta.totals.seconds + progress.elapsed
            meta = structs.replace(
                meta,
                totals=structs.replace(after, seconds=round(seconds, 3)),
                state="partial" if change is not None else state,
                environment={**await _executed(model, meta.environment), **_batch_facts(folder)},
                records=writer.number,
            )
            if change is None:
                folder.write_meta(meta)
        if change is not None:
            with contextlib.suppress(StorageError):  # the folder itself may be gone
                folder.write_meta(meta)
            raise change
        return meta


async def _execute(
    spec: RunSpec,
    benchmark: Benchmark,
    model: Model,
    folder: RunFolder,
    feed: Feed,
    before: Totals,
    progress: Progress,
    display: Display,
    backoff: Backoff | None,
    files: RunWriters,
    scores: LiveScores | None,
    limits: Sequence[RequestLimit],
) -> None:
    writer, traces = files
    # A local model names how many prompts keep it busy while the next batch is made ready.
    workers = max(spec.options.concurrency, model.in_flight)
    options = spec.options
    remote = spec.model.partition(":")[0] in REMOTE
    offset = time.time() - time.monotonic()
    backoff = backoff or Backoff(attempts=spec.max_attempts, patience_s=options.sample_patience_s())
    pacer = Pacer(
        workers,
        remote=remote,
        rpm=options.rpm,
        tpm=options.tpm,
        longest_pause_s=backoff.patience_s,
        wall_offset=offset,
    )
    gate = Gate(pacer, limits=limits)
    stop = Stop(progress)

    def stop_waiting() -> None:
        gate.stop()
        feed.close()
        budget.close()
        if stop.interrupted:  # the user waits: what is not being answered is asked again by the next run
            model.drop_queued()

    cache = None
    if options.cache is not None:
        from snellen.engine.answer_cache import open_cache

        cache = open_cache(options.cache, model)
    recent = answer_costs(folder) if spec.max_cost is not None and before.cost else ()
    budget = SpendingLimit(spec, before, model, recent)
    if cache is None:  # kept answers cost nothing
        budget.check()
    stop.on_request = stop_waiting
    failures = FailureLimit(max(100, 4 * workers), backoff.patience_s)
    lost: dict[Key, Record] = {}
    client = RetryingClient(
        model,
        gate,
        backoff,
        traces,
        progress,
        stop,
        _seed(spec, model),
        timeout_s=options.timeout_s,
        count_tokens=options.tpm is not None,
        concealed=benchmark.concealed,
        retry_empty=spec.retry_empty,
    )

    async def live(sample: Sample, record: Record) -> Score | None:
        if scores is None:
            return None
        try:
            return await scores.score(sample, record)
        except Exception as error:  # noqa: BLE001 - the answer is safe; scoring is done again, and fails aloud, at the end
            cause = error.message if isinstance(error, SnellenError) else f"{type(error).__name__}: {error}"
            progress.note = f"{sample.id} cannot be scored: {' '.join(cause.split())}"
            return None

    def cluster_of(sample: Sample) -> str:
        return sample.group or (sample.id if spec.repeats > 1 else "")

    async def worker() -> None:
        for number in itertools.count(1):
            question = await feed.take()
            if question is None:
                return
            sample, repeat = question
            cached = None if cache is None else await cache.look_up(sample, repeat)
            outcome = None if cached is None or cached.record is None else SampleOutcome(cached.record)
            if outcome is None:
                reserved = await budget.reserve(sample.prompt)
                if reserved is None:  # the budget is used up, or the run ends
                    stop.request()
                    return
                outcome = await client.ask(sample, repeat)
                budget.settle(reserved, None if outcome is None else outcome.record)
            if outcome is None:  # the run ends, and the sample was never sent
                return
            record = outcome.record
            writer.append(record)
            if cache is not None and cached is not None and cached.record is None:
                cache.store(cached.key, record)
            feed.settle(sample, record)
            progress.add(record)
            images = not failures.sees and has_images(sample)
            failures.add(record, outcome.error, silent=outcome.silent, images=images)
            if failures.doubts_vision:
                await failures.test_vision(
                    lambda: images_answered(benchmark, spec, folder), lambda: plain_image_refusal(model)
                )
            if outcome.error is not None and outcome.error.retry:
                lost[key(sample.id, repeat)] = structs.replace(record, response=None)
            if (score := await live(sample, record)) is not None:
                progress.add_score(record, score, cluster_of(sample))
            if budget.spent or failures.broken:
                stop.request()
            if stop.requested():
                return
            if number % 64 == 0:  # a model that answers without waiting must not starve the display and the signals
                await asyncio.sleep(0)

    async def last_pass(again: Work) -> None:
        """Repeat requests that failed for a reason that may pass; another failure changes nothing."""
        for sample, repeat in again:
            before = lost[key(sample.id, repeat)]
            reserved = await budget.reserve(sample.prompt)
            if reserved is None:
                stop.request()
                return
            outcome = await client.ask(sample, repeat, attempts=1, before=before.attempts)
            budget.settle(reserved, None if outcome is None else outcome.record)
            if outcome is None:
                return
            if outcome.error is None or not outcome.error.retry:
                writer.append(outcome.record)
                feed.settle(sample, outcome.record)
                failed = before, await live(sample, before)
                progress.recover(failed, outcome.record, await live(sample, outcome.record), cluster_of(sample))
            if outcome.silent or budget.spent:
                stop.request()
            if stop.requested():
                return

    async def show() -> None:
        while True:
            progress.active, progress.limit = gate.active, int(pacer.limit)
            progress.groups = feed.groups()
            waiting = gate.waiting()
            progress.waiting_s = None if waiting is None else waiting.seconds
            if waiting is not None:
                progress.waiting_for = "the server to come back" if waiting.server_down else "the server's rate limit"
            progress.paced_per_s = 1.0 / pacer.interval_s if pacer.interval_s else None
            display.update(progress)
            await asyncio.sleep(0.25)

    screen = asyncio.create_task(show())
    try:
        with stop.on_signals(), scores or contextlib.nullcontext():
            await _all([worker() for _ in range(workers)], stop)
            if lost and backoff.attempts > 1 and not stop.requested():  # `--max-attempts 1` means one
                again: Work
                if benchmark.grow is not None:
                    again = ((sample_of(benchmark, spec.data, each.sample_id), 0) for each in [*lost.values()])
                else:
                    again = (each for each in pending(benchmark, spec, set()) if key(each[0].id, each[1]) in lost)
                await _all([last_pass(again) for _ in range(min(workers, len(lost)))], stop)
                if not stop.requested() and feed.holds_more():  # an answer of the last pass opened more questions
                    await _all([worker() for _ in range(workers)], stop)
    finally:
        screen.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await screen
        progress.active, progress.groups = 0, feed.groups()
        progress.waiting_s = progress.paced_per_s = None
        try:
            traces.close()
        finally:
            writer.close()
            if cache is not None:
                cache.close()
    if budget.unpriced or budget.refused or feed.holds_more():  # used up by the last answer, it has stopped nothing
        budget.check()
    failures.check(folder)
    if stop.interrupted:
        raise InterruptedRunError(
            f"stopped by {exit_signals.by_what()} after {progress.done:,} of {progress.total or '?'} samples; "
            f"all of them are recorded in {folder.path}",
            "Run the same command again to resume.",
        )


async def _all(coroutines: list[Coroutine[Any, Any, None]], stop: Stop) -> None:
    """Run all coroutines to the end; the first failure cancels the others and is raised as it is."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    stop.tasks = tasks
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in ended:
            if not task.cancelled() and (failure := task.exception()) is not None:
                raise failure
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _change(folder: RunFolder, damage: Damage) -> RunChangedError | None:
    """Describe what something else did to the run's files; None if they are as they were written."""
    if damage:
        return journal.changed(folder.results, "was changed", damage.lines())
    return None if folder.exists() else journal.changed(folder.meta_path, "was deleted")


def require_written(folder: RunFolder, meta: RunMeta) -> None:
    """Raise RunChangedError if a run's files are gone, or its journal ends with another record than its meta says."""
    if not folder.exists() or not folder.results.exists():
        raise journal.changed(folder.path if not folder.exists() else folder.results, "was deleted")
    if meta.records is not None and journal.last_number(folder.results) != meta.records:
        raise journal.changed(folder.results, "was changed")


def _seed(spec: RunSpec, model: Model) -> int | None:
    """Return the seed that repeats count up from: the requested one, else the model's own.

    An endpoint is sent a seed only where one was set: not all of them take it, and they draw anew by themselves.
    """
    return model.seed if spec.options.generation.seed is None else spec.options.generation.seed


def _ended(benchmark: Benchmark, full_spec: RunSpec, requested: RunSpec, folder: RunFolder) -> str:
    """Return the run's state after a completed call: one with a smaller --limit may end before the run does."""
    if benchmark.grow is not None:
        growth = Growth.read(benchmark, full_spec, folder.results)
        return "partial" if growth.grow() else "complete"
    asked = full_spec.limit == requested.limit and not requested.options.offline
    return "complete" if asked or all_recorded(folder, benchmark, full_spec) else "partial"


def _batch_facts(folder: RunFolder) -> Mapping[str, Any]:
    """Return what run_meta.json says of a run's batches; empty for a run without any. Raises RunError."""
    if not folder.batches.exists():
        return {}
    from snellen.engine.batches.log import batch_facts

    return batch_facts(folder.path)


async def _executed(model: Model, environment: dict[str, Any]) -> dict[str, Any]:
    """Return the environment, with the states of a model's workers."""
    executed = await model.executed()
    return environment if executed is None else {**environment, "executor": executed}


def _require_same_part(folder: RunFolder, spec: RunSpec) -> None:
    """Raise RunError for a folder of another part of the samples; a merged one takes what its parts lack."""
    recorded = folder.meta().spec.shard
    if recorded != spec.shard:
        raise RunError(
            f"{folder.path} holds {f'part {recorded}' if recorded else 'a run that is not divided'}, and this call asks for "
            f"{f'part {spec.shard}' if spec.shard else 'all samples'}.",
            "Choose another folder with --out. Parts are joined by: snellen merge OUT PART...",
        )


def _wider(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None else max(old, new)
