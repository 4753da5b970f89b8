"""Check that the lower end of a metric's interval reaches a value: `--fail-under METRIC=VALUE`.

The cases of checks: thresholds, comparisons with a baseline, and answers that a run must have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from snellen.benchmarks.base import Benchmark
from snellen.engine.run_folder import RunSpec
from snellen.errors import DataError, UsageError
from snellen.runs.run import Run, load_run
from snellen.scoring.metric_text import span
from snellen.types import IntervalMethod, Metric, Record, Response, Sample

if TYPE_CHECKING:
    from snellen.runs.drop_check import DropCheck

UNANSWERED = "unanswered"
"""Kind of the failed case of a run in which samples have no answer."""


class CheckCase(Struct, frozen=True):
    """One check: `failed` if it did not hold, `error` if it could not be made; `kind` is a word for the reason."""

    name: str
    outcome: Literal["passed", "failed", "error"]
    text: str
    kind: str = ""


class CheckSuite(Struct, frozen=True):
    """The checks of one run, or of one command; `properties` are facts about it, such as metrics with intervals."""

    name: str
    cases: Sequence[CheckCase]
    properties: Mapping[str, str] = {}
    seconds: float = 0.0


def threshold_cases(checks: Iterable[ThresholdCheck]) -> list[CheckCase]:
    """Return thresholds as cases."""
    return [
        CheckCase(
            f"{check.metric} is at least {check.least:g}", "passed" if check.passed else "failed", check.text, "below"
        )
        for check in checks
    ]


def drop_cases(checks: Iterable[DropCheck]) -> list[CheckCase]:
    """Return checks against the baseline as cases."""
    return [
        CheckCase(
            f"{check.run} is not worse than {check.baseline}"
            + (f" by more than {check.margin:g}" * bool(check.margin)),
            "passed" if check.passed else "failed",
            check.text,
            check.status,
        )
        for check in checks
    ]


def answers_case(answered: int, expected: int, *, least: float = 1.0, kind: str = "incomplete") -> CheckCase:
    """Return the case of a run's answers: failed, under this kind, if a smaller share than `least` was answered."""
    text = f"{answered:,} of {expected:,} samples have an answer"
    if expected and answered / expected >= least:
        return CheckCase("samples are answered", "passed", f"{text}.")
    needed = "all are needed" if least == 1.0 else f"less than {least:.0%}" if answered else "so there is no score"
    hint = " `snellen rerun` runs the others." if kind == UNANSWERED else ""
    return CheckCase("samples are answered", "failed", f"{text}, {needed}.{hint}", kind)


BELOW = 11
"""Exit status of a metric that does not reach its threshold."""
NAMED = 40
NOTHING_SENT = " No request was sent."


class Threshold(Struct, frozen=True):
    """The least value of a metric, named as METRIC, or as BENCHMARK:METRIC for the runs of one benchmark."""

    name: str
    least: float

    def metric(self, benchmark: str, benchmarks: Collection[str], metrics: Collection[str]) -> str | None:
        """Return the name of the metric that this is about in a run; None if it is about another benchmark.

        Args:
            benchmarks: those of all runs that are checked together.
        """
        about, colon, name = self.name.partition(":")
        if self.name in metrics or not colon or about not in {benchmark, *benchmarks}:
            return self.name
        return name if about == benchmark else None


class ThresholdCheck(Struct, frozen=True):
    """One metric of a run checked against its threshold.

    Attributes:
        run: the folder or file with the answers.
        metric, least: the threshold.
        value, ci95, interval: the metric, its 95 % interval and the interval's method; None where there is none.
        n, coverage: answers behind it, and their share of the benchmark.
        passed: True if the lower end of the interval reaches `least`.
        text: all of it in one sentence.
    """

    run: str
    profile: str
    metric: str
    least: float
    value: float | None
    ci95: tuple[float, float] | None
    interval: IntervalMethod | None
    n: int
    coverage: float
    passed: bool
    text: str


def parse_threshold(text: str) -> Threshold:
    """Return the threshold that `METRIC=VALUE` or `BENCHMARK:METRIC=VALUE` states.

    Raises:
        UsageError: there is no `=`, no metric, or no finite number.
    """
    name, sign, number = text.rpartition("=")
    form = "Write METRIC=VALUE, for example --fail-under accuracy=0.7."
    if not sign or not name.strip():
        raise UsageError(f"--fail-under {text!r} is not of the form METRIC=VALUE", form)
    try:
        least = float(number)
    except ValueError:
        least = float("nan")
    if not isfinite(least):
        raise UsageError(f"--fail-under {text!r}: {number.strip()!r} is not a number", form)
    return Threshold(name.strip(), least)


def check_metrics(
    run: str | Path | Run, thresholds: Mapping[str, float], *, profile: str | None = None, trust: bool = False
) -> list[ThresholdCheck]:
    """Check that the lower end of each metric's 95 % interval reaches its threshold.

    >>> run = snellen.evaluate("chart/digits", "embedded", limit=30, out="results/now")
    >>> check_metrics(run, {"accuracy": 0.9})[0].passed
    False

    Args:
        run: a folder, or an open run.
        thresholds: metric to least value.
        profile: one scoring profile; None: the benchmark's first.
        trust: as for `load_run`.

    Raises:
        UsageError: the run has no such metric, or the metric has no interval. RunError: no run there.
    """
    opened = run if isinstance(run, Run) else load_run(run, trust=trust)
    name, metrics = next(iter(opened.figures(profile).items()))
    return check_thresholds(
        str(opened.path),
        opened.benchmark.name,
        {name: metrics},
        [Threshold(metric, least) for metric, least in thresholds.items()],
    )


def check_thresholds(
    run: str,
    benchmark: str,
    metrics: Mapping[str, Sequence[Metric]],
    thresholds: Iterable[Threshold],
    benchmarks: Collection[str] = (),
) -> list[ThresholdCheck]:
    """Check the metrics of one run under the first of its profiles.

    Args:
        run: the folder or file, for messages.
        thresholds: what they must reach.
        benchmarks: those of all runs that are checked together.

    Raises:
        UsageError: no such metric; a metric without an interval; a threshold that no share can reach.
    """
    profile, rows = next(iter(metrics.items()))
    by_name = {metric.name: metric for metric in rows}
    checks = []
    for threshold in thresholds:
        name = threshold.metric(benchmark, benchmarks, by_name)
        if name is None:
            continue
        if name not in by_name:
            raise _no_metric(run, profile, name, threshold, by_name)
        metric = by_name[name]
        _require_share(metric, threshold)
        if metric.value is not None and metric.ci95 is None:
            figures = f" (value {metric.value:g}, n = {metric.n:,})"
            raise _no_interval(f"{name} of {run} has no interval{figures}", rows)
        checks.append(_check(run, profile, metric, threshold.least))
    return checks


def require_possible(
    benchmark: Benchmark,
    spec: RunSpec,
    profile: str | None,
    thresholds: Sequence[Threshold],
    benchmarks: Collection[str] = (),
) -> list[str]:
    """Refuse thresholds that a run cannot reach whatever is answered, before it is asked.

    Args:
        benchmark, spec: the run.
        profile: what the user typed after --profile.
        thresholds: what its metrics must reach.
        benchmarks: those of all runs that are checked together.

    Returns:
        One line for each metric that only the answers can tell.

    Raises:
        UsageError: no such metric; a metric without an interval; a threshold that no share can reach.
    """

    typed = [(each, each.metric(benchmark.name, benchmarks, ())) for each in thresholds]
    forecast = forecast_metrics(benchmark, spec, profile, [name for _, name in typed if name is not None])
    unclear = []
    for threshold, _ in typed:
        metrics = {} if forecast is None else forecast.metrics
        name = threshold.metric(benchmark.name, benchmarks, metrics)
        if name is None:
            continue
        if forecast is None or (name not in metrics and may_have(forecast, spec, name)):
            unclear.append(
                f"--fail-under: only the answers tell whether {benchmark.name} has a metric {name!r}; it is checked at the end"
            )
            continue
        if name not in metrics:
            raise _no_metric(benchmark.name, forecast.profile, name, threshold, metrics, NOTHING_SENT)
        metric = metrics[name]
        _require_share(metric, threshold)
        if metric.value is not None and metric.ci95 is None:
            raise _no_interval(f"{name} of {benchmark.name} has no interval", metrics.values(), NOTHING_SENT)
    return unclear


def _no_metric(
    subject: str, profile: str, name: str, threshold: Threshold, metrics: Collection[str], end: str = ""
) -> UsageError:
    names = ", ".join(islice(metrics, NAMED))
    more = f" and {len(metrics) - NAMED:,} more" if len(metrics) > NAMED else ""
    return UsageError(
        f"--fail-under: {subject} has no metric {name!r} under profile {profile}",
        f"It has: {names or 'none'}{more}.{end}",
    ).near(threshold.name, metrics, form=f"{{}}={threshold.least:g}")


def _no_interval(sentence: str, metrics: Iterable[Metric], end: str = "") -> UsageError:
    usable = [each.name for each in metrics if each.ci95 is not None]
    return UsageError(
        f"--fail-under: {sentence}, and its lower end is what must reach the threshold",
        f"Metrics with an interval: {', '.join(usable) or 'none'}.{end}",
    )


def _require_share(metric: Metric, threshold: Threshold) -> None:
    if metric.unit == "fraction" and threshold.least > 1.0:
        raise UsageError(
            f"--fail-under {metric.name}={threshold.least:g}: {metric.name} is a share from 0 to 1",
            f"Type: --fail-under {metric.name}={threshold.least / 100:g}",
        )


def _check(run: str, profile: str, metric: Metric, least: float) -> ThresholdCheck:
    low = None if metric.value is None or metric.ci95 is None else metric.ci95[0]
    passed = low is not None and low >= least
    if low is None:
        text = f"{metric.name} of {run} has no value, because nothing was answered; {least:g} was expected."
    else:
        text = (
            f"{metric.name} of {run} {'reaches' if passed else 'does not reach'} {least:g}: the lower end of its 95 % interval "
            f"{span(metric.ci95, '.4f')} is {low:.4f} (value {metric.value:.4f}, n = {metric.n:,}, "
            f"coverage {metric.coverage:.1%})."
        )
    return ThresholdCheck(
        run,
        profile,
        metric.name,
        least,
        metric.value,
        metric.ci95,
        metric.interval,
        metric.n,
        metric.coverage,
        passed,
        text,
    )


FIRST, MOST = 200, 20_000
"""The first 200 samples are looked at; if they do not have all metrics, up to 20,000."""
CALIBRATION = "calibration/"
"""Metrics that need probabilities of tokens."""


class MetricForecast(Struct, frozen=True):
    """Metrics that a run has with made-up replies under one profile.

    Attributes:
        profile: the first profile that is printed.
        metrics: by name.
        certain: True if the run can have no other metric, whatever is answered.
    """

    profile: str
    metrics: dict[str, Metric]
    certain: bool


def forecast_metrics(
    benchmark: Benchmark, spec: RunSpec, profile: str | None, wanted: Iterable[str]
) -> MetricForecast | None:
    """Return the metrics that a run will have; None if they cannot be forecast, as of a plug-in that fails.

    The samples are summarized without answers, with right ones and with wrong ones. If the names of the metrics are the
    same each time, no reply adds another one.

    Args:
        profile: what the user typed after --profile.
        wanted: names to look for; few samples are looked at if those have them all.

    Raises:
        DataError: the data cannot be read.
    """
    names = set(wanted)
    forecast = None
    for size in (FIRST, MOST):
        try:
            forecast = _forecast(benchmark, spec, profile, size)
        except DataError:
            raise
        except Exception:  # noqa: BLE001 - code of a plug-in, which the run itself reports
            return None
        if names <= forecast.metrics.keys() or size == MOST:
            break
    return forecast


def may_have(forecast: MetricForecast, spec: RunSpec, name: str) -> bool:
    """Return True if a run can have a metric that the forecast does not have, by what its answers hold."""
    if name.startswith(CALIBRATION):
        from snellen.models.registry import KINDS

        return spec.model.partition(":")[0] not in KINDS or spec.options.generation.logprobs is not None
    return not forecast.certain


def _forecast(benchmark: Benchmark, spec: RunSpec, profile: str | None, size: int) -> MetricForecast:
    from snellen.runs.scoring import profiles_of

    name = next(iter(profiles_of(benchmark, profile)))
    most = size if spec.limit is None else min(size, spec.limit)
    samples = list(islice(benchmark.samples(spec.data), most + 1))
    cut = len(samples) > most and most != spec.limit
    samples = samples[:most]
    views = [benchmark] if benchmark.rubric is None else [benchmark, replace(benchmark, rubric=None)]
    summaries = [
        _summary(view, name, samples, replies, spec.repeats)
        for view in views
        for replies in _replies(benchmark, samples)
    ]
    names = [frozenset(metrics) for metrics in summaries]
    merged: dict[str, Metric] = {}
    for metrics in summaries:
        for metric in metrics.values():
            before = merged.get(metric.name)
            if before is None or before.value is None or (before.ci95 is None and metric.ci95 is not None):
                merged[metric.name] = metric
    certain = len(set(names)) == 1 and not cut and benchmark.grow is None
    return MetricForecast(name, merged, certain)


def _replies(benchmark: Benchmark, samples: Sequence[Sample]) -> Iterator[list[str | None]]:
    """Yield replies to the samples: none, right ones, each sample the one of its neighbour, and every second one right."""
    from snellen.benchmarks.few_shot import gold_reply

    gold = [gold_reply(benchmark, sample) or "" for sample in samples]
    moved = [*gold[1:], *gold[:1]]
    yield [None] * len(samples)
    yield list(gold)
    yield list(moved)
    yield [right if number % 2 else wrong for number, (right, wrong) in enumerate(zip(gold, moved, strict=True))]


def _summary(
    benchmark: Benchmark, profile: str, samples: Sequence[Sample], replies: Sequence[str | None], repeats: int
) -> dict[str, Metric]:
    from snellen.runs.scoring import SummaryBuilder

    builder = SummaryBuilder(benchmark, {profile: benchmark.score[profile]})
    for sample, reply in zip(samples, replies, strict=True):
        for repeat in range(repeats):
            record = (
                Record(sample.id, "error", repeat)
                if reply is None
                else Record(sample.id, "ok", repeat, Response(reply))
            )
            builder.add(sample, record, builder.score(sample, record))
    return {metric.name: metric for metric in builder.build(None).metrics[profile]}
