"""The loop of a run: Python's search for cycles is rarer while one runs, and as the caller had it afterwards."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from snellen.event_loop import COLLECTED_EVERY, in_loop


@pytest.fixture(autouse=True)
def own_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


async def threshold() -> tuple[int, int, int]:
    return gc.get_threshold()


@pytest.mark.parametrize(
    ("own", "inside"),
    [
        ((700, 10, 10), (COLLECTED_EVERY, 10, 10)),
        ((900, 7, 3), (COLLECTED_EVERY, 7, 3)),
        ((90_000, 5, 5), (90_000, 5, 5)),
        ((0, 10, 10), (0, 10, 10)),
    ],
)
def test_cycles_are_looked_for_more_rarely_in_a_loop_unless_the_caller_chose_so(own, inside):
    gc.set_threshold(*own)
    assert in_loop(threshold()) == inside
    assert gc.get_threshold() == own


def test_the_callers_choice_is_back_after_a_failure_and_after_a_loop_inside_a_loop():
    gc.set_threshold(700, 10, 10)

    async def failing() -> None:
        assert in_loop(threshold())[0] == gc.get_threshold()[0] == COLLECTED_EVERY
        raise KeyError("x")

    with pytest.raises(KeyError):
        in_loop(failing())
    assert gc.get_threshold() == (700, 10, 10)


def test_a_choice_that_is_made_meanwhile_stays():
    gc.set_threshold(700, 10, 10)

    async def choosing() -> None:
        gc.set_threshold(0)

    in_loop(choosing())
    assert gc.get_threshold()[0] == 0


def test_the_last_of_several_loops_restores_it():
    gc.set_threshold(700, 10, 10)
    begun, ended = threading.Event(), threading.Event()

    async def long() -> None:
        begun.set()
        await asyncio.to_thread(ended.wait, 600)

    thread = threading.Thread(target=in_loop, args=(long(),))
    thread.start()
    assert begun.wait(600)
    assert in_loop(threshold())[0] == gc.get_threshold()[0] == COLLECTED_EVERY
    ended.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)
