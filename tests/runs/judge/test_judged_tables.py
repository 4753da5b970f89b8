"""Free-text answers of any table are judged in one command: a rule first, then the judge, by a rubric of row, table or user."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_tables import SCENES, Models, write_birds, write_scenes

from snellen import Prompt, Sample, Text, evaluate, judge, load_run
from snellen.cli import main
from snellen.errors import FingerprintError, RunError, UsageError
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


DECLARED = (
    'name = "scenes"\n[source]\nfile = "scenes.csv"\n[rows]\nid = "id"\nquestion = "question"\nanswer = "answer"\n'
    '[score]\nread = "judged"\njudge = {{ model = "api:{judge}", published = "gpt-4o" }}\n'
)


def declared_run(server: Models, judge: str, *more: str) -> int:
    Path("scenes.toml").write_text(DECLARED.format(judge=judge))
    words = ["run", "scenes.toml", "-m", "api:oracle", "--base-url", server.url, "--out", "run", "-q"]
    return main([*words, "--judge-base-url", server.url, *more])


def test_a_judge_that_its_endpoint_does_not_serve_is_refused_before_a_question_is_asked(capsys):
    with Models(SAID) as server:
        assert declared_run(server, "absent") != 0
        assert not server.requests and not Path("run").exists()
        told = " ".join(capsys.readouterr().err.split())
        assert "the judge api:absent cannot be asked" in told and "--judge none" in told
        assert declared_run(server, "absent", "--dry-run") == 0  # it sends nothing, to a judge neither
        assert declared_run(server, "absent", "--judge", "none") == 0
        assert len(server.requests) == len(SCENES)


def test_a_judge_whose_server_is_down_is_noted_and_the_run_stays(capsys):
    with Models(SAID) as server:
        assert declared_run(server, "oracle", "--judge-base-url", "http://127.0.0.1:9/v1", "--patience", "0") != 0
    assert load_run("run").meta.totals.ok == len(SCENES)
    told = " ".join(capsys.readouterr().err.split())
    assert "The run goes on without it; snellen judge run --model api:oracle --base-url http://127.0.0.1:9/v1" in told


def test_without_a_key_for_a_declared_judge_the_way_without_it_is_named(capsys, monkeypatch):
    for name in ("JUDGE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    with Models(SAID) as server:
        assert declared_run(server, "oracle") != 0
    told = " ".join(capsys.readouterr().err.split())
    assert "no key for the judge api:oracle" in told and "--judge none" in told


def test_the_command_after_a_judge_that_failed_judges_by_the_declared_judge_and_another_one_is_told(capsys):
    with Models(SAID) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("snellen.runs.judge.ask.judge", broken)
            assert declared_run(server, "oracle") != 0
        command = f"snellen judge run --model api:oracle --base-url {server.url}"
        assert f"`{command}` judges them" in capsys.readouterr().out
        assert main(shlex.split(command)[1:]) == 0
        assert main(["judge", "run", "--base-url", server.url, "--out", "again"]) == 0  # the declared judge is taken
    assert load_run("again").meta.spec.model == "api:oracle"
    capsys.readouterr()
    assert main(["score", "run"]) == 0
    assert "judged by another model than gpt-4o" in " ".join(capsys.readouterr().out.split())
    assert main(["list", "--runs", "--results", "."]) == 0
    assert "run: published figures are judged by gpt-4o" in " ".join(capsys.readouterr().out.split())
    assert main(["list", "--runs", "--results", ".", "--json"]) == 0
    told = {Path(row["path"]).name: row.get("other_judge", "") for row in json.loads(capsys.readouterr().out)["runs"]}
    assert "gpt-4o" in told["run"] and not told["run_judged"]


def broken(*words: object, **settings: object) -> None:
    raise RunError("the judge broke", "")


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
