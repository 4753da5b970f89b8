"""What a judge has said comes from a file: verdicts without a model, on runs and on other people's answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged_clips import CLIPS, PLAIN, SECRET, Scripted, register

from snellen import evaluate, load_run
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.runs.score import score
from snellen.scoring.rubric import built_in


@pytest.fixture(autouse=True)
def registered(judge_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


REPLIES = [
    {"vid": "v1", "reply": "Score: 0"},
    {"vid": "v2", "reply": None},
    {"sample_id": "v3", "reply": "Score: 1"},
    {"id": "v4", "reply": "Score: 1"},
    {"vid": "v1", "reply": "Score: 1"},
    {"vid": "nobody", "reply": "Score: 1"},
    {"vid": "v0", "reply": "Score: 1"},
    {"reply": "Score: 1"},
]


def write_replies(form: str) -> str:
    if form == "jsonl":
        Path("said.jsonl").write_text("\n".join(map(json.dumps, REPLIES)))
    elif form == "json":
        Path("said.json").write_text(json.dumps(REPLIES))
    else:
        rows = [f"{row.get('vid', row.get('sample_id', row.get('id', '')))},{row['reply'] or ''}" for row in REPLIES]
        Path("said.csv").write_text("\n".join(["vid,reply", *rows]))
    return f"said.{form}"


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_a_file_of_a_judges_replies_scores_a_run_without_a_model(form):
    evaluate(CLIPS, Scripted(), out="run")
    before = Path("run/summary.json").read_bytes()
    rows: dict[str, float | None] = {}
    path = write_replies(form)
    summary, notes = score(
        "run", judge_replies=path, each=lambda one: rows.update({one.sample.id: one.scores["official"].value})
    )
    assert rows == {"v0": 1.0, "v1": 0.0, "v2": None, "v3": 1.0, "v4": 0.5, "v5": None}
    first, step = {"jsonl": ("line", 1), "json": ("row", 1), "csv": ("line", 2)}[form]
    line = [f"{first} {number + step}" for number in range(len(REPLIES))]
    text = "\n".join(notes)
    assert f"judged by the replies in {path}: 3 of 5 replies; 2 of 5 have no verdict" in text
    assert f"{line[1]}: 'v2' has no reply" in text
    assert f"{line[4]}: 'v1' repeats {line[0]}; the first one counts" in text
    assert f"{line[5]}: 'nobody'" in text and f"{line[6]}: 'v0'" in text and f"{line[7]}: there is no id" in text
    assert f"2 rows of {path} without a reply that a judge decides:" in text
    assert f"3 rows of {path} that could not be used:" in text
    assert Path("run/summary.json").read_bytes() == before
    assert summary.for_judge == 5 and summary.without_verdict == 2


@pytest.mark.parametrize("kind", ["answers.jsonl", "answers.own"])
def test_a_file_of_a_judges_replies_scores_other_peoples_answers(kind, capsys):
    name = "response" if kind.endswith("jsonl") else "said"
    key = "id" if kind.endswith("jsonl") else "vid"
    Path(kind).write_text("\n".join(json.dumps({key: f"v{i}", name: "Two people."}) for i in range(6)))
    path = write_replies("jsonl")
    assert main(["score", kind, "--benchmark", "clips", "--judge-replies", path, "--json"]) == 0
    said = capsys.readouterr()
    metrics = {one["name"]: one["value"] for one in json.loads(said.out)["profiles"][0]["metrics"]}
    assert metrics["video/AB"] == 0.5 and metrics["video/ABA"] == 0.5
    assert "2 of 5 have no verdict" in said.err and "'nobody'" in said.err
    assert main(["score", kind, "--benchmark", "clips"]) == 0
    assert "5 replies are not judged yet" in capsys.readouterr().err


def test_a_judges_reply_stands_in_score_where_the_authors_evaluation_wrote_it(capsys):
    Path("answers.jsonl").write_text("\n".join(json.dumps({"id": f"v{i}", "response": "Two."}) for i in range(6)))
    rows = [{"vid": f"v{i}", "type": "AB", "score": f"Score: {i % 2}", "model_answer": "Two."} for i in range(6)]
    Path("said.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["score", "answers.jsonl", "--benchmark", "clips", "--judge-replies", "said.jsonl", "--json"]) == 0
    metrics = {one["name"]: one["value"] for one in json.loads(capsys.readouterr().out)["profiles"][0]["metrics"]}
    assert metrics["video/AB"] is not None and metrics["video/ABA"] is not None


def test_of_a_suite_a_judges_replies_go_by_the_members_own_ids():
    from snellen.benchmarks.suite import suite

    both = suite("both", (replace(CLIPS, name="both/clips"), replace(PLAIN, name="both/plain")), version="1", about={})
    evaluate(both, Scripted(), out="run")
    Path("said.jsonl").write_text('{"vid": "v1", "reply": "Score: 1"}\n{"vid": "clips/v3", "reply": "Score: 0"}\n')
    run = load_run("run", benchmark=both)
    rows: dict[str, float | None] = {}
    _, notes = score(
        "run",
        both,
        judge_replies="said.jsonl",
        each=lambda one: rows.update({one.sample.id: one.scores["official"].value}),
    )
    assert (rows["clips/v1"], rows["clips/v3"], rows["plain/v1"]) == (1.0, 0.0, 1.0)
    assert not any("without a reply" in line for line in notes) and run.benchmark.rubric is not None


def test_judges_replies_that_cannot_mean_anything_are_refused():
    evaluate(PLAIN, Scripted(), out="run")
    evaluate(CLIPS, Scripted(), out="clips")
    Path("said.jsonl").write_text('{"vid": "v1", "score": "Score: 1"}\n')
    with pytest.raises(UsageError, match="is scored without a judge"):
        score("run", judge_replies="said.jsonl")
    with pytest.raises(DataError, match="no row holds an id and a judge's reply; its fields are score, vid"):
        score("clips", judge_replies="said.jsonl")


def test_descriptions_of_videos_are_scored_as_the_authors_script_does():
    said = {"a_AB": "Score: 1", "b_AB": "Score: 0", "c_AB": "**Score:** 1", "a_ABA": "Score: 2", "b_ABA": "Score: 3"}
    Path("vid_some_1.jsonl").write_text(
        "".join(json.dumps({"vid": vid, "question": "Describe.", "model_answer": "Two people."}) + "\n" for vid in said)
    )
    Path("said.jsonl").write_text("".join(json.dumps({"vid": vid, "reply": text}) + "\n" for vid, text in said.items()))
    summary, notes = score("vid_some_1.jsonl", "vlm2/pc-vid", profile="all", judge_replies="said.jsonl")
    found = {profile: {one.name: one for one in rows} for profile, rows in summary.metrics.items()}
    official = found["official"]
    assert (official["video_ab"].value, official["video_ab"].n) == (0.5, 2)  # the row without a score is left out
    assert (official["video_aba"].value, official["video_aba"].n) == (1.25, 2)  # out of range, and not clamped
    assert official["video_score"].value == 0.875
    assert found["strict"]["video_aba"].value == 1.0 and "video_score" not in found["vlmevalkit"]
    assert any("1 of 5 have no verdict; 1 are out of range" in line for line in notes)


def test_a_judges_reason_does_not_tell_the_gold_of_a_restricted_benchmark():
    match = replace(SECRET, rubric=lambda sample: built_in("match"))
    evaluate(match, Scripted(), out="run")
    said = {"verdict": "correct", "reason": "both name Phascolarctos"}
    Path("said.jsonl").write_text(
        json.dumps({"id": "v1", "reply": json.dumps(said)})
        + "\n"
        + json.dumps({"id": "v2", "reply": json.dumps({"verdict": "Phascolarctos"})})
    )
    reasons: dict[str, Any] = {}
    score(
        "run",
        match,
        judge_replies="said.jsonl",
        each=lambda one: reasons.update({one.sample.id: one.scores["official"].reason}),
    )
    assert reasons["v1"] == "both name [gold withheld]" and "[gold withheld]" in reasons["v2"]
    assert not [why for why in reasons.values() if why and "Phascolarctos" in why]


def test_a_judges_replies_by_position_are_refused_with_the_option_and_taken_with_it(capsys):
    evaluate(CLIPS, Scripted(), out="run")
    Path("said.jsonl").write_text(
        '{"id": 1, "reply": "Score: 1"}\n{"id": 3, "reply": "Score: 0"}\n{"id": 9, "reply": "-"}\n'
    )
    assert main(["score", "run", "--judge-replies", "said.jsonl"]) == 3
    assert "Give --id-is position: 2 of the first 6 samples" in " ".join(capsys.readouterr().err.split())
    assert main(["score", "run", "--judge-replies", "said.jsonl", "--id-is", "position", "--json"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "2 of 5 replies; 3 of 5 have no verdict" in told and "1 row of said.jsonl without a reply" in told
    assert main(["score", "run", "--id-is", "position"]) == 2  # a run's own answers need no such option
    assert "--id-is is for files of other programs" in " ".join(capsys.readouterr().err.split())


def test_a_meta_field_that_several_samples_share_is_no_id(capsys):
    Path("answers.jsonl").write_text('{"id": "truth", "response": "yes"}\n')
    assert main(["score", "answers.jsonl", "--benchmark", "chart", "--id-is", "form"]) == 2
    assert "does not identify a sample" in " ".join(capsys.readouterr().err.split())


def test_a_replayed_judge_is_met_by_ids_and_refused_where_none_matches(capsys):
    Path("said.jsonl").write_text("".join(json.dumps({"id": n, "reply": "The digit is 5."}) + "\n" for n in range(3)))
    assert (
        main(["run", "chart/digits", "-m", "replay:said.jsonl", "--id-is", "position", "--limit", "3", "--out", "run"])
        == 0
    )
    verdict = json.dumps({"verdict": "correct"})
    Path("judge.jsonl").write_text("".join(json.dumps({"id": n, "reply": verdict}) + "\n" for n in range(3)))
    assert main(["judge", "run", "-m", "replay:judge.jsonl"]) == 3
    assert "Give --id-is position" in " ".join(capsys.readouterr().err.split())
    assert main(["judge", "run", "-m", "replay:judge.jsonl", "--id-is", "position"]) == 0
    summary = json.loads(capsys.readouterr().out.rpartition("SUMMARY_JSON ")[2])
    assert summary["verdicts"] == {"correct": 3, "partial": 0, "wrong": 0, "unscored": 0}
