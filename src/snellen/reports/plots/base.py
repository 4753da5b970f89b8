"""Figure, colours and axes shared by the plots of a report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.reports.collect import RunTally
from snellen.reports.escape import escape_invisible
from snellen.reports.plots.svg import COLOURS
from snellen.text import shorten, slug
from snellen.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.6
"""Inches; 403 units of the drawing."""

SERIES = 8
"""Number of series colours; they repeat."""


class Series(Struct, frozen=True):
    """Metrics of one run under one profile, with the colour that they have on the whole page (1 to 8).

    `cycle` counts how often the colours were used up before: markers of every second cycle are hollow.
    """

    label: str
    run: str
    profile: str
    metrics: Sequence[Metric]
    tally: RunTally
    colour: int
    cycle: int = 0


class Plot(Struct, frozen=True):
    """A figure of the page: title, one sentence that says how to read it, and the drawing."""

    title: str
    caption: str
    svg: str


def unique_name(taken: set[str], *parts: str) -> str:
    """Return a name for a plot: of its SVG element, and of its files.

    The parts become lower-case ASCII with hyphens; a number follows if the name is taken. Parts without a usable
    character are omitted.
    """
    words = [slug(part.lower().replace(".", "-").replace("_", "-"), 60) for part in parts]
    name = base = "-".join(filter(None, words)) or "plot"
    number = 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def run_word(column: Series, number: int, runs: int) -> str:
    """Return a run's part of the names of its plots: empty for a single run, a number for a name without ASCII."""
    return "" if runs == 1 else column.run if slug(column.run) else f"run-{number + 1}"


def series_colour(number: int) -> str:
    """Return the stand-in of a series colour; colours repeat after eight."""
    return COLOURS[f"series-{(number - 1) % SERIES + 1}"]


def new_figure(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """Create an empty figure and its axes; sizes in inches."""
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def short_label(text: str, characters: int = 24) -> str:
    """Return a text as a label of at most this many characters, on one line, without invisible characters."""
    return shorten(escape_invisible(text).replace("\n", " "), characters)


def draw_interval(
    axes: Axes, ends: tuple[float, float] | None, at: float, tint: str, *, alpha: float = 0.35, vertical: bool = False
) -> None:
    """Draw an interval as a wide, pale bar; nothing for None."""
    if ends is not None:
        x, y = ([at, at], ends) if vertical else (ends, [at, at])
        axes.plot(x, y, color=tint, lw=2.4, alpha=alpha, solid_capstyle="butt")


def draw_dots(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    tint: str,
    urls: Sequence[str],
    *,
    cycle: int = 0,
    size: float = 18,
) -> None:
    """Draw points that link to their answers; hollow ones in every second cycle of the colours."""
    face, width = (COLOURS["paper"], 1.4) if cycle % 2 else (tint, 0.0)
    axes.scatter(x, y, s=size, color=face, edgecolors=tint, zorder=3, linewidths=width, urls=list(urls))


def percent_axis(axes: Axes, axis: str) -> None:
    """Set the `x` or `y` axis to 0 to 100 %."""
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    labels = ["0", "25", "50", "75", "100 %"]
    if axis == "x":
        axes.set_xlim(-0.01, 1.01)
        axes.set_xticks(ticks, labels)
        axes.grid(axis="x")
    else:
        axes.set_ylim(-0.02, 1.04)
        axes.set_yticks(ticks, labels)
        axes.grid(axis="y")
    axes.set_axisbelow(True)
