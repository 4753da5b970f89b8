"""Rows, classes and values of each fit of a probe: train and test, held-out rows, or the folds of a cross-validation, by fixed rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.ranking.relevance import RowsOf, select_rows
from snellen.features.store.labels import Labels

SHARE = 0.1
FOLDS = 5


def generator(seed: int) -> np.random.Generator:
    """Return numpy's PCG64 generator. Raises UsageError for a negative seed."""
    if seed < 0:
        raise UsageError(f"a seed of {seed}; a whole number from 0 was expected", "As in --seed 0.")
    return np.random.default_rng(seed)


def draw_rows(targets: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Draw positions of n rows of each class without replacement, ascending; all rows of a class that has no more."""
    shuffled = generator(seed).permutation(len(targets))
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    ordered = targets[order]
    first = np.searchsorted(ordered, ordered)
    return np.sort(order[np.arange(len(order)) - first < n])


def holdout(targets: np.ndarray, *, share: float = SHARE, seed: int = 0) -> np.ndarray:
    """Return [n] bool, True for rows held out of train: about `share` of each class, and never a class's last row.

    Rows are shuffled by the seed, laid out class by class, and every (1 / share)-th is held out, so that classes
    smaller than 1 / share give rows too. A class of one row stays in training. For several labels a row ([n, c]
    bool) the rows are not stratified.
    """
    if not 0.0 < share < 1.0:
        raise UsageError(f"a held-out share of {share}; a number between 0 and 1 was expected", "0.1 is a tenth.")
    rows = len(targets)
    shuffled = generator(seed).permutation(rows)
    held_out = np.zeros(rows, dtype=bool)
    if targets.ndim == 2:
        held_out[shuffled[: round(share * rows)]] = True
        return held_out
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    steps = np.floor((np.arange(rows) + 1) * share) > np.floor(np.arange(rows) * share)
    ordered = targets[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1])) if rows else np.zeros(0, dtype=bool)
    # The first row of a class always trains; where its turn to be held out comes, the second takes it.
    late = first & steps
    steps &= ~first
    follows = np.flatnonzero(late) + 1
    follows = follows[follows < rows]
    follows = follows[~first[follows]]
    steps[follows] = True
    held_out[order[steps]] = True
    return held_out


def fold_of_each(targets: np.ndarray, count: int = FOLDS) -> np.ndarray:
    """Return [n] int64, the fold in which each row is tested, without shuffling.

    Each class's rows are cut, in their order, into `count` runs whose lengths differ by one at most; which fold gets
    the longer ones goes round from class to class, so that folds are of nearly equal size. The folds are those of
    scikit-learn's StratifiedKFold(count). For several labels a row the rows are cut into `count` runs.

    Raises:
        UsageError: fewer rows than folds.
    """
    rows = len(targets)
    if rows < count:
        raise UsageError(f"{rows:,} rows cannot be cut into {count} folds", "Give the store a train and a test split.")
    if targets.ndim == 2:
        return np.arange(rows) * count // rows
    _, first, codes = np.unique(targets, return_index=True, return_inverse=True)
    # Classes are numbered by their first row, as the round of longer runs depends on their order.
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    codes = rank[codes]
    ordered = np.sort(codes)
    lengths = np.stack([np.bincount(ordered[fold::count], minlength=len(first)) for fold in range(count)])
    tested = np.empty(rows, dtype=np.int64)
    for column in range(len(first)):
        tested[codes == column] = np.repeat(np.arange(count), lengths[:, column])
    return tested


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
    cut = fold_of_each(labels.columns if labels.many is None else labels.many, folds)
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
