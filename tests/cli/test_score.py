"""`snellen score`: runs of our own and answers of other harnesses, under any profile."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.stubs import ARITHMETIC, Calculator
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.cli.score import reading_version
from snellen.engine.run_folder import RunFolder
from snellen.errors import StorageError
from snellen.runs.external_answers import ROW_READINGS
from snellen.types import Prompt, Sample, Score, Text

pytestmark = pytest.mark.installed


def lenient(sample: Any, reply: str) -> Score:
    """Right where the number is anywhere in the reply."""
    right = str(sample.target) in reply
    return Score(float(right), reply[-1:] or None, "correct" if right else "wrong", None if right else "not in it")


SUMS = replace(
    ARITHMETIC,
    score={**ARITHMETIC.score, "lenient": lenient},
    profiles={**ARITHMETIC.profiles, "lenient": "the number is somewhere in the reply"},
)


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub benchmark, under its name."""
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:SUMS")


def answers(path: str, rows: list[Any]) -> Path:
    Path(path).write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return Path(path)


def right(i: int) -> dict[str, Any]:
    return {"id": f"q{i}", "reply": str(i % 7)}


Snellen = Callable[..., Any]


def test_answers_of_another_program_are_scored_into_one_json_object(snellen: Snellen):
    file = answers("a.jsonl", [right(i) for i in range(90)] + [{"id": f"q{i}", "reply": "?"} for i in range(90, 100)])
    said = snellen("score", file, "--benchmark", "arithmetic", "--json", "--profile", "all")
    assert said.status == 0 and said.err == ""
    found = json.loads(said.out)
    assert list(found) == ["benchmark", "reading_version", "profiles"] and found["benchmark"] == "arithmetic"
    assert [p["profile"] for p in found["profiles"]] == ["strict", "lenient"]
    first = found["profiles"][0]["metrics"][0]
    assert set(first) == {"name", "value", "n", "ci95", "unit", "coverage", "chance", "interval", "lower_is_better"}
    assert first["name"] == "accuracy" and first["value"] == 0.9 and first["n"] == 100 and first["coverage"] == 1.0
    assert first["ci95"][0] < 0.9 < first["ci95"][1]


def test_per_sample_rows_keep_the_order_of_the_file(snellen: Snellen):
    order = list(range(100))
    random.Random(1).shuffle(order)
    file = answers("a.jsonl", [right(i) for i in order])
    said = snellen("score", file, "--benchmark", "arithmetic", "--profile", "all", "--per-sample", "rows.jsonl")
    assert said.status == 0
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [(r["sample_id"], r["profile"]) for r in rows] == [
        (f"q{i}", p) for i in order for p in ("strict", "lenient")
    ]
    assert list(rows[0]) == ["sample_id", "profile", "value", "extracted", "verdict", "reason"]
    assert rows[0] == {
        "sample_id": f"q{order[0]}",
        "profile": "strict",
        "value": 1.0,
        "extracted": str(order[0] % 7),
        "verdict": "correct",
        "reason": None,
    }


def test_what_is_missing_unknown_or_broken_is_counted_and_lowers_the_coverage(snellen: Snellen):
    rows = [right(i) for i in range(40)] + [{"id": "q40", "reply": None}, {"id": "elsewhere", "reply": "1"}, "{broken"]
    file = answers("a.jsonl", rows)
    said = snellen("score", file, "--benchmark", "arithmetic", "--json", "--per-sample", "rows.jsonl")
    metric = json.loads(said.out)["profiles"][0]["metrics"][0]
    assert metric["n"] == 41 and metric["value"] == pytest.approx(40 / 41) and metric["coverage"] == 0.41
    assert "59 of 100 samples have no answer" in said.err
    assert "1 row without a sample" in said.err and "line 42: 'elsewhere'" in said.err
    assert "1 row that could not be used" in said.err and "line 43: not JSON" in said.err
    last = json.loads(Path("rows.jsonl").read_text().splitlines()[-1])
    assert last["sample_id"] == "q40" and last["verdict"] == "error" and last["reason"] == "no_answer"


def test_an_unknown_id_at_the_start_costs_nothing_but_itself(snellen: Snellen):
    file = answers("a.jsonl", [{"id": "elsewhere", "reply": "1"}, *(right(i) for i in range(9000))])
    said = snellen("score", file, "--benchmark", "arithmetic", "-o", "n=9000", "--json")
    metric = json.loads(said.out)["profiles"][0]["metrics"][0]
    assert metric["n"] == 9000 and metric["value"] == 1.0 and metric["coverage"] == 1.0


def test_a_file_of_which_no_id_is_known_says_what_ids_look_like_on_both_sides(snellen: Snellen):
    file = answers("a.jsonl", [{"id": i, "reply": str(i % 7)} for i in range(100)])
    said = snellen("score", file, "--benchmark", "arithmetic")
    assert said.status == 3 and "'0'" in said.err and "'q0'" in said.err and "--id-is position" in said.err
    said = snellen("score", file, "--benchmark", "arithmetic", "--id-is", "position", "--json")
    assert json.loads(said.out)["profiles"][0]["metrics"][0]["value"] == 1.0
    said = snellen("score", file, "--benchmark", "arithmetic", "--id-is", "number")
    assert said.status == 2 and "no meta field" in said.err


def test_profiles_that_disagree_are_listed_with_what_each_read(snellen: Snellen):
    file = answers("a.jsonl", [right(0), {"id": "q1", "reply": "it is 1"}, {"id": "q2", "reply": "none"}])
    said = snellen("score", file, "--benchmark", "arithmetic", "--disagreements")
    assert said.status == 0
    assert "q1\n  strict   wrong 0, read 'it is 1'\n  lenient  correct 1, read '1'" in said.out
    assert "q2" not in said.out and "the profiles differ on 1 of 3 answers" in said.err
    assert snellen("score", file, "--benchmark", "arithmetic", "--disagreements", "--profile", "strict").status == 2


def test_a_run_is_scored_again_with_its_own_benchmark_and_its_summary_is_rewritten(snellen: Snellen):
    run = evaluate(SUMS, Calculator(), out="run", limit=50)
    run.folder.summary.unlink()
    said = snellen("score", "run", "--json")
    metric = json.loads(said.out)["profiles"][0]["metrics"][0]
    assert metric["value"] == 0.9 and metric["n"] == 50 and metric["coverage"] == 0.5
    assert "only the first 50" in said.err
    assert [p["profile"] for p in json.loads(run.folder.summary.read_text())["profiles"]] == ["strict"]
    snellen("score", "run", "--profile", "lenient")
    saved = json.loads(run.folder.summary.read_text())
    assert [p["profile"] for p in saved["profiles"]] == ["strict", "lenient"] and saved["rows"] == 50


def test_the_records_of_a_run_give_the_same_scores_as_the_run(snellen: Snellen):
    evaluate(SUMS, Calculator(), out="run", repeats=3, limit=30)
    own = snellen("score", "run", "--json", "--profile", "all", "--per-sample", "own.jsonl")
    file = snellen(
        "score",
        "run/results.jsonl",
        "--benchmark",
        "arithmetic",
        "--json",
        "--profile",
        "all",
        "--per-sample",
        "f.jsonl",
    )
    assert own.out == file.out
    assert Path("own.jsonl").read_bytes() == Path("f.jsonl").read_bytes()


def test_a_file_that_does_not_say_its_benchmark_needs_one(snellen: Snellen):
    said = snellen("score", answers("a.jsonl", [right(0)]))
    assert said.status == 2 and "--benchmark NAME" in said.err


def test_a_run_of_another_benchmark_is_not_scored_by_mistake(snellen: Snellen):
    evaluate(SUMS, Calculator(), out="run", limit=5)
    said = snellen("score", "run", "--benchmark", "lights")
    assert said.status == 2 and "is a run of arithmetic, not of lights" in said.err


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="a read-only mount needs root")
def test_a_run_on_a_disk_that_cannot_be_written_is_scored_and_its_summary_left_alone(snellen: Snellen, tmp_path: Path):
    run = evaluate(SUMS, Calculator(), out="run", limit=50)
    before = run.folder.summary.read_bytes()
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "--bind", "run", str(disk)], check=False).returncode != 0:
        pytest.skip("this machine does not allow a mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(disk)], check=True)
        said = snellen("score", disk, "--profile", "lenient", "--json")
        assert said.status == 0 and json.loads(said.out)["profiles"][0]["metrics"][0]["n"] == 50
        assert "is read-only: its summary.json is not updated" in said.err
        assert snellen("extract", answers("rows.jsonl", []), "--out", disk / "x.jsonl").status == 6
        with pytest.raises(StorageError, match="cannot write"):
            RunFolder(disk).write(disk / "summary.json", b"")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert run.folder.summary.read_bytes() == before


def test_json_has_the_class_table_of_each_profile_up_to_2000_classes(snellen: Snellen, monkeypatch: pytest.MonkeyPatch):
    def of(classes: int) -> Benchmark:
        def samples(data: Data) -> Iterator[Sample]:
            for i in range(2_100):
                meta = {"level": "species", "label": f"class {i % classes}", "dataset": "sevens"}
                yield Sample(f"q{i}", Prompt((Text(f"Which of 7 is {i}?"),)), i % 7, "count", meta=meta)

        return replace(SUMS, samples=samples, size=lambda data: 2_100)

    file = answers("a.jsonl", [right(i) if i % 3 else {"id": f"q{i}", "reply": "9"} for i in range(2_100)])
    monkeypatch.setitem(registry.BUILT_IN, "few", f"{__name__}:FEW")
    monkeypatch.setitem(registry.BUILT_IN, "many", f"{__name__}:MANY")
    monkeypatch.setitem(globals(), "FEW", of(3))
    monkeypatch.setitem(globals(), "MANY", of(2_001))
    few = json.loads(snellen("score", file, "--benchmark", "few", "--json", "--profile", "all").out)
    for profile in few["profiles"]:
        rows = profile["classes"]
        assert [row["label"] for row in rows] == ["class 0", "class 1", "class 2"]
        assert [row["accuracy"] for row in rows] == [0.0, 1.0, 1.0] and rows[0]["n"] == 700
        assert {row["dataset"] for row in rows} == {"sevens"}
    many = snellen("score", file, "--benchmark", "many", "--json")
    assert "classes" not in json.loads(many.out)["profiles"][0] and "more than 2,000 classes" in many.err


@pytest.mark.parametrize("command", ["run", "score", "failures", "judge", "easi", "import"])
def test_every_reading_of_ids_is_in_the_help(snellen: Snellen, monkeypatch: pytest.MonkeyPatch, command: str):
    monkeypatch.setenv("COLUMNS", "200")
    (line,) = [line for line in snellen(command, "--help-all").out.splitlines() if "--id-is" in line]
    assert all(f"|{reading}" in line for reading in ROW_READINGS[1:])


@pytest.mark.parametrize(
    "words",
    [("--id-is", "position"), ("--id-field", "sample_id"), ("--reply-field", "text")],
    ids=lambda words: words[0],
)
def test_how_to_read_a_file_is_refused_for_a_run_and_not_passed_over(snellen: Snellen, words: tuple[str, str]):
    evaluate(SUMS, Calculator(), out="run", limit=5)
    for place in ("run", "run/results.jsonl"):
        said = snellen("score", place, *words)
        assert said.status == 2 and f"{words[0]} is for files of other programs" in said.err
        assert "Omit them" in said.err and said.out == ""


@pytest.mark.parametrize(
    ("content", "version"), [({}, 1), ({"reading_version": 2}, 2), ({"reading_version": "x"}, None), ([], None)]
)
def test_a_version_of_the_reading_rules_is_a_number_or_not_known(
    content: Any, version: int | None, tmp_path: Path
) -> None:
    assert reading_version(tmp_path) is None
    (tmp_path / "summary.json").write_text(json.dumps(content))
    assert reading_version(tmp_path) == version


def test_metrics_by_letter_are_shown_by_all_and_are_in_json(snellen: Snellen, tmp_path: Path):
    rows = [{"id": i, "question": "?", "answer": "AB"[i % 2], "options": ["x", "y"], "category": "c"} for i in range(8)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"sample_id": str(i), "reply": "A"}) for i in range(8)))
    checks = ("--junit", "j.xml", "--step-summary", "s.md")
    ran = snellen("run", "q.jsonl", "-m", "replay:a.jsonl", "--out", "run", *checks)
    of_run = [Path(file).read_text() for file in checks[1::2]]
    snellen("score", "run", "--junit", "k.xml", "--step-summary", "t.md")
    for text in (*of_run, Path("k.xml").read_text(), Path("t.md").read_text()):
        assert "accuracy/gold/A" in text and "replies/A" in text
    for short in (ran, snellen("score", "run")):
        assert (
            "invalid" in short.out and "error" in short.out and "accuracy/category" not in short.out.split("error")[1]
        )
        assert "replies/A" not in short.out and "accuracy/gold/A" not in short.out and "4 more metrics: " in short.out
    for whole in (snellen("score", "run", "--all"), snellen("score", "run", "--json")):
        assert "replies/A" in whole.out and "accuracy/gold/B" in whole.out
