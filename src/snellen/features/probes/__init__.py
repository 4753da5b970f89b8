"""Linear probes: accuracy of one linear layer on frozen features.

The strength of the penalty is chosen on rows held out of train, never on test. docs/features-probe.md says what each
method does and where it differs from others' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.probes import holdout, multilabel
from snellen.features.probes.calibration import (
    BINS,
    Calibration,
    RowProbabilities,
    calibrate,
    class_probabilities,
    join,
    label_probabilities,
)
from snellen.features.probes.confusion import Confusion, count_confusions
from snellen.features.probes.fit import Method, TrainedProbe, default_grid, train
from snellen.features.probes.head import ProbeHead, Scale
from snellen.features.ranking.blas import single_threaded
from snellen.features.ranking.relevance import RowsOf, as_labels, select_rows
from snellen.features.ranking.similarity import check_values
from snellen.features.store.labels import Labels, find_columns
from snellen.scoring.statistics import mean_of
from snellen.types import Metric

PENALTIES = {
    "logistic": "C: inverse L2 penalty on the sum of losses, bias free",
    "ridge": "multiple of the scatter's mean eigenvalue, bias free",
    "lda": "share of the identity in the covariance",
}
"""What the strength of each method means."""
NOT_CHOSEN = "No training row could be held out (one row per class, or too few rows), so the penalty was not tuned."
_BLOCK = 4_096
_ONE_THREAD_UP_TO = 500_000_000


class ProbeSettings(Struct, frozen=True):
    """Settings of a probe's result, besides features and labels.

    Attributes:
        method: "logistic" (L-BFGS; one class a row: multinomial, several: each class against the rest), "ridge", "lda".
        standardise: what is done to features first, by the training rows alone.
        strengths: the C that was chosen (or penalty of a closed form), one a fold.
        grid: how many strengths it was chosen from.
        selection: where it was chosen.
        protocol: "train/test", or stratified cross-validation.
        seed: of the rows held out.
        penalty: what the strength means.
        converged: whether every last fit reached its tolerance; with the steps and largest gap.
        precision: float32 or float64 of the fit.
    """

    method: Method
    standardise: Scale
    strengths: tuple[float, ...]
    grid: int
    selection: str
    protocol: str
    seed: int
    penalty: str
    converged: bool
    iterations: tuple[int, ...]
    gap: float
    precision: str
    classes: int
    train_rows: int
    test_rows: int


class ClassAccuracy(Struct, frozen=True):
    """One class: its training rows, its test rows, and the share of these that were right, with 95 % interval."""

    id: int
    name: str
    train: int
    test: int
    accuracy: float | None
    ci95: tuple[float, float] | None


class Probe(Struct, frozen=True, eq=False):
    """Probe results on each test row.

    Attributes:
        settings: as declared.
        rows: [m] row numbers of the test rows.
        targets: [m] class ids, or [m, c] bool.
        predicted: [m] class ids of the best score; for several labels [m, c] bool, scores above 0.
        rank: [m] 1-based place of the right class; classes + 1 where it was not in train. Empty for several labels.
        head: the fitted layer; None after cross-validation, where there are several.
        labels: of all rows.
        train_counts: [classes of labels] training rows of each (of all rows, after cross-validation).
        trained: the fits, one a fold.
        several: scores for several labels a row, else None.
        probabilities: what the probe held likely; None for ridge, whose scores are no probabilities.
    """

    settings: ProbeSettings
    rows: NDArray[np.int64]
    targets: NDArray[Any]
    predicted: NDArray[Any]
    rank: NDArray[np.int64]
    head: ProbeHead | None
    labels: Labels
    train_counts: NDArray[np.int64]
    trained: tuple[TrainedProbe, ...]
    several: multilabel.MultiLabel | None = None
    probabilities: RowProbabilities | None = None

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Return [m] bool, True if the best-scored class is the row's."""
        return np.asarray(self.rank == 1)

    def metrics(self) -> list[Metric]:
        """accuracy, accuracy/top5 (with more than five classes), balanced_accuracy; or those of several labels."""
        if self.several is not None:
            return list(self.several.metrics)
        return accuracy_metrics(self.rank, self.targets, self.settings.classes)

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

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = []
        if self.settings.protocol != "train/test":
            notes.append(f"Without a test split, every row was tested once: {self.settings.protocol}.")
        lost = int((self.rank > self.settings.classes).sum())
        if lost:
            absent = len(np.unique(self.targets[self.rank > self.settings.classes]))
            notes.append(f"{lost:,} test rows are of {absent:,} classes without a training row; they count as wrong.")
        if self.several is None and self.settings.classes <= 5:
            notes.append(f"accuracy/top5 is omitted: with {self.settings.classes} classes it is uninformative.")
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
        if self.settings.grid > 1 and any(fit.held_out == 0 for fit in self.trained):
            notes.append(NOT_CHOSEN)
        if not self.settings.converged:
            notes.append(f"The last fit stopped {self.settings.gap:.1e} of its objective above the minimum.")
        edges = [fit for fit in self.trained if fit.tried and fit.strength == fit.tried[-1].strength]
        if edges:
            notes.append(
                f"The chosen strength is the last of its grid ({edges[0].strength:g}); a wider grid may do better."
            )
        return notes


def accuracy_metrics(rank: NDArray[np.int64], targets: NDArray[Any], classes: int) -> list[Metric]:
    """accuracy, accuracy/top5 (with more than five classes), balanced_accuracy, of [m] places of the right class."""
    metrics = [
        mean_of(name, (rank <= top).astype(np.float64), chance=top / classes)
        for name, top in (("accuracy", 1), ("accuracy/top5", 5))
        if top < classes
    ]
    _, codes, counts = np.unique(targets, return_inverse=True, return_counts=True)
    weights = 1.0 / (len(counts) * counts[codes])
    right = (rank == 1).astype(np.float64)
    return [*metrics, mean_of("balanced_accuracy", right, weights=weights, chance=1.0 / classes)]


def probe(
    features: Any,
    labels: Any,
    *,
    train_rows: RowsOf = None,
    test_rows: RowsOf = None,
    split: Sequence[str] | NDArray[Any] | None = None,
    method: Method = "logistic",
    standardise: Scale = "none",
    strengths: Sequence[float] | None = None,
    share: float = holdout.SHARE,
    seed: int = 0,
    folds: int = holdout.FOLDS,
    tolerance: float | None = None,
) -> Probe:
    """Train a probe on some rows and test it on others.

    Args:
        features: [n, d] of any real type; memory-mapped is fine, the rows used are copied.
        labels: [n] integers or texts, [n, c] of 0 and 1, n sets of ids, or Labels.
        train_rows, test_rows: row numbers, a mask, or names of splits. None for both: stratified cross-validation
            over all rows, strength chosen anew in each fold.
        split: [n] names of splits.
        method: "logistic", "ridge" or "lda"; several labels a row take "logistic".
        standardise: "none", "l2" or "standardise".
        strengths: values of C (inverse penalty on the sum of losses), or penalties of the closed forms; None for the
            method's grid. One value is taken as it is.
        share, seed: of the training rows that choose among several strengths.
        folds: of the cross-validation.
        tolerance: of the last logistic fit; None: 1e-14 in float64, 1e-5 in float32.

    Raises:
        DataError: features that are not finite, naming the row; labels of another number of rows.
        UsageError: only one of train and test is named, they share rows, or train has fewer than two classes.
    """
    values = check_values(features)
    known = as_labels(labels, len(values))
    if method not in PENALTIES:
        raise UsageError(f"there is no method {method!r}", f"Choose one of: {', '.join(PENALTIES)}.")
    if known.many is not None and method != "logistic":
        raise UsageError(f"{method} takes one label a row, and these rows have several", "Take --method logistic.")
    parts, protocol = _parts(known, train_rows, test_rows, split, len(values), folds)
    fits: list[TrainedProbe] = []
    heads: list[ProbeHead] = []
    scored: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    likely: list[RowProbabilities] = []
    for train_part, test_part in parts:
        columns, targets = _columns(known, train_part)
        # Several threads spin longer than they compute on products so small.
        small = len(train_part) * values.shape[1] * len(columns) <= _ONE_THREAD_UP_TO
        with single_threaded() if small else nullcontext():
            fitted = train(
                finite_rows(values, train_part),
                targets,
                len(columns),
                method=method,
                standardise=standardise,
                strengths=strengths,
                share=share,
                seed=seed,
                tolerance=tolerance,
            )
        names = None if known.names is None else tuple(known.names[column] for column in columns)
        head = ProbeHead(
            fitted.weights, fitted.bias, fitted.scaling, known.classes[columns], names, known.many is not None
        )
        logits = head.logits(finite_rows(values, test_part))
        if not np.isfinite(logits).all():
            raise DataError(
                f"features: row {test_part[int((~np.isfinite(logits)).any(axis=1).argmax())]}: the layer's scores of it are "
                f"not finite; {np.abs(fitted.weights).max():.1e} is the layer's largest weight",
                "Multiply or divide all features by one number, so that they are near 1.",
            )
        if known.many is None:
            true_ids = np.asarray(known.single)[test_part]
            scored.append(place_true_class(logits, head.classes, true_ids))
            likely.append(class_probabilities(logits, find_columns(head.classes, true_ids)))
        else:
            scored.append((logits, known.many[test_part], np.zeros(0, dtype=np.int64)))
        fits.append(fitted)
        heads.append(head)
    grid = len(default_grid(method) if strengths is None else strengths)
    trained_on = np.unique(np.concatenate([train_part for train_part, _ in parts]))
    settings = ProbeSettings(
        method=method,
        standardise=standardise,
        strengths=tuple(fit.strength for fit in fits),
        grid=grid,
        selection=_selection(fits, share, grid),
        protocol=protocol,
        seed=seed,
        penalty=PENALTIES[method],
        converged=all(fit.converged for fit in fits),
        iterations=tuple(fit.iterations for fit in fits),
        gap=max(fit.gap for fit in fits),
        precision=fits[0].precision,
        classes=max(len(head.classes) for head in heads),
        train_rows=len(trained_on),
        test_rows=sum(len(test_part) for _, test_part in parts),
    )
    rows = np.concatenate([test_part for _, test_part in parts])
    targets = np.concatenate([part[1] for part in scored])
    predicted = np.concatenate([part[0] for part in scored])
    several = None
    if known.many is None:
        probabilities = None if method == "ridge" else join(likely)
        counted = np.bincount(known.columns[trained_on], minlength=len(known.classes))
    else:
        counted = known.many[trained_on].sum(axis=0)
        learnt = _learnt(known.many, parts)
        several = multilabel.score(predicted, targets, learnt=learnt)
        probabilities = label_probabilities(predicted[:, learnt], targets[:, learnt])
        predicted = predicted > 0.0
    return Probe(
        settings=settings,
        rows=rows,
        targets=targets,
        predicted=predicted,
        # Folds may know different numbers of classes: a class that one lacks is behind all that any has.
        rank=np.concatenate(
            [
                np.where(rank > len(head.classes), settings.classes + 1, rank)
                for (_, _, rank), head in zip(scored, heads, strict=True)
            ]
        ),
        head=_described(heads[0], settings) if len(heads) == 1 else None,
        labels=known,
        train_counts=counted,
        trained=tuple(fits),
        several=several,
        probabilities=probabilities,
    )


def _parts(
    labels: Labels,
    train_rows: RowsOf,
    test_rows: RowsOf,
    split: Sequence[str] | NDArray[Any] | None,
    rows: int,
    folds: int,
) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Return (training rows, test rows) of each fit, and the protocol's name."""
    if (train_rows is None) != (test_rows is None):
        raise UsageError("only one of train and test is named.", "Name both splits, or neither for cross-validation.")
    if train_rows is not None:
        train_part = select_rows(train_rows, split, rows, "train")
        test_part = select_rows(test_rows, split, rows, "test")
        if len(np.intersect1d(train_part, test_part)):
            raise UsageError(
                f"{len(np.intersect1d(train_part, test_part)):,} rows are in train and in test: the probe would be tested on "
                "what it was trained on",
                "Name splits that share no row.",
            )
        if not len(test_part):
            raise UsageError("there are no test rows.", "Name a split that has rows.")
        return [(train_part, test_part)], "train/test"
    cut = holdout.folds(labels.columns if labels.many is None else labels.many, folds)
    parts = [(np.flatnonzero(cut != fold), np.flatnonzero(cut == fold)) for fold in range(folds)]
    stratified = "stratified " if labels.many is None else ""
    return parts, f"{stratified}{folds}-fold cross-validation"


def _learnt(many: np.ndarray, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return [c] bool, True if every fit had training rows with the class and without it."""
    each = [many[train_part].any(axis=0) & ~many[train_part].all(axis=0) for train_part, _ in parts]
    return np.asarray(np.logical_and.reduce(each))


def _columns(labels: Labels, train_part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of train (columns of labels) and the training targets in these columns."""
    if labels.many is not None:
        return np.arange(len(labels.classes)), labels.many[train_part]
    columns, targets = np.unique(labels.columns[train_part], return_inverse=True)
    return columns, targets.astype(np.int64)


def finite_rows(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Take rows as float64 if they are stored so, else as float32.

    Raises:
        DataError: a value is not finite, or too large for a sum of squares; it names the row.
    """
    taken = np.asarray(values[rows], dtype=np.float64 if values.dtype == np.float64 else np.float32)
    for start in range(0, len(taken), _BLOCK):
        bad = ~np.isfinite(taken[start : start + _BLOCK])
        if bad.any():
            row, column = (int(index) for index in np.argwhere(bad)[0])
            raise DataError(
                f"features: row {rows[start + row]}: column {column} is {taken[start + row, column]}; "
                "finite numbers were expected",
                "Extract this row again, or exclude it and report that.",
            )
    if taken.dtype == np.float64 and taken.size:
        with np.errstate(over="ignore"):
            lengths = np.concatenate(
                [np.square(taken[i : i + _BLOCK]).sum(axis=1) for i in range(0, len(taken), _BLOCK)]
            )
            large = not np.isfinite(lengths.sum())
        if large:
            raise DataError(
                f"features: row {rows[int(lengths.argmax())]}: its values are so large that sums of their squares "
                "overflow float64",
                "Divide all features by one number.",
            )
    return taken


def place_true_class(
    logits: np.ndarray, classes: np.ndarray, true_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (predicted ids, true ids, rank of the true class); of equal scores the earlier column comes first."""
    columns = find_columns(classes, true_ids)
    own_score = logits[np.arange(len(logits)), columns][:, None]
    before = np.arange(len(classes)) < columns[:, None]
    place = 1 + (logits > own_score).sum(axis=1) + ((logits == own_score) & before).sum(axis=1)
    return classes[logits.argmax(axis=1)], true_ids, np.where(columns >= 0, place, len(classes) + 1).astype(np.int64)


def _selection(fits: Sequence[TrainedProbe], share: float, grid: int) -> str:
    if all(fit.tried for fit in fits):
        return f"held-out {share:.0%} of train ({fits[0].held_out:,} rows), then fitted on all of train"
    if any(fit.tried for fit in fits):
        return "held-out part of train where one could be taken"
    return "given" if grid == 1 else "none: no row of train could be held out"


def _described(head: ProbeHead, settings: ProbeSettings) -> ProbeHead:
    from msgspec import to_builtins
    from msgspec.structs import replace

    return replace(head, settings=to_builtins(settings))
