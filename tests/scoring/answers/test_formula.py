"""Formulas are compared by meaning where math-verify is installed, in bounded time and in any thread."""

from __future__ import annotations

import threading
import time

import pytest

from snellen.scoring.answers import answer_type
from snellen.scoring.answers.formula import SECONDS, has_math_verify

needs_math_verify = pytest.mark.skipif(
    not has_math_verify(), reason="math-verify is not installed: pip install 'snellen[math]'"
)
FORMULAS = answer_type("formula")


def same(reply: str, cell: str) -> bool:
    return FORMULAS.same(FORMULAS.parse(reply), FORMULAS.parse_gold(cell))


@needs_math_verify
@pytest.mark.parametrize(
    ("reply", "cell", "expected"),
    [
        ("y+x", "x + y", True),
        ("(x+1)/2", r"\frac{x+1}{2}", True),
        (r"2\sqrt{2}", r"\sqrt{8}", True),
        ("x < y", "x > y", False),
        ("x-1", "x+1", False),
    ],
)
def test_formulas_that_are_equal_are_the_same(reply, cell, expected):
    assert same(reply, cell) is expected


@needs_math_verify
def test_a_formula_that_cannot_be_computed_is_given_up_in_any_thread_and_the_next_is_compared():
    verdicts: list[bool] = []

    def compare():
        verdicts.extend((same("9^{9^{9^{9}}}", "9^{9^{9^{8}}}"), same("b+a", "a+b")))

    began = time.monotonic()
    thread = threading.Thread(target=compare)
    thread.start()
    thread.join()
    assert verdicts == [False, True]
    assert time.monotonic() - began < SECONDS + 60
