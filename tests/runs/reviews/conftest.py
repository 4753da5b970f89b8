"""A small table of questions with two options each, and runs of it that answer as a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from snellen.runs.evaluate import evaluate
from snellen.runs.run import Run, load_run

GOLD = {"q0": "A", "q1": "B", "q2": "A", "q3": "B", "q4": "A", "q5": "B"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Six questions; the meta field `level` is `hard` for two of them."""
    path = tmp_path / "questions.csv"
    rows = [
        f"{name},Which side is {name} on?,left,right,{gold},{'hard' if name in ('q0', 'q3') else 'easy'}"
        for name, gold in GOLD.items()
    ]
    path.write_text("\n".join(["id,question,A,B,answer,level", *rows]) + "\n")
    return path


@pytest.fixture
def make_run(table: Path, tmp_path: Path) -> Callable[..., Run]:
    """Return a function that records replies, by sample id, as a run."""

    def make(replies: Mapping[str, str], name: str = "run") -> Run:
        answers = tmp_path / f"{name}.jsonl"
        answers.write_bytes(
            b"\n".join(msgspec.json.encode({"id": key, "response": text}) for key, text in replies.items())
        )
        return load_run(evaluate(str(table), model=f"replay:{answers}", out=tmp_path / "results" / name).path)

    return make
