"""The labelled replies: each batch was written before the extractors were run on it (docs/extraction.md)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from snellen.scoring.extract import correct, read
from snellen.scoring.extract.patterns import Cue, cues

DATA = Path(__file__).parent / "data"
BATCHES = sorted(DATA.glob("replies*.jsonl"))
NEEDED = {"easy": 0.99, "hard": 0.90, "none": 0.95}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_row(row: dict[str, Any]) -> Any:
    given = {name: row[name] for name in ("question", "options", "form", "unit") if name in row}
    return read(row["kind"], row["reply"], **given)


def as_labelled(row: dict[str, Any]) -> bool:
    reading = read_row(row)
    if row["expect"] is None:
        return reading.value is None and bool(reading.reason)
    return reading.reason is None and correct(row["kind"], reading, row["expect"], row.get("aliases", ()))


@pytest.mark.parametrize("path", BATCHES, ids=lambda path: path.stem)
def test_labelled_replies_are_read_as_a_careful_reader_does(path: Path) -> None:
    good: Counter[str] = Counter()
    total: Counter[str] = Counter()
    missed = []
    for row in rows(path):
        total[row["level"]] += 1
        if as_labelled(row):
            good[row["level"]] += 1
        else:
            missed.append((row["kind"], row["reply"], row["expect"], read_row(row)))
    shares = {level: good[level] / total[level] for level in total}
    assert all(shares[level] >= NEEDED[level] for level in shares), (shares, missed)


def test_the_set_has_at_least_400_replies_half_of_them_hard_over_all_kinds() -> None:
    labelled = [row for path in BATCHES for row in rows(path)]
    assert len(labelled) >= 400
    assert sum(row["level"] == "hard" for row in labelled) >= len(labelled) / 2
    assert {row["kind"] for row in labelled} == {"truth", "choice", "choice_text", "count", "number", "short"}


def test_a_reading_does_not_depend_on_the_gold_answer() -> None:
    for path in BATCHES:
        for row in rows(path):
            given = {name: row[name] for name in ("question", "options", "form", "unit") if name in row}
            blind = read(row["kind"], row["reply"], **given)
            told = read(row["kind"], row["reply"], gold=row["gold"], aliases=row.get("aliases", ()), **given)
            assert blind == told


@pytest.mark.parametrize("cue", cues(), ids=lambda cue: cue.pattern.pattern[:30])
def test_trigger_words_never_hide_a_turn_of_phrase(cue: Cue) -> None:
    for path in BATCHES:
        for row in rows(path):
            for line in row["reply"].split("\n"):
                full, gated = cue.pattern.search(line), cue.search(line)
                assert (full and full.span()) == (gated and gated.span()), (line, full)
                assert full is None or cue.parts_in(row["reply"]), (line, full)
