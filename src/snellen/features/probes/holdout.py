"""Held-out rows and cross-validation folds, chosen by fixed rules so that they are reproducible."""

from __future__ import annotations

import numpy as np

from snellen.errors import UsageError

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


def folds(targets: np.ndarray, count: int = FOLDS) -> np.ndarray:
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
