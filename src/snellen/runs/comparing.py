"""Comparing runs, from Python; `snellen compare` calls this."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from snellen.errors import UsageError
from snellen.runs import compare as room
from snellen.runs.compare import SLICED_BY, ComparedRun, Pairing
from snellen.runs.run import Run, load_run
from snellen.runs.scoring import profiles_of


def compare(
    *runs: str | Path | Run,
    profile: str | None = None,
    by: Sequence[str] = SLICED_BY,
    metric: str | None = None,
    flips: bool = False,
    force: bool = False,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
) -> list[Pairing]:
    """Compare each run with the first, question by question.

    Args:
        runs: two or more folders, or open runs.
        profile: one scoring profile; None: the benchmark's first.
        by: meta columns to slice by.
        metric: a metric of the benchmark to compare too.
        flips: collect the questions on which they differ, with both replies.
        data, images: where the runs' files lie now, if they were moved.
        trust: as for `load_run`.
        force: compare even runs of other questions, by what ids they share.

    Raises:
        UsageError: fewer than two runs, one run twice, other questions, no such profile or metric.
        DataError: no question in common. RunError: no run there.
    """
    opened = [run if isinstance(run, Run) else load_run(run, trust=trust).moved(data, images) for run in runs]
    if len(opened) < 2:
        raise UsageError("one run alone cannot be compared", "Give two or more.")
    places = [run.path.resolve() for run in opened]
    if len(set(places)) < len(places):
        raise UsageError("one run is given twice", "Give different runs.")
    for run in opened:
        if run.request_errors().nothing_answered:
            raise UsageError(
                f"{run.path} cannot be compared: {run.request_errors().text}",
                f"Go on with it: snellen rerun {run.path}",
            )
    sides = [ComparedRun(run.folder, run.meta, run.benchmark) for run in opened]
    chosen = profiles_of(sides[0].benchmark, profile)
    if len(chosen) > 1:
        raise UsageError(f"runs are compared under one profile, and {len(chosen)} were named", "Name one.")
    (name,) = chosen
    pairings = [
        room.compare(sides[0], other, name, by=by, metric=metric, flips=flips, force=force) for other in sides[1:]
    ]
    annotated = []
    for pairing, run in zip(pairings, opened[1:], strict=True):
        notes = [line for line in pairing.notes if not line.endswith("have no answer and count as wrong")]
        failed = [one for one in (opened[0], run) if one.request_errors().failed]
        annotated.append(
            structs.replace(
                pairing, notes=[*notes, *(f"{one.path.name}: {one.request_errors().text}" for one in failed)]
            )
        )
    return annotated
