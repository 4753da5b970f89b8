"""Differences of a benchmark's own metrics between two runs, paired by cluster: pairs of questions count as pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import isfinite

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.benchmarks.base import Benchmark
from snellen.errors import UsageError
from snellen.runs.compared_runs import ComparedRun, pair_scores, question_scores
from snellen.scoring import statistics
from snellen.scoring.metric_text import is_diagnosis
from snellen.scoring.scores import Column, Scores
from snellen.scoring.statistics.intervals import GROUP
from snellen.types import IntervalMethod

REPLICATES = 400
MOST_ROWS = 20_000
"""Answers up to which `unit_differences` draws: a page must not take minutes."""


class MetricDifference(Struct, frozen=True):
    """One metric of the benchmark on the questions that both runs answered; 95 % interval by paired bootstrap.

    `interval` is the method of `ci95`.
    """

    name: str
    baseline: float | None
    other: float | None
    difference: float | None
    ci95: tuple[float, float] | None
    interval: IntervalMethod | None = None


def metric_differences(
    names: Sequence[str], baseline: ComparedRun, other: ComparedRun, profile: str
) -> list[MetricDifference]:
    """Compare metrics of the benchmark on the questions that both runs have a score for, by one paired bootstrap.

    Raises:
        UsageError: the benchmark has no such metric here.
    """
    both = _joined(baseline.scores(profile), other.scores(profile))
    return _differences(names, baseline.benchmark, profile, both, baseline.cluster(profile))


def unit_differences(baseline: ComparedRun, other: ComparedRun, profile: str) -> list[MetricDifference]:
    """Compare what is published of the benchmark, each in its own unit, such as pairs of VLM2-Bench.

    Overall means of a suite are left out: each member is drawn alone. Empty for a benchmark without published figures,
    and beyond MOST_ROWS answers.
    """
    both = _joined(baseline.scores(profile), other.scores(profile))
    published = {name for table in baseline.benchmark.published if table.profile == profile for name in table.metrics}
    if not published or not len(both) or len(both) > MOST_ROWS:
        return []
    first, second = (baseline.benchmark.summarize(_run_of(both, run), profile) for run in ("baseline", "other"))
    known = {metric.name for metric in first if metric.value is not None}
    shares = [metric for metric in second if metric.unit == "fraction" and not is_diagnosis(metric.name)]
    names = [metric.name for metric in shares if metric.name in known & published and metric.value is not None]
    tasks = [task for task in both.meta["task"].names if task] if "task" in both.meta else []
    parts = [(both.where(task=task), [name for name in names if name.startswith(f"{task}/")]) for task in tasks]
    if not any(own for _, own in parts):
        parts = [(both, names)]
    cluster = baseline.cluster(profile)
    drawn = [_differences(own, baseline.benchmark, profile, part, cluster) for part, own in parts if own]
    return [one for each in drawn for one in each if one.difference is not None]


def _differences(
    names: Sequence[str], benchmark: Benchmark, profile: str, both: Scores, cluster: str
) -> list[MetricDifference]:
    # of reviewed: the automatic one
    counted_as = profile if profile in benchmark.score else next(iter(benchmark.score))

    def of_run(scores: Scores, run: str) -> dict[str, float]:
        metrics = benchmark.summarize(_run_of(scores, run), counted_as)
        return {metric.name: float("nan") if metric.value is None else metric.value for metric in metrics}

    def difference(scores: Scores) -> NDArray[np.float64]:
        # A resample may lack the rows of a small part.
        a, b = of_run(scores, "baseline"), of_run(scores, "other")
        return np.array([b.get(name, np.nan) - a.get(name, np.nan) for name in names])

    values = [of_run(both, run) for run in ("baseline", "other")]
    for name in names:
        if any(name not in known for known in values):
            repeated = (
                "Figures of repeats are not compared; the others are means over the replies. "
                if {*"@^"} & {*name}
                else ""
            )
            raise UsageError(
                f"{benchmark.name} has no metric {name!r} here", f"{repeated}It has: {', '.join(values[0])}."
            )
    drawn = statistics.each_of_scores(both, difference, replicates=REPLICATES)
    differences = []
    for name, (value, ci95) in zip(names, drawn, strict=True):
        a, b = (known[name] if isfinite(known[name]) else None for known in values)
        shift = None if a is None or b is None else value
        method = None if ci95 is None else _in_words_of(ci95.about, cluster)
        differences.append(MetricDifference(name, a, b, shift, ci95, method))
    return differences


def _run_of(both: Scores, run: str) -> Scores:
    part = both.where(**{_RUN: run})
    own = {column: codes for column, codes in part.meta.items() if column != _RUN}  # a benchmark may slice by any
    return dataclasses.replace(part, meta=own)


def _in_words_of(method: IntervalMethod, cluster: str) -> IntervalMethod:
    """Return a method with the benchmark's own word for what the samples of a cluster share."""
    return structs.replace(method, cluster=cluster) if method.cluster == GROUP else method


_RUN = "\0run"


def _joined(first: Scores, second: Scores) -> Scores:
    """Join the rows of both runs that have a score in both in one table, so that a cluster is drawn for both at once."""
    paired = pair_scores(question_scores(first), question_scores(second)).code
    a, b = (scores.select(np.isin(scores.question, paired)) for scores in (first, second))
    meta: dict[str, Column] = {}
    for name in dict.fromkeys([*a.meta, *b.meta]):
        names: dict[str, int] = {}
        codes = []
        for scores in (a, b):
            column = scores.meta.get(name)
            if column is None:
                codes.append(np.full(len(scores), -1, dtype=np.int32))
                continue
            translate = np.array([names.setdefault(text, len(names)) for text in column.names] + [-1], dtype=np.int32)
            codes.append(translate[column.codes])
        meta[name] = Column(np.concatenate(codes), tuple(names))
    run = np.repeat(np.array([0, 1], dtype=np.int32), [len(a), len(b)])
    meta[_RUN] = Column(run, ("baseline", "other"))
    return Scores(
        value=np.concatenate([a.value, b.value]),
        verdict=np.concatenate([a.verdict, b.verdict]),
        group=np.concatenate([a.group, b.group]),
        question=np.concatenate([a.question, b.question]),
        meta=meta,
        expected=len(a) + len(b),
    )
