"""Ranks of several models over several data sets: the Friedman test, and the Nemenyi critical distance."""

from __future__ import annotations

from math import ceil, inf, sqrt

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.statistics.multiple import letters

ALPHA = 0.05


class RankTest(Struct, frozen=True):
    """The Friedman test of k models over n data sets.

    Attributes:
        ranks: [k] mean rank of each model, 1 the best; equal values share the mean of their ranks.
        chi2, p_value: of the Friedman test, corrected for ties, with k - 1 degrees of freedom.
        distance: two models whose mean ranks differ by more are told apart by the Nemenyi test.
        groups: [k] letters; two models that share one are not told apart.
        sets: n.
        alpha: level of the distance.
    """

    ranks: tuple[float, ...]
    chi2: float
    p_value: float
    distance: float
    groups: tuple[str, ...]
    sets: int
    alpha: float


def critical_distance(models: int, sets: int, alpha: float = ALPHA) -> float:
    """Return the Nemenyi critical distance of mean ranks: q * sqrt(k (k + 1) / (6 n)).

    q is the quantile of the studentized range for k models and infinite degrees of freedom, over the root of 2.

    Source: Demšar 2006, JMLR 7:1, section 3.2.2; four models over 14 data sets have 1.25.
    """
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1.0 - alpha, models, inf)) / sqrt(2.0)
    return quantile * sqrt(models * (models + 1) / (6.0 * sets))


def rank_test(values: NDArray[np.float64], alpha: float = ALPHA) -> RankTest:
    """Rank the columns of [n sets, k models] within each row, and test whether they differ.

    Raises:
        ValueError: fewer than three models, so few data sets that no two could ever be told apart, or only ties; the
            text says which.
    """
    from scipy.stats import friedmanchisquare, rankdata

    sets, models = values.shape
    if models < 3:
        raise ValueError(f"ranks need three models or more, and there are {models}")
    distance = critical_distance(models, max(1, sets), alpha)
    if sets < 2 or distance >= models - 1:
        needed = ceil(max(1, sets) * (distance / (models - 1)) ** 2)
        raise ValueError(
            f"{sets} data set{'s' * (sets != 1)} cannot tell any two of {models} models apart by their ranks; "
            f"{max(needed, 3)} or more can"
        )
    ranks = rankdata(-values, axis=1)
    if bool((ranks == ranks[:, :1]).all()):
        raise ValueError("all models are equal on every data set")
    test = friedmanchisquare(*values.T)
    mean = ranks.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    apart = np.abs(mean[order][:, None] - mean[order][None, :]) > distance
    groups = dict(zip(order.tolist(), letters(apart), strict=True))
    return RankTest(
        tuple(mean.tolist()),
        float(test.statistic),
        float(test.pvalue),
        distance,
        tuple(groups[place] for place in range(models)),
        sets,
        alpha,
    )
