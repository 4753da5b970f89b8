"""The real lmms-eval, where SNELLEN_TEST_LMMS_PYTHON names an interpreter that has it: driven, and its files read.

Its model is its own client of OpenAI-compatible servers, asking a stub on loopback; its data are small drawings that stand
where its tasks look for the authors' repositories, in folders of the same names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.spatial.official_drawn import draw
from servers import fast
from snellen.backends import Settings, run_backend
from snellen.evaluation import load_run

PYTHON = os.environ.get("SNELLEN_TEST_LMMS_PYTHON", "")
REPLIES = ("A", "B.", "(C)", "I would say D", "The answer is B")
PICTURES = """
import sys
from datasets import Dataset, Image
for path in sys.argv[1:]:
    rows = Dataset.from_parquet(path)
    kinds = rows.features.copy()
    kinds.update({name: Image() for name in kinds if isinstance(kinds[name], dict) and set(kinds[name]) == {"bytes", "path"}})
    rows.cast(kinds).to_parquet(path)
"""
"""The hub's tables say which columns are pictures; the drawn ones are told so by the harness's own library."""

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(
        not PYTHON,
        reason="lmms-eval is not tried: SNELLEN_TEST_LMMS_PYTHON names no interpreter with it (docs/backends.md says how)",
    ),
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working folder in which the authors' repositories lie, drawn small."""
    place = tmp_path / "FlagEval" / "EmbSpatial-Bench"
    shutil.copytree(draw("embspatial", tmp_path / "drawn", each=4), place)
    blink = tmp_path / "BLINK-Benchmark" / "BLINK"
    shutil.copytree(draw("blink", tmp_path / "drawn", each=2), blink)
    configs = sorted(folder.name for folder in blink.iterdir() if folder.is_dir())
    card = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: val\n    path: {name}/val-*\n" for name in configs
    )
    (blink / "README.md").write_text(f"---\nconfigs:\n{card}---\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("OPENAI_API_KEY", "stub-key-0001")
    tables = [str(path) for folder in (place, blink) for path in folder.rglob("*.parquet")]
    subprocess.run([PYTHON, "-c", PICTURES, *tables], check=True, capture_output=True, timeout=300)
    return tmp_path


def settings(home: Path, url: str, *, accelerate: bool) -> Settings:
    args = f"model_version=stub-vlm,base_url={url}"
    return Settings(
        model="openai", model_args=args, python=Path(PYTHON), out=home / "out", accelerate=accelerate, time_limit_s=300
    )


@pytest.mark.parametrize("accelerate", [False, True], ids=["python", "accelerate"])
def test_its_own_figure_and_ours_are_one(home, accelerate):
    with fast.running(texts=REPLIES) as server:
        given = settings(home, server.url, accelerate=accelerate)
        outcome = run_backend("lmms-eval", given, ["embspatial"])["embspatial"]
        again = run_backend("lmms-eval", given, ["embspatial"])["embspatial"]
    assert outcome.errors == ()
    assert (outcome.state, outcome.rows, outcome.expected, outcome.exit_status) == ("complete", 12, 12, 0)
    assert outcome.theirs is not None and outcome.difference == 0.0
    assert outcome.differences == ()
    assert len(set(load_run(outcome.folder).records()["text"].to_pylist())) > 1
    assert again.reused and again.theirs == outcome.theirs


def test_fourteen_subtasks_are_one_benchmark_and_a_rule_that_changed_is_shown_by_sample(home):
    with fast.running(texts=REPLIES) as server:
        outcome = run_backend("lmms-eval", settings(home, server.url, accelerate=False), ["blink"])["blink"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("complete", 28, 28)
    run = load_run(outcome.folder)
    right = {row["sample_id"] for row in run.scores("lmms-eval").to_pylist() if row["value"] == 1.0}
    explained = [line for line in outcome.differences if line.startswith("  val_")]
    # lmms-eval has since learnt to read "The answer is B"; our profile is of the version that EASI's figures were made with.
    assert outcome.theirs is not None
    assert round(outcome.theirs * 28 / 100) == len(right) + len(explained)
    assert all("The answer is B" in line for line in explained)
    assert bool(explained) == (outcome.difference != 0.0)


def test_a_model_that_cannot_be_reached_is_no_result(home):
    given = settings(home, "http://127.0.0.1:9/v1", accelerate=False)
    given = structs.replace(given, model_args=f"{given.model_args},max_retries=1,timeout=2")
    outcome = run_backend("lmms-eval", given, ["embspatial"])["embspatial"]
    # It writes the failure where the reply should be, scores that, and ends with status 0.
    assert outcome.exit_status == 0
    assert (outcome.state, outcome.folder, outcome.theirs) == ("failed", None, None)
    assert any(line.startswith("none of 12 requests was answered") for line in outcome.errors)
