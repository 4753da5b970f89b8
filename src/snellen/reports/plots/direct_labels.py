"""Names of lines at their ends, in place of a legend: none covers another, and each stays as near its line as it can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from snellen.reports.plots.base import short_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        ends: of the lines.
        height: of the figure in inches.
        characters: of a name at most.
    """
    gap = max(0.055, 1.06 * LINE / max(0.5, height - 0.6))
    places = spread([end.y for end in ends], gap, 0.0, 1.02)
    moved = [abs(place - end.y) > gap / 2 for end, place in zip(ends, places, strict=True)]
    for end, place, led in zip(ends, places, moved, strict=True):
        leader: dict[str, Any] | None = None
        if led:
            leader = {"arrowstyle": "-", "color": end.colour, "lw": 0.6, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3}
        axes.annotate(
            short_label(end.name, characters),
            (end.x, end.y),
            (_AT if any(moved) else 1.01, place),
            xycoords="data",
            textcoords=axes.get_yaxis_transform(),
            color=end.colour,
            va="center",
            fontsize=9 if len(ends) > 6 else None,
            arrowprops=leader,
        )
