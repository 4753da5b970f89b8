"""Option --log: send finished runs to experiment trackers, without risk to the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from snellen.cli.console import note
from snellen.cli.options import OUTPUT
from snellen.errors import SnellenError

if TYPE_CHECKING:
    from snellen.runs.run import Run
    from snellen.runs.trackers import TrackedRun, TrackerTarget

LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="KIND:NAME",
        help="Log metrics with intervals, and settings, to wandb:PROJECT, trackio:PROJECT, mlflow:EXPERIMENT or "
        "tensorboard:DIR; may be repeated.",
        rich_help_panel=OUTPUT,
    ),
]


def log_targets(texts: Sequence[str]) -> list[TrackerTarget]:
    """Check the values of --log before anything is asked; raise as `parse_targets`."""
    from snellen.runs.trackers import parse_targets

    return parse_targets(texts)


def log_runs(targets: Sequence[TrackerTarget], runs: Sequence[Run], profile: str | None) -> None:
    """Log runs to all targets, and print where they went. A tracker's fault is a warning."""
    from snellen.runs.trackers.content import tracked_run

    for run in runs:
        try:
            tracked = tracked_run(run, run.figures(profile))
        except SnellenError as error:
            note(f"warning: {run.path} is not logged: {error.message}")
        else:
            log_tracked(targets, tracked)


def log_tracked(targets: Sequence[TrackerTarget], tracked: TrackedRun) -> None:
    """Log one run to all targets, and print where it went."""
    from snellen.runs.trackers import log_run

    for result in log_run(targets, tracked):
        note(result.line)
