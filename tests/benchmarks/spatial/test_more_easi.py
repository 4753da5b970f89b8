"""EASI's further benchmarks with `snellen easi`: by name only, beside those of the payload, and never in a submission."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spatial import more_drawn, official_drawn
from benchmarks.spatial.test_more_runs import Looking, seer
from snellen.easi.external import HarnessSettings
from snellen.easi.external.run_all import plan
from snellen.easi.names import chosen
from snellen.easi.result import locate_results
from snellen.easi.status import whole_runs
from snellen.errors import UsageError

__all__ = ["seer"]


def test_the_default_stays_the_eight_and_every_spelling_names_a_further_one() -> None:
    assert len(chosen(None)) == 8 and len(chosen(None, extra=True)) == 12
    assert chosen("SPBench_SI, vsi-super-recall,blink,ReVSI") == ("blink", "spbench/si", "vsi-super-recall", "revsi")
    with pytest.raises(UsageError, match="did you mean") as refused:
        chosen("erqaa")
    assert "without a place in the payload: stare" in refused.value.hint


def test_another_harness_is_not_started_for_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="erqa: another harness"):
        plan("lmms-eval", HarnessSettings(model="m", out=tmp_path), ("blink", "erqa"))


def test_further_benchmarks_run_by_name_and_stay_out_of_a_submission(tmp_path: Path, seer: Looking) -> None:
    data = tmp_path / "data"
    shutil.copytree(more_drawn.draw("erqa", tmp_path / "drawn", kit=False).path, data / "erqa")
    shutil.copytree(more_drawn.draw("vsi-super-count", tmp_path / "drawn", kit=True).path, data / "VSI-SUPER-Count")
    official_drawn.draw("embspatial", data)
    words = ["easi", "-m", "api:seer", "--base-url", seer.url, "--dataset-dir", data, "--output-dir", tmp_path / "out"]
    words += ["--benchmarks", "erqa,embspatial,vsi_super_count", "-o", "sample-frames=4", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "snellen", *map(str, words)],
        env={**os.environ, "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    board = json.loads(done.stdout)["benchmarks"]
    assert {name: row["state"] for name, row in board.items()} == dict.fromkeys(
        ("embspatial", "erqa", "vsi-super-count"), "complete"
    )
    assert len(seer.contents) == 3 + 4 + 2
    folder = tmp_path / "out" / "seer"
    assert [path.name for path in whole_runs(folder)] == ["embspatial"]
    assert list(locate_results([folder])) == ["embspatial"]
