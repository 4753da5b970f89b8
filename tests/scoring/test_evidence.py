"""Evidence: the part of a reply that its answer was read from, for every kind of reply and any scorer."""

from __future__ import annotations

import random
from time import process_time

import pytest

from snellen.scoring.extract import read
from snellen.scoring.extract.evidence import locate

OPTIONS = {"A": "robin", "B": "wren", "C": "red kite"}


def marked(kind, reply, **about):
    """The marked parts of a reply."""
    return [reply[part.start : part.end] for part in locate(reply, lambda text: read(kind, text, **about).value)]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("B", ["B"]),
        ("It has a short tail, so it must be the wren.", ["wren"]),
        ("It is not a robin.\n\nThe answer is **B**.", ["B"]),
        ("A would be red. Final answer: C", ["C"]),
        ("<think>First I thought A. Then B.</think>I pick C.", ["C"]),
        ('```json\n{"reason": "not B", "answer": "C"}\n```', ["C"]),
        ("So we get \\boxed{A} and nothing else, unlike B.", ["A"]),
        ("<answer>\nB\n</answer>", ["B"]),
        ("B. It is small and brown. The wren is a small bird, too.", ["B"]),
    ],
)
def test_the_part_that_names_the_option_is_marked(reply, expected):
    assert marked("choice", reply, options=OPTIONS) == expected


@pytest.mark.parametrize(
    ("kind", "reply", "about", "expected"),
    [
        ("truth", "No, it is a wren.", {"question": "Is this a robin?"}, ["No"]),
        ("count", "There are two cats on the left and one on the right. In total: 3 cats.", {}, ["3"]),
        ("number", "The door is about 200 cm tall.", {"unit": "m"}, ["200 cm"]),
        ("number", "Its height is 1,250.5 m above the sea.", {}, ["1,250.5"]),
    ],
)
def test_other_kinds_are_marked_too(kind, reply, about, expected):
    assert marked(kind, reply, **about) == expected


def test_each_of_two_answers_is_marked():
    assert marked("choice", "It is A or B.", options=OPTIONS) == ["A", "B"]
    assert marked("choice", "The answer is A.\nThe answer is C.", options=OPTIONS) == ["A", "C"]


@pytest.mark.parametrize("reply", ["", "I cannot tell.", "???", "<think>B</think>"])
def test_a_reply_without_an_answer_has_no_mark(reply):
    assert marked("choice", reply, options=OPTIONS) == []


def test_a_marked_part_is_read_like_the_whole_reply():
    chance = random.Random(7)
    phrases = [
        "The answer is B.", "wren", "(C)", "maybe A", "not the robin", "\n", "So it is C.", "**Answer:** A", "1.", "it's a red kite",
        "<answer>B</answer>", "Wait, actually A.", "<think>", "</think>", "\\boxed{B}", "🐦", "答案是C", "e.g. a robin",
    ]  # fmt: skip
    with_answer = 0
    for _ in range(300):
        reply = " ".join(chance.choices(phrases, k=chance.randint(1, 6)))
        value = read("choice", reply, options=OPTIONS).value
        for part in locate(reply, lambda text: read("choice", text, options=OPTIONS).value):
            assert 0 <= part.start < part.end <= len(reply)
            if value is not None:
                assert read("choice", reply[part.start : part.end], options=OPTIONS).value == value == part.value
                with_answer += 1
    assert with_answer > 100


def test_any_scorer_has_evidence_and_one_that_compares_whole_replies_marks_all_of_it():
    def first_number(text):
        digits = [word for word in text.split() if word.isdigit()]
        return digits[0] if digits else None

    reply = "I count 12 birds. No, 13 in the end."
    assert [reply[part.start : part.end] for part in locate(reply, first_number)] == ["12"]
    assert locate("Two. Words.", str.lower) == ()


@pytest.mark.parametrize(
    "reply", ["B. " * 60_000, "(" * 200_000, "<think>" * 30_000, "A or B, " * 20_000, '{"answer": ' * 20_000]
)
def test_a_long_hostile_reply_is_located_quickly(reply):
    begin = process_time()
    locate(reply, lambda text: read("choice", text, options=OPTIONS).value)
    assert process_time() - begin < 30
