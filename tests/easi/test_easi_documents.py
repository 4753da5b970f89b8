"""What EASI's own documents say to type, and which files they promise after an evaluation."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from benchmarks.spatial import official_drawn as drawn
from snellen.cli import main
from snellen.cli.app import build
from snellen.cli.easi import hub_model
from snellen.easi.external import vlmevalkit
from snellen.easi.external.settings import HarnessSettings
from snellen.easi.submit.payload import metadata
from snellen.errors import UsageError

QUICK = ("--max-tokens", "4", "-o", "sample-frames=2", "--no-rich")
SECOND = {
    "modelName": "Qwen/Qwen3-VL-8B-Instruct",
    "modelType": "instruction",
    "precision": "bfloat16",
    "revision": "main",
    "weightType": "Original",
    "baseModel": "Qwen3",
    "remarks": "Submitted via script",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for name in ("embspatial", "blink"):
        drawn.draw(name, root)
    return root


def easi(data: Path, out: Path, *words: object, benchmarks: str = "embspatial,blink") -> int:
    command = ["easi", "--model", "embedded", "--dataset-dir", data, "--output-dir", out, "--benchmarks", benchmarks]
    return main([*map(str, [*command, *words]), *QUICK])


def test_after_every_evaluation_there_are_the_results_and_their_zip(data: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "eval_results"
    assert easi(data, out, benchmarks="embspatial") == 0
    for folder in (out / "embedded", out):
        payload = json.loads((folder / "easi_results.json").read_text())
        assert payload["modelName"] == "embedded" and payload["backend"] == "others" and payload["revision"] == "main"
        assert isinstance(payload["scores"]["embspatial"], float) and payload["scores"]["blink"] is None
        assert set(payload["subScores"]["embspatial"]) == {"ai2thor_accuracy", "mp3d_accuracy", "scannet_accuracy"}
        names = zipfile.ZipFile(folder / "easi_results.zip").namelist()
        assert any("embspatial" in name for name in names) and not any("blink" in name for name in names)
    assert "easi_results.json" in capsys.readouterr().out
    assert easi(data, out, benchmarks="blink") == 0  # the next evaluation adds its benchmark
    scores = json.loads((out / "easi_results.json").read_text())["scores"]
    assert None not in (scores["blink"], scores["embspatial"])


def test_a_smoke_test_has_its_answers_in_the_zip_and_no_score(data: Path, tmp_path: Path, capsys) -> None:
    assert easi(data, tmp_path, "--limit", "2", benchmarks="embspatial") == 9
    payload = json.loads((tmp_path / "easi_results.json").read_text())
    assert set(payload["scores"].values()) == {None} and "embspatial" not in payload["subScores"]
    archive = zipfile.ZipFile(tmp_path / "easi_results.zip")
    (rows,) = [name for name in archive.namelist() if name.endswith("_samples.jsonl")]
    assert len(archive.read(rows).splitlines()) == 2
    assert "null there, because incomplete: embspatial" in capsys.readouterr().out


def test_the_second_configuration_of_the_submission_document_is_accepted(data: Path, tmp_path: Path, capsys) -> None:
    assert metadata({}, json.dumps(SECOND)).base_model == "Qwen3"
    assert easi(data, tmp_path, "--submission-configs", json.dumps(SECOND), benchmarks="embspatial") == 0
    payload = json.loads((tmp_path / "easi_results.json").read_text())
    assert {name: payload[name] for name in SECOND} == SECOND
    with pytest.raises(UsageError, match="baseModel 'Qwen3' is not org/model"):
        metadata({}, json.dumps({**SECOND, "weightType": "Delta"}))


def test_configurations_without_a_submission_are_checked_and_need_not_be_whole(data, tmp_path, capsys):
    part = json.dumps({"precision": "bfloat16"})
    assert easi(data, tmp_path / "a", "--submission-configs", part, benchmarks="embspatial") == 0
    assert json.loads((tmp_path / "a" / "easi_results.json").read_text())["precision"] == "bfloat16"
    assert easi(data, tmp_path / "b", "--submission-configs", '{"precision": "fp3"}', benchmarks="embspatial") == 2
    assert "precision 'fp3' is not known" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_exact_matching_is_the_rules_and_asks_no_judge(data: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    for name in ("JUDGE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert easi(data, tmp_path, "--judge", "exact_matching", "--json", benchmarks="blink") == 0
    row = json.loads(capsys.readouterr().out)["benchmarks"]["blink"]
    assert row["judging"] == "not judged" and row["judge"] is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "local:Qwen/Qwen2.5-VL-7B-Instruct"),
        ("OpenGVLab/InternVL3-8B", "local:OpenGVLab/InternVL3-8B"),
        ("api:Qwen/Qwen2.5-VL-7B-Instruct", "api:Qwen/Qwen2.5-VL-7B-Instruct"),
        ("embedded", "embedded"),
        ("a/b/c", "a/b/c"),
    ],
)
def test_a_bare_name_of_the_hub_is_a_local_model(typed: str, meant: str, capsys) -> None:
    assert hub_model(typed) == meant
    assert ("is a model of the hub" in capsys.readouterr().err) == (typed != meant)


def test_a_folder_that_is_called_like_a_model_of_the_hub_is_not_taken_for_one(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert hub_model("runs/first") == "runs/first"


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command by the words that are typed for it."""
    for name, child in getattr(command, "commands", {}).items():
        words = f"{path} {name}".strip()
        yield words, child
        yield from commands(child, words)


@pytest.mark.parametrize("command", ["easi", "run", "judge", "failures", "build curate"])
def test_the_judges_endpoint_is_spelled_alike_in_every_command(command: str, capsys) -> None:
    (node,) = [leaf for name, leaf in commands(get_command(build(None))) if name == command]
    spellings = {opt for parameter in node.params for opt in parameter.opts}
    assert {"--judge-base-url", "--judge-key-env"} <= spellings
    if command in ("judge", "failures"):
        assert {"--base-url", "--key-env"} <= spellings


@pytest.mark.parametrize(
    "typed", ["http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/chat/completions"]
)
def test_vlmevalkits_judge_gets_the_same_endpoint_in_the_form_that_the_kit_reads(typed: str) -> None:
    settings = HarnessSettings(model="m", judge_model="gpt-4o", judge_base_url=typed)
    assert vlmevalkit.environment(settings)["OPENAI_API_BASE"] == "http://127.0.0.1:9/v1/chat/completions"
    assert "OPENAI_API_BASE" not in vlmevalkit.environment(HarnessSettings(model="m"))
