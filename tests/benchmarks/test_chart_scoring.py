"""How the chart's replies are scored and summed up."""

from __future__ import annotations

import pytest

from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.creatures import CHART, CREATURES
from snellen.benchmarks.chart.digits import DIGITS
from snellen.benchmarks.chart.questions import CELLS, expected
from snellen.benchmarks.suite import suite
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Sample


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return list(CHART.samples(Data(options={"questions": "8"})))


def _first(samples: list[Sample], cell: str, form: str | None = None) -> Sample:
    return next(s for s in samples if s.meta["cell"] == cell and (form is None or s.meta["form"] == form))


@pytest.mark.parametrize("profile", ["strict", "exact"])
def test_the_gold_answer_in_the_asked_form_is_right_for_every_question(samples, profile):
    for sample in samples:
        score = CHART.score[profile](sample, expected(sample))
        assert (score.value, score.verdict) == (1.0, "correct"), (sample.id, score)


def test_a_sentence_is_read_by_strict_and_not_by_exact(samples):
    sample = _first(samples, "truth/class", "yes/no")
    word = "Yes" if sample.target else "No"
    reply = f"{word}, {'it is' if sample.target else 'it is not'}."
    assert CHART.score["strict"](sample, reply).verdict == "correct"
    assert CHART.score["exact"](sample, reply).verdict == "wrong"


def test_exact_forgives_case_outer_space_and_a_full_stop(samples):
    sample = _first(samples, "short/species")
    assert CHART.score["exact"](sample, f"  {sample.target.upper()}.\n").verdict == "correct"


@pytest.mark.parametrize("reply", ["", "I cannot tell.", "It could be either."])
def test_a_reply_without_an_answer_is_wrong_and_says_why(samples, reply):
    for cell in ("truth/genus", "choice/genus", "count", "digits/short"):
        score = CHART.score["strict"](_first(samples, cell), reply)
        assert (score.value, score.extracted, score.verdict) == (0.0, None, "invalid")
        assert score.reason


def test_the_summary_names_every_cell_with_its_chance(samples):
    table = ScoreBuilder()
    for sample in samples:
        table.add(sample, CHART.score["strict"](sample, expected(sample)))
    metrics = {metric.name: metric for metric in CHART.summarize(table.build(), "strict")}
    assert list(metrics) == ["accuracy", "accuracy/creatures", "accuracy/digits", *(f"accuracy/{c}" for c in CELLS)]
    assert all(metric.value == 1.0 for metric in metrics.values())
    assert metrics["accuracy/short/species"].chance == pytest.approx(1 / 27, abs=1e-5)
    assert metrics["accuracy/pair/class"].chance == 0.5
    assert metrics["accuracy/count"].chance == pytest.approx(0.2)
    assert metrics["accuracy"].n == len(samples)


def test_a_member_alone_summarises_its_own_cells():
    table = ScoreBuilder()
    for sample in DIGITS.samples(Data(options={"questions": "4"})):
        table.add(sample, DIGITS.score["exact"](sample, "7"))
    names = [metric.name for metric in DIGITS.summarize(table.build(), "exact")]
    assert names == ["accuracy", *(f"accuracy/digits/{kind}" for kind in ("short", "truth", "choice", "pair"))]


def test_a_suite_chains_its_members_and_prefixes_ids_and_groups(samples):
    own = list(CREATURES.samples(Data(options={"questions": "8"})))
    assert [f"creatures/{s.id}" for s in own] == [s.id for s in samples if s.meta["task"] == "creatures"]
    assert all(s.group.startswith(f"{s.meta['task']}/") for s in samples)


def test_a_suite_without_a_summary_of_its_own_prefixes_its_members_metrics(samples):
    plain = suite("chart", (CREATURES, DIGITS), version="1", about={})
    table = ScoreBuilder()
    for sample in samples:
        table.add(sample, plain.score["exact"](sample, expected(sample)))
    names = [metric.name for metric in plain.summarize(table.build(), "exact")]
    assert names[0] == "accuracy"
    assert "creatures/accuracy/short/class" in names
    assert "digits/accuracy/digits/short" in names


def test_each_member_of_a_suite_sees_only_the_options_that_it_declares():
    options = {"questions": "2", "difficulty.colour": "0.5"}
    assert len(list(CHART.samples(Data(options=options)))) == CHART.size(Data(options=options)) == 2 * 23 + 2 * 4


def test_a_suite_refuses_two_members_of_one_name():
    with pytest.raises(ValueError, match="share a name"):
        suite("chart", (DIGITS, DIGITS), version="1", about={})
