"""The readings that several spatial benchmarks share, and mean relative accuracy."""

from __future__ import annotations

import pytest

from snellen.benchmarks.spatial.scorers import base, lmms_eval, vlmevalkit
from snellen.scoring.rules.vlmevalkit import infer

OPTION = [
    ("<answer>Because</answer>", "B"),
    ("< Answer id=1>\n j </ answer>", "J"),
    ("<Answer>My answer is C</Answer>", "C"),
    ("so (e) </think>", "E"),
    ("A.\nB.", "B"),
    ("**(c)**", "C"),
    ("b) the sofa, not A", "B"),
    ("A apple", "A"),
    ("A apple or B", None),
    ("I pick a", None),
    ("{B}``A``", "A"),
    ("``A`` and `B`", None),
    ("Option B: the sofa", None),
    ("Option A: no\nOption B: yes\nC", "C"),
    ("answer c", "C"),
    ("Final answer: cat", None),
    ("A chair is there, so the answer is C", "C"),
    ("<think>A or B?</think> D", "D"),
    ("<think>A or B</think> D", "B"),
    ("<think>never done, perhaps D", "D"),
    ("\\boxed{D}", "D"),
    ("选C", "C"),
    ("Ｂ", None),
    ("\u200bC\ufeff", "C"),
    ("", None),
]


@pytest.mark.parametrize(("reply", "expected"), OPTION)
def test_the_option_matcher_reads_the_first_place_that_holds_a_letter(reply: str, expected: str | None) -> None:
    assert vlmevalkit.match_option(reply) == expected


def test_the_option_matcher_sees_a_tag_end_in_the_last_800_characters_only() -> None:
    filler = " word" * 165
    assert vlmevalkit.match_option("x a </think>" + filler) is None
    assert vlmevalkit.match_option(filler + " x a </think>") == "A"


def test_the_option_matcher_looks_at_the_last_six_lines_blank_ones_too() -> None:
    """As VLMEvalKit's code does, of which it is true that signs of markup may stand around a letter."""
    assert vlmevalkit.match_option("A\nB or C\n" + "word\n" * 4) == "A"
    assert vlmevalkit.match_option("A\nB or C\n" + "word\n\n" * 3) is None
    assert vlmevalkit.match_option("The answer is **A**, because option C is too far.") is None
    assert vlmevalkit.match_option("So I take **B**.") == "B"
    assert vlmevalkit.match_option("选项A: x\nB or C") == "A"
    assert vlmevalkit.match_number("<answer>3 m, not 4") == 4.0


def test_two_failures_of_the_option_matcher_count_as_a_hit_and_say_so() -> None:
    score = vlmevalkit.score_option("no idea", "G")
    assert (score.value, score.extracted, score.detail) == (1.0, None, {"gold_unread": True})
    assert vlmevalkit.score_option("no idea", "A").verdict == "invalid"
    assert vlmevalkit.score_option("(b)", "B. left").value == 1.0
    assert vlmevalkit.score_option("C", "G").verdict == "wrong"


NUMBER = [
    ("<answer> 1.3 m</answer> or 2", 1.3),
    ("<think>7</think> about -4.1 cm", -4.1),
    ("7</think> none", 7.0),
    ("twenty-one", -1.0),
    ("Three chairs", 3.0),
    ("1,250", 250.0),
    ("7.5 m^2", 2.0),
    (".5e1", 5.0),
    ("3-4", -4.0),
    ("[29.43, 3]", 29.43),
    ("['4.32', 'x']", 4.32),
    ("[B]", None),
    ("[]", None),
    ("someone", None),
]


@pytest.mark.parametrize(("reply", "expected"), NUMBER)
def test_the_kit_reads_a_tagged_or_the_last_number(reply: str, expected: float | None) -> None:
    assert vlmevalkit.match_number(reply) == expected


def test_a_list_that_python_would_warn_about_is_passed_over_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    assert vlmevalkit.match_number("[1and 2]") is None
    assert not recwarn.list


FOUR = {"A": "left side", "B": "front", "C": "left", "D": "back"}
CHOICE = [
    ("*D*", "D"),
    ("B because of all that is seen at the right", None),
    ("one B two three four five six", None),
    ("A dog and B cat", None),
    ("left", "C"),
    ("`C`", None),
    ("the answer is d", "D"),
    ("A chair stands near it, so the answer is **B**", "B"),
    ("Cannot determine the answer", "Z"),
    ("Failed to obtain answer via API. B", None),
    ("Z", "Z"),
]


@pytest.mark.parametrize(("reply", "expected"), CHOICE)
def test_the_generic_matcher_wants_one_late_letter_or_one_text(reply: str, expected: str | None) -> None:
    assert infer(reply, FOUR) == expected


def test_a_letter_behind_answer_is_counts() -> None:
    reply = "A chair stands near it, so the answer is B"
    assert vlmevalkit.score_choice(reply, FOUR, "B").value == 1.0
    score = vlmevalkit.score_choice("A chair stands near it", FOUR, "B")
    assert (score.value, score.detail) == (0.0, {"failed_in_prefetch": True})


def test_a_reply_longer_than_twice_the_options_is_not_searched_for_their_texts() -> None:
    assert infer("b" * 100 + " back", FOUR) is None
    assert infer("it is back there", FOUR) == "D"


MRA = [
    (9, 10, 0.9),
    (11, 10, 0.9),
    (3, 2, 0.1),
    (95, 100, 1.0),
    (105, 100, 1.0),
    (10, 10, 1.0),
    (16, 10, 0.0),
    (0, 0, 1.0),
]


@pytest.mark.parametrize(("predicted", "target", "expected"), MRA)
def test_mean_relative_accuracy_counts_ten_tolerances_inclusively(
    predicted: float, target: float, expected: float
) -> None:
    assert base.mean_relative_accuracy(base.relative_error(predicted, target)) == expected


def test_a_target_of_zero_takes_the_absolute_error() -> None:
    assert base.relative_error(0.3, 0) == 0.3
    assert base.mean_relative_accuracy(float("nan")) == 0.0


@pytest.mark.parametrize(
    ("reply", "expected"),
    [("(b) sofa", "B"), ("Because", "B"), ("The answer is C", "T"), ("**A**", None), (" \n( C", "C"), ("", None)],
)
def test_a_leading_letter_has_no_boundary(reply: str, expected: str | None) -> None:
    assert lmms_eval.leading_letter(reply) == expected
