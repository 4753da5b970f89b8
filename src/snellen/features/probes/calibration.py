"""Calibration of a probe: does a confidence of 80 % mean that 80 % are right?

Source: expected calibration error with bins of equal width, Naeini, Cooper and Hauskrecht 2015, AAAI; Guo et al. 2017,
arXiv 1706.04599. Brier score: Brier 1950, Monthly Weather Review 78:1 (its sum over classes, 0 to 2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.scoring.statistics.bootstrap import calibration_error
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.intervals import from_sums
from snellen.types import Metric

BINS = 15
NOT_PROBABILITIES = "ridge gives scores that are no probabilities, so it has no calibration"


class RowProbabilities(Struct, frozen=True, eq=False):
    """What a probe held likely.

    Attributes:
        confidence: [k] probability of the predicted class; with several labels a row, of each class in each row.
        correct: [k] whether that class is the row's.
        loss: [k] minus the log of the true class's probability, in nats; infinite where train lacks the class. With
            several labels the log loss of the class's presence.
        squares: [k] sum over classes of (probability - truth)^2; with several labels that of the class.
        row: [k] test row of each.
    """

    confidence: NDArray[np.float64]
    correct: NDArray[np.bool_]
    loss: NDArray[np.float64]
    squares: NDArray[np.float64]
    row: NDArray[np.int64]


class ReliabilityBin(Struct, frozen=True):
    """Predictions whose confidence lies above `low` and up to `high`: how many, their mean confidence and accuracy."""

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None


class Calibration(Struct, frozen=True, eq=False):
    """Calibration over all test rows.

    Attributes:
        metrics: `ece`, `nll` and `brier`.
        bins: the reliability diagram.
        notes: for readers of the metrics.
    """

    metrics: tuple[Metric, ...]
    bins: tuple[ReliabilityBin, ...]
    notes: tuple[str, ...]


def class_probabilities(logits: NDArray[np.floating], columns: NDArray[np.int64]) -> RowProbabilities:
    """Take [m, c] logits of one class a row; `columns`: [m] the true class's column, -1 where there is none."""
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    total = np.log(np.exp(exact).sum(axis=1, keepdims=True))
    probabilities = np.exp(exact - total)
    rows = np.arange(len(exact))
    known = columns >= 0
    of_true = np.where(known, probabilities[rows, columns], 0.0)
    loss = np.where(known, total[:, 0] - exact[rows, columns], np.inf)
    squares = np.square(probabilities).sum(axis=1) - 2.0 * of_true + 1.0
    best = probabilities.argmax(axis=1)
    return RowProbabilities(probabilities[rows, best], best == columns, loss, squares, rows.astype(np.int64))


def label_probabilities(logits: NDArray[np.floating], truth: NDArray[np.bool_]) -> RowProbabilities:
    """Take [m, c] logits of several labels a row, each its own yes or no."""
    exact = logits.astype(np.float64)
    loss = np.logaddexp(0.0, exact) - np.where(truth, exact, 0.0)
    probabilities = np.exp(-np.logaddexp(0.0, -exact))
    row = np.repeat(np.arange(len(exact), dtype=np.int64), exact.shape[1])
    squares = np.square(probabilities - truth)
    return RowProbabilities(probabilities.ravel(), truth.ravel(), loss.ravel(), squares.ravel(), row)


def join(parts: Sequence[RowProbabilities]) -> RowProbabilities:
    """Join the folds of a cross-validation; rows are numbered on."""
    sizes = [int(part.row.max(initial=-1)) + 1 for part in parts]
    first = np.concatenate(([0], np.cumsum(sizes)))
    return RowProbabilities(
        np.concatenate([part.confidence for part in parts]),
        np.concatenate([part.correct for part in parts]),
        np.concatenate([part.loss for part in parts]),
        np.concatenate([part.squares for part in parts]),
        np.concatenate([part.row + start for part, start in zip(parts, first, strict=False)]),
    )


def calibrate(known: RowProbabilities | None, bins: int = BINS) -> Calibration:
    """Compute expected calibration error, negative log likelihood and Brier score.

    `ece`: bins of equal width, closed above; the mean over predictions of |accuracy - confidence| of their bin. Its
    interval resamples rows. Rows whose class train lacks have no finite likelihood; they are in `ece` and `brier`, and
    lower the coverage of `nll`.

    Raises:
        UsageError: fewer than one bin, or a probe whose scores are no probabilities.
    """
    if known is None:
        raise UsageError(NOT_PROBABILITIES, "Take --method logistic or lda.")
    if bins < 1:
        raise UsageError(f"{bins} bins; 1 or more were expected", "As in --bins 15.")
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.minimum(np.searchsorted(edges[1:], known.confidence), bins - 1)
    count = len(place)
    ece, interval = calibration_error(known.confidence, known.correct, place, bins, known.row, cluster="image")
    finite = np.isfinite(known.loss)
    metrics = (
        Metric("ece", ece if count else None, count, interval),
        _mean("nll", known.loss[finite], known.row[finite], count, "nats"),
        _mean("brier", known.squares, known.row, count, "squared error"),
    )
    notes = []
    if not finite.all():
        notes.append(
            f"{int((~finite).sum()):,} test rows are of classes without a training row: their likelihood is 0, and nll omits them."
        )
    return Calibration(metrics, _reliability(known, place, edges), tuple(notes))


def _reliability(
    known: RowProbabilities, place: NDArray[np.int64], edges: NDArray[np.float64]
) -> tuple[ReliabilityBin, ...]:
    bins = len(edges) - 1
    n, confident, right = (
        np.bincount(place, weights=weights, minlength=bins)
        for weights in (None, known.confidence, known.correct.astype(np.float64))
    )
    return tuple(
        ReliabilityBin(
            float(edges[i]),
            float(edges[i + 1]),
            int(n[i]),
            float(confident[i] / n[i]) if n[i] else None,
            float(right[i] / n[i]) if n[i] else None,
        )
        for i in range(bins)
    )


def _mean(name: str, values: NDArray[np.float64], row: NDArray[np.int64], expected: int, unit: str) -> Metric:
    """Return a mean whose values have no upper bound of 1: Student's t, cluster-robust by image."""
    if not len(values):
        return Metric(name, None, 0, unit=unit, coverage=0.0)
    ends = from_sums(cluster_sums_of(values, row), bounded=False, level=False, cluster="image")
    return Metric(name, float(values.mean()), len(values), ends, unit=unit, coverage=len(values) / expected)
