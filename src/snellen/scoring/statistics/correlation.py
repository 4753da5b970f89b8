"""Correlation of two values over points, by Pearson and by Spearman, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.statistics.bootstrap import of_sums
from snellen.types import Interval, IntervalMethod, Metric

FEWEST_POINTS = 6
"""Points below which a correlation says nothing."""


def correlations(x: Sequence[float], y: Sequence[float], *, cluster: str) -> list[Metric]:
    """Compute Pearson's r and the same over ranks (Spearman's), with bootstrap intervals over the points.

    Ranks are those among all points and are not formed anew in each resample.

    Args:
        x, y: [n] the two values of each point.
        cluster: name of what a point is (`class`), for the interval's description.

    Returns:
        `correlation` and `correlation/rank`, from -1 to 1; no value for fewer than 6 points, or where a side is constant.
    """
    first_values, second_values = np.array(x), np.array(y)
    metrics = []
    for name, first, second in (
        ("correlation", first_values, second_values),
        ("correlation/rank", _ranks(first_values), _ranks(second_values)),
    ):
        if len(x) < FEWEST_POINTS or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
            metrics.append(Metric(name, None, len(x), unit="r"))
            continue
        first, second = first - first.mean(), second - second.mean()
        columns = np.stack([np.ones(len(first)), first, second, first * first, second * second, first * second], axis=1)
        value, span = of_sums(columns, np.arange(len(first), dtype=np.int64), _pearson)
        over = IntervalMethod("bootstrap", cluster=cluster, clusters=len(x))
        cut = None if span is None else Interval(*span.cut(-1.0, 1.0), over)
        metrics.append(Metric(name, value, len(x), cut, unit="r"))
    return metrics


def _pearson(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute [b] correlations from sums of 1, x, y, xx, yy, xy; NaN where a side does not vary."""
    n, x, y, xx, yy, xy = sums.T
    spread = (xx - x * x / n) * (yy - y * y / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = (xy - x * y / n) / np.sqrt(spread)
    return np.where(spread > 1e-15, np.clip(correlation, -1.0, 1.0), np.nan)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute ranks from 1; equal values share the mean of theirs."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((ends - counts + 1 + ends) / 2.0)[index.reshape(-1)])
