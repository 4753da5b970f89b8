"""Trackio: a run in a local project, or in the Space that TRACKIO_SPACE_ID names."""

from __future__ import annotations

import inspect
from typing import Any

from snellen.runs.trackers.content import TrackedRun


def check(name: str) -> None:
    """Import Trackio: a project is made by its first run."""
    import trackio  # noqa: F401


def log(name: str, run: TrackedRun) -> str:
    """Log to the project; return the command that shows it."""
    import trackio as client

    trackio: Any = client
    options: dict[str, Any] = {
        "project": name,
        "name": run.name,
        "config": run.settings,
        "resume": "allow" if run.series else "never",
        "embed": False,
        "auto_log_gpu": False,
        "auto_log_cpu": False,
    }
    known = inspect.signature(trackio.init).parameters
    logged = trackio.init(**{option: value for option, value in options.items() if option in known})
    try:
        logged.log(dict(run.values), step=run.step)
    finally:
        trackio.finish()  # a run that is finished by itself is finished again, and printed, when the process ends
    return f'trackio show --project "{name}"'
