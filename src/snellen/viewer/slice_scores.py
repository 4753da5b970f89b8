"""Scores of runs from the index, and the means of their slices: columns of the matrix by a field of the samples' meta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from snellen.runs.paired_scores import MOST_SLICES
from snellen.scoring import statistics
from snellen.scoring.scores import Scores
from snellen.scoring.statistics.intervals import cluster_word
from snellen.types import Metric
from snellen.viewer.comparison import natural_key, slice_fields
from snellen.viewer.index import RunEntry
from snellen.viewer.score_matrix import Cells, MatrixCell, run_cell, run_rows


class ScoreIndex(Protocol):
    """The index, as far as scores go."""

    def scores(self, key: str, profile: str = "") -> Scores | None:
        """Return the scores of a run's records; None where its verdicts are unknown or not indexed yet."""
        ...


def slice_names(index: ScoreIndex, entries: Sequence[RunEntry], profile: str) -> tuple[tuple[str, int], ...]:
    """Return the fields that the samples of these runs can be sliced by, from the first run whose samples are indexed."""
    for entry in entries:
        scores = index.scores(entry.key, profile)
        if scores is not None and len(scores):
            return slice_fields(scores)
    return ()


def slice_cells(
    index: ScoreIndex, entries: Sequence[RunEntry], profile: str, field: str
) -> tuple[Cells, tuple[str, ...]]:
    """Score the slices of one field for each run.

    Returns:
        The cells, one row a run, and the names of the columns, `field=value`.
    """
    cells: dict[tuple[str, str], dict[str, MatrixCell]] = {}
    values: set[str] = set()
    rows = run_rows(entries)
    for entry in entries:
        scores = index.scores(entry.key, profile)
        if scores is None or field not in scores.meta:
            continue
        row = cells.setdefault(rows[entry.key], {})
        for value, metric in slice_means(scores, field).items():
            values.add(value)
            row[f"{field}={value}"] = run_cell(entry, metric)
    return cells, tuple(f"{field}={value}" for value in sorted(values, key=natural_key)[:MOST_SLICES])


def slice_means(scores: Scores, field: str) -> dict[str, Metric]:
    """Return the mean of each slice with its interval; the coverage is that of the whole run."""
    column = scores.meta[field]
    value, usable = statistics.scored(scores)
    cluster = cluster_word(scores)
    means = {}
    share = min(1.0, len(scores) / scores.expected) if scores.expected else 0.0
    for code in np.unique(column.codes[column.codes >= 0]).tolist():
        mask = column.codes == code
        rows = mask & usable
        expected = round(int(mask.sum()) / share) if share else None
        name = column.names[code]
        means[name] = statistics.mean_of(
            f"{field}={name}", value[rows], scores.group[rows], expected=expected, cluster=cluster
        )
    return means
