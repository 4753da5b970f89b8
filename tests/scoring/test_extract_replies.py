"""The labelled replies: each batch was written before the extractors were run on it (docs/extraction.md)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from snellen.scoring.answers import AnswerContext
from snellen.scoring.extract import correct, read

DATA = Path(__file__).parent / "data"
BATCHES, BLIND = sorted(DATA.glob("replies*.jsonl")), sorted(DATA.glob("blind_replies*.jsonl"))
"""Batches, and those of authors who saw neither rules nor earlier batches; what the first look gave is in docs/extraction.md."""
MOST_WRONG, LEAST_EASY, LEAST_READ = 0.01, 0.99, 0.85


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_row(row: dict[str, Any]) -> Any:
    given = {name: row[name] for name in ("question", "options", "form", "unit") if name in row}
    return read(row["kind"], row["reply"], **given)


def context_of(row: dict[str, Any]) -> AnswerContext:
    return AnswerContext(question=row.get("question") or "", unit=row.get("unit") or "")


def outcome(row: dict[str, Any]) -> str:
    reading = read_row(row)
    if row["expect"] is None:
        return "nothing" if reading.value is None and reading.reason else "wrong"
    if reading.value is None:
        return "unread"
    return "right" if correct(row["kind"], reading, row["expect"], row.get("aliases", ()), context_of(row)) else "wrong"


def test_labelled_replies_are_read_as_a_careful_reader_does_or_left_unread():
    labelled = [(row, outcome(row)) for path in (*BATCHES, *BLIND) for row in rows(path)]
    counts = Counter(said for _, said in labelled)
    easy = Counter(said for row, said in labelled if row["level"] == "easy")
    wrong = [(row["kind"], row["reply"], row["expect"], read_row(row)) for row, said in labelled if said == "wrong"]
    readable = sum(row["expect"] is not None for row, _ in labelled)
    assert counts["wrong"] <= MOST_WRONG * len(labelled), wrong
    assert easy["right"] >= LEAST_EASY * easy.total(), easy
    assert counts["right"] >= LEAST_READ * readable, counts


BIRDS, COLOURS = ("red kite", "robin", "crow", "owl"), ("red", "blue", "green", "white")
ABOUT_OTHERS = [
    ("choice", "Which bird is on the left?", BIRDS, "The left one is a robin. The right one is a crow.", None),
    ("choice", "What colour is the car?", COLOURS, "The car is blue. The sky is white.", None),
    ("choice", "Which bird is it?", BIRDS, "It's smaller than a crow.", None),
    ("choice", "Which statements hold?", BIRDS, "A, B and D are wrong.", "C"),
    ("truth", "¿Hay perros?", (), "Hay dos gatos, pero no hay perros.", False),
    ("truth", "A pessoa no vídeo desliga o fogão?", (), "Logo, ela não desliga o fogão.", False),
    ("truth", "Is the shop open?", (), "I doubt the shop is open.", None),
    ("truth", "Is the shop open?", (), "If the sign is right, the shop is open.", None),
    ("text", "What colour is the car?", (), "THE CAR IS RED", "RED"),
    ("text", "What does the sign say?", (), "NO PARKING", "NO PARKING"),
    ("text", "What does the sign say?", (), "THERE IS NO SIGN", None),
    ("name", "Who is this?", (), "d'Artagnan", "d'Artagnan"),
    ("count", "Is it a bird?", (), "². Robin", None),
    ("text", "", (), "d'because it", "d'"),
]


@pytest.mark.parametrize(("kind", "question", "options", "reply", "value"), ABOUT_OTHERS)
def test_what_a_reply_says_of_others_denies_or_doubts_is_no_answer(kind, question, options, reply, value):
    assert read(kind, reply, question=question, options=options).value == value


def test_the_set_has_at_least_400_replies_half_of_them_hard_over_all_kinds():
    labelled = [row for path in BATCHES for row in rows(path)]
    assert len(labelled) >= 400
    assert sum(row["level"] == "hard" for row in labelled) >= len(labelled) / 2
    assert {row["kind"] for row in labelled} == {
        "truth",
        "choice",
        "choice_text",
        "count",
        "number",
        "short",
        "text",
        "name",
        "quantity",
    }
