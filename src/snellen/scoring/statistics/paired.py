"""Paired comparison of two runs over the same questions: difference, interval, test, smallest detectable difference."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index, cluster_sums, finite
from snellen.scoring.statistics.bootstrap import REPLICATES, ROUNDING, SEED, fold, of_sums
from snellen.scoring.statistics.intervals import (
    GROUP,
    NORMAL,
    Z95,
    fair_coin_p,
    robust_variance,
    t_quantile,
    t_upper_tail,
)
from snellen.types import Interval, IntervalMethod, Metric


def smallest_detectable(n: int, discordance: float, *, power: float = 0.8) -> float | None:
    """Return the smallest difference of two accuracies that a paired test detects at two-sided 5 % with this power.

    Solves n = (z * sqrt(d) + z_power * sqrt(d - x ** 2)) ** 2 / x ** 2 for x, with d the discordance; where x would
    exceed d, discordance is taken to grow with it (every differing answer a win).

    Args:
        n: questions that both runs answered.
        discordance: share of questions on which exactly one of the two is right, 0 to 1.
        power: chance of finding a difference of that size, 0 to 1.

    Returns:
        0 to 1; None where n is too small for any difference.

    Raises:
        ValueError: if n is negative or a share lies outside 0 to 1.

    Source: Connor 1987, Biometrics 43:207, equation 3 (the sample size of McNemar's test).
    """
    if n < 0 or not 0.0 <= discordance <= 1.0 or not 0.0 < power < 1.0:
        raise ValueError(
            f"found n = {n}, discordance {discordance}, power {power}; expected n >= 0 and shares from 0 to 1"
        )
    z_power = NORMAL.inv_cdf(power)

    def missing(x: float) -> float:
        d = max(discordance, x)
        return Z95 * sqrt(d) + z_power * sqrt(max(0.0, d - x * x)) - x * sqrt(n)

    if missing(1.0) > 0.0:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if missing(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high


def smallest_detectable_mean(standard_error: float, *, power: float = 0.8) -> float:
    """Return the same for mean scores, given the standard error of the paired difference, in the scores' unit.

    Source: (z + z_power) * standard error, as in Miller 2024, arXiv 2411.00640, section 5.
    """
    return (Z95 + NORMAL.inv_cdf(power)) * standard_error


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
        interval: the method of `ci95`.
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
    up, down = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    half = Z95 * sqrt((up + down - (up - down) ** 2) / (n + 2))
    about = IntervalMethod("Bonett-Price", clusters=n)
    return Interval(max(-1.0, up - down - half), min(1.0, up - down + half), about)


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


def compare(
    a: Any,
    b: Any,
    group: Any,
    *,
    replicates: int = REPLICATES,
    flips: int = FLIPS,
    seed: int = SEED,
    cluster: str = GROUP,
) -> Comparison:
    """Compare two runs on the rows that both answered.

    Right-or-wrong scores with one row a cluster: exact McNemar test, Bonett-Price interval, Connor's power formula.
    Otherwise: sign flips of whole clusters, paired cluster bootstrap, and (z + z_power) * the cluster-robust standard
    error.

    Args:
        a: [n] scores of the first run.
        b: [n] scores of the second run on the same questions, in the same order.
        group: [n] int64, equal for rows of one cluster.
        replicates: bootstrap resamples.
        flips: sign flips.
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
    ci95: Interval | None
    if _is_mcnemar(first, second, groups):
        test, p_value, ci95 = MCNEMAR, fair_coin_p(wins, losses), mcnemar_interval(wins, losses, n)
        smallest = smallest_detectable(n, (wins + losses) / n)
    else:
        columns = np.stack([delta, np.ones(n)], axis=1)
        _, ci95 = of_sums(
            columns, groups, lambda sums: sums[:, 0] / sums[:, 1], replicates=replicates, seed=seed, cluster=cluster
        )
        sums = cluster_sums(columns[:, :1], index, clusters)[:, 0]
        test, p_value = SIGN_FLIP, sign_flip_p(sums, flips=flips, seed=seed)
        variance, _, _ = robust_variance(delta, np.full(n, 1.0 / n), groups)
        smallest = _smallest_of_flips(clusters, sqrt(variance))
    return Comparison(difference, ci95, p_value, test, n, clusters, wins, losses, smallest)


def compare_by_t(a: Any, b: Any, group: Any, *, cluster: str = GROUP) -> Comparison:
    """Compare two runs as `compare` does, by a cluster-robust paired t test instead of drawn flips and resamples.

    For pages that compare many pairs at once: a millisecond for 10,000 rows of any scores. Right-or-wrong scores with one
    row a cluster get the exact McNemar test all the same. Fewer than about 50 clusters are too few for it.

    Args:
        a, b, group, cluster: as for `compare`.

    Raises:
        ValueError: as `compare`.

    Source: Liang and Zeger 1986, Biometrika 73:13, with t of G - 1 degrees of freedom (Cameron and Miller 2015, J. Human
    Resources 50:317); paired as in Miller 2024, arXiv 2411.00640, section 4.
    """
    first, second, groups = finite(a), finite(b), np.asarray(group, dtype=np.int64)
    if not len(first) == len(second) == len(groups) or len(first) == 0 or _is_mcnemar(first, second, groups):
        return compare(first, second, groups, cluster=cluster)
    delta = first - second
    n = len(delta)
    difference = float(delta.sum()) / n
    variance, _, clusters = robust_variance(delta, np.full(n, 1.0 / n), groups)
    error = sqrt(variance)
    ci95, p_value = None, 1.0
    if isfinite(error) and clusters > 1 and error > ROUNDING:
        half = t_quantile(clusters - 1) * error
        about = IntervalMethod("paired t", cluster=cluster if clusters < n else None, clusters=clusters)
        ci95 = Interval(difference - half, difference + half, about)
        p_value = min(1.0, 2.0 * t_upper_tail(abs(difference) / error, clusters - 1))
    elif abs(difference) > ROUNDING:  # every cluster differs by the same amount, or there is a single one
        p_value = min(1.0, 2.0 ** (1 - clusters))
    wins, losses = int((delta > 0).sum()), int((delta < 0).sum())
    smallest = _smallest_of_flips(clusters, error) if isfinite(error) else None
    return Comparison(difference, ci95, p_value, PAIRED_T, n, clusters, wins, losses, smallest)


def _is_mcnemar(first: NDArray[np.float64], second: NDArray[np.float64], groups: NDArray[np.int64]) -> bool:
    """Return True for right-or-wrong scores with one row a cluster."""
    return cluster_index(groups)[1] == len(groups) and bool(np.isin([first, second], (0.0, 1.0)).all())


def _smallest_of_flips(clusters: int, standard_error: float) -> float | None:
    """Return the smallest difference that sign flips detect; None if even all flips in one direction stay above 5 %.

    A standard error of at most 1e-12 is rounding of clusters that all differ by the same amount.
    """
    if 2.0 ** (1 - clusters) > 0.05 or standard_error <= 1e-12:
        return None
    return smallest_detectable_mean(standard_error)
