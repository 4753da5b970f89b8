"""Runs whose data has changed since: the figures say so wherever they are shown, and nothing is said of unchanged data."""

from __future__ import annotations

from pathlib import Path

import pytest

from snellen import evaluate, load_run
from snellen.runs.compare import compare
from snellen.runs.export import export

QUESTIONS = "question,A,B,answer\nWhich is a fruit?,apple,stone,{}\nWhich is red?,blood,grass,A\n"
PLUGIN = """
from pathlib import Path

from snellen.benchmarks.base import Benchmark
from snellen.scoring import accuracy, choice
from snellen.types import Prompt, Sample, Text


def samples(data):
    for number in range(4):
        text = Text(f"Is {number} even? A. yes B. no")
        target = Path("gold.txt").read_text()
        yield Sample(str(number), Prompt((text,)), target, kind="choice", options={"A": "yes", "B": "no"})


PARITY = Benchmark("parity", "1", samples, {"strict": choice}, accuracy(), {"strict": "letters"})
"""
CHANGED = "data has changed since the run"


def notes(pair: list[Path]) -> list[str]:
    (pairing,) = compare(*pair)
    return [*pairing.notes]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two runs over one table, with answers of another seed in the second."""
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text(QUESTIONS.format("A"))
    return [evaluate("q.csv", "embedded", out=name, seed=seed).path for seed, name in enumerate(("one", "two"))]


def test_nothing_is_said_of_data_that_is_as_it_was(pair):
    run = load_run(pair[0])
    assert run.changed_data == ""
    assert not [line for line in run.notes() if CHANGED in line]
    assert not [line for line in notes(pair) if CHANGED in line]


def test_other_gold_in_a_table_is_stated_with_every_figure(pair, tmp_path, snellen):
    (tmp_path / "q.csv").write_text(QUESTIONS.format("B"))
    assert [line for line in notes(pair) if line.startswith("one: ") and CHANGED in line]
    assert CHANGED in "".join(export(pair[0], "jsonl", out=tmp_path / "exported").notes)
    snellen("report", pair[0], "--out", tmp_path / "page.html")
    assert CHANGED in (tmp_path / "page.html").read_text("utf-8")
    assert CHANGED in snellen("failures", pair[0]).out
    assert snellen("score", pair[0]).status != 0  # a table that changed is named on purpose: --benchmark


def test_other_gold_in_a_plugin_is_stated(tmp_path, monkeypatch, snellen):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "parity_plugin.py").write_text(PLUGIN)
    (tmp_path / "gold.txt").write_text("A")
    asked = snellen("run", "parity_plugin:PARITY", "-m", "embedded", "--out", "run")
    assert asked.status == 0, asked.err
    before = snellen("score", "run", "--trust")
    assert before.status == 0
    assert CHANGED not in before.out + before.err
    (tmp_path / "gold.txt").write_text("B")
    after = snellen("score", "run", "--trust")
    assert CHANGED in after.out + after.err
