"""View models of a page of many runs: one row a run, a matrix of scores for each benchmark, and the folded rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.reports import tables
from snellen.reports.collect import RunTally, share_out
from snellen.reports.escape import escape_invisible
from snellen.reports.links import gallery_link
from snellen.reports.plots.base import Series
from snellen.reports.plots.costs import HeadlineScore, headline_order
from snellen.reports.table_copies import TableCopy, lines_copy
from snellen.reports.tables import MetricCell, MetricRow
from snellen.reports.views import RunView
from snellen.scoring.metric_text import is_diagnosis
from snellen.types import Metric

MATRIX_ROWS = 26
"""Rows of all matrices together that are in sight; the rest is folded."""


class RunRow(Struct, frozen=True):
    """One run in the table of all runs.

    `incomplete` says in words how much of the benchmark was answered, empty for a whole run. `keys` has for each column
    that can be sorted a number or a text; None stands last.
    """

    number: int
    series: Series
    run: RunView
    metric: str
    cell: MetricCell | None
    chance: str
    incomplete: str
    errors: int
    commonest: str
    unparsed: int
    notes: tuple[str, ...]
    keys: Mapping[str, float | str | None]

    @property
    def wrong(self) -> str:
        """Return the link to the run's incorrect answers."""
        return tables.incorrect_link(self.series)

    @property
    def failed_link(self) -> str:
        """Return the link to the run's failed samples."""
        return gallery_link(run=self.series.run, profile=self.series.profile, verdict="error")

    @property
    def unparsed_link(self) -> str:
        """Return the link to the run's unparseable answers."""
        return gallery_link(run=self.series.run, profile=self.series.profile, verdict="invalid")

    @property
    def tokens(self) -> str:
        """Return input and output tokens in a few characters."""
        used = self.run.tokens
        return "" if used is None else f"{short_count(used[0])} / {short_count(used[1])}"

    @property
    def cost(self) -> str:
        """Return the cost in US dollars, or the least that it can be; empty if it is not known."""
        if self.run.cost is None:
            return ""
        least = "≥ " if self.run.cost_is_least else ""
        return f"{least}${self.run.cost:,.4f}" if self.run.cost < 1 else f"{least}${self.run.cost:,.2f}"


class MetricMatrix(Struct, frozen=True):
    """Scores of the runs of one benchmark under one profile: a row a metric, a column a run.

    `visible` are the rows in sight, all of them or the outermost; the table of all rows is folded if there are more.
    """

    benchmark: str
    profile: str
    columns: tuple[Series, ...]
    rows: tuple[MetricRow, ...]
    visible: tuple[MetricRow, ...]


def short_count(number: int) -> str:
    """Format a count with at most four characters and a unit: 812, 20.7k, 1.4M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            scaled = number / size
            return f"{scaled:.0f}{unit}" if scaled >= 99.95 else f"{scaled:.1f}{unit}"
    return f"{number:,}"


def describe_incomplete(run: RunView, tally: RunTally, metric: Metric | None) -> str:
    """Say what part of its benchmark a run covers; empty if that is all of it."""
    short = run.expected is not None and tally.answers < run.expected
    state = run.state if run.state in ("partial", "running", "failed") else ""
    if not state and not short and metric is not None and metric.coverage >= 1.0:
        return ""
    if run.expected is not None and short:
        part = f"{tally.answers:,} of {run.expected:,}"
    elif metric is not None and metric.coverage < 1.0:
        part = f"coverage {tables.format_percent(metric.coverage)}"
    else:
        part = ""
    word = {"running": "running", "failed": "failed"}.get(state, "incomplete")
    return f"{word}: {part}" if part else word


def headlines_of(runs: Sequence[RunView], first: Sequence[Series]) -> list[HeadlineScore]:
    """Return the headline metric of every run that has one."""
    return [
        HeadlineScore(
            series, run.benchmark, series.metrics[0], bool(describe_incomplete(run, series.tally, series.metrics[0]))
        )
        for run, series in zip(runs, first, strict=True)
        if series.metrics
    ]


def run_rows(runs: Sequence[RunView], first: Sequence[Series]) -> list[RunRow]:
    """Build the rows of the table: by benchmark, complete runs before others, from best to worst."""
    shared = shared_notes(runs)
    rows = []
    for number, (run, series) in enumerate(zip(runs, first, strict=True), 1):
        metric = series.metrics[0] if series.metrics else None
        tally = series.tally
        unparsed = tally.verdicts.get(series.profile, Counter())["invalid"]
        errors = sum(count for status, count in tally.statuses.items() if status not in ("ok", "refused"))
        share = None if metric is None or metric.value is None else metric.value
        rows.append(
            RunRow(
                number=number,
                series=series,
                run=run,
                metric="" if metric is None else metric.name,
                cell=None if metric is None else tables.metric_cell(metric, series, run),
                chance="" if metric is None or metric.chance is None else tables.format_percent(metric.chance),
                incomplete=describe_incomplete(run, tally, metric),
                errors=errors,
                commonest=tally.errors.most_common(1)[0][0] if tally.errors else "",
                unparsed=unparsed,
                notes=tuple(note for note in run.notes if note not in shared),
                keys={
                    "run": escape_invisible(run.name.lower()),
                    "benchmark": escape_invisible(run.benchmark.lower()),
                    "settings": escape_invisible(run.settings.lower()),
                    "score": share,
                    "n": None if metric is None else float(metric.n),
                    "coverage": None if metric is None else metric.coverage,
                    "errors": float(errors),
                    "unparsed": float(unparsed),
                    "tokens": None if run.tokens is None else float(sum(run.tokens)),
                    "cost": run.cost,
                },
            )
        )
    place = {h.series.run: at for at, h in enumerate(headline_order(headlines_of(runs, first)))}
    return sorted(rows, key=lambda row: (bool(row.incomplete), place.get(row.series.run, len(rows))))


def shared_notes(runs: Sequence[RunView]) -> list[str]:
    """Return the notes that hold for every run, said once above the table."""
    return [note for note in dict.fromkeys(runs[0].notes) if all(note in run.notes for run in runs)]


def score_matrices(
    runs: Sequence[RunView], every: Sequence[Series], first: Sequence[Series], *, diagnosis: bool
) -> tuple[list[MetricMatrix], list[MetricMatrix]]:
    """Build the matrices of the runs' first profiles, and those of their other profiles.

    Args:
        every: every run under every profile.
        first: every run under its first profile.
        diagnosis: whether rows are the metrics that diagnose, or the others.
    """
    benchmark = {run.name: run.benchmark for run in runs}
    leading = {(series.run, series.profile) for series in first}
    groups: dict[tuple[bool, str, str], list[Series]] = {}
    for series in every:
        other = (series.run, series.profile) not in leading
        groups.setdefault((other, benchmark[series.run], series.profile), []).append(series)
    tables_of = {key: tables.metric_rows(columns, runs) for key, columns in groups.items()}
    rows_of = {
        key: tuple(row for row in rows if is_diagnosis(row.name) is diagnosis) for key, rows in tables_of.items()
    }
    most = max(map(len, groups.values()), default=0)
    open_ones = [
        key
        for key, rows in rows_of.items()
        if rows and not key[0] and not diagnosis and len(groups[key]) > min(1, most - 1)
    ]
    room = dict(zip(open_ones, share_out([len(rows_of[key]) for key in open_ones], MATRIX_ROWS), strict=True))
    matrices: tuple[list[MetricMatrix], list[MetricMatrix]] = ([], [])
    for key, rows in rows_of.items():
        if rows:
            other, name, profile = key
            visible = _outermost(rows, room.get(key, 0))
            matrices[other].append(MetricMatrix(name, profile, tuple(groups[key]), rows, visible))
    return matrices


def _outermost(rows: tuple[MetricRow, ...], room: int) -> tuple[MetricRow, ...]:
    """Return all rows if there is room, else as many of the outer ones as fit; none where that is only one or two."""
    if len(rows) <= room:
        return rows
    outer = tuple(row for row in rows if row.depth < 2)[:room]
    return outer if len(outer) > 2 else ()


def heat(cell: MetricCell | None) -> int:
    """Return the tint of a cell, 0 to 10: how far the score is above chance; 0 where it is no share."""
    if cell is None or cell.at is None:
        return 0
    chance = cell.chance or 0.0
    return 0 if chance >= 100 else round(10 * max(0.0, (cell.at - chance) / (100 - chance)))


def runs_copy(rows: Sequence[RunRow]) -> TableCopy:
    """Return the table of all runs for its copy buttons."""
    head = ["run", "benchmark", "model", "settings", "metric", "profile", "value", "low", "high", "chance", "n"]
    head += ["coverage", "incomplete", "failed", "unparsed", "input tokens", "output tokens", "cost"]
    lines: list[list[Any]] = [head]
    for row in rows:
        metric = row.series.metrics[0] if row.series.metrics else None
        ends = (None, None) if metric is None or metric.ci95 is None else metric.ci95
        numbers = [None] * 6 if metric is None else [metric.value, *ends, metric.chance, metric.n, metric.coverage]
        about = [row.run.name, row.run.benchmark, row.run.model, row.run.settings, row.metric, row.series.profile]
        used = row.run.tokens or (None, None)
        cost = row.cost if row.run.cost_is_least else row.run.cost
        lines.append([*about, *numbers, row.incomplete, row.errors, row.unparsed, *used, cost])
    return lines_copy("Runs", lines)
