"""Watch a folder of checkpoints: evaluate each new one in the order of steps, and keep the scores in OUT/watch.json."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Benchmark
from snellen.engine.progress import Display
from snellen.engine.run_folder import RunFolder
from snellen.errors import (
    DataError,
    FingerprintError,
    InterruptedRunError,
    MissingExtraError,
    OutputError,
    PreflightError,
    RunLockedError,
    SnellenError,
    StorageError,
    UsageError,
)
from snellen.models.local.adapters import find_adapter
from snellen.models.local.checkpoint import ADAPTER_CONFIG
from snellen.models.local.model import SharedWeights
from snellen.plugin_errors import plugin_fault
from snellen.redaction import redact_bytes
from snellen.runs.caveats import title_part
from snellen.runs.evaluate import evaluate
from snellen.runs.run import Run
from snellen.runs.settings import RunSettings
from snellen.text import pretty_json
from snellen.training.checkpoints import (
    CheckpointFolder,
    evaluate_replacing,
    incomplete,
    is_adapter,
    is_finished,
    list_checkpoints,
    other_weights,
    step_folder,
    unusable,
)
from snellen.types import Metric

STATE, FORMAT = "watch.json", 1
STATE_BYTES = 256 << 20
FATAL = (
    FingerprintError,
    InterruptedRunError,
    MissingExtraError,
    OutputError,
    RunLockedError,
    StorageError,
    UsageError,
)
"""Errors that are not one checkpoint's: the next one would have them too."""


class StepPoint(Struct, frozen=True, kw_only=True):
    """The outcome of one checkpoint and benchmark.

    Attributes:
        state: `done`, or `failed` with an `error`.
        run: the run folder, relative to the folder of the watch.
        metrics: under one profile.
        unanswered: samples without an answer.
        conditions: what the figures hold under: the base of an adapter, videos, sampling and repeats.
        stamp, settings: of the checkpoint's files and of the run when it was evaluated; with others it is done again.
    """

    checkpoint: str
    step: int
    benchmark: str
    state: str
    run: str = ""
    metrics: list[Metric] = []
    unanswered: int = 0
    conditions: str = ""
    error: str = ""
    exit_code: int = 0
    stamp: str = ""
    settings: str = ""


class WatchState(Struct, frozen=True):
    """Content of watch.json."""

    points: list[StepPoint]
    format: int = FORMAT


class WatchTimes(Struct, frozen=True):
    """Times of a watch, in seconds.

    Attributes:
        poll_s: between two looks at the folder.
        settle_s: for which a checkpoint of another program than transformers' Trainer must not have changed.
        idle_s: ends the watch when nothing new has come for so long; None: it goes on until it is stopped.
        once: evaluate what is there, and end.
    """

    poll_s: float = 10.0
    settle_s: float = 10.0
    idle_s: float | None = None
    once: bool = False


class CheckpointWatch:
    """A watch over one folder of checkpoints.

    Args:
        root: the folder, an output_dir of a training.
        benchmarks: evaluated on each checkpoint, by the names that the user gave.
        out: folder of the runs and of watch.json.
        settings: of `evaluate`.
        profile: scoring profile; None: the benchmark's first.
        base: model that adapters lie over; None: the one that each names.

    Raises:
        DataError: watch.json cannot be read.
    """

    def __init__(
        self,
        root: Path,
        benchmarks: Mapping[str, Benchmark],
        out: Path,
        settings: RunSettings,
        profile: str | None = None,
        base: str | None = None,
    ) -> None:
        self.root, self.out, self.profile = root, out, profile
        self.benchmarks = list(benchmarks.values())
        self.waiting: dict[str, str] = {}
        """Checkpoints that are not complete yet, and what they lack."""
        self.without_step: list[str] = []
        self._names = {benchmark.name: name for name, benchmark in benchmarks.items()}
        self._settings = settings
        self._base = base
        self._digest = _digest({**settings, **({} if base is None else {"base": base})}, profile)
        self._weights: tuple[str, SharedWeights] = ("", SharedWeights())
        self._points = {(point.checkpoint, point.benchmark): point for point in read_state(out).points}
        self._tried: set[tuple[str, str]] = set()
        self._stamps: dict[str, tuple[str, float]] = {}

    @property
    def points(self) -> list[StepPoint]:
        """All outcomes of this watch's benchmarks, by benchmark and step."""
        order = {benchmark.name: place for place, benchmark in enumerate(self.benchmarks)}
        points = [point for point in self._points.values() if point.benchmark in order]
        return sorted(points, key=lambda point: (order[point.benchmark], point.step, point.checkpoint))

    @property
    def failures(self) -> list[StepPoint]:
        """Outcomes of this session that failed, or lack answers."""
        points = [point for point in self.points if (point.checkpoint, point.benchmark) in self._tried]
        return [point for point in points if point.state == "failed" or point.unanswered]

    def series(self, benchmark: str) -> str:
        """Return what identifies the scores of one benchmark over the steps, for trackers."""
        return blake2b(f"{self.out.absolute()}\0{benchmark}".encode(), digest_size=8).hexdigest()

    def run(
        self,
        times: WatchTimes,
        on_point: Callable[[StepPoint, Run | None], None],
        display: Callable[[], Display | None] = lambda: None,
    ) -> None:
        """Evaluate checkpoints until the watch ends; `on_point` gets each outcome, with its run if there is one.

        Raises:
            SnellenError: one that every further checkpoint would have. All outcomes before it are on disk.
        """
        active = time.monotonic()
        while True:
            task = self._next_task(times)
            if task is not None:
                checkpoint, benchmark = task
                point, run = self._evaluate(checkpoint, benchmark, display())
                self._keep(point)
                on_point(point, run)
                active = time.monotonic()
                continue
            settling = any(reason == SETTLING for reason in self.waiting.values())
            if times.once and not settling:
                return
            active = max([active, *(since for _, since in self._stamps.values())])
            idle = time.monotonic() - active
            if times.idle_s is not None and idle >= times.idle_s:
                return
            pause = min(times.poll_s, 1.0) if settling else times.poll_s
            time.sleep(pause if times.idle_s is None else min(pause, max(0.05, times.idle_s - idle)))

    def _next_task(self, times: WatchTimes) -> tuple[CheckpointFolder, Benchmark] | None:
        """Return the complete checkpoint of the lowest step that lacks a benchmark; None if all are done."""
        checkpoints, self.without_step = list_checkpoints(self.root)
        self.waiting = {}
        for checkpoint in checkpoints:
            lacking = [benchmark for benchmark in self.benchmarks if not self._is_done(checkpoint, benchmark)]
            if not lacking:
                continue
            reason = self._not_ready(checkpoint, times.settle_s)
            if reason:
                self.waiting[checkpoint.name] = reason
            else:
                return checkpoint, lacking[0]
        return None

    def _is_done(self, checkpoint: CheckpointFolder, benchmark: Benchmark) -> bool:
        point = self._points.get((checkpoint.name, benchmark.name))
        if point is None or point.stamp != checkpoint.stamp or point.settings != self._digest:
            return False
        tried = (checkpoint.name, benchmark.name) in self._tried
        return tried or (point.state == "done" and not point.unanswered)

    def _not_ready(self, checkpoint: CheckpointFolder, settle_s: float) -> str:
        """Return what a checkpoint lacks, or SETTLING; empty if it can be read."""
        now = time.monotonic()
        stamp, since = self._stamps.get(checkpoint.name, ("", now))
        if stamp != checkpoint.stamp:
            since = now
        self._stamps[checkpoint.name] = (checkpoint.stamp, since)
        lack = incomplete(checkpoint.path)
        if lack:
            return lack
        quiet = now - since >= settle_s or time.time() - checkpoint.newest >= settle_s
        return "" if quiet or is_finished(checkpoint.path) else SETTLING

    def _evaluate(
        self, checkpoint: CheckpointFolder, benchmark: Benchmark, display: Display | None
    ) -> tuple[StepPoint, Run | None]:
        folder = step_folder(self.out, benchmark.name, checkpoint.name)
        self._tried.add((checkpoint.name, benchmark.name))
        point = StepPoint(
            checkpoint=checkpoint.name,
            step=checkpoint.step,
            benchmark=benchmark.name,
            state="done",
            run=str(folder.relative_to(self.out)),
            stamp=checkpoint.stamp,
            settings=self._digest,
        )
        try:
            if reason := unusable(checkpoint.path):
                raise DataError(f"{checkpoint.path}: {reason}")
            run = evaluate_replacing(
                folder,
                lambda: self._run(checkpoint, benchmark, out=folder, display=display),
                replaces=other_weights,
            )
            (metrics,) = run.figures(self._profile_of(benchmark)).values()
        except Exception as error:
            cause = error if isinstance(error, SnellenError) else plugin_fault(error)
            if isinstance(cause, FingerprintError):
                cause.hint = "Repeat the settings of before, or choose another folder: --out NAME"
            if cause is None or isinstance(cause, FATAL):
                raise
            if not checkpoint.path.is_dir():
                cause = DataError(f"{checkpoint.path} was deleted before it was evaluated")
            failed = structs.replace(
                point, state="failed", error=f"{cause.message} {cause.hint}".rstrip(), exit_code=cause.exit_code
            )
            return structs.replace(failed, run=failed.run if RunFolder(folder).exists() else ""), None
        unanswered = run.meta.totals.error + run.meta.totals.timeout
        over = f"over {run.meta.spec.model}" if run.meta.spec.options.adapter else ""
        conditions = " · ".join(filter(None, (over, title_part(run.meta).removeprefix(" · "))))
        return structs.replace(point, metrics=list(metrics), unanswered=unanswered, conditions=conditions), run

    def _run(self, checkpoint: CheckpointFolder, benchmark: Benchmark, **shown: Any) -> Run:
        """Evaluate a checkpoint, or an adapter over its base, which stays loaded for the next one."""
        name = self._names[benchmark.name]
        if not is_adapter(checkpoint.path):
            self._weights = ("", SharedWeights())
            return evaluate(name, f"local:{checkpoint.path}", **shown, **self._settings)
        adapter = str(checkpoint.path)
        base = self._base or find_adapter(adapter).base
        if not base:
            raise DataError(f"{adapter}/{ADAPTER_CONFIG} names no base model", "Name it: --base NAME.")
        if self._weights[0] != base:
            self._weights = (base, SharedWeights())
        settings: Any = {**self._settings, "adapter": adapter}
        try:
            return evaluate(name, f"local:{base}", weights=self._weights[1], **shown, **settings)
        except PreflightError as error:
            if self._base is None:
                error.hint = f"The adapter names the base {base}. If it lies elsewhere, add --base NAME."
            raise

    def _profile_of(self, benchmark: Benchmark) -> str:
        return next(iter(benchmark.score)) if self.profile is None else self.profile

    def _keep(self, point: StepPoint) -> None:
        """Write watch.json with this outcome."""
        self._points[point.checkpoint, point.benchmark] = point
        path = self.out / STATE
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_bytes(redact_bytes(pretty_json(WatchState(list(self._points.values())))))
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}", "Free space, or choose --out.") from error


SETTLING = "written a moment ago"


def read_state(out: Path) -> WatchState:
    """Read watch.json; an empty state if there is none.

    Raises:
        DataError: it cannot be read.
    """
    path = out / STATE
    try:
        if path.stat().st_size > STATE_BYTES:
            raise ValueError(f"it has more than {STATE_BYTES:,} bytes")
        return msgspec.json.decode(path.read_bytes(), type=WatchState)
    except FileNotFoundError:
        return WatchState([])
    except (OSError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise DataError(
            f"{path} cannot be read: {error}", "Delete it: complete runs beside it are not asked again."
        ) from error


def _digest(settings: Mapping[str, Any], profile: str | None) -> str:
    """Return a digest of what decides the samples and the scores; the pace of a run is no part of it."""
    names = sorted(settings.keys() - {"concurrency", "batch_size", "device", "timeout_s", "max_attempts"})
    content = msgspec.json.encode([profile, [[name, settings.get(name)] for name in names]], enc_hook=str)
    return blake2b(content, digest_size=8).hexdigest()
