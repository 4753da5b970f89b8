"""Free-text answers of any table are judged in one command: a rule first, then the judge, by a rubric of row, table or user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_tables import SCENES, Models, write_birds, write_scenes

from snellen import Prompt, Sample, Text, evaluate, judge, load_run
from snellen.cli import main
from snellen.errors import FingerprintError, UsageError
from snellen.scoring.scorers import UNJUDGED, is_reference

SAID = {name: reply for name, *_, reply in SCENES}


@pytest.fixture(autouse=True)
def settled(judge_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    write_scenes()


def run_of(server: Models, table: str = "scenes.csv", *more: str) -> int:
    judging = ["--judge", "api:oracle", "--judge-base-url", server.url]
    return main(["run", table, "-m", "api:oracle", "--base-url", server.url, "--out", "run", "-q", *judging, *more])


def test_one_command_judges_the_free_text_of_a_table(capsys):
    with Models(SAID) as server:
        assert run_of(server) == 0
        judged = list(server.judged)
        assert main(["judge", "run", "-m", "api:oracle", "--base-url", server.url, "-q"]) == 0
        assert len(server.judged) == len(judged) == 3  # f0 is the reference itself, whatever its case and last sign
    rows = {row["sample_id"]: row for row in load_run("run").scores().to_pylist()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "f0": "correct",
        "f1": "correct",
        "f2": "correct",
        "f3": "wrong",
    }
    assert rows["f0"]["reason"] == "the reference answer itself" and rows["f3"]["reason"] == "the judge on f3"
    assert "The newspaper must be named." in next(text for text in judged if "(f1)" in text)
    assert "name the same thing" in next(text for text in judged if "(f2)" in text)  # its row names the rubric `match`
    verdicts = [json.loads(line) for line in Path("run_judged/verdicts.jsonl").read_text().splitlines()]
    assert [row["judge_source"] for row in verdicts] == ["rule", "judge", "judge", "judge"]
    assert verdicts[1]["judge_reason"] == "the judge on f1"
    saved = json.loads(Path("run/summary.json").read_text())["judge"]
    assert saved["model"] == "api:oracle" and saved["replies"] == 3 and len(saved["rubric"]) == 16
    assert "judged by api:oracle in run_judged: 3 of 3 replies" in capsys.readouterr().out


def test_without_a_judge_free_text_has_no_score_and_says_so(capsys):
    with Models(SAID) as server:
        run = evaluate("scenes.csv", "api:oracle", base_url=server.url, out="run")
    accuracy = run.metric("accuracy")
    assert (accuracy.value, accuracy.n, accuracy.coverage) == (1.0, 1, 0.25)
    assert main(["score", "run"]) == 0
    assert "3 replies are not judged yet and have no score; `snellen judge run" in capsys.readouterr().err


def test_what_check_and_run_say_of_a_table_without_a_judge_is_how_it_is_scored(capsys):
    gold = "A man in a red coat feeds the birds in the park."
    rows = {
        "f0": (gold, "", gold.upper(), "correct"),
        "f1": (gold, "", f"I think so. {gold}", "unscored"),
        "f2": ("red", "Scarlet counts.", "It is scarlet.", "unscored"),
        "f3": ("2024-03-01", "Any day of that month.", "2 March 2024", "unscored"),
        "f4": ("3", "Three birds.", "4", "wrong"),  # rules decide numbers, yes and no
        "f5": ("yes", "It is day.", "Yes, it is.", "correct"),
        "f6": ("blue", "", "**Blue**", "correct"),
    }
    lines = [{"id": n, "question": f"What is it? ({n})", "answer": g, "criteria": c} for n, (g, c, *_) in rows.items()]
    Path("mixed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Models({name: said for name, (_, _, said, _) in rows.items()}) as server:
        arguments = ["run", "mixed.jsonl", "-m", "api:oracle", "--base-url", server.url, "--out", "run"]
        assert main(["check", "mixed.jsonl"]) == 0
        checked = capsys.readouterr()
        assert f"4 rows have a free text as gold answer: {UNJUDGED}" in " ".join(checked.out.split())
        assert main(arguments) == 0
        assert f"4 golds are free texts: {UNJUDGED}" in " ".join(capsys.readouterr().err.split())
        scored = {row["sample_id"]: row["verdict"] for row in load_run("run").scores("strict").to_pylist()}
        assert scored == {name: verdict for name, (*_, verdict) in rows.items()}
        assert main([*arguments, "--judge", "api:oracle", "--judge-base-url", server.url]) == 0
        assert UNJUDGED not in " ".join(capsys.readouterr().err.split()) and len(server.judged) == 3


def test_another_rubric_judges_the_same_replies_without_asking_the_model_again(capsys):
    rubric = Path("points.toml")
    rubric.write_text(
        'template = "strict grader: {question} {gold} {reply} {nonce} {shape}"\n'
        '[verdict]\nfield = "score"\nrange = [0.0, 10.0]\nreason = "reason"\n'
    )
    with Models(SAID) as server:
        assert run_of(server, "scenes.csv", "--rubric", "points.toml") == 0
        asked = len(server.requests)
        values = {row["sample_id"]: row["value"] for row in load_run("run").scores().to_pylist()}
        assert values == {"f0": 1.0, "f1": 0.5, "f2": 0.5, "f3": 0.1}
        with pytest.raises(FingerprintError):
            judge("run", "api:oracle", base_url=server.url)
        judge("run", "api:oracle", base_url=server.url, rubric="graded", out="graded")
        assert len(server.requests) == asked + 3
    assert main(["view", ".", "--export", "pages"]) == 0
    assert "0.5" in "".join(page.read_text() for page in Path("pages").rglob("*.html"))
    capsys.readouterr()


def test_a_declaration_names_judge_and_rubric(capsys):
    Path("rules.toml").write_text(
        'template = "strict grader of {question} {gold} {reply} {nonce} by our rules: {shape}"\n'
        '[verdict]\nfield = "verdict"\nlabels = { correct = 1.0, incorrect = 0.0 }\nreason = "reason"\n'
    )
    Path("scenes.toml").write_text(
        'name = "scenes"\n[source]\nfile = "scenes.csv"\n[rows]\nid = "id"\nquestion = "question"\nanswer = "answer"\n'
        '[score]\nread = "judged"\njudge = { model = "api:oracle", rubric = "rules.toml" }\n'
    )
    with Models(SAID) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUDGE_BASE_URL", server.url)
        assert main(["run", "scenes.toml", "-m", "api:oracle", "--base-url", server.url, "--out", "run", "-q"]) == 0
        assert len(server.judged) == 3 and all("by our rules" in text for text in server.judged)
        scores = load_run("run").metrics("all").to_pylist()
        assert {row["value"] for row in scores if row["name"] == "accuracy"} == {0.75}  # under every profile
    capsys.readouterr()


def test_a_judge_with_nothing_to_judge_is_refused_before_anything_is_sent(capsys):
    write_birds(3)
    with Models({}) as server:
        assert run_of(server, "birds.csv") != 0
        assert server.requests == []
    assert "birds.csv is scored by rules, and no reply of it is for a judge" in capsys.readouterr().err


@given(st.text(max_size=30))
def test_the_reference_itself_is_right_in_any_dress_and_nothing_else_is(gold):
    sample = Sample("1", Prompt((Text("What is it?"),)), gold, "judged")
    if any(char.isalnum() for char in gold):
        assert all(
            is_reference(sample, reply) for reply in (gold, f"**{gold.strip()}**", gold.upper().lower(), f"{gold} ")
        )
    assert not is_reference(sample, f"{gold} x") and not is_reference(
        sample, f"-{gold.strip()}"
    )  # `- x` is a list's item
    assert not is_reference(sample, "")


def test_python_names_judge_and_rubric_and_hears_of_a_table_without_free_text():
    write_birds(3)
    with Models(SAID) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUDGE_BASE_URL", server.url)
        run = evaluate("scenes.csv", "api:oracle", base_url=server.url, out="run", judge="api:oracle")
        with pytest.raises(UsageError, match="no reply of it is for a judge"):
            evaluate("birds.csv", "api:oracle", base_url=server.url, out="birds", judge="api:oracle")
    assert run.metric("accuracy").value == 0.75
