"""Runs of the steps of one training: OUT/<benchmark>/<step>, each a run folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from snellen.engine.run_folder import RunFolder
from snellen.errors import FingerprintError
from snellen.runs.run import Run
from snellen.text import slug

log = logging.getLogger(__name__)

WEIGHTS = frozenset({"model.weights", "model.digest", "model.commit"})
"""Parts of the fingerprint that differ between two trainings with the same settings."""


def step_folder(out: Path, benchmark: str, step: str) -> Path:
    """Return the run folder of a step."""
    return out / (slug(benchmark) or "benchmark") / step


def evaluate_replacing(
    folder: Path, evaluate: Callable[[], Run], *, replaces: Callable[[FingerprintError], bool]
) -> Run:
    """Evaluate into a folder; a run that is there with another fingerprint is renamed, and the evaluation starts anew.

    Args:
        folder: of the run.
        evaluate: resumes or starts the run in it.
        replaces: whether this difference is one between two trainings; otherwise the error is raised.
    """
    try:
        return evaluate()
    except FingerprintError as error:
        if not replaces(error):
            raise
        older = set_aside(folder)
        log.warning("%s holds a run of another training; it is now %s", folder, older)
        return evaluate()


def other_weights(error: FingerprintError) -> bool:
    """Return True if two runs differ in their weights alone."""
    return bool(error.changed) and WEIGHTS.issuperset(error.changed)


def set_aside(folder: Path) -> Path:
    """Rename a run folder to `NAME.replaced-N`, with the next free number; return its new path."""
    number = 1
    while (older := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
        number += 1
    with RunFolder(folder).locked():  # not while another process writes to it
        pass
    return folder.rename(older)
