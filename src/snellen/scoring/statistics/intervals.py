"""Intervals of means that hold for small n, for shares near 0 and 1, and for rows in clusters; of all rows, or running.

Student's t and the fair binomial are computed here, without scipy, by the regularised incomplete beta function: its
continued fraction (Abramowitz and Stegun 1964, 26.5.8; modified Lentz method, Press et al., Numerical Recipes, 6.4).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.scoring.scores import Scores, cluster_index
from snellen.types import Interval, IntervalMethod, Metric

NORMAL = NormalDist()
Z95 = NORMAL.inv_cdf(0.975)

_TINY = 1e-300
_TERMS = 10_000


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by the modified Lentz method."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            result *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return result


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), a, b > 0, x in 0 to 1; absolute error below 1e-10."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


def t_upper_tail(t: float, df: float) -> float:
    """Return P(T > t) for t >= 0, Student's t with `df` degrees of freedom (Abramowitz and Stegun 26.7.1)."""
    return 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t))


@lru_cache(maxsize=4096)
def t_quantile(df: float, level: float = 0.975) -> float:
    """Return the `level` quantile (0.5 to 1) of Student's t; infinity for `df` < 1, the normal quantile above a
    million.

    Source: bisection on the distribution function; 2.228 at df = 10 as every table has it.
    """
    if df < 1:
        return inf
    if df > 1e6:
        return NORMAL.inv_cdf(level)
    low, high = 0.0, 2.0
    while t_upper_tail(high, df) > 1.0 - level:
        low, high = high, high * 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        if not low < middle < high:  # the two are neighbours among the floats
            break
        if t_upper_tail(middle, df) > 1.0 - level:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def fair_coin_p(wins: int, losses: int) -> float:
    """Return the two-sided exact p-value of a fair coin with `wins` and `losses`: twice the smaller tail, at most 1.

    Raises:
        ValueError: if a count is negative.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"found {wins} wins and {losses} losses; counts are 0 or more")
    n, few = wins + losses, min(wins, losses)
    if n == 0:
        return 1.0
    return min(1.0, 2.0 * incomplete_beta(n - few, few + 1, 0.5))


def expanded_levels(clusters: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two quantile levels of bootstrap replicates that give an interval of `level` for few clusters.

    The percentile interval is too narrow by about sqrt((G - 1) / G) and uses z where t with G - 1 degrees of freedom
    belongs; quantiles further out correct both. Source: Hesterberg 2015, "What Teachers Should Know About the
    Bootstrap", The American Statistician 69(4), section 5.3.
    """
    if clusters < 2:
        return 0.0, 1.0
    low = NORMAL.cdf(-sqrt(clusters / (clusters - 1)) * t_quantile(clusters - 1, 0.5 + level / 2))
    return low, 1.0 - low


@lru_cache(maxsize=65_536)
def jeffreys(right: float, n: float) -> tuple[float, float]:
    """Return Jeffreys' 95 % interval of a share: quantiles of Beta(right + 1/2, n - right + 1/2), 0 or 1 at the ends.

    Neither count needs to be whole. Shorter than Wilson's near 0 and 1, and better where shares of few rows are summed:
    Brown, Cai and DasGupta 2001, section 4.

    Raises:
        ValueError: if right lies outside 0 to n, or n is not positive.
    """
    if not 0.0 <= right <= n or n <= 0.0:
        raise ValueError(f"found {right} right of n = {n}; expected 0 to n, and n > 0")
    a, b = right + 0.5, n - right + 0.5
    low = 0.0 if right == 0.0 else _beta_quantile(a, b, 0.025)
    high = 1.0 if right == n else 1.0 - _beta_quantile(b, a, 0.025)
    return low, high


def _beta_quantile(a: float, b: float, level: float) -> float:
    """Return the quantile of a beta distribution, to 1e-10: Newton's steps, bisection where they leave the bracket."""
    low, high, at = 0.0, 1.0, a / (a + b)
    scale = lgamma(a + b) - lgamma(a) - lgamma(b)
    while high - low > 1e-10:
        excess = incomplete_beta(a, b, at) - level
        low, high = (at, high) if excess < 0.0 else (low, at)
        slope = exp(scale + (a - 1.0) * log(at) + (b - 1.0) * log1p(-at))
        step = excess / slope if slope > 0.0 else inf
        if abs(step) < 1e-11:
            break
        at = at - step if low < at - step < high else (low + high) / 2.0
    return at


GROUP = "group"
"""Default name for what rows of one cluster share; a benchmark may name it better (`Benchmark.cluster`)."""


def wilson(share: float, n: float, z: float = Z95, about: IntervalMethod | None = None) -> Interval:
    """Return Wilson's score interval of a share of `n` independent rows; `n` may be an effective size.

    Source: Wilson 1927, JASA 22:209; recommended over the Wald interval by Brown, Cai and DasGupta 2001, Statistical
    Science 16:101. 0 of 10 gives 0 to 0.278.

    Raises:
        ValueError: if the share lies outside 0 to 1, or n is not positive.
    """
    if not 0.0 <= share <= 1.0 or n <= 0:
        raise ValueError(f"found share {share} of n = {n}; expected a share from 0 to 1 of n > 0")
    shrink = z * z / n
    centre = (share + shrink / 2.0) / (1.0 + shrink)
    half = z / (1.0 + shrink) * sqrt(share * (1.0 - share) / n + shrink / (4.0 * n))
    low = 0.0 if share == 0.0 else max(0.0, centre - half)
    high = 1.0 if share == 1.0 else min(1.0, centre + half)
    return Interval(low, high, about or IntervalMethod("Wilson", clusters=round(n)))


def scored(scores: Scores) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values as they enter a mean, and a mask of the rows that do.

    A row that failed ("error") or is unparseable ("invalid") stays in the denominator, with 0 if it has no value. An
    "unscored" row, or another one without a value, is omitted and lowers the coverage.

    Returns:
        [n] float64 and [n] bool.
    """
    lost = scores.has("error") | scores.has("invalid")
    value = np.where(lost & np.isnan(scores.value), 0.0, scores.value)
    return value, ~scores.has("unscored") & ~np.isnan(value)


def coverage(rows: int, expected: int) -> float:
    """Return scored rows / rows of a complete run, 0 to 1; 0 where none is expected."""
    return min(1.0, rows / expected) if expected > 0 else 0.0


def robust_variance(
    values: NDArray[np.float64], weights: NDArray[np.float64], group: NDArray[np.int64]
) -> tuple[float, float, int]:
    """Return the variance of a weighted mean whose rows are correlated within groups.

    CR1: G / (G - 1) * sum over clusters of (sum of w * (x - mean)) ** 2, weights summing to 1; never less than what
    independent rows would give, because a negative correlation within clusters (two questions of a pair that a
    constant answer gets half right) is no evidence of precision.

    Args:
        values: [n] finite scores.
        weights: [n] summing to 1.
        group: [n] int64, equal for rows of one cluster.

    Returns:
        The variance (infinity for one cluster of several rows), the size of the sample if clusters were single rows
        with the clusters' weights (Kish 1965: 1 / sum of squared weights), and the number of clusters.

    Source: Liang and Zeger 1986, Biometrika 73:13; as used for evaluations by Miller 2024, arXiv 2411.00640, section
    2.2; the factor G / (G - 1) as in Cameron and Miller 2015, J. Human Resources 50:317.
    """
    index, clusters = cluster_index(group)
    mean = float(weights @ values)
    influence = weights * (values - mean)
    share = np.bincount(index, weights=weights, minlength=clusters)
    kish = 1.0 / float(share @ share)
    rows = len(values)
    alone = float(influence @ influence) * rows / (rows - 1) if rows > 1 else 0.0
    if clusters == rows:
        return alone, kish, clusters
    if clusters < 2:
        return inf, kish, clusters
    sums = np.bincount(index, weights=influence, minlength=clusters)
    together = float(sums @ sums) * clusters / (clusters - 1)
    return max(together, alone), kish, clusters


def interval(
    values: NDArray[np.float64],
    group: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
    *,
    cluster: str = GROUP,
) -> Interval | None:
    """Return the 95 % interval of the (weighted) mean of scores.

    - Values 0 and 1, equal weights, one row a cluster: Wilson.
    - Other values from 0 to 1, weights, or clusters: Wilson's formula with the effective sample size
      mean * (1 - mean) / variance, the variance being cluster-robust, and Student's t with G - 1 degrees of freedom
      in the place of z. For shares this is the modified Wilson interval of survey statistics (Korn and Graubard 1998,
      Survey Methodology 24:193; best of seven in Franco, Little, Louis and Slud 2019, J. Survey Statistics and
      Methodology 7:334); for graded scores it is the quasi-binomial score interval. It stays within 0 to 1.
    - All values equal: no variance can be seen, so the clusters count as single rows (full correlation within).
    - Values beyond 0 to 1: mean +- t * cluster-robust standard error.
    - None for no rows, and for one cluster of several rows: nothing says how clusters differ.

    Args:
        values: [n] finite scores.
        group: [n] int64, equal for rows of one cluster.
        weights: [n] positive, None for equal ones.
        cluster: what the rows of one cluster share, for the interval's description.
    """
    rows = len(values)
    if rows == 0:
        return None
    bounded = bool(values.min() >= 0.0 and values.max() <= 1.0)
    share = np.full(rows, 1.0 / rows) if weights is None else weights / weights.sum()
    variance, kish, clusters = robust_variance(values, share, group)
    if variance == inf:
        return None
    mean = float(share @ values)
    if bounded and weights is None and clusters == rows and bool(np.isin(values, (0.0, 1.0)).all()):
        return wilson(float(values.sum()) / rows, rows)
    level = bool(np.ptp(values) == 0.0) or variance == 0.0
    return from_moments(mean, variance, kish, clusters, rows, bounded=bounded, level=level, cluster=cluster)


def from_moments(
    mean: float,
    variance: float,
    kish: float,
    clusters: int,
    rows: int,
    *,
    bounded: bool,
    level: bool,
    cluster: str,
) -> Interval | None:
    """Return the interval of a mean from its moments: the rule of `interval`, except for independent binary rows.

    Args:
        mean, variance: of the values; the variance is that of their mean.
        kish: the size of the sample if clusters were single rows.
        clusters, rows: how many.
        bounded: whether all values lie from 0 to 1.
        level: whether all values are equal, or the variance is 0.
        cluster: what the rows of one cluster share.
    """
    robust = clusters < rows
    shared = cluster if robust else None
    if not bounded:
        if clusters < 2:
            return None
        half = t_quantile(clusters - 1) * sqrt(variance)
        name = "cluster-robust t" if robust else "Student t"
        return Interval(mean - half, mean + half, IntervalMethod(name, cluster=shared, clusters=clusters))
    mean = min(1.0, max(0.0, mean))
    if level:
        name = "Wilson over clusters" if robust else "Wilson"
        return wilson(mean, kish, about=IntervalMethod(name, cluster=shared, clusters=clusters))
    name = "cluster-robust Wilson" if robust else "Wilson, effective size"
    about = IntervalMethod(name, cluster=shared, clusters=clusters)
    return wilson(mean, mean * (1.0 - mean) / variance, t_quantile(clusters - 1), about)


def cluster_word(scores: Scores) -> str:
    """Return what the rows of one cluster share: `question` if only repeats of it do, else `group`."""
    return "question" if bool(np.array_equal(scores.group, scores.question)) else GROUP


def with_cluster(metrics: Iterable[Metric], word: str) -> list[Metric]:
    """Return metrics whose intervals name the cluster by a benchmark's own word instead of `group`."""
    named = []
    for metric in metrics:
        about = metric.interval
        if about is not None and about.cluster == GROUP and word != GROUP:
            metric = structs.replace(metric, interval=structs.replace(about, cluster=word))
        named.append(metric)
    return named


def mean(name: str, scores: Scores, *, chance: float | None = None, unit: str = "fraction") -> Metric:
    """Return the mean score with its interval: accuracy where values are 0 and 1.

    Failed and unreadable rows count as 0; unscored ones lower the coverage (see `scored`).

    Args:
        name: the metric's name.
        scores: one row a sample and repeat.
        chance: what guessing reaches, 0 to 1, where that is known.
        unit: `fraction`, or the name of what the values measure.
    """
    value, mask = scored(scores)
    return mean_of(
        name,
        value[mask],
        scores.group[mask],
        expected=scores.expected,
        cluster=cluster_word(scores),
        chance=chance,
        unit=unit,
    )


def mean_of(
    name: str,
    values: NDArray[np.float64],
    group: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
    *,
    expected: int | None = None,
    cluster: str = GROUP,
    chance: float | None = None,
    unit: str = "fraction",
) -> Metric:
    """Return the (weighted) mean of [n] finite scores with its interval; no value for no rows.

    Args:
        name: the metric's name.
        values, group, weights, cluster: as for `interval`; group None: every row is a cluster of its own.
        expected: rows of a complete run, for the coverage; None: these are all.
        chance, unit: as for `mean`.
    """
    rows = len(values)
    total = float(values.sum() / max(rows, 1) if weights is None else weights @ values)
    return Metric(
        name=name,
        value=total if rows else None,
        n=rows,
        ci95=interval(values, np.arange(rows) if group is None else group, weights, cluster=cluster),
        unit=unit,
        coverage=coverage(rows, rows if expected is None else expected),
        chance=chance,
    )


def macro_mean(name: str, scores: Scores, by: str, *, chance: float | None = None, unit: str = "fraction") -> Metric:
    """Return the mean of the means of each value of one meta column: every category has equal weight.

    Balanced accuracy is this with `by` the column of the target. Rows without the column are omitted and lower the
    coverage. The interval is that of the weighted mean, a row weighing 1 / (categories * rows of its category).
    """
    value, mask = scored(scores)
    column = scores.meta.get(by)
    if column is not None:
        mask = mask & (column.codes >= 0)
    if column is None or not mask.any():
        return Metric(name, None, 0, None, unit, 0.0, chance)
    codes = column.codes[mask]
    counts = np.bincount(codes, minlength=len(column.names))
    weights = 1.0 / (np.count_nonzero(counts) * counts[codes])
    return mean_of(
        name,
        value[mask],
        scores.group[mask],
        weights,
        expected=scores.expected,
        cluster=cluster_word(scores),
        chance=chance,
        unit=unit,
    )


class RunningMean:
    """A mean of scores that come one by one, with the interval that `interval` gives for all rows at once.

    It holds counts and sums by cluster: memory grows with the clusters of several rows, not with the rows.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._total = self._squares = 0.0
        self._least, self._most = float("inf"), float("-inf")
        self._binary = True
        self._single = 0
        self._single_total = self._single_squares = 0.0
        self._place: dict[str, int] = {}
        self._sizes = array("q")
        self._sums = array("d")

    def add(self, value: float, cluster: str = "") -> None:
        """Add one score; rows of the same `cluster` are correlated, a row without one is independent."""
        self.rows += 1
        self._total += value
        self._squares += value * value
        self._least, self._most = min(self._least, value), max(self._most, value)
        self._binary = self._binary and value in (0.0, 1.0)
        if not cluster:
            self._single += 1
            self._single_total += value
            self._single_squares += value * value
            return
        place = self._place.setdefault(cluster, len(self._sizes))
        if place == len(self._sizes):
            self._sizes.append(0)
            self._sums.append(0.0)
        self._sizes[place] += 1
        self._sums[place] += value

    def change(self, before: float, after: float, cluster: str = "") -> None:
        """Replace a score that was added with the same `cluster`."""
        delta, delta_squares = after - before, after * after - before * before
        self._total += delta
        self._squares += delta_squares
        self._least, self._most = min(self._least, after), max(self._most, after)
        self._binary = self._binary and after in (0.0, 1.0)
        if cluster:
            self._sums[self._place[cluster]] += delta
        else:
            self._single_total += delta
            self._single_squares += delta_squares

    @property
    def mean(self) -> float | None:
        """The mean; None before the first score."""
        return self._total / self.rows if self.rows else None

    def interval(self, word: str = GROUP) -> Interval | None:
        """Return the 95 % interval of the mean, as `interval`; `word` names what a cluster shares."""
        n = self.rows
        if not n:
            return None
        clusters = self._single + len(self._sizes)
        mean = self._total / n
        bounded = self._least >= 0.0 and self._most <= 1.0
        if clusters == n and bounded and self._binary:
            return wilson(mean, n)
        if clusters == 1 and n > 1:
            return None
        sizes, sums = np.array(self._sizes, dtype=np.float64), np.array(self._sums, dtype=np.float64)
        deviations = sums - sizes * mean
        singles = self._single_squares - 2.0 * mean * self._single_total + self._single * mean * mean
        together = (float(deviations @ deviations) + max(0.0, singles)) / n**2
        alone = max(0.0, self._squares - n * mean * mean) / n**2 * (n / (n - 1) if n > 1 else 0.0)
        variance = alone if clusters == n else max(together * clusters / (clusters - 1), alone)
        kish = n**2 / (float(sizes @ sizes) + self._single)
        level = self._least == self._most or variance <= 0.0
        return from_moments(mean, variance, kish, clusters, n, bounded=bounded, level=level, cluster=word)
