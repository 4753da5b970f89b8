"""Labels by rules, by a judge over the project's own engine, and by people over both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import failing_runs as made
import pytest
from failing_runs import JUDGE, RULES, label, run

from servers.scripted import ScriptedServer
from snellen import load_run
from snellen.cli import main
from snellen.cli.results import UNANSWERED
from snellen.errors import DataError, JudgeError
from snellen.reports.failures.labels import count_labels
from snellen.runs.failures import benchmark, review, rules
from snellen.runs.failures import judge as judging
from snellen.runs.failures.labels import PEOPLE, RULE_AND_JUDGE, settle
from snellen.runs.failures.review import ReviewDecision


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made.settle(monkeypatch, tmp_path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["failures", *arguments, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    return one


def answers(one: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {answer["sample_id"]: answer for answer in one["answers"]}


def decide(path: str, **said: str) -> str:
    lines = [json.dumps({"sample_id": name, "label": label, "note": "seen"}) + "\n" for name, label in said.items()]
    Path(path).write_text("".join(lines))
    return path


def test_a_judge_labels_what_is_not_correct_and_differences_from_the_rules_are_listed(capsys):
    run("run")
    status, server = label()
    out = capsys.readouterr().out
    assert status == 0 and len(server.asked) == 5  # not the correct answer
    assert "rule and judge agree on 3 of 4 (75.0 %)" in out
    assert "review run s001: rule and judge differ; rule: no search, judge: poor visual judgement" in out
    assert "No rule covers 1 of the answers labelled by the judge." in out
    one = told(capsys, "run")  # the judge's labels are taken from the run beside it, nobody is asked
    held = answers(one)
    assert {name: answer["rule"] for name, answer in held.items()} == RULES
    assert {name: answer["judge"] for name, answer in held.items()} == {
        f"s00{name[1]}": v for name, v in JUDGE.items() if name != "q4"
    }
    assert (held["s001"]["label"], held["s001"]["source"], held["s001"]["review"]) == (
        "no_search",
        "rule",
        RULE_AND_JUDGE,
    )
    assert (held["s005"]["label"], held["s005"]["source"]) == ("poor_visual_judgement", "judge")
    assert one["counts"]["poor_visual_judgement"] == {"rule": 0, "judge": 1, "person": 0, "none": 0}
    assert one["agreement"][0]["n"] == 4 and one["review"] == 1
    kept = [json.loads(line) for line in Path("run/failures.jsonl").read_text().splitlines()]
    assert kept == one["answers"]


def test_a_run_without_a_search_tool_did_not_omit_a_search(capsys):
    run("run")
    assert answers(told(capsys, "run"))["s001"]["label"] == "no_search"
    path = Path("run/run_meta.json")
    meta = json.loads(path.read_text())
    assert "web_search" in meta["identity"]["model"]["tools"]["tools"]
    meta["identity"]["model"]["tools"]["tools"] = ["crop_zoom", "view_image"]
    path.write_text(json.dumps(meta))
    assert answers(told(capsys, "run"))["s001"]["label"] == "unknown"


def test_the_judge_sees_question_gold_answer_and_trace_and_no_gold_is_written():
    run("run")
    _, server = label()
    asked = {name: "\n".join(str(m["content"]) for m in server.of(name)[0]["messages"]) for name in ("q0", "q2", "q3")}
    assert "Reference answer: Zyxgold 2 Mark II (also accepted: Qwvalias-2" in asked["q2"]
    assert "Answer: Ibis Two" in asked["q2"] and "Said of it: incorrect" in asked["q2"]
    assert (
        'fetch_url {"url":"https://example.org/2"} -> ' in asked["q2"]
        and "this is the Zyxgold 2 Mark II" in asked["q2"]
    )
    assert "No answer could be read from this reply: {}" in asked["q3"]
    assert (
        asked["q0"].index("<<<RECORD ")
        < asked["q0"].index("Falcon Nine")
        < asked["q0"].index("RECORD", asked["q0"].index("Falcon Nine"))
    )
    written = made.text_of("run_failures") + Path("run/failures.jsonl").read_bytes().lower()
    for planted in (b"zyxgold", b"qwvalias", b"zyxlabel"):
        assert planted not in written
    assert b"[gold withheld]" in written and b"key-of-the-judge" not in written


def test_a_judge_that_was_cut_short_goes_on_and_asks_only_about_what_has_no_label(capsys):
    run("run")
    with ScriptedServer(made.labels(frozenset({"q1", "q5"})), seconds=120) as server:
        status, _ = label("--max-attempts", "1", server=server)
        assert status == UNANSWERED
        held = answers(told(capsys, "run"))
        assert len(server.asked) == 5 and held["s001"]["judge"] is None and held["s005"]["label"] == "unknown"
        server.scripts.update(made.labels())
        server.asked.clear()
        status, _ = label("--max-attempts", "1", server=server)
        assert (
            status == 0
            and {name for name in ("q1", "q5") if server.of(name)} == {"q1", "q5"}
            and len(server.asked) == 2
        )
        assert main(["rerun", "run_failures", "-q", "--base-url", server.url]) == 0 and len(server.asked) == 2
    held = answers(told(capsys, "run"))
    assert held["s005"]["judge"] == "poor_visual_judgement"
    records = [json.loads(line) for line in Path("run_failures/results.jsonl").read_text().splitlines()]
    assert sorted(one["sample_id"] for one in records if one["status"] == "ok") == [
        "s000",
        "s001",
        "s002",
        "s003",
        "s005",
    ]
    metrics = {one.name: one for one in load_run("run_failures").summarize(save=False).metrics["judge"]}
    assert (metrics["poor_visual_judgement"].value, metrics["without_label"].value) == (0.4, 0.0)


def test_labels_by_another_judge_are_not_mixed_with_the_first_ones(capsys):
    run("run")
    label()
    capsys.readouterr()
    status, second = label("--temperature", "0.5")
    assert status != 0 and not second.asked
    assert "Move run_failures away, or remove it" in capsys.readouterr().err


def test_before_the_verdicts_there_is_nothing_to_label_and_it_says_so(capsys):
    run("run", judged=False)
    capsys.readouterr()
    assert main(["failures", "run"]) == 0
    assert "1 incorrect; its answers are not judged yet: snellen judge run --model api:NAME" in capsys.readouterr().out


def test_a_person_decides_over_both_and_two_people_who_differ_are_listed(capsys):
    run("run")
    label()
    mine, other = (
        decide("mia.jsonl", s001="poor_visual_judgement", s005="too_coarse"),
        decide("tom.jsonl", s001="poor_visual_judgement", s005="no_search"),
    )
    capsys.readouterr()
    assert main(["failures", "run", "--review", mine, "--review", other]) == 0
    out = capsys.readouterr().out
    assert "mia and tom agree on 1 of 2 (50.0 %)" in out
    assert (
        "review run s005: people differ; rule: unknown, judge: poor visual judgement, mia: too coarse, tom: no search"
        in out
    )
    held = answers(told(capsys, "run"))  # what was decided is kept
    assert (held["s001"]["label"], held["s001"]["source"], held["s001"]["review"]) == (
        "poor_visual_judgement",
        "person",
        "",
    )
    assert held["s005"]["people"] == {"mia": "too_coarse", "tom": "no_search"} and held["s005"]["review"] == PEOPLE
    held = answers(told(capsys, "run", "--review", decide("mia.jsonl", s005="no_search")))
    assert held["s005"]["people"] == {"tom": "no_search", "mia": "no_search"} and held["s005"]["review"] == ""
    assert held["s005"]["why"] == {"tom": "seen", "mia": "seen"}


def test_a_note_that_names_the_gold_is_kept_without_it(capsys):
    run("run")
    line = {"sample_id": "s001", "label": "format", "by": "mia", "note": "it is a Zyxgold 1 Mark II"}
    Path("mia.jsonl").write_text(json.dumps(line) + "\n")
    assert answers(told(capsys, "run", "--review", "mia.jsonl"))["s001"]["why"] == {"mia": "it is a [gold withheld]"}
    assert b"zyxgold" not in Path("run/failures.jsonl").read_bytes().lower()


def test_names_of_people_cannot_write_to_the_terminal(capsys):
    run("run")
    lines = [{"sample_id": "s001", "label": label, "by": f"{label}\x1b[31m\nreview"} for label in ("format", "timeout")]
    Path("hostile.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert main(["failures", "run", "--review", "hostile.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "format⟦U+001B⟧[31m review: format" in out
    assert sum(line.startswith("review") for line in out.splitlines()) == 1


def test_a_judges_run_has_no_failures_of_its_own(capsys):
    run("run")
    label()
    for folder in ("run_judged", "run_failures"):
        assert main(["failures", folder]) == 2
        assert "is a judge's run" in capsys.readouterr().err


def test_labels_are_neither_judged_nor_published_as_if_they_were_answers(capsys):
    run("run")
    label()
    capsys.readouterr()
    assert main(["judge", "run_failures", "-m", "stub-judge", "--base-url", "http://127.0.0.1:9/v1"]) == 2
    assert "run_failures holds labels of failures" in capsys.readouterr().err
    assert not Path("run_failures_judged").exists()
    assert main(["report", "run_failures", "--redact", "public"]) == 2
    assert "run_failures holds labels of failures" in capsys.readouterr().err and not Path("public").exists()


def test_of_several_runs_a_decision_names_its_own(capsys):
    run("run")
    run("other", made.OTHER, "plain", right=())
    with pytest.raises(DataError, match="line 1: it does not say which run it is about"):
        review.read_reviews([Path(decide("mia.jsonl", s001="format"))], ["run", "other"])
    Path("mia.jsonl").write_text(json.dumps({"run": "other", "sample_id": "s001", "label": "format"}) + "\n")
    capsys.readouterr()
    assert main(["failures", "run", "other", "--review", "mia.jsonl", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["runs"]
    assert answers(first)["s001"]["label"] == "no_search" and answers(second)["s001"]["label"] == "format"
    with pytest.raises(DataError, match="all its 1 decisions are about other runs than run"):
        review.read_reviews([Path("mia.jsonl")], ["run"])


def test_a_rubric_with_labels_that_are_not_ours_is_refused_before_anybody_is_asked(tmp_path):
    run("run")
    text = Path(str(judging.__file__)).parents[2].joinpath("scoring/rubrics/failures.toml").read_text()
    Path("mine.toml").write_text(text.replace("no_search = 0.0", "lazy = 0.0"))
    with pytest.raises(JudgeError, match="no such label: 'lazy'"):
        judging.label_failures(load_run("run"), "api:labeller", rubric="mine.toml", base_url="http://127.0.0.1:9/v1")
    Path("mine.toml").write_text(text.replace('field = "label"', 'field = "verdict"'))
    with pytest.raises(JudgeError, match="three or more labels under 'label'"):
        judging.label_failures(load_run("run"), "api:labeller", rubric="mine.toml", base_url="http://127.0.0.1:9/v1")
    assert not Path("run_failures").exists()


def test_the_rubric_and_the_rules_know_the_same_labels():
    assert tuple(benchmark.rubric_of("").verdict.labels) == rules.labels()


@pytest.mark.parametrize(
    ("rule", "judge", "said", "expected"),
    [
        ("format", None, (), ("format", "rule", "")),
        ("format", "format", (), ("format", "rule", "")),
        ("format", "unknown", (), ("format", "rule", RULE_AND_JUDGE)),
        ("unknown", "no_search", (), ("no_search", "judge", "")),
        ("unknown", "unknown", (), ("unknown", "none", "")),
        ("format", "timeout", ("no_search",), ("no_search", "person", "")),
        ("format", None, ("no_search", "timeout"), ("timeout", "person", PEOPLE)),
    ],
)
def test_people_come_before_rules_and_rules_before_the_judge(rule, judge, said, expected):
    people = [ReviewDecision("a", one, by=str(number)) for number, one in enumerate(said)]
    found = settle(("a", 0), frozenset(), rule, judge, people)
    assert (found.label, found.source, found.review) == expected


def test_a_review_whose_ids_match_no_answer_is_refused_with_the_option_that_matches(capsys):
    run("run")
    decide("mia.jsonl", **{"1": "format", "99": "timeout"})
    capsys.readouterr()
    assert main(["failures", "run", "--review", "mia.jsonl"]) == 3
    told = capsys.readouterr().err
    assert "none of 2 decisions belongs to an answer of run" in told and "Give --id-is position" in told
    assert not Path("run/failures.jsonl").exists()
    assert main(["failures", "run", "--review", "mia.jsonl", "--id-is", "position", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    assert answers(one)["s001"]["label"] == "format" and answers(one)["s001"]["source"] == "person"
    assert "1 of 2 decisions belong to no answer of the run: '99'" in one["notes"]


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xff\xfe", b'{"id": "s001", "label": "format"}'])
def test_a_file_that_is_no_review_is_answered_with_its_form(capsys, content):
    run("run")
    Path("mia.jsonl").write_bytes(content)
    capsys.readouterr()
    assert main(["failures", "run", "--review", "mia.jsonl"]) == 3
    assert 'A review is a file of JSON lines: {"sample_id"' in " ".join(capsys.readouterr().err.split())


def test_unknown_answers_come_with_the_options_that_label_them(capsys):
    run("run")
    capsys.readouterr()
    assert main(["failures", "run"]) == 0
    unknown = sum(answer["source"] == "none" for answer in answers(told(capsys, "run")).values())
    assert unknown > 0
    assert main(["failures", "run"]) == 0
    assert f"{unknown} unknown: no rule decides them. Label them with a model: --judge" in capsys.readouterr().out
    everything = dict.fromkeys(answers(told(capsys, "run")), "format")
    assert main(["failures", "run", "--review", decide("all.jsonl", **everything)]) == 0
    assert "no rule decides" not in capsys.readouterr().out


def test_pages_about_a_table_have_its_name_as_title_and_not_its_path(capsys, tmp_path):
    rows = "".join(f"{i},Is {i} even?,yes,no,{'AB'[i % 2]}\n" for i in range(8))
    (tmp_path / "own.csv").write_text(f"id,question,A,B,answer\n{rows}", encoding="utf-8")
    Path("said.jsonl").write_text("".join(json.dumps({"id": i, "reply": "yes"}) + "\n" for i in range(8)))
    assert main(["run", str(tmp_path / "own.csv"), "-m", "replay:said.jsonl", "--out", "table", "--quiet"]) == 0
    assert main(["failures", "table", "--pages", "pages"]) == 0
    page = Path("pages/index.html").read_text(encoding="utf-8")
    title = page[page.index("<title>") : page.index("</title>")]
    assert "own" in title and str(tmp_path) not in title and "/" not in title


def test_of_answers_without_tools_it_is_said_that_no_rule_can_tell_why_they_are_wrong():
    def labelled(number: int, *signals: str, judge: str | None = None):
        return settle((f"q{number}", 0), signals, "unknown", judge)

    said = " ".join(
        count_labels(
            [
                labelled(1, "answered"),
                labelled(2, "answered"),
                labelled(3, "answered", "traced", "searched"),
                labelled(4, "answered", judge="poor_visual_judgement"),
            ]
        ).notes
    )
    assert "2 of the unknown answers were given without tools" in said
    assert "without tools" not in " ".join(count_labels([labelled(3, "answered", "traced")]).notes)
