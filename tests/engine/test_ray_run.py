"""One run on several hosts: nothing is lost and nothing comes twice, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from two_hosts import TwoHosts, end, family

from snellen.features import open_store

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")

RUN = (
    "run",
    "chart",
    "--model",
    "embedded",
    "-o",
    "questions=40",
    "--batch-size",
    "4",
    "--concurrency",
    "1",
    "--quiet",
)
PATIENCE_S = 240


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    made = TwoHosts()
    try:
        yield made
    finally:
        made.close()


def start(words: tuple[str | Path, ...], environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "snellen", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def finished(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        end(family(process.pid))
        raise
    assert process.returncode == status, (process.returncode, err[-3000:])
    return out, err


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    """Until it happened; a process that ends before that is a failure."""
    latest = time.monotonic() + PATIENCE_S
    while not happened():
        if process.poll() is not None or time.monotonic() > latest:
            end(family(process.pid))
            raise AssertionError(f"ended before it was killed: {process.communicate()}")
        time.sleep(0.01)


def answers(folder: Path) -> dict[str, tuple[str, str]]:
    """Sample to (status, text). Each sample is there once."""
    records = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    found = {one["sample_id"]: (one["status"], one["response"]["text"]) for one in records}
    assert len(found) == len(records)
    return found


def executor(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run_meta.json").read_bytes())["environment"]["executor"]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """The answers of one process."""
    folder = tmp_path_factory.mktemp("alone")
    finished(start((*RUN, "--out", folder)))
    found = answers(folder)
    assert {status for status, _ in found.values()} == {"ok"}
    return found


def test_a_host_that_is_lost_in_the_middle_of_a_run_costs_no_answer_and_doubles_none(tmp_path, hosts, undisturbed):
    other = hosts.other()
    words = (*RUN, "--ray", hosts.address, "--nproc", "2", "--out", tmp_path / "run", "--json")
    run = start(words, hosts.environment)
    wait_for(run, lambda: lines(tmp_path / "run" / "results.jsonl") > len(undisturbed) // 8)
    other.cut()
    out, _ = finished(run)
    assert answers(tmp_path / "run") == undisturbed
    told = executor(tmp_path / "run")
    print(told)
    assert (told["workers"], told["nodes"]) == (2, 2)
    assert sum(told["lost"].values()) >= 1
    assert told["asked_again"] >= 1
    json.loads(out)  # what Ray has to say about the loss does not stand between


def test_a_killed_driver_goes_on_with_another_number_of_workers(tmp_path, hosts, undisturbed):
    hosts.other()
    folder = tmp_path / "run"
    run = start((*RUN, "--ray", hosts.address, "--nproc", "2", "--out", folder), hosts.environment)
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    run.kill()
    run.communicate()
    before = lines(folder / "results.jsonl")
    assert 0 < before < len(undisturbed)
    finished(start((*RUN, "--ray", hosts.address, "--nproc", "1", "--out", folder), hosts.environment))
    assert answers(folder) == undisturbed
    assert executor(folder)["workers"] == 1


def test_an_extraction_that_loses_a_host_and_then_its_driver_gives_the_same_bytes(tmp_path, hosts):
    sys.path.insert(0, str(Path(__file__).parent.parent / "features"))
    from pictures import data_set

    files = data_set(tmp_path, {"train": [str(i % 7) for i in range(900)], "test": ["3", "0"] * 50})
    splits = [word for file in files for word in ("--split", file)]
    words = (
        "features",
        "extract",
        "--encoder",
        "embedded",
        "--images",
        tmp_path / "images",
        *splits,
        "--batch-size",
        "4",
    )
    finished(start((*words, "--out", tmp_path / "alone")))
    other = hosts.other()
    far = (*words, "--ray", hosts.address, "--out", tmp_path / "far")
    extraction = start((*far, "--nproc", "2"), hosts.environment)
    commits = tmp_path / "far" / "commits.jsonl"
    wait_for(extraction, lambda: lines(commits) >= 3)
    other.cut()
    after = lines(commits)
    wait_for(extraction, lambda: lines(commits) >= after + 3)
    extraction.kill()
    extraction.communicate()
    assert not json.loads((tmp_path / "far" / "store.json").read_bytes())["complete"]
    finished(start((*far, "--nproc", "1"), hosts.environment))
    for output in ("patch_mean", "aligned"):
        alone, scattered = (open_store(tmp_path / name, output) for name in ("alone", "far"))
        assert list(alone.ids) == list(scattered.ids)
        assert np.array_equal(alone.values, scattered.values)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_ray_of_our_own_ends_with_the_run_however_that_ends(tmp_path, undisturbed, number):
    folder = tmp_path / "run"
    run = start((*RUN, "--nproc", "2", "--out", folder))
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    started = family(run.pid)
    assert any("raylet" in one.name() for one in started)
    os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)  # the terminal tells them all
    finished(run, -signal.SIGKILL if number == signal.SIGKILL else 130)
    left = psutil.wait_procs(started, timeout=30)[1]
    # Where all was killed at once, two agents of Ray try for a minute to tell the others, who are no more.
    assert {one.name() for one in left} <= (
        {"ray::RuntimeEnvAgent", "ray::DashboardAgent"} if number == signal.SIGKILL else set()
    )
    left = psutil.wait_procs(left, timeout=150)[1]
    assert not left, [one.name() for one in left]
    if number == signal.SIGINT:
        finished(start((*RUN, "--out", folder)))  # without workers this time
        assert answers(folder) == undisturbed


def test_a_stranger_without_the_token_is_not_let_in(tmp_path, hosts):
    stranger = {name: value for name, value in hosts.environment.items() if not name.startswith("RAY_AUTH")}
    stranger["HOME"] = "/nonexistent"
    _, err = finished(start((*RUN, "--ray", hosts.address, "--out", tmp_path / "run"), stranger), 4)
    assert "does not let this process in" in err
    assert "RAY_AUTH_TOKEN" in err
    assert "Traceback" not in err
    assert not (tmp_path / "run" / "results.jsonl").exists()


def test_an_address_where_nobody_listens_is_told_at_once(tmp_path):
    _, err = finished(start((*RUN, "--ray", "127.0.0.1:1", "--out", tmp_path / "run")), 4)
    assert "there is no Ray at 127.0.0.1:1" in err
    assert "ray start --head" in err
