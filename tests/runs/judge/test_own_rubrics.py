"""A benchmark with rubrics of its own is judged sample by sample, and its scores are the verdicts."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_server import JudgeServer
from judged_clips import CLIPS, PLAIN, SAID, SECRET, Scripted, register, samples
from msgspec import structs

from benchmarks.vlm2 import drawn
from snellen import evaluate, load_run, rerun
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import FingerprintError, JudgeError, ModelTimeoutError
from snellen.runs.compare import compare
from snellen.runs.judge.ask import judge, verdicts
from snellen.types import Prompt, Response, Sample, Video


@pytest.fixture(autouse=True)
def registered(judge_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


def asked(server: JudgeServer, **more: Any) -> Any:
    return judge("run", "api:stub-judge", base_url=server.url, **more)


def values(run: Any, profile: str | None = None) -> dict[str, tuple[float | None, str]]:
    return {row["sample_id"]: (row["value"], row["verdict"]) for row in run.scores(profile).to_pylist()}


def saved(folder: str) -> dict[str, dict[str, Any]]:
    content = json.loads(Path(folder, "summary.json").read_text())
    return {
        profile["profile"]: {metric["name"]: metric["value"] for metric in profile["metrics"]}
        for profile in content["profiles"]
    }


VERDICTS = {
    "v1": (1.0, "correct"),
    "v2": (1.0, "correct"),
    "v3": (0.0, "wrong"),
    "v4": (1.5, "partial"),
    "v5": (None, "unscored"),
}


def test_each_sample_is_judged_by_its_own_rubric_and_those_without_one_are_not_judged(server):
    evaluate(CLIPS, Scripted(), out="run")
    judged = asked(server, concurrency=1)
    assert values(judged) == VERDICTS
    assert server.counts == {"score1": 1, "score2": 1, "score0": 1, "score3": 1, "bold": 1}  # none is asked twice
    assert ["three clips" in text for text in server.asked] == [False, True, False, True, False]
    assert server.limits == [300] * 5
    assert judged.meta.spec.data.options == {"rubric": ""} and judged.meta.coverage.of == 5
    for text in server.asked:
        code = text.partition("<<<DESCRIPTION ")[2][:16]
        assert text.index(f"<<<DESCRIPTION {code}\n") < text.index("[[") < text.index(f"\nDESCRIPTION {code}>>>")


def test_the_judged_run_is_summed_up_by_the_benchmark_itself(server):
    evaluate(CLIPS, Scripted(), out="run")
    found = {metric["name"]: metric for metric in asked(server).metrics().to_pylist()}
    assert list(found) == ["video/AB", "video/ABA", "with_value", "without_verdict", "out_of_range"]
    assert (found["video/AB"]["value"], found["video/AB"]["n"]) == (0.5, 2)
    assert (found["video/ABA"]["value"], found["video/ABA"]["n"]) == (1.25, 2)
    assert (found["without_verdict"]["value"], found["without_verdict"]["n"]) == (0.2, 5)
    assert (found["out_of_range"]["value"], found["out_of_range"]["n"]) == (0.25, 4)


def test_verdicts_become_the_scores_of_the_run_under_every_profile(server):
    run = evaluate(CLIPS, Scripted(), out="run")
    before = values(run)
    assert before["v0"] == (1.0, "correct") and {before[f"v{i}"] for i in range(1, 6)} == {(None, "unscored")}
    assert "5 replies are not judged yet" in run.notes()[-1] and saved("run")["official"]["video/AB"] is None
    asked(server)
    assert saved("run")["official"]["video/AB"] == saved("run")["strict"]["video/AB"] == 0.5
    for profile, own in (("official", (1.0, "correct")), ("strict", (0.0, "wrong"))):
        assert values(load_run("run"), profile) == {"v0": own, **VERDICTS}
    assert load_run("run").notes() == [
        "judged by api:stub-judge in run_judged: 4 of 5 replies; 1 of 5 have no verdict; 1 are out of range"
    ]
    assert run.notes() == load_run("run").notes()
    kept = json.loads(Path("run/summary.json").read_text())["judge"]
    assert len(kept.pop("rubric")) == 16
    assert kept == {
        "model": "api:stub-judge", "folder": "run_judged", "replies": 5, "without_verdict": 1, "out_of_range": 1,
    }  # fmt: skip
    unscored = [row for row in load_run("run").scores().to_pylist() if row["verdict"] == "partial"]
    assert [row["reason"] for row in unscored] == ["out of range: 3, expected 0 to 2"]


def test_runs_are_compared_by_their_verdicts(server):
    evaluate(CLIPS, Scripted(), out="run")
    evaluate(CLIPS, Scripted(("right", "score0", "score2", "score1", "score0", "score0")), out="other")
    asked(server)
    judge("other", "api:stub-judge", base_url=server.url)
    (pairing,) = compare("run", "other")
    assert pairing.n == 5 and pairing.unscored == 1 and pairing.parts[0].other == pytest.approx(3 / 5)


def test_a_report_shows_the_verdicts(server):
    from snellen.reports.runs import run_view

    evaluate(CLIPS, Scripted(), out="run")
    asked(server)
    view = run_view(load_run("run"))
    assert any("Judged by api:stub-judge" in note for note in view.notes)
    assert [answer.scores["official"].verdict for answer in view.answers() if answer.sample_id == "v2"] == ["correct"]


def test_what_the_model_did_not_answer_is_an_error_in_both_runs_and_not_judged(server):
    from snellen.engine.run_folder import RunFolder, RunSpec
    from snellen.runs.perform import perform

    spec = RunSpec(benchmark="clips", model="scripted", max_attempts=1)
    perform(spec, RunFolder("run"), benchmark=CLIPS, model=Scripted((*SAID[:3], None, *SAID[4:])))
    judged = asked(server)
    assert len(server.asked) == 4
    assert values(judged)["v3"] == values(load_run("run"))["v3"] == (0.0, "error")
    assert judged.metric("without_verdict").value == 0.2 and judged.metric("video/AB").value == 0.5
    assert verdicts(judged)["verdicts"] == {"correct": 2, "partial": 1, "wrong": 1, "unscored": 1}
    assert "1 of 4 have no verdict" in load_run("run").notes()[-1]


def test_a_judge_that_failed_leaves_its_reply_unscored(server):
    class Broken(Scripted):
        name = "broken"

        async def answer(self, prompt: Prompt) -> Response:
            if "[[score0]]" in str(prompt.parts):
                raise ModelTimeoutError("too slow")
            return Response("Score: 1")

    evaluate(CLIPS, Scripted(), out="run")
    judged = judge("run", Broken(), max_attempts=1)
    assert judged.metric("without_verdict").value == 0.2 and judged.metric("video/AB").value == 1.0
    assert judged.metric("with_value").value == 4.0
    assert values(load_run("run"))["v3"] == (None, "unscored")


def test_an_explicit_rubric_judges_every_sample_and_its_verdicts_stay_where_they_are(server):
    evaluate(CLIPS, Scripted(("right",) * 6), out="run")
    judged = asked(server, rubric="match")
    assert len(server.asked) == 6 and judged.metric("accuracy").value == 1.0
    assert values(load_run("run"))["v1"] == (None, "unscored")
    assert "5 replies are not judged yet" in load_run("run").notes()[-1]
    assert load_run("run_judged").metric("accuracy").n == 6
    with pytest.raises(FingerprintError, match="rubric"):
        asked(server)


def test_a_benchmark_without_rubrics_is_judged_by_match(server):
    evaluate(PLAIN, Scripted(("right",) * 6), out="run")
    judged = asked(server)
    assert judged.meta.spec.data.options == {"rubric": "match"} and judged.metric("accuracy").n == 6
    with pytest.raises(JudgeError, match="no rubric of its own"):
        asked(server, rubric="", out="elsewhere")


def test_without_a_reply_that_a_judge_decides_nothing_is_asked(server):
    evaluate(CLIPS, Scripted(), out="run", limit=1)
    with pytest.raises(JudgeError, match="holds no reply that a rubric of clips decides"):
        asked(server)
    assert not Path("run_judged").exists()


def test_the_saved_summary_follows_newer_verdicts(server, capsys):
    evaluate("clips", Scripted(), out="run")
    assert load_run("run").summary_is_current()
    asked(server, limit=2)
    assert saved("run")["official"]["video/ABA"] == 1.0
    aside = json.loads(Path("run/summary.json").read_text())
    asked(server)
    Path("run/summary.json").write_text(json.dumps(aside))
    early = Path("run_judged/results.jsonl").stat().st_mtime - 10
    os.utime("run/summary.json", (early, early))
    os.utime("run/results.jsonl", (early - 10, early - 10))
    assert not load_run("run").summary_is_current()
    again = rerun("run", benchmark=CLIPS, model=Scripted())
    assert saved("run")["official"]["video/ABA"] == 1.25 and again.summary_is_current()
    shutil.rmtree("run_judged")
    assert not load_run("run").summary_is_current()
    rerun("run", benchmark=CLIPS, model=Scripted())
    assert saved("run")["official"]["video/ABA"] is None and "judge" not in json.loads(
        Path("run/summary.json").read_text()
    )


def test_verdicts_on_a_run_that_was_begun_anew_are_not_used(server):
    evaluate(CLIPS, Scripted(), out="run")
    asked(server)
    shutil.rmtree("run")
    time.sleep(0.05)
    evaluate(CLIPS, Scripted(tuple("right" for _ in SAID)), out="run")
    assert {value for value, _ in list(values(load_run("run")).values())[1:]} == {None}
    assert "5 of 5 have no verdict" in load_run("run").notes()[-1]


def test_both_folders_may_move_together_and_another_runs_verdicts_are_not_taken(server):
    evaluate(CLIPS, Scripted(), out="run")
    asked(server)
    Path("kept").mkdir()
    shutil.move("run", "kept/run")
    shutil.move("run_judged", "kept/run_judged")
    assert values(load_run("kept/run"))["v1"] == (1.0, "correct")
    os.chdir("kept/run")
    assert values(load_run("."))["v1"] == (1.0, "correct")
    os.chdir("../..")
    evaluate(CLIPS, Scripted(), out="second")
    shutil.copytree("kept/run_judged", "second_judged")
    assert values(load_run("second"))["v1"] == (None, "unscored")
    assert "not judged yet" in load_run("second").notes()[-1]


def test_repeats_are_judged_one_by_one(server):
    evaluate(CLIPS, Scripted(), out="run", repeats=2)
    judged = asked(server)
    assert set(values(judged)) == {f"v{i}{again}" for i in range(1, 6) for again in ("", "#1")}
    metric = load_run("run").metric("video/AB")
    assert metric.n == 4 and metric.value == 0.5 and judged.metric("video/AB").n == 4
    assert judged.metric("again/1").value == pytest.approx((1.0 + 1.0 + 0.0 + 1.5) / 4)


def test_gold_of_a_restricted_benchmark_is_in_no_file_of_either_run(server):
    evaluate(SECRET, Scripted(("right", "tells_gold", "tells_gold", "score0", "score1", "score1")), out="run")
    judged = asked(server)
    assert values(judged)["v1"] == (1.0, "correct") == values(load_run("run"))["v1"]
    written = [path for folder in ("run", "run_judged") for path in Path(folder).rglob("*") if path.is_file()]
    assert not [path for path in written if b"phascolarctos" in path.read_bytes().lower()]


def test_a_report_on_verdicts_of_a_restricted_benchmark_hides_what_names_the_gold(server):
    from snellen.reports.runs import report

    def telling(data: Data) -> Iterator[Sample]:
        for sample in samples(data):
            yield structs.replace(sample, meta={**sample.meta, "genus": "Phascolarctos", "habitat": "eucalypts"})

    benchmark = replace(SECRET, samples=telling)
    evaluate(benchmark, Scripted(), out="run")
    judged = asked(server, benchmark=benchmark)
    page = report([judged], "report.html").read_text().lower()
    assert "eucalypts" in page and "phascolarctos" not in page


def test_the_command_judges_by_the_benchmarks_own_rubrics_and_says_so(server, capsys):
    evaluate(CLIPS, Scripted(), out="run")
    given = ["--model", "api:stub-judge", "--base-url", server.url, "-q"]
    assert main(["judge", "run", *given]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1].partition(" ")[2])
    assert summary["rubric"] == "own" and summary["n"] == 5 and summary["labels"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert summary["verdicts"] == {"correct": 2, "partial": 1, "wrong": 1, "unscored": 1}
    assert summary["video/AB"] == 0.5
    assert main(["score", "run"]) == 0
    assert "judged by api:stub-judge in run_judged: 4 of 5 replies; 1 of 5 have no verdict" in capsys.readouterr().err


def test_of_all_nine_subtasks_the_videos_alone_are_judged_and_the_mean_of_nine_gets_its_value(server, tmp_path):
    class Describing(Scripted):
        async def answer(self, prompt: Prompt) -> Response:
            return Response("[[score1]]" if any(isinstance(part, Video) for part in prompt.parts) else "T")

    data = drawn.draw(tmp_path / "vlm2")
    run = evaluate("vlm2", Describing(), out="run", data=data)
    assert run.metric("overall_9", "paper").value is None and run.metric("pc-vid/video_score").value is None
    judged = asked(server)
    assert len(server.asked) == 3 == verdicts(judged)["n"] and judged.metric("pc-vid/video_ab").n == 2
    assert verdicts(judged)["pc-vid/video_score"] == judged.metric("pc-vid/video_score").value == 0.75
    again = load_run("run")
    assert again.metric("pc-vid/video_score").value == 0.75 == saved("run")["official"]["pc-vid/video_score"]
    assert again.metric("overall_9", "paper").value is not None
    assert again.metric("overall_8", "paper") == run.metric("overall_8", "paper")


def test_verdicts_from_somebody_elses_folder_are_named_as_such(server):
    evaluate(CLIPS, Scripted(), out="run")
    asked(server)
    meta = json.loads(Path("run_judged/run_meta.json").read_text()) | {"owner": "0" * 32}
    Path("run_judged/run_meta.json").write_text(json.dumps(meta))
    notes = load_run("run").notes()
    assert notes[-1].startswith(
        "judged by api:stub-judge in run_judged (a folder that this user's Snellen did not write): 4 of 5"
    )
    load_run("run").summarize("all")
    assert load_run("run").notes() == notes
