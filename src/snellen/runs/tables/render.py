"""Text of a table of results: LaTeX, Markdown, CSV and JSON.

Files of tables: the format follows from the file's suffix or is named, and the two must agree.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from snellen.atomic_write import replacing
from snellen.engine.output_file import FORMS, require_output_file
from snellen.errors import StorageError, UsageError
from snellen.formats.latex import latex_number, latex_table, latex_text
from snellen.redaction import redact
from snellen.runs.tables.best import RULE
from snellen.runs.tables.collect import ResultTable, TableCell, TableColumn
from snellen.scoring.metric_text import percent
from snellen.text import one_line, pretty_json, spreadsheet_cell
from snellen.types import Metric

_MARKDOWN = re.compile(r"([\\`*_\[\]<>#|~$&])")


class _Layout(NamedTuple):
    """What LaTeX and Markdown tables share.

    Attributes:
        heads: for each column the metric with its unit, then n and chance where they are the same in all rows.
        groups: benchmark (and profile), and the number of its columns that follow each other.
        marks: remark to its mark, a, b, c …
        legend: what brackets, bold and profiles mean, one sentence each.
    """

    heads: list[tuple[str, str]]
    groups: list[tuple[str, int]]
    marks: dict[str, str]
    legend: list[str]


def _layout(table: ResultTable) -> _Layout:
    several = _benchmarks_of_several_profiles(table)
    heads, groups, remarks = [], [], dict[str, None]()
    for at, column in enumerate(table.columns):
        metrics = [cell.metric for row in table.rows if (cell := row.cells[at]) is not None]
        heads.append((f"{column.metric}{_unit(metrics)}", _shared(metrics)))
    for title, columns in groupby(_benchmark_title(column, several) for column in table.columns):
        groups.append((title, len(list(columns))))
    for row in table.rows:
        remarks |= dict.fromkeys(_remark(cell) for cell in row.cells if cell is not None and cell.remarks)
    profiles = dict.fromkeys(f"{column.benchmark}: {column.profile}" for column in table.columns)
    legend = [f"Scoring profile: {', '.join(profiles)}."]
    cells = [cell for row in table.rows for cell in row.cells if cell is not None]
    if any(cell.metric.ci95 is not None for cell in cells):
        legend.append("In brackets: 95 % intervals.")
    if len(table.rows) > 1:
        legend.append(f"Bold{'' if any(cell.best for cell in cells) else ' (none here)'}: {RULE}.")
    return _Layout(heads, groups, {remark: _mark(number) for number, remark in enumerate(remarks)}, legend)


def _benchmarks_of_several_profiles(table: ResultTable) -> set[str]:
    pairs = {(column.benchmark, column.profile) for column in table.columns}
    return {name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1}


def _benchmark_title(column: TableColumn, several: set[str]) -> str:
    return f"{column.benchmark}, {column.profile}" if column.benchmark in several else column.benchmark


def _unit(metrics: Sequence[Metric]) -> str:
    units = dict.fromkeys("%" if metric.unit == "fraction" else metric.unit for metric in metrics)
    return f" ({', '.join(units)})" if units else ""


def _shared(metrics: Sequence[Metric]) -> str:
    """Return n and chance as far as they are the same in all rows."""
    sizes = {metric.n for metric in metrics}
    chances = {metric.chance for metric in metrics}
    texts = [f"n = {sizes.pop():,}"] if len(sizes) == 1 else []
    if len(chances) == 1 and (chance := chances.pop()) is not None:
        texts.append(f"chance {_number(chance, metrics[0].unit, 1)}")
    return ", ".join(texts)


def _remark(cell: TableCell) -> str:
    return "; ".join(cell.remarks)


def _mark(number: int) -> str:
    """Return a, b … z, aa, ab …"""
    letters = ""
    while True:
        number, rest = divmod(number, 26)
        letters = chr(ord("a") + rest) + letters
        if number == 0:
            return letters
        number -= 1


def _number(value: float, unit: str, digits: int) -> str:
    if unit == "fraction":
        return percent(value, digits)
    return f"{value:,.{digits}f}" if unit == "points" else f"{value:,.4g}"


class _CellText(NamedTuple):
    value: str
    interval: str
    n: str
    mark: str


def _cell_text(cell: TableCell, layout: _Layout, at: int, digits: int) -> _CellText:
    metric = cell.metric
    value = "–" if metric.value is None else _number(metric.value, metric.unit, digits)
    interval = ""
    if metric.ci95 is not None:
        scale = 100.0 if metric.unit == "fraction" else 1.0
        form = f",.{digits}f" if metric.unit in ("fraction", "points") else ",.4g"
        interval = f"[{', '.join(format(scale * end, form) for end in metric.ci95)}]"
    n = "" if "n = " in layout.heads[at][1] else f"n = {metric.n:,}"
    return _CellText(value, interval, n, layout.marks[_remark(cell)] if cell.remarks else "")


def latex(table: ResultTable, digits: int = 1) -> str:
    """A tabular with the rules of booktabs (.tex)."""
    layout = _layout(table)
    rows = []
    for row in table.rows:
        cells = [latex_text(row.label)]
        for at, cell in enumerate(row.cells):
            cells.append("--" if cell is None else _latex_cell(_cell_text(cell, layout, at, digits), best=cell.best))
        rows.append(cells)
    above, start = [], 2
    titles, rules = [""], []
    for title, count in layout.groups:
        titles.append(f"\\multicolumn{{{count}}}{{c}}{{{latex_text(title)}}}")
        rules.append(f"\\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    above = [" & ".join(titles) + " \\\\", "".join(rules), " & ".join(["", *_latex_heads(layout, 0)]) + " \\\\"]
    head = ["model", *(f"{{\\scriptsize {text}}}" for text in _latex_heads(layout, 1))]
    notes = [f"({mark}) {remark}" for remark, mark in layout.marks.items()]
    return latex_table(head, rows, " ".join(layout.legend), above=above, notes=notes)


def _latex_heads(layout: _Layout, part: int) -> list[str]:
    return [latex_text(head[part]) for head in layout.heads]


def _latex_cell(text: _CellText, *, best: bool) -> str:
    value = latex_number(latex_text(text.value))
    value = f"\\textbf{{{value}}}" if best else value
    small = latex_number(", ".join(filter(None, [text.interval, text.n])))
    pieces = [
        value,
        f" {{\\scriptsize {small}}}" if small else "",
        f"\\textsuperscript{{{text.mark}}}" if text.mark else "",
    ]
    return "".join(pieces)


def markdown(table: ResultTable, digits: int = 1) -> str:
    """A table of GitHub's Markdown, with its remarks below (.md)."""
    layout = _layout(table)
    several = _benchmarks_of_several_profiles(table)
    heads = ["model"]
    for column, (metric, shared) in zip(table.columns, layout.heads, strict=True):
        title = f"{_benchmark_title(column, several)}: {metric}"
        heads.append(_markdown_text(title) + (f"<br>{shared}" if shared else ""))
    lines = [_line(heads), _line(["---", *["---:"] * len(table.columns)])]
    for row in table.rows:
        cells = [_markdown_text(row.label)]
        for at, cell in enumerate(row.cells):
            if cell is None:
                cells.append("–")
                continue
            text = _cell_text(cell, layout, at, digits)
            value = _markdown_text(text.value)
            pieces = [
                f"**{value}**" if cell.best else value,
                text.interval.replace("[", "\\[").replace("]", "\\]"),
                text.n,
            ]
            cells.append(" ".join(filter(None, pieces)) + (f"<sup>{text.mark}</sup>" if text.mark else ""))
        lines.append(_line(cells))
    remarks = [f"<sup>{mark}</sup> {_markdown_text(remark)}" for remark, mark in layout.marks.items()]
    below = [*remarks, " ".join(_markdown_text(sentence) for sentence in layout.legend)]
    return "\n".join([*lines, "", "  \n".join(below), ""])


def _markdown_text(text: str) -> str:
    """Return a text that Markdown shows as it is; an entity for @ keeps GitHub from notifying somebody."""
    return _MARKDOWN.sub(r"\\\1", one_line(text)).replace("@", "&#64;").replace("://", "&#58;//")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_csv(table: ResultTable, digits: int = 1) -> str:
    """Full numbers: for each metric its value, interval, n, coverage and chance (.csv)."""
    several = _benchmarks_of_several_profiles(table)
    head = ["model"]
    for column in table.columns:
        name = f"{_benchmark_title(column, several)} {column.metric}"
        head += [name, *(f"{name} {part}" for part in ("low", "high", "n", "coverage", "chance"))]
    lines: list[list[Any]] = [[*head, "runs", "remarks"]]
    for row in table.rows:
        line: list[Any] = [row.label]
        remarks = []
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell is None:
                line += [None] * 6
                continue
            metric = cell.metric
            line += [metric.value, *(metric.ci95 or (None, None)), metric.n, metric.coverage, metric.chance]
            if cell.remarks:
                remarks.append(f"{_benchmark_title(column, several)}: {_remark(cell)}")
        runs = dict.fromkeys(cell.run for cell in row.cells if cell is not None)
        lines.append([*line, ", ".join(runs), " | ".join(dict.fromkeys(remarks))])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[spreadsheet_cell(cell) for cell in line] for line in lines])
    return text.getvalue()


def as_json(table: ResultTable, digits: int = 1) -> str:
    """Everything: columns, rows with each cell's metric, run and remarks, and the rule of `best` (.json)."""
    rows = [
        {
            "label": row.label,
            "model": row.model,
            "cells": [
                None
                if cell is None
                else {
                    **{name: value for name, value in structs.asdict(cell.metric).items() if name != "interval"},
                    "interval": None if cell.metric.interval is None else cell.metric.interval.text,
                    "run": cell.run,
                    "best": cell.best,
                    "remarks": cell.remarks,
                }
                for cell in row.cells
            ],
        }
        for row in table.rows
    ]
    columns = [column._asdict() for column in table.columns]
    return pretty_json({"columns": columns, "rows": rows, "notes": table.notes, "rule_of_best": RULE}).decode()


TABLE_FORMATS: Mapping[str, Callable[..., str]] = {"latex": latex, "csv": as_csv, "markdown": markdown, "json": as_json}
SUFFIXES: Mapping[str, str] = {
    ".tex": "latex",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".json": "json",
}


WRITTEN = ", ".join(f"{suffix} ({format})" for suffix, format in SUFFIXES.items())


def table_format(format: str | None, out: str | Path | None) -> str | None:
    """Return the format of a table, by its name or by the suffix of its file; None if neither names one.

    Raises:
        UsageError: the suffix belongs to another format, or to none that is written.
    """
    suffix = "" if out is None else Path(out).suffix.lower()
    by_suffix = SUFFIXES.get(suffix)
    if format is None:
        if out is not None and by_suffix is None:
            raise UsageError(
                f"--out {out}: no table is written as {suffix or 'a file without a suffix'}",
                f"Tables are written as {WRITTEN}; other formats need --format.",
            )
        return by_suffix
    if format not in TABLE_FORMATS:
        if suffix in FORMS:
            raise UsageError(
                f"--format {format} writes files into a folder, and --out {out} is named like a file",
                f"Name a folder with --out, or write a table: {WRITTEN}.",
            )
        return None
    if suffix and by_suffix is None:
        raise UsageError(f"--out {out}: no table is written as {suffix}", f"Tables are written as {WRITTEN}.")
    if by_suffix is not None and by_suffix != format:
        raise UsageError(
            f"--format {format} and --out {out} contradict each other: {suffix} is {by_suffix}",
            "Omit --format, or change the suffix.",
        )
    return format


def render_table(table: ResultTable, format: str, digits: int = 1) -> str:
    """Return a table as text in one of `TABLE_FORMATS`, free of keys."""
    return redact(TABLE_FORMATS[format](table, digits))


def write_table(
    table: ResultTable, out: str | Path, format: str | None = None, *, digits: int = 1, inputs: Sequence[Path] = ()
) -> Path:
    """Write a table to a file, whole or not at all, and return its path.

    Args:
        table: the table.
        out: the file; its suffix names the format unless `format` does.
        format: one of `TABLE_FORMATS`.
        digits: decimals of percentages and points.
        inputs: files that must not be replaced.

    Raises:
        UsageError: format and suffix disagree, or the file is one of a run.
        StorageError: it cannot be written.
    """
    name = table_format(format, out)
    if name is None:
        raise UsageError(f"there is no table format {format!r}", f"There is: {', '.join(TABLE_FORMATS)}.")
    endings = [suffix for suffix, form in SUFFIXES.items() if form == name]
    path = require_output_file(out, "--out", endings, inputs)
    text = render_table(table, name, digits)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "Choose another --out.") from error
    return path
