"""What is published of a run without gold leaves at least two gold answers possible, whatever is read from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import snellen
from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.models.base import Model
from snellen.redaction.gold import WITHHELD
from snellen.runs.redact import GoldRemoval, redact
from snellen.scoring import scorers
from snellen.sources import BytesBlob
from snellen.types import Image, Kind, Prompt, Record, Response, Sample, Score, Text

LETTERS = "ABCDEF"
BIRDS = ("robin", "wren", "owl", "crow", "jay", "rook")


def whole_reply(sample: Sample, reply: str) -> Score:
    """Accept a reply that holds nothing but the gold answer."""
    gold = {True: "yes", False: "no"}.get(sample.target, str(sample.target))
    correct = reply.strip().lower() == gold.lower()
    return Score(float(correct), reply, "correct" if correct else "wrong")


def last_word(sample: Sample, reply: str) -> Score:
    """Read the last word of a reply, whatever stands before it."""
    return whole_reply(sample, reply.split()[-1].strip(".")) if reply.split() else Score(0.0, None, "invalid")


def nearness(sample: Sample, reply: str) -> Score:
    """Give part of a point for a count that is nearly right."""
    if not reply.isdigit() or sample.kind != "count":
        return last_word(sample, reply)
    value = max(0.0, 1 - abs(int(reply) - sample.target) / 4)
    return Score(value, int(reply), "correct" if value == 1.0 else "partial" if value else "wrong")


PROFILES = {"usual": None, "whole": whole_reply, "last": last_word, "near": nearness}


def profiles_of(kind: Kind, names: tuple[str, ...]) -> dict[str, Any]:
    usual = {"choice": scorers.choice, "truth": scorers.truth, "count": scorers.count}[kind]
    return {name: PROFILES[name] or usual for name in names}


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Sample], list[list[str]], tuple[str, ...]]:
    """Samples of one group with one gold answer, the replies to each, and the names of profiles."""
    kind: Kind = draw(st.sampled_from(("choice", "truth", "count")))
    size = draw(st.integers(2, 5))
    names = draw(st.lists(st.sampled_from(sorted(PROFILES)), min_size=1, max_size=3, unique=True))
    samples = []
    gold = draw(st.integers(0, size - 1))
    for number in range(draw(st.integers(1, 3))):
        if kind == "choice":
            order = draw(st.permutations(range(size)))
            options = {LETTERS[place]: BIRDS[bird] for place, bird in enumerate(order)}
            target: Any = LETTERS[order.index(gold)]
        else:
            options, target = {}, (bool(gold % 2) if kind == "truth" else gold + 1)
        images = tuple(Image(BytesBlob(f"{image}", b"")) for image in range(size if kind == "count" else 1))
        prompt = Prompt((*images, Text("Which?")))
        samples.append(Sample(str(number), prompt, target, kind, options, group="one group"))
    words = {
        "choice": [*LETTERS[:size], "the answer is B", "A or C", "maybe A. C", "hm", *BIRDS[:size]],
        "truth": ["yes", "no", "no, yes", "hm"],
        "count": [str(number) for number in range(size + 2)],
    }[kind]
    replies = st.lists(st.sampled_from(words), min_size=1, max_size=4)
    return samples, [draw(replies) for _ in samples], tuple(names)


def with_gold(sample: Sample, answer: Any) -> Sample:
    """Return the sample as it would be if `answer`, an option's text or a target, were right."""
    if sample.kind != "choice":
        return structs.replace(sample, target=answer)
    return structs.replace(sample, target=next(letter for letter, text in sample.options.items() if text == answer))


@settings(max_examples=150, deadline=None)
@given(runs())
def test_published_replies_and_verdicts_leave_two_gold_answers(made):
    samples, replies, names = made
    profiles = profiles_of(samples[0].kind, names)
    benchmark = Benchmark(
        name="drawn",
        version="1",
        samples=lambda data: iter(samples),
        score=profiles,
        summarize=lambda scores, profile: [],
        profiles=dict.fromkeys(profiles, "drawn"),
    )
    scored: list[tuple[Sample, Record, Mapping[str, Score]]] = [
        (
            sample,
            Record(sample.id, "ok", response=Response(reply), repeat=repeat),
            {name: scorer(sample, reply) for name, scorer in profiles.items()},
        )
        for sample, texts in zip(samples, replies, strict=True)
        for repeat, reply in enumerate(texts)
    ]
    removal = GoldRemoval(benchmark, Data(), scored)
    published = []
    for position, (sample, record, scores) in enumerate(scored, 1):
        _, answer, verdicts = removal.public_answer(sample, record, scores, position)
        assert answer.response is not None
        if answer.response.text == WITHHELD:
            assert all(score.extracted is None for score in verdicts.values())
        else:
            published.append((sample, answer.response.text, scores))
    if samples[0].kind == "choice":
        answers: list[Any] = list(samples[0].options.values())
    else:
        images = sum(isinstance(part, Image) for part in samples[0].prompt.parts)
        answers = [True, False] if samples[0].kind == "truth" else list(range(1, images + 1))
    consistent = [
        answer
        for answer in answers
        if all(
            scorer(with_gold(sample, answer), text) == scores[name]
            for sample, text, scores in published
            for name, scorer in profiles.items()
        )
    ]
    assert len(consistent) > 1


def birds(data: Data) -> Iterator[Sample]:
    for number, size in enumerate((2, 3, 4)):
        options = dict(zip(LETTERS, BIRDS[:size], strict=False))
        yield Sample(f"of {size}", Prompt((Text(f"Which of {size}? {number}"),)), "A", "choice", options)


BIRD_QUESTIONS = Benchmark(
    name="bird-questions",
    version="1",
    samples=birds,
    score={"usual": scorers.choice},
    summarize=scorers.accuracy(),
    profiles={"usual": "by letter"},
)


class Guesser(Model):
    """Answers each question wrongly, with B the first time and C the second."""

    name = "guesser"

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    async def answer(self, prompt: Prompt) -> Response:
        question = str(prompt.parts[0])
        self._asked[question] = self._asked.get(question, 0) + 1
        return Response("B" if self._asked[question] == 1 or "of 2" in question else "C")


@pytest.mark.parametrize(("repeats", "public"), [(1, {"of 3", "of 4"}), (2, {"of 4"})])
def test_redacted_runs_and_exports_withhold_wrong_replies_that_leave_one_option(tmp_path, monkeypatch, repeats, public):
    monkeypatch.setitem(registry.BUILT_IN, "bird-questions", f"{__name__}:BIRD_QUESTIONS")
    monkeypatch.chdir(tmp_path)
    run = snellen.evaluate(BIRD_QUESTIONS, Guesser(), out="run", concurrency=1, repeats=repeats)
    redact(run, "public")
    rows = [json.loads(line) for line in Path("public/results.jsonl").read_text().splitlines()]
    assert {row["sample_id"] for row in rows if row["prediction"] != WITHHELD} == public
    assert {row["verdict"] for row in rows} == {"wrong"}
    (path,) = snellen.export(run, "jsonl", out="lines", no_gold=True).files
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["sample_id"] for line in lines if line["reply"] != WITHHELD} == public
