"""The public scorers: their documented examples run, and a benchmark that uses them fits on one page."""

import doctest
import importlib
import json
from pathlib import Path

import pytest

import snellen
import snellen.scoring
from snellen import Model, Prompt, Response, Sample, Text
from snellen.scoring import accuracy, choice, class_names, count, number, scorers, short, truth
from snellen.scoring.answers import name
from snellen.scoring.scores import ScoreBuilder

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def sample(kind, target, question="?", **settings):
    return Sample("1", Prompt((Text(question),)), target, kind, **settings)


@pytest.mark.parametrize("module", [scorers, class_names, name])
def test_documented_examples_run(module):
    assert doctest.testmod(module).failed == 0


def test_the_package_exports_what_it_names():
    assert {name: getattr(snellen.scoring, name).__name__ for name in snellen.scoring.__all__} == {
        name: name for name in snellen.scoring.__all__
    }
    with pytest.raises(AttributeError):
        _ = snellen.scoring.missing


@pytest.mark.parametrize(
    ("scorer", "asked", "reply", "value"),
    [
        (choice, sample("choice", "B", options={"A": "robin", "B": "wren"}), "(b) wren", 1.0),
        (choice, sample("choice", ("A", "B"), options={"A": "robin", "B": "wren"}), "A", 1.0),
        (choice, sample("choice", "B", options={"A": "robin", "B": "wren"}), "robin", 0.0),
        (truth, sample("truth", True), "Yes.", 1.0),
        (truth, sample("truth", False, meta={"form": "T/F"}), "F", 1.0),
        (count, sample("count", 3), "three", 1.0),
        (count, sample("count", 3), "at least 3", 0.0),
        (number, sample("number", 2.0, meta={"unit": "m"}), "200 cm", 1.0),
        (number, sample("number", 2.0, meta={"unit": "m"}), "2.5 m", 0.0),
        (short, sample("short", ("barn owl", "Tyto alba")), "It is a barn owl.", 1.0),
        (short, sample("short", "barn owl", meta={"aliases": "church owl"}), "church owl", 1.0),
        (short, sample("short", "barn owl", meta={"aliases": ["church owl"]}), "tawny owl", 0.0),
    ],
)
def test_a_scorer_reads_the_reply_and_compares_it(scorer, asked, reply, value):
    assert scorer(asked, reply).value == value


@pytest.mark.parametrize("scorer", [choice, truth, count, number, short])
def test_a_reply_without_an_answer_is_invalid_and_says_why(scorer):
    score = scorer(sample(scorer.__name__, "A", options={"A": "robin", "B": "wren"}), "I cannot tell.")
    assert (score.value, score.verdict, score.extracted) == (0.0, "invalid", None)
    assert score.reason


def test_accuracy_slices_by_one_column_or_several():
    builder = ScoreBuilder()
    for index, (bird, level) in enumerate([("robin", "easy"), ("robin", "hard"), ("wren", "easy")]):
        row = Sample(
            str(index), Prompt((Text("?"),)), "A", "choice", {"A": "a", "B": "b"}, meta={"bird": bird, "level": level}
        )
        builder.add(row, choice(row, "A" if level == "easy" else "B"))
    metrics = {m.name: m.value for m in accuracy("bird", ("bird", "level"))(builder.build(), "strict")}
    assert metrics["accuracy"] == pytest.approx(2 / 3)
    assert metrics["accuracy/robin"] == 0.5
    assert metrics["accuracy/robin/hard"] == 0.0
    assert metrics["invalid"] == metrics["error"] == 0.0


def test_a_multiple_choice_benchmark_takes_at_most_20_lines(tmp_path, monkeypatch):
    assert len((EXAMPLES / "choice_set.py").read_text(encoding="utf-8").splitlines()) <= 20
    monkeypatch.syspath_prepend(str(EXAMPLES))
    benchmark = importlib.import_module("choice_set").BENCHMARK
    (tmp_path / "images").mkdir()
    rows = []
    for index, topic in enumerate(["birds", "birds", "fish"]):
        (tmp_path / "images" / f"{index}.png").write_bytes(PIXEL)
        rows.append(
            {
                "id": f"q{index}",
                "image": f"{index}.png",
                "question": "Which one?",
                "options": ["robin", "wren"],
                "answer": "AB"[index % 2],
                "topic": topic,
            }
        )
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = snellen.evaluate(
        benchmark,
        FirstOption(),
        out=tmp_path / "run",
        data=tmp_path / "set.jsonl",
        images=tmp_path / "images",
    )
    assert run.metric("accuracy").value == pytest.approx(2 / 3)
    assert run.metric("accuracy/fish").value == 1.0


class FirstOption(Model):
    name = "first"

    def identity(self):
        return {"kind": "first"}

    async def answer(self, prompt):
        return Response("A")


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)
