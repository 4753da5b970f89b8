"""predictions.jsonl: what was read from each reply, the same bytes for the same run, and no gold answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fika import made
from benchmarks.fika.made import FikaJudge, Scripted, answer
from snellen import evaluate, score
from snellen.benchmarks.base import Benchmark, Data
from snellen.cli import main
from snellen.errors import BadRequestError
from snellen.models.base import Model
from snellen.runs.judge.ask import judge
from snellen.scoring.metrics import breakdown
from snellen.types import Metric, Prompt, Response, Sample, Score, Text


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "key-of-the-judge")
    monkeypatch.chdir(tmp_path)


def rows(run: str = "run") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(run, "predictions.jsonl").read_text("utf-8").splitlines()]


class Numbers(Model):
    """Says the number that stands in the question; fails where that is 13, and is long-winded where it is 4."""

    def __init__(self, failing: bool = True) -> None:
        self._failing = failing

    async def answer(self, prompt: Prompt) -> Response:
        (text,) = (part.text for part in prompt.parts if isinstance(part, Text))
        if text == "13" and self._failing:
            raise BadRequestError("no luck")
        return Response(f"{'so ' * 20_000}{text}" if text == "4" else f"I read {text}")


def samples(data: Data) -> Iterator[Sample]:
    for i in range(15):
        yield Sample(f"n{i:02}", Prompt((Text(str(i)),)), i % 10, "count")


def last_word(sample: Sample, reply: str) -> Score:
    said = reply.split()[-1]
    if said == "11":
        return Score(None, None, "unscored", f"the gold answer {sample.target!r} is no number")
    correct = int(said) == sample.target
    return Score(float(correct), int(said), "correct" if correct else "wrong", None if correct else "too large")


def summarize(scores: Any, profile: str) -> list[Metric]:
    return breakdown(scores, ("kind",), "accuracy")


BENCHMARK = Benchmark(
    name="numbers",
    version="1",
    samples=samples,
    score={"strict": last_word, "lenient": lambda sample, reply: Score(1.0, "anything", "correct")},
    summarize=summarize,
    profiles={"strict": "the last word", "lenient": "anything"},
    size=lambda data: 15,
)


def test_each_answer_is_there_once_with_what_was_read_from_it(tmp_path):
    evaluate(BENCHMARK, Numbers(), out="run", max_attempts=1, concurrency=7)
    by_id = {row["id"]: row for row in rows()}
    assert list(by_id) == [f"n{i:02}" for i in range(15)]
    assert by_id["n07"] == {"id": "n07", "extracted": 7, "verdict": "correct", "reason": None}
    assert by_id["n04"]["extracted"] == 4  # too long to be read while the run goes on
    assert by_id["n12"] == {"id": "n12", "extracted": 12, "verdict": "wrong", "reason": "too large"}
    assert by_id["n11"]["reason"] == "the gold answer [gold withheld] is no number"
    assert (by_id["n13"]["extracted"], by_id["n13"]["verdict"]) == (None, "error")


def test_scoring_again_writes_the_same_bytes_whatever_the_order_and_the_profile(tmp_path):
    evaluate(BENCHMARK, Numbers(), out="run", max_attempts=1, concurrency=7)
    evaluate(BENCHMARK, Numbers(), out="slow", max_attempts=1, concurrency=1)
    first = Path("run/predictions.jsonl").read_bytes()
    assert Path("slow/predictions.jsonl").read_bytes() == first
    for profile in (None, "lenient", "all"):
        Path("run/predictions.jsonl").unlink()  # as of a run of an older version
        score("run", BENCHMARK, profile=profile)
        assert Path("run/predictions.jsonl").read_bytes() == first


def test_an_answer_that_comes_later_takes_the_place_of_the_failure_and_repeats_have_their_own_rows(tmp_path):
    evaluate(BENCHMARK, Numbers(), out="run", max_attempts=1, limit=14)
    assert len(rows()) == 14
    evaluate(BENCHMARK, Numbers(failing=False), out="run", max_attempts=1)
    assert len(rows()) == 15 and rows()[13]["extracted"] == 13
    evaluate(BENCHMARK, Numbers(), out="twice", max_attempts=1, limit=2, repeats=2)
    assert [(row["id"], row.get("repeat")) for row in rows("twice")] == [
        ("n00", None), ("n00", 1), ("n01", None), ("n01", 1),
    ]  # fmt: skip


def test_more_rows_than_memory_should_hold_are_written_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("snellen.runs.scoring.IN_MEMORY", 64)
    evaluate(BENCHMARK, Numbers(), out="run", max_attempts=1)
    assert [row["id"] for row in rows()] == [f"n{i:02}" for i in range(15)]


def test_a_judged_answer_is_what_the_judge_was_shown_and_gold_is_in_no_row(tmp_path):
    data = made.whole(tmp_path / "fika.zip", 3)
    said = {0: answer("right"), 1: "no JSON " * 60, 2: answer("wrong")}
    evaluate("fika", Scripted(lambda i: said[i]), out="run", data=data)
    assert [row["verdict"] for row in rows()] == ["unscored", "invalid", "unscored"]
    with FikaJudge("key-of-the-judge") as server:
        judge("run", "api:stub-judge", base_url=server.url)
    assert [row.get("judge_verdict") for row in rows()] == ["correct", None, "incorrect"]
    assert rows()[0]["extracted"] == "A thing [[right]]" and rows()[0]["verdict"] == "correct"
    text = Path("run/predictions.jsonl").read_bytes().lower()
    assert not [word for word in made.PLANTED if word in text]
    before = Path("run/predictions.jsonl").read_bytes()
    assert main(["score", "run"]) == 0
    assert Path("run/predictions.jsonl").read_bytes() == before
    assert not Path("run_judged/predictions.jsonl").exists()  # verdicts.jsonl is there


def test_a_scorer_that_returns_the_gold_of_a_restricted_benchmark_does_not_get_it_into_the_file(tmp_path):
    secret = Benchmark(
        name="secret",
        version="1",
        samples=lambda data: iter([Sample("s", Prompt((Text("What?"),)), "Phascolarctos cinereus", "short")]),
        score={"strict": lambda sample, reply: Score(1.0, sample.target, "correct")},
        summarize=summarize,
        profiles={"strict": "as it is"},
        size=lambda data: 1,
        restricted=True,
    )

    class Vague(Model):
        async def answer(self, prompt: Prompt) -> Response:
            return Response("a koala")

    evaluate(secret, Vague(), out="run")
    assert "Phascolarctos" not in Path("run/predictions.jsonl").read_text()
    assert rows()[0]["verdict"] == "correct"
