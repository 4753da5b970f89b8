"""Even samples of a stream."""

from __future__ import annotations

from itertools import pairwise

import pytest

from snellen.runs.check.check import EvenSample


def drawn(length: int, wanted: int, seed: int = 0) -> list[int]:
    sample: EvenSample[int] = EvenSample(wanted, seed)
    for item in range(length):
        sample.add(item)
    return sample.items()


@pytest.mark.parametrize("length", [0, 1, 9, 10])
def test_a_short_stream_is_taken_whole(length: int) -> None:
    assert drawn(length, 10) == list(range(length))


@pytest.mark.parametrize("length", [11, 19, 20, 21, 39, 500, 12_345])
def test_a_long_stream_gives_the_wanted_number_in_order_and_from_every_part(length: int) -> None:
    items = drawn(length, 10)
    assert len(items) == 10 == len(set(items))
    assert items == sorted(items)
    assert items[0] < length / 4 and items[-1] >= length * 0.7
    gaps = [after - before for before, after in pairwise(items)]
    assert max(gaps) <= max(2, 0.35 * length)


def test_the_seed_decides_and_every_item_can_be_drawn() -> None:
    assert drawn(1000, 10, seed=3) == drawn(1000, 10, seed=3)
    assert drawn(1000, 10, seed=3) != drawn(1000, 10, seed=4)
    assert {item for seed in range(400) for item in drawn(64, 4, seed)} == set(range(64))


def test_no_samples_are_drawn_where_none_are_wanted() -> None:
    assert drawn(50, 0) == []
