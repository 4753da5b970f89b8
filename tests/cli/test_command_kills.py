"""Commands that are killed and called again leave what undisturbed ones leave: nothing is lost, and nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_kills import COMMANDS, Place, kill_at_each_step, kill_command, prepared

KILLS = 4


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with prepared() as place:
        yield place


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_at_any_moment_and_called_again_ends_as_an_undisturbed_one(place: Place, name: str) -> None:
    kill_command(place, COMMANDS[name], KILLS, seed=7)


def test_an_import_killed_at_any_of_its_steps_is_finished_by_the_same_command(place: Place) -> None:
    assert kill_at_each_step(place, COMMANDS["import"]) > 20
