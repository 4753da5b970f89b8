"""Accuracy against chance, where the chance of a right guess differs from question to question; and whether counts come from equally
likely categories.

The latter is for gold answers: a test set whose right option is mostly the first rewards a model that always says A.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index, cluster_sums
from snellen.scoring.statistics.bootstrap import SEED
from snellen.scoring.statistics.distributions import chi_square_tail
from snellen.scoring.statistics.paired import SIGN_FLIP, lower_flip_p

EXACT = "exact"


class AboveChance(Struct, frozen=True):
    """One-sided p-value under "right answers are guesses", and the test that gave it."""

    p_value: float
    test: str


def above_chance(values: NDArray[np.float64], chance: NDArray[np.float64], group: NDArray[np.int64]) -> AboveChance:
    """Test whether more answers are right than guessing reaches.

    Right-or-wrong scores: the exact upper tail of a sum of independent guesses, for equal chances the binomial one. Rows
    that share clusters, or partial credit: sign flips of the clusters' sums of score minus chance as well. The larger
    p-value of the two counts, since rows of one cluster may be right together.

    Args:
        values: [n] scores, 0 to 1.
        chance: [n] what guessing reaches, 0 to 1.
        group: [n] equal for rows of one cluster.
    """
    index, clusters = cluster_index(group)
    tests: list[AboveChance] = []
    if bool(np.isin(values, (0.0, 1.0)).all()):
        tests.append(AboveChance(guesses_tail(int(values.sum()), chance), EXACT))
    if clusters < len(values) or not tests:
        sums = cluster_sums((values - chance)[:, None], index, clusters)[:, 0]
        tests.append(AboveChance(lower_flip_p(-sums), f"one-sided {SIGN_FLIP}"))
    return max(tests, key=lambda test: test.p_value)


def guesses_tail(right: int, chance: NDArray[np.float64]) -> float:
    """Return the chance that at least `right` of [n] independent guesses are right; chances that are equal are one binomial.

    Source: the Poisson binomial distribution by convolution, Hong 2013, Computational Statistics & Data Analysis 59:41.
    """
    return float(min(1.0, guesses(chance)[max(0, right) :].sum()))


def guesses(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [n + 1] probabilities of 0 to n right ones among independent guesses with [n] chances."""
    from scipy.stats import binom

    spread = np.ones(1)
    for share, count in zip(*np.unique(np.round(chance, 9), return_counts=True), strict=True):
        spread = np.convolve(spread, binom.pmf(np.arange(int(count) + 1), int(count), float(share)))
    return spread


FEWEST_EXPECTED = 5.0
"""Expected count below which the chi-square distribution is not used (Cochran 1954, Biometrics 10:417)."""
DRAWS = 20_000


class GoodnessOfFit(Struct, frozen=True):
    """Result of a goodness-of-fit test.

    Attributes:
        statistic: Pearson's chi-square, summed over the strata.
        degrees: its degrees of freedom.
        p_value: under "every category of a stratum is equally likely".
        test: how the p-value was made.
    """

    statistic: float
    degrees: int
    p_value: float
    test: str


def uniform_fit(strata: Sequence[Sequence[int]], *, draws: int = DRAWS, seed: int = SEED) -> GoodnessOfFit:
    """Test whether the categories of each stratum are equally likely.

    Pearson's chi-square of every stratum is summed, and so are its degrees of freedom. Where an expected count is below
    5, the p-value is simulated: the share of draws from the hypothesis whose statistic is at least as large.

    Args:
        strata: the counts of the categories, one sequence per stratum, each with at least two categories.

    Raises:
        ValueError: a stratum has less than two categories, or a negative count.

    Source: Pearson 1900, Philosophical Magazine 50:157; simulation with (r + 1) / (draws + 1), Davison and Hinkley 1997,
    Bootstrap Methods and their Application, 4.25.
    """
    if any(len(counts) < 2 or min(counts) < 0 for counts in strata):
        raise ValueError(
            f"found strata {[list(counts) for counts in strata]}; expected counts of two categories or more"
        )
    strata = [counts for counts in strata if sum(counts)]
    statistic = sum(_pearson(counts) for counts in strata)
    degrees = sum(len(counts) - 1 for counts in strata)
    if not strata:
        return GoodnessOfFit(0.0, 0, 1.0, "chi-square")
    if all(sum(counts) / len(counts) >= FEWEST_EXPECTED for counts in strata):
        return GoodnessOfFit(statistic, degrees, chi_square_tail(statistic, degrees), "chi-square")
    generator = np.random.default_rng(seed)
    totals = np.zeros(draws)
    for counts in strata:
        size, categories = sum(counts), len(counts)
        drawn = generator.multinomial(size, [1.0 / categories] * categories, draws)
        totals += ((drawn - size / categories) ** 2).sum(axis=1) * (categories / size)
    at_least = int((totals >= statistic - 1e-9 * max(1.0, statistic)).sum())
    return GoodnessOfFit(statistic, degrees, (at_least + 1) / (draws + 1), "chi-square, simulated")


def _pearson(counts: Sequence[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected
