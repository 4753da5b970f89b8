"""Questions of a table with earlier turns: the column `history`, what is sent, and which models refuse it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import snellen
from runs.study.conftest import NotingModel
from snellen.benchmarks.table.dialogue import turns_of
from snellen.benchmarks.table.operations import CellError
from snellen.errors import UsageError
from snellen.types import Text, Turn

TURNS = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "A bird."}]
EXPECTED = (Turn("user", (Text("What is this?"),)), Turn("assistant", (Text("A bird."),)))


def rows(history: object) -> list[dict[str, object]]:
    return [{"question": "Which one?", "answer": "owl", "history": history}, {"question": "Why?", "answer": "so"}]


@pytest.mark.parametrize("history", [TURNS, json.dumps(TURNS), [["What is this?", "A bird."]]])
def test_earlier_turns_stand_before_the_question(table: Callable[..., Path], tmp_path: Path, history: object):
    model = NotingModel("owl")
    run = snellen.evaluate(str(table("talk.jsonl", rows(history))), model, out=tmp_path / "run")
    by_question = {prompt.parts[-1].text.splitlines()[0]: prompt.history for prompt in model.prompts}
    assert by_question == {"Which one?": EXPECTED, "Why?": ()}
    assert "history ← `history`" in run.meta.reading


def test_a_model_without_earlier_turns_is_refused_before_the_first_request(table: Callable[..., Path], tmp_path: Path):
    model = NotingModel()
    model.supports = frozenset()
    with pytest.raises(UsageError, match="questions with earlier turns"):
        snellen.evaluate(str(table("talk.jsonl", rows(TURNS))), model, out=tmp_path / "run")
    assert model.prompts == []


def test_examples_stand_before_the_earlier_turns(table: Callable[..., Path], tmp_path: Path):
    pool = table("pool.jsonl", [{"question": "How many?", "answer": "two"}])
    model = NotingModel("owl")
    path = table("talk.jsonl", rows(TURNS))
    snellen.evaluate(str(path), model, few_shot=1, few_shot_from=str(pool), out=tmp_path / "run")
    assert [len(prompt.history) for prompt in sorted(model.prompts, key=lambda prompt: len(prompt.history))] == [2, 4]
    longest = max(model.prompts, key=lambda prompt: len(prompt.history))
    assert longest.history[2:] == EXPECTED


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("no list", "no list of turns"),
        ([{"role": "system", "content": "x"}], "role 'system'"),
        (TURNS[:1], "in turn were expected"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "more than text"),
        ([{"role": "user", "content": ""}], "no text"),
        (TURNS * 65, "130 turns"),
        (3, "no list of turns"),
    ],
)
def test_a_cell_in_another_form_is_refused_with_the_reason(cell: object, words: str):
    with pytest.raises(CellError, match=words):
        turns_of(cell)


def test_a_column_of_another_kind_of_history_stays_a_column(table: Callable[..., Path], tmp_path: Path):
    path = table("talk.jsonl", [{"question": "When?", "answer": "then", "history": "medieval"}])
    model = NotingModel("then")
    snellen.evaluate(str(path), model, out=tmp_path / "run")
    assert model.prompts[0].history == ()
