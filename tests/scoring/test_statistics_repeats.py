"""Figures of repeated questions, beside values counted one by one."""

import random
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics import repeat_metrics
from snellen.types import Prompt, Sample, Score, Text

REPLIES = st.lists(st.lists(st.sampled_from("AABCx"), min_size=1, max_size=7), min_size=2, max_size=6)
"""Replies of each question: A is right, x cannot be read."""


def metrics_of(questions, *, value=None, order=None):
    """Return the figures of questions by name. `value` maps a reply to its score."""
    rows = [(at, repeat, reply) for at, replies in enumerate(questions) for repeat, reply in enumerate(replies)]
    builder = ScoreBuilder()
    for at, repeat, reply in sorted(rows, key=order) if order else rows:
        score = Score(
            float(reply == "A") if value is None else value[reply], reply, "correct" if reply == "A" else "wrong"
        )
        builder.add(
            Sample(str(at), Prompt((Text("?"),)), "A", "choice"),
            Score(0.0, None, "invalid") if reply == "x" else score,
            repeat,
        )
    return {metric.name: metric for metric in repeat_metrics(builder.build())}


def voted(replies):
    """Return the answer of most votes, the earliest of equals; None without a vote."""
    read = [reply for reply in replies if reply != "x"]
    return max(read, key=lambda reply: (read.count(reply), -read.index(reply))) if read else None


@given(REPLIES)
def test_each_figure_is_the_mean_over_all_choices_of_k_replies(questions):
    most = max(map(len, questions))
    found = metrics_of(questions)
    if most == 1:
        assert not found
        return
    steps = sorted({most} | {k for k in (1, 2, 4) if k <= most})
    assert [name for name in found if name.startswith("pass@")] == [f"pass@{k}" for k in steps]
    means = [Fraction(replies.count("A"), len(replies)) for replies in questions]
    assert found[f"avg@{most}"].value == pytest.approx(float(sum(means) / len(means)))
    for k in steps:
        asked = [replies for replies in questions if len(replies) >= k]
        chosen = [[set(choice) for choice in combinations(replies, k)] for replies in asked]
        one = sum(Fraction(sum("A" in choice for choice in each), len(each)) for each in chosen) / len(asked)
        every = sum(Fraction(sum(choice == {"A"} for choice in each), len(each)) for each in chosen) / len(asked)
        assert found[f"pass@{k}"].value == pytest.approx(float(one))
        assert (found[f"pass@{k}"].n, found[f"pass@{k}"].coverage) == (len(asked), len(asked) / len(questions))
        if k > 1:
            assert found[f"pass^{k}"].value == pytest.approx(float(every))
            votes = [voted(replies[:k]) == "A" for replies in asked]
            assert found[f"majority@{k}"].value == pytest.approx(sum(votes) / len(votes))


@given(REPLIES, st.randoms())
def test_the_order_of_answers_changes_nothing(questions, chance: random.Random):
    assert metrics_of(questions) == metrics_of(questions, order=lambda row: (chance.random(), row))


def test_answers_vote_by_what_was_read_whatever_its_case_and_partial_scores_are_kept():
    found = metrics_of([["b", "B", "A"], ["A", "b", "b"]], value={"A": 1.0, "b": 0.5, "B": 0.5})
    assert found["majority@3"].value == 0.5
    assert found["pass@3"].value == 1.0, "right is a full score"
    assert found["pass@1"].value == pytest.approx(1 / 3)
    assert found["avg@3"].value == pytest.approx((2.0 / 3 + 2.0 / 3) / 2)


def test_scores_beyond_1_have_a_mean_and_no_chance_to_be_right():
    found = metrics_of([["A", "B"], ["B", "B"]], value={"A": 1.0, "B": 7.5})
    assert found["avg@2"].value == pytest.approx((4.25 + 7.5) / 2)
    assert not [name for name in found if "@" in name and not name.startswith("avg")]


def test_questions_that_differ_no_more_than_their_replies_have_no_variance_between_them():
    found = metrics_of([["A"] * 6 + ["B"], *[["A"] * 7] * 23])
    assert found["variance/between_questions"].value == 0.0
    assert found["variance/within_questions"].value == pytest.approx(1 / 168)


def test_the_interval_is_that_of_questions_and_not_of_replies():
    few = metrics_of([["A"] * 64, ["B"] * 64] * 10)["avg@64"]
    assert few.n == 20
    assert few.ci95[1] - few.ci95[0] > 0.35


def test_the_repeats_that_halve_the_interval_are_four_times_as_many_where_all_questions_are_alike():
    chance = random.Random(1)
    alike = metrics_of([["A" if chance.random() < 0.5 else "B" for _ in range(4)] for _ in range(4_000)])
    assert alike["repeats_to_halve_interval"].value == pytest.approx(16, abs=3)
    split = metrics_of([["A"] * 4, ["B"] * 4] * 50 + [["A", "B", "A", "B"]])
    assert split["repeats_to_halve_interval"].value is None, "questions differ: no number of repeats is enough"


def test_replies_that_failed_or_are_to_come_make_no_more_questions():
    planned, builder = 4, ScoreBuilder()
    asked = [Sample(str(at), Prompt((Text("?"),)), "A", "choice") for at in range(10)]
    for at, sample in enumerate(asked):
        for repeat in range(3):
            unread = Score(None, None, "unscored")
            builder.add(sample, unread if repeat == at % 3 else Score(float(at % 2), "A", "partial"), repeat)
    missing = builder.missing(asked, planned)
    found = {metric.name: metric for metric in repeat_metrics(builder.build(10 * planned, missing))}
    assert found["avg@2"].coverage == found["pass@2"].coverage == 1.0
    assert found["variance/within_questions"].coverage == 0.5
