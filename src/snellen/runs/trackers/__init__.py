"""Experiment trackers: the metrics of a run in Weights & Biases, Trackio, MLflow or TensorBoard.

`parse_targets` checks what `--log KIND:NAME` names before a run begins; `log_run` sends a run, and returns a fault instead
of raising it, since a run must never be lost to its tracker.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from snellen.errors import MissingExtraError, SnellenError, UsageError
from snellen.installation import install_hint
from snellen.redaction import redact
from snellen.runs.trackers.content import TrackedRun
from snellen.text import shorten

__all__ = ["TrackedRun", "Tracker", "TrackerTarget", "log_run", "parse_targets"]


class Tracker(NamedTuple):
    """A kind of tracker: the package that it needs, the extra that brings it, and what its NAME stands for.

    `module` has a function `log(name, run)` that sends a run and returns where it went, and `check(name)`.
    """

    package: str
    extra: str
    names: str
    module: str


TRACKERS = {
    "wandb": Tracker("wandb", "wandb", "PROJECT", "snellen.runs.trackers.wandb_project"),
    "trackio": Tracker("trackio", "trackio", "PROJECT", "snellen.runs.trackers.trackio_project"),
    "mlflow": Tracker("mlflow", "mlflow", "EXPERIMENT", "snellen.runs.trackers.mlflow_experiment"),
    "tensorboard": Tracker("tensorboard", "tensorboard", "DIR", "snellen.runs.trackers.tensorboard_folder"),
}
MESSAGE_CHARACTERS = 300


class TrackerTarget(NamedTuple):
    """What `--log` names: a kind of tracker, and a project, an experiment or a folder."""

    kind: str
    name: str

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.name}"


class LogResult(NamedTuple):
    """Result of one target: the place where the run can be seen, or the fault of the tracker."""

    target: TrackerTarget
    place: str
    fault: str = ""

    @property
    def line(self) -> str:
        if self.fault:
            return f"warning: not logged to {self.target.text}: {self.fault}"
        return f"logged to {self.target.text}{f': {self.place}' if self.place else ''}"


def parse_targets(texts: Sequence[str]) -> list[TrackerTarget]:
    """Read `--log KIND:NAME` and check that each tracker can be used, before anything is asked.

    Raises:
        UsageError: no such kind, no name, or a tracker that needs a login that it does not have.
        MissingExtraError: the tracker's package is not installed.
    """
    targets: list[TrackerTarget] = []
    forms = ", ".join(f"{kind}:{tracker.names}" for kind, tracker in TRACKERS.items())
    for text in dict.fromkeys(texts):
        kind, colon, name = text.partition(":")
        if kind not in TRACKERS:
            raise UsageError(f"--log {text!r} names no tracker", f"Write one of: {forms}.").near(kind, TRACKERS, "{}")
        tracker = TRACKERS[kind]
        if not colon or not name.strip():
            raise UsageError(f"--log {text!r} names no {tracker.names.lower()}", f"Write --log {kind}:{tracker.names}.")
        if find_spec(tracker.package) is None:
            raise MissingExtraError(
                f"--log {text} needs {tracker.package}, which is not installed.",
                install_hint(tracker.extra),
            )
        target = TrackerTarget(kind, name.strip())
        try:
            with _quiet():
                import_module(tracker.module).check(target.name)
        except SnellenError:
            raise
        except Exception as error:
            raise UsageError(
                f"--log {text}: {tracker.package} cannot be used: {_first_line(error)}",
                f"Check the installation of {tracker.package}, or omit --log.",
            ) from error
        targets.append(target)
    return targets


def log_run(targets: Sequence[TrackerTarget], run: TrackedRun) -> list[LogResult]:
    """Send a run to each tracker. A tracker's fault becomes part of the result: the run is on disk and stays so."""
    results = []
    for target in targets:
        try:
            with _quiet():
                place: str = import_module(TRACKERS[target.kind].module).log(target.name, run)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tracker raises, the run is complete
            results.append(LogResult(target, "", _first_line(error)))
        else:
            results.append(LogResult(target, redact(place)))
    return results


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what trackers print from the terminal: with --json, standard output holds one object and nothing else."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _first_line(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return shorten(redact(f"{type(error).__name__}: {text}" if text else type(error).__name__), MESSAGE_CHARACTERS)
