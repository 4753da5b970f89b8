"""The area under the ROC curve of a number that predicts right answers, with an interval that respects clusters."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite, log, sqrt

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index
from snellen.scoring.statistics.distributions import t_quantile
from snellen.scoring.statistics.intervals import wilson
from snellen.types import IntervalMethod

Array = NDArray[np.float64]
METHOD = "DeLong and Newcombe"
FEWEST_CLUSTERS = 5
"""Clusters of several rows below which there is no interval."""
QUANTILES = 101
"""Points of the sampling distribution of one area that stand for it in a mixture of several."""


class RocArea(Struct, frozen=True):
    """An area under the ROC curve: the share of pairs of a right and a wrong answer that the predictor orders correctly.

    Attributes:
        value: 0 to 1; ties count half. None without a right or without a wrong answer.
        ci95: 95 % interval; None where the answers are all of one cluster.
        right, wrong: rows.
        clusters: groups of rows.
        method: how the interval was made.
    """

    value: float | None
    ci95: tuple[float, float] | None
    right: int
    wrong: int
    clusters: int
    method: IntervalMethod | None = None

    @property
    def excludes_half(self) -> bool:
        """True if the interval excludes .5, the area of a predictor without information."""
        return self.ci95 is not None and not self.ci95[0] <= 0.5 <= self.ci95[1]


class _Moments(Struct, frozen=True):
    """An area, its standard error, and the design effect of clusters; the error is 0 where both classes are separated."""

    area: float
    error: float
    clusters: int
    widening: float


def roc_area(
    predictor: Array, right: NDArray[np.bool_], group: NDArray[np.int64], *, cluster: str = "group"
) -> RocArea:
    """Return the area under the ROC curve of `predictor` for `right`.

    The interval has the wider ends of two. One has DeLong's variance (DeLong, DeLong and Clarke-Pearson 1988, Biometrics
    44:837), that of the placements of right and wrong rows, summed within clusters first (Obuchowski 1997, Biometrics
    53:567), on the logit scale with Student's t and clusters - 1 degrees of freedom; it is too short where a class is small.
    The other is method 5 of Newcombe 2006, Statistics in Medicine 25:559, with the rows of each class divided by the design
    effect; it is too short where the classes spread differently.

    Args:
        predictor: [n] finite numbers, larger where a right answer is predicted.
        right: [n] whether the answer was right.
        group: [n] int64, equal for rows of one cluster.
        cluster: what the rows of one cluster share, for the interval's description.
    """
    return mixed_roc_area([predictor], right, group, cluster=cluster)


def mixed_roc_area(
    predictors: Sequence[Array], right: NDArray[np.bool_], group: NDArray[np.int64], *, cluster: str = "group"
) -> RocArea:
    """Return the area where the predictor itself is uncertain: a median and interval over equally likely predictors.

    The interval is that of the mixture of the sampling distributions of all predictors, so that both uncertainties are in
    it. With one predictor it is that of `roc_area`.

    Args:
        predictors: [n] each.
        right, group, cluster: as for `roc_area`.
    """
    hits, misses = int(right.sum()), int((~right).sum())
    index, clusters = cluster_index(group)
    if not hits or not misses:
        return RocArea(None, None, hits, misses, clusters)
    known = [_moments(predictor, right, index, clusters) for predictor in predictors]
    value = float(np.median([each.area for each in known]))
    name = cluster if clusters < len(right) else None
    if clusters < (2 if name is None else FEWEST_CLUSTERS):
        return RocArea(value, None, hits, misses, clusters)
    low, high = _newcombe(value, hits, misses, max(each.widening for each in known), t_quantile(clusters - 1))
    seen = [each for each in known if 0.0 < each.area < 1.0 and each.error > 0.0]
    if len(seen) < len(known):  # separated classes: as many draws as the smaller class has clusters
        alone = wilson(value, min(len(np.unique(index[right])), len(np.unique(index[~right]))))
        low, high = min(low, alone[0]), max(high, alone[1])
    if seen:
        ends = _mixture(seen) if len(seen) > 1 else _ends(seen[0])
        low, high = min(low, ends[0]), max(high, ends[1])
    return RocArea(value, (low, high), hits, misses, clusters, IntervalMethod(METHOD, cluster=name, clusters=clusters))


def _newcombe(area: float, hits: int, misses: int, widening: float, z: float) -> tuple[float, float]:
    """Return the areas whose standard error, by Hanley and McNeil's formula, leaves the found one z of them away."""
    first, second = hits / widening, misses / widening

    def is_held(at: float) -> bool:
        beside = (first + second) / 2.0 - 1.0
        variance = at * (1.0 - at) * (1.0 + beside * ((1.0 - at) / (2.0 - at) + at / (1.0 + at))) / (first * second)
        return (area - at) ** 2 <= z * z * variance

    ends = []
    for end in (0.0, 1.0):
        inside, outside = area, end
        for _ in range(50):
            middle = (inside + outside) / 2.0
            inside, outside = (middle, outside) if is_held(middle) else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def _moments(predictor: Array, right: NDArray[np.bool_], index: NDArray[np.intp], clusters: int) -> _Moments:
    positive, negative = predictor[right], predictor[~right]
    above, below = _placements(positive, negative), 1.0 - _placements(negative, positive)
    area = float(above.mean())
    influence = np.zeros(len(predictor))
    influence[right] = (above - area) / len(positive)
    influence[~right] = (below - area) / len(negative)
    sums = np.bincount(index, weights=influence, minlength=clusters)
    alone = float(influence @ influence)
    together = float(sums @ sums)
    variance = together * clusters / max(1, clusters - 1)
    return _Moments(area, sqrt(variance), clusters, max(1.0, together / alone) if alone else 1.0)


def _placements(values: Array, others: Array) -> Array:
    """Return the share of `others` that each value exceeds, ties counting half."""
    ordered = np.sort(others)
    lower, upper = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((lower + upper) / (2.0 * len(others)))


def _logit(known: _Moments) -> tuple[float, float]:
    """Return centre and standard error on the logit scale."""
    return log(known.area / (1.0 - known.area)), known.error / (known.area * (1.0 - known.area))


def _inverse(value: float) -> float:
    return 1.0 / (1.0 + exp(-value)) if isfinite(exp(min(700.0, abs(value)))) else float(value > 0)


def _ends(known: _Moments) -> tuple[float, float]:
    centre, error = _logit(known)
    reach = t_quantile(known.clusters - 1) * error
    return _inverse(centre - reach), _inverse(centre + reach)


def _mixture(known: Sequence[_Moments]) -> tuple[float, float]:
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    degrees = known[0].clusters - 1
    steps = np.array([_signed_t(degrees, float(share)) for share in shares])
    points = np.concatenate([centre + error * steps for centre, error in map(_logit, known)])
    low, high = np.quantile(points, [0.025, 0.975])
    return _inverse(float(low)), _inverse(float(high))


def _signed_t(degrees: int, share: float) -> float:
    return t_quantile(degrees, share) if share >= 0.5 else -t_quantile(degrees, 1.0 - share)
