"""One command runs, judges and scores; files lie where the authors' README puts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fika import made
from benchmarks.fika.made import FikaJudge, answer
from snellen import load_run
from snellen.cli import main
from snellen.cli.benchmark_options import with_omitted_values
from snellen.cli.environment import sandbox_image


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("JUDGE_BASE_URL", "JUDGE_MODEL", "DATA_ZIP", "LIMIT", "OUT_DIR", "MODEL_PATH", "SIF", "HF_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-judge")
    monkeypatch.setenv("JUDGE_API_KEY", "key-of-the-judge")
    place = tmp_path / "FIKA-Bench"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


class Answering(FikaJudge):
    """A model under test: question 0 is answered correctly, the others are not."""

    def say(self, messages: list[dict[str, Any]]) -> str:
        text = json.dumps(messages, ensure_ascii=False)
        self.asked.append(text)
        return answer("right" if "第 0 号" in text else "wrong")


@pytest.fixture
def model() -> Iterator[Answering]:
    with Answering("key-of-the-judge") as running:
        yield running


@pytest.fixture
def judge() -> Iterator[FikaJudge]:
    with FikaJudge("key-of-the-judge") as running:
        yield running


def run(model: Answering, *words: str, benchmark: str = "fika") -> int:
    return main(["run", benchmark, "-m", "api:stub-judge", "--base-url", model.url, "-q", "--out", "run", *words])


def summary_line(text: str) -> dict[str, Any]:
    (line,) = [line for line in text.splitlines() if line.startswith("SUMMARY_JSON ")]
    parsed: dict[str, Any] = json.loads(line.removeprefix("SUMMARY_JSON "))
    return parsed


def test_one_command_runs_judges_and_scores(model, judge, tmp_path, capsys):
    made.whole(tmp_path / "fika.zip", 4)
    words = ["--data", "../fika.zip", "--judge", "api:stub-judge", "--judge-base-url", judge.url]
    assert run(model, *words) == 0
    output = capsys.readouterr().out
    assert "strict accuracy 25.00 %" in output and "1 of 4 correct" in output
    assert summary_line(output)["labels"] == {"correct": 1, "incorrect": 3}
    assert len(judge.asked) == 4
    assert load_run("run").metric("strict_accuracy").value == 0.25
    assert run(model, *words, "--resume") == 0  # all is there: nobody is asked again
    assert (len(model.asked), len(judge.asked)) == (4, 4)


def test_a_judge_without_a_value_is_that_of_the_variables(model, judge, tmp_path, monkeypatch, capsys):
    made.whole(tmp_path / "fika.zip", 2)
    monkeypatch.setenv("JUDGE_MODEL", "stub-judge")
    monkeypatch.setenv("JUDGE_BASE_URL", judge.url)
    assert run(model, "--data", "../fika.zip", "--judge", "--concurrency", "4", "--resume") == 0
    assert summary_line(capsys.readouterr().out)["judge"] == "api:stub-judge"
    assert run(model, "--data", "../fika.zip", "--judge") == 0
    assert with_omitted_values(["judge", "run", "--judge"]) == ["judge", "run", "--judge"]
    assert with_omitted_values(["run", "x", "--judge", "api:y"]) == ["run", "x", "--judge", "api:y"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--judge", "api:x"], "chart/digits is scored by rules, and no reply of it is for a judge"),
        (["--judge-base-url", "http://127.0.0.1:9/v1"], "--judge-base-url is given without --judge"),
    ],
)
def test_where_nothing_is_judged_the_option_is_refused_before_a_request(model, capsys, words, message):
    assert run(model, "--limit", "1", *words, benchmark="chart/digits") == 2
    assert message in capsys.readouterr().err
    assert model.asked == [] and not Path("run").exists()


def test_no_judge_and_no_key_are_reported_before_the_run_begins(model, tmp_path, monkeypatch, capsys):
    made.whole(tmp_path / "fika.zip", 1)
    assert run(model, "--data", "../fika.zip", "--judge") != 0
    assert "no judge is named" in capsys.readouterr().err
    monkeypatch.delenv("JUDGE_API_KEY")
    words = ["--judge", "api:x", "--judge-key-env", "MISSING_KEY"]
    assert run(model, "--data", "../fika.zip", *words) != 0
    assert "there is no key for the judge api:x" in capsys.readouterr().err
    assert model.asked == []


def test_a_judge_that_fails_leaves_the_run_and_a_status_of_its_own(model, tmp_path, capsys):
    made.whole(tmp_path / "fika.zip", 2)
    words = ["--judge", "api:x", "--judge-base-url", "http://127.0.0.1:9/v1", "--max-attempts", "1", "--patience", "0"]
    status = run(model, "--data", "../fika.zip", *words, "--json")
    printed = json.loads(capsys.readouterr().out)
    assert status != 0 and [entry["state"] for entry in printed["runs"]] == ["complete", "failed"]
    assert load_run("run").meta.totals.ok == 2


@pytest.mark.parametrize(
    "place",
    [
        "../release/fika-bench-testset.zip",
        "../release/fika-v1.1.zip",
        "release/fika-bench-testset.zip",
        "data/fika-bench-testset.zip",
        "fika-bench-testset.zip",
    ],
)
def test_the_archive_is_found_where_the_readme_puts_it(model, place, capsys):
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    made.whole(Path(place), 1)
    assert run(model) == 0
    assert f"note: {place} is used; --data selects another file" in capsys.readouterr().err
    assert load_run("run").meta.spec.data.path == Path(place).resolve()


def test_a_variable_goes_before_the_layout_and_several_archives_are_not_chosen_from(model, monkeypatch, capsys):
    Path("../release").mkdir()
    made.whole(Path("../release/one.zip"), 1)
    made.whole(Path("../release/two.zip"), 1)
    assert run(model) == 2
    assert "2 files match ../release/*.zip: ../release/one.zip, ../release/two.zip" in capsys.readouterr().err
    monkeypatch.setenv("DATA_ZIP", "../release/two.zip")
    assert run(model) == 0
    assert load_run("run").meta.spec.data.path == Path("../release/two.zip").resolve()


def test_images_of_containers_are_found_where_the_readme_puts_them(monkeypatch, capsys):
    from snellen.cli.serve import parse_vllm

    Path("../containers").mkdir()
    Path("../containers/vllm-openai.sif").write_bytes(b"")
    assert sandbox_image(None, "apptainer", ["fika"]) == Path("../containers/vllm-openai.sif")
    assert sandbox_image(None, "bubblewrap", ["fika"]) is None
    assert sandbox_image(None, "apptainer", ["chart"]) is None
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert parse_vllm("vllm org/model").sif == "../containers/vllm-openai.sif"
    assert parse_vllm("vllm org/model --docker mine").sif == ""
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert parse_vllm("vllm org/model").sif == ""
    Path("../containers/vllm-openai.sif").unlink()
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert parse_vllm("vllm org/model").sif == ""


def test_the_stated_results_stand_beside_a_judged_run(model, judge, tmp_path):
    made.whole(tmp_path / "fika.zip", 4)
    assert run(model, "--data", "../fika.zip", "--judge", "stub-judge", "--judge-base-url", judge.url) == 0
    assert main(["report", "run"]) == 0
    page = Path("run/report.html").read_text()
    assert "OpenClaw 2026.3.13 with Qwen3-VL-8B-Instruct-FP8" in page and "12.54" in page
    assert "README of the released code" in page and "39 of 311 correct" in page


def test_of_several_benchmarks_those_with_rubrics_are_judged(judge, monkeypatch, capsys):
    from runs.judge.judged_clips import SAID, register

    register(monkeypatch)

    class Describing(FikaJudge):
        def say(self, messages: list[dict[str, Any]]) -> str:
            text = json.dumps(messages)
            return next((f"It is [[{SAID[i]}]]" for i in range(6) if f"clip {i}" in text), "7")

    with Describing("key-of-the-judge") as model:
        words = ["-m", "api:stub-judge", "--base-url", model.url, "--out", "runs", "--limit", "6"]
        status = main(["run", "clips", "chart/digits", *words, "--judge", "stub-judge", "--judge-base-url", judge.url])
    output = capsys.readouterr()
    assert status == 0
    assert summary_line(output.out)["judged"] == "runs/clips-stub-judge_judged"
    assert "note: chart/digits is scored by rules; nothing of it is judged" in output.err
    scores = {row["sample_id"]: row["value"] for row in load_run("runs/clips-stub-judge").scores().to_pylist()}
    assert [scores[f"v{i}"] for i in (1, 2, 3, 4)] == [1.0, 1.0, 0.0, 1.5]
