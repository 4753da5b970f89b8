"""Variants of prompting ask the same questions: their runs are compared, and what differs is named."""

from __future__ import annotations

from pathlib import Path

import drawn
import pytest
from test_breakdown import Parrot

from snellen import Run, evaluate
from snellen.errors import DifferentSamplesError
from snellen.runs.compare import compare


def asked(root: Path, name: str, data: Path, **options: str) -> Run:
    return evaluate("vlm2/gc-mat", Parrot(), data=data, out=root / name, benchmark_options=options, concurrency=1)


def test_variants_of_prompting_are_compared_in_the_benchmarks_own_unit_where_it_is_named(tmp_path: Path) -> None:
    data = drawn.draw(tmp_path / "d.zip", groups=6)
    runs = [asked(tmp_path, name or "plain", data, **({"prompting": name} if name else {})) for name in ("", "cot")]
    (pairing,) = compare(*runs)
    assert any(note == "prompting: none in the baseline, cot in the other" for note in pairing.notes)
    assert any("--metric pair_accuracy" in note and "6 groups" in note for note in pairing.notes)
    (named,) = compare(*runs, metric="pair_accuracy")
    assert named.metric is not None and not any("--metric" in note for note in named.notes)
    elsewhere = asked(tmp_path, "elsewhere", drawn.draw(tmp_path / "other.zip", groups=5), prompting="cot")
    with pytest.raises(DifferentSamplesError, match="data"):
        compare(runs[0], elsewhere)
