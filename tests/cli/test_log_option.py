"""`--log` of the commands: what is printed, what is logged, and that a tracker never changes a run's end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runs.test_telemetry import Collector
from tracker_records import mlflow_records, tensorboard_records


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")


def test_run_logs_and_prints_one_json_object(snellen, tmp_path):
    done = snellen(
        "run", "lights", "-m", "pixels", "--out", "r", "--json", "--log", "tensorboard:tb", "--log", "mlflow:eyes"
    )
    assert done.status == 0, done.err
    (run,) = json.loads(done.out)["runs"]
    metric = run["profiles"][0]["metrics"][0]
    (events,), (stored,) = (
        tensorboard_records(tmp_path / "tb"),
        mlflow_records(f"sqlite:///{tmp_path}/mlflow.db", "eyes"),
    )
    for record in (events, stored):
        assert record.last(f"lights/{metric['name']}") == pytest.approx(metric["value"], abs=1e-6)
        assert record.last(f"lights/{metric['name']}_ci95_low") == pytest.approx(metric["ci95"][0], abs=1e-6)
        assert record.settings["fingerprint"] == run["fingerprint"]
    assert "logged to tensorboard:tb: tb/lights-pixels" in done.err and "logged to mlflow:eyes: sqlite" in done.err


@pytest.mark.parametrize("by_variable", [False, True])
def test_run_sends_spans_while_it_goes_on_and_metrics_at_its_end(snellen, monkeypatch, by_variable):
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.origin)
        if by_variable:
            monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        done = snellen(
            "run", "lights", "-m", "pixels", "--out", "r", "--json", *([] if by_variable else ["--log", "otel"])
        )
    assert done.status == 0, done.err
    (run,) = json.loads(done.out)["runs"]
    spans = [span.name for span in collector.spans]
    assert spans.count("chat pixels") == run["totals"]["ok"] > 0 and spans.count("evaluate lights") == 1
    scored = [event for event in collector.events if any(a.key == "snellen.sample_id" for a in event.attributes)]
    assert len(scored) == run["totals"]["ok"] and all(event.span_id for event in scored)
    assert by_variable or (len(collector.events) > len(scored) and "logged to otel" in done.err)


def test_a_dead_tracker_is_a_warning_and_the_status_is_the_runs_own(snellen, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    plain = snellen("run", "lights", "-m", "pixels", "--out", "a", "--json", "--quiet")
    logged = snellen("run", "lights", "-m", "pixels", "--out", "b", "--json", "--quiet", "--log", "mlflow:eyes")
    assert logged.status == plain.status == 0
    assert "warning: not logged to mlflow:eyes" in logged.err and "Traceback" not in logged.err
    assert json.loads(logged.out)["runs"][0]["profiles"] == json.loads(plain.out)["runs"][0]["profiles"]
    assert snellen("score", "b", "--log", "mlflow:eyes").status == 0


def test_a_wrong_target_is_refused_before_a_folder_is_made(snellen, tmp_path):
    refused = snellen("run", "lights", "-m", "pixels", "--out", "r", "--log", "tensorbord:tb")
    assert refused.status == 2 and "--log 'tensorbord:tb' names no tracker" in refused.err
    assert "tensorboard:DIR" in refused.err and not (tmp_path / "r").exists()


def test_score_logs_other_profiles_and_files_of_answers(snellen, tmp_path):
    assert snellen("run", "lights", "-m", "pixels", "--out", "r", "--quiet").status == 0
    assert snellen("score", "r", "--profile", "all", "--log", "tensorboard:runs").status == 0
    (run,) = tensorboard_records(tmp_path / "runs")
    assert run.settings["run_folder"] == str(tmp_path / "r") and any(name.endswith("_ci95_low") for name in run.values)
    rows = [json.loads(line) for line in (tmp_path / "r" / "results.jsonl").read_text().splitlines()]
    answers = tmp_path / "theirs.jsonl"
    answers.write_text("".join(json.dumps({"id": row["sample_id"], "reply": "red"}) + "\n" for row in rows))
    scored = snellen("score", "theirs.jsonl", "--benchmark", "lights", "--log", "tensorboard:files")
    assert scored.status == 0, scored.err
    (record,) = tensorboard_records(tmp_path / "files")
    assert record.settings["answers"] == "theirs.jsonl" and "run_folder" not in record.settings
