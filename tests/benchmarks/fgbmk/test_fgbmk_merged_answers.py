"""Files of answers of several kinds, and rows without readable options, under the authors' rule."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import released

from snellen.errors import DataError
from snellen.runs.score import score

PINE = released.PINE
CROW = list(released.BIRDS)[1]


def answer(number: int, image: str, text: str, gold: str, reply: str, category: str = "generic") -> dict[str, Any]:
    return {"question_id": number, "image": image, "prompt": text, "text": reply, "class": gold, "category": category}


def mixed() -> list[dict[str, Any]]:
    """Answers of six benchmarks, as several merge.jsonl of the authors' demos one after the other."""
    return [
        answer(i, row["image"], row["text"], row["class"], reply, row["category"])
        for name, replies in {
            f"{released.HIERARCHY}/cub/species/species_question_choice.jsonl": ["Black-footed_albatross", "crow", "rock wren"],
            f"{released.HIERARCHY}/cub/genus/genus_question_choice.jsonl": ["an albatross", "wren"],
            f"{released.HIERARCHY}/iNat2021/order/order_question_choice.jsonl": ["poales", "pinales"],
            f"{released.HIERARCHY}/cub/species/species_question_true_false.jsonl": ["Yes.", "I do not know", "yes and no"],
            f"{released.HIERARCHY}/cub/species/species_question_short_answer.jsonl": ["albatross", "An American-Crow", ""],
            "knowledge_bias_estimation/aircraft/questions_true_false_all_class.jsonl": ["yes", "yes"],
        }.items()
        for i, (row, reply) in enumerate(zip(released.files()[name], replies, strict=True), 1)
    ]  # fmt: skip


def authors(rows: list[dict[str, Any]]) -> float:
    """answer_acc.py in our own words: the share of right rows."""

    def plain(text: str) -> str:
        return re.sub(r"[_\-,]+", " ", text).lower().strip()

    return sum(plain(row["class"]) in plain(row["text"]) for row in rows) / len(rows)


def test_answers_of_several_kinds_levels_and_data_sets_are_scored_in_one_go(tmp_path):
    path = tmp_path / "merge.jsonl"
    path.write_text(released.lines(mixed()))
    tasks: dict[str, int] = defaultdict(int)

    def each(scored: Any) -> None:
        tasks[str(scored.sample.meta["task"])] += 1

    summary, notes = score(path, "fgbmk", profile="all", each=each)
    assert dict(tasks) == {
        "cub/species/choice": 3,
        "cub/genus/choice": 2,
        "inat2021/order/choice": 2,
        "cub/species/truth": 3,
        "cub/species/short": 3,
        "aircraft/bias": 2,
    }
    assert notes == []
    metrics = {one.name: one.value for one in summary.metrics["official"]}
    assert metrics["accuracy"] == pytest.approx(authors(mixed()))
    assert metrics["cub/species/choice/accuracy"] == pytest.approx(1 / 3)
    assert metrics["cub/species/truth/accuracy"] == pytest.approx(1)
    assert metrics["aircraft/bias/image_accuracy"] == 0
    assert metrics["accuracy/species/short"] == pytest.approx(1 / 3)


def test_a_file_of_several_kinds_gives_one_benchmark_its_own_rows_and_names_the_others(tmp_path):
    path = tmp_path / "merge.jsonl"
    path.write_text(released.lines(mixed()))
    summary, notes = score(path, "fgbmk/cub/species/short")
    assert summary.rows == 3
    assert any("--benchmark fgbmk" in line for line in notes)


@pytest.mark.parametrize("name", ["fgbmk", "fgbmk/cub/species/choice"])
def test_rows_without_readable_options_are_scored_by_the_authors_rule(tmp_path, name):
    rows = [
        answer(1, CROW, "Which species does this aves in the photo belong to?", "american crow", "It is an American crow"),
        answer(2, CROW, "Which species? A. fish crow B. american crow", "american crow", "B"),
        answer(3, CROW, "What is the species?" + released.listed("fish crow", "rook"), "american crow", "american-crow"),
        answer(4, CROW, "What is the species?" + released.listed("fish crow", "rook"), "rook", "a rook"),
    ]  # fmt: skip
    path = tmp_path / "merge.jsonl"
    path.write_text(released.lines(rows))
    summary, notes = score(path, name, profile="all")
    assert summary.rows == 4
    assert notes == []
    metrics = {one.name: one.value for one in summary.metrics["official"]}
    assert metrics["accuracy"] == authors(rows) == 0.75
    assert {one.name: one.value for one in summary.metrics["strict"]}["accuracy"] == 0.75


def test_rows_that_lack_what_the_rule_needs_are_named(tmp_path):
    good = answer(1, PINE, "Is the order of the plantae pinales?" + released.YES_NO, "yes", "yes", "order")
    path = tmp_path / "merge.jsonl"
    path.write_text(released.lines([good, {**good, "class": None}, {**good, "image": 3}]))
    summary, notes = score(path, "fgbmk")
    assert summary.rows == 1
    assert "2 rows" in notes[0]
    path.write_text(released.lines([{**good, "class": ""}]))
    with pytest.raises(DataError, match="no row is an answer"):
        score(path, "fgbmk")
