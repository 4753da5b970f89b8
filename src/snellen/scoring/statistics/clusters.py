"""How precisely a mean is known whose rows are correlated within clusters: variance, degrees of freedom, effective sizes.

The variance is CR2 (Bell and McCaffrey 2002, Survey Methodology 28:169) and its degrees of freedom are Satterthwaite's, as in
Pustejovsky and Tipton 2018, J. Business and Economic Statistics 36:672. Both see only the clusters that were drawn. Where few
of them hold what is rare (the wrong answers of a good model), they are far too optimistic, so that the variance is at least
that of a working model: equal correlation within clusters, estimated by analysis of variance and shrunk towards 1 as if one
more cluster had shown nothing else. docs/statistics-coverage.md shows what this holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index

FEWEST_DEGREES = 4.0
"""Fewer degrees of freedom give no interval."""
LARGEST_SHARE = 0.5
"""Largest weight of one cluster with which there is an interval."""
Array = NDArray[np.float64]


class Precision(NamedTuple):
    """The variance of a mean and its degrees of freedom."""

    variance: float
    degrees: float


@dataclass(frozen=True)
class ClusterSums:
    """What the precision of a weighted mean depends on: one entry a cluster, or `times` clusters alike in weight.

    Attributes:
        mean: the mean; `square` the mean of squares. The weights of all rows sum to 1.
        rows: how many.
        alone: the variance of the mean if every row were a cluster.
        times: [k] clusters behind an entry.
        weight, row_weights: [k] summed weights of a cluster's rows, and their summed squares.
        influence, influence_cubed: [k] mean square and cube of a cluster's summed deviation from the mean.
        between: [k] mean square of a cluster's weighted sum, over its weight.
        evidence, evidence_squared: [k] mean and mean square of what a cluster holds of the rarer answer.
    """

    mean: float
    square: float
    rows: int
    alone: float
    times: Array
    weight: Array
    row_weights: Array
    influence: Array
    influence_cubed: Array
    between: Array
    evidence: Array
    evidence_squared: Array

    def total(self, values: Array) -> float:
        """Return the sum over all clusters of a value of each."""
        return float(self.times @ values)

    @property
    def clusters(self) -> int:
        """Count the clusters."""
        return round(float(self.times.sum()))

    @cached_property
    def effective(self) -> float:
        """The effective number of clusters, (sum of weights)^2 / sum of squares (Kish 1965)."""
        return 1.0 / self.total(self.weight**2)

    @cached_property
    def degrees(self) -> float:
        """Degrees of freedom for independent rows; 0 where one cluster has too large a share to tell."""
        if self.clusters < 2 or float(self.weight.max()) > LARGEST_SHARE:
            return 0.0
        return self._degrees(self.row_weights)

    @property
    def is_enough(self) -> bool:
        """Return True if there are enough clusters for an interval."""
        return self.degrees >= FEWEST_DEGREES - 1e-9

    @cached_property
    def skewness(self) -> float:
        """Skewness of the mean's own distribution, that of the rows over the root of their number if those are alone.

        Samples show too little of it: it is enlarged by 6 / clusters, by simulation.
        """
        squares = self.total(self.influence)
        return self.total(self.influence_cubed) / squares**1.5 * (1.0 + 6.0 / self.clusters) if squares > 0.0 else 0.0

    def precision(self, most_spread: float | None = None) -> Precision:
        """Return variance and degrees of freedom of the mean.

        Args:
            most_spread: the variance of rows that are as different as they can be; a spread seen in few clusters is
                shrunk towards it. None: the spread is taken as it is, and so is the correlation.
        """
        spread, correlation = max(0.0, self.square - self.mean**2), self._correlation()
        if most_spread is not None:
            squares = self.total(self.evidence_squared)
            seen = self.total(self.evidence) ** 2 / squares if squares > 0.0 else 0.0
            spread = (seen * spread + most_spread) / (seen + 1.0)
            correlation = (seen * correlation + 1.0) / (seen + 1.0)
        model = self.row_weights * (1.0 - correlation) + correlation * self.weight**2
        seen_variance = self.total(self.influence / (1.0 - self.weight)) if self.clusters > 1 else inf
        variance = max(seen_variance, self.alone, spread * self.total(model))
        return Precision(variance, max(1.0, min(self.degrees, self._degrees(model))))

    def _correlation(self) -> float:
        """Return the correlation of two rows of a cluster, 0 to 1, by one-way analysis of variance."""
        clusters, rows = self.clusters, self.rows
        if not 1 < clusters < rows:
            return 0.0
        between = self.total(self.between)
        among = rows * max(0.0, between - self.mean**2) / (clusters - 1)
        within = rows * max(0.0, self.square - between) / (rows - clusters)
        size = rows * (1.0 - 1.0 / self.effective) / (clusters - 1)
        shared = max(0.0, among - within) / size
        return shared / (shared + within) if shared > 0.0 else 0.0

    def _degrees(self, variance: Array) -> float:
        """Return Satterthwaite's degrees of freedom for cluster sums of these variances.

        2 E(V)^2 / Var(V) = (trace of M)^2 / (sum of squares of M), M the covariance of the adjusted sums of deviations.
        """
        weight, total = self.weight, self.total(variance)
        scale = 1.0 / np.maximum(1.0 - weight, 1e-12)
        own = scale * (variance - 2.0 * weight * variance + total * weight**2)
        xx, xy, yy = (self.total(scale * part) for part in (variance * variance, variance * weight, weight * weight))
        pairs = 2.0 * xx * yy + 2.0 * xy**2 + (total * yy) ** 2 - 4.0 * total * xy * yy
        beside = scale * (total * weight**2 - 2.0 * weight * variance)
        squares = pairs - self.total(beside**2) + self.total(own**2)
        return self.total(own) ** 2 / squares if squares > 0.0 else 0.0


def cluster_sums_of(
    values: Array, group: Any, weights: Array | None = None, evidence: Array | None = None
) -> ClusterSums:
    """Return the sums of [n] values within their clusters.

    Args:
        values: [n] finite numbers, n > 0.
        group: [n] int64, equal for rows of one cluster.
        weights: [n] positive; None for equal ones.
        evidence: [n] of what rare there is in each row; None: the deviation of each value from the mean.
    """
    rows = len(values)
    index, clusters = cluster_index(np.asarray(group, dtype=np.int64))
    share = np.full(rows, 1.0 / rows) if weights is None else weights / weights.sum()
    mean = float(share @ values)
    deviation = share * (values - mean)
    held = np.abs(deviation) if evidence is None else share * evidence

    def summed(each: Array) -> Array:
        return np.bincount(index, weights=each, minlength=clusters).astype(np.float64, copy=False)

    weight, influence, rare = summed(share), summed(deviation), summed(held)
    return ClusterSums(
        mean=mean,
        square=float(share @ values**2),
        rows=rows,
        alone=float(deviation @ deviation) * rows / (rows - 1) if rows > 1 else 0.0,
        times=np.ones(clusters),
        weight=weight,
        row_weights=summed(share**2),
        influence=influence**2,
        influence_cubed=influence**3,
        between=summed(share * values) ** 2 / weight,
        evidence=rare,
        evidence_squared=rare**2,
    )
