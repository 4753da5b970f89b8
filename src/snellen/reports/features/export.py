"""Figures and tables of a features report as files: SVG and PDF, CSV and LaTeX.

Sweeps over k or layers as curves: one file of a plot (SVG, PDF) or of its points (CSV).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.atomic_write import write_whole
from snellen.errors import StorageError, UsageError
from snellen.reports.features.page import JoinedView, StoreView, draw_plots, metric_groups, says_sees_lines
from snellen.reports.figures import require_folder, write_figures, write_text
from snellen.reports.plots.base import (
    draw_interval,
    legend_height,
    line_legend,
    mark_of,
    new_figure,
    percent_axis,
    series_colour,
)
from snellen.reports.plots.svg import inline_svg, page_style, saving_figures
from snellen.reports.table_copies import lines_as_latex, metric_lines, metrics_as_latex
from snellen.text import csv_text
from snellen.types import Metric

ENDINGS = (".svg", ".pdf", ".csv")
_BLOCK = re.compile(r"block-(\d+)/(.+)")
_DEPTH = re.compile(r"(.+)@(\d+)(.*)")

SweepPoint = tuple[float, Metric]


def sweep_lines(metrics: Sequence[Metric]) -> tuple[str, dict[str, list[SweepPoint]]]:
    """Return what is swept, and the points of each line by its name.

    Metrics of `block-N/NAME` are a sweep over layers, with 0 for the last block and -1 for the one before it; else those
    of `NAME@K` are one over k. Lines of one point are left out.

    Raises:
        UsageError: nothing is swept.
    """
    layers: dict[str, list[SweepPoint]] = {}
    depths: dict[str, list[SweepPoint]] = {}
    for metric in metrics:
        if block := _BLOCK.fullmatch(metric.name):
            layers.setdefault(block[2], []).append((1.0 - int(block[1]), metric))
        elif (depth := _DEPTH.fullmatch(metric.name)) and metric.unit == "fraction":
            depths.setdefault(depth[1] + depth[3], []).append((float(depth[2]), metric))
    for axis, lines in (("block (0 is the last)", layers), ("k", depths)):
        several = {name: sorted(line, key=lambda point: point[0]) for name, line in lines.items() if len(line) > 1}
        if several:
            return axis, several
    raise UsageError("--curve: nothing is swept.", "Give several values to --k, or add --layers.")


def write_sweep(metrics: Sequence[Metric], path: Path) -> Path:
    """Write the curve of a sweep. Raises UsageError if nothing is swept, StorageError if the file cannot be written."""
    axis, lines = sweep_lines(metrics)
    if path.suffix.lower() == ".csv":
        rows = [
            [name, int(x), "" if metric.value is None else metric.value, *(metric.ci95 or ("", "")), metric.n]
            for name, line in lines.items()
            for x, metric in line
        ]
        head = ["metric", axis.partition(" ")[0], "value", "low", "high", "n"]
        return write_whole(path, csv_text([head, *rows]), "Choose another file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with saving_figures(path.parent, (path.suffix.lower().removeprefix("."),)), page_style():
            draw_sweep(axis, lines, path.stem)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "Choose another file.") from error
    return path


def draw_sweep(axis: str, lines: Mapping[str, Sequence[tuple[float, Metric]]], name: str) -> str:
    """Plot metrics over k (on a log scale) or over layers; return the drawing."""
    figure, axes = new_figure(3.1 + legend_height(list(lines)))
    for place, points in enumerate(lines.values()):
        tint = series_colour(place + 1)
        known = [(x, metric) for x, metric in points if metric.value is not None]
        axes.plot([x for x, _ in known], [metric.value or 0.0 for _, metric in known], color=tint, lw=1.8)
        for x, metric in known:
            draw_interval(axes, metric.ci95, x, tint, vertical=True)
            axes.scatter([x], [metric.value or 0.0], s=26, color=tint, lw=0, zorder=3, marker=mark_of(place + 1))
    ticks = sorted({x for points in lines.values() for x, _ in points})
    if ticks[0] > 0:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    percent_axis(axes, "y")
    axes.set_xlabel(axis)
    axes.spines["left"].set_visible(False)
    line_legend(axes, [(label, place + 1) for place, label in enumerate(lines)])
    return inline_svg(figure, name, f"Metrics by {axis}")


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
