"""The best run of a column, where its lead over every other run is more than chance."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import SnellenError
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.run import Run
from snellen.scoring import statistics
from snellen.scoring.scores import Scores
from snellen.types import Metric

RULE = (
    "better than every other value of its column by more than chance "
    "(paired 95 % interval of each difference above 0; without pairs, intervals that do not overlap)"
)

_SHARES_OF_FAILURES = frozenset({"invalid", "error", "wrong", "partial", "unscored", "unjudged", "refused"})
_HIGHER_IS_BETTER = frozenset(
    {"accuracy", "acc", "aacc", "facc", "qacc", "score", "f1", "precision", "recall", "anls", "map", "overall", "mean"}
)
_SLICES = 64
"""Sets of meta values that are tried for the rows of a metric."""


class ColumnRun(NamedTuple):
    """A run with its metric of the column."""

    run: Run
    metric: Metric


ScoreCache: TypeAlias = MutableMapping[tuple[Path, str], Scores]
"""Scores of runs that were scored already, by folder and profile."""


def best_run(runs: Sequence[ColumnRun], profile: str, cache: ScoreCache, *, headline: bool) -> int | None:
    """Return the number of the run with the highest value, if it is better than each other run by more than chance.

    Two runs are paired by question if the metric is a mean of scores, over all samples or over a slice. Then the
    paired 95 % interval of the difference must lie above 0, and the test's p below 0.05. The best run must have
    answered every question that the other one has. For other metrics, such as F1, the two intervals must not overlap.
    No correction for several comparisons is needed, since all of them must agree. Equal values give None.

    Args:
        runs: of the same questions.
        profile: the scoring profile.
        cache: scores of other columns, and afterwards of this one.
        headline: the metric is the benchmark's first one, so that more is better.
    """
    valued = [number for number, item in enumerate(runs) if item.metric.value is not None]
    if len(valued) < 2:
        return None
    first, *others = sorted(valued, key=lambda number: -(runs[number].metric.value or 0.0))
    best = runs[first]
    if _failure_share(best.metric.name) or best.metric.unit not in ("fraction", "points"):
        return None
    if all(_better(best, runs[number], profile, cache, headline=headline) for number in others):
        return first
    return None


def _failure_share(metric: str) -> bool:
    return not _SHARES_OF_FAILURES.isdisjoint(metric.split("/"))


def _better(best: ColumnRun, other: ColumnRun, profile: str, cache: ScoreCache, *, headline: bool) -> bool:
    if best.metric.value == other.metric.value:
        return False
    try:
        pair = _paired(best, other, profile, cache)
    except SnellenError:  # the data are no longer there
        pair = None
    if pair is not None:
        a, b, group = pair
        comparison = statistics.compare(a, b, group)
        return comparison.ci95 is not None and comparison.ci95[0] > 0.0 and comparison.p_value < 0.05
    words = set(best.metric.name.replace("/", "_").split("_"))
    if not headline and words.isdisjoint(_HIGHER_IS_BETTER):
        return False
    if best.metric.ci95 is None or other.metric.ci95 is None or best.metric.coverage < other.metric.coverage:
        return False
    return best.metric.ci95[0] > other.metric.ci95[1]


class _QuestionMeans(NamedTuple):
    """Scores by question, [q] each: code, mean over repeats, cluster."""

    code: NDArray[np.int64]
    mean: NDArray[np.float64]
    group: NDArray[np.int64]


def _paired(
    best: ColumnRun, other: ColumnRun, profile: str, cache: ScoreCache
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]] | None:
    """Return both runs' scores by question and the clusters; None if the metric is no mean of scores in both.

    None too if the other run has a question that the best one lacks: the mean over fewer questions may be higher
    because they are easier.
    """
    means = []
    for run, metric in (best, other):
        rows = _rows_of(metric, _scores(run, profile, cache))
        if rows is None:
            return None
        means.append(_by_question(rows))
    a, b = means
    if not np.isin(b.code, a.code).all():
        return None
    _, at_a, at_b = np.intersect1d(a.code, b.code, assume_unique=True, return_indices=True)
    return a.mean[at_a], b.mean[at_b], a.group[at_a]


def _rows_of(metric: Metric, scores: Scores) -> Scores | None:
    """Return the rows whose mean score is the metric; None if there are no such rows.

    `accuracy/short/species` is looked for among rows whose meta has the values short and species.
    """
    choices = []
    for part in metric.name.split("/"):
        columns = [name for name, column in scores.meta.items() if part in column.names]
        choices.append([None, *((name, part) for name in columns)])
    for choice in islice(product(*(reversed(part) for part in choices)), _SLICES):
        filters = dict(pair for pair in choice if pair is not None)
        rows = scores.where(**filters) if filters else scores
        value, counted = statistics.scored(rows)
        if int(counted.sum()) == metric.n and np.isclose(value[counted].mean(), metric.value or 0.0, rtol=0, atol=1e-9):
            return rows.select(counted)
    return None


def _by_question(rows: Scores) -> _QuestionMeans:
    value, _ = statistics.scored(rows)
    code, first, index = np.unique(rows.question, return_index=True, return_inverse=True)
    index = index.reshape(-1)
    mean = np.bincount(index, weights=value, minlength=len(code)) / np.bincount(index, minlength=len(code))
    return _QuestionMeans(code, mean, rows.group[first])


def _scores(run: Run, profile: str, cache: ScoreCache) -> Scores:
    key = (run.path, profile)
    if key not in cache:
        cache[key] = ComparedRun(run).scores(profile)
    return cache[key]
