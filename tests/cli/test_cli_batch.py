"""snellen run --batch, snellen batch: from the command line, against a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from printed_schema import require_schema
from servers.batches import KEY, MODEL, BatchServer, Plan

SNELLEN = [sys.executable, "-m", "snellen"]


def environment() -> dict[str, str]:
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    return {**os.environ, **dict.fromkeys(names, KEY), "SNELLEN_BATCH_POLL": "0.1"}


def snellen(*words: str) -> subprocess.CompletedProcess[str]:
    command = [*SNELLEN, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(), check=False)


def run_words(server: BatchServer, service: str, out: Path) -> list[str]:
    kind = "api" if service == "openai" else service
    words = ["run", "chart/digits", "-m", f"{kind}:{MODEL}", "--base-url", server.address(service)]
    return [*words, "--limit", "12", "--batch", "--out", str(out)]


@pytest.mark.parametrize("service", ["openai", "anthropic", "gemini"])
def test_a_run_with_images_is_asked_by_batch_of_each_service(tmp_path: Path, service: str) -> None:
    with BatchServer(Plan(seconds=0.2, answer=lambda question: "7")) as server:
        done = snellen(*run_words(server, service, tmp_path / "run"))
        assert done.returncode == 0, done.stderr[-2000:]
        assert server.faults == []
        (batch,) = server.batches.values()
        assert len(batch.rows) == 12
        assert b"base64" in json.dumps(batch.rows[0]["body"]).encode() or "inlineData" in json.dumps(
            batch.rows[0]["body"]
        )
    meta = json.loads((tmp_path / "run/run_meta.json").read_text())
    assert meta["environment"]["batches"] == {"service": service, "batches": 1, "answers": 12}
    listed = snellen("batch", "list", str(tmp_path / "run"), "--json")
    require_schema("batch list", listed.stdout)
    (row,) = json.loads(listed.stdout)["batches"]
    assert (row["state"], row["rows"], row["answered"], row["open"]) == ("taken", 12, 12, False)
    report = snellen("report", str(tmp_path / "run"), "--out", str(tmp_path / "report.html"))
    assert report.returncode == 0, report.stderr
    assert "12 answers in 1 batch" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("service", ["openai", "gemini"])
def test_batches_are_listed_and_cancelled_by_their_run(tmp_path: Path, service: str) -> None:
    with BatchServer(Plan(seconds=3600.0, answer=lambda question: "7")) as server:
        words = [*SNELLEN, *run_words(server, service, tmp_path / "run")]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment())
        end = time.monotonic() + 600
        while server.calls["status"] < 2 and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 130, said
        assert "snellen batch cancel" in said
        listed = snellen("batch", "list", str(tmp_path / "run"))
        assert listed.returncode == 0, listed.stderr
        assert next(iter(server.batches)) in listed.stdout
        without = snellen(*[word for word in run_words(server, service, tmp_path / "run") if word != "--batch"])
        assert without.returncode == 2
        assert "pay for them twice" in " ".join(without.stderr.split())
        cancelled = snellen("batch", "cancel", str(tmp_path / "run"), "--json")
        assert cancelled.returncode == 0, cancelled.stderr
        require_schema("batch cancel", cancelled.stdout)
        assert json.loads(cancelled.stdout)["batches"][0]["rows"] == 12
        assert server.calls["cancel"] == 1
        server.plan.seconds = 0.1
        done = snellen(*run_words(server, service, tmp_path / "run"))
        assert done.returncode == 0, done.stderr[-2000:]
        assert sum(server.paid.values()) == 12


def test_a_batch_that_the_service_lost_is_given_up_by_name(tmp_path: Path) -> None:
    with BatchServer(Plan(seconds=3600.0, answer=lambda question: "7")) as server:
        words = [*SNELLEN, *run_words(server, "openai", tmp_path / "run")]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment())
        end = time.monotonic() + 600
        while server.calls["status"] < 2 and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
        process.wait()
        server.batches.clear()
        server.plan.seconds = 0.0
        lost = snellen(*run_words(server, "openai", tmp_path / "run"))
        assert lost.returncode == 8
        assert "No batch found" in lost.stderr
        assert snellen("batch", "drop", str(tmp_path / "run"), "batch_9").returncode == 2
        dropped = snellen("batch", "drop", str(tmp_path / "run"), "batch_1", "--json")
        assert dropped.returncode == 0, dropped.stderr
        require_schema("batch drop", dropped.stdout)
        (batch,) = [batch for batch in json.loads(dropped.stdout)["batches"] if batch["id"] == "batch_1"]
        assert (batch["state"], batch["open"]) == ("dropped", False)
        done = snellen(*run_words(server, "openai", tmp_path / "run"))
        assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-m", "embedded"], "answers them later"),
        (["-m", "openrouter:x/y"], "OpenRouter has none"),
        (["-m", f"openai:{MODEL}", "--stream"], "--stream"),
    ],
)
def test_what_cannot_be_asked_by_batch_is_refused_with_the_reason(
    tmp_path: Path, words: list[str], reason: str
) -> None:
    done = snellen("run", "chart/digits", *words, "--limit", "2", "--batch", "--out", str(tmp_path / "run"))
    assert done.returncode == 2, done.stderr
    assert reason in " ".join(done.stderr.split())
    assert not (tmp_path / "run/results.jsonl").exists()
