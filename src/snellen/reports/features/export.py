"""Figures and tables of a features report as files: SVG and PDF, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snellen.errors import StorageError
from snellen.reports.features.page import JoinedView, StoreView, draw_plots, metric_groups, says_sees_lines
from snellen.reports.figures import csv_text, require_folder, write_figures, write_text
from snellen.reports.table_copies import lines_as_latex, metric_lines, metrics_as_latex


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
    for title, columns in metric_groups(stores).items():
        name = _file_name(title)
        written.append(write_text(folder / f"{name}.csv", csv_text(metric_lines(columns, "store"))))
        written.append(write_text(folder / f"{name}.tex", metrics_as_latex(title, columns)))
    tables = {"classes": _classes(stores), "says-sees": says_sees_lines(joined)}
    for name, lines in tables.items():
        if len(lines) > 1:
            written.append(write_text(folder / f"{name}.csv", csv_text(lines)))
            written.append(write_text(folder / f"{name}.tex", lines_as_latex(name, lines, ".4f")))
    return written


def _classes(stores: Sequence[StoreView]) -> list[list[Any]]:
    lines: list[list[Any]] = [["store", "class", "train", "test", "accuracy", "low", "high"]]
    for store in stores:
        for row in store.classes:
            low, high = row.ci95 or ("", "")
            accuracy = "" if row.accuracy is None else row.accuracy
            lines.append([store.name, row.name, row.train, row.test, accuracy, low, high])
    return lines


def _file_name(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())
