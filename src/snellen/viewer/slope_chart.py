"""Slope chart: one line a slice, from its score under the first run to that under the last; positions for the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

from snellen.reports.plots.base import short_label
from snellen.scoring.metric_text import percent

ROW = 15.0
"""Pixels between two labels at least."""
SMALLEST = 220.0
TOP, BOTTOM = 34.0, 12.0
LEFT, RIGHT = 16.0, 56.0
"""Percent of the width where the first and the last run stand; the rest is for ticks and labels."""
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
MOST_TICKS = 6


@dataclass(frozen=True)
class SlopeLine:
    """A slice: its name, its score under each run (None where there is none), and whether the runs are told apart."""

    label: str
    values: tuple[float | None, ...]
    clear: bool = False


@dataclass(frozen=True)
class DrawnLine:
    """A line on the chart: places of its points in percent of the width and in pixels, and its label at the right.

    `direction` is `up` or `down` where the runs are told apart, otherwise `flat`.
    """

    label: str
    points: tuple[tuple[float, float], ...]
    segments: tuple[tuple[float, float, float, float], ...]
    direction: str
    title: str
    right_text: str
    right_y: float


@dataclass(frozen=True)
class SlopeChart:
    """The chart: height in pixels, a place for each run, lines, and ticks of the scale (y, text)."""

    height: float
    places: tuple[tuple[float, str], ...]
    lines: tuple[DrawnLine, ...]
    ticks: tuple[tuple[float, str], ...]
    omitted: int


def slope_chart(names: Sequence[str], lines: Sequence[SlopeLine]) -> SlopeChart | None:
    """Lay a slope chart out; None where fewer than one line has a score under every run.

    Args:
        names: short names of the runs, two or more.
        lines: slices; those without a score under some run are omitted and counted.
    """
    usable = [line for line in lines if all(value is not None for value in line.values)]
    scores = [value for line in usable for value in line.values if value is not None]
    if not scores or len(names) < 2:
        return None
    ticks = scale_ticks(min(scores), max(scores))
    low, high = ticks[0], ticks[-1]
    height = max(SMALLEST, TOP + BOTTOM + ROW * len(usable))
    room = height - TOP - BOTTOM

    def place(value: float) -> float:
        return round(TOP + room * (high - value) / (high - low), 2)

    step = (RIGHT - LEFT) / (len(names) - 1)
    across = [round(LEFT + step * number, 3) for number in range(len(names))]
    right = spread_labels([place(line.values[-1] or 0.0) for line in usable], TOP, height - BOTTOM)
    drawn = []
    for line, right_y in zip(usable, right, strict=True):
        values = [value for value in line.values if value is not None]
        points = tuple((x, place(value)) for x, value in zip(across, values, strict=True))
        texts = [f"{percent(value)} %" for value in values]
        direction = "flat" if not line.clear else "up" if values[-1] > values[0] else "down"
        drawn.append(
            DrawnLine(
                line.label,
                points,
                tuple((*a, *b) for a, b in pairwise(points)),
                direction,
                f"{line.label}: " + ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True)),
                f"{percent(values[-1])}  {short_label(line.label, 17)}",
                right_y,
            )
        )
    drawn.sort(key=lambda line: line.direction != "flat")  # the ones that matter are drawn above the others
    return SlopeChart(
        round(height, 1),
        tuple(zip(across, (short_label(name, 18) for name in names), strict=True)),
        tuple(drawn),
        tuple((place(tick), f"{100 * tick:g} %") for tick in ticks),
        len(lines) - len(usable),
    )


def scale_ticks(low: float, high: float) -> list[float]:
    """Return evenly spaced round numbers from below `low` to above `high`, two to MOST_TICKS of them where 0 to 1 allows."""
    for step in STEPS:
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        last = max(last, first + 1)
        if last - first < MOST_TICKS:
            return [round(step * number, 10) for number in range(first, last + 1)]
    return [float(floor(low)), float(max(ceil(high), floor(low) + 1))]


def spread_labels(places: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return places for labels near the wanted ones, ROW apart where the height allows, in the same order.

    Labels that would overlap form a block whose centre is the mean of its members' wanted places.
    """
    order = sorted(range(len(places)), key=lambda number: places[number])
    gap = min(ROW, (bottom - top) / max(1, len(places) - 1)) if len(places) > 1 else ROW
    blocks: list[list[float]] = []  # [sum of wanted places, members]
    for number in order:
        blocks.append([places[number], 1.0])
        while len(blocks) > 1 and _start(blocks[-1], gap, top, bottom) < _end(blocks[-2], gap, top, bottom) + gap:
            total, members = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += members
    result = [0.0] * len(places)
    following = iter(order)
    for block in blocks:
        start = _start(block, gap, top, bottom)
        for member in range(int(block[1])):
            result[next(following)] = round(start + gap * member, 2)
    return result


def _start(block: Sequence[float], gap: float, top: float, bottom: float) -> float:
    length = gap * (block[1] - 1)
    return max(top, min(block[0] / block[1] - length / 2, bottom - length))


def _end(block: Sequence[float], gap: float, top: float, bottom: float) -> float:
    return _start(block, gap, top, bottom) + gap * (block[1] - 1)
