"""The runs page: every run below the root, by benchmark, with the ranking of each and the history of models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from snellen.reports.tables import format_interval, format_value
from snellen.viewer.index import RunEntry
from snellen.viewer.run_list import (
    COLUMNS,
    FALLING_FIRST,
    FIGURES,
    STATE_TEXTS,
    RunGroup,
    filter_choices,
    format_moment,
    group_runs,
    select,
    with_places,
)
from snellen.viewer.site import Site, ViewPage
from snellen.viewer.states import AcuityState, CompareState, MatrixState, ReviewState, RunsState, SamplesState

MOST_COMPARED = 12
POLL_S, IDLE_POLL_S = 2, 15
"""Seconds between two looks of an open page: while a run is under way or a ranking is being made, and otherwise."""


def view(site: Site, state: RunsState) -> Mapping[str, Any]:
    """Make groups, filters, history and the list of what is not read."""
    entries = site.index.runs()
    selected = select(entries, state)
    groups, notes, pending = [], {}, False
    for group in group_runs(selected, state):
        ranked = site.rankings.of(group, wait=not site.live)
        pending = pending or ranked.pending
        groups.append(with_places(group, ranked))
        notes[group.key] = "The runs are being compared …" if ranked.pending else ranked.note
    active = pending or any(entry.state == "running" or entry.samples in ("waiting", "behind") for entry in entries)
    return {
        "groups": groups,
        "notes": notes,
        "columns": COLUMNS,
        "figures": FIGURES,
        "falling": FALLING_FIRST,
        "filters": filter_choices(entries, state),
        "shown": len(selected),
        "every": len(entries),
        "running": sum(entry.state == "running" for entry in entries),
        "history": history_lines(selected, state.over) if state.over else [],
        "skipped": site.index.skipped,
        "poll": POLL_S if active else IDLE_POLL_S,
        "version": f"{site.index.version}-{int(active)}-{int(pending)}",
        "states": STATE_TEXTS,
        "plain": RunsState(),
        "samples_state": SamplesState,
        "acuity_state": AcuityState,
        "compare_state": CompareState,
        "matrix_state": MatrixState,
        "review_state": ReviewState,
        "group_keys": comparable_keys,
        "group_samples": partial(group_samples, groups=groups),
    }


def comparable_keys(group: RunGroup) -> tuple[str, ...]:
    """Return the keys of a group's complete runs, as many as one comparison takes."""
    return tuple(row.entry.key for row in group.whole[:MOST_COMPARED])


def group_samples(group: RunGroup, groups: Sequence[RunGroup]) -> SamplesState:
    """Return the samples page of a group; its runs are named if the benchmark has runs over other samples too."""
    benchmark = group.rows[0].entry.benchmark
    alone = sum(other.rows[0].entry.benchmark == benchmark for other in groups) == 1
    return SamplesState(benchmark=benchmark, runs=() if alone else comparable_keys(group))


PAGE = ViewPage(state=RunsState, view=view, title="Runs")


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
