"""lmms-eval's shared reader of letters: what it makes of replies, as version 0.7.3 itself reads them with the letters A to D."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring.rules.lmms_eval import read_letter
from stopwatch import is_done_within

READ = {
    "A": [
        "A. up C. left so",
        "A: up D: right so",
        "BA it",
        "The correct option is C, not (A) here",
        "答案是 C 而不是 A 吧",
        "A\nbecause B. fails so",
        "A B C D",
        "Both (A) and B. fit so",
    ],
    "B": [
        "B",
        "B.",
        "(B)",
        "B)",
        "B: it turns",
        "B it turns",
        "B, it turns",
        "**B**",
        "'B'",
        "The answer is B",
        "The answer is B.",
        "Answer: B",
        "answer is (B) it turns",
        "The answer is It. B it is",
        "Is it A? No, B it is so",
        "Because it falls",
        "AB",
        "选B吧",
        "choice is A. choice is B. so",
    ],
    "C": [
        "I choose A over C",
        "My answer is wrong: C. so",
        "the answer is b, not C but",
        "(A) or (C) then",
        "Not A) but C) so",
        "Plan A and plan C are so",
        "Dogs and Cats",
        "Cat",
        "답: A 그리고 C 또",
        "<answer>C</answer>",
    ],
    "D": [
        "The best answer is C because D fails",
        "So it must be D",
        "option D, since",
        "정답은 D 입니다 ok",
        "\\boxed{D} so",
        "F. none of A to D so",
        "I pick C, or D) so",
    ],
    None: ["b", "It turns.", "", "...", "no idea", "E"],
}


@pytest.mark.parametrize(
    ("reply", "letter"), [(reply, letter) for letter, several in READ.items() for reply in several]
)
def test_a_reply_is_read_as_the_harness_reads_it(reply: str, letter: str | None) -> None:
    assert read_letter(reply, "ABCD") == letter


@given(st.text(max_size=60), st.sampled_from(["AB", "ABCD", "ABCDEFGH"]))
def test_only_a_letter_that_stands_in_the_reply_is_read(reply: str, letters: str) -> None:
    assert (read_letter(reply, letters) or "") in {"", *letters} & {"", *reply}
    assert (read_letter(reply, letters) is None) == (not set(reply) & set(letters))


def test_a_long_reply_is_read_in_time_that_grows_with_its_length() -> None:
    assert is_done_within(3, lambda: read_letter("the answer is a, (b) or c) " * 20_000, "ABCDEFGH"))
