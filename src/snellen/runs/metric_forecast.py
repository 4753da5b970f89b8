"""The metrics that a run can have, before it has answers: from its samples with made-up replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from msgspec import Struct

from snellen.benchmarks.base import Benchmark
from snellen.engine.run_folder import RunSpec
from snellen.errors import DataError
from snellen.models.registry import KINDS
from snellen.runs.scoring import SummaryBuilder, profiles_of
from snellen.types import Metric, Record, Response, Sample

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
        benchmark: whose samples are asked.
        spec: the run.
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
        return spec.model.partition(":")[0] not in KINDS or spec.options.generation.logprobs is not None
    return not forecast.certain


def _forecast(benchmark: Benchmark, spec: RunSpec, profile: str | None, size: int) -> MetricForecast:
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
    from snellen.benchmarks.few_shot.examples import gold_reply

    gold = [gold_reply(benchmark, sample) or "" for sample in samples]
    moved = [*gold[1:], *gold[:1]]
    yield [None] * len(samples)
    yield list(gold)
    yield list(moved)
    yield [right if number % 2 else wrong for number, (right, wrong) in enumerate(zip(gold, moved, strict=True))]


def _summary(
    benchmark: Benchmark, profile: str, samples: Sequence[Sample], replies: Sequence[str | None], repeats: int
) -> dict[str, Metric]:
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
