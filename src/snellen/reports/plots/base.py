"""Figure, colours and axes shared by the plots of a report.

Names of lines at their ends, in place of a legend: none covers another, and each stays as near its line as it can.

Legends above a plot, for lines and for runs, and the markers that tell series apart without colour.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from snellen.reports.collect import RunTally
from snellen.reports.escape import escape_invisible
from snellen.reports.plots.svg import COLOURS, saves_files
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

    @property
    def number(self) -> int:
        """Return the number of its colour and marker, which begin anew after eight."""
        return self.colour + SERIES * self.cycle


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


def hollow(number: int) -> bool:
    """Return True for a series whose colour was used up before, once or three times: its marks are hollow."""
    return (number - 1) // SERIES % 2 == 1


def new_figure(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """Create an empty figure and its axes; sizes in inches."""
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def short_label(text: str, characters: int = 24) -> str:
    """Return a text as a label of at most this many characters, on one line, without invisible characters."""
    return shorten(escape_invisible(text).replace("\n", " "), characters)


def short_labels(texts: Sequence[str], characters: int = 24) -> list[str]:
    """Return a label for each text; those that would be cut alike keep their ends, and have a number where these are alike too."""
    labels = {text: short_label(text, characters) for text in texts}
    for label in set(labels.values()):
        alike = [text for text in labels if labels[text] == label]
        if len(alike) > 1:
            head = characters // 3
            shown = [escape_invisible(text).replace("\n", " ") for text in alike]
            ends = [f"{text[:head]}…{text[head + 1 - characters :]}" for text in shown]
            if len({*ends}) < len(ends):
                ends = [f"{label[: characters - 4]}… {number}" for number in range(1, len(ends) + 1)]
            labels |= dict(zip(alike, ends, strict=True))
    return [labels[text] for text in texts]


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


LINE = 0.155
"""Inches that a name takes."""

_AT = 1.03
"""Where names begin, in widths of the axes."""


class LineEnd(Struct, frozen=True):
    """The last point of a line in data units, its name and its colour."""

    x: float
    y: float
    name: str
    colour: str


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move places apart by at least `gap`, within `low` to `high`, by the smallest sum of squares; their order stays.

    If they do not fit, `high` gives way. This is isotonic regression by pooling adjacent violators.
    """
    order = sorted(range(len(places)), key=lambda at: (-places[at], at))
    pools: list[tuple[float, int]] = []
    for rank, at in enumerate(order):
        mean, count = places[at] + rank * gap, 1
        while pools and pools[-1][0] < mean:
            above, size = pools.pop()
            mean, count = (mean * count + above * size) / (count + size), count + size
        pools.append((mean, count))
    least = low + (len(places) - 1) * gap
    levels = [max(least, min(high, mean)) for mean, count in pools for _ in range(count)]
    moved = [0.0] * len(places)
    for rank, at in enumerate(order):
        moved[at] = levels[rank] - rank * gap
    return moved


def names_height(names: int) -> float:
    """Return the inches that a plot needs for so many names beside each other."""
    return LINE * names + 0.8


def name_lines(axes: Axes, ends: Sequence[LineEnd], height: float, characters: int = 18) -> None:
    """Write the name of each line at its end, with a thin leader where it had to move.

    Args:
        axes: from 0 to 1.04 upwards.
        height: of the figure in inches.
        characters: of a name at most.
    """
    gap = max(0.055, 1.06 * LINE / max(0.5, height - 0.6))
    places = spread([end.y for end in ends], gap, 0.0, 1.02)
    moved = [abs(place - end.y) > gap / 2 for end, place in zip(ends, places, strict=True)]
    labels = short_labels([end.name for end in ends], characters)
    for end, label, place, led in zip(ends, labels, places, moved, strict=True):
        leader: dict[str, Any] | None = None
        if led:
            leader = {"arrowstyle": "-", "color": end.colour, "lw": 0.6, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3}
        axes.annotate(
            label,
            (end.x, end.y),
            (_AT if any(moved) else 1.01, place),
            xycoords="data",
            textcoords=axes.get_yaxis_transform(),
            color=end.colour,
            va="center",
            fontsize=9 if len(ends) > 6 else None,
            arrowprops=leader,
        )


_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def mark_of(number: int) -> str:
    """Return the marker of a series, so that colour is not all that tells it from others; a colour has another each time."""
    return _MARKS[(number - 1 + (number - 1) // SERIES) % len(_MARKS)]


def line_legend(axes: Axes, known: Sequence[tuple[str, int]], styles: Sequence[Any] = ()) -> None:
    """Add the names of lines above the plot, given as (label, colour); a single line needs none."""
    if len(known) < 2:
        return
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=series_colour(number),
            lw=2.0,
            ls=styles[place] if styles else "-",
            marker=mark_of(number),
            mew=0,
        )
        for place, (_, number) in enumerate(known)
    ]
    labels = short_labels([label for label, _ in known], 34)
    legend_of(axes, handles, labels, _columns(labels))


def file_legend(axes: Axes, known: Sequence[tuple[str, int]]) -> None:
    """Add the names of series above a plot that is saved as a file; on the page the table of scores has them."""
    if len(known) < 2 or not saves_files():
        return
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=COLOURS["paper"] if hollow(number) else tint, edgecolor=tint, linewidth=1.4 * hollow(number))
        for number, tint in ((number, series_colour(number)) for _, number in known)
    ]
    labels = short_labels([label for label, _ in known], 34)
    legend_of(axes, handles, labels, _columns(labels))


def file_legend_height(labels: Sequence[str]) -> float:
    """Return the inches that `file_legend` adds to a plot."""
    if len(labels) < 2 or not saves_files():
        return 0.0
    return 0.2 * -(-len(labels) // _columns(labels))


def legend_height(labels: Sequence[str]) -> float:
    """Return the inches that a legend of many lines takes, so that it does not flatten the plot."""
    rows = -(-len(labels) // _columns(labels))
    return 0.2 * max(0, rows - 2)


def _columns(labels: Sequence[str]) -> int:
    return 1 if max(min(len(label), 34) for label in labels) > 22 else 2


def legend_of(axes: Axes, handles: Sequence[Any], labels: Sequence[str], columns: int) -> None:
    """Add a legend above the plot."""
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.02),
        ncols=columns,
        frameon=False,
        borderaxespad=0.0,
        handlelength=1.4,
        columnspacing=1.4,
        fontsize=9,
    )
