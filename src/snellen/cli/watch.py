"""snellen watch"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from snellen.cli import options as shared
from snellen.cli.console import note, show_json
from snellen.cli.option_parsing import REQUIRED, argument, only, option, option_of
from snellen.cli.preview import require_profile, require_run_folder, require_used_data
from snellen.cli.results import UNANSWERED, log_targets, log_tracked
from snellen.engine.run_folder import RunSpec
from snellen.engine.subset import read_subset, with_subset
from snellen.errors import SnellenError, UsageError
from snellen.scoring.metric_text import bracketed
from snellen.text import slug

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data
    from snellen.runs.run import Run
    from snellen.training.watch import CheckpointWatch, StepPoint
    from snellen.types import Metric

PAGE = "watch.html"
NAMED = 24
"""Metrics that a message names."""
BAR = 32
"""Characters of a bar from 0 to 1."""
MAX_POLL_S = 86_400.0


@dataclass(frozen=True)
class WatchOptions:
    """Time and extent of a watch."""

    PANEL: ClassVar[str] = "Watch"

    out: Path | None = option("Folder of the runs, watch.json and watch.html.", said="results/watch-CHECKPOINTS")
    limit: int | None = option("Run only the first N samples.", least=1)
    base: str | None = option(
        "Model that adapters lie over, a folder or a hub id.", value="NAME", said="the one that each adapter names"
    )
    subset: Path | None = option_of(RunSpec, "subset")
    repeats: int = option_of(RunSpec, "repeats")
    seed: shared.Seed = 0
    once: bool = option("Evaluate the checkpoints that are there, and end.", False)
    idle: float | None = option(
        "End when no checkpoint has come or changed for this long.",
        value="SECONDS",
        said="watch until stopped",
        least=0.0,
        most=31_536_000.0,
    )
    poll: float = option("Time between two looks at the folder.", 10.0, value="SECONDS", least=0.05, most=MAX_POLL_S)
    settle: float = option(
        "Time for which a checkpoint without trainer_state.json must be unchanged before it is read.",
        10.0,
        value="SECONDS",
        least=0.0,
        most=MAX_POLL_S,
    )


@dataclass(frozen=True)
class StepOutputOptions(shared.OutputOptions):
    """Metric, trackers and form of the scores."""

    profile: str | None = option("Scoring profile.", said="the benchmark's first", panel=shared.OUTPUT)
    metric: str | None = option(
        "Metric to draw over the steps.", value="NAME", said="the profile's first", panel=shared.OUTPUT
    )
    log: shared.LogTo = None


def watch(
    checkpoints: Path = argument("Folder with checkpoint-500/, step_1000/ and so on.", value="CHECKPOINTS"),
    *,
    benchmark: list[str] = option(
        "Benchmark to evaluate; may be repeated.", REQUIRED, names=("--benchmark", "-b"), value="BENCHMARK"
    ),
    watching: WatchOptions,
    data: shared.DataOptions,
    generation: shared.GenerationOptions,
    media: shared.MediaOptions,
    local: Annotated[shared.LocalOptions, only("dtype", "device", "batch_size", "stop_after_first_json")],
    output: StepOutputOptions,
) -> None:
    """Evaluate the checkpoints or LoRA adapters of a training as they appear, in the order of their steps.

    A checkpoint is read once its weights are complete. Those already evaluated are skipped, so that a stopped watch goes
    on with the same command. A checkpoint that fails is named, and the others go on. The score over the steps is printed,
    and drawn with its intervals in watch.html.
    """
    from snellen.benchmarks.registry import find
    from snellen.engine.progress import display
    from snellen.models.registry import open_model
    from snellen.runs.settings import run_spec
    from snellen.training.watch import CheckpointWatch, WatchTimes

    if output.profile is not None and (output.profile == "all" or "," in output.profile):
        raise UsageError(f"--profile {output.profile}: one profile was expected", "Name a single profile.")
    if not checkpoints.is_dir():
        kind = "a file" if checkpoints.is_file() else "not there"
        raise UsageError(
            f"{checkpoints} is {kind}; a folder of checkpoints was expected", "Name the training's output_dir."
        )
    chosen = shared.run_settings(data, generation, media, local)
    settings: Any = {**chosen, "seed": watching.seed, "limit": watching.limit}
    if watching.repeats != 1:
        settings["repeats"] = watching.repeats
    if watching.subset is not None:  # by its content: a file that was made again is another setting
        settings["subset"] = read_subset(watching.subset)
    base = run_spec("", f"local:{checkpoints}", settings)
    open_model(base.model, base.options)  # refuses options and names missing packages; loads nothing
    benchmarks = {name: with_subset(find(name), base) for name in benchmark}
    for each in benchmarks.values():
        require_profile(base, each, output.profile)
    _check_data(benchmarks, base.data, quiet=output.quiet)
    if output.metric is not None:
        for each in benchmarks.values():
            _require_metric(each, base, output)
    out = watching.out or Path("results") / f"watch-{slug(checkpoints.absolute().name) or 'checkpoints'}"
    require_run_folder(out)
    targets = log_targets(output.log) if output.log else []
    checkpoint_watch = CheckpointWatch(checkpoints, benchmarks, out, settings, output.profile, watching.base)
    session = WatchSession(checkpoint_watch, output, targets)
    session.begin()
    times = WatchTimes(watching.poll, watching.settle, watching.idle, watching.once)
    try:
        session.watch.run(times, session.add, lambda: display(as_json=output.as_json, quiet=output.quiet))
    except (SnellenError, KeyboardInterrupt):
        session.close()
        raise
    session.name_omitted()
    session.close()
    failures = session.watch.failures
    raise typer.Exit(next((point.exit_code for point in failures if point.exit_code), UNANSWERED if failures else 0))


def _check_data(benchmarks: dict[str, Benchmark], data: Data, *, quiet: bool) -> None:
    """Read the first sample of each benchmark, so that missing data is named before a checkpoint is waited for."""
    require_used_data(data, list(benchmarks.values()))
    for benchmark in benchmarks.values():
        if (reading := benchmark.reading(data)) is not None and not quiet:
            note(f"{benchmark.name}: {reading.text}")
        next(iter(benchmark.samples(data)), None)


def _require_metric(benchmark: Benchmark, spec: RunSpec, output: StepOutputOptions) -> None:
    """Raise UsageError for a metric that no run of the benchmark can have; what only answers tell is looked at then."""
    from snellen.runs.threshold_check import forecast_metrics, may_have

    assert output.metric is not None  # noqa: S101 - asked by the caller
    forecast = forecast_metrics(benchmark, spec, output.profile, [output.metric])
    if forecast is not None and output.metric not in forecast.metrics and not may_have(forecast, spec, output.metric):
        raise no_metric(benchmark.name, output.metric, forecast.metrics)


def no_metric(benchmark: str, name: str, metrics: Mapping[str, Metric]) -> UsageError:
    """Return the error for a metric that a benchmark does not have."""
    names = ", ".join([*list(metrics)[:NAMED], *["…"] * (len(metrics) > NAMED)])
    return UsageError(f"{benchmark} has no metric {name!r}", f"It has: {names}.").near(name, metrics)


class WatchSession:
    """Terminal lines, the page and the trackers of one watch."""

    def __init__(self, watch: CheckpointWatch, output: StepOutputOptions, targets: Sequence[Any]) -> None:
        self.watch = watch
        self._output = output
        self._targets = targets
        self.page = watch.out / PAGE

    def begin(self) -> None:
        """Print what earlier sessions evaluated; what failed in them is tried again."""
        for point in self.watch.points:
            if point.state == "done":
                self._print(point)

    def add(self, point: StepPoint, run: Run | None) -> None:
        """Print and draw an outcome, and send it to the trackers."""
        from snellen.runs.caveats import cut_off

        if run is not None:
            self._metric(point)  # a wrong --metric is named at once
        self._print(point)
        if run is not None and not self._output.quiet and (text := cut_off(run.meta, with_remedy=False)):
            note(f"{point.checkpoint}: {text}")
        self._draw()
        if self._targets and run is not None:
            from snellen.runs.trackers.content import tracked_run

            profile = self._output.profile or next(iter(run.benchmark.score))
            name = f"{point.benchmark} {self.watch.root.absolute().name}"
            series = self.watch.series(point.benchmark)
            tracked = tracked_run(run, {profile: point.metrics}, step=point.step, series=series, name=name)
            log_tracked(self._targets, tracked)

    def name_omitted(self) -> None:
        """Print which folders were left out, and why."""
        for name, lack in self.watch.waiting.items():
            note(f"note: {name} is not complete and was left out: {lack}")
        for name in self.watch.without_step:
            note(f"note: {name} has no step in its name and was left out")
        if not self.watch.points and not self.watch.waiting:
            own = (self.watch.root / "config.json").is_file()
            hint = f"; it is itself a model: snellen run BENCHMARK --model local:{self.watch.root}" if own else ""
            note(f"note: there is no checkpoint in {self.watch.root}{hint}")

    def close(self) -> None:
        """Draw the page, and print its path or the JSON object."""
        self._draw()
        if self._output.as_json:
            from msgspec import to_builtins

            show_json(
                {
                    "checkpoints": str(self.watch.root),
                    "out": str(self.watch.out),
                    "page": str(self.page) if self.page.exists() else None,
                    "points": [self._point_json(point, to_builtins) for point in self.watch.points],
                    "incomplete": self.watch.waiting,
                }
            )
        elif self.page.exists():
            print(self.page)

    def _point_json(self, point: StepPoint, plain: Any) -> dict[str, Any]:
        fields: dict[str, Any] = plain(point)
        for name in ("stamp", "settings"):
            del fields[name]
        return {**fields, "run": str(self.watch.out / point.run) if point.run else None}

    def _metric(self, point: StepPoint) -> Metric | None:
        """Return the metric that is drawn; raise UsageError if the benchmark has none of that name."""
        if self._output.metric is None or not point.metrics:
            return next(iter(point.metrics), None)
        by_name = {metric.name: metric for metric in point.metrics}
        if self._output.metric not in by_name:
            raise no_metric(point.benchmark, self._output.metric, by_name)
        return by_name[self._output.metric]

    def _print(self, point: StepPoint) -> None:
        line = f"{point.step:>9,}  {self._score(point)}  {point.checkpoint}"
        if len(self.watch.benchmarks) > 1:
            width = max(len(benchmark.name) for benchmark in self.watch.benchmarks)
            line = f"{point.benchmark:<{width}}  {line}"
        note(line) if self._output.as_json else print(line, flush=True)

    def _score(self, point: StepPoint) -> str:
        metric = self._metric(point)
        if point.state == "failed" or metric is None:
            return f"failed: {point.error}"
        unanswered = f", {point.unanswered:,} without an answer" if point.unanswered else ""
        if metric.value is None:
            return f"{metric.name} –  n 0{unanswered}"
        value = f"{metric.value:.3f}" if metric.unit == "fraction" else f"{metric.value:,.4g} {metric.unit}"
        return f"{metric.name} {value}{bracketed(metric.ci95)}  {interval_bar(metric)}  n {metric.n:,}{unanswered}"

    def _draw(self) -> None:
        from snellen.reports.steps import StepScore, StepSeries, write_steps

        series = []
        for benchmark in self.watch.benchmarks:
            points = [point for point in self.watch.points if point.benchmark == benchmark.name]
            scores = [
                StepScore(point.step, point.checkpoint, self._metric(point), point.error, point.conditions)
                for point in points
            ]
            name = next((score.metric.name for score in scores if score.metric), self._output.metric or "score")
            if scores:
                series.append(StepSeries(benchmark.name, name, scores))
        if series:
            write_steps(self.page, f"Checkpoints of {self.watch.root.absolute().name}", series)


def interval_bar(metric: Metric) -> str:
    """Draw a fraction and its interval on a line from 0 to 1: `····├──●──┤····`; empty for other units."""
    if metric.unit != "fraction" or metric.value is None:
        return ""
    places = ["·"] * BAR
    if metric.chance is not None:
        places[_place(metric.chance)] = "┊"
    if metric.ci95 is not None:
        low, high = (_place(end) for end in metric.ci95)
        places[low : high + 1] = ["─"] * (high + 1 - low)
        places[low], places[high] = "├", "┤"
    places[_place(metric.value)] = "●"
    return "".join(places)


def _place(share: float) -> int:
    return round(min(1.0, max(0.0, share)) * (BAR - 1))
