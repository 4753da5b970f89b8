"""Accuracy of each class, and its inequality over classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.scores import ScoreBuilder, Scores
from snellen.scoring.statistics import interval, spread
from snellen.scoring.taxonomy.slices import BIAS, POINTS, ScoreSlice, taxonomy_slices
from snellen.types import Metric, Sample, Score

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
