"""Clusters: correlated rows that share an image, a pair or a target, or repeat a question."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDED = 5_000
"""With more distinct clusters than this, resampling works on random groups of clusters."""


def cluster_index(group: NDArray[np.int64]) -> tuple[NDArray[np.intp], int]:
    """Number the clusters from 0.

    Args:
        group: [n] int64, equal for rows of one cluster. Repeats of a question carry the question's group, so they
            are clustered too.

    Returns:
        [n] cluster of each row, and the number of clusters.
    """
    if len(group) == 0:
        return np.zeros(0, dtype=np.intp), 0
    names, index = np.unique(group, return_inverse=True)
    return index.reshape(-1), len(names)


def cluster_sums(columns: NDArray[np.float64], index: NDArray[np.intp], clusters: int) -> NDArray[np.float64]:
    """Sum [n, k] columns within each cluster: [clusters, k]."""
    return np.stack(
        [np.bincount(index, weights=columns[:, k], minlength=clusters) for k in range(columns.shape[1])], axis=1
    )


def distinct(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows of [G, k], and the count of each.

    Drawing G clusters with replacement is one multinomial draw over these, so a million right-or-wrong answers resample
    as fast as a handful.
    """
    if rows.shape[1] == 1:
        values, counts = np.unique(rows[:, 0], return_counts=True)
        return values[:, None], counts.astype(np.int64)
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return values, counts.astype(np.int64)


def fold(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Sum FOLDED random groups of clusters of equal size, give or take one: [min(G, FOLDED), k].

    For functions of sums the groups have the same variance as the clusters that they hold (random groups: Wolter 2007,
    Introduction to Variance Estimation, chapter 2), and memory and time no longer grow with G.
    """
    count = len(rows)
    if count <= FOLDED:
        return rows
    index = rng.permutation(count) % FOLDED
    return cluster_sums(rows, index, FOLDED)


def finite(values: Any) -> NDArray[np.float64]:
    """Return `values` as [n] float64.

    Raises:
        ValueError: if it is not one-dimensional or holds NaN or infinity.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"found values of shape {array.shape}, expected [n]")
    if not np.isfinite(array).all():
        raise ValueError(
            f"found {int((~np.isfinite(array)).sum())} values that are not finite; leave unscored rows out"
        )
    return array
