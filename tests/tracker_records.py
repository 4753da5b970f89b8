"""Trackers read back from where they store runs: names to values, and the settings, as a user would see them."""

from __future__ import annotations

import json
import sqlite3
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple


class TrackerRecord(NamedTuple):
    """One run of a tracker: its values by name and step, and its settings."""

    values: dict[str, dict[int, float]]
    settings: dict[str, Any]

    def last(self, name: str) -> float:
        return self.values[name][max(self.values[name])]


def wandb_records(folder: Path) -> list[TrackerRecord]:
    """Runs that W&B wrote offline. Its own process writes the files, and may still do so for a moment."""
    deadline = time.monotonic() + 600
    while True:
        records = [_wandb_record(path) for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))]
        if all(record is not None for record in records) or time.monotonic() > deadline:
            return [record for record in records if record is not None]
        time.sleep(0.2)


def _wandb_record(path: Path) -> TrackerRecord | None:
    """A run in LevelDB's log format, 32 KiB blocks of records with a head of 7 bytes; None without its last record."""
    from wandb.proto import wandb_internal_pb2

    data, at, part, ended = path.read_bytes(), 7, b"", False
    values: dict[str, dict[int, float]] = {}
    settings: dict[str, Any] = {}
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind not in (1, 4):
            continue
        record = wandb_internal_pb2.Record()
        record.ParseFromString(part)
        part = b""
        if record.WhichOneof("record_type") == "run":
            settings = {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif record.WhichOneof("record_type") == "history":
            row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            step = int(row.get("checkpoint_step", 0))
            for name, value in row.items():
                if isinstance(value, int | float):
                    values.setdefault(name, {})[step] = float(value)
        ended = ended or record.WhichOneof("record_type") == "exit"
    return TrackerRecord(values, settings) if ended else None


def trackio_records(folder: Path, project: str) -> list[TrackerRecord]:
    """Runs of a Trackio project, from its SQLite file."""
    with sqlite3.connect(folder / f"{project}.db") as store:
        configs = store.execute("select run_id, config from configs").fetchall()
        rows = store.execute("select run_id, step, metrics from metrics order by id").fetchall()
    records = {run: TrackerRecord({}, json.loads(config)) for run, config in configs}
    for run, step, metrics in rows:
        for name, value in json.loads(metrics).items():
            records[run].values.setdefault(name, {})[step] = value
    return list(records.values())


def mlflow_records(uri: str, experiment: str) -> list[TrackerRecord]:
    """Runs of an MLflow experiment, by MLflow's own client."""
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=uri)
    identifier = client.get_experiment_by_name(experiment).experiment_id
    records = []
    for run in client.search_runs([identifier]):
        histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        values = {name: {metric.step: metric.value for metric in rows} for name, rows in histories.items()}
        assert run.info.status == "FINISHED"
        records.append(TrackerRecord(values, dict(run.data.params)))
    return records


def tensorboard_records(folder: Path) -> list[TrackerRecord]:
    """Runs in a folder of event files, by TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    records = []
    for run in sorted(path for path in folder.iterdir() if path.is_dir()):
        events = EventAccumulator(str(run))
        events.Reload()
        tags = events.Tags()
        values = {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in tags["scalars"]}
        (text,) = (events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in tags["tensors"])
        records.append(TrackerRecord(values, json.loads(text)))
    return records
