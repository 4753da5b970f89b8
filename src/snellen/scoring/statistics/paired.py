"""Paired comparison of two runs over the same questions: difference, interval, test, smallest detectable difference."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor, sqrt
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index, cluster_sums, finite
from snellen.scoring.statistics.bootstrap import ROUNDING, SEED, fold
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.distributions import coin_tail, fair_coin_p, t_quantile, t_shift, t_upper_tail
from snellen.scoring.statistics.intervals import GROUP, Z95
from snellen.types import Interval, IntervalMethod, Metric

LEVEL, POWER = 0.05, 0.8
FLIP_SHIFTS = {6: 4.4, 7: 3.57, 8: 3.37}
"""Differences, in standard errors, that sign flips of so few clusters find with 80 % power, by simulation (normal cluster
sums, 10,000 draws): with fewer than 9 clusters their p-values are too coarse for `t_shift`."""


def mcnemar_power(n: int, discordance: float, difference: float) -> float:
    """Return the chance that the exact McNemar test at two-sided 5 % finds a difference of two accuracies.

    The number of questions on which one of the two is right is binomial, and so are the wins among them: both are summed
    over, but for numbers that occur less than once in 10^15.

    Args:
        n: questions that both runs answered.
        discordance: share of questions on which exactly one of the two is right, at least the difference.
        difference: of the accuracies, 0 to 1.
    """
    from scipy.special import bdtr, bdtrc

    if n <= 0 or discordance <= 0.0:
        return 0.0
    spread = 8.0 * sqrt(n * discordance * (1.0 - discordance)) + 8.0
    counts = np.arange(max(0, floor(n * discordance - spread)), min(n, ceil(n * discordance + spread)) + 1)
    chance = bdtr(counts, n, discordance) - np.where(counts > 0, bdtr(np.maximum(counts - 1, 0), n, discordance), 0.0)
    losses = _most_losses(int(counts[0]), int(counts[-1]))
    share = min(1.0, (discordance + difference) / (2.0 * discordance))
    some = losses >= 0
    few = np.where(some, losses, 0)
    found = bdtr(few, counts, 1.0 - share) + np.where(
        counts - few - 1 >= 0, bdtrc(counts - few - 1, counts, 1.0 - share), 0.0
    )
    return float(chance @ np.where(some, np.minimum(found, 1.0), 0.0))


@lru_cache(maxsize=64)
def _most_losses(least: int, most: int) -> NDArray[np.int64]:
    """Return, for each number of differing answers, the most losses with which p is below 5 %; -1 where none is."""
    from scipy.special import bdtr

    counts = np.arange(least, most + 1)
    losses = np.maximum(0, np.floor(counts / 2.0 - np.sqrt(counts)) - 3).astype(np.int64)
    for _ in range(8 + int(0.1 * sqrt(most))):
        losses += (2.0 * bdtr(losses + 1, counts, 0.5) < LEVEL) & (losses + 1 <= counts)
    return np.where((2.0 * bdtr(losses, counts, 0.5) < LEVEL) & (counts > 0), losses, -1)


@lru_cache(maxsize=1024)
def smallest_detectable(n: int, discordance: float, *, power: float = POWER) -> float | None:
    """Return the smallest difference of two accuracies that the exact McNemar test at two-sided 5 % finds with this power.

    Where it would exceed the discordance, that is taken to grow with it (every differing answer a win).

    Args:
        n: questions that both runs answered.
        discordance: share of questions on which exactly one of the two is right, 0 to 1.
        power: chance of finding a difference of that size, 0 to 1.

    Returns:
        0 to 1; None where n is too small for any difference.

    Raises:
        ValueError: if n is negative or a share lies outside 0 to 1.
    """
    if n < 0 or not 0.0 <= discordance <= 1.0 or not 0.0 < power < 1.0:
        raise ValueError(
            f"found n = {n}, discordance {discordance}, power {power}; expected n >= 0 and shares from 0 to 1"
        )
    if mcnemar_power(n, 1.0, 1.0) < power:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        if mcnemar_power(n, max(discordance, middle), middle) < power:
            low = middle
        else:
            high = middle
    return high


def smallest_by_flips(clusters: int, degrees: float, standard_error: float, *, power: float = POWER) -> float | None:
    """Return the smallest difference that sign flips of whole clusters find, in the scores' unit.

    The p-values of flips are multiples of 2 ** (1 - clusters), so that few clusters are tested at a level below 5 %; at
    that level the flips find what a t test finds (noncentral t).

    Args:
        clusters: how many there are.
        degrees: degrees of freedom of the standard error.
        standard_error: of the paired difference. At most 1e-12 is rounding of clusters that all differ by the same amount.

    Returns:
        None where even all flips in one direction stay above 5 %, or every cluster differs by the same.
    """
    few = min(clusters, round(degrees) + 1)
    if few < min(FLIP_SHIFTS) or standard_error <= ROUNDING:
        return None
    if few in FLIP_SHIFTS:
        return FLIP_SHIFTS[few] * standard_error
    least = smallest_flip_p(few)
    level = least * floor(LEVEL / least) if least > ROUNDING else LEVEL
    return t_shift(degrees, level, power) * standard_error


def smallest_flip_p(clusters: int) -> float:
    """Return the smallest two-sided p-value that sign flips of so many clusters can reach: 2 ** (1 - clusters)."""
    return float(2.0 ** (1 - clusters)) if clusters < 1_000 else 0.0


FLIPS = 10_000
MCNEMAR = "exact McNemar"
SIGN_FLIP = "cluster sign flips"
PAIRED_T = "paired t"


class Comparison(Struct, frozen=True):
    """The first run compared with the second, question by question.

    Attributes:
        difference: mean score of the first minus that of the second; positive if the first is better.
        ci95: 95 % interval of the difference; None for fewer than two clusters or without any difference within them.
        p_value: two-sided, under "neither is better".
        test: the test of the p-value.
        n: rows compared.
        clusters: independent units among them.
        wins: rows on which the first scored higher.
        losses: rows on which the second scored higher.
        smallest_detectable: the smallest true difference that this many questions detect with 80 % power; None if they
            are too few for any.
        interval: the method of `ci95`, or why there is none.
        smallest_p: the smallest p-value that sign flips of so many clusters can reach; None for other tests.
    """

    difference: float
    ci95: tuple[float, float] | None
    p_value: float
    test: str
    n: int
    clusters: int
    wins: int
    losses: int
    smallest_detectable: float | None
    interval: IntervalMethod | None = None
    smallest_p: float | None = None

    @property
    def test_text(self) -> str:
        """The test, with the smallest p-value that it can reach where that is above 0.1 %."""
        coarse = self.smallest_p is not None and self.smallest_p > 0.001
        return f"{self.test}, p at least {self.smallest_p:.2g}" if coarse else self.test

    def __post_init__(self) -> None:
        if isinstance(self.ci95, Interval):
            structs.force_setattr(self, "interval", self.ci95.about)
            structs.force_setattr(self, "ci95", (self.ci95[0], self.ci95[1]))

    def metric(self, name: str) -> Metric:
        """Return the difference with its interval as a metric."""
        return Metric(name, self.difference, self.n, self.ci95, interval=self.interval)


def mcnemar_interval(wins: int, losses: int, n: int) -> Interval:
    """Return the 95 % interval of the difference of two paired shares.

    Source: Bonett and Price 2012, J. Educational and Behavioral Statistics 37:479 (Laplace-adjusted Wald), one of the
    two recommended for small samples by Fagerland, Lydersen and Laake 2014, Statistics in Medicine 33:2850.
    """
    ends = _adjusted_ends((wins - losses) / n, (wins + losses) / n, n, 1.0, Z95)
    return Interval(max(-1.0, ends[0]), min(1.0, ends[1]), IntervalMethod("Bonett-Price", clusters=n))


def _adjusted_ends(mean: float, square: float, n: float, most: float, z: float) -> tuple[float, float]:
    """Return the Wald interval after two rows were added, a win and a loss of the largest size."""
    square, mean = (square * n + 2.0 * most**2) / (n + 2.0), mean * n / (n + 2.0)
    half = z * sqrt(max(0.0, square - mean**2) / (n + 2.0))
    return mean - half, mean + half


class Differences:
    """Differences of paired scores, with what is known of their mean.

    Attributes:
        sums: by cluster.
        error: standard error of the mean, and its degrees of freedom.
    """

    def __init__(self, delta: NDArray[np.float64], group: NDArray[np.int64]) -> None:
        self.sums = cluster_sums_of(delta, group, evidence=np.abs(delta))
        self.largest = float(np.abs(delta).max())
        spread = max(0.0, self.sums.square - self.sums.mean**2)
        variance, self.degrees = self.sums.precision(spread)
        self.error = sqrt(variance)
        self.size = min(float(self.sums.rows), spread / variance) if variance > 0.0 < spread else self.sums.effective

    def interval(self, bounded: bool, cluster: str) -> tuple[Interval | None, IntervalMethod]:
        """Return Bonett and Price's interval with the effective number of rows and Student's t, or None with the reason.

        The two rows added to it are as large as the largest difference; `bounded` scores without any get 1.
        """
        sums, robust = self.sums, self.sums.clusters < self.sums.rows
        largest = self.largest or (1.0 if bounded else 0.0)
        name = "cluster-robust Bonett-Price" if robust else "Bonett-Price"
        if not sums.is_enough:
            name = f"{IntervalMethod.NONE}: too few {'clusters' if robust else 'rows'}"
        elif not largest:
            name = f"{IntervalMethod.NONE}: no row differs"
        about = IntervalMethod(
            name, cluster=cluster if robust else None, clusters=sums.clusters, effective=sums.effective
        )
        if about.is_none:
            return None, about
        low, high = _adjusted_ends(sums.mean, sums.square, self.size, largest, t_quantile(self.degrees))
        return Interval(max(-1.0, low), min(1.0, high), about) if bounded else Interval(low, high, about), about


def sign_flip_p(sums: NDArray[np.float64], *, flips: int = FLIPS, seed: int = SEED) -> float:
    """Return the two-sided p-value of cluster differences [G] under "a and b may be swapped within any cluster".

    Each flip gives every cluster a random sign; p = (1 + flips at least as far from 0) / (1 + flips). Clusters of the
    same size of difference flip together, as one binomial draw, and more than bootstrap.FOLDED different ones in
    random groups, which is still a valid test (a subgroup of the flips).

    Source: Good 2005, Permutation, Parametric and Bootstrap Tests of Hypotheses, section 3.6; the added one from
    Phipson and Smyth 2010, Statistical Applications in Genetics and Molecular Biology 9:39.
    """
    totals, _ = flipped_totals(sums, flips=flips, seed=seed)
    observed = abs(float(sums.sum())) * (1.0 - 1e-12)
    return 1.0 if totals is None else (1 + int((np.abs(totals) >= observed).sum())) / (1 + flips)


def flipped_totals(
    sums: NDArray[np.float64], *, flips: int = FLIPS, seed: int = SEED
) -> tuple[NDArray[np.float64] | None, float]:
    """Return [flips] totals of cluster differences [G] under random signs, and the largest one possible.

    None in place of the totals if every difference is 0.
    """
    rng = np.random.default_rng(seed)
    sizes, counts = np.unique(np.abs(sums[sums != 0.0]), return_counts=True)
    if not len(sizes):
        return None, 0.0
    if len(sizes) > 2_000:
        sizes, counts = np.unique(np.abs(fold(sums[:, None], rng)[:, 0]), return_counts=True)
    batch = max(1, 2_000_000 // len(sizes))
    totals = []
    for start in range(0, flips, batch):
        heads = rng.binomial(counts, 0.5, size=(min(batch, flips - start), len(sizes)))
        totals.append((2.0 * heads - counts) @ sizes)
    return np.concatenate(totals), float(sizes @ counts)


def compare(a: Any, b: Any, group: Any, *, flips: int = FLIPS, seed: int = SEED, cluster: str = GROUP) -> Comparison:
    """Compare two runs on the rows that both answered.

    Right-or-wrong scores with one row a cluster: exact McNemar test with its exact power, Bonett-Price interval. Otherwise:
    sign flips of whole clusters, and the same interval with the effective number of rows.

    Args:
        a: [n] scores of the first run.
        b: [n] scores of the second run on the same questions, in the same order.
        group: [n] int64, equal for rows of one cluster.
        flips: sign flips; 0: a cluster-robust paired t test in their place, as `compare_by_t`.
        seed: the same seed gives the same numbers.
        cluster: what the rows of a cluster share, in words.

    Raises:
        ValueError: if the arrays differ in length, are empty, or hold values that are not finite.

    Source: McNemar 1947, Psychometrika 12:153; pairing as in Miller 2024, arXiv 2411.00640, section 4.
    """
    first, second, groups = finite(a), finite(b), np.asarray(group, dtype=np.int64)
    if not len(first) == len(second) == len(groups) or len(first) == 0:
        raise ValueError(
            f"found {len(first)}, {len(second)} and {len(groups)} rows; expected three equal lengths above 0"
        )
    delta = first - second
    n, wins, losses = len(delta), int((delta > 0).sum()), int((delta < 0).sum())
    index, clusters = cluster_index(groups)
    difference = float(delta.sum()) / n
    if clusters == n and bool(np.isin([first, second], (0.0, 1.0)).all()):
        p_value, ends = fair_coin_p(wins, losses), mcnemar_interval(wins, losses, n)
        smallest = smallest_detectable(n, (wins + losses) / n)
        return Comparison(difference, ends, p_value, MCNEMAR, n, clusters, wins, losses, smallest)
    differences = Differences(delta, groups)
    bounded = bool(min(first.min(), second.min()) >= 0.0 and max(first.max(), second.max()) <= 1.0)
    ends_or_none, about = differences.interval(bounded, cluster)
    if flips:
        sums = cluster_sums(delta[:, None], index, clusters)[:, 0]
        test, p_value = SIGN_FLIP, sign_flip_p(sums, flips=flips, seed=seed)
    else:
        test, p_value = PAIRED_T, _paired_t_p(difference, differences, clusters)
    smallest = smallest_by_flips(clusters, differences.sums.degrees, differences.error)
    least_p = max(smallest_flip_p(clusters), 1.0 / (1.0 + flips)) if flips else None
    return Comparison(difference, ends_or_none, p_value, test, n, clusters, wins, losses, smallest, about, least_p)


def compare_by_t(a: Any, b: Any, group: Any, *, cluster: str = GROUP) -> Comparison:
    """Compare two runs as `compare` does, by a cluster-robust paired t test in place of drawn flips.

    For pages that compare many pairs at once: a millisecond for 10,000 rows of any scores. Right-or-wrong scores with one
    row a cluster get the exact McNemar test all the same. Fewer than about 50 clusters are too few for it.

    Args:
        a, b, group, cluster: as for `compare`.

    Raises:
        ValueError: as `compare`.
    """
    return compare(a, b, group, flips=0, cluster=cluster)


def _paired_t_p(difference: float, differences: Differences, clusters: int) -> float:
    """Return the two-sided p-value of a t test; that of sign flips where every cluster differs by the same amount."""
    if differences.sums.is_enough and differences.error > ROUNDING:
        return min(1.0, 2.0 * t_upper_tail(abs(difference) / differences.error, differences.degrees))
    return smallest_flip_p(clusters) if abs(difference) > ROUNDING and differences.error <= ROUNDING else 1.0


class DropTest(Struct, frozen=True):
    """A drop of the first run below the second, tested against a margin.

    Attributes:
        comparison: the two-sided comparison of the same rows, with difference and interval.
        margin: the drop that is accepted, 0 to 1, in the scores' unit.
        p_value: one-sided, under "the first is at most `margin` worse".
        test: the test of the p-value.
        detectable: the smallest true drop that this many rows show with 80 % power; None if they can show none, or if
            no row differs.
    """

    comparison: Comparison
    margin: float
    p_value: float
    test: str
    detectable: float | None


def drop_test(
    a: Any,
    b: Any,
    group: Any,
    *,
    margin: float = 0.0,
    alpha: float = 0.05,
    flips: int = FLIPS,
    seed: int = SEED,
) -> DropTest:
    """Test whether the first run is worse than the second by more than `margin`.

    Right-or-wrong scores with one row a cluster and no margin: exact one-sided McNemar test. Otherwise: one-sided sign
    flips of whole clusters, after the margin was added to every row of the first run.

    Args:
        a: [n] scores of the first run.
        b: [n] scores of the second run on the same questions, in the same order.
        group: [n] int64, equal for rows of one cluster.
        margin: the drop that is accepted, at least 0.
        alpha: the level of the test, for `detectable`.
        flips, seed: as for `compare`.

    Raises:
        ValueError: if the margin is negative or not finite, or the arrays are not what `compare` takes.

    Source: McNemar 1947, Psychometrika 12:153; shifted sign flips as in Good 2005, Permutation, Parametric and Bootstrap
    Tests of Hypotheses, section 3.2. They are exact for differences that are symmetric about -margin, and hold the level
    in large samples otherwise.
    """
    if not 0.0 <= margin < float("inf"):
        raise ValueError(f"found margin {margin}; expected a number of at least 0")
    comparison = compare(a, b, group, flips=flips, seed=seed)
    delta, cluster = finite(a) - finite(b), np.asarray(group, dtype=np.int64)
    index, clusters = cluster_index(cluster)
    if margin == 0.0 and comparison.test == MCNEMAR:
        test, p_value = f"one-sided {MCNEMAR}", losing_coin_p(comparison.wins, comparison.losses)
    else:
        sums = cluster_sums((delta + margin)[:, None], index, clusters)[:, 0]
        test, p_value = f"one-sided {SIGN_FLIP}", lower_flip_p(sums, flips=flips, seed=seed)
    return DropTest(comparison, margin, p_value, test, _detectable(delta, cluster, clusters, margin, alpha))


def losing_coin_p(wins: int, losses: int) -> float:
    """Return the chance of at least this many losses among `wins + losses` tosses of a fair coin.

    Raises:
        ValueError: if a count is negative.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"found {wins} wins and {losses} losses; counts are 0 or more")
    return 1.0 if losses == 0 else coin_tail(wins, wins + losses)


def lower_flip_p(sums: NDArray[np.float64], *, flips: int = FLIPS, seed: int = SEED) -> float:
    """Return the one-sided p-value of cluster differences [G]: the share of sign flips with as low a total.

    Source: as for `sign_flip_p`.
    """
    totals, largest = flipped_totals(sums, flips=flips, seed=seed)
    if totals is None:
        return 1.0
    return (1 + int((totals <= float(sums.sum()) + 1e-12 * largest).sum())) / (1 + flips)


def _detectable(
    delta: NDArray[np.float64], cluster: NDArray[np.int64], clusters: int, margin: float, alpha: float
) -> float | None:
    """Return the margin and what a one-sided t test at level `alpha` finds; None where 2 ** -clusters exceeds `alpha`."""
    differences = Differences(delta, cluster)
    if 0.5**clusters > alpha or not differences.sums.is_enough or differences.error <= 1e-12:
        return None
    return margin + t_shift(differences.sums.degrees, 2.0 * alpha, POWER) * differences.error
