"""Execute a run: feed → ask → sink. Questions come from a feed, pass the layers, and their records go into the sink."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from snellen import exit_signals
from snellen.benchmarks.base import Benchmark
from snellen.engine import fingerprint
from snellen.engine.concurrency import Gate, RequestLimit
from snellen.engine.image_refusals import images_answered, plain_image_refusal
from snellen.engine.journal import Journal
from snellen.engine.pacing import Pacer
from snellen.engine.progress import Display, LiveScores, Progress, Silent, shown
from snellen.engine.questions import Ask, Feed, Observer, Outcome, Question
from snellen.engine.resume import Key, Work, answer_costs, key, pending, preflight, require_video_reader
from snellen.engine.retry import Backoff, PacedModel, RetryingModel, asking_again_if_empty
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec
from snellen.engine.session import RecordSink, Session, open_session, require_possible
from snellen.engine.stopping import FailureLimit, SpendingLimit, Stop, budgeted
from snellen.engine.traces import RunWriters, Traces
from snellen.errors import InterruptedRunError, RunChangedError, StorageError
from snellen.models.base import Model
from snellen.models.registry import runtime_of
from snellen.types import Record

if TYPE_CHECKING:
    from snellen.engine.answer_cache import AnswerCache


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
    observer: Observer | None = None,
) -> RunMeta:
    """Request every answer that the folder lacks, and write each as it comes.

    Returns the meta of the run as it then stands on disk. The folder is locked meanwhile. `scores` scores each answer
    for the progress line, and collects the scores for a summary. `limits` are shared with other runs in this loop.
    `observer` is told of each request and record; batches have no requests of their own.

    Raises:
        UsageError: a bound on dollars without prices, a pace that cannot be kept, a prompt that the model cannot use; nothing was asked, and the folder is as it was.
        FingerprintError: the folder holds a run with other settings. RunError: answers of which nobody says whose.
        PreflightError, MissingExtraError: the model, the data or a reader of videos is not there; nothing was asked.
        StorageError, BudgetError, TooManyFailuresError, InterruptedRunError: ended early; the run can go on.
        RunChangedError: something else deleted, replaced or changed the folder's files meanwhile.
    """
    display = display or Silent()
    require_possible(spec, benchmark, model, folder)
    identity = fingerprint.identity(spec, benchmark, model)  # what cannot be read or asked leaves no folder
    with folder.locked():
        session = open_session(spec, benchmark, model, folder, backoff, identity)
        session.observer = observer
        work = session.work()
        if (first := next(work, None)) is None:
            folder.results.touch()  # a benchmark without questions leaves a run that can be read all the same
            folder.write_meta(meta := structs.replace(session.meta, state=session.ended()))
            return meta
        require_video_reader(benchmark, spec, session.done)
        session.prepare_model()
        work = await preflight(model, folder, itertools.chain(iter([first]), work), session.meta.totals)
        folder.write_meta(session.meta)
        progress = session.begin()
        if observer is not None:
            observer.begin(model)
        traces = Traces(folder.traces, concealed=bool(benchmark.concealed))
        files = RunWriters(Journal(folder.results, first=traces.sync), traces)
        state, change = "partial", None
        try:
            if spec.batch:
                from snellen.engine.batches.execute import execute_batches

                await execute_batches(session, progress, display, files)
            else:
                await execute(session, session.feed(work), progress, display, files, scores, limits)
            state = session.ended()
        except RunChangedError as error:
            change = error
        finally:
            display.close(progress)
            try:
                files.close()  # once more where nothing was asked; a second time it does nothing
            finally:
                change = await session.close(state, files.journal.number, progress.elapsed, change)
        if change is not None:
            with contextlib.suppress(StorageError):  # the folder itself may be gone
                folder.write_meta(session.meta)
            raise change
        return session.meta


async def execute(
    session: Session,
    feed: Feed,
    progress: Progress,
    display: Display,
    files: RunWriters,
    scores: LiveScores | None = None,
    limits: Sequence[RequestLimit] = (),
) -> None:
    """Ask the questions of a feed, and at the end once more those that failed for a reason that may pass. Raise as `run`."""
    spec, model, folder = session.spec, session.model, session.folder
    # A local model names how many prompts keep it busy while the next batch is made ready.
    workers = max(spec.options.concurrency, model.in_flight)
    gate = Gate(_pacer(session, workers), limits=limits)
    cache = None
    if spec.options.cache is not None:
        from snellen.engine.answer_cache import open_cache

        cache = open_cache(spec.options.cache, model)
    before = session.meta.totals
    budget = SpendingLimit(
        spec, before, model, answer_costs(folder) if spec.max_cost is not None and before.cost else ()
    )
    if cache is None:  # kept answers cost nothing
        budget.check()
    stop = Stop(progress)
    stop.on_request = partial(_stop_waiting, gate, feed, budget, stop, model)
    failures = FailureLimit(
        max(100, 4 * workers),
        session.backoff.patience_s,
        partial(images_answered, session.benchmark, spec, folder),
        partial(plain_image_refusal, model),
    )
    ask = layers(session, gate, budget, cache, files.traces, progress, stop)
    sink = RecordSink(
        files.journal, feed, progress, stop, budget, failures, scores=scores, cache=cache, repeated=spec.repeats > 1
    )
    sink.observer = session.observer
    try:
        async with shown(progress, display, partial(_refresh, progress, gate, feed)):
            with stop.on_signals(), scores or contextlib.nullcontext():
                await stop.run_all(ask_all(feed, ask, sink.put, stop) for _ in range(workers))
                if sink.lost and session.backoff.attempts > 1 and not stop.requested():  # `--max-attempts 1` means one
                    again = Feed(_failed_work(session, sink.lost), sink.lost)
                    some = min(workers, len(sink.lost))
                    await stop.run_all(ask_all(again, ask, sink.replace, stop) for _ in range(some))
                    if not stop.requested() and feed.holds_more():  # an answer of the last pass opened more questions
                        await stop.run_all(ask_all(feed, ask, sink.put, stop) for _ in range(workers))
    finally:
        progress.active, progress.groups = 0, feed.groups()
        progress.waiting_s = progress.paced_per_s = None
        try:
            files.close()
        finally:
            if cache is not None:
                cache.close()
    if budget.unpriced or budget.refused or feed.holds_more():  # used up by the last answer, it has stopped nothing
        budget.check()
    failures.check(folder)
    if stop.interrupted:
        raise _interrupted(progress, folder)


async def ask_all(feed: Feed, ask: Ask, put: Callable[[Question, Outcome], Awaitable[None]], stop: Stop) -> None:
    """Ask one question after the other until there is none, or a stop is requested. Many of these share a feed."""
    for number in itertools.count(1):
        question = await feed.take()
        if question is None:
            return
        outcome = await ask(question)
        if outcome is None:  # the run ends, and the sample was never sent
            return
        await put(question, outcome)
        if stop.requested():
            return
        if number % 64 == 0:  # a model that answers without waiting must not starve the display and the signals
            await asyncio.sleep(0)


def layers(
    session: Session,
    gate: Gate,
    budget: SpendingLimit,
    cache: AnswerCache | None,
    traces: Traces,
    progress: Progress,
    stop: Stop,
) -> Ask:
    """Return what a question passes: `cached(budgeted(retrying(paced model)))`, each layer only where it has something to do.

    Each attempt takes its turn at the gate, so that the pace is the innermost.
    """
    options, backoff, seed = session.spec.options, session.backoff, session.seed
    paced = PacedModel(
        session.model,
        gate,
        session.seeds,
        patience_s=backoff.patience_s,
        timeout_s=options.timeout_s,
        count_tokens=options.tpm is not None,
        observer=session.observer,
    )
    ask: Ask = RetryingModel(paced, backoff, traces, progress, stop, seed, tuple(session.benchmark.concealed)).ask
    if session.spec.retry_empty:
        ask = asking_again_if_empty(ask, session.spec.retry_empty, progress, stop, session.model.may_differ)
    if budget.limited:
        ask = budgeted(ask, budget, stop)
    if cache is not None:
        from snellen.engine.answer_cache import cached

        ask = cached(ask, cache)
    return ask


def _pacer(session: Session, workers: int) -> Pacer:
    options = session.spec.options
    return Pacer(
        workers,
        remote=runtime_of(session.spec.model).remote,
        rpm=options.rpm,
        tpm=options.tpm,
        longest_pause_s=session.backoff.patience_s,
        wall_offset=time.time() - time.monotonic(),
    )


def _stop_waiting(gate: Gate, feed: Feed, budget: SpendingLimit, stop: Stop, model: Model) -> None:
    """Let all that wait end, as the run does."""
    gate.stop()
    feed.close()
    budget.close()
    if stop.interrupted:  # the user waits: what is not being answered is asked again by the next run
        model.drop_queued()


def _refresh(progress: Progress, gate: Gate, feed: Feed) -> None:
    """Note for the display what is in flight and what waits."""
    pacer = gate.pacer
    progress.active, progress.limit = gate.active, int(pacer.limit)
    progress.groups = feed.groups()
    waiting = gate.waiting()
    progress.waiting_s = None if waiting is None else waiting.seconds
    if waiting is not None:
        progress.waiting_for = "the server to come back" if waiting.server_down else "the server's rate limit"
    progress.paced_per_s = 1.0 / pacer.interval_s if pacer.interval_s else None


def _failed_work(session: Session, lost: dict[Key, Record]) -> Work:
    """Return the samples that failed, in the benchmark's order, or as their questions were recorded."""
    benchmark, spec = session.benchmark, session.spec
    if benchmark.grow is not None:
        from snellen.engine.growth import sample_of

        return ((sample_of(benchmark, spec.data, each.sample_id), 0) for each in [*lost.values()])
    return (each for each in pending(benchmark, spec, set()) if key(each[0].id, each[1]) in lost)


def _interrupted(progress: Progress, folder: RunFolder) -> InterruptedRunError:
    return InterruptedRunError(
        f"stopped by {exit_signals.by_what()} after {progress.done:,} of {progress.total or '?'} samples; "
        f"all of them are recorded in {folder.path}",
        "Run the same command again to resume.",
    )
