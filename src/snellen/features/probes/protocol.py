"""Rows, classes and values of each fit of a probe: train and test, or the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.probes import holdout
from snellen.features.ranking.relevance import RowsOf, select_rows
from snellen.features.store.labels import Labels

_BLOCK = 4_096


def split_parts(
    labels: Labels,
    train_rows: RowsOf,
    test_rows: RowsOf,
    split: Sequence[str] | NDArray[Any] | None,
    rows: int,
    folds: int,
) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Return (training rows, test rows) of each fit, and the protocol's name.

    Raises:
        UsageError: only one of train and test is named, they share rows, or there are no test rows.
    """
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


def learnt_classes(many: np.ndarray, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return [c] bool, True if every fit had training rows with the class and without it."""
    each = [many[train_part].any(axis=0) & ~many[train_part].all(axis=0) for train_part, _ in parts]
    return np.asarray(np.logical_and.reduce(each))


def class_columns(labels: Labels, train_part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
