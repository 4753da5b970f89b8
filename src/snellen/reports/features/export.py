"""Figures and tables of a features report as files: SVG and PDF, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.errors import StorageError
from snellen.formats.latex import latex_number, latex_table, latex_text
from snellen.reports.features.page import JoinedView, StoreView, draw_plots
from snellen.reports.figures import csv_text, require_folder, write_figures, write_text
from snellen.types import Metric


def export_report(stores: Sequence[StoreView], joined: Sequence[JoinedView], folder: Path) -> list[Path]:
    """Write every figure of the page as SVG and PDF, and every table as CSV and LaTeX.

    `figures/figures.csv` has title and caption of each figure. A CSV of scores has one line for each metric and store
    with everything that is known of it; its LaTeX table has metrics as rows and stores as columns, and needs the package
    booktabs.

    Returns:
        The files, sorted.

    Raises:
        UsageError: the folder's name is a file's.
        StorageError: a file cannot be written.
    """
    require_folder(folder, "--export")
    tables = folder / "tables"
    written = write_figures(
        lambda: (plot for part in draw_plots(stores, joined) for plot in part), folder / "figures", "--export"
    )
    try:
        tables.mkdir(parents=True, exist_ok=True)
        written += _write_tables(stores, joined, tables)
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}", "Choose another --export.") from error
    return sorted(written)


def _write_tables(stores: Sequence[StoreView], joined: Sequence[JoinedView], folder: Path) -> list[Path]:
    written = []
    for title in dict.fromkeys(title for store in stores for title in store.measures):
        by_store = {store.name: {m.name: m for m in store.measures.get(title, ())} for store in stores}
        name = _file_name(title)
        written.append(write_text(folder / f"{name}.csv", csv_text(_long(by_store))))
        written.append(write_text(folder / f"{name}.tex", _scores_as_latex(title, by_store)))
    tables = {"classes": _classes(stores), "says-sees": _says_sees(joined)}
    for name, lines in tables.items():
        if len(lines) > 1:
            written.append(write_text(folder / f"{name}.csv", csv_text(lines)))
            head, *rest = [[_latex_cell(cell) for cell in line] for line in lines]
            align = "".join("l" if isinstance(cell, str) else "r" for cell in lines[1])
            written.append(write_text(folder / f"{name}.tex", latex_table(head, rest, name, align=align)))
    return written


def _long(by_store: Mapping[str, Mapping[str, Metric]]) -> list[list[Any]]:
    head = ["metric", "store", "value", "low", "high", "unit", "interval", "clusters", "n", "coverage", "chance"]
    lines: list[list[Any]] = [head]
    for metric in dict.fromkeys(name for metrics in by_store.values() for name in metrics):
        for store, metrics in by_store.items():
            if (known := metrics.get(metric)) is not None:
                low, high = known.ci95 or ("", "")
                by = known.interval
                method = "" if by is None else by.text
                clusters = "" if by is None or by.clusters is None else by.clusters
                value, chance = ("" if number is None else number for number in (known.value, known.chance))
                lines.append(
                    [metric, store, value, low, high, known.unit, method, clusters, known.n, known.coverage, chance]
                )
    return lines


def _scores_as_latex(title: str, by_store: Mapping[str, Mapping[str, Metric]]) -> str:
    """Return metrics by stores: value and interval, in per cent where it is a share."""
    methods: dict[str, None] = {}
    rows: list[list[str]] = []
    for metric in dict.fromkeys(name for metrics in by_store.values() for name in metrics):
        cells = [latex_text(metric)]
        for metrics in by_store.values():
            known = metrics.get(metric)
            cells.append("--" if known is None else _latex_value(known))
            if known is not None and known.interval is not None:
                methods[known.interval.text] = None
        rows.append(cells)
    about = f"{title}: per cent where it is a share, 95 % interval in brackets ({'; '.join(methods) or 'none'})"
    return latex_table(["metric", *map(latex_text, by_store)], rows, about)


def _latex_value(metric: Metric) -> str:
    if metric.value is None:
        return "--"
    scale, digits = (100.0, "{:.1f}") if metric.unit == "fraction" else (1.0, "{:.4g}")
    value = latex_number(digits.format(scale * metric.value))
    if metric.ci95 is None:
        return value
    low, high = (latex_number(digits.format(scale * end)) for end in metric.ci95)
    return f"{value} {{\\scriptsize [{low}, {high}]}}"


def _classes(stores: Sequence[StoreView]) -> list[list[Any]]:
    lines: list[list[Any]] = [["store", "class", "train", "test", "accuracy", "low", "high"]]
    for store in stores:
        for row in store.classes:
            low, high = row.ci95 or ("", "")
            accuracy = "" if row.accuracy is None else row.accuracy
            lines.append([store.name, row.name, row.train, row.test, accuracy, low, high])
    return lines


def _says_sees(joined: Sequence[JoinedView]) -> list[list[Any]]:
    lines: list[list[Any]] = [
        ["store", "run", "class", "probe", "answers", "gap", "lost in saying", "lost in seeing", "quadrant", "images"]
    ]
    for join in joined:
        for point in join.comparison.classes:
            figures = [point.probe, point.answer, point.gap, point.lost_saying, point.lost_seeing]
            lines.append([join.store, join.run, point.name, *figures, point.quadrant, point.images])
    return lines


def _latex_cell(cell: Any) -> str:
    return latex_number(f"{cell:.4f}") if isinstance(cell, float) else latex_text(str(cell))


def _file_name(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())
