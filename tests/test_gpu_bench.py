"""bench/gpu.py takes all its steps on the processor with small models, keeps what it has, and says what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchvision")
pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[1] / "bench" / "gpu.py"


def measured(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--size", "proof", "--out", str(folder), *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def agreements(file: Path) -> dict[str, list[Any]]:
    """What each way of each case agrees with."""
    cases = json.loads(file.read_text())["cases"]
    return {case: [row["agreement"] for row in made["rows"] if "agreement" in row] for case, made in cases.items()}


def test_the_small_proof_agrees_with_torch_by_hand_and_a_second_call_measures_only_what_is_missing(tmp_path: Path):
    done = measured(tmp_path, "--sections", "local", "search")
    assert done.returncode == 0, done.stderr
    assert "INCOMPLETE" not in done.stdout
    replies = agreements(tmp_path / "local.json")
    assert replies["batches of 1"] == 2 * [{"as the peer": "3 of 3", "as one by one": "3 of 3"}]
    assert replies["batches of 2"] == 2 * [{"as the peer": "6 of 6", "as one by one": "3 of 3"}]
    for ours, theirs in agreements(tmp_path / "search.json").values():
        assert ours == pytest.approx(theirs, abs=1e-6)

    file = tmp_path / "search.json"
    kept = json.loads(file.read_text())
    del kept["cases"]["k-NN"]
    kept["cases"]["retrieval"]["rows"][0]["seconds"] = 4321.0
    file.write_text(json.dumps(kept | {"complete": False}))
    done = measured(tmp_path, "--sections", "search")
    assert done.returncode == 0, done.stderr
    assert "4321.000 s" in done.stdout and "search: k-NN" in done.stdout
    assert json.loads(file.read_text())["complete"]


def test_a_section_that_takes_too_long_is_stopped_and_named(tmp_path: Path):
    done = measured(tmp_path, "--sections", "probes", "--minutes", "0.01")
    assert done.returncode == 1
    assert "probes: INCOMPLETE: it was stopped after 1 s" in done.stdout
    assert not json.loads((tmp_path / "probes.json").read_text())["complete"]
