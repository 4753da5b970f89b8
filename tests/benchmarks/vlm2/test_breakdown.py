"""Figures of each cue, kind of thing and pattern: the subtask's own rule over these questions alone."""

from __future__ import annotations

from pathlib import Path

import drawn
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen import evaluate
from snellen.benchmarks.vlm2 import parse_row
from snellen.models.base import Model
from snellen.types import Prompt, Response, Text

SEQUENCES = ("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD")


@given(st.sampled_from(SEQUENCES), st.integers(1, 5))
def test_number_of_images_and_gold_answer_tell_the_pattern(sequence: str, letter: int) -> None:
    assert parse_row.pattern(len(sequence), len(set(sequence))) == sequence
    again = [str(place) for place, who in enumerate(sequence, 1) if sequence.count(who) > 1]
    gold = f"{'ABCDE'[letter - 1]}) {' and '.join(again) or 'None'}"
    assert parse_row.group_pattern(["x.jpg"] * len(sequence), gold) == sequence


@pytest.mark.parametrize(("images", "gold"), [(2, 3), (3, 0), (3, True), (3, "2"), (3, None), (40, 1), (2, 2.0)])
def test_numbers_that_fit_no_sequence_have_no_pattern(images: int, gold: object) -> None:
    assert parse_row.pattern(images, gold) == ""


class Parrot(Model):
    """Says what it was asked last, in turn: T, F, 1, 2, B."""

    name = "parrot"

    def __init__(self) -> None:
        self.count = 0

    def identity(self) -> dict[str, str]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        self.count += 1
        asked = " ".join(part.text for part in prompt.parts if isinstance(part, Text))
        return Response("TF"[self.count % 3 == 0] if "T or F" in asked else "12B"[self.count % 3])

    async def close(self) -> None: ...


def test_each_part_has_the_subtasks_own_figure_and_the_parts_make_the_whole(tmp_path: Path) -> None:
    data = drawn.draw(tmp_path / "d.zip", groups=12)
    for task, column in (("gc-mat", "cue"), ("oc-cpr", "type"), ("oc-cnt", "pattern"), ("pc-grp", "pattern")):
        run = evaluate(f"vlm2/{task}", Parrot(), data=data, out=tmp_path / task, concurrency=1)
        for profile, metrics in run.summarize("all").metrics.items():
            whole = metrics[0]
            parts = [metric for metric in metrics if metric.name.startswith(f"{whole.name}/{column}/")]
            assert len(parts) > 1, (task, profile)
            assert sum(part.n for part in parts) == whole.n
            values = [(part.value, part.n) for part in parts if part.value is not None]
            assert sum(value * n for value, n in values) / whole.n == pytest.approx(whole.value)
