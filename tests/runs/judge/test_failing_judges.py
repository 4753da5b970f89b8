"""What is shown of a run whose judge fails is true: its score, its coverage, why, and which command goes on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.stubs import ARITHMETIC
from snellen import evaluate, load_run
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.cli.results import ModelOutcome, finish
from snellen.engine.progress import Progress, ProgressCallback
from snellen.errors import BadRequestError
from snellen.models.base import Model
from snellen.runs.judge.ask import judge, verdicts
from snellen.scoring.rubric import load_rubric
from snellen.scoring.statistics import mean
from snellen.types import Prompt, Response, Sample, Score, Text

RUBRIC = load_rubric("match")


def samples(data: Data) -> Iterator[Sample]:
    for number in range(12):
        yield Sample(f"q{number}", Prompt((Text(f"What is number {number}?"),)), "koala", "short")


JUDGED = replace(
    ARITHMETIC,
    name="judged-sums",
    samples=samples,
    size=lambda data: 12,
    score={"strict": lambda sample, reply: Score(None, reply, "unscored", "not judged yet")},
    summarize=lambda scores, profile: [mean("accuracy", scores), mean("error", scores)],
    profiles={"strict": "a judge decides"},
    rubric=lambda sample: RUBRIC,
)


class Answers(Model):
    """Says the same to each question; with `fails`, every so many questions are refused, or all with 1."""

    name = "answers"

    def __init__(self, text: str, fails: int = 0) -> None:
        self.text, self.fails, self.count = text, fails, 0

    async def answer(self, prompt: Prompt) -> Response:
        self.count += 1
        if self.fails and self.count % self.fails == 0:
            raise BadRequestError("HTTP 400: the judge broke")
        return Response(self.text)


CORRECT = '{"verdict": "correct"}'


@pytest.fixture(autouse=True)
def judged_sums(judge_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "judged-sums", f"{__name__}:JUDGED")
    evaluate(JUDGED, Answers("a koala"), out="run")


@pytest.mark.parametrize("rubric", [None, "match"])
def test_replies_on_which_the_judge_failed_are_in_no_score_and_not_called_wrong(rubric, capsys):
    last: list[Progress] = []
    judged = judge(
        "run", Answers(CORRECT, 3), rubric=rubric, concurrency=1, max_attempts=1, display=ProgressCallback(last.append)
    )
    metric = judged.metric("accuracy")
    assert (metric.value, metric.n, metric.coverage) == (1.0, 8, pytest.approx(8 / 12))
    assert "score 1.000 [0.676 – 1.000] W of 8 with a score" in last[-1].line()
    text = judged.request_errors().text
    assert "4 of 12 samples have no answer and are left out of the score; 4 × bad_request: " in text
    assert main(["list", "--runs", "--results", "."]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "run_judged" in line)
    assert "1.000 [0.676 – 1.000]" in row and "66.7%" in row
    assert main(["query", "SELECT value, coverage FROM runs", "run_judged", "--json"]) == 0
    ((value, coverage),) = json.loads(capsys.readouterr().out)["rows"]
    assert (value, coverage) == (1.0, pytest.approx(8 / 12))


@pytest.mark.parametrize("rubric", [None, "match"])
@pytest.mark.parametrize("judging", [Answers("no verdict"), Answers(CORRECT, 1)], ids=["unread", "failed"])
def test_the_summary_line_of_a_judge_without_a_verdict_has_the_score_without_a_value(judging, rubric):
    summary = verdicts(judge("run", judging, rubric=rubric, max_attempts=1))
    assert summary["accuracy"] is None and summary["ci95"] is None and summary["coverage"] == 0.0
    assert "error" not in summary and "without_verdict" not in summary


def test_the_run_names_the_commonest_error_of_its_judge_and_the_command_that_asks_it_again(capsys):
    judge("run", Answers(CORRECT, 3), concurrency=1, max_attempts=1)
    line = load_run("run").notes()[-1]
    assert "judged by answers in run_judged: 8 of 12 replies; 4 of 12 have no verdict; 4 × bad_request: " in line
    assert "the judge broke" in line and "`snellen rerun run_judged" in line


def test_a_run_without_verdicts_says_so_under_its_table_with_the_judge_that_was_named(capsys):
    words = "run judged-sums -m replay:run --out second -q"
    assert main(shlex.split(words)) == 0
    assert (
        "12 replies are not judged yet and have no score; `snellen judge second --model api:NAME`"
        in capsys.readouterr().out
    )
    away = "--judge gone --judge-base-url http://127.0.0.1:9/v1 --patience 0"
    assert main(shlex.split(f"{words} {away}")) != 0
    assert (
        "`snellen judge second --model api:gone --base-url http://127.0.0.1:9/v1` judges them"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("rubric", [None, "match"])
def test_a_judge_of_which_no_reply_can_be_read_is_said_to_have_given_no_verdict(rubric, capsys):
    judged = judge("run", Answers("I would say yes."), rubric=rubric)
    assert finish(ModelOutcome([judged]), profile=None, report=False, as_json=False) == 9
    text = "no verdict can be read from 12 of 12 replies of the judge, such as: it is not one JSON object"
    assert text in capsys.readouterr().out
    assert any(text in note for note in load_run("run_judged").notes())
    assert main(["query", "SELECT value, coverage FROM runs", "run_judged", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[None, 0.0]]
    if rubric is None:
        assert "12 of 12 have no verdict; 12 of the judge's replies hold none" in load_run("run").notes()[-1]


class Wavers(Answers):
    """Answers in the asked form to some questions alone."""

    async def answer(self, prompt: Prompt) -> Response:
        self.count += 1
        return Response(CORRECT if any("number 7" in part.text for part in prompt.parts) else "yes")


def test_some_replies_without_a_verdict_are_counted_and_end_the_run_as_before(capsys):
    judged = judge("run", Wavers(CORRECT), rubric="match")
    assert finish(ModelOutcome([judged]), profile=None, report=False, as_json=False) == 0
    assert "no verdict can be read from 11 of 12 replies" in capsys.readouterr().out
    judged = judge("run", Answers(CORRECT), rubric="match", out="other")
    assert finish(ModelOutcome([judged]), profile=None, report=False, as_json=False) == 0
    assert "no verdict" not in capsys.readouterr().out
