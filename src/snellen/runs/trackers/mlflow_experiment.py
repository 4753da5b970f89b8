"""MLflow: a run in an experiment of the store that MLFLOW_TRACKING_URI names, by default an SQLite file in this folder."""

from __future__ import annotations

import time
from typing import Any

from snellen.runs.trackers.content import COLUMNS, TrackedRun, flat

VALUE_CHARACTERS = 500
"""Of a parameter: what older servers take."""
SERIES = "snellen.series"
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100
"""Limits of MLflow's log_batch."""


def check(name: str) -> None:
    """Import MLflow: an experiment is made by its first run."""
    import mlflow  # noqa: F401


def log(name: str, run: TrackedRun) -> str:
    """Log to the experiment; return the store and the run's id."""
    import mlflow
    from mlflow.entities import Metric, Param

    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name(name)
    experiment_id = client.create_experiment(name) if experiment is None else experiment.experiment_id
    earlier: list[Any] = []
    if run.series:
        earlier = client.search_runs([experiment_id], f"tags.`{SERIES}` = '{run.series}'", max_results=1)
    if earlier:
        run_id = earlier[0].info.run_id
    else:
        tags = {"snellen.benchmark": run.benchmark, **({SERIES: run.series} if run.series else {})}
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
