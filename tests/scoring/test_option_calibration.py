"""Option probabilities of answers, and their calibration, against figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from snellen.scoring.calibration import ConfidenceRows, OptionProbabilities, confidence_of, option_probabilities
from snellen.types import Prompt, Sample, Score, Text, TokenLogprob

CHOICE = Sample("1", Prompt((Text("Which?"),)), "A", "choice", {"A": "cat", "B": "dog", "C": "cow"})
TRUTH = Sample("2", Prompt((Text("Is it?"),)), True, "truth")


def token(text: str, **alternatives: float) -> TokenLogprob:
    pairs = tuple((name.replace("_", " "), math.log(value)) for name, value in alternatives.items())
    return TokenLogprob(text, dict(pairs).get(text), pairs)


def test_variants_of_a_letter_are_summed_and_other_words_are_not_seen():
    found = option_probabilities(CHOICE, (token("A", A=0.4, _A=0.1, B=0.25, a=0.1, The=0.1), token("B", B=1.0)))
    assert found.seen == pytest.approx(0.75)
    assert found.options == {"A": pytest.approx(0.5 / 0.75), "B": pytest.approx(0.25 / 0.75)}


@pytest.mark.parametrize("text", ["(A", " A", "**A", "▁A", "ĠA", "A.", "A)", '"A'])
def test_a_letter_in_marks_is_the_letter(text):
    found = option_probabilities(CHOICE, (TokenLogprob(text, math.log(0.8), ()),))
    assert found == OptionProbabilities({"A": 1.0}, pytest.approx(0.8))


def test_marks_and_line_ends_before_the_answer_are_passed_over():
    tokens = (token("\n"), token("**"), token("B", B=0.9, A=0.1))
    assert option_probabilities(CHOICE, tokens) == OptionProbabilities(
        {"A": pytest.approx(0.1), "B": pytest.approx(0.9)}, pytest.approx(1.0)
    )


def test_yes_and_no_have_their_usual_words():
    found = option_probabilities(TRUTH, (token("Yes", Yes=0.5, yes=0.1, True_=0.05, No=0.2, F=0.1, n=0.05),))
    assert found.options["yes"] == pytest.approx(0.65 / 0.95)
    assert found.options["no"] == pytest.approx(0.3 / 0.95)


def test_what_is_missing_stays_missing():
    assert option_probabilities(CHOICE, None) is None
    assert option_probabilities(CHOICE, (token("The", The=0.95, A=0.05),)) is None
    assert option_probabilities(CHOICE, (TokenLogprob("A", None),)) is None
    short = Sample("3", Prompt((Text("Which?"),)), "A", "short")
    assert option_probabilities(short, (token("A", A=0.9),)) is None
    known = OptionProbabilities({"A": 1.0}, 0.9)
    assert confidence_of("choice", Score(0.0, "B", "wrong"), known) is None
    assert confidence_of("choice", Score(0.0, None, "invalid"), known) is None
    assert confidence_of("choice", Score(1.0, "A", "correct"), known) == 1.0
    assert confidence_of("truth", Score(0.0, False, "wrong"), OptionProbabilities({"no": 0.7}, 1.0)) == 0.7


def test_calibration_error_and_brier_score_are_those_worked_out_by_hand():
    rows = ConfidenceRows()
    for number, (confidence, correct) in enumerate([(0.95, True), (0.85, True), (0.85, False), (0.55, False)] * 2):
        score = Score(1.0, "A", "correct") if correct else Score(0.0, "A", "wrong")
        rows.add("choice", str(number), score, OptionProbabilities({"A": confidence}, 0.9))
    metrics = {metric.name: metric for metric in rows.metrics(16)}
    # bins (0.9, 1]: |1 - 0.95|; (0.8, 0.9]: 2 x |0.5 - 0.85|; (0.5, 0.6]: |0 - 0.55|
    assert metrics["calibration/ece"].value == pytest.approx((0.05 + 0.7 + 0.55) / 4)
    brier = (0.05**2 + 0.15**2 + 0.85**2 + 0.55**2) / 4
    assert metrics["calibration/brier"].value == pytest.approx(brier)
    assert metrics["calibration/confidence"].value == pytest.approx(0.8)
    assert metrics["calibration/seen_share"].value == pytest.approx(0.9)
    assert {(metric.n, metric.coverage) for metric in metrics.values()} == {(8, 0.5)}
    for name in ("ece", "brier", "confidence"):
        ends = metrics[f"calibration/{name}"].ci95
        assert ends[0] < ends[1]
    assert [(each.n, each.accuracy) for each in rows.bins()] == [(2, 0.0), (4, 0.5), (2, 1.0)]


def test_an_edge_belongs_to_the_bin_below_it():
    rows = ConfidenceRows()
    for confidence in (0.0, 0.1, 0.3, 0.7, 1.0):
        rows.add("choice", str(confidence), Score(1.0, "A", "correct"), OptionProbabilities({"A": confidence}, 1.0))
    assert [(round(each.low, 1), each.n) for each in rows.bins()] == [(0.0, 2), (0.2, 1), (0.6, 1), (0.9, 1)]


def test_intervals_resample_clusters():
    def width(clusters):
        rows = ConfidenceRows()
        for number in range(60):
            right = number % 3 > 0
            score = Score(float(right), "A", "correct" if right else "wrong")
            rows.add("choice", str(number % clusters), score, OptionProbabilities({"A": 0.5 + number % 3 / 5}, 1.0))
        ends = rows.metrics(60)[1].ci95
        return ends[1] - ends[0]

    assert width(6) > width(60)
