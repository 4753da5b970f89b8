"""One-sided paired test of a drop: is the first run worse than the second by more than a margin?"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index, cluster_sums, finite
from snellen.scoring.statistics.bootstrap import SEED
from snellen.scoring.statistics.distributions import coin_tail, t_shift
from snellen.scoring.statistics.paired import (
    FLIPS,
    MCNEMAR,
    POWER,
    SIGN_FLIP,
    Comparison,
    Differences,
    compare,
    flipped_totals,
)


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
