"""Runs in trackers, read back from the trackers' own stores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snellen
from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import MissingExtraError, UsageError
from snellen.models.base import Model
from snellen.redaction import register
from snellen.runs import trackers
from snellen.runs.trackers import log_run, parse_targets
from snellen.runs.trackers.content import clean_name, tracked_run, values_of
from snellen.scoring import accuracy, short
from snellen.types import Metric, Prompt, Response, Sample, Text
from tracker_records import (
    TrackerRecord,
    mlflow_records,
    tensorboard_records,
    trackio_records,
    wandb_records,
)

KEY = "sk-proj-0123456789abcdefABCDEF0123456789"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which every tracker stores its runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staged"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    if "trackio" in sys.modules:  # it reads the variable once
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("trackio") and hasattr(module, "TRACKIO_DIR"):
                monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")
    return tmp_path


def records(kind: str, folder: Path) -> list[TrackerRecord]:
    if kind == "wandb":
        return wandb_records(folder)
    if kind == "trackio":
        return trackio_records(folder / "trackio", "eyes")
    if kind == "mlflow":
        return mlflow_records(f"sqlite:///{folder / 'mlflow.db'}", "eyes")
    return tensorboard_records(folder / "eyes")


class Parrot(Model):
    """Knows half of the answers."""

    name = "parrot"

    def identity(self) -> dict[str, str]:
        return {"kind": "parrot", "note": KEY}

    async def answer(self, prompt: Prompt) -> Response:
        (text,) = (part.text for part in prompt.parts if isinstance(part, Text))
        return Response("GOLD-7731" if text.endswith("even") else "nothing")


def secret_samples(data: Data) -> Iterator[Sample]:
    for number in range(8):
        text = f"SECRET-QUESTION-{number} {'even' if number % 2 == 0 else 'odd'}"
        yield Sample(f"s{number}", Prompt((Text(text),)), "GOLD-7731", "short", meta={"note": "SECRET-NOTE"})


SECRETS = Benchmark(
    name="secrets",
    version="1",
    samples=secret_samples,
    score={"strict": short},
    summarize=accuracy(),
    profiles={"strict": "the accepted answer"},
    restricted=True,
)


STORES = [kind for kind, tracker in trackers.TRACKERS.items() if tracker.needs_name]
"""Trackers that keep runs; OpenTelemetry is tested by itself."""


@pytest.mark.parametrize("kind", STORES)
def test_a_run_is_read_back_with_intervals_settings_and_folder_and_without_gold_or_keys(kind, here, monkeypatch):
    pytest.importorskip(trackers.TRACKERS[kind].package)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    register(KEY)
    run = snellen.evaluate(SECRETS, Parrot(), out=here / "run")
    (result,) = log_run(parse_targets([f"{kind}:eyes"]), tracked_run(run, run.figures()))
    assert not result.fault and result.place, result
    (record,) = records(kind, here)
    metric = run.metric("accuracy")
    low, high = metric.ci95
    expected = {"": 0.5, "_ci95_low": low, "_ci95_high": high, "_n": 8, "_coverage": 1.0}
    for suffix, value in expected.items():
        assert record.last(f"secrets/accuracy{suffix}") == pytest.approx(value, abs=1e-6), suffix
    assert record.last("secrets/samples/answered") == 8
    assert record.settings["run_folder"] == str(here / "run")
    assert (record.settings["benchmark"], record.settings["model_name"]) == ("secrets", "parrot")
    assert record.settings["fingerprint"] == run.meta.fingerprint and record.settings["state"] == "complete"
    stored = [path for path in here.rglob("*") if path.is_file() and "run" not in path.relative_to(here).parts[:1]]
    assert stored
    for path in stored:
        for secret in (b"GOLD-7731", b"SECRET", KEY.encode()):
            assert secret not in path.read_bytes(), (path, secret)


@pytest.mark.parametrize("kind", STORES)
def test_the_steps_of_a_series_share_one_run_of_the_tracker(kind, here):
    pytest.importorskip(trackers.TRACKERS[kind].package)
    run = snellen.evaluate(SECRETS, Parrot(), out=here / "run")
    for step in (20, 10, 300):  # a checkpoint may be late
        tracked = tracked_run(run, run.figures(), step=step, series="0123456789abcdef", name="my training")
        (result,) = log_run(parse_targets([f"{kind}:eyes"]), tracked)
        assert not result.fault, result
    steps = [step for record in records(kind, here) for step in record.values["secrets/accuracy"]]
    assert sorted(steps) == [10, 20, 300]
    if kind != "wandb":  # offline, W&B keeps a folder each time, and joins them by their id when they are sent
        assert len(records(kind, here)) == 1


def test_a_fault_of_a_tracker_is_returned_and_the_others_are_logged(here, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = snellen.evaluate(SECRETS, Parrot(), out=here / "run")
    targets = parse_targets(["mlflow:eyes", "tensorboard:eyes"])
    lost, logged = log_run(targets, tracked_run(run, run.figures()))
    assert "127.0.0.1" in lost.fault and lost.line.startswith("warning: not logged to mlflow:eyes: ")
    assert not logged.fault and len(records("tensorboard", here)) == 1


@pytest.mark.parametrize("kind", trackers.TRACKERS)
def test_a_missing_package_is_named_with_its_extra(kind, monkeypatch):
    real = trackers.find_spec
    package = trackers.TRACKERS[kind].package
    monkeypatch.setattr(trackers, "find_spec", lambda name: None if name == package else real(name))
    with pytest.raises(MissingExtraError, match=f"needs {package}") as missing:
        parse_targets([f"{kind}:eyes"])
    assert f"[{kind}]" in missing.value.hint


@pytest.mark.parametrize("text", ["", "eyes", "neptune:eyes", "wandb", "wandb:", "mlflow: ", ":eyes", "MLFLOW"])
def test_a_target_that_is_none_is_refused_with_all_forms(text):
    with pytest.raises(UsageError) as refused:
        parse_targets([text])
    assert "wandb:PROJECT" in refused.value.hint or "Write --log" in refused.value.hint


def test_wandb_without_a_login_is_refused_before_anything_is_asked(here, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("NETRC", str(here / "none"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(UsageError, match="no login") as refused:
        parse_targets(["wandb:eyes"])
    assert "WANDB_MODE=offline" in refused.value.hint


def test_names_of_metrics_are_ones_that_every_tracker_takes():
    awkward = {
        "a(b)/c": "a_b_/c",
        "x//y/": "x/y",
        "../up": "_/up",
        "µ %": "_ _",
        "plain/accuracy-1.5": "plain/accuracy-1.5",
        "pass@4": "pass_4",
        "pass^4": "pass_hat_4",
    }
    assert {name: clean_name(name) for name in awkward} == awkward
    rows: list[Any] = [
        Metric("accuracy", None, 0),
        Metric("accuracy/a(b", 0.5, 4, (0.1, 0.9)),
        Metric("drop/x", 1.0, 3),
    ]
    values = values_of("b", {"strict": rows})
    assert values["b/accuracy_n"] == 0 and "b/accuracy" not in values
    assert values["b/accuracy/a_b_ci95_low"] == 0.1 and not any("drop" in name for name in values)
    both = values_of("b", {"strict": rows, "official": rows})
    assert {"b/strict/accuracy/a_b", "b/official/accuracy/a_b"} <= set(both)
