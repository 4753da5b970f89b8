"""`--fail-under METRIC=VALUE` of `run` and `score`: the lower end of the interval must reach the value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.stubs import ARITHMETIC
from snellen.benchmarks import registry
from snellen.errors import UsageError
from snellen.runs.threshold_check import Threshold, check_metrics, parse_threshold
from snellen.scoring.statistics import mean
from snellen.types import Metric

pytestmark = pytest.mark.installed

Snellen = Callable[..., Any]
SECOND = replace(ARITHMETIC, name="second")
BARE = replace(
    ARITHMETIC,
    name="bare",
    summarize=lambda scores, profile: [
        *ARITHMETIC.summarize(scores, profile),
        Metric("words", 12.0, 100, None, "words"),
    ],
)
REPLIED = replace(
    ARITHMETIC,
    name="replied",
    summarize=lambda scores, profile: [
        mean("accuracy", scores),
        *([mean("right", scores)] if (scores.value > 0).any() else []),
    ],
)


def no_metrics(scores: Any, profile: str) -> list[Metric]:
    raise ValueError("no metrics today")


FAULTY = replace(ARITHMETIC, name="faulty", summarize=no_metrics)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")
    for name in ("SECOND", "BARE", "REPLIED", "FAULTY"):
        monkeypatch.setitem(registry.BUILT_IN, name.lower(), f"{__name__}:{name}")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def answers(path: str, wrong: int = 20, *, rows: int = 100, missing: int = 0) -> str:
    """A file of answers: the first ones wrong, the last ones missing."""
    lines = [
        {"id": f"q{i}", "reply": None if i >= rows - missing else "?" if i < wrong else str(i % 7)} for i in range(rows)
    ]
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(snellen: Snellen, *words: str, benchmark: str = "arithmetic", file: str = "a.jsonl") -> Any:
    return snellen("run", benchmark, "-m", f"replay:{file}", "--out", "out", "--quiet", *words)


def test_the_lower_end_of_the_interval_decides_and_not_the_value(snellen: Snellen):
    answers("a.jsonl")
    said = run(snellen, "--fail-under", "accuracy=0.75")
    assert said.status == 11
    assert (
        "FAIL  accuracy of out does not reach 0.75: the lower end of its 95 % interval 0.7112 – 0.8666 is 0.7112 "
        "(value 0.8000, n = 100, coverage 100.0%)." in said.out
    )
    assert run(snellen, "--fail-under", "accuracy=0.7").status == 0
    assert run(snellen, "--fail-under", "accuracy=0.7", "--fail-under", "accuracy/1=0.9").status == 11
    for words, status in ((("accuracy=0.7",), 0), (("accuracy=0.8",), 11), (("accuracy/0=0.5", "accuracy=0.9"), 11)):
        options = [word for text in words for word in ("--fail-under", text)]
        assert snellen("score", "out", *options).status == status, words


def test_a_file_of_another_program_is_checked_too(snellen: Snellen):
    answers("a.jsonl")
    words = ("score", "a.jsonl", "--benchmark", "arithmetic", "--fail-under")
    assert snellen(*words, "accuracy=0.7").status == 0
    assert snellen(*words, "accuracy=0.75").status == 11


def test_an_unknown_metric_lists_the_names_after_the_results_were_printed(snellen: Snellen):
    answers("a.jsonl")
    said = run(snellen, "--fail-under", "acuracy=0.7", benchmark="replied")
    assert "note: --fail-under: only the answers tell whether replied has a metric 'acuracy'" in said.err
    assert said.status == 2 and "accuracy, right" in said.err and "has no metric 'acuracy'" in said.err
    assert "0.800" in said.out
    said = snellen("score", "out", "--fail-under", "acuracy=0.7", "--json", "--junit", "j.xml")
    assert said.status == 2 and json.loads(said.out)["profiles"]
    assert "Type: snellen score out --fail-under accuracy=0.7" in said.err
    assert ElementTree.parse("j.xml").getroot().get("errors") == "1"


def test_a_metric_that_the_run_cannot_have_is_refused_before_anything_is_asked(snellen: Snellen):
    answers("a.jsonl")
    said = run(snellen, "--fail-under", "acuracy=0.7")
    assert said.status == 2 and "arithmetic has no metric 'acuracy' under profile strict" in said.err
    assert "accuracy/0, accuracy/1, accuracy/2" in said.err and "No request was sent." in said.err
    assert "--fail-under accuracy=0.7" in said.err
    # With one question of the first kind only, the other kinds have no metric.
    assert run(snellen, "--limit", "1", "--fail-under", "accuracy/1=0.7").status == 2
    assert run(snellen, "--fail-under", "calibration/ece=0.7").status == 2
    said = run(snellen, "--fail-under", "accuracy=75")
    assert said.status == 2 and "Type: --fail-under accuracy=0.75" in said.err
    said = run(snellen, "--fail-under", "words=10", benchmark="bare")
    assert said.status == 2 and "words of bare has no interval" in said.err and "accuracy, accuracy/0" in said.err
    said = snellen("run", "arithmetic", "second", "-m", "replay:a.jsonl", "--fail-under", "third:accuracy=0.7")
    assert said.status == 2 and "third:accuracy" in said.err
    assert not Path("out").exists() and not Path("results").exists()


def test_a_metric_that_some_answers_have_is_accepted_and_a_faulty_benchmark_reports_its_own_fault(snellen: Snellen):
    answers("a.jsonl")
    assert run(snellen, "--fail-under", "right=0.7", benchmark="replied").status == 0
    said = snellen("run", "faulty", "-m", "replay:a.jsonl", "--out", "f", "--fail-under", "accuracy=0.1")
    assert said.status == 3 and "no metrics today" in said.err


@pytest.mark.parametrize("text", ["accuracy", "=0.5", "accuracy=", "accuracy=high", "accuracy=nan", "accuracy=inf"])
def test_a_threshold_that_cannot_be_read_is_refused_before_anything_is_asked(text: str, snellen: Snellen):
    answers("a.jsonl")
    said = run(snellen, "--fail-under", text)
    assert said.status == 2 and "--fail-under accuracy=0.7" in said.err
    assert not Path("out").exists()


def test_per_cent_and_metrics_without_an_interval_are_refused(snellen: Snellen):
    answers("a.jsonl")
    run(snellen, benchmark="bare")
    said = snellen("score", "out", "--fail-under", "accuracy=75")
    assert said.status == 2 and "Type: --fail-under accuracy=0.75" in said.err
    said = snellen("score", "out", "--fail-under", "words=10")
    assert said.status == 2 and "words of out has no interval" in said.err and "accuracy, accuracy/0" in said.err


def test_of_several_benchmarks_a_threshold_names_one_or_is_for_all(snellen: Snellen):
    answers("a.jsonl")
    call = ("run", "arithmetic", "second", "-m", "replay:a.jsonl", "--quiet", "--fail-under")
    assert snellen(*call, "accuracy=0.7").status == 0
    assert snellen(*call, "second:accuracy=0.75").status == 11
    said = snellen(*call, "second:accuracy=0.7", "--fail-under", "arithmetic:accuracy=0.9")
    assert said.status == 11 and said.out.count("FAIL") == 1 and said.out.count("PASS") == 1
    assert snellen(*call, "third:accuracy=0.7").status == 2


def test_missing_answers_count_as_0_and_too_few_cannot_pass(snellen: Snellen):
    answers("a.jsonl", 0, missing=4)
    said = run(snellen)
    assert said.status == 9 and "FAIL" not in said.out
    assert run(snellen, "--fail-under", "accuracy=0.5").status == 9  # as without the option: 4 have no answer
    assert snellen("score", "out", "--fail-under", "accuracy=0.9").status == 0
    assert snellen("score", "out", "--fail-under", "accuracy=0.95").status == 11
    assert snellen("score", "out", "--fail-under", "accuracy=0.9", "--min-coverage", "0.99").status == 9
    answers("half.jsonl", 0, rows=50)
    words = ("score", "half.jsonl", "--benchmark", "arithmetic", "--fail-under", "accuracy=0.1")
    said = snellen(*words)
    assert said.status == 9 and "FAIL  50 of 100 samples have an answer, less than 90%." in said.out
    assert snellen(*words, "--min-coverage", "0.5").status == 0
    said = snellen(*words, "--min-coverage", "1")
    assert said.status == 9 and "50 of 100 samples have an answer, all are needed." in said.out
    assert snellen("score", "out", "--min-coverage", "0.5").status == 2
    answers("empty.jsonl", 0, missing=50)
    assert snellen("score", "empty.jsonl", "--benchmark", "arithmetic", "--fail-under", "accuracy=0.1").status == 9


def test_a_run_with_a_limit_is_checked_on_its_part(snellen: Snellen):
    answers("a.jsonl", 0)
    assert run(snellen, "--limit", "50", "--fail-under", "accuracy=0.9").status == 0
    assert snellen("score", "out", "--fail-under", "accuracy=0.9").status == 0


def test_a_run_that_was_cut_off_does_not_pass(snellen: Snellen):
    answers("a.jsonl", 0)
    run(snellen)
    journal = Path("out/results.jsonl")
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:40]))
    said = snellen("score", "out", "--fail-under", "accuracy=0.5")
    assert said.status == 9 and "40 of 100 samples have an answer" in said.out


def test_json_has_the_checks_and_the_lines_go_to_stderr(snellen: Snellen):
    answers("a.jsonl")
    said = run(snellen, "--fail-under", "accuracy=0.75", "--json")
    (check,) = json.loads(said.out)["checks"]
    assert (check["metric"], check["least"], check["passed"], check["value"]) == ("accuracy", 0.75, False, 0.8)
    assert "FAIL  accuracy of out does not reach 0.75" in said.err
    said = snellen("score", "out", "--fail-under", "accuracy=0.7", "--json")
    assert [row["passed"] for row in json.loads(said.out)["checks"]] == [True]


def test_junit_of_a_run_has_its_answers_its_thresholds_and_its_metrics(snellen: Snellen):
    answers("a.jsonl", missing=3)
    assert run(snellen, "--fail-under", "accuracy=0.9", "--junit", "j.xml", "--step-summary", "s.md").status == 9
    (suite,) = ElementTree.parse("j.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("arithmetic · replay:a.jsonl", "2", "2")
    assert [case.get("name") for case in suite.iter("testcase")] == ["samples are answered", "accuracy is at least 0.9"]
    properties = {node.get("name"): node.get("value") or "" for node in suite.iter("property")}
    assert properties["accuracy"].startswith("0.77 [0.67") and "n=100" in properties["accuracy"]
    summary = Path("s.md").read_text()
    assert "### arithmetic · replay:a.jsonl" in summary and "| accuracy | 0.7700 |" in summary
    assert "- ❌ **samples are answered**: 97 of 100" in summary


def test_a_run_that_does_not_start_is_an_error_in_the_junit_file(snellen: Snellen):
    said = run(snellen, "--junit", "j.xml", file="gone.jsonl")
    assert said.status not in (0, 10, 11)
    assert ElementTree.parse("j.xml").getroot().get("errors") == "1"
    said = run(snellen, "--junit", "k.xml", "--json", file="gone.jsonl")
    assert said.status not in (0, 10, 11)
    assert ElementTree.parse("k.xml").getroot().get("errors") == "1"


def test_a_failed_run_of_a_table_has_the_tables_name(snellen: Snellen):
    Path("q.jsonl").write_text('{"id": 1, "question": "?", "answer": "A", "options": ["x", "y"]}\n')
    for models in (["-m", "replay:gone.jsonl"], ["-m", "replay:gone.jsonl", "-m", "replay:none.jsonl"]):
        said = snellen("run", "q.jsonl", *models, "--out", "o", "--json", "--junit", "k.xml")
        failed = json.loads(said.out)["runs"]
        assert said.status and {row["benchmark"] for row in failed} == {"q.jsonl"}
    assert "q.jsonl · replay:gone.jsonl" in [suite.get("name") for suite in ElementTree.parse("k.xml").getroot()]


def test_text_that_xml_cannot_hold_and_keys_are_not_in_the_junit_file(
    snellen: Snellen, monkeypatch: pytest.MonkeyPatch
):
    from snellen import redaction
    from snellen.reports.ci_pages import junit_xml
    from snellen.runs.threshold_check import CheckCase, CheckSuite

    key = "sk-proj-abcdefghijklmnop0123456789ABCDEFGH"
    redaction.register(key)
    data = junit_xml([CheckSuite("a\x00b", [CheckCase("x\x1b<", "failed", f"\ud800 {key} & more", "below")])])
    root = ElementTree.fromstring(data)
    assert key.encode() not in data
    case = root.find(".//testcase")
    assert case is not None and case.get("name") == "x\ufffd<"


def test_thresholds_are_read_and_metrics_with_colons_keep_them():
    assert parse_threshold("recall/a:b=0.5") == Threshold("recall/a:b", 0.5)
    threshold = Threshold("recall/a:b", 0.5)
    assert threshold.metric("chart", (), ["recall/a:b"]) == "recall/a:b"
    assert Threshold("chart:x", 0.5).metric("chart", (), ["x"]) == "x"
    assert Threshold("chart:x", 0.5).metric("other", ("chart",), ["x"]) is None


def test_the_python_function_gives_the_same_checks(snellen: Snellen):
    answers("a.jsonl")
    run(snellen)
    checks = check_metrics("out", {"accuracy": 0.7, "accuracy/1": 0.9})
    assert [check.passed for check in checks] == [True, False]
    with pytest.raises(UsageError, match="It has: accuracy, accuracy/0"):
        check_metrics("out", {"f1": 0.7})


def test_a_run_without_answers_is_told_no_share_that_nobody_asked_for(
    snellen: Snellen, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "steps.md")
    answers("empty.jsonl", 0, missing=100)
    said = snellen("score", "empty.jsonl", "--benchmark", "arithmetic")
    written = Path("steps.md").read_text(encoding="utf-8") if Path("steps.md").exists() else ""
    assert "90" not in said.out + said.err + written
