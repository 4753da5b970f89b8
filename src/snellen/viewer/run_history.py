"""History of a model: its headline on each benchmark over time, or over the steps of a training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from snellen.reports.tables import format_interval, format_value
from snellen.viewer.index import RunEntry
from snellen.viewer.run_list import format_moment

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640.0, 220.0, 52.0, 16.0, 14.0, 34.0
_STEP = re.compile(r"(?:checkpoint|ckpt|global_step|step|iter(?:ation)?|epoch)[-_=/]?(\d{1,12})(?!\d)", re.IGNORECASE)
LEAST_POINTS = 2


@dataclass(frozen=True)
class HistoryPoint:
    """One run on the axis, in the drawing's units."""

    entry: RunEntry
    x: float
    y: float
    low: float | None
    high: float | None
    at: str
    text: str
    whole: bool


@dataclass(frozen=True)
class HistoryLine:
    """One model on one benchmark: points from left to right, and the drawing's marks."""

    benchmark: str
    model: str
    metric: str
    points: tuple[HistoryPoint, ...]
    ticks: tuple[tuple[float, str], ...]
    chance: float | None

    @property
    def path(self) -> str:
        """Return the line through the points of complete runs, as points of an SVG polyline."""
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points if point.whole)


def step_of(entry: RunEntry) -> int | None:
    """Return the training step of a run: as recorded, else from the name of its model or folder; None where none is there."""
    recorded = entry.environment.get("step")
    if isinstance(recorded, int) and not isinstance(recorded, bool):
        return recorded
    for text in (entry.model, entry.key):
        if matches := _STEP.findall(text):
            return int(matches[-1])
    last = entry.key.rpartition("/")[2]
    return int(last) if last.isascii() and last.isdigit() and len(last) <= 12 else None


def lineage(entry: RunEntry) -> str:
    """Return the model's name without its step, so that the checkpoints of a training are one line."""
    return _STEP.sub("*", entry.model)


def history_lines(entries: Sequence[RunEntry], over: str) -> list[HistoryLine]:
    """Return a line for each benchmark, data and model with two points or more; runs with degraded images have no point.

    Args:
        entries: runs that the page shows.
        over: `time` or `step`.
    """
    lines: dict[tuple[str, ...], list[tuple[float, RunEntry]]] = {}
    for entry in entries:
        at = entry.started if over == "time" else step_of(entry)
        if at is None or entry.headline is None or entry.headline.value is None or entry.judges or entry.degraded:
            continue
        model = entry.model if over == "time" else lineage(entry)
        name = (entry.benchmark, entry.version, entry.data, model, entry.headline.name)
        lines.setdefault(name, []).append((float(at), entry))
    return [
        _line(sorted(points, key=lambda point: (point[0], point[1].key)), over, model)
        for (*_, model, _), points in sorted(lines.items())
        if len(points) >= LEAST_POINTS
    ]


def _line(points: Sequence[tuple[float, RunEntry]], over: str, model: str) -> HistoryLine:
    metrics = [entry.headline for _, entry in points if entry.headline is not None]
    ends: list[float] = [end for metric in metrics for end in (*(metric.ci95 or ()), metric.value or 0.0)]
    fraction = metrics[0].unit == "fraction"
    chance = next((metric.chance for metric in metrics if metric.chance is not None), None)
    ends += [chance] if chance is not None else []
    low, high = min(ends), max(ends)
    low, high = (max(0.0, low - 0.05), min(1.0, high + 0.05)) if fraction else (low, high)
    high = high if high > low else low + 1.0
    first, last = points[0][0], points[-1][0]

    def x(at: float) -> float:
        share = (at - first) / (last - first) if last > first else 0.5
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    made = [
        HistoryPoint(
            entry,
            x(at),
            y(metric.value or 0.0),
            None if metric.ci95 is None else y(metric.ci95[0]),
            None if metric.ci95 is None else y(metric.ci95[1]),
            format_moment(at) if over == "time" else f"step {at:,.0f}",
            f"{format_value(metric.value, metric.unit)} {format_interval(metric.ci95, metric.unit)}".strip(),
            entry.complete,
        )
        for (at, entry), metric in zip(points, metrics, strict=True)
    ]
    ticks = tuple(
        (y(low + share * (high - low)), format_value(low + share * (high - low), metrics[0].unit))
        for share in (0.0, 0.5, 1.0)
    )
    return HistoryLine(
        points[0][1].benchmark, model, metrics[0].name, tuple(made), ticks, None if chance is None else y(chance)
    )
