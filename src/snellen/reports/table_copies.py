"""Tables of a page as LaTeX and CSV, for its copy buttons and for files of a features report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.formats.latex import latex_number, latex_table, latex_text
from snellen.reports.failures.labels import RunLabels, label_rows
from snellen.reports.plots.base import Series
from snellen.reports.tables import MetricCell, MetricRow, PublishedTable
from snellen.reports.views import PairedView
from snellen.scoring.metric_text import counted, percent
from snellen.text import csv_text
from snellen.types import Metric


class TableCopy(Struct, frozen=True):
    """One table of a page: its title, and its text in both formats."""

    title: str
    latex: str
    csv: str


def metrics_copy(title: str, columns: Mapping[str, Mapping[str, Metric]], kind: str) -> TableCopy:
    """Return a table of metrics by runs or stores.

    Args:
        columns: name of a run or store to its metrics by name.
        kind: what a column is, `run` or `store`.
    """
    return TableCopy(title, metrics_as_latex(title, columns), csv_text(metric_lines(columns, kind)))


def metric_lines(columns: Mapping[str, Mapping[str, Metric]], kind: str) -> list[list[Any]]:
    """Return one line for each metric and column with everything that is known of it, after a header."""
    head = ["metric", kind, "value", "low", "high", "unit", "interval", "clusters", "n", "coverage", "chance"]
    lines: list[list[Any]] = [head]
    for metric in _metric_names(columns):
        for column, metrics in columns.items():
            if (known := metrics.get(metric)) is not None:
                by = known.interval
                method = "" if by is None else by.text
                clusters = None if by is None else by.clusters
                numbers = [known.n, known.coverage, known.chance]
                ends = known.ci95 or (None, None)
                lines.append([metric, column, known.value, *ends, known.unit, method, clusters, *numbers])
    return lines


def metrics_as_latex(title: str, columns: Mapping[str, Mapping[str, Metric]]) -> str:
    """Return metrics by columns: value and interval, in per cent where it is a share; coverage below 1 is marked."""
    methods: dict[str, None] = {}
    marks: dict[str, str] = {}
    rows: list[list[str]] = []
    for name in _metric_names(columns):
        cells = [latex_text(name)]
        known = [metrics.get(name) for metrics in columns.values()]
        for metric in known:
            cells.append("--" if metric is None else _latex_metric(metric, marks))
            if metric is not None and metric.interval is not None:
                methods[metric.interval.text] = None
        cells.append(
            " / ".join(dict.fromkeys(counted(metric.n, metric.interval) for metric in known if metric is not None))
        )
        rows.append(cells)
    about = f"{title}: per cent where it is a share, 95 % interval in brackets ({'; '.join(methods) or 'none'})"
    notes = [f"({mark}) {remark}" for remark, mark in marks.items()]
    return latex_table(["metric", *map(latex_text, columns), "n"], rows, about, notes=notes)


def _metric_names(columns: Mapping[str, Mapping[str, Metric]]) -> list[str]:
    return list(dict.fromkeys(name for metrics in columns.values() for name in metrics))


def _latex_metric(metric: Metric, marks: dict[str, str]) -> str:
    mark = ""
    if metric.coverage < 1.0:
        remark = f"coverage {percent(metric.coverage)} %"
        mark = f"\\textsuperscript{{{marks.setdefault(remark, str(len(marks) + 1))}}}"
    if metric.value is None:
        return f"--{mark}"
    scale, digits = (100.0, "{:.1f}") if metric.unit == "fraction" else (1.0, "{:.4g}")
    value = latex_number(digits.format(scale * metric.value))
    if metric.ci95 is None:
        return value + mark
    low, high = (latex_number(digits.format(scale * end)) for end in metric.ci95)
    return f"{value} {{\\scriptsize [{low}, {high}]}}{mark}"


def lines_copy(title: str, lines: Sequence[Sequence[Any]], notes: Sequence[str] = ()) -> TableCopy:
    """Return a table of any cells, the first line its header; columns of numbers are aligned to the right."""
    return TableCopy(title, lines_as_latex(title, lines, notes=notes), csv_text(lines))


def lines_as_latex(title: str, lines: Sequence[Sequence[Any]], form: str = ".4g", notes: Sequence[str] = ()) -> str:
    """Return lines of cells, the first one its header, as LaTeX; `form` is that of floats."""
    head, *rest = [[_latex_cell(cell, form) for cell in line] for line in lines]
    number = [all(not isinstance(line[at], str) or not line[at] for line in lines[1:]) for at in range(len(lines[0]))]
    return latex_table(head, rest, title, align="".join("r" if right else "l" for right in number), notes=notes)


def _latex_cell(cell: Any, form: str) -> str:
    if isinstance(cell, float):
        return latex_number(format(cell, form))
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else latex_text(str(cell))


def scores_copy(title: str, rows: Sequence[MetricRow], every: Sequence[Series]) -> TableCopy:
    """Return the page's table of some metrics by runs and profiles."""
    names = [row.name for row in rows]
    columns: dict[str, dict[str, Metric]] = {}
    for series in every:
        known = {metric.name: metric for metric in series.metrics}
        columns[series.label] = {name: known[name] for name in names if name in known}
    return metrics_copy(title, {label: metrics for label, metrics in columns.items() if metrics}, "run")


def published_copy(table: PublishedTable) -> TableCopy:
    """Return a published table with the runs measured here above it, in per cent."""
    headings = [heading for heading, _ in table.columns]
    intervals = [
        any(isinstance(line.cells[at], MetricCell) and line.cells[at].interval for line in table.lines)  # type: ignore[union-attr]
        for at in range(len(headings))
    ]
    head = ["model", "source"]
    for heading, ends in zip(headings, intervals, strict=True):
        head += [heading, f"{heading} 95 % interval"] if ends else [heading]
    lines: list[list[Any]] = [[*head, "remarks"]]
    rows: list[list[str]] = []
    measured = False
    for line in table.lines:
        here = line.colour > 0
        cells: list[Any] = [line.name, f"measured here, {table.profile}" if here else table.source]
        latex = [("\\midrule\n" if measured and not here else "") + latex_text(line.name)]
        measured = here
        for cell, ends in zip(line.cells, intervals, strict=True):
            interval = cell.interval if isinstance(cell, MetricCell) else ""
            cells += [None if cell is None else _number(cell.text), *([interval] if ends else [])]
            value = "--" if cell is None else latex_number(latex_text(cell.text))
            if isinstance(cell, MetricCell):
                value += f" {{\\scriptsize [{latex_text(interval.replace(' – ', ', '))}]}}" if interval else ""
                value += "" if cell.full else f" {{\\scriptsize ({latex_text(f'coverage {cell.coverage}')})}}"
            elif cell is not None and cell.best:
                value = f"\\textbf{{{value}}}"
            latex.append(value)
        lines.append([*cells, "; ".join(line.remarks)])
        rows.append(latex)
    remarks = [f"{line.name}: {'; '.join(line.remarks)}" for line in table.lines if line.remarks]
    about = f"{table.title}, per cent; published by {table.source}; measured here under {table.profile}"
    tex = latex_table(["model", *map(latex_text, headings)], rows, about, notes=[*remarks, *table.notes])
    return TableCopy(table.title, tex, csv_text(lines))


def _number(text: str) -> float | str:
    """Return a formatted number as a number, so that a minus sign at its head is no formula."""
    try:
        return float(text)
    except ValueError:
        return text


def paired_copy(comparisons: Sequence[PairedView]) -> TableCopy:
    """Return the table of paired comparisons; differences in percentage points."""
    head = ["first", "second", "of", "profile", "difference", "low", "high", "p", "test", "better", "worse", "n"]
    lines: list[list[Any]] = [[*head, "smallest detectable"]]
    for pair in comparisons:
        c = pair.comparison
        ends = (None, None) if c.ci95 is None else (100 * c.ci95[0], 100 * c.ci95[1])
        smallest = None if c.smallest_detectable is None else 100 * c.smallest_detectable
        named = [pair.first, pair.second, pair.metric, pair.profile]
        lines.append([*named, 100 * c.difference, *ends, c.p_value, c.test, c.wins, c.losses, c.n, smallest])
        for unit in pair.units:
            span = (None, None) if unit.ci95 is None else (100 * unit.ci95[0], 100 * unit.ci95[1])
            what = [pair.first, pair.second, unit.name, pair.profile, 100 * (unit.difference or 0.0), *span]
            lines.append([*what, *[None] * 6])
    return lines_copy("Comparison", lines)


def labels_copy(labelled: Sequence[RunLabels]) -> TableCopy:
    """Return the table of failure labels: of each run count, share in per cent, and its interval."""
    head = ["label"]
    for column in labelled:
        head += [column.name, *(f"{column.name} {part}" for part in ("%", "low", "high"))]
    lines: list[list[Any]] = [head]
    for row in label_rows(labelled):
        line: list[Any] = [row["name"]]
        for cell in row["cells"]:
            line += [int(cell["count"].replace(",", "")), cell["at"], cell["low"], cell["high"]]
        lines.append(line)
    total: list[Any] = ["incorrect"]
    for column in labelled:
        total += [column.labels.answers, None, None, None]
    return lines_copy("Failure labels", [*lines, total])
