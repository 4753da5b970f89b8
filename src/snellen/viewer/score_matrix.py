"""Matrix of scores: models by benchmarks, or the runs of one benchmark by its parts, with means that state their coverage.

Scales of the matrix: where a score lies on its column's track, and which tone its cell has on the heat map.

Scores of runs from the index, and the means of their slices: columns of the matrix by a field of the samples' meta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from snellen.reports.tables import THRESHOLD, format_value, metric_fields, track_position
from snellen.runs.compared_runs import MOST_SLICES
from snellen.scoring import statistics
from snellen.scoring.scores import Scores
from snellen.scoring.statistics.averages import MetricMean, mean_of_independent
from snellen.scoring.statistics.intervals import cluster_word
from snellen.types import Metric
from snellen.viewer.comparison import natural_key, slice_fields
from snellen.viewer.index import RunEntry

TONES = 10
"""Tones of the reports' style sheet, `tone-0` to `tone-10`."""
MARGIN = 0.04


@dataclass(frozen=True)
class ScoreAxis:
    """Scale of one column, from `low` to `high` in its unit."""

    low: float
    high: float
    unit: str

    @property
    def ends(self) -> tuple[str, str]:
        """Return the texts of both ends."""
        low, high = self.low, self.high
        if self.unit == FRACTION:
            digits = 0 if high - low >= 0.1 else 1
            return f"{100 * low:.{digits}f} %", f"{100 * high:.{digits}f} %"
        return format_value(low, self.unit), format_value(high, self.unit)

    def place(self, value: float | None) -> float | None:
        """Return the place of a value from 0 to 100; None for none."""
        return None if value is None else track_position((value - self.low) / (self.high - self.low))

    def fields(self, metric: Metric) -> dict[str, Any]:
        """Return what the track of a metric needs; `reports.tables.metric_fields` on this scale."""
        low, high = metric.ci95 if metric.ci95 is not None else (None, None)
        chance = metric.chance if metric.chance is not None and self.low <= metric.chance <= self.high else None
        known = metric.value is not None
        return {
            **metric_fields(metric),
            "low": self.place(low) if known else None,
            "high": self.place(high) if known else None,
            "at": self.place(metric.value),
            "chance": self.place(chance),
        }

    def tone(self, metric: Metric) -> int | None:
        """Return the tone of a cell, 0 to TONES; None without a value."""
        share = self.place(metric.value)
        return None if share is None else round(TONES * share / 100.0)


def score_axis(metrics: Iterable[Metric], unit: str, *, fitted: bool) -> ScoreAxis:
    """Build the scale of one column: 0 to 1 for fractions, otherwise and if `fitted` the range of values and intervals."""
    if unit == FRACTION and not fitted:
        return ScoreAxis(0.0, 1.0, unit)
    ends = [
        end
        for metric in metrics
        if metric.value is not None
        for end in (metric.value, *(metric.ci95 if metric.ci95 is not None else ()))
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    margin = MARGIN * (high - low) or 0.5 * abs(low) * MARGIN or MARGIN
    low, high = low - margin, high + margin
    if unit == FRACTION:
        low, high = max(0.0, low), min(1.0, high)
    return ScoreAxis(low, high, unit)


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


FRACTION = "fraction"
BY_NAME, BY_MEAN = "name", "mean"
MeanOver: TypeAlias = Literal["all", "shared"]


@dataclass(frozen=True)
class MatrixColumn:
    """A benchmark, or a part of one.

    Attributes:
        name: benchmark, metric, or `field=value`.
        label: its name on the page.
        unit: unit of the column's metrics; only fractions have a place on a scale, and enter a mean.
        chance: what guessing reaches, where every cell says the same.
        cells: how many rows have a value here.
    """

    name: str
    label: str
    unit: str = FRACTION
    chance: float | None = None
    cells: int = 0


@dataclass(frozen=True)
class MatrixCell:
    """One score of the matrix.

    Attributes:
        key: the run that it comes from.
        metric: value, interval, n and coverage.
        others: further runs of the same row and column, the best documented first; the cell shows the first of all.
        partial: True where the value stands on a part of the samples only.
        remark: why a reader should be careful; empty for a complete run.
    """

    key: str
    metric: Metric
    others: tuple[str, ...] = ()
    partial: bool = False
    remark: str = ""


@dataclass(frozen=True)
class MatrixRow:
    """One model, or one run.

    Attributes:
        name: the model.
        detail: what distinguishes the row from others of its model; empty: nothing.
        cells: one for each column; None where nothing was measured.
        mean: mean over the columns of `ScoreMatrix.mean_over`.
        missing: names of those columns that have no value here.
        partial: names of those columns whose value stands on a part of the samples.
        keys: the runs of the cells, each once.
    """

    name: str
    detail: str
    cells: tuple[MatrixCell | None, ...]
    mean: MetricMean
    missing: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Return True if every column of the mean was measured on all of its samples."""
        return self.mean.whole and not self.partial


@dataclass(frozen=True)
class ScoreMatrix:
    """Rows of models or runs, columns of benchmarks or parts.

    Attributes:
        columns, rows: in their order.
        mean_over: names of the columns that the mean is over; empty: there is no mean.
        mean_name: what the mean is of, in words; empty: there is no mean.
        notes: what a reader must know.
    """

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]
    mean_over: tuple[str, ...]
    mean_name: str
    notes: tuple[str, ...] = ()


Cells: TypeAlias = Mapping[tuple[str, str], Mapping[str, MatrixCell]]
"""(model, detail) to column to cell."""


def headline_of(entry: RunEntry, profile: str) -> Metric | None:
    """Return the first metric of a profile, the run's own default for an empty name; None where there is none."""
    if not profile:
        return entry.headline
    metrics = entry.metrics.get(profile, ())
    return metrics[0] if metrics else None


def benchmark_cells(entries: Iterable[RunEntry], profile: str, *, by_settings: bool) -> Cells:
    """Collect the headlines of runs by model and benchmark.

    Args:
        entries: the runs; those that judge another run, and those without a headline, are left out.
        profile: scoring profile; a run without it has no cell. Empty: each benchmark's own default.
        by_settings: one row for each setting of a model, not one for each model.
    """
    candidates: dict[tuple[str, str], dict[str, list[RunEntry]]] = {}
    entries = list(entries)
    sources = Counter(entry.sample_source for entry in entries)
    for entry in entries:
        metric = headline_of(entry, profile)
        if entry.judges or not entry.benchmark or metric is None:
            continue
        row = (entry.model, entry.settings if by_settings else "")
        candidates.setdefault(row, {}).setdefault(entry.benchmark, []).append(entry)
    cells: dict[tuple[str, str], dict[str, MatrixCell]] = {}
    for row, benchmarks in candidates.items():
        for benchmark, runs in benchmarks.items():
            best, *others = sorted(
                runs, key=lambda entry: (not entry.complete, -sources[entry.sample_source], _documented(entry))
            )
            metric = headline_of(best, profile)
            assert metric is not None  # noqa: S101 - only such runs are candidates
            cells.setdefault(row, {})[benchmark] = run_cell(best, metric, [entry.key for entry in others])
    return cells


def run_cell(entry: RunEntry, metric: Metric, others: Sequence[str] = ()) -> MatrixCell:
    """Build the cell of a run's metric."""
    whole = 1.0 if entry.coverage is None else entry.coverage
    partial = min(metric.coverage, whole) < 1.0
    remarks: list[str] = [entry.state] if entry.state not in ("complete", "partial") else []
    if not entry.verified:
        remarks.append("metrics as the folder states them")
    if words := entry.remarks.get(metric.name):
        remarks.append(words)
    return MatrixCell(entry.key, metric, tuple(others), partial, ", ".join(remarks))


def _documented(entry: RunEntry) -> tuple[object, ...]:
    """Sort key: complete runs first, images as in the data before degraded ones, then more samples, then the newest."""
    headline = entry.headline
    return (
        not entry.complete,
        entry.degraded,
        -(entry.coverage or 0.0),
        -(headline.n if headline is not None else 0),
        -(entry.ended or entry.started or 0.0),
        entry.key,
    )


def part_cells(entries: Iterable[RunEntry], profile: str, *, every: bool = False) -> tuple[Cells, tuple[str, ...]]:
    """Collect the metrics of one benchmark's runs: the headline and its parts, or every metric.

    Returns:
        The cells, one row a run, and the names of the columns in the order of the summaries.
    """
    cells: dict[tuple[str, str], dict[str, MatrixCell]] = {}
    names: dict[str, None] = {}
    listed_runs = list(entries)
    rows = run_rows(listed_runs)
    for entry in listed_runs:
        metrics = entry.metrics.get(profile, ()) if profile else next(iter(entry.metrics.values()), ())
        if not metrics:
            continue
        head = metrics[0].name
        prefix = THRESHOLD if head.startswith(THRESHOLD) else f"{head}/"
        listed = [m for m in metrics if every or m.name == head or m.name.startswith(prefix)]
        row = cells.setdefault(rows[entry.key], {})
        for metric in listed:
            names.setdefault(metric.name)
            row[metric.name] = run_cell(entry, metric)
    return cells, tuple(names)


def run_rows(entries: Iterable[RunEntry]) -> dict[str, tuple[str, str]]:
    """Return the name of each run's row by its key: model and settings, and the folder where these are equal."""
    listed = list(entries)
    counts = Counter((entry.model, entry.settings) for entry in listed)
    rows = {}
    for entry in listed:
        folder = entry.key if counts[entry.model, entry.settings] > 1 and entry.model else ""
        rows[entry.key] = (entry.model or entry.key, " · ".join(filter(None, [entry.settings, folder])))
    return rows


def build_matrix(
    cells: Cells,
    columns: Sequence[str],
    *,
    labels: Mapping[str, str] | None = None,
    mean_over: MeanOver | None = "all",
    mean_columns: Sequence[str] | None = None,
    independent: bool = True,
) -> ScoreMatrix:
    """Build a matrix in the order of `columns`, its rows by name.

    Args:
        cells: what was measured.
        columns: names of the columns; one without any cell is left out.
        labels: names on the page; a column without one has its own.
        mean_over: `all`: a mean over every column of fractions, whose coverage says how many a row has. `shared`: over
            those that every row has a value for. None: no mean.
        mean_columns: the columns that may enter the mean; None: any.
        independent: whether the columns are measured on different samples; otherwise the mean has no interval.
    """
    present = [name for name in columns if any(name in row for row in cells.values())]
    built = tuple(_column(name, (labels or {}).get(name, name), cells) for name in present)
    notes: list[str] = []
    usable = [
        column for column in built if column.unit == FRACTION and (mean_columns is None or column.name in mean_columns)
    ]
    other_units = [column.label for column in built if column.unit != FRACTION]
    if other_units and mean_over is not None:
        notes.append(f"Not in the mean, because it is no share: {', '.join(other_units)}.")
    if mean_over == "shared":
        usable = [column for column in usable if column.cells == len(cells)]
        if not usable:
            notes.append("No column has a value in every row, so there is no mean over shared columns.")
    over = tuple(column.name for column in usable) if mean_over is not None and len(usable) > 1 else ()
    rows = [_row(name, detail, row, present, over, independent) for (name, detail), row in sorted(cells.items())]
    if over and len({row.mean.n for row in rows}) > 1:
        notes.append(
            "Rows have means over different columns. They are ordered by coverage first, and only means over the same "
            "columns can be compared."
        )
    name = "" if not over else f"mean of {len(over)} shared" if mean_over == "shared" else f"mean of {len(over)}"
    return ScoreMatrix(built, tuple(rows), over, name, tuple(notes))


def _column(name: str, label: str, cells: Cells) -> MatrixColumn:
    metrics = [row[name].metric for row in cells.values() if name in row]
    chances = {metric.chance for metric in metrics}
    units = {metric.unit for metric in metrics}
    return MatrixColumn(
        name,
        label,
        units.pop() if len(units) == 1 else "mixed",
        chances.pop() if len(chances) == 1 else None,
        sum(metric.value is not None for metric in metrics),
    )


def _row(
    name: str,
    detail: str,
    cells: Mapping[str, MatrixCell],
    columns: Sequence[str],
    over: Sequence[str],
    independent: bool,
) -> MatrixRow:
    values = [cells[column].metric.value if column in cells else None for column in over]
    ends = [cells[column].metric.ci95 if column in cells else None for column in over]
    mean = mean_of_independent(values, ends)
    return MatrixRow(
        name,
        detail,
        tuple(cells.get(column) for column in columns),
        mean if independent else replace_interval(mean),
        tuple(column for column, value in zip(over, values, strict=True) if value is None),
        tuple(column for column in over if column in cells and cells[column].partial),
        tuple(dict.fromkeys(cell.key for cell in cells.values())),
    )


def replace_interval(mean: MetricMean) -> MetricMean:
    """Return a mean without its interval, for columns that share samples."""
    return MetricMean(mean.value, mean.n, mean.of, None)


def sort_rows(matrix: ScoreMatrix, column: str, *, down: bool = True) -> ScoreMatrix:
    """Return the matrix with its rows sorted by name, by mean, or by a column; without a mean, by the first column.

    By mean, rows with a mean over more columns stand first, and complete ones before others. By a column, rows without a
    value stand last, in either direction, and partial runs after complete ones.
    """
    places = {entry.name: place for place, entry in enumerate(matrix.columns)}
    if column not in places and column != BY_NAME and not matrix.mean_over:
        column = next(iter(places), BY_NAME)
    if column == BY_NAME:
        rows = sorted(matrix.rows, key=lambda row: (row.name.lower(), row.detail), reverse=down and column == BY_NAME)
        return replace(matrix, rows=tuple(rows))
    sign = -1.0 if down else 1.0

    def by_mean(row: MatrixRow) -> tuple[object, ...]:
        value = row.mean.value
        return (-row.mean.n, bool(row.partial), value is None, sign * (value or 0.0), row.name, row.detail)

    def by_column(row: MatrixRow) -> tuple[object, ...]:
        cell = row.cells[places[column]]
        value = None if cell is None else cell.metric.value
        return (value is None, cell is not None and cell.partial, sign * (value or 0.0), row.name, row.detail)

    return replace(matrix, rows=tuple(sorted(matrix.rows, key=by_column if column in places else by_mean)))
