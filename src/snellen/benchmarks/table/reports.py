"""The figures of a declaration, from scores: the headline first, then the others, their slices, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import structs

from snellen.benchmarks.table.declaration import Cell, Declaration, Report
from snellen.benchmarks.table.figures import MEANS, MOST_PARTS, OF_COCO, FigureBuilder
from snellen.benchmarks.table.meta import separator
from snellen.benchmarks.table.score_columns import Mask, ScoreColumns, score_columns
from snellen.benchmarks.table.summary import odd_share
from snellen.scoring import metrics, statistics
from snellen.scoring.areas import average_precision, by_content
from snellen.scoring.grounding import BOXES
from snellen.scoring.rules.page_parse import CDM, WORST
from snellen.scoring.scores import Scores
from snellen.scoring.statistics.intervals import GROUP, coverage
from snellen.types import Interval, Metric

if TYPE_CHECKING:
    from snellen.benchmarks.base import Summary

POINTS = "points"
"""Unit of figures that are no fraction: sums, counts, and what `scale` changes."""


def summary(declared: Declaration) -> Summary:
    """Return the summary of a declaration's reports.

    The headline stands first. The shares of replies that could not be read (`invalid`) and of failed requests (`error`)
    stand last, under every profile. Figures that need TeX are left out without it.
    """
    cells = {name: cell for name, cell in declared.rows.items() if isinstance(cell, Cell)}
    repeated = {name: separator(cell) for name, cell in cells.items() if cell.repeat_row}
    each = {name: separator(cell) for name, cell in cells.items() if cell.each}
    names = {figure: report for report in declared.report for figure in report.names if not report.by}
    on_tex = {
        name
        for name, report in names.items()
        if CDM in (_metric_of(names[part], part) for part in report.parts or (name,))
    }
    ordered = sorted(declared.report, key=lambda report: not report.headline)
    positive = declared.score.yes if declared.score is not None else "Yes"

    def summarize(scores: Scores, profile: str) -> list[Metric]:
        tables = {
            how: replace(score_columns(_over_repeats(scores, how), list(declared.group), repeated), each=each)
            for how in {report.over_repeats for report in ordered}
        }
        figures = [
            figure
            for report in ordered
            for figure in _figures(report, tables[report.over_repeats], names, positive, profile)
            if figure is not None and not (figure.value is None and figure.name.split("/")[0] in on_tex)
        ]
        figures += odd_share(scores)
        return [*figures, metrics.share(scores, "invalid", "invalid"), metrics.share(scores, "error", "error")]

    return summarize


def _over_repeats(scores: Scores, how: str) -> Scores:
    return statistics.reduced(scores, how) if how and len(scores) else scores


def _figures(
    report: Report, table: ScoreColumns, named: Mapping[str, Report], positive: str, profile: str
) -> Iterator[Metric]:
    columns = (report.by,) if isinstance(report.by, str) and report.by else tuple(report.by)
    wanted = (
        [(name, named[name], _metric_of(named[name], name)) for name in report.repeat]
        if report.repeat
        else [(name, report, metric) for name, metric in zip(report.names, report.metrics, strict=False)]
    )
    if not columns:
        for name, source, metric in wanted:
            yield _metric(name, source, metric, table, {}, named, positive, profile)
        return
    seen: set[str] = set()
    for column in columns:
        values = table.values_of(column, np.ones(len(table), dtype=bool))
        for value in values if len(values) <= MOST_PARTS else ():
            part = f"{column}/{value}" if value in seen else value
            seen.add(value)
            for name, source, metric in wanted:
                yield _metric(f"{name}/{part}", source, metric, table, {column: value}, named, positive, profile)


def _metric_of(report: Report, name: str) -> str:
    return dict(zip(report.names, report.metrics, strict=False)).get(name, report.metrics[0])


def _metric(
    name: str,
    report: Report,
    metric: str,
    table: ScoreColumns,
    part: Mapping[str, str],
    named: Mapping[str, Report],
    positive: str,
    profile: str,
) -> Metric:
    """Return one figure over the rows with the meta of `part`, with interval, coverage and, where it is defined, chance."""
    rows = table.where(part) & table.where(report.only_where)
    apart = any(part.get(column, value) != value for column, value in report.only_where.items())
    expected = 0 if apart else table.expected_where({**part, **report.only_where})
    builder = FigureBuilder(table, named, table.value, positive, profile).of_report(report)
    counted = rows & builder.counted(metric)
    unit = "fraction" if _is_fraction(report, metric, named) else POINTS
    chance = _chance(report, metric, table, rows, named)
    if metric in OF_COCO:
        made = Metric(name, _coco(report, metric, table, counted), int(counted.sum()), None)
    elif _is_mean(report, metric):
        made = _closed(name, report, metric, builder, rows)
        made = structs.replace(
            made, value=None if made.value is None else made.value * report.scale, unit=unit, chance=chance
        )
        if isinstance(made.ci95, tuple) and made.interval is not None and report.scale != 1.0:
            ends = Interval(*made.ci95, made.interval).map(lambda end: end * report.scale)
            made = structs.replace(made, ci95=ends)
    else:
        formula = builder.formula(report, metric, rows)
        groups = table.clusters(builder.groups)
        value, ci95 = statistics.of_sums(builder.stacked(), groups, formula, cluster=GROUP)
        if ci95 is not None and unit == "fraction":
            ci95 = ci95.cut(0.0, 1.0)
        known = isfinite(value)
        made = Metric(name, value if known else None, int(counted.sum()), ci95 if known else None, unit, chance=chance)
    covered, is_distance = coverage(_rows_behind(builder, counted), expected), _is_distance(report, metric, named)
    return structs.replace(made, coverage=covered, lower_is_better=is_distance)


def _coco(report: Report, metric: str, table: ScoreColumns, rows: Mask) -> float | None:
    """Return COCO's average precision, or its mean over the values of a column that have gold boxes; None without pycocotools.

    Of boxes with one confidence the order of their images decides: that of the value `order`, else that of `by_content`.
    """
    is_ordered = table.has("order")
    order = np.argsort(table.numbers("order"), kind="stable") if is_ordered else np.arange(len(table))
    boxes, values = table.scores.column(BOXES), table.values_of(report.mean_of, rows) if report.mean_of else [""]
    parts = [order[(rows & table.equals(report.mean_of, value) if value else rows)[order]] for value in values]
    images = ([msgspec.json.decode(boxes.names[code]) for code in boxes.codes[part] if code >= 0] for part in parts)
    found = [average_precision(part if is_ordered else by_content(part)) for part in images]
    known = [one.ap if metric in ("coco-map", "coco_map") else one.ap50 for one in found if one is not None]
    known = [value for value in known if value is not None]
    return sum(filter(None, known)) / len(known) if known else None


def _rows_behind(builder: FigureBuilder, counted: Mask) -> int:
    """Return how many rows the figure rests on: of a group that is not complete, none."""
    behind = counted
    for group in builder.groups:
        behind = behind & (builder.table.groups[group] >= 0)
    return int(behind.sum())


def _is_mean(report: Report, metric: str) -> bool:
    """Return True for a mean over rows or groups, or the mean of such means by column: their intervals need no bootstrap."""
    return metric in MEANS and not (report.parts or report.sum_over)


def _closed(name: str, report: Report, metric: str, builder: FigureBuilder, rows: Mask) -> Metric:
    """Return a mean, over rows or groups, or of the means of a column's values, with its interval."""
    table = builder.table
    if report.all_in:
        value, mask = builder.values_in_groups(report, rows)
    else:
        value, mask = builder.of(metric), rows & builder.counted(metric)
    groups = table.clusters(builder.groups)
    cluster = "question" if np.array_equal(table.scores.group, table.scores.question) and not report.all_in else GROUP
    strata = None
    if report.mean_of:
        codes = table.codes(report.mean_of, report.only)
        mask = mask & (codes >= 0)
        strata = codes[mask]
    return statistics.mean_of(name, value[mask], groups[mask], strata=strata, cluster=cluster)


def _is_fraction(report: Report, metric: str, named: Mapping[str, Report]) -> bool:
    if report.scale != 1.0 or report.sum_over or report.add or report.gain or metric == "count":
        return False
    return all(_is_fraction(named[name], _metric_of(named[name], name), named) for name in report.average)


def _is_distance(report: Report, metric: str, named: Mapping[str, Report]) -> bool:
    """Return True for a distance, and for the mean or sum of distances: lower is better."""
    parts = report.add or report.average
    if parts:
        return all(_is_distance(named[name], _metric_of(named[name], name), named) for name in parts)
    return WORST.get(metric) == 1.0


def _chance(report: Report, metric: str, table: ScoreColumns, rows: Mask, named: Mapping[str, Report]) -> float | None:
    """Return what guessing reaches; None where it is not known, or the metric depends on how the guesses fall."""
    chances = table.chances()
    if chances is None or not _guessable(report, metric, named):
        return None
    all_rows = replace(table, value=chances, counted=np.ones(len(table), dtype=bool))
    builder = FigureBuilder(all_rows, named, chances.copy())
    if _is_mean(report, metric):
        made = _closed("chance", report, metric, builder, rows & table.counted)
        return None if made.value is None else made.value * report.scale
    formula = builder.formula(report, metric, rows & table.counted)
    level = float(formula(builder.stacked().sum(axis=0, keepdims=True))[0])
    return level if isfinite(level) else None


def _guessable(report: Report, metric: str, named: Mapping[str, Report]) -> bool:
    if report.gain:
        return False
    if parts := report.parts:
        return all(_guessable(named[name], _metric_of(named[name], name), named) for name in parts)
    return metric in ("accuracy", "count") and not report.steps
