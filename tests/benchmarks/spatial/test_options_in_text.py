"""Options that a question's own text lists, whatever the text is made of."""

from __future__ import annotations

from functools import partial

import pytest

from snellen.benchmarks.spatial.question import options_in
from stopwatch import cpu_times


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Which? A. left B. right", {"A": "left", "B": "right"}),
        ("Which? Options: A: north, B: south, C: east", {"A": "north", "B": "south", "C": "east"}),
        ("Which?\n(A) a cup\n(B) a dog; or two,", {"A": "a cup", "B": "a dog; or two"}),
        ("A. one B. two\nSee C. and pick: A. left\nB. right", {"A": "left", "B": "right"}),
        ("A. B. left", {}),
        ("A.  B. left C. right", {}),
        ("Which? B. left C. right", {}),
        ("Which? A. left", {}),
        ("", {}),
    ],
)
def test_options_are_those_that_end_the_text_from_a_on(text: str, found: dict[str, str]) -> None:
    assert options_in(text) == found


@pytest.mark.parametrize("piece", [" ;,", "A. ", "A. x, B. y, ", " "])
def test_a_text_eight_times_as_long_takes_no_more_than_a_few_times_as_long_again(piece: str) -> None:
    short, long = (partial(options_in, "A: x" + piece * times + "y") for times in (5_000, 40_000))
    # In proportion to the square it would be 64 times.
    assert min(cpu_times(long, 5)) < 24 * max(cpu_times(short, 5)) + 0.01
