"""Bootstrap intervals of composite numbers: whole clusters, a fixed seed, bounded time and memory.

Two entry points: `of_sums` for functions of sums over rows (ratios, F1, geometric means, differences), at any size;
`of_scores` for any function of Scores, on resampled rows.

Correlation of two values over points, by Pearson and by Spearman, with bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.scoring.scores import Column, Scores, cluster_index, cluster_sums
from snellen.scoring.statistics.intervals import GROUP, NORMAL, cluster_word, coverage, expanded_levels, scored
from snellen.types import Interval, IntervalMethod, Metric

REPLICATES = 2_000
SEED = 20_260_401

_CELLS = 2_000_000
"""Maximum numbers in one batch of weights: 16 MB."""

_DRAWN_ROWS = 10_000_000
"""Maximum rows that `of_scores` gathers over all its replicates."""

CHECKED_ROWS = 20_000
"""Rows of which calibrated answers are drawn; of more the resamples show enough noise."""

FOLDED = 5_000
"""With more distinct clusters than this, resampling works on random groups of clusters."""


def distinct(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows of [G, k], and the count of each.

    Drawing G clusters with replacement is one multinomial draw over these, so a million right-or-wrong answers resample
    as fast as a handful.
    """
    if rows.shape[1] == 1:
        values, counts = np.unique(rows[:, 0], return_counts=True)
        return values[:, None], counts.astype(np.int64)
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return values, counts.astype(np.int64)


def fold(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Sum FOLDED random groups of clusters of equal size, give or take one: [min(G, FOLDED), k].

    For functions of sums the groups have the same variance as the clusters that they hold (random groups: Wolter 2007,
    Introduction to Variance Estimation, chapter 2), and memory and time no longer grow with G.
    """
    count = len(rows)
    if count <= FOLDED:
        return rows
    index = rng.permutation(count) % FOLDED
    return cluster_sums(rows, index, FOLDED)


def resampled_sums(
    columns: NDArray[np.float64], group: NDArray[np.int64], *, replicates: int = REPLICATES, seed: int = SEED
) -> Iterator[NDArray[np.float64]]:
    """Yield sums of columns over clusters drawn with replacement, in batches of [<= replicates, k].

    G clusters are drawn from G, as one multinomial over the different cluster sums; above FOLDED different
    ones, over random groups of clusters. Peak memory is O(n k) for the input and 16 MB for the draws.

    Args:
        columns: [n, k] finite numbers of each row.
        group: [n] int64, equal for rows of one cluster.
    """
    index, clusters = cluster_index(group)
    rng = np.random.default_rng(seed)
    sums = cluster_sums(columns, index, clusters)
    patterns, counts = distinct(sums)
    if len(patterns) > FOLDED:
        patterns, counts = distinct(fold(sums, rng))
    draws = int(counts.sum())
    batch = max(1, _CELLS // max(1, len(patterns)))
    for start in range(0, replicates, batch):
        weights = rng.multinomial(draws, counts / draws, size=min(batch, replicates - start))
        yield weights.astype(np.float64) @ patterns


ROUNDING = 1e-12
"""Smaller differences between replicates are rounding, by the order of summation."""


def percentile_interval(
    replicates: NDArray[np.float64], clusters: int, rows: int | None = None, *, cluster: str = GROUP
) -> Interval | None:
    """Return the expanded percentile interval (see `expanded_levels`); non-finite replicates are ignored.

    `rows` is the number of rows in the clusters, and `cluster` what those of one share, for the interval's description.
    None if nothing varied, or fewer than half of the replicates have a value.
    """
    usable = replicates[np.isfinite(replicates)]
    if clusters < 2 or len(usable) * 2 < len(replicates) or len(usable) < 2 or np.ptp(usable) < ROUNDING:
        return None
    low, high = np.quantile(usable, expanded_levels(clusters))
    return Interval(float(low), float(high), _about(clusters, rows, cluster))


def _about(clusters: int, rows: int | None, cluster: str) -> IntervalMethod:
    if rows == clusters:
        return IntervalMethod("bootstrap", clusters=clusters)
    return IntervalMethod("cluster bootstrap", cluster=cluster, clusters=clusters)


def of_sums(
    columns: NDArray[np.float64],
    group: NDArray[np.int64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
    cluster: str = GROUP,
) -> tuple[float, Interval | None]:
    """Return a function of column sums, and its 95 % interval by the cluster bootstrap.

    Args:
        columns: [n, k] finite numbers of each row, such as value * [row is of category c] and [row is of category c].
        group: [n] int64, equal for rows of one cluster.
        statistic: [b, k] sums to [b] numbers; NaN where it is not defined.
        seed: the same seed gives the same interval.
        cluster: what the rows of one cluster share.

    Source: Efron and Tibshirani 1993, chapters 8 and 13; clusters as units as in Cameron and Miller 2015, section VI.
    """
    estimate = float(statistic(columns.sum(axis=0, keepdims=True))[0])
    if not len(columns):
        return estimate, None
    _, clusters = cluster_index(group)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [statistic(sums) for sums in resampled_sums(columns, group, replicates=replicates, seed=seed)]
    return estimate, percentile_interval(np.concatenate(values), clusters, len(columns), cluster=cluster)


def calibration_error(
    confidence: NDArray[np.float64],
    correct: NDArray[Any],
    place: NDArray[np.int64],
    bins: int,
    group: NDArray[np.int64],
    *,
    cluster: str = GROUP,
) -> tuple[float, Interval | None]:
    """Return the expected calibration error, and its 95 % interval by the cluster bootstrap.

    Noise never cancels in absolute values, so that the error is too large, and resamples are larger still: percentiles alone
    leave out the truth of a small error. The low end is therefore 0 where answers that are right as often as their
    confidence says would show such an error, and else the smallest multiple of the bins' deviations whose error, with the
    noise of the resamples, still reaches the seen one (a test inverted: Efron and Tibshirani 1993, section 12.3), at 98 %,
    since few rows show too little noise. The high end is the percentile.

    Args:
        confidence, correct: [n] of each answer.
        place: [n] number of the bin of each.
        bins: how many bins there are.
        group: [n] int64, equal for rows of one cluster.
        cluster: what the rows of one cluster share.
    """
    rows, (index, clusters) = len(confidence), cluster_index(group)
    columns = np.zeros((rows, bins + 1))
    columns[np.arange(rows), place] = correct - confidence
    columns[:, bins] = 1.0
    means = columns[:, :bins].sum(axis=0) / max(1, rows)
    estimate = float(np.abs(means).sum())
    if not rows:
        return estimate, None
    drawn = np.concatenate([sums[:, :-1] / sums[:, -1:] for sums in resampled_sums(columns, group)])
    ends = percentile_interval(np.abs(drawn).sum(axis=1), clusters, rows, cluster=cluster)
    if ends is None:
        return estimate, None
    noise, reach = drawn - means, expanded_levels(clusters, 0.98)[1]
    low, high = 0.0, 1.0
    if rows <= CHECKED_ROWS and np.quantile(_calibrated(confidence, place, bins, index, clusters), reach) >= estimate:
        high = 0.0
    for _ in range(20 if high else 0):  # multiples of the deviations, halved until they differ by a millionth
        middle = (low + high) / 2.0
        reached = np.quantile(np.abs(middle * means + noise).sum(axis=1), reach) >= estimate
        low, high = (low, middle) if reached else (middle, high)
    return estimate, Interval(low * estimate, max(estimate, ends[1]), ends.about)


def _calibrated(
    confidence: NDArray[np.float64], place: NDArray[np.int64], bins: int, index: NDArray[np.int64], clusters: int
) -> NDArray[np.float64]:
    """Return errors of drawn answers that are right as often as their confidence says; those of a cluster share their luck."""
    rng = np.random.default_rng(SEED)
    members = np.zeros((len(confidence), bins))
    members[np.arange(len(confidence)), place] = 1.0 / len(confidence)
    batch = max(1, _CELLS // len(confidence))
    draws = []
    for start in range(0, REPLICATES, batch):
        luck = rng.random((min(batch, REPLICATES - start), clusters))[:, index]
        draws.append(np.abs(((luck < confidence) - confidence) @ members).sum(axis=1))
    return np.concatenate(draws)


def take(scores: Scores, rows: NDArray[np.intp], group: NDArray[np.int64], question: NDArray[np.int64]) -> Scores:
    """Return scores of these rows (with repetition), under new cluster and question numbers."""
    meta = {name: Column(column.codes[rows], column.names) for name, column in scores.meta.items()}
    return Scores(scores.value[rows], scores.verdict[rows], group, question, meta, len(rows))


def _resamples(scores: Scores, draws: int, replicates: int, seed: int) -> Iterator[Scores]:
    """Yield scores with `draws` clusters drawn with replacement; a cluster drawn twice counts as two clusters."""
    index, clusters = cluster_index(scores.group)
    order = np.argsort(index, kind="stable")
    sizes = np.bincount(index, minlength=clusters)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    _, question = np.unique(scores.question, return_inverse=True)
    rng = np.random.default_rng(seed)
    for _ in range(replicates):
        drawn = rng.integers(0, clusters, size=draws)
        lengths = sizes[drawn]
        group = np.repeat(np.arange(draws), lengths)
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = order[np.repeat(starts[drawn], lengths) + within]
        yield take(scores, rows, group.astype(np.int64), question[rows].astype(np.int64) + len(scores) * group)


def of_scores(
    scores: Scores, statistic: Callable[[Scores], float], *, replicates: int = REPLICATES, seed: int = SEED
) -> tuple[float, Interval | None]:
    """Return any function of Scores, and its 95 % interval by the cluster bootstrap (`each_of_scores`)."""
    (drawn,) = each_of_scores(scores, lambda drawn: np.array([statistic(drawn)]), replicates=replicates, seed=seed)
    return drawn


def each_of_scores(
    scores: Scores,
    statistic: Callable[[Scores], NDArray[np.float64]],
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> list[tuple[float, Interval | None]]:
    """Return several functions of Scores, each with its 95 % interval by the same cluster bootstrap.

    Up to 10 million rows are gathered over all replicates. A larger job keeps at least 200 replicates and draws
    fewer clusters each time, m of G; the spread of the statistic is then scaled by sqrt(m / G) and the interval is
    the normal one. Prefer `of_sums` where the statistic can be written with sums.

    Source: m out of n, Bickel, Goetze and van Zwet 1997, Statistica Sinica 7:1, for statistics whose error falls as
    1 / sqrt(n).
    """
    estimates = [float(value) for value in statistic(scores)]
    _, clusters = cluster_index(scores.group)
    if clusters < 2:
        return [(estimate, None) for estimate in estimates]
    rows = len(scores)
    if rows * replicates > _DRAWN_ROWS:
        replicates = max(200, min(replicates, _DRAWN_ROWS // rows))
    draws = max(2, min(clusters, int(clusters * (_DRAWN_ROWS / replicates) / rows)))
    drawn = [statistic(part) for part in _resamples(scores, draws, replicates, seed)]
    by_statistic = np.array(drawn, dtype=np.float64).T
    word = cluster_word(scores)
    return [
        (estimate, _of_draws(estimate, values, draws, clusters, rows, word))
        for estimate, values in zip(estimates, by_statistic, strict=True)
    ]


def _of_draws(
    estimate: float, values: NDArray[np.float64], draws: int, clusters: int, rows: int, word: str
) -> Interval | None:
    """Return the interval of one statistic from its values on resamples of `draws` clusters."""
    if draws == clusters:
        return percentile_interval(values, clusters, rows, cluster=word)
    usable = values[np.isfinite(values)]
    if len(usable) * 2 < len(values) or np.ptp(usable) == 0.0 or not isfinite(estimate):
        return None
    half = NORMAL.inv_cdf(0.975) * float(usable.std(ddof=1)) * (draws / clusters) ** 0.5
    about = _about(clusters, rows, word)
    return Interval(estimate - half, estimate + half, structs.replace(about, method=f"m out of n {about.method}"))


def composite(
    name: str,
    scores: Scores,
    statistic: Callable[[Scores], float],
    *,
    chance: float | None = None,
    unit: str = "fraction",
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> Metric:
    """Return a Metric of any function of Scores, with a seeded cluster bootstrap interval (`of_scores`).

    A fraction's interval is cut at 0 and 1. The value is None where the function gives NaN, the interval where
    nothing varied (every answer right, say).
    """
    _, mask = scored(scores)
    value, ci95 = (
        of_scores(scores, statistic, replicates=replicates, seed=seed) if len(scores) else (float("nan"), None)
    )
    if ci95 is not None and unit == "fraction":
        ci95 = ci95.cut(0.0, 1.0)
    return Metric(
        name=name,
        value=value if isfinite(value) else None,
        n=int(mask.sum()),
        ci95=ci95 if isfinite(value) else None,
        unit=unit,
        coverage=coverage(int(mask.sum()), scores.expected),
        chance=chance,
    )


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
