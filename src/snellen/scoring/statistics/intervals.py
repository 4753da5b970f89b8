"""Intervals of means that hold for small n, for shares near 0 and 1, and for rows in clusters; of all rows, or running. Variance components.

They are between questions, and between repeats of one question.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import cbrt, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.scoring.scores import Scores, cluster_index
from snellen.types import Interval, IntervalMethod, Metric

if TYPE_CHECKING:
    from snellen.scoring.statistics.clusters import ClusterSums

NORMAL = NormalDist()
Z95 = NORMAL.inv_cdf(0.975)
FEWEST_UNBOUNDED = 11.0
"""Fewer degrees of freedom give no interval of scores without bounds: nothing shows how skewed they are."""
MOST_STRATA = 50
"""Groups of a macro mean whose own intervals are looked at; more of them are many enough for the weighted mean's."""
FEW_ROWS = 5
"""A macro mean says so if one of its groups has fewer rows."""


def expanded_levels(clusters: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two quantile levels of bootstrap replicates that give an interval of `level` for few clusters.

    The percentile interval is too narrow by about sqrt((G - 1) / G) and uses z where t with G - 1 degrees of freedom
    belongs; quantiles further out correct both. Source: Hesterberg 2015, "What Teachers Should Know About the
    Bootstrap", The American Statistician 69(4), section 5.3.
    """
    from snellen.scoring.statistics.distributions import t_quantile

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
    from snellen.scoring.statistics.distributions import beta_quantile

    if not 0.0 <= right <= n or n <= 0.0:
        raise ValueError(f"found {right} right of n = {n}; expected 0 to n, and n > 0")
    a, b = right + 0.5, n - right + 0.5
    return 0.0 if right == 0.0 else beta_quantile(a, b, 0.025), 1.0 if right == n else beta_quantile(a, b, 0.975)


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


def interval(
    values: NDArray[np.float64],
    group: NDArray[np.int64],
    *,
    cluster: str = GROUP,
) -> Interval | None:
    """Return the 95 % interval of the mean of scores; None where none can be given, see `interval_or_reason`."""
    return interval_or_reason(values, group, cluster=cluster)[0]


def interval_or_reason(
    values: NDArray[np.float64],
    group: NDArray[np.int64],
    *,
    weights: NDArray[np.float64] | None = None,
    strata: NDArray[Any] | None = None,
    cluster: str = GROUP,
    bounded: bool = True,
) -> tuple[Interval | None, IntervalMethod | None]:
    """Return the 95 % interval of the mean of scores with its method, or None with the reason.

    - Values 0 and 1, one row a cluster: Wilson.
    - Other values from 0 to 1, or clusters: Wilson's formula with the effective sample size mean * (1 - mean) / variance
      and Student's t, variance and degrees of freedom as in `clusters`. For shares this is the modified Wilson interval of
      survey statistics (Korn and Graubard 1998, Survey Methodology 24:193; best of seven in Franco, Little, Louis and
      Slud 2019, J. Survey Statistics and Methodology 7:334); for graded scores it is the quasi-binomial score interval.
    - All values equal: no variance can be seen, so the clusters count as single rows (full correlation within).
    - Values beyond 0 to 1: the wider ends of Student's t and of Hall's interval for skewed scores (Hall 1992, J. Royal
      Statistical Society B 54:221).
    - None for no rows, for fewer than 4 degrees of freedom (11 without bounds), and where one cluster holds over half the rows.

    Args:
        values: [n] finite scores.
        group: [n] int64, equal for rows of one cluster.
        weights: [n] positive, summing to 1; None for equal ones.
        strata: [n] number of the group of each row, for the mean of the means of these groups; they give the weights.
        cluster: what the rows of one cluster share, for the interval's description.
        bounded: False for scores that may lie beyond 0 to 1, even if these do not.
    """
    from snellen.scoring.statistics.clusters import cluster_sums_of

    rows = len(values)
    if rows == 0:
        return None, None
    bounded = bounded and bool(values.min() >= 0.0 and values.max() <= 1.0)
    weights = weights if strata is None else equal_weights(strata)
    if weights is None and bounded and bool(np.isin(values, (0.0, 1.0)).all()) and cluster_index(group)[1] == rows:
        return _with_method(wilson(float(values.sum()) / rows, rows))
    above = bounded and float(np.average(values, weights=weights)) >= 0.5
    sums = cluster_sums_of(values, group, weights, (1.0 - values if above else values) if bounded else None)
    ends = from_sums(sums, bounded=bounded, level=bool(np.ptp(values) == 0.0), cluster=cluster)
    if strata is not None and bounded:
        ends = _mover(values, group, strata, sums, ends, cluster)
    return _with_method(ends) if ends is not None else (None, _too_few(sums, cluster))


def _with_method(ends: Interval) -> tuple[Interval, IntervalMethod]:
    return ends, ends.about


def equal_weights(strata: NDArray[Any]) -> NDArray[np.float64]:
    """Return [n] weights, summing to 1, with which every group of rows weighs the same."""
    _, index, counts = np.unique(strata, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (len(counts) * counts[index.reshape(-1)]), dtype=np.float64)


def _too_few(sums: ClusterSums, cluster: str) -> IntervalMethod:
    """Return the reason for which a mean has no interval."""
    shared = sums.clusters < sums.rows
    what = "clusters" if shared else "rows"
    return IntervalMethod(
        f"{IntervalMethod.NONE}: too few {what}",
        cluster=cluster if shared else None,
        clusters=sums.clusters,
        effective=sums.effective,
    )


def from_sums(sums: ClusterSums, *, bounded: bool, level: bool, cluster: str) -> Interval | None:
    """Return the interval of a mean from its sums: the rule of `interval_or_reason`, except for independent binary rows.

    Args:
        bounded: whether all values lie from 0 to 1.
        level: whether all values are equal.
        cluster: what the rows of one cluster share.
    """
    from snellen.scoring.statistics.distributions import t_quantile

    robust = sums.clusters < sums.rows
    shared, count = cluster if robust else None, sums.clusters
    if bounded and level and (sums.is_enough or not robust):
        name = "Wilson over clusters" if robust else "Wilson"
        about = IntervalMethod(name, cluster=shared, clusters=count, effective=sums.effective)
        return wilson(min(1.0, max(0.0, sums.mean)), sums.effective, about=about)
    if not sums.is_enough:
        return None
    if bounded:
        mean = min(1.0, max(0.0, sums.mean))
        variance, degrees = sums.precision(mean * (1.0 - mean))
        name = "cluster-robust Wilson" if robust else "Wilson, effective size"
        about = IntervalMethod(name, cluster=shared, clusters=count, effective=sums.effective)
        size = mean * (1.0 - mean) / variance if variance > 0.0 else 0.0
        return (
            wilson(mean, size, t_quantile(degrees), about) if size > 0.0 else wilson(mean, sums.effective, about=about)
        )
    if sums.degrees < FEWEST_UNBOUNDED:
        return None
    variance, degrees = sums.precision()
    name = "cluster-robust t" if robust else "Student t"
    about = IntervalMethod(name, cluster=shared, clusters=count, effective=sums.effective)
    return Interval(*_skewed_ends(sums.mean, sqrt(variance), t_quantile(degrees), sums.skewness), about)


def _skewed_ends(mean: float, error: float, t: float, skewness: float) -> tuple[float, float]:
    """Return the wider ends of mean -+ t * error and of Hall's cubic transformation for skewed scores."""
    steps = [t, -t]
    if abs(skewness) > 1e-9:
        steps += [3.0 / skewness * (cbrt(1.0 + skewness * (y - skewness / 6.0)) - 1.0) for y in (t, -t)]
    return mean - max(steps) * error, mean - min(steps) * error


def mover(
    values: Sequence[float], ends: Sequence[tuple[float, float]], factors: Sequence[float], correlation: float = 0.0
) -> tuple[float, float]:
    """Return the interval of a weighted sum of estimates from theirs, by the method of variance estimates recovery.

    An end on the wrong side of its estimate counts as distance 0.

    Args:
        values, ends: the estimates and their 95 % intervals.
        factors: their weights in the sum; a difference has 1 and -1.
        correlation: of two estimates; more of them are independent.

    Source: Zou and Donner 2008, Statistics in Medicine 27:1693; of a difference Newcombe 1998, 17:873 and 17:2635.
    """
    down, up = [], []
    for value, (low, high), factor in zip(values, ends, factors, strict=True):
        arms = abs(factor) * max(0.0, value - low), abs(factor) * max(0.0, high - value)
        down.append(arms[factor < 0.0])
        up.append(arms[factor > 0.0])
    middle = sum(factor * value for factor, value in zip(factors, values, strict=True))
    shared = [2.0 * correlation * arms[0] * arms[1] if correlation else 0.0 for arms in (down, up)]
    low_arm, high_arm = (
        sqrt(max(0.0, sum(x * x for x in arms) - both)) for arms, both in zip((down, up), shared, strict=True)
    )
    return middle - low_arm, middle + high_arm


def _clopper_pearson(right: float, n: int) -> tuple[float, float]:
    """Return the exact interval of a share, Clopper and Pearson 1934, Biometrika 26:404; `right` need not be whole."""
    from snellen.scoring.statistics.distributions import beta_quantile

    low = beta_quantile(right, n - right + 1.0, 0.025) if right > 0.0 else 0.0
    return low, beta_quantile(right + 1.0, n - right, 0.975) if right < n else 1.0


def _mover(
    values: NDArray[np.float64],
    group: NDArray[np.int64],
    strata: NDArray[Any],
    sums: ClusterSums,
    weighted: Interval | None,
    cluster: str,
) -> Interval | None:
    """Return the wider ends of the weighted mean's interval and of MOVER over the groups' own ones.

    The weighted mean's interval does not see what a group of few rows leaves unknown. MOVER does (Zou and Donner 2008,
    Statistics in Medicine 27:1693), but is too short for many groups that are nearly all right. A group without an
    interval of its own, or with fewer than 5 clusters, gets that of Clopper and Pearson for as many rows. Where clusters lie in several groups, MOVER alone, which
    takes these for independent, gives none.
    """
    numbers, index, counts = np.unique(strata, return_inverse=True, return_counts=True)
    if len(numbers) > MOST_STRATA:
        return weighted
    rows_of = np.split(np.argsort(index.reshape(-1), kind="stable"), np.cumsum(counts)[:-1])
    shares: list[float] = []
    known: list[tuple[float, float]] = []
    clusters = 0
    for rows in rows_of:
        share = float(values[rows].mean())
        held = cluster_index(group[rows])[1]
        ends: tuple[float, float] | None = None if held < FEW_ROWS else interval(values[rows], group[rows])
        ends = ends or _clopper_pearson(min(1.0, share) * held, held)
        clusters += held
        shares.append(share)
        known.append(ends)
    if weighted is None and clusters > sums.clusters:
        return None
    low, high = mover(shares, known, [1.0 / len(numbers)] * len(numbers))
    if weighted is not None:
        low, high = min(low, weighted[0]), max(high, weighted[1])
    robust = sums.clusters < sums.rows
    name = "cluster-robust MOVER" if robust else "MOVER"
    if counts.min() < FEW_ROWS:
        name += f", a group under {FEW_ROWS} rows"
    about = IntervalMethod(name, cluster=cluster if robust else None, clusters=sums.clusters, effective=sums.effective)
    return Interval(max(0.0, low), min(1.0, high), about)


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
    *,
    weights: NDArray[np.float64] | None = None,
    strata: NDArray[Any] | None = None,
    expected: int | None = None,
    cluster: str = GROUP,
    chance: float | None = None,
    unit: str = "fraction",
) -> Metric:
    """Return the mean of [n] finite scores with its interval; no value for no rows.

    Args:
        values, group, weights, strata, cluster: as for `interval_or_reason`; group None: every row is a cluster of its own.
        expected: rows of a complete run, for the coverage; None: these are all.
        chance, unit: as for `mean`.
    """
    rows = len(values)
    shares = weights if strata is None else equal_weights(strata)
    total = float(values.sum() / max(rows, 1) if shares is None else shares @ values)
    groups = np.arange(rows) if group is None else group
    ends, about = interval_or_reason(
        values, groups, weights=weights, strata=strata, cluster=cluster, bounded=unit == "fraction"
    )
    return Metric(
        name=name,
        value=total if rows else None,
        n=rows,
        ci95=ends,
        unit=unit,
        coverage=coverage(rows, rows if expected is None else expected),
        chance=chance,
        interval=about,
    )


def macro_mean(name: str, scores: Scores, by: str, *, chance: float | None = None, unit: str = "fraction") -> Metric:
    """Return the mean of the means of each value of one meta column: every category has equal weight.

    Balanced accuracy is this with `by` the column of the target. Rows without the column are omitted and lower the
    coverage.
    """
    value, mask = scored(scores)
    column = scores.meta.get(by)
    if column is not None:
        mask = mask & (column.codes >= 0)
    if column is None or not mask.any():
        return Metric(name, None, 0, None, unit, 0.0, chance)
    return mean_of(
        name,
        value[mask],
        scores.group[mask],
        strata=column.codes[mask],
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
        self._single_total = self._single_squares = self._single_cubes = 0.0
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
            self._single_cubes += value**3
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
            self._single_cubes += after**3 - before**3

    @property
    def mean(self) -> float | None:
        """The mean; None before the first score."""
        return self._total / self.rows if self.rows else None

    def interval(self, word: str = GROUP) -> Interval | None:
        """Return the 95 % interval of the mean, as `interval`; `word` names what a cluster shares."""
        n = self.rows
        if not n:
            return None
        bounded = self._least >= 0.0 and self._most <= 1.0
        if self._single + len(self._sizes) == n and bounded and self._binary:
            return wilson(self._total / n, n)
        return from_sums(self._sums_of(bounded), bounded=bounded, level=self._least == self._most, cluster=word)

    def _sums_of(self, bounded: bool) -> ClusterSums:
        """Return the sums by cluster; all rows without one are one entry."""
        from snellen.scoring.statistics.clusters import ClusterSums

        n, mean, alone = self.rows, self._total / self.rows, self._single
        sizes, sums = np.array(self._sizes, dtype=np.float64), np.array(self._sums, dtype=np.float64)
        squares, cubes = self._single_squares, self._single_cubes
        deviations = sums - sizes * mean
        minority = sizes - sums if mean >= 0.5 else sums
        singles = np.full(1 if alone else 0, 1.0 / max(alone, 1))
        least = self._single_total
        deviation2 = max(0.0, squares - 2.0 * mean * least + alone * mean**2)
        deviation3 = cubes - 3.0 * mean * squares + 3.0 * mean**2 * least - alone * mean**3
        rare, rare2 = (alone - least, alone - 2.0 * least + squares) if mean >= 0.5 else (least, squares)

        def joined(clustered: NDArray[np.float64], single: float) -> NDArray[np.float64]:
            return np.concatenate([clustered, singles * single])

        return ClusterSums(
            mean=mean,
            square=self._squares / n,
            rows=n,
            alone=max(0.0, self._squares - n * mean * mean) / n**2 * (n / (n - 1) if n > 1 else 0.0),
            times=np.concatenate([np.ones(len(sizes)), np.full(len(singles), float(alone))]),
            weight=joined(sizes / n, alone / n),
            row_weights=joined(sizes / n**2, alone / n**2),
            influence=joined(deviations**2 / n**2, deviation2 / n**2),
            influence_cubed=joined(deviations**3 / n**3, deviation3 / n**3),
            between=joined(sums**2 / sizes / n, squares / n),
            evidence=joined(minority / n, rare / n) if bounded else joined(sizes, 0.0),
            evidence_squared=joined(minority**2 / n**2, rare2 / n**2) if bounded else joined(sizes, 0.0),
        )
