"""Runs over Ray as tests start them: as processes of their own, whose answers are compared with those of one process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from two_hosts import end, family

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
PATIENCE_S = 600
"""Seconds until a run counts as hung; on a machine with other load a lost host has taken 140."""


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


def alone(folder: Path) -> dict[str, tuple[str, str]]:
    """The answers of one process."""
    finished(start((*RUN, "--out", folder)))
    found = answers(folder)
    assert {status for status, _ in found.values()} == {"ok"}
    return found
