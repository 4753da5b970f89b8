"""Error consistency: do two models err on the same samples more often than two independent models would?"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from msgspec import Struct, structs

from snellen.scoring.scores import finite
from snellen.scoring.statistics.agreement import kappas, linearised_ends
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.intervals import GROUP
from snellen.types import Interval, IntervalMethod


class ErrorConsistency(Struct, frozen=True):
    """Errors of two models on the same samples, counted and compared with chance.

    Attributes:
        n: samples that both answered.
        both_right, only_first, only_second, both_wrong: samples; `only_first` counts those that the first alone got
            wrong. They sum to n.
        expected_both_wrong: samples that both would get wrong if their errors were independent.
        kappa: Cohen's kappa of right and wrong, -1 to 1: 1 for the same errors, 0 for independent ones; None where n is
            0, or both models are right everywhere, or wrong everywhere.
        ci95: 95 % interval of kappa; None where kappa has no standard error.
        phi: correlation of the errors, -1 to 1; None where a model is right everywhere, or wrong everywhere.
        interval: the method of `ci95`.
    """

    n: int
    both_right: int
    only_first: int
    only_second: int
    both_wrong: int
    expected_both_wrong: float
    kappa: float | None
    ci95: tuple[float, float] | None
    phi: float | None
    interval: IntervalMethod | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ci95, Interval):
            structs.force_setattr(self, "interval", self.ci95.about)
            structs.force_setattr(self, "ci95", (self.ci95[0], self.ci95[1]))


def error_consistency(first: Any, second: Any, group: Any, *, cluster: str = GROUP) -> ErrorConsistency:
    """Compare the errors of two models on the samples that both answered.

    Args:
        first: [n] 1 where the first model is wrong, 0 where it is right.
        second: [n] the same of the second model, in the same order.
        group: [n] int64, equal for rows of one cluster.
        cluster: what the rows of a cluster share, in words.

    Raises:
        ValueError: the arrays differ in length, or hold something else than 0 and 1.

    Source: Geirhos, Meding and Wichmann 2020, arXiv 2006.16736, section 2: Cohen's kappa (Cohen 1960) of two decision
    makers' correctness. Its standard error is that of Fleiss, Cohen and Everitt 1969, Psychological Bulletin 72:323, after
    one sample was added to each of the four cells; counts are divided by the design effect of the clusters first.
    """
    a, b, groups = finite(first), finite(second), np.asarray(group, dtype=np.int64)
    if not len(a) == len(b) == len(groups):
        raise ValueError(f"found {len(a)}, {len(b)} and {len(groups)} rows; expected three equal lengths")
    if not bool(np.isin([a, b], (0.0, 1.0)).all()):
        raise ValueError("found errors other than 0 and 1; mark a wrong sample with 1 and a right one with 0")
    n, both = len(a), int((a * b).sum())
    wrong, other = int(a.sum()), int(b.sum())
    counts = (n, n - wrong - other + both, wrong - both, other - both, both)
    if n == 0:
        return ErrorConsistency(*counts, 0.0, None, None, None)
    expected = wrong * other / n
    # In counts, so that "always the same" is told from nearly so.
    excess, room = 2 * (n * both - wrong * other), n * (wrong + other) - 2 * wrong * other
    spread = wrong * (n - wrong) * other * (n - other)
    phi = None if spread == 0 else (n * both - wrong * other) / sqrt(spread)
    if room == 0:
        return ErrorConsistency(*counts, expected, None, None, phi)
    kappa = excess / room
    p, q, scale = wrong / n, other / n, room / n**2
    first_slope, second_slope = 2.0 * q + kappa * (1.0 - 2.0 * q), 2.0 * p + kappa * (1.0 - 2.0 * p)
    influence = (2.0 * (a * b - both / n) - first_slope * (a - p) - second_slope * (b - q)) / scale
    sums = cluster_sums_of(influence, groups)
    robust = sums.clusters < n
    about = IntervalMethod(
        "linearised t", cluster=cluster if robust else None, clusters=sums.clusters, effective=sums.effective
    )
    ends = None
    if sums.is_enough:
        variance, degrees = sums.precision()
        widening = max(1.0, variance / sums.alone) if sums.alone > 0.0 else n / sums.effective
        cells = np.array(counts[1:], dtype=np.float64) / widening
        ends = linearised_ends(kappa, np.eye(4), cells, np.eye(4), kappas, degrees, about)
    return ErrorConsistency(*counts, expected, kappa, ends, phi)
