"""Several comparisons at once: p-values adjusted after Holm, and letters for groups that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, inf, isfinite, sqrt

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, in the same order.

    The smallest is multiplied by m, the next by m - 1, and so on; each is at least the one before it and at most 1.
    Whoever rejects adjusted values below 5 % rejects any true hypothesis at all in at most 5 % of experiments, however
    the tests depend on each other.

    Raises:
        ValueError: if a value lies outside 0 to 1.

    Source: Holm 1979, Scandinavian Journal of Statistics 6:65; (0.01, 0.04, 0.03) gives (0.03, 0.06, 0.06).
    """
    if any(not (isfinite(p) and 0.0 <= p <= 1.0) for p in p_values):
        raise ValueError(f"found p-values {list(p_values)}; expected numbers from 0 to 1")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def flip_bound(sums: NDArray[np.float64]) -> float:
    """Return an upper bound of the two-sided p-value of sign flips of cluster differences [G], 1 at most.

    Drawn flips cannot give less than 1 in their number; this bound can, and survives the adjustment for many pairs.

    Source: Hoeffding 1963, JASA 58:13, theorem 2, for a sum of values with random signs:
    P(|sum| >= t) <= 2 * exp(-t ** 2 / (2 * sum of squares)).
    """
    squares = float(sums @ sums)
    if squares == 0.0:
        return 1.0
    return min(1.0, 2.0 * exp(-(float(sums.sum()) ** 2) / (2.0 * squares)))


def letters(different: NDArray[np.bool_]) -> list[str]:
    """Return letters for items in their order: two items share a letter if and only if they are not different.

    Args:
        different: [k, k] symmetric, True where two items were told apart.

    Returns:
        One text per item, such as `ab`; after `z` follow `aa`, `ab` in brackets.

    Source: Piepho 2004, J. Computational and Graphical Statistics 13:456 (insert and absorb).
    """
    count = len(different)
    columns: list[frozenset[int]] = [frozenset(range(count))] if count else []
    for first in range(count):
        for second in range(first + 1, count):
            if not different[first, second]:
                continue
            inserted: list[frozenset[int]] = []
            for column in columns:
                inserted += [column - {first}, column - {second}] if {first, second} <= column else [column]
            columns = _absorb(inserted)
    columns.sort(key=sorted)
    return ["".join(_letter(place) for place, column in enumerate(columns) if item in column) for item in range(count)]


def _absorb(columns: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Return the columns that are no part of another one, each once."""
    unique = list(dict.fromkeys(columns))
    return [column for column in unique if column and not any(column < other for other in unique)]


def _letter(place: int) -> str:
    """Return the name of a column: a to z, then two letters in brackets."""
    if place < 26:
        return chr(97 + place)
    return f"({chr(97 + (place // 26 - 1) % 26)}{chr(97 + place % 26)})"


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
