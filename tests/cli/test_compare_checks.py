"""`snellen compare --fail-if-worse`: a planned drop fails with 10, a planned non-drop passes, and nothing else is either."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.stubs import ARITHMETIC
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.errors import DifferentSamplesError, NothingAnsweredError, RunError, UsageError
from snellen.runs.drop_check import check_drop
from snellen.types import Sample

Snellen = Callable[..., Any]


def four_an_image(data: Data) -> Iterator[Sample]:
    """Sums, four to an image."""
    for sample in ARITHMETIC.samples(data):
        yield Sample(
            sample.id, sample.prompt, sample.target, "count", group=f"image {int(sample.id[1:]) // 4}", meta=sample.meta
        )


IMAGES = replace(ARITHMETIC, name="images", samples=four_an_image, cluster="image")
OTHER = replace(ARITHMETIC, name="other")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")
    for name in ("IMAGES", "OTHER"):
        monkeypatch.setitem(registry.BUILT_IN, name.lower(), f"{__name__}:{name}")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def run(
    out: str,
    wrong: set[int],
    *,
    n: int = 400,
    missing: set[int] = frozenset(),  # type: ignore[assignment]
    benchmark: Any = ARITHMETIC,
    **more: Any,
) -> str:
    """A run that is wrong where `wrong` says, and has no answer where `missing` says."""
    rows = [{"id": f"q{i}", "reply": None if i in missing else "?" if i in wrong else str(i % 7)} for i in range(n)]
    Path(f"{out}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(benchmark, f"replay:{out}.jsonl", out=out, benchmark_options={"n": str(n)}, **more)
    return out


def cut(folder: str, lines: int) -> None:
    """Take all but the first lines of a journal away, as a killed job leaves it."""
    journal = Path(folder) / "results.jsonl"
    journal.write_text("".join(line + "\n" for line in journal.read_text().splitlines()[:lines]))


def test_a_planned_drop_exits_with_10_and_says_so_in_one_sentence(snellen: Snellen):
    run("old", set(range(40)))
    run("new", set(range(80)))
    said = snellen("compare", "old", "new", "--fail-if-worse", "--margin", "0.01")
    assert said.status == 10
    (line,) = [line for line in said.out.splitlines() if line.startswith("FAIL")]
    assert "B = new is significantly worse than A = old by more than 0.01" in line
    assert "mean score 0.8000 against 0.9000, difference B - A -0.1000 (95 % interval -0.1296 to -0.0694)" in line
    assert "one-sided p = 0.0001 (worse means p < 0.05), margin 0.01, n = 400 samples." in line


def test_a_planned_non_drop_exits_with_0_and_names_the_drop_that_would_be_detected(snellen: Snellen):
    rng = random.Random(3)
    run("old", set(rng.sample(range(400), 40)))
    run("new", set(rng.sample(range(400), 44)))
    said = snellen("compare", "old", "new", "--fail-if-worse", "--margin", "0.01")
    assert said.status == 0
    assert "PASS  B = new is not significantly worse than A = old by more than 0.01" in said.out
    assert "A true drop of 0.0" in said.out and "would be detected with 80 % power." in said.out


def test_a_better_run_passes_and_the_order_of_the_runs_decides(snellen: Snellen):
    run("worse", set(range(80)))
    run("better", set(range(20)))
    assert snellen("compare", "worse", "better", "--fail-if-worse").status == 0
    assert snellen("compare", "better", "worse", "--fail-if-worse").status == 10


def test_a_drop_within_the_margin_passes(snellen: Snellen):
    run("old", set(range(40)))
    run("new", set(range(60)))
    assert snellen("compare", "old", "new", "--fail-if-worse").status == 10
    assert snellen("compare", "old", "new", "--fail-if-worse", "--margin", "0.05").status == 0
    assert snellen("compare", "old", "new", "--fail-if-worse", "--margin", "0.01").status == 10


def test_wrong_answers_on_few_images_are_no_drop_by_cluster(snellen: Snellen):
    run("old", set(), benchmark=IMAGES)
    run("new", set(range(16)), benchmark=IMAGES)  # 16 answers, but 4 images
    said = snellen("compare", "old", "new", "--fail-if-worse")
    assert said.status == 0 and "n = 400 samples in 100 clusters (by image)" in said.out
    run("alone", set())
    run("alone-new", set(range(16)))
    assert snellen("compare", "alone", "alone-new", "--fail-if-worse").status == 10


@pytest.mark.parametrize("how", ["failed", "cut", "limited"])
def test_a_run_that_lacks_half_of_the_answers_cannot_pass_however_good_the_rest_is(how: str, snellen: Snellen):
    run("old", set(range(0, 400, 2)) | set(range(1, 400, 4)))  # 25 % right
    if how == "failed":
        run("new", set(), missing=set(range(200, 400)))
    else:
        run("new", set(), **({"limit": 200} if how == "limited" else {}))
        if how == "cut":
            cut("new", 200)
    said = snellen("compare", "old", "new", "--fail-if-worse", "--margin", "0.01")
    assert said.status == 9
    assert "FAIL" in said.out and "samples without an answer count as 0: 200 of B" in said.out
    assert "This does not pass: B has an answer to 50.0% of its samples, less than 90%." in said.out


def test_missing_answers_count_as_0_and_make_a_good_run_worse(snellen: Snellen):
    run("old", set(range(40)))
    run("new", set(range(40)), missing=set(range(200, 400)))
    said = snellen("compare", "old", "new", "--fail-if-worse")
    assert said.status == 10
    assert "mean score 0.4000 against 0.9000" in said.out and "n = 400 samples" in said.out


def test_a_baseline_that_lacks_half_of_its_answers_hides_no_drop(snellen: Snellen):
    run("old", set(), missing=set(range(200, 400)))
    run("new", set(range(100)))
    said = snellen("compare", "old", "new", "--fail-if-worse")
    assert said.status == 9 and "A has an answer to 50.0% of its samples" in said.out


def test_two_runs_that_were_cut_off_at_the_same_place_do_not_pass(snellen: Snellen):
    for name in ("old", "new"):
        run(name, set())
        cut(name, 200)
    assert snellen("compare", "old", "new", "--fail-if-worse").status == 9


def test_two_runs_with_one_limit_are_compared_on_it(snellen: Snellen):
    run("old", set(), limit=100)
    run("new", {1}, limit=100)
    said = snellen("compare", "old", "new", "--fail-if-worse")
    assert said.status == 0 and "n = 100 samples" in said.out


def test_few_missing_answers_pass_and_another_share_can_be_asked_for(snellen: Snellen):
    run("old", set(range(40)))
    run("new", set(range(40)), missing={0, 1, 2})
    assert snellen("compare", "old", "new", "--fail-if-worse", "--margin", "0.01").status == 0
    assert snellen("compare", "old", "new", "--fail-if-worse", "--min-coverage", "1").status == 9


def test_other_questions_another_benchmark_or_no_folder_are_errors_of_their_own(snellen: Snellen):
    run("old", set(), n=100)
    run("longer", set(), n=101)
    run("other", set(), n=100, benchmark=OTHER)
    Path("empty").mkdir()
    for other, status, text in (
        ("longer", 12, "did not answer the same samples"),
        ("other", 12, "benchmark: arithmetic in the baseline, other in the other"),
        ("no-such", 5, "no-such"),
        ("empty", 5, "empty"),
        ("old", 2, "passed twice"),
    ):
        said = snellen("compare", "old", other, "--fail-if-worse", "--margin", "0.01")
        assert (said.status, text in said.err) == (status, True), other
        assert "PASS" not in said.out
    assert snellen("compare", "no-such", "old", "--fail-if-worse").status == 5


def test_a_run_without_any_answer_exits_with_9(snellen: Snellen):
    run("old", set(), n=50)
    run("new", set(), n=50, missing=set(range(50)))
    said = snellen("compare", "old", "new", "--fail-if-worse")
    assert said.status == 9 and "none of 50 samples was answered" in said.err


def test_options_that_make_no_check_are_refused(snellen: Snellen):
    run("a", set(), n=10)
    run("b", set(), n=10)
    for words, text in (
        (("--margin", "0.01"), "--margin belongs to --fail-if-worse"),
        (("--fail-if-worse", "--margin", "1"), "For one point of 100, write --margin 0.01."),
        (("--fail-if-worse", "--margin", "-0.1"), "not from 0 to below 1"),
        (("--fail-if-worse", "--margin", "nan"), "finite numbers"),
        (("--fail-if-worse", "--alpha", "0"), "--alpha 0.05"),
        (("--fail-if-worse", "--min-coverage", "90"), "--min-coverage 0.9"),
        (("--fail-if-worse", "--force"), "exclude each other"),
        (("--fail-if-worse", "--metric", "accuracy"), "--fail-under accuracy=VALUE"),
        (("--junit", "checks.xml"), "none is made"),
        (("--fail-if-worse", "--junit", "checks.html"), "checks.xml"),
    ):
        said = snellen("compare", "a", "b", *words)
        assert (said.status, text in said.err) == (2, True), (words, said.err)


def test_several_runs_are_adjusted_for_their_number(snellen: Snellen):
    run("old", set(range(40)))
    for name, wrong in (("same", 40), ("slightly", 46), ("much", 80)):
        run(name, set(range(wrong)))
    assert snellen("compare", "old", "slightly", "--fail-if-worse").status == 10  # p = 0.016
    said = snellen("compare", "old", "same", "slightly", "much", "--fail-if-worse", "--json")
    assert said.status == 10
    checks = json.loads(said.out)["checks"]["worse"]
    assert [check["status"] for check in checks] == ["passed", "worse", "worse"]
    assert checks[1]["p_adjusted"] == pytest.approx(2 * checks[1]["p_value"]) and checks[0]["p_adjusted"] == 1.0
    assert "after Holm" in checks[1]["text"] and "FAIL  B = much" in said.err


def test_thresholds_are_checked_for_every_run_but_the_baseline(snellen: Snellen):
    run("old", set(range(300)))
    run("new", set(range(40)))
    assert snellen("compare", "old", "new", "--fail-under", "accuracy=0.85").status == 0
    said = snellen("compare", "old", "new", "--fail-under", "accuracy=0.89")
    assert said.status == 11 and "FAIL  accuracy of new does not reach 0.89" in said.out


def test_junit_and_the_step_summary_say_what_the_exit_status_says(snellen: Snellen, monkeypatch: pytest.MonkeyPatch):
    run("old", set(range(40)))
    run("new_<1>", set(range(80)))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("before\n")
    said = snellen(
        "compare", "old", "new_<1>", "--fail-if-worse", "--fail-under", "accuracy=0.5", "--junit", "out/checks.xml"
    )
    assert said.status == 10
    root = ElementTree.parse("out/checks.xml").getroot()
    assert root.attrib == {"name": "snellen", "tests": "2", "failures": "1", "errors": "0"}
    worse, above = root.iter("testcase")
    failure = worse.find("failure")
    assert (
        failure is not None
        and failure.get("type") == "worse"
        and "new_<1> is significantly" in failure.get("message", "")
    )
    assert above.find("failure") is None
    summary = Path("summary.md").read_text()
    assert summary.startswith("before\n") and "| all | 400 | 0.9000 | 0.8000 |" in summary
    assert "- ❌ **new\\_\\<1\\> is not worse than old**" in summary


def test_an_error_is_a_case_of_the_junit_file_too(snellen: Snellen):
    run("old", set(), n=10)
    said = snellen("compare", "old", "gone", "--fail-if-worse", "--junit", "checks.xml", "--step-summary", "s.md")
    assert said.status == 5
    root = ElementTree.parse("checks.xml").getroot()
    error = root.find(".//error")
    assert root.get("errors") == "1" and error is not None and error.get("type") == "RunError"
    assert "⚠️" in Path("s.md").read_text()


def test_a_junit_file_that_cannot_be_written_is_an_error(snellen: Snellen):
    run("a", set(), n=10)
    run("b", set(), n=10)
    Path("file").write_text("")
    said = snellen("compare", "a", "b", "--fail-if-worse", "--junit", "file/checks.xml")
    assert said.status == 6 and "--junit file/checks.xml cannot be written" in said.err


def test_a_step_summary_that_only_the_variable_names_is_no_reason_to_fail(
    snellen: Snellen, monkeypatch: pytest.MonkeyPatch
):
    run("a", set(), n=10)
    run("b", set(), n=10)
    Path("file").write_text("")
    said = snellen("compare", "a", "b", "--step-summary", "file/summary.md")
    assert said.status == 6 and "--step-summary file/summary.md cannot be written" in said.err
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "file/summary.md")
    said = snellen("compare", "a", "b")
    assert said.status == 0 and "warning: no step summary" in said.err


def test_the_python_function_gives_the_same_check(snellen: Snellen):
    run("old", set(range(40)))
    run("new", set(range(80)))
    (check,) = check_drop("old", "new", margin=0.01)
    assert not check.passed and check.status == "worse" and check.exit_status == 10
    assert (check.baseline_score, check.score, check.n) == (0.9, 0.8, 400)
    assert check_drop("new", "old", margin=0.01)[0].passed
    run("longer", set(), n=401)
    with pytest.raises(DifferentSamplesError):
        check_drop("old", "longer")
    with pytest.raises(RunError):
        check_drop("old", "gone")
    with pytest.raises(UsageError):
        check_drop("old", "new", margin=2)
    run("none", set(), missing=set(range(400)))
    with pytest.raises(NothingAnsweredError):
        check_drop("old", "none")


def test_a_refused_comparison_names_no_seed_of_one_run_alone_and_no_empty_value(snellen: Snellen):
    """Questions that are drawn have a seed and no data; a table has data, and its seed draws nothing."""
    Path("own.csv").write_text("id,question,answer\n1,What is 1 plus 1?,2\n", encoding="utf-8")
    evaluate("own.csv", "embedded", out="table", seed=5)
    for seed in (0, 3):
        evaluate("chart/digits", "embedded", out=f"drawn-{seed}", seed=seed, limit=2)
    error = snellen("compare", "drawn-0", "table").err
    assert "benchmark: chart/digits in the baseline, own.csv in the other" in error
    assert "seed" not in error and "None" not in error and "  data: none in the baseline" in error
    refused = " ".join(snellen("compare", "drawn-0", "drawn-3").err.split())
    assert "seed: 0 in the baseline, 3 in the other" in refused and "draws its questions by --seed" in refused
    evaluate("own.csv", "embedded", out="again", seed=6)
    assert snellen("compare", "table", "again").status == 0, "the seed of sampling is that of the same questions"
