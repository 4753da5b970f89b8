"""Lines of another run in a journal: they are put aside, and the same command ends with the run's own score."""

from __future__ import annotations

import random

import msgspec
import pytest
from test_run_damaged import N, Traced, accuracy, run

from snellen.engine.journal_disputes import RecordPlace, settled
from snellen.engine.run_folder import RunFolder
from snellen.types import Prompt, Response


class Wrong(Traced):
    async def answer(self, prompt: Prompt) -> Response:
        return msgspec.structs.replace(await super().answer(prompt), text="999")


def lines_of(folder: RunFolder) -> list[bytes]:
    return folder.results.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("replaces", [False, True], ids=["between", "in place of one"])
@pytest.mark.parametrize(("at", "taken"), [(3, 30), (30, 3), (10, 12), (12, 10), (0, 39), (39, 0)])
def test_a_line_of_another_run_does_not_change_the_score(tmp_path, at, taken, replaces):
    """Its number and checksum are right. Before, it counted where it came before the run's own record of that number."""
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run(folder)
    before = accuracy(folder)
    run(other, Wrong())
    assert accuracy(other) == (0.0, 1.0)
    lines, foreign = lines_of(folder), lines_of(other)[taken]
    lines[at : at + replaces] = [foreign]
    folder.results.write_bytes(b"".join(lines))
    model = Traced()
    run(folder, model)
    assert accuracy(folder) == before
    assert len(model.asked) <= 2
    assert foreign.strip() in (folder.path / "results.damaged").read_bytes()


@pytest.mark.parametrize("seed", range(8))
def test_several_lines_of_another_run_at_several_places_do_not_change_the_score(tmp_path, seed):
    rng = random.Random(seed)
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run(folder)
    before = accuracy(folder)
    run(other, Wrong())
    lines, foreign = lines_of(folder), lines_of(other)
    for _ in range(3):
        first = rng.randrange(N - 3)
        at = rng.randrange(N)
        lines[at:at] = foreign[first : first + 3]
    folder.results.write_bytes(b"".join(lines))
    run(folder)
    assert accuracy(folder) == before


def place(number: int, line: int, answer: str, digest: int) -> RecordPlace:
    return RecordPlace(number, 100 * line, 99, line, (answer, 0), digest)


def test_of_two_records_with_one_number_the_one_in_its_place_is_kept_and_else_none():
    own = [place(n, n, f"q{n}", n) for n in range(1, 60)]
    far, near = place(50, 3, "q50", -1), place(50, 48, "q50", -2)
    assert settled([*own, far]) == own
    assert settled([*own, near]) == [each for each in own if each.number != 50]
    again = place(50, 61, "q50", 50)
    assert settled([*own, again]) == own, "the same line twice is no dispute"
    other_number = place(60, 4, "q7", -3)
    assert settled([*own, other_number]) == own, "two answers to one sample"
