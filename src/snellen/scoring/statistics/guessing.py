"""Accuracy against chance, where the chance of a right guess differs from question to question."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index, cluster_sums
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
