"""`replay:PATH` answers from a file what the file holds, and nothing else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.stubs import ARITHMETIC, Calculator
from peak_memory import PEAK_KB
from snellen import evaluate, load_run
from snellen.errors import FingerprintError, NoAnswerError, PreflightError, UsageError
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.types import Prompt


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_replayed_run_gives_the_same_answers_and_the_same_scores(tmp_path):
    first = evaluate(ARITHMETIC, Calculator(), out=tmp_path / "first", repeats=2)
    again = evaluate(ARITHMETIC, f"replay:{tmp_path / 'first'}", out=tmp_path / "again", repeats=2)
    assert again.meta.totals.ok == 200 and again.metric("accuracy") == first.metric("accuracy")
    names = ["sample_id", "repeat", "text"]
    assert again.records().select(names).equals(first.records().select(names))


def test_what_the_file_lacks_is_recorded_as_no_answer_and_nothing_else_stops(tmp_path):
    file = write(
        tmp_path / "a.jsonl",
        [{"id": f"q{i}", "reply": str(i % 7)} for i in range(300)] + [{"id": "q300", "reply": None}],
    )
    run = evaluate(ARITHMETIC, f"replay:{file}", out=tmp_path / "run", benchmark_options={"n": "1000"})
    assert (run.meta.totals.ok, run.meta.totals.error) == (300, 700)
    kinds = {row["sample_id"]: row["error_kind"] for row in run.records().to_pylist()}
    assert kinds["q299"] is None and kinds["q300"] == "no_answer" and kinds["q999"] == "no_answer"
    assert run.metric("accuracy").value == pytest.approx(0.3)


def test_a_file_that_has_changed_is_another_model(tmp_path):
    rows = [{"id": f"q{i}", "reply": str(i % 7)} for i in range(100)]
    file = write(tmp_path / "a.jsonl", rows)
    evaluate(ARITHMETIC, f"replay:{file}", out=tmp_path / "run")
    write(file, [{**row, "reply": "?"} for row in rows])
    with pytest.raises(FingerprintError, match=r"model\.answers"):
        evaluate(ARITHMETIC, f"replay:{file}", out=tmp_path / "run")
    assert load_run(tmp_path / "run", benchmark=ARITHMETIC).metric("accuracy").value == 1.0


def test_a_refusal_is_replayed_as_a_refusal(tmp_path):
    rows = [
        {"sample_id": f"q{i}", "status": "refused", "error": {"kind": "refusal", "message": "I won't"}}
        for i in range(9)
    ]
    run = evaluate(ARITHMETIC, f"replay:{write(tmp_path / 'results.jsonl', rows)}", out=tmp_path / "run", limit=9)
    assert run.meta.totals.refused == 9


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot read"), (b"", "no row"), (b'{"id": "q0", "answer": "x"}\n', "--reply-field")]
)
def test_a_file_that_cannot_be_replayed_stops_before_the_first_question(tmp_path, content, said):
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PreflightError, match=said):
        evaluate(ARITHMETIC, f"replay:{path}", out=tmp_path / "run", limit=1)


def test_replay_without_a_path_says_how_it_is_written():
    with pytest.raises(UsageError, match="replay:FILE"):
        open_model("replay:", ModelOptions())


def test_a_prompt_without_its_sample_has_no_answer():
    with pytest.raises(NoAnswerError):
        asyncio.run(open_model("replay:any", ModelOptions()).answer(Prompt(())))


def test_300_000_long_answers_are_replayed_in_bounded_memory(tmp_path):
    """Their text alone is 150 MB; the process may have grown by far less."""
    code = """
import asyncio, sys
from snellen.models.replay import ReplayModel
async def main():
    model = ReplayModel(sys.argv[1])
    before = PEAK_KB
    await model.preflight()
    assert (await model.answer_for("q299999", 0, None)).text == "299999" + "." * 500
    await model.close()
    print((PEAK_KB - before) / 1024)
asyncio.run(main())
"""
    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        for i in range(300_000):
            file.write(f'{{"id": "q{i}", "reply": "{i}{"." * 500}"}}\n')
    done = subprocess.run(
        [sys.executable, "-c", code.replace("PEAK_KB", PEAK_KB), str(path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 100
