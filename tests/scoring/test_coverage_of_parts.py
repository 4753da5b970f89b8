"""The coverage of a part of an incomplete run is counted from the samples that are missing, not estimated."""

from __future__ import annotations

import csv
import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from snellen import Benchmark
from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.table.score_columns import score_columns
from snellen.benchmarks.table.summary import circular_accuracy
from snellen.cli import main
from snellen.runs.judge.benchmark import summarize as judge_summary
from snellen.scoring import accuracy, choice
from snellen.scoring.rubric import Schema
from snellen.scoring.scores import ScoreBuilder, Scores
from snellen.scoring.taxonomy import taxonomy_slices
from snellen.types import Prompt, Sample, Score, Text
from stopwatch import cpu_times

RIGHT = Score(1.0, "A", "correct", None, {"reply": "A"})


def sample(number: int, meta: dict[str, Any]) -> Sample:
    return Sample(str(number), Prompt((Text("?"),)), "A", "choice", {"A": "yes", "B": "no"}, meta=meta)


def tables(metas: list[dict[str, str]], answered: list[bool], repeats: int) -> tuple[Scores, Scores]:
    """The scores of a run that has answered some samples, and those of the whole run."""
    samples = [sample(number, meta) for number, meta in enumerate(metas)]
    part, whole = ScoreBuilder(), ScoreBuilder()
    for each, has in zip(samples, answered, strict=True):
        for repeat in range(repeats):
            whole.add(each, RIGHT, repeat)
            if has and (repeat == 0 or int(each.id) % 2):
                part.add(each, RIGHT, repeat)
    return part.build(len(samples) * repeats, part.missing(samples, repeats)), whole.build()


METAS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.just("choice")},
        optional={"task": st.sampled_from("abc"), "level": st.sampled_from(("genus", "species"))},
    ),
    min_size=1,
    max_size=30,
)


@given(METAS, st.data(), st.integers(1, 3))
def test_every_part_expects_the_rows_that_the_whole_run_has(metas, data, repeats):
    metas = [{key: value for key, value in meta.items() if key != "kind"} for meta in metas]
    answered = data.draw(st.lists(st.booleans(), min_size=len(metas), max_size=len(metas)))
    scores, whole = tables(metas, answered, repeats)
    assert scores.expected == len(whole)
    for name in ("task", "level", "kind"):
        parts = dict(whole.by(name))
        for value, rows in scores.by(name):
            assert rows.expected == len(parts[value])
            for inner, smaller in rows.by("level"):
                assert smaller.expected == len(parts[value].where(level=inner))
    for wanted in ("a", "ab", "abc"):
        for without in (False, True):
            chosen = whole.among("task", wanted.__contains__, without=without)
            part = scores.among("task", wanted.__contains__, without=without)
            assert part.expected == len(chosen)
    if len(scores):
        for values in ({"task": "a"}, {"task": "b", "level": "genus"}):
            assert scores.where(**values).expected == scores.expected_where(values) == len(whole.where(**values))
        full = {(part.level, part.kind): len(part.rows) for part in taxonomy_slices(whole)}
        assert all(full[part.level, part.kind] == part.expected for part in taxonomy_slices(scores))


def test_a_part_by_the_reply_is_estimated_since_missing_samples_have_none():
    scores, _ = tables([{"task": "a"}, {"task": "a"}, {"task": "b"}, {"task": "b"}], [True, True, False, False], 1)
    assert [(value, rows.expected) for value, rows in scores.by("reply")] == [("A", 4)]


def test_samples_that_cannot_be_asked_are_shared_out_in_proportion():
    """Of two rows of the data nobody knows where they belong."""
    samples = [sample(number, {"task": "ab"[number % 2]}) for number in range(8)]
    builder = ScoreBuilder()
    for each in samples[:4]:
        builder.add(each, RIGHT)
    scores = builder.build(10, builder.missing(samples))
    assert [rows.expected for _, rows in scores.by("task")] == [5, 5]


def test_the_answers_to_one_category_cover_it_whole_and_no_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with Path("questions.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "question", "A", "B", "answer", "category"])
        rows.writerows([i, f"Is {i} even?", "yes", "no", "AB"[i % 2], "far" if i < 6 else "near"] for i in range(10))
    Path("answers.jsonl").write_text(
        "".join(json.dumps({"id": str(i), "reply": "A"}) + "\n" for i in range(7)), encoding="utf-8"
    )
    assert main(["score", "answers.jsonl", "--benchmark", "questions.csv", "--json"]) == 0
    metrics = {metric["name"]: metric for metric in json.loads(capsys.readouterr().out)["profiles"][0]["metrics"]}
    assert metrics["accuracy"]["coverage"] == pytest.approx(0.7)
    assert metrics["accuracy/category/far"]["coverage"] == 1.0
    assert metrics["accuracy/category/near"]["coverage"] == pytest.approx(0.25)


def test_each_metric_of_the_chart_covers_what_it_says():
    """The share is that of the whole run's n, for every metric that both have."""
    chart, data = find("chart"), Data()
    whole, part = ScoreBuilder(), ScoreBuilder()
    for number, each in enumerate(chart.samples(data)):
        whole.add(each, RIGHT)
        if number < 700 or number % 5 == 0:
            part.add(each, RIGHT)
    complete = whole.build()
    every = {metric.name: metric for metric in chart.summarize(complete, "strict")}
    some = chart.summarize(part.build(len(complete), part.missing(chart.samples(data))), "strict")
    shares = {metric.name: metric.n / every[metric.name].n for metric in some if every[metric.name].n}
    assert {metric.name: metric.coverage for metric in some} == pytest.approx(shares)
    assert len(shares) > 10
    assert len({round(share, 2) for share in shares.values()}) > 3


def test_missing_rows_are_counted_in_linear_time():
    """Ten times the samples take at most forty times as long."""

    def counted(n):
        samples = [sample(number, {"task": str(number % 7)}) for number in range(n)]
        builder = ScoreBuilder()
        builder.add(samples[0], RIGHT)
        return lambda: [*builder.build(n, builder.missing(samples)).by("task")]

    assert len(counted(40_000)()) == 1
    assert min(cpu_times(counted(40_000))) < 40 * max(*cpu_times(counted(4_000)), 0.002)


def test_masks_without_a_word_on_missing_rows_keep_the_proportion():
    scores, _ = tables([{"task": "a"}] * 4, [True, True, False, False], 1)
    assert scores.select(np.array([True, False])).expected == 2


def test_a_fault_behind_the_answered_samples_costs_no_score(tmp_path):
    """The run is scored, and the coverage of its parts is estimated."""

    def samples(data):
        yield from (sample(number, {"task": "ab"[number % 2]}) for number in range(1100))
        raise RuntimeError("the data ends here")

    benchmark = Benchmark(
        name="faulty", version="1", samples=samples, score={"strict": choice}, summarize=accuracy("task"),
        profiles={"strict": "the letter"}, size=lambda data: 2000, digest=lambda data: "fixed",
    )  # fmt: skip
    run = snellen.evaluate(benchmark, "embedded", out=tmp_path / "run", limit=6)
    metrics = {metric.name: metric for metric in run.summarize().metrics["strict"]}
    assert metrics["accuracy"].n == 6 and metrics["accuracy"].coverage == pytest.approx(0.003)
    assert metrics["accuracy/a"].coverage == pytest.approx(0.003)


def test_repeats_that_are_missing_are_those_without_a_row():
    """Each sample has its second answer alone, as in an imported file with gaps."""
    samples = [sample(number, {"task": "a"}) for number in range(3)]
    builder = ScoreBuilder()
    for each in samples:
        builder.add(each, RIGHT, 1)
    scores = builder.build(6, builder.missing(samples, 2))
    assert scores.missing is not None and "repeat" not in scores.missing.meta
    assert [(value, rows.expected) for value, rows in scores.by("repeat")] == [("1", 3)]


def test_more_missing_rows_than_are_wanted_end_the_reading():
    """An endless generator whose benchmark declares a size must not hold a limited run."""
    endless = (sample(number, {}) for number in count())
    builder = ScoreBuilder()
    assert builder.missing(endless, most=100) is None
    assert next(endless).id == "101"


def test_a_judges_lost_verdicts_lower_the_coverage_of_their_own_part():
    """25 replies of b have no verdict; a has all of its 50."""
    schema = Schema("verdict", labels={"good": 1.0, "bad": 0.0})
    builder = ScoreBuilder()
    for number in range(100):
        lost = number >= 75
        builder.add(sample(number, {"task": "ab"[number // 50]}), Score(None, None, "unscored") if lost else RIGHT)
    metrics = {metric.name: metric for metric in judge_summary(builder.build(), schema)}
    assert (metrics["accuracy/a"].n, metrics["accuracy/a"].coverage) == (50, 1.0)
    assert (metrics["accuracy/b"].n, metrics["accuracy/b"].coverage) == (25, 0.5)


def test_rows_that_count_once_for_each_element_are_expected_so_too():
    """Answered rows have one tag each; the missing ones have two."""
    samples = [sample(number, {"tag": "a" if number < 5 else "a|b"}) for number in range(10)]
    builder = ScoreBuilder()
    for each in samples[:5]:
        builder.add(each, RIGHT)
    table = score_columns(builder.build(10, builder.missing(samples)), (), {"tag": "|"})
    assert table.scores.expected_where({"tag": "a"}) == 10
    assert table.scores.expected == 15


def test_circular_questions_of_another_part_are_not_expected():
    def rotated(number):
        meta = {"task": "xy"[number // 8], "circular": str(number // 2), "rotation": str(number % 2), "rotations": "2"}
        return sample(number, meta)

    samples = [rotated(number) for number in range(16)]
    builder = ScoreBuilder()
    for each in (*samples[:6], *samples[8:]):
        builder.add(each, RIGHT)
    metric = circular_accuracy(builder.build(16, builder.missing(samples)).where(task="x"))
    assert (metric.n, metric.coverage) == (3, 0.75)
