"""`snellen easi --backend lmms-eval|vlmevalkit`: the same command around a peer's own harness, here a stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from easi.external import drawn_answers as drawn
from snellen.cli import main


def lmms(folder: Path, *words: object) -> int:
    own = ("--model", "qwen3_vl", "--model-args", "pretrained=org/model", "--backend-python", folder / "bin" / "python")
    given = [
        "easi",
        "--backend",
        "lmms-eval",
        *own,
        "--no-accelerate",
        "--output-dir",
        folder / "out",
        "--no-rich",
        *words,
    ]
    return main([str(word) for word in given])


@pytest.fixture
def said(capsys) -> Any:
    def of_last() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return of_last


def test_a_harness_is_driven_and_its_answers_are_shown_as_ours_are(tmp_path: Path, monkeypatch, said, capsys):
    calls = drawn.environment(tmp_path, monkeypatch, {"embspatial": drawn.embspatial()})
    assert lmms(tmp_path, "--benchmarks", "embspatial", "--json", "--", "--gen_kwargs", "temperature=0") == 0
    told = said()
    row = told["benchmarks"]["embspatial"]
    assert (row["state"], row["answered"], row["questions"]) == ("complete", 4, 4)
    assert row["metrics"][0]["name"] == "overall" and row["metrics"][0]["value"] == 0.5
    assert any("the harness says 50.0000, we 50.0000 (+0.0000)" in note for note in row["notes"])
    assert drawn.called(calls)[0]["argv"][-2:] == ["--gen_kwargs", "temperature=0"]
    assert lmms(tmp_path, "--benchmarks", "embspatial", "--json", "--", "--gen_kwargs", "temperature=0") == 0
    assert len(drawn.called(calls)) == 1, "what is complete is not asked again"
    capsys.readouterr()
    assert lmms(tmp_path, "--benchmarks", "embspatial", "--", "--gen_kwargs", "temperature=0") == 0
    assert "the questions were asked in the words of lmms-eval." in capsys.readouterr().out


def test_a_task_that_fails_leaves_the_others_and_a_command_that_goes_on(tmp_path: Path, monkeypatch, said):
    crash = {"say": ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB"], "status": 1}
    drawn.environment(tmp_path, monkeypatch, {"embspatial": drawn.embspatial(), "mmsi_bench": crash})
    assert lmms(tmp_path, "--benchmarks", "mmsi_bench,embspatial", "--json", "--", "--limit 8") == 1
    told = said()
    states = {name: row["state"] for name, row in told["benchmarks"].items()}
    assert states == {"mmsi-bench": "failed", "embspatial": "complete"}
    assert "out of memory" in told["benchmarks"]["mmsi-bench"]["error"]["message"]
    assert told["go_on"].endswith("-- '--limit 8'") and "--no-accelerate" in told["go_on"]


def test_a_harness_that_is_not_installed_is_said_once_and_nothing_is_started(tmp_path: Path, monkeypatch, capsys):
    drawn.environment(tmp_path, monkeypatch, {})
    words = [
        "easi",
        "--backend",
        "lmms-eval",
        "--model",
        "m",
        "--model-args",
        "a=b",
        "--output-dir",
        str(tmp_path / "out"),
    ]
    assert main([*words, "--backend-python", sys.executable]) == 3
    said = capsys.readouterr().err
    assert said.count("lmms-eval is not installed for") == 1 and "pip install lmms-eval" in said
    assert not list((tmp_path / "out").rglob("run_meta.json"))


def test_options_of_one_back_end_are_refused_by_the_other(tmp_path: Path, monkeypatch, capsys):
    drawn.environment(tmp_path, monkeypatch, {})
    assert lmms(tmp_path, "--limit", 3, "--dtype", "float32") == 2
    assert "--limit, --dtype: for Snellen itself, and without effect here" in capsys.readouterr().err
    assert main(["easi", "--model", "embedded", "--model-args", "a=b", "--no-accelerate"]) == 2
    assert "--model-args, --accelerate: for another harness" in capsys.readouterr().err
    for words in (("--effort", "high"), ("--stream",), ("--detail", "low"), ("--judge-key-env", "K")):
        assert lmms(tmp_path, *words) == 2
        assert f"{words[0]}: for Snellen itself, and without effect here" in capsys.readouterr().err
    kit = ("easi", "--backend", "vlmevalkit", "--model", "Qwen3-VL-8B-Instruct", "--dry-run")
    for more in (("--model-args", "a=b"), ("--no-accelerate",)):
        assert main([*kit, *more]) == 2
        assert "for another back end, and without effect here" in capsys.readouterr().err
    assert main(["easi", "--model", "embedded", "--", "--limit", "8"]) == 2
    assert "behind --" in capsys.readouterr().err


def test_vlmevalkit_asks_all_in_one_command(tmp_path: Path, monkeypatch, said):
    plan = {"MMSIBench_wo_circular": drawn.kit_rows()}
    calls = drawn.environment(tmp_path, monkeypatch, plan)
    drawn.kit_table(tmp_path, "MMSIBench_wo_circular", len(drawn.MMSI))
    given = ["easi", "--backend", "vlmevalkit", "--model", "Qwen3-VL", "--backend-home", tmp_path / "VLMEvalKit"]
    more = ["--dataset-dir", tmp_path / "LMUData", "--output-dir", tmp_path / "out", "--no-rich", "--json"]
    status = main([str(word) for word in [*given, *more, "--benchmarks", "mmsi_bench,embspatial"]])
    told = said()
    assert len(drawn.called(calls)) == 1
    assert told["benchmarks"]["mmsi-bench"]["metrics"][0]["value"] is not None
    assert told["benchmarks"]["embspatial"]["state"] == "failed" and status == 1
