"""The runs page: every run below the root, by benchmark, with the ranking of each and the history of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from snellen.viewer.rankings import with_places
from snellen.viewer.run_history import history_lines
from snellen.viewer.run_list import (
    COLUMNS,
    FALLING_FIRST,
    FIGURES,
    STATE_TEXTS,
    RunGroup,
    filter_choices,
    group_runs,
    select,
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
