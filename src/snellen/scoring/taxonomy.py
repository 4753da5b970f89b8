"""Diagnosis over a taxonomy: levels and classes on which a model fails, and how far from the truth its answers are.

docs/diagnosis.md defines each metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.scores import Column, ScoreBuilder, Scores, cluster_index
from snellen.scoring.statistics import interval, mean_of, scored, spread, wilson
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.distributions import t_quantile
from snellen.scoring.statistics.intervals import GROUP, coverage
from snellen.scoring.statistics.paired import mcnemar_interval
from snellen.types import Interval, IntervalMethod, Metric, Sample, Score

BINS = ("0-20", "20-40", "40-60", "60-80", "80-100")
"""Bins of accuracy in percent; the lower bound is inclusive, and so is 100."""
PAGE_BINS = ("0-60", "60-70", "70-80", "80-90", "90-100")
"""Bins of FG-BMK's project page, which does not name them: of all edges at multiples of 5 % and of equal width above the
first, these alone fit its 18 rows (hist against worst, best, overall, std and perfect of knowledgeBias in data.js)."""


class ClassRow(Struct, frozen=True):
    """The accuracy of one class in one part of a run.

    Attributes:
        ask: what the questions measure, `hierarchy` or `bias`.
        level: the level of the class.
        kind: the kind of question.
        label: the class.
        path: its ancestors and itself, coarse to fine, joined by " > "; empty where there is no taxonomy.
        n: scored answers about images of the class.
        accuracy: their mean score, 0 to 1.
        ci95: its 95 % interval; None for one image with several answers.
    """

    ask: str
    level: str
    kind: str
    label: str
    path: str
    n: int
    accuracy: float
    ci95: tuple[float, float] | None


def class_table(scores: Scores) -> Iterator[ClassRow]:
    """Yield every class of every part, the worst first within a part; ties in alphabetical order.

    Rows turn into JSON by msgspec and into an Arrow table by `pyarrow.Table.from_pylist(msgspec.to_builtins(rows))`.
    """
    labels, paths = scores.meta.get("label"), scores.meta.get("path")
    for part in taxonomy_slices(scores):
        codes = part.codes("label")
        if labels is None or codes is None:
            continue
        place, values, group = part.codes("path"), part.value, part.group
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(labels.names) + 1))
        classes = []
        for code in np.unique(codes[codes >= 0]):
            rows = order[starts[code] : starts[code + 1]]
            value = values[rows]
            path = int(place[rows].max()) if place is not None else -1
            classes.append(
                ClassRow(
                    part.ask,
                    part.level,
                    part.kind,
                    labels.names[code],
                    paths.names[path] if paths is not None and path >= 0 else "",
                    len(value),
                    float(value.sum()) / len(value),
                    interval(value, group[rows]),
                )
            )
        yield from sorted(classes, key=lambda row: (row.accuracy, row.label))


class ClassTables:
    """The class tables of a run, by profile, collected during scoring, for at most `limit` classes."""

    def __init__(self, limit: int = 2_000) -> None:
        self.limit = limit
        self._labels: set[str] | None = set()
        self._parts: dict[tuple[str, str], ScoreBuilder] = {}  # of one profile and data set

    @property
    def too_many(self) -> bool:
        """True if the run has more classes than `limit`; the tables are then dropped."""
        return self._labels is None

    def add(self, sample: Sample, scores: Mapping[str, Score]) -> None:
        """Add one scored answer; answers of samples without level and label are ignored."""
        label = sample.meta.get("label")
        if self._labels is None or not isinstance(label, str) or "level" not in sample.meta:
            return
        self._labels.add(label)
        if len(self._labels) > self.limit:
            self._labels = None
            self._parts.clear()
            return
        own = structs.replace(sample, meta={name: sample.meta[name] for name in _NEEDED if name in sample.meta})
        for profile, score in scores.items():
            key = (profile, str(sample.meta.get("dataset", "")))
            if key not in self._parts:
                self._parts[key] = ScoreBuilder()
            self._parts[key].add(own, structs.replace(score, detail={}))

    def rows(self, profile: str) -> list[dict[str, Any]]:
        """Return the class tables of a profile, one data set (meta `dataset`) after the other, each row with its data
        set; empty if nothing was collected.
        """
        parts = [(dataset, part) for (of, dataset), part in self._parts.items() if of == profile]
        return [
            {"dataset": dataset, **structs.asdict(row)} for dataset, part in parts for row in class_table(part.build())
        ]


_NEEDED = ("level", "depth", "ask", "label", "path")


def class_metrics(parts: list[ScoreSlice]) -> list[Metric]:
    """Return the inequality of classes, for every part that asks about bias and the finest level of each kind.

    `class_worst`, `class_best`: the lowest and highest accuracy of a class. `class_gap`: their difference in percentage
    points. `class_std`: the standard deviation of class accuracies (all classes, not a sample of them), in points.
    `class_spread`: the same, corrected for the sampling error of few answers per class (`beyond_sampling`).
    `class_perfect`: the number of classes without an error. For bias, `class_share/.../0-20` and so on: the share of
    classes in each bin of BINS; `class_histogram/.../1` to `5`: their number in those of PAGE_BINS, of `class_count`.
    n is the number of scored answers, of the metrics that count classes theirs.
    """
    finest = {part.kind: part for part in parts if part.ask != BIAS}
    metrics: list[Metric] = []
    for part in parts:
        if part.ask == BIAS or finest.get(part.kind) is part:
            metrics += _of_part(part)
    return metrics


def _of_part(part: ScoreSlice) -> list[Metric]:
    by_class = part.by_category("label")
    if by_class is None:
        return []
    accuracy = by_class.accuracy
    low, high, classes = float(accuracy.min()), float(accuracy.max()), len(accuracy)

    def metric(name: str, number: float | None, n: int, unit: str = "fraction") -> Metric:
        return Metric(name, number, n, None, unit, part.coverage)

    rows = len(by_class.rows[0])
    beyond = beyond_sampling(*by_class.rows)
    metrics = [
        metric(f"class_worst/{part.name}", low, rows),
        metric(f"class_best/{part.name}", high, rows),
        metric(f"class_gap/{part.name}", 100.0 * (high - low), rows, POINTS),
        metric(f"class_std/{part.name}", 100.0 * float(accuracy.std()), rows, POINTS),
        metric(f"class_spread/{part.name}", None if beyond is None else 100.0 * beyond, rows, POINTS),
        metric(f"class_perfect/{part.name}", float((accuracy >= 1.0).sum()), classes, "classes"),
    ]
    if part.ask == BIAS:
        # The tenth digit decides that three right of five, 0.6000000000000001 or not, stand in 60 to 80.
        bins = np.minimum(np.floor(np.round(5.0 * accuracy, 10)).astype(np.int64), 4)
        for name, count in zip(BINS, np.bincount(bins, minlength=5), strict=True):
            metrics.append(metric(f"class_share/{part.name}/{name}", int(count) / classes, classes))
        metrics.append(metric(f"class_count/{part.name}", float(classes), classes, "classes"))
        for number, count in enumerate(page_histogram(accuracy).values(), 1):
            metrics.append(metric(f"class_histogram/{part.name}/{number}", float(count), classes, "classes"))
    return metrics


def page_histogram(accuracy: NDArray[np.float64]) -> dict[str, int]:
    """Count the classes in each bin of PAGE_BINS."""
    bins = np.searchsorted((0.6, 0.7, 0.8, 0.9), np.round(accuracy, 10), side="right")
    return dict(zip(PAGE_BINS, np.bincount(bins, minlength=5).tolist(), strict=True))


def beyond_sampling(value: NDArray[np.float64], codes: NDArray[np.int32], group: NDArray[np.int64]) -> float | None:
    """Return the standard deviation of the true means of categories, corrected for sampling error.

    One-way random effects over the means of each image within a category (`statistics.spread`); 0 if the means differ
    by no more than chance, None for one category, or one image in each.

    Args:
        value, codes, group: [n] score, category (0 and above) and image of each row.
    """
    images, index = np.unique(group, return_inverse=True)
    pairs, unit = np.unique(codes.astype(np.int64) * len(images) + index.reshape(-1), return_inverse=True)
    unit = unit.reshape(-1)
    means = np.bincount(unit, weights=value) / np.bincount(unit)
    category = pairs // len(images)
    variances = spread(
        Scores(means, np.zeros(len(means), dtype=np.uint8), images[pairs % len(images)], category, {}, len(means))
    )
    return None if variances is None else float(np.sqrt(variances.between))


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


def stem_sensitivity(parts: list[ScoreSlice]) -> list[Metric]:
    """Return `stem/gap/<part>` and `stem/std/<part>`, in percentage points, for questions with several wordings.

    The gap is that of the best and the worst wording. It grows with the number of wordings and with small n even if
    wordings have no effect. The standard deviation is corrected for sampling error (`beyond_sampling`): 0 means that
    the wordings differ by no more than chance.
    """
    metrics: list[Metric] = []
    for part in parts:
        wordings = part.by_category("stem")
        if wordings is None:
            continue
        beyond, rows = beyond_sampling(*wordings.rows), len(wordings.rows[0])
        gap, spread = 100.0 * float(np.ptp(wordings.accuracy)), None if beyond is None else 100.0 * beyond
        metrics.append(Metric(f"stem/gap/{part.name}", gap, rows, None, POINTS, part.coverage, lower_is_better=True))
        metrics.append(Metric(f"stem/std/{part.name}", spread, rows, None, POINTS, part.coverage, lower_is_better=True))
    return metrics


def diagnosis(scores: Scores) -> list[Metric]:
    """Return the metrics of a diagnosis: drops between levels, consistency within an image, inequality of classes,
    relatedness of wrong answers, and the effect of wording.

    Each needs certain meta columns: `level` for all, `depth` for the order of levels that are no Linnaean ranks,
    `label`, `path`, `stem`, `ask`, and from the scorer `kinship`. Rows should be of one taxonomy: call it once for each
    data set. 1,010,000 rows take a few seconds; beside the columns it holds one position per row, and the values of one
    part at a time.
    """
    slices = taxonomy_slices(scores)
    return [
        *drops(slices),
        *consistency(slices),
        *class_metrics(slices),
        *kinship_shares(slices),
        *stem_sensitivity(slices),
    ]


SEPARATOR = " > "
"""Separator of the names of a path, coarse to fine: `animalia > chordata > aves`."""


def kinship(truth_path: str, answer_path: str) -> str:
    """Return the relation of two classes of one level.

    Only a named parent makes siblings and only a named grandparent cousins: two kingdoms share no named parent, and are
    `other`. So are two classes of different levels.

    Args:
        truth_path: ancestors and class, coarse to fine, joined by " > ".
        answer_path: the same for the answered class.

    Returns:
        `same`, `sibling` (same parent), `cousin` (same grandparent, another parent) or `other`.
    """
    if truth_path == answer_path:
        return "same"
    truth, answer = truth_path.split(SEPARATOR), answer_path.split(SEPARATOR)
    if len(truth) != len(answer):
        return "other"
    if len(truth) > 1 and truth[:-1] == answer[:-1]:
        return "sibling"
    if len(truth) > 2 and truth[:-2] == answer[:-2]:
        return "cousin"
    return "other"


RELATIONS = ("sibling", "cousin", "other", "unplaced")
"""Relations of a wrong answer to the truth; `unplaced` is unparseable or names no class of the taxonomy."""

_OFFERED = ("siblings", "cousins", "others")
"""Meta columns with the number of distractors of each relation."""


def kinship_shares(parts: list[ScoreSlice]) -> list[Metric]:
    """Return `kinship/<level>/<kind>/<relation>`: the share of each of RELATIONS among answers that are not right.

    A model that takes a herring gull for another gull sees more than one that takes it for a fir. Chance is the share
    when one of the same questions' distractors is picked at random, if the questions count their distractors by
    relation. Failed answers are excluded, and so are levels whose classes have no parent, and yes/no questions, which
    name no class.
    """
    metrics: list[Metric] = []
    for part in parts:
        if part.ask == HIERARCHY and part.kind != "truth":
            metrics += _diagnosis_of_part(part)
    return metrics


def _diagnosis_of_part(part: ScoreSlice) -> list[Metric]:
    column, paths = part.scores.meta.get("kinship"), part.codes("path")
    if paths is None:
        return []
    names = part.scores.meta["path"].names
    if not any(SEPARATOR in names[code] for code in np.unique(paths[paths >= 0])):
        return []
    scores = part.scores
    wrong = ~(scores.has("correct") | scores.has("error") | scores.has("unscored"))[part.rows] & (paths >= 0)
    n = int(wrong.sum())
    if not n:
        return []
    lookup = np.full((0 if column is None else len(column.names)) + 1, RELATIONS.index("unplaced"))
    for code, name in enumerate(() if column is None else column.names):
        if name in RELATIONS:
            lookup[code] = RELATIONS.index(name)
    relation = lookup[np.full(n, -1) if column is None else column.codes[part.rows[wrong]]]
    by_lot = _by_lot(part, wrong)
    return [
        Metric(
            name=f"kinship/{part.name}/{name}",
            value=float((relation == code).mean()),
            n=n,
            ci95=interval((relation == code).astype(np.float64), part.group[wrong]),
            coverage=part.coverage,
            chance=None if by_lot is None or code >= len(_OFFERED) else by_lot[code],
        )
        for code, name in enumerate(RELATIONS)
    ]


def _by_lot(part: ScoreSlice, wrong: NDArray[np.bool_]) -> list[float] | None:
    """Return the mean share of siblings, cousins and others among the distractors of these questions."""
    counts = []
    for name in _OFFERED:
        column, codes = part.scores.meta.get(name), part.codes(name)
        if column is None or codes is None or bool((codes[wrong] < 0).any()):
            return None
        if not all(text.isdigit() for text in column.names):
            return None
        counts.append(np.array([float(text) for text in column.names])[codes[wrong]])
    total = np.sum(counts, axis=0)
    return [float((count / total).mean()) for count in counts] if bool((total > 0).all()) else None
