"""Readouts of features: a linear probe, and the nearest class centroid by cosine, each trained on other drawings."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.features.probes.closed_form import STRENGTHS, compute_moments, score_path, solve
from snellen.features.probes.head import scaling

Readout: TypeAlias = Literal["probe", "cosine"]
READOUTS: tuple[Readout, ...] = ("probe", "cosine")
FOLDS = 4
"""Parts of the training drawings that choose the probe's penalty by cross-validation."""


class LabelledFeatures(Struct, frozen=True, eq=False):
    """Features of some drawings.

    Attributes:
        values: [n, d] float32.
        classes: [n] index of the right name.
        rivals: [n, a] indices of the names that come into question, rising; the right one is among them.
    """

    values: NDArray[np.float32]
    classes: NDArray[np.int64]
    rivals: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_]) -> LabelledFeatures:
        """Return some rows."""
        return LabelledFeatures(self.values[rows], self.classes[rows], self.rivals[rows])


def right_answers(readout: Readout, train: LabelledFeatures, test: LabelledFeatures, classes: int) -> NDArray[np.bool_]:
    """Return [n] whether the readout names each test drawing correctly, among its own alternatives.

    probe: least squares on one-hot targets of standardised features, its ridge penalty chosen by cross-validation within
    the training drawings. cosine: the centroid with the largest cosine, after the mean of the training drawings is
    subtracted. Equal scores go to the name with the lowest index, so that constant features reach chance.
    """
    scores = _probe_scores(train, test, classes) if readout == "probe" else _cosine_scores(train, test, classes)
    return _named(scores, test)


def _named(scores: NDArray[np.float64], rows: LabelledFeatures) -> NDArray[np.bool_]:
    among = np.take_along_axis(scores, rows.rivals, axis=1)
    best = np.take_along_axis(rows.rivals, among.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray(best == rows.classes)


def _probe_scores(train: LabelledFeatures, test: LabelledFeatures, classes: int) -> NDArray[np.float64]:
    scale = scaling("standardise", train.values)
    train_values, test_values = (scale.apply(rows.values).astype(np.float64) for rows in (train, test))
    # A ridge solution lies in the span of the training rows: few axes stand for thousands of features.
    mean = train_values.mean(axis=0)
    axes = np.linalg.svd(train_values - mean, full_matrices=False)[2].T
    train_values, test_values = (train_values - mean) @ axes, (test_values - mean) @ axes
    grid = STRENGTHS["ridge"]
    right = np.zeros(len(grid))
    folds = _folds(train.classes)
    for fold in range(FOLDS):
        held_out = folds == fold
        if held_out.all() or not held_out.any():
            continue
        moments = compute_moments(train_values[~held_out], train.classes[~held_out], classes)
        held_out_rows = train.take(held_out)
        for place, scores in enumerate(score_path(moments, "ridge", grid, train_values[held_out])):
            right[place] += _named(np.asarray(scores, dtype=np.float64), held_out_rows).sum()
    best = len(grid) - 1 - int(right[::-1].argmax())  # of equal ones the strongest penalty
    weights, bias = solve(compute_moments(train_values, train.classes, classes), "ridge", grid[best])
    return np.asarray(test_values @ weights + bias, dtype=np.float64)


def _folds(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [n] the fold of each row: those of a class are spread evenly."""
    folds = np.zeros(len(classes), dtype=np.int64)
    for each in np.unique(classes):
        rows = np.flatnonzero(classes == each)
        folds[rows] = (np.arange(len(rows)) + each) % FOLDS
    return folds


def _cosine_scores(train: LabelledFeatures, test: LabelledFeatures, classes: int) -> NDArray[np.float64]:
    mean = train.values.mean(axis=0, dtype=np.float64)
    centroids = np.zeros((classes, train.values.shape[1]))
    for each in np.unique(train.classes):
        centroids[each] = train.values[train.classes == each].mean(axis=0, dtype=np.float64) - mean
    return _unit(test.values - mean) @ _unit(centroids).T


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))
