"""Summaries that fit any benchmark: accuracy, its parts by meta, and how many replies could not be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from snellen.scoring import statistics
from snellen.scoring.scores import Scores
from snellen.scoring.statistics.intervals import cluster_word, coverage
from snellen.types import Metric, Verdict


def guessing(scores: Scores) -> float | None:
    """What guessing reaches on these rows: the mean of their meta `chance` (0 to 1); None unless every row has it."""
    column = scores.meta.get("chance")
    if column is None or not len(scores) or bool((column.codes < 0).any()):
        return None
    try:
        levels = np.array([float(name) for name in column.names])
    except ValueError:
        return None
    return float(levels[column.codes].mean())


def accuracy(scores: Scores, name: str = "accuracy", *, chance: float | None = None) -> Metric:
    """The mean score; chance is that of the rows' meta unless given."""
    return statistics.mean(name, scores, chance=guessing(scores) if chance is None else chance)


def balanced_accuracy(
    scores: Scores, by: str = "target", name: str = "balanced_accuracy", *, chance: float | None = None
) -> Metric:
    """The mean over targets of the mean score on that target; a constant answer scores 1 / targets.

    Args:
        scores: one row a sample and repeat.
        by: the meta column that holds the target.
        name: the metric's name.
        chance: 1 / targets unless given.
    """
    column = scores.meta.get(by)
    targets = len(np.unique(column.codes[column.codes >= 0])) if column is not None else 0
    return statistics.macro_mean(name, scores, by, chance=1.0 / targets if chance is None and targets else chance)


def majority(scores: Scores, by: str = "target", name: str = "majority", *, within: str = "") -> Metric:
    """What always giving the most frequent target reaches: the baseline that plain accuracy has to beat.

    Args:
        scores: one row a sample and repeat; rows without the target are left out, and lower the coverage.
        by: the meta column that holds the target.
        name: the metric's name.
        within: a meta column; for each of its values (and the rows without one) a constant of its own is chosen.
    """
    column, block = scores.meta.get(by), scores.meta.get(within)
    if column is None:
        return Metric(name, None, 0, None, coverage=0.0)
    known = column.codes >= 0
    rows, width = int(known.sum()), len(column.names)
    blocks = np.zeros(len(scores), dtype=np.int64) if block is None else block.codes.astype(np.int64) + 1
    height = 1 if block is None else len(block.names) + 1
    counts = np.bincount((blocks * width + column.codes)[known], minlength=height * width).reshape(height, width)
    best = int(counts.max(axis=1).sum()) if rows else 0
    return Metric(name, best / rows if rows else None, rows, None, coverage=coverage(rows, scores.expected))


def breakdown(
    scores: Scores, by: Sequence[str], name: str = "accuracy", *, chance: Mapping[str, float] | None = None
) -> list[Metric]:
    """Accuracy for each combination of meta values, in the order of first appearance.

    Args:
        scores: one row a sample and repeat.
        by: meta columns; ("kind", "level") gives `accuracy/short/species` and its like. Rows that lack one of them
            are in no part.
        name: what stands before the first slash.
        chance: what guessing reaches, by the part's name without `name/`; else that of the rows' meta.
    """
    parts = [("", scores)]
    for column in by:
        parts = [(f"{path}/{value}", rows) for path, part in parts for value, rows in part.by(column)]
    return [accuracy(rows, name + path, chance=(chance or {}).get(path[1:])) for path, rows in parts if path]


def share(scores: Scores, verdict: Verdict, name: str) -> Metric:
    """The share of rows with this verdict, of all rows (failed and unscored ones too)."""
    value = scores.has(verdict).astype(np.float64)
    rows = len(value)
    return Metric(
        name=name,
        value=float(value.mean()) if rows else None,
        n=rows,
        ci95=statistics.interval(value, scores.group, cluster=cluster_word(scores)),
        coverage=coverage(rows, scores.expected),
    )


def standard(scores: Scores, by: Sequence[Sequence[str]] = (("kind",),)) -> list[Metric]:
    """Accuracy, its parts, and the shares of replies that could not be read (`invalid`) and that failed (`error`).

    Args:
        scores: one row a sample and repeat.
        by: breakdowns, each a tuple of meta columns: (("kind",), ("kind", "level")).
    """
    metrics = [accuracy(scores)]
    for columns in by:
        metrics.extend(breakdown(scores, columns))
    metrics.append(share(scores, "invalid", "invalid"))
    metrics.append(share(scores, "error", "error"))
    return metrics
