"""Drops of accuracy from level to level, and consistency of levels within one image."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.scores import Scores, cluster_index
from snellen.scoring.statistics import wilson
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.distributions import t_quantile
from snellen.scoring.statistics.intervals import GROUP, coverage
from snellen.scoring.statistics.paired import mcnemar_interval
from snellen.scoring.taxonomy.slices import HIERARCHY, ScoreSlice, accuracy_of, taxonomy_slices
from snellen.types import Interval, IntervalMethod, Metric

POINTS = "points"
"""Percentage points: the unit of differences of accuracies."""

_SHARED = 0.5
"""Two levels are compared on their shared images if these are at least this share of the smaller level's images."""


def by_level(scores: Scores) -> list[Metric]:
    """Return `accuracy/<level>` and `accuracy/<level>/<kind>` of questions over a hierarchy, coarse to fine."""
    hierarchy = [part for part in taxonomy_slices(scores) if part.ask == HIERARCHY]
    names = list(dict.fromkeys(part.level for part in hierarchy))
    levels = [accuracy_of(f"accuracy/{name}", [part for part in hierarchy if part.level == name]) for name in names]
    return levels + [accuracy_of(f"accuracy/{part.name}", [part]) for part in hierarchy]


def drops(parts: list[ScoreSlice]) -> list[Metric]:
    """Return `drop/<coarse>-<fine>/<kind>`: accuracy on a level less that on the next finer one, in percentage points.

    The comparison uses the images with answers on both levels, each image a cluster. If the levels share less than half
    of the images of the smaller one, it uses all images, and the interval is that of two overlapping samples. One
    right-or-wrong answer per image and level: Bonett and Price 2012 (see statistics.compare); otherwise Student's t
    with the cluster-robust standard error of the difference. n is the number of images.
    """
    return [_drop(coarse, fine) for coarse, fine in _steps(parts)]


def consistency(parts: list[ScoreSlice]) -> list[Metric]:
    """Return `consistency/<coarse>-<fine>/<kind>`: among images that are right on a level, the share that is also right
    on the next coarser one. An image is right on a level if all its answers there are.

    A model that knows the species but not its genus knows the name, not the taxonomy. n is the number of images that
    are right on the finer level and have answers on both.
    """
    metrics = []
    for coarse, fine in _steps(parts):
        images, right_coarse = _right(coarse)
        others, right_fine = _right(fine)
        shared, at_coarse, at_fine = np.intersect1d(images, others, assume_unique=True, return_indices=True)
        if not len(shared):
            continue
        known = right_fine[at_fine]
        n, both = int(known.sum()), int((known & right_coarse[at_coarse]).sum())
        used = int(np.isin(coarse.group, shared).sum() + np.isin(fine.group, shared).sum())
        metrics.append(
            Metric(
                name=f"consistency/{coarse.level}-{fine.level}/{fine.kind}",
                value=both / n if n else None,
                n=n,
                ci95=wilson(both / n, n) if n else None,
                coverage=coverage(used, coarse.expected + fine.expected),
            )
        )
    return metrics


def _steps(parts: list[ScoreSlice]) -> Iterator[tuple[ScoreSlice, ScoreSlice]]:
    """Yield neighbouring levels of each kind, coarse and fine."""
    hierarchy = [part for part in parts if part.ask == HIERARCHY]
    for kind in dict.fromkeys(part.kind for part in hierarchy):
        yield from pairwise(part for part in hierarchy if part.kind == kind)


def _right(part: ScoreSlice) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the images of a part, and whether all answers about each are right."""
    images, index = np.unique(part.group, return_inverse=True)
    wrong = np.bincount(index.reshape(-1), weights=part.value < 1.0, minlength=len(images))
    return images, wrong == 0


def _drop(coarse: ScoreSlice, fine: ScoreSlice) -> Metric:
    images, others = np.unique(coarse.group), np.unique(fine.group)
    shared = np.intersect1d(images, others, assume_unique=True)
    paired = len(shared) >= _SHARED * min(len(images), len(others))
    upper, lower = (np.isin(p.group, shared) if paired else np.ones(len(p.group), dtype=bool) for p in (coarse, fine))
    first, second = coarse.value[upper], fine.value[lower]
    group = np.concatenate([coarse.group[upper], fine.group[lower]])
    index, clusters = cluster_index(group)
    alone = paired and len(first) == len(second) == clusters
    difference = float(first.mean() - second.mean())
    binary = bool(np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all())
    ci95: Interval | None
    if alone and binary:
        delta = np.bincount(index, weights=np.concatenate([first, -second]))
        ci95 = mcnemar_interval(int((delta > 0).sum()), int((delta < 0).sum()), clusters)
    else:
        sign = np.concatenate([np.full(len(first), 1.0 / len(first)), np.full(len(second), -1.0 / len(second))])
        influence = np.concatenate([first - first.mean(), second - second.mean()]) * sign * len(group)
        sums = cluster_sums_of(influence, group)
        variance, degrees = sums.precision(max(0.0, sums.square))
        half = t_quantile(degrees) * sqrt(variance) if sums.is_enough else 0.0
        about = IntervalMethod("cluster-robust t", cluster=GROUP, clusters=clusters, effective=sums.effective)
        ci95 = Interval(difference - half, difference + half, about) if half else None
    return Metric(
        name=f"drop/{coarse.level}-{fine.level}/{fine.kind}",
        value=100.0 * difference,
        n=clusters,
        ci95=None if ci95 is None else ci95.map(lambda end: 100.0 * end),
        unit=POINTS,
        coverage=coverage(len(group), coarse.expected + fine.expected),
        lower_is_better=True,
    )
