"""Results of a probe on its test rows: metrics, classes, calibration and confusions, whatever was trained.

Confusion matrix of a probe: how often each class was taken for which.

Scores of several labels a row: area under the ROC curve and average precision, per class, macro and micro.
A class that some fit could not learn (no training row of it, or none without it) is skipped in every figure, the pooled
ones too, and counted. What such a layer puts its rows in order by is the rest of what other classes' rows look like:
neither 0.5 nor anything else that an area could be taken for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.atomic_write import write_whole
from snellen.features.probes.calibration import (
    BINS,
    Calibration,
    RowProbabilities,
    calibrate,
    class_probabilities,
    join,
    label_probabilities,
)
from snellen.features.probes.protocol import learnt_classes
from snellen.features.store.labels import Labels, find_columns
from snellen.scoring.statistics import mean_of
from snellen.scoring.statistics.bootstrap import percentile_interval
from snellen.text import csv_text
from snellen.types import Metric


class Mistake(Struct, frozen=True):
    """Test rows of class `true` that were taken for `predicted`; `share` of the class's test rows."""

    true: str
    predicted: str
    n: int
    share: float


class Confusion(Struct, frozen=True, eq=False):
    """Counts of test rows.

    Attributes:
        classes: [c] names, in the order of ids.
        counts: [c, c] rows of the true class (row) by predicted class (column); with several labels a row [c, 2, 2]:
            of each class absent or present (row) by not predicted or predicted (column).
    """

    classes: tuple[str, ...]
    counts: NDArray[np.int64]

    def mistakes(self) -> list[Mistake]:
        """Return all pairs of classes that were confused, the most frequent first; empty for several labels."""
        if self.counts.ndim != 2:
            return []
        rows, columns = np.nonzero(self.counts * (1 - np.eye(len(self.counts), dtype=np.int64)))
        tested = self.counts.sum(axis=1)
        counted = [
            Mistake(
                self.classes[i],
                self.classes[j],
                int(self.counts[i, j]),
                float(self.counts[i, j] / tested[i]),
            )
            for i, j in zip(rows, columns, strict=True)
        ]
        return sorted(counted, key=lambda one: (-one.n, -one.share, one.true, one.predicted))

    def table(self) -> list[list[Any]]:
        """Return header and rows: the matrix, or for several labels the four counts of each class."""
        if self.counts.ndim == 3:
            head = ["class", "true positive", "false positive", "false negative", "true negative"]
            return [head] + [
                [name, *(int(counts[at]) for at in ((1, 1), (0, 1), (1, 0), (0, 0)))]
                for name, counts in zip(self.classes, self.counts, strict=True)
            ]
        return [["true \\ predicted", *self.classes]] + [
            [name, *counts] for name, counts in zip(self.classes, self.counts.tolist(), strict=True)
        ]

    def save(self, path: Path) -> Path:
        """Write the table as CSV, whole or not at all. Raises StorageError."""
        return write_whole(path, csv_text(self.table()), "Choose another file.")


def count_confusions(labels: Labels, targets: NDArray[Any], predicted: NDArray[Any]) -> Confusion:
    """Count predictions.

    Args:
        labels: classes of all rows.
        targets, predicted: [m] class ids, or [m, c] bool.
    """
    names = [labels.name(column) for column in range(len(labels.classes))]
    # Two classes of one name are two classes.
    apart = [
        name if names.count(name) == 1 else f"{name} ({class_id})"
        for name, class_id in zip(names, labels.classes.tolist(), strict=True)
    ]
    if targets.ndim == 2:
        cells = [[(a & b).sum(axis=0) for b in (~predicted, predicted)] for a in (~targets, targets)]
        return Confusion(tuple(apart), np.moveaxis(np.array(cells, dtype=np.int64), 2, 0))
    size = len(apart)
    place = find_columns(labels.classes, targets) * size + find_columns(labels.classes, predicted)
    return Confusion(tuple(apart), np.bincount(place, minlength=size * size).reshape(size, size).astype(np.int64))


class ClassAccuracy(Struct, frozen=True):
    """One class: its training rows, its test rows, and the share of these that were right, with 95 % interval."""

    id: int
    name: str
    train: int
    test: int
    accuracy: float | None
    ci95: tuple[float, float] | None


class ScoredPart(Struct, frozen=True, eq=False):
    """Scores of the test rows of one fit.

    Attributes:
        logits: [m, c] of `rows`, [m] row numbers.
        classes: [c] class ids of the columns.
    """

    logits: NDArray[np.floating]
    classes: NDArray[np.int64]
    rows: NDArray[np.int64]


class ProbeResult(Struct, frozen=True, eq=False, kw_only=True):
    """Results of a probe on each test row.

    Attributes:
        protocol: "train/test", or stratified cross-validation.
        class_count: the most classes that a fit knew.
        rows: [m] row numbers of the test rows.
        targets: [m] class ids, or [m, c] bool.
        predicted: [m] class ids of the best score; for several labels [m, c] bool, scores above 0.
        rank: [m] 1-based place of the right class; classes + 1 where it was not in train. Empty for several labels.
        labels: of all rows.
        train_counts: [classes of labels] training rows of each (of all rows, after cross-validation).
        several: scores for several labels a row, else None.
        probabilities: what the probe held likely; None for ridge, whose scores are no probabilities.
    """

    protocol: str
    class_count: int
    rows: NDArray[np.int64]
    targets: NDArray[Any]
    predicted: NDArray[Any]
    rank: NDArray[np.int64]
    labels: Labels
    train_counts: NDArray[np.int64]
    several: MultiLabel | None = None
    probabilities: RowProbabilities | None = None

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Return [m] bool, True if the best-scored class is the row's."""
        return np.asarray(self.rank == 1)

    def metrics(self) -> list[Metric]:
        """accuracy, accuracy/top5 (with more than five classes), balanced_accuracy; or those of several labels."""
        if self.several is not None:
            return list(self.several.metrics)
        return accuracy_metrics(self.rank, self.targets, self.class_count)

    def calibration(self, bins: int = BINS) -> Calibration:
        """Return `ece`, `nll`, `brier` and the reliability diagram. Raises UsageError for ridge."""
        return calibrate(self.probabilities, bins)

    def confusion(self) -> Confusion:
        """Return how often each class was taken for which."""
        return count_confusions(self.labels, self.targets, self.predicted)

    def per_class(self) -> list[ClassAccuracy]:
        """Return the accuracy of every class that has a test row, in the order of ids; for one label a row."""
        rows = []
        for column, identity in enumerate(self.labels.classes):
            if self.several is not None:
                in_class = self.targets[:, column]
                right = self.predicted[in_class, column].astype(np.float64)
            else:
                in_class = self.targets == identity
                right = self.correct[in_class].astype(np.float64)
            if in_class.any():
                rate = mean_of("", right)
                name, trained = self.labels.name(column), int(self.train_counts[column])
                rows.append(ClassAccuracy(int(identity), name, trained, rate.n, rate.value, rate.ci95))
        return rows

    def test_notes(self) -> list[str]:
        """Return notes about the test rows and their classes, one sentence each."""
        notes = []
        if self.protocol != "train/test":
            notes.append(f"Without a test split, every row was tested once: {self.protocol}.")
        lost = int((self.rank > self.class_count).sum())
        if lost:
            absent = len(np.unique(self.targets[self.rank > self.class_count]))
            notes.append(f"{lost:,} test rows are of {absent:,} classes without a training row; they count as wrong.")
        if self.several is None and self.class_count <= 5:
            notes.append(f"accuracy/top5 is omitted: with {self.class_count} classes it is uninformative.")
        if self.several is not None and self.several.skipped:
            notes.append(
                f"{self.several.skipped:,} classes have no positive test row and are excluded from means over classes."
            )
        if self.several is not None:
            untaught = int((~self.several.learnt & (self.several.positives > 0)).sum())
            if untaught:
                notes.append(
                    f"{untaught:,} classes have positive test rows but no training row with, or none without, the "
                    "class; they are excluded from every metric."
                )
        return notes


def score_parts(
    labels: Labels,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    scored: Sequence[ScoredPart],
    protocol: str,
    *,
    likely: bool = True,
) -> ProbeResult:
    """Score the test rows of every fit.

    Args:
        parts: (training rows, test rows) of each fit.
        likely: whether the logits are those of probabilities.
    """
    trained_on = np.unique(np.concatenate([train_part for train_part, _ in parts]))
    classes = max(len(part.classes) for part in scored)
    rows = np.concatenate([part.rows for part in scored])
    if labels.many is not None:
        logits = np.concatenate([part.logits for part in scored])
        targets, learnt = labels.many[rows], learnt_classes(labels.many, parts)
        return ProbeResult(
            protocol=protocol,
            class_count=classes,
            rows=rows,
            targets=targets,
            predicted=logits > 0.0,
            rank=np.zeros(0, dtype=np.int64),
            labels=labels,
            train_counts=labels.many[trained_on].sum(axis=0),
            several=score(logits, targets, learnt=learnt),
            probabilities=label_probabilities(logits[:, learnt], targets[:, learnt]) if likely else None,
        )
    true_ids = [np.asarray(labels.single)[part.rows] for part in scored]
    placed = [place_true_class(part.logits, part.classes, ids) for part, ids in zip(scored, true_ids, strict=True)]
    probabilities = None
    if likely:
        pairs = zip(scored, true_ids, strict=True)
        probabilities = join([class_probabilities(part.logits, find_columns(part.classes, ids)) for part, ids in pairs])
    return ProbeResult(
        protocol=protocol,
        class_count=classes,
        rows=rows,
        targets=np.concatenate(true_ids),
        predicted=np.concatenate([predicted for predicted, _, _ in placed]),
        # Folds may know different numbers of classes: a class that one lacks is behind all that any has.
        rank=np.concatenate(
            [
                np.where(rank > len(part.classes), classes + 1, rank)
                for (_, _, rank), part in zip(placed, scored, strict=True)
            ]
        ),
        labels=labels,
        train_counts=np.bincount(labels.columns[trained_on], minlength=len(labels.classes)),
        probabilities=probabilities,
    )


def accuracy_metrics(rank: NDArray[np.int64], targets: NDArray[Any], classes: int) -> list[Metric]:
    """accuracy, accuracy/top5 (with more than five classes), balanced_accuracy, of [m] places of the right class."""
    metrics = [
        mean_of(name, (rank <= top).astype(np.float64), chance=top / classes)
        for name, top in (("accuracy", 1), ("accuracy/top5", 5))
        if top < classes
    ]
    right = (rank == 1).astype(np.float64)
    return [*metrics, mean_of("balanced_accuracy", right, strata=targets, chance=1.0 / classes)]


def place_true_class(
    logits: np.ndarray, classes: np.ndarray, true_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (predicted ids, true ids, rank of the true class); of equal scores the earlier column comes first."""
    columns = find_columns(classes, true_ids)
    own_score = logits[np.arange(len(logits)), columns][:, None]
    before = np.arange(len(classes)) < columns[:, None]
    place = 1 + (logits > own_score).sum(axis=1) + ((logits == own_score) & before).sum(axis=1)
    return classes[logits.argmax(axis=1)], true_ids, np.where(columns >= 0, place, len(classes) + 1).astype(np.int64)


REPLICATES = 500
SEED = 20_260_401


class ScoreRanking(Struct, frozen=True, eq=False):
    """[n] scores of one class in descending order of score, ties together."""

    order: np.ndarray
    positive: np.ndarray
    last: np.ndarray


def rank_scores(scores: np.ndarray, positive: np.ndarray) -> ScoreRanking:
    """Sort once, so that resamples of the rows are sums over a fixed order."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], [True] * (len(ordered) > 0)))
    return ScoreRanking(order, positive[order].astype(np.float64), last)


def auroc(ranking: ScoreRanking, weight: np.ndarray | None = None) -> float:
    """Compute the area under the ROC curve, ties counting half; NaN without a positive or a negative row.

    Args:
        weight: [n] how often each row counts, in the order of the rows; None for once.
    """
    share = np.ones(len(ranking.order)) if weight is None else weight[ranking.order]
    hits, misses = _cumulative(ranking, share)
    if not len(hits) or not hits[-1] or not misses[-1]:
        return float("nan")
    above = np.concatenate(([0.0], hits[:-1]))
    fresh = np.diff(misses, prepend=0.0)
    return float((fresh * (above + hits)).sum() / (2.0 * hits[-1] * misses[-1]))


def average_precision(ranking: ScoreRanking, weight: np.ndarray | None = None) -> float:
    """Compute the mean over positives of the precision at their score; equal scores are one step. NaN without a positive."""
    share = np.ones(len(ranking.order)) if weight is None else weight[ranking.order]
    hits, misses = _cumulative(ranking, share)
    if not len(hits) or not hits[-1]:
        return float("nan")
    fresh = np.diff(hits, prepend=0.0)
    retrieved = hits + misses
    return float((fresh * hits / np.where(retrieved > 0.0, retrieved, 1.0)).sum() / hits[-1])


def _cumulative(ranking: ScoreRanking, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count positives and negatives down to the end of each group of equal scores."""
    hits = np.cumsum(share * ranking.positive)[ranking.last]
    every = np.cumsum(share)[ranking.last]
    return hits, every - hits


class MultiLabel(Struct, frozen=True, eq=False):
    """Per class values and the classes left out.

    Attributes:
        auroc: [c], NaN where a class has no positive or no negative test row, or was not learnt.
        average_precision: [c], NaN where it has no positive one, or was not learnt.
        positives: [c] test rows of each class.
        metrics: `auroc` and `map` (means over classes), `auroc/micro` and `map/micro` (all rows and learnt classes as
            one list), each with a percentile interval over resampled rows; their coverage is the share of classes.
        skipped: classes without a positive test row, in no mean.
        learnt: [c] bool, see above; classes that are not are in no metric.
    """

    auroc: np.ndarray
    average_precision: np.ndarray
    positives: np.ndarray
    metrics: tuple[Metric, ...]
    skipped: int
    learnt: np.ndarray


def score(
    scores: np.ndarray,
    positive: np.ndarray,
    *,
    learnt: np.ndarray | None = None,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> MultiLabel:
    """Score [m, c] logits against [m, c] bool; micro figures compare logits across classes as they are.

    Args:
        learnt: [c] bool, which classes could be learnt; None for all.
    """
    rows, every = positive.shape
    counts = positive.sum(axis=0)
    taught = np.ones(every, dtype=bool) if learnt is None else np.asarray(learnt, dtype=bool)
    scores, positive = scores[:, taught], positive[:, taught]
    classes = positive.shape[1]
    columns = [rank_scores(scores[:, j], positive[:, j]) for j in range(classes)]
    pooled = rank_scores(scores.ravel(), positive.ravel())
    rocs = np.array([auroc(column) for column in columns])
    precisions = np.array([average_precision(column) for column in columns])
    chance = positive.mean(axis=0)
    values = {
        "auroc": (_mean(rocs), 0.5),
        "auroc/micro": (auroc(pooled), 0.5),
        "map": (_mean(precisions), float(chance[chance > 0].mean()) if (chance > 0).any() else None),
        "map/micro": (average_precision(pooled), float(positive.mean()) if positive.size else None),
    }
    drawn: dict[str, list[float]] = {name: [] for name in values}
    rng = np.random.default_rng(seed)
    for _ in range(replicates if rows > 1 and classes else 0):
        weight = rng.multinomial(rows, np.full(rows, 1.0 / rows)).astype(np.float64)
        spread = np.repeat(weight, classes)
        drawn["auroc"].append(_mean(np.array([auroc(column, weight) for column in columns])))
        drawn["map"].append(_mean(np.array([average_precision(column, weight) for column in columns])))
        drawn["auroc/micro"].append(auroc(pooled, spread))
        drawn["map/micro"].append(average_precision(pooled, spread))
    scored = {"auroc": np.isfinite(rocs), "map": np.isfinite(precisions)}
    metrics = []
    for name, (value, guess) in values.items():
        known = np.array([draw for draw in drawn[name] if np.isfinite(draw)])
        low_high = percentile_interval(known, rows, rows)
        counted = classes if name.endswith("micro") else int(scored[name].sum())
        metrics.append(
            Metric(
                name,
                value if np.isfinite(value) else None,
                rows,
                low_high,
                coverage=counted / every if every else 1.0,
                chance=guess,
            )
        )
    return MultiLabel(
        _spread(rocs, taught), _spread(precisions, taught), counts, tuple(metrics), int((counts == 0).sum()), taught
    )


def _spread(values: np.ndarray, taught: np.ndarray) -> np.ndarray:
    """Expand to [c], NaN for the classes without training rows."""
    spread = np.full(len(taught), np.nan)
    spread[taught] = values
    return spread


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
