"""Experiment trackers: the metrics of a run in Weights & Biases, Trackio, MLflow or TensorBoard, and OpenTelemetry.

`parse_targets` checks what `--log KIND:NAME` names before a run begins; `log_run` sends a run, and returns a fault instead
of raising it, since a run must never be lost to its tracker.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from snellen.benchmarks.base import Benchmark
from snellen.engine.questions import Observer
from snellen.engine.run_folder import RunSpec
from snellen.errors import MissingExtraError, SnellenError, UsageError
from snellen.installation import install_hint
from snellen.redaction import redact
from snellen.runs.trackers.content import COLUMNS, TrackedRun, flat
from snellen.text import shorten, slug

__all__ = ["TrackedRun", "Tracker", "TrackerTarget", "log_run", "parse_targets"]


class Tracker(NamedTuple):
    """A kind of tracker: the package that it needs, the extra that brings it, and what its NAME stands for.

    `check` takes a NAME before a run; `log` sends a run and returns where it went. `follow` makes the observer of a run while
    it goes on; a kind that has it needs no NAME.
    """

    package: str
    extra: str
    names: str
    check: Callable[[str], None]
    log: Callable[[str, TrackedRun], str]
    follow: Callable[[str, RunSpec, Benchmark], AbstractContextManager[Observer]] | None = None

    @property
    def needs_name(self) -> bool:
        return self.follow is None


MESSAGE_CHARACTERS = 300


class TrackerTarget(NamedTuple):
    """What `--log` names: a kind of tracker, and a project, an experiment or a folder."""

    kind: str
    name: str

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


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
    forms = ", ".join(f"{kind}:{tracker.names}" if tracker.needs_name else kind for kind, tracker in TRACKERS.items())
    for text in dict.fromkeys(texts):
        kind, colon, name = text.partition(":")
        if kind not in TRACKERS:
            raise UsageError(f"--log {text!r} names no tracker", f"Write one of: {forms}.").near(kind, TRACKERS, "{}")
        tracker = TRACKERS[kind]
        if (tracker.needs_name or colon) and not name.strip():
            raise UsageError(f"--log {text!r} names no {tracker.names.lower()}", f"Write --log {kind}:{tracker.names}.")
        if not is_installed(kind):
            raise MissingExtraError(
                f"--log {text} needs {tracker.package}, which is not installed.",
                install_hint(tracker.extra),
            )
        target = TrackerTarget(kind, name.strip())
        try:
            with _quiet():
                tracker.check(target.name)
        except SnellenError:
            raise
        except Exception as error:
            raise UsageError(
                f"--log {text}: {tracker.package} cannot be used: {_first_line(error)}",
                f"Check the installation of {tracker.package}, or omit --log.",
            ) from error
        targets.append(target)
    return targets


def is_installed(kind: str) -> bool:
    """Return True if the package of a kind of tracker is there."""
    try:
        return find_spec(TRACKERS[kind].package) is not None
    except ModuleNotFoundError:  # of `a.b`, where there is no `a`
        return False


@contextlib.contextmanager
def following(targets: Sequence[TrackerTarget], spec: RunSpec, benchmark: Benchmark) -> Iterator[Observer | None]:
    """Yield the observer of the first target that follows runs while they go on; None without one."""
    for target in targets:
        if (follow := TRACKERS[target.kind].follow) is not None:
            with follow(target.name, spec, benchmark) as observer:
                yield observer
            return
    yield None


def log_run(targets: Sequence[TrackerTarget], run: TrackedRun) -> list[LogResult]:
    """Send a run to each tracker. A tracker's fault becomes part of the result: the run is on disk and stays so."""
    results = []
    for target in targets:
        try:
            with _quiet():
                place = TRACKERS[target.kind].log(target.name, run)
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


WANDB_OFFLINE = ("offline", "dryrun", "disabled")
WANDB_STEP = "checkpoint_step"
_last_part = 0.0


def _check_wandb(name: str) -> None:
    """Raise UsageError where W&B would ask for a login at the end of the run."""
    import wandb

    mode = os.environ.get("WANDB_MODE") or wandb.setup().settings.mode
    if mode not in WANDB_OFFLINE and not wandb.login(prompt=False, verify=False):
        raise UsageError(
            f"--log wandb:{name}: W&B has no login here.",
            "Run `wandb login` or set WANDB_API_KEY. To log to a folder instead: WANDB_MODE=offline",
        )


def _await_next_second() -> None:
    """Wait so that two parts of a series get two offline folders: W&B names a folder by its second and the run's id."""
    global _last_part
    time.sleep(max(0.0, _last_part + 1.1 - time.monotonic()))
    _last_part = time.monotonic()


def _log_wandb(name: str, run: TrackedRun) -> str:
    """Log to the project (`PROJECT` or `ENTITY/PROJECT`); return the run's address, or its folder if W&B is offline."""
    import wandb

    if run.series:
        _await_next_second()
    entity, _, project = name.rpartition("/")
    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        x_disable_meta=True,  # it would send the command line and the environment
        x_disable_stats=True,
    )
    logged = wandb.init(
        entity=entity or None,
        project=project,
        name=run.name,
        job_type="eval",
        config=run.settings,
        settings=settings,
        dir=os.environ.get("WANDB_DIR") or str(Path.cwd()),  # W&B keeps the folder of the process's first run
        id=run.series or None,
        resume="allow" if run.series else None,
        reinit="create_new",
    )
    try:
        if run.step is None:
            logged.log({**run.values, f"{run.benchmark}/metrics": wandb.Table(columns=list(COLUMNS), data=run.rows)})
            logged.summary.update(run.values)
        else:
            logged.define_metric(f"{run.benchmark}/*", step_metric=WANDB_STEP)
            logged.log({**run.values, WANDB_STEP: run.step})
        return logged.url or logged.dir.removesuffix("/files")
    finally:
        logged.finish()


def _check_trackio(name: str) -> None:
    """Import Trackio: a project is made by its first run."""
    import trackio  # noqa: F401


def _log_trackio(name: str, run: TrackedRun) -> str:
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


VALUE_CHARACTERS = 500
"""Of a parameter: what older servers take."""
MLFLOW_SERIES = "snellen.series"
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100
"""Limits of MLflow's log_batch."""


def _check_mlflow(name: str) -> None:
    """Import MLflow: an experiment is made by its first run."""
    import mlflow  # noqa: F401


def _log_mlflow(name: str, run: TrackedRun) -> str:
    """Log to the experiment; return the store and the run's id."""
    import mlflow
    from mlflow.entities import Metric, Param

    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name(name)
    experiment_id = client.create_experiment(name) if experiment is None else experiment.experiment_id
    earlier: list[Any] = []
    if run.series:
        earlier = client.search_runs([experiment_id], f"tags.`{MLFLOW_SERIES}` = '{run.series}'", max_results=1)
    if earlier:
        run_id = earlier[0].info.run_id
    else:
        tags = {"snellen.benchmark": run.benchmark, **({MLFLOW_SERIES: run.series} if run.series else {})}
        run_id = client.create_run(experiment_id, run_name=run.name, tags=tags).info.run_id
    status = "FAILED"
    try:
        if not earlier:
            parameters = [Param(key, value[:VALUE_CHARACTERS]) for key, value in flat(run.settings).items()]
            for start in range(0, len(parameters), PARAMETERS_AT_ONCE):
                client.log_batch(run_id, params=parameters[start : start + PARAMETERS_AT_ONCE])
        now = int(time.time() * 1000)
        metrics = [Metric(key, value, now, run.step or 0) for key, value in run.values.items()]
        for start in range(0, len(metrics), METRICS_AT_ONCE):
            client.log_batch(run_id, metrics=metrics[start : start + METRICS_AT_ONCE])
        folder = "snellen" if run.step is None else f"snellen/step-{run.step}"
        client.log_dict(
            run_id, {"columns": list(COLUMNS), "data": [list(row) for row in run.rows]}, f"{folder}/metrics.json"
        )
        client.log_dict(run_id, run.settings, f"{folder}/settings.json")
        status = "FINISHED"
    finally:
        client.set_terminated(run_id, status)
    return f"{mlflow.get_tracking_uri()}, run {run_id}"


def _check_tensorboard(name: str) -> None:
    """Import the writer; raise UsageError if the folder cannot be made."""
    from tensorboard.summary.writer import event_file_writer  # noqa: F401

    Path(name).expanduser().mkdir(parents=True, exist_ok=True)


def _log_tensorboard(name: str, run: TrackedRun) -> str:
    """Write the metrics as scalars and the settings as a text; return the run's folder in DIR."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = Path(name).expanduser() / (slug(run.name, 120) or "run")
    step = run.step or 0
    scalars = [Summary.Value(tag=key, simple_value=value) for key, value in run.values.items()]
    writer = EventFileWriter(str(folder))
    try:
        writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=scalars)))
        text = Summary(value=[_text_summary("settings", json.dumps(run.settings, indent=2, sort_keys=True))])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=text))
    finally:
        writer.close()
    return str(folder)


def _text_summary(tag: str, text: str) -> Any:
    """Return a text as TensorBoard's text plug-in shows it, in a code block of Markdown."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    block = "\n".join(f"    {line}" for line in text.splitlines())
    tensor = TensorProto(
        dtype="DT_STRING",
        string_val=[block.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return Summary.Value(tag=f"{tag}/text_summary", metadata=plugin, tensor=tensor)


def _check_otel(name: str) -> None:
    from snellen.runs.trackers.telemetry import require_address

    require_address(name)


def _log_otel(name: str, run: TrackedRun) -> str:
    """Send an event for each metric; return where they go."""
    from snellen.runs.trackers.telemetry import log_metrics

    return log_metrics(name, run)


def _follow_otel(name: str, spec: RunSpec, benchmark: Benchmark) -> AbstractContextManager[Observer]:
    from snellen.runs.trackers.telemetry import follow

    return follow(name, spec, benchmark)


TRACKERS = {
    "wandb": Tracker("wandb", "wandb", "PROJECT", _check_wandb, _log_wandb),
    "trackio": Tracker("trackio", "trackio", "PROJECT", _check_trackio, _log_trackio),
    "mlflow": Tracker("mlflow", "mlflow", "EXPERIMENT", _check_mlflow, _log_mlflow),
    "tensorboard": Tracker("tensorboard", "tensorboard", "DIR", _check_tensorboard, _log_tensorboard),
    "otel": Tracker("opentelemetry.exporter.otlp.proto.http", "otel", "ADDRESS", _check_otel, _log_otel, _follow_otel),
}
