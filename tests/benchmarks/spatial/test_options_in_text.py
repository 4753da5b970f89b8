"""Options that a question's own text lists, whatever the text is made of."""

from __future__ import annotations

from time import process_time

import pytest

from snellen.benchmarks.spatial.question import options_in


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
    def cost(times: int) -> float:
        text = "A: x" + piece * times + "y"
        costs = []
        for _ in range(5):
            start = process_time()
            options_in(text)
            costs.append(process_time() - start)
        return min(costs)

    assert cost(40_000) < 24 * cost(5_000) + 0.01  # in proportion to the square it would be 64 times
