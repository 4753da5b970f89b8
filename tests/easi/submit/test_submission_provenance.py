"""A submission is what the answers say: no clock of a file decides, the zip bears the scores out, each says how sure it is."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import official_drawn as drawn
from easi.easi_stubs import Speaker
from snellen import evaluate
from snellen.cli import main

NAMES = ("mmsi-bench", "embspatial", "vsi-bench")


def wavering() -> Speaker:
    """Says A or B by the length of the question."""
    return Speaker(lambda question: "AB"[len(question) % 2], name="local:org/wavering")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in NAMES:
        evaluate(name, wavering(), data=drawn.draw(name, tmp_path / "data", each=2), out=tmp_path / "runs" / name)
    return tmp_path / "runs"


def dry(capsys: pytest.CaptureFixture[str], folder: Path, out: Path) -> tuple[dict[str, Any], Path]:
    """The payload, and the folder of the submission."""
    capsys.readouterr()
    words = ["--model-name", "org/m", "--model-type", "rl", "--precision", "int8", "--dry-run", "--json"]
    assert main(["submit", "easi", str(folder), *words, "--out", str(out), "--allow-incomplete"]) == 0
    said = json.loads(capsys.readouterr().out)
    return said["payload"], Path(said["folder"])


def test_when_files_were_touched_or_copied_changes_no_score_and_no_byte(runs: Path, tmp_path: Path, capsys):
    payload, folder = dry(capsys, runs, tmp_path / "a")
    copy = tmp_path / "copy"
    shutil.copytree(runs, copy)
    for turn, path in enumerate(sorted(copy.rglob("*"), reverse=True)):
        os.utime(path, (1_000_000_000 + turn, 1_000_000_000 + turn))
    other, again = dry(capsys, copy, tmp_path / "b")
    assert other == payload
    assert (again / "easi_results.zip").read_bytes() == (folder / "easi_results.zip").read_bytes()


def test_the_rows_of_the_zip_give_the_scores_of_the_payload_and_no_other_benchmarks(runs: Path, tmp_path: Path, capsys):
    payload, folder = dry(capsys, runs, tmp_path / "a")
    with zipfile.ZipFile(io.BytesIO((folder / "easi_results.zip").read_bytes())) as archive:
        rows = {
            name.rpartition("/")[2]: [json.loads(line) for line in archive.read(name).splitlines()]
            for name in archive.namelist()
            if name.endswith(".jsonl")
        }
    assert sorted(rows) == ["m_embspatial_samples.jsonl", "m_mmsi_bench_samples.jsonl", "m_vsi_bench_samples.jsonl"]
    for name in ("embspatial", "mmsi_bench"):
        hits = [row["hit"] for row in rows[f"m_{name}_samples.jsonl"]]
        assert 0 < sum(hits) < len(hits)
        assert payload["scores"][name] == round(100 * sum(hits) / len(hits), 4)
    assert {name for name, value in payload["scores"].items() if value is not None} == {
        "embspatial",
        "mmsi_bench",
        "vsi_bench",
    }


def test_each_score_has_its_interval_count_and_making_beside_it(runs: Path, tmp_path: Path, capsys):
    payload, folder = dry(capsys, runs, tmp_path / "a")
    found = json.loads((folder / "easi_provenance.json").read_text())
    assert found["profile"] == "easi"
    for name, value in payload["scores"].items():
        if value is None:
            continue
        one = found["benchmarks"][name]
        low, high = one["ci95"]
        assert 0 <= low <= value / 100 <= high <= 1 and one["n"] > 0 and one["coverage"] < 1
        (source,) = one["sources"]
        assert source["fingerprint"] and source["data"] and source["prompts"] and source["generation"] is not None
        assert source["frames"] == (32 if name == "vsi_bench" else None)


def test_frames_that_were_taken_by_the_second_are_named_as_they_were_asked_for(tmp_path: Path, capsys):
    data = drawn.draw("vsi-bench", tmp_path / "data")
    evaluate("vsi-bench", wavering(), data=data, out=tmp_path / "run", benchmark_options={"sample-frames": "2fps"})
    _, folder = dry(capsys, tmp_path / "run", tmp_path / "a")
    (source,) = json.loads((folder / "easi_provenance.json").read_text())["benchmarks"]["vsi_bench"]["sources"]
    assert source["frames"] == "2fps"
