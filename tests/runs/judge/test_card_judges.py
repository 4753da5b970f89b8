"""Benchmarks of model cards that a judge scores: classes with no attempt, grades from 0 to 1, and who judged published figures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from servers.oracle import OracleServer, SentQuestion
from snellen import Run, compare, evaluate, judge, load_run
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry
from snellen.cli import main
from snellen.runs.judge.verdicts import other_judge
from snellen.runs.tables import result_table

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "table"))
from card_sets_drawn import CARD_SETS
from catalogue_drawn import draw


def judged(name: str, tmp_path: Path, verdicts: dict[int, object], judge_name: str = "oracle") -> tuple[Run, list[str]]:
    """Run a drawn set against a model that says `reply N`, and judge it with the verdict of each number."""
    drawn = draw(entry(name), tmp_path)
    order = list(drawn.right)
    asked: list[str] = []

    def answer(request: SentQuestion) -> str:
        if "You are a strict grader" not in request.text:
            return f"reply {order.index(request.images[0])}"
        asked.append(request.text)
        number = int(re.findall(r"reply (\d)", request.text)[-1])
        field = "verdict" if isinstance(verdicts[number], str) else "score"
        return json.dumps({field: verdicts[number], "reason": "so", "extracted_answer": "more"})

    with OracleServer(answer, model=judge_name) as server:
        evaluate(name, f"api:{judge_name}", base_url=server.url, data=drawn.path, out=tmp_path / "run")
        judge(tmp_path / "run", f"api:{judge_name}", base_url=server.url)
    return load_run(tmp_path / "run"), asked


def values(run: Run) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in run.figures("strict")["strict"]}


@pytest.mark.parametrize("name", ["simplevqa", "worldvqa"])
def test_a_reply_that_tries_nothing_is_apart_from_a_wrong_one(name: str, tmp_path: Path) -> None:
    run, asked = judged(name, tmp_path, {0: "correct", 1: "incorrect", 2: "not attempted", 3: "correct"})
    figures = values(run)
    assert len(asked) == 4
    assert figures["correct"] == 2 / 4
    assert figures["attempted"] == 3 / 4
    assert figures["correct if attempted"] == pytest.approx(2 / 3)
    assert figures["F"] == pytest.approx(2 / (1 / (2 / 4) + 1 / (2 / 3)))


def test_a_grade_counts_for_each_capability_of_its_question(tmp_path: Path) -> None:
    run, asked = judged("mm-vet", tmp_path, {0: 0.4, 1: 1.0, 2: 0.0})
    figures = values(run)
    assert figures["total"] == pytest.approx(1.4 / 3)
    assert (figures["total/rec"], figures["total/ocr"]) == (pytest.approx(0.2), pytest.approx(0.7))
    assert any("seven<OR>7" in text for text in asked) and all("<AND> stands between parts" in text for text in asked)


def test_a_judge_is_told_the_components_of_an_instruction_and_what_they_are_worth(tmp_path: Path) -> None:
    run, asked = judged("mia-bench", tmp_path, {0: 0.4, 1: 1.0, 2: 0.7})
    assert values(run)["total"] == pytest.approx(0.7)
    assert "['name the ship', 'in two words']" in asked[0] and "worth [4, 6] points" in asked[0]


@pytest.mark.parametrize("mode", ["reasoning", "descriptive"])
def test_a_chart_is_graded_by_what_its_row_says(mode: str, tmp_path: Path) -> None:
    run, asked = judged(f"charxiv-{mode}", tmp_path, {0: 1, 1: 0, 2: 1, 3: 1})
    figures = values(run)
    assert figures["accuracy"] == 3 / 4
    assert all("Grade {PREDICTION} against" in text for text in asked)
    name = "Text-in-General" if mode == "reasoning" else "Enumeration"
    assert figures[f"accuracy/{name}"] == 0.0


def test_choices_are_ruled_and_blanks_are_judged(tmp_path: Path) -> None:
    run, asked = judged("babyvision", tmp_path, {2: "correct", 3: "incorrect"})
    assert len(asked) == 2
    assert values(run)["accuracy"] == 1 / 4  # `reply 0` names no option


JUDGED_SETS = [name for name in CARD_SETS if registry.find(name).published_judge]


def test_sets_whose_published_figures_have_a_judge_say_which() -> None:
    judged_by_any = {name for name in CARD_SETS if entry(name).score.judge.rubric}  # type: ignore[union-attr]
    assert judged_by_any - set(JUDGED_SETS) == {"mathverse"}  # its authors name several


@pytest.mark.parametrize("name", JUDGED_SETS)
def test_another_judge_than_the_published_one_is_told_before_and_after_a_run_and_in_its_report(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "any")
    drawn, published = draw(entry(name), tmp_path), registry.find(name).published_judge
    said = '{"verdict": "correct", "score": 1.0, "extracted_answer": "more"}'
    with OracleServer(lambda sent: said if "strict grader" in sent.text else "\\boxed{none}") as server:
        common = ["--data", str(drawn.path), "--out", str(tmp_path / "run"), "--base-url", server.url]
        judged_by = ["--judge", "api:oracle", "--judge-base-url", server.url, "--report"]
        assert main(["run", name, "--model", "api:oracle", *common, *judged_by]) == 0
    out, err = capsys.readouterr()
    assert f"the judge is api:oracle; published figures are judged by {published}, and do not compare" in err
    assert f"published figures are judged by {published}, and do not compare" in out
    assert f"judged by another model than {published}" in " ".join(out.split())  # at the headline
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"published figures are judged by {published}, and do not compare" in page
    cells = result_table(tmp_path / "run").rows[0].cells
    assert any("do not compare" in remark for cell in cells if cell for remark in cell.remarks)


@pytest.mark.parametrize("name", ["worldvqa", "charxiv-descriptive", "charxiv-reasoning"])
def test_a_reply_without_a_readable_judgement_is_left_out_and_the_coverage_says_so(name: str, tmp_path: Path) -> None:
    verdicts = ["correct", "none of these", "incorrect", "correct"] if name == "worldvqa" else [1, "none", 0, 1]
    run, _ = judged(name, tmp_path, dict(enumerate(verdicts)))
    first = run.figures("strict")["strict"][0]
    assert (first.value, first.coverage) == (pytest.approx(2 / 3), 3 / 4)
    elsewhere = {"worldvqa": 2 / 4, "charxiv-descriptive": (2 - 1) / 4, "charxiv-reasoning": (2 - 1) / 4}
    assert first.value != elsewhere[name]  # VLMEvalKit counts the reply as attempted, lmms-eval as -1
    assert name != "worldvqa" or values(run)["attempted"] == 1.0


@pytest.mark.parametrize(("judges", "told"), [(("gpt-4o", "gpt-4o"), False), (("gpt-4o", "other"), True)])
def test_a_comparison_of_runs_by_different_judges_says_so(judges: tuple[str, str], told: bool, tmp_path: Path) -> None:
    runs = []
    for number, name in enumerate(judges):
        (tmp_path / str(number)).mkdir()
        runs.append(judged("simplevqa", tmp_path / str(number), dict.fromkeys(range(4), "correct"), name)[0])
    notes = " ".join(compare(*runs)[0].notes)
    assert ("the judges differ: api:gpt-4o and api:other" in notes) is told


def test_a_folder_called_as_the_published_judge_is_no_judge() -> None:
    assert other_judge("api:oracle in /tmp/gpt-4o/run_judged", "gpt-4o")
    assert not other_judge("api:openai/gpt-4o in /tmp/run_judged", "gpt-4o")
    assert other_judge("api:gpt-4o-mini", "gpt-4o") and not other_judge("api:any", "")


@pytest.mark.parametrize(("judge_name", "told"), [("gpt-4o", False), ("gpt-4o-mini", True), ("oracle", True)])
def test_another_judge_than_that_of_published_figures_is_named(judge_name: str, told: bool, tmp_path: Path) -> None:
    run, _ = judged("simplevqa", tmp_path, dict.fromkeys(range(4), "correct"), judge_name)
    notes = " ".join(run.notes())
    assert ("published figures are judged by gpt-4o" in notes) is told
