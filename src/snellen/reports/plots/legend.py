"""Legends above a plot, for lines and for runs, and the markers that tell series apart without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from snellen.reports.plots.base import series_colour, short_label
from snellen.reports.plots.svg import saves_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def mark_of(number: int) -> str:
    """Return the marker of a series, so that colour is not all that tells it from others."""
    return _MARKS[(number - 1) % len(_MARKS)]


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
    labels = [short_label(label, 34) for label, _ in known]
    legend_of(axes, handles, labels, _columns(labels))


def file_legend(axes: Axes, known: Sequence[tuple[str, int]]) -> None:
    """Add the names of series above a plot that is saved as a file; on the page the table of scores has them."""
    if len(known) < 2 or not saves_files():
        return
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=series_colour(number), linewidth=0) for _, number in known]
    labels = [short_label(label, 34) for label, _ in known]
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
