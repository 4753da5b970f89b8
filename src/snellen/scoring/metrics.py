"""Metrics for any benchmark: accuracy, its slices by meta, and the shares of unparseable and failed replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs

from snellen.scoring import statistics
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics.intervals import cluster_word, coverage
from snellen.types import Metric, Verdict

_LOST: tuple[Verdict, ...] = ("wrong", "invalid", "error", "unscored")
"""Verdicts of which a smaller share is better."""


def accuracy(scores: Scores, name: str = "accuracy", *, chance: float | None = None) -> Metric:
    """Return the mean score; chance defaults to that of the rows' meta."""
    return statistics.mean(name, scores, chance=guessing(scores) if chance is None else chance)


def balanced_accuracy(
    scores: Scores, by: str = "target", name: str = "balanced_accuracy", *, chance: float | None = None
) -> Metric:
    """Return the mean over targets of the mean score on each target; a constant answer scores 1 / targets.

    Args:
        by: the meta column that holds the target.
        chance: 1 / targets unless given.
    """
    column = scores.meta.get(by)
    targets = len(np.unique(column.codes[column.codes >= 0])) if column is not None else 0
    return statistics.macro_mean(name, scores, by, chance=1.0 / targets if chance is None and targets else chance)


def majority(scores: Scores, by: str = "target", name: str = "majority", *, within: str = "") -> Metric:
    """Return the accuracy of always answering the most frequent target: the baseline for plain accuracy.

    Args:
        scores: one row per sample and repeat; rows without a target are omitted and lower the coverage.
        by: the meta column that holds the target.
        within: a meta column; the constant is chosen separately for each of its values (and for rows without one).
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
    """Return accuracy for each combination of meta values, in alphabetical order.

    Args:
        by: meta columns; ("kind", "level") gives `accuracy/short/species`. Rows that lack one of them are omitted.
        name: the part of the metrics' names before the first slash.
        chance: chance levels by the slice's name without `name/`; default: those of the rows' meta.
    """
    parts = [("", scores)]
    for column in by:
        parts = [(f"{path}/{value}", rows) for path, part in parts for value, rows in part.by(column)]
    return [accuracy(rows, name + path, chance=(chance or {}).get(path[1:])) for path, rows in parts if path]


def share(scores: Scores, verdict: Verdict, name: str) -> Metric:
    """Return the share of rows with this verdict among all rows, including failed and unscored ones."""
    value = scores.has(verdict).astype(np.float64)
    part = statistics.mean_of(name, value, scores.group, expected=scores.expected, cluster=cluster_word(scores))
    return structs.replace(part, lower_is_better=verdict in _LOST)


def standard(scores: Scores, by: Sequence[Sequence[str]] = (("kind",),)) -> list[Metric]:
    """Return accuracy, its slices, and the shares of unparseable (`invalid`) and failed (`error`) replies.

    Args:
        by: slices, each a tuple of meta columns: (("kind",), ("kind", "level")).
    """
    metrics = [accuracy(scores)]
    for columns in by:
        metrics.extend(breakdown(scores, columns))
    metrics.append(share(scores, "invalid", "invalid"))
    metrics.append(share(scores, "error", "error"))
    return metrics
