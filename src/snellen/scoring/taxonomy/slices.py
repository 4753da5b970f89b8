"""Slices of comparable rows: one measure (`ask`), one level, one kind of question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.scores import Column, Scores, cluster_index
from snellen.scoring.statistics import mean_of, scored, wilson
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.distributions import t_quantile
from snellen.scoring.statistics.intervals import GROUP, coverage
from snellen.scoring.statistics.paired import mcnemar_interval
from snellen.types import Interval, IntervalMethod, Metric

HIERARCHY, BIAS = "hierarchy", "bias"
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species", "subspecies", "variety")


class Categories(NamedTuple):
    """Rows with a value of one meta column: [n] scores, codes and images, and the mean score of each value."""

    rows: tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]
    accuracy: NDArray[np.float64]


@dataclass(frozen=True)
class ScoreSlice:
    """Scored rows of one measure, level and kind; all values are looked up in the run's columns.

    Attributes:
        ask: what the questions measure: `hierarchy` or `bias`.
        level: the level of the classes, such as `genus`.
        kind: the kind of question.
        rows: [n] positions in the columns.
        expected: number of rows of this part in a complete run.
        scores: the columns.
    """

    ask: str
    level: str
    kind: str
    rows: NDArray[np.intp]
    expected: int
    scores: Scores

    @property
    def name(self) -> str:
        """The part's name in metrics: `species/truth`, and `bias/species/truth`."""
        return f"{self.level}/{self.kind}" if self.ask == HIERARCHY else f"{self.ask}/{self.level}/{self.kind}"

    @property
    def coverage(self) -> float:
        """Scored rows over those of a complete run."""
        return coverage(len(self.rows), self.expected)

    @property
    def value(self) -> NDArray[np.float64]:
        """[n] scores, 0 for replies that failed or could not be read."""
        value = self.scores.value[self.rows]
        return np.where(np.isnan(value), 0.0, value)

    @property
    def group(self) -> NDArray[np.int64]:
        """[n] the image of each row."""
        return self.scores.group[self.rows]

    def codes(self, name: str) -> NDArray[np.int32] | None:
        """Return [n] codes of a meta column, -1 for a row without a value; None if no row of this part has one."""
        column = self.scores.meta.get(name)
        if column is None:
            return None
        codes = column.codes[self.rows]
        return codes if bool((codes >= 0).any()) else None

    def by_category(self, name: str) -> Categories | None:
        """Split the rows by a meta column; None if they have fewer than two of its values."""
        codes = self.codes(name)
        if codes is None:
            return None
        known = codes >= 0
        value, codes = self.value[known], codes[known]
        counts = np.bincount(codes)
        used = counts > 0
        if int(used.sum()) < 2:
            return None
        accuracy = np.bincount(codes, weights=value)[used] / counts[used]
        return Categories((value, codes, self.group[known]), accuracy)


def taxonomy_slices(scores: Scores) -> list[ScoreSlice]:
    """Return the parts of a run, hierarchy first, levels from coarse to fine, then by kind.

    Rows without a level are in none, and neither are questions with another measure (`ask` other than hierarchy and
    bias). Questions without `ask` count as hierarchy. Holds one position per row, and no copy of a column.
    """
    level, kind, ask = (scores.meta.get(name) for name in ("level", "kind", "ask"))
    if level is None or kind is None or not len(scores):
        return []
    ask_codes = _asked(ask, len(scores))
    _, usable = scored(scores)
    key = (ask_codes.astype(np.int64) * len(level.names) + level.codes) * len(kind.names) + kind.codes
    placed = (ask_codes >= 0) & (level.codes >= 0) & (kind.codes >= 0)
    key[~placed] = -1
    every = np.bincount(key[placed], minlength=2 * len(level.names) * len(kind.names))
    key[~usable] = -1
    order = np.argsort(key, kind="stable")
    ends = np.searchsorted(key[order], np.arange(len(every) + 1))
    rest = Counter() if scores.missing is None else _count_parts(scores.missing)
    share = scores.expected / (len(scores) + (0 if scores.missing is None else len(scores.missing)))
    slices = []
    ordered = levels(scores)
    for index, name in enumerate((HIERARCHY, BIAS)):
        for level_name in ordered:
            for kind_code, kind_name in enumerate(kind.names):
                at = (index * len(level.names) + level.names.index(level_name)) * len(kind.names) + kind_code
                rows = order[ends[at] : ends[at + 1]]
                if len(rows):
                    expected = round((int(every[at]) + rest[name, level_name, kind_name]) * share)
                    slices.append(ScoreSlice(name, level_name, kind_name, rows, expected, scores))
    return slices


def _count_parts(scores: Scores) -> Counter[tuple[str, str, str]]:
    """Count the rows by measure, level and kind."""
    level, kind = scores.column("level"), scores.column("kind")
    ask_codes = _asked(scores.meta.get("ask"), len(scores))
    placed = (ask_codes >= 0) & (level.codes >= 0) & (kind.codes >= 0)
    keys = np.stack([ask_codes[placed], level.codes[placed], kind.codes[placed]])
    parts, counts = np.unique(keys, axis=1, return_counts=True)
    return Counter(
        {
            ((HIERARCHY, BIAS)[ask], level.names[at], kind.names[kind_code]): count
            for (ask, at, kind_code), count in zip(parts.T.tolist(), counts.tolist(), strict=True)
        }
    )


def _asked(ask: Column | None, rows: int) -> NDArray[np.int8]:
    """Return 0 for hierarchy, 1 for bias, -1 for any other measure."""
    if ask is None:
        return np.zeros(rows, dtype=np.int8)
    known = np.array([(HIERARCHY, BIAS).index(name) if name in (HIERARCHY, BIAS) else -1 for name in ask.names] + [0])
    return known[ask.codes].astype(np.int8)


def levels(scores: Scores) -> list[str]:
    """Return the levels of these rows, coarse to fine (see `coarse_to_fine`)."""
    level, depth = scores.meta.get("level"), scores.meta.get("depth")
    if level is None:
        return []
    depths: dict[str, set[int]] = {level.names[code]: set() for code in np.unique(level.codes) if code >= 0}
    if depth is not None:
        width = len(depth.names) + 1
        for pair in np.unique(level.codes.astype(np.int64) * width + depth.codes + 1):
            at, code = divmod(int(pair), width)
            if at >= 0 and code > 0 and depth.names[code - 1].isdigit():
                depths[level.names[at]].add(int(depth.names[code - 1]))
    return coarse_to_fine(depths)


def coarse_to_fine(depths: Mapping[str, Collection[int]]) -> list[str]:
    """Sort levels, coarsest first.

    By depth if every level has one and no two the same. Data sets of several taxonomies side by side contradict each
    other (`species` is the third level of one and the seventh of another): Linnaean ranks then keep their own order,
    other levels follow by their mean depth, and levels without a depth last, in the order given.
    """
    single = [next(iter(ranks)) for ranks in depths.values() if len(ranks) == 1]
    if len(single) == len(depths) == len(set(single)):
        return sorted(depths, key=lambda level: next(iter(depths[level])))
    ranked = [rank for rank in RANKS if rank in depths]
    others = [level for level in depths if level not in RANKS]
    return ranked + sorted(
        others, key=lambda level: sum(depths[level]) / len(depths[level]) if depths[level] else float("inf")
    )


def accuracy_of(name: str, group: list[ScoreSlice]) -> Metric:
    """Return the mean score of these parts together, with interval, coverage and chance."""
    return mean_of(
        name,
        np.concatenate([part.value for part in group]),
        np.concatenate([part.group for part in group]),
        expected=sum(part.expected for part in group),
        chance=guessed(group),
    )


def guessed(group: list[ScoreSlice]) -> float | None:
    """Return the chance level of these parts: the mean of meta `chance`; None unless every row has it."""
    total = rows = 0.0
    for part in group:
        codes = part.codes("chance")
        chances = None if codes is None else Column(codes, part.scores.meta["chance"].names).numbers()
        if chances is None:
            return None
        total += float(chances.sum())
        rows += len(chances)
    return total / rows if rows else None


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
