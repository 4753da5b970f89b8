"""The real lmms-eval, where SNELLEN_TEST_LMMS_PYTHON names an interpreter that has it: driven, and its files read.

Its model is its own client of OpenAI-compatible servers, asking a stub on loopback; its data are small drawings that stand
where its tasks look for the authors' repositories, in folders of the same names.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from benchmarks.spatial.official_drawn import draw
from easi.external import real_harnesses as real
from servers import fast
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.interop import results
from snellen.benchmarks.spatial.question import sample
from snellen.benchmarks.spatial.scorers import SCORERS
from snellen.benchmarks.spatial.sources import lmms_eval_rows, official
from snellen.benchmarks.spatial.sources.locate import source
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.easi.external import HarnessSettings, run_backend
from snellen.easi.names import PARTS
from snellen.formats.base import Problems
from snellen.formats.readers import table_rows
from snellen.runs.run import load_run

PYTHON = os.environ.get("SNELLEN_TEST_LMMS_PYTHON", "")
REPLIES = ("A", "B.", "(C)", "I would say D", "The answer is B")
pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(
        not PYTHON,
        reason="lmms-eval is not tried: SNELLEN_TEST_LMMS_PYTHON names no interpreter with it (make test-external)",
    ),
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working folder in which the authors' repository lies, drawn small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("OPENAI_API_KEY", "stub-key-0001")
    real.lmms_data(tmp_path, Path(PYTHON), {"embspatial": 4})
    return tmp_path


def settings(home: Path, url: str, *, accelerate: bool) -> HarnessSettings:
    args = f"model_version=stub-vlm,base_url={url}"
    return HarnessSettings(
        model="openai", model_args=args, python=Path(PYTHON), out=home / "out", accelerate=accelerate, time_limit_s=300
    )


@pytest.mark.parametrize("accelerate", [False, True], ids=["python", "accelerate"])
def test_its_own_figure_and_ours_are_one(home, accelerate):
    with fast.running(texts=REPLIES) as server:
        given = settings(home, server.url, accelerate=accelerate)
        outcome = run_backend("lmms-eval", given, ["embspatial"])["embspatial"]
        again = run_backend("lmms-eval", given, ["embspatial"])["embspatial"]
    assert outcome.errors == ()
    assert (outcome.state, outcome.rows, outcome.expected, outcome.exit_status) == ("complete", 12, 12, 0)
    assert outcome.theirs is not None and outcome.difference == 0.0
    assert outcome.differences == ()
    assert len(set(load_run(outcome.folder).records()["text"].to_pylist())) > 1
    assert again.reused and again.theirs == outcome.theirs


def test_a_model_that_cannot_be_reached_is_no_result(home):
    given = settings(home, "http://127.0.0.1:9/v1", accelerate=False)
    given = structs.replace(given, model_args=f"{given.model_args},max_retries=1,timeout=2")
    outcome = run_backend("lmms-eval", given, ["embspatial"])["embspatial"]
    # It writes the failure where the reply should be, scores that, and ends with status 0.
    assert outcome.exit_status == 0
    assert (outcome.state, outcome.folder, outcome.theirs) == ("failed", None, None)
    assert any(line.startswith("none of 12 requests was answered") for line in outcome.errors)


SAID = (
    *("A", "B.", "(C)", "D", "The answer is B", "I think it is 3 metres", "2.5", "", "Answer: C", "`A`", "7"),
    *("<answer>B</answer>", "about twelve", "move_right:0.3", "A. left"),
)
NOT_LOADED = ("omnispatial",)
"""Whose scorer asks the hub for a judge's prompt while it is loaded."""


def test_the_scorers_themselves_and_our_profile_give_each_row_the_same(tmp_path, monkeypatch):
    cases: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for name, task in TASKS.items():
        rows: list[dict[str, Any]] = []

        def seen(task, layout, row, at, *, reader=official.question_of, rows=rows):
            rows.append({key: value for key, value in row.items() if not isinstance(value, bytes)})
            return reader(task, layout, row, at)

        monkeypatch.setattr(official, "question_of", seen)
        data = Data(path=draw(name, tmp_path / "drawn", each=3))
        for part in PARTS if name == "site" else ("",):
            list(source(task, part, data).questions())
        monkeypatch.undo()
        cases[name] = [(row, SAID[at % len(SAID)]) for at, row in enumerate(rows * 4)]
    (tmp_path / "cases.json").write_text(json.dumps(cases, default=str))
    script = Path(__file__).with_name("ask_real_scorers.py")
    subprocess.run(
        [PYTHON, str(script), str(tmp_path / "cases.json"), str(tmp_path)], check=True, capture_output=True, timeout=600
    )
    compared = 0
    for name, task in TASKS.items():
        path = tmp_path / f"samples_{name}.jsonl"
        if name in NOT_LOADED and not path.exists():
            continue
        given = {where: lmms_eval_rows.score_of(row) for where, row in table_rows(path, Problems())}
        assert len(given) == len(cases[name])
        for where, question, (reply,) in results.question_rows(task, path, "lmms", Problems()):
            score = SCORERS[name]["lmms-eval"](sample(question), reply)
            if name == "site" and score.extracted is None:
                continue  # it draws an option there
            if name == "blink" and "answer" in reply.lower():
                continue  # read otherwise since the version that our profile is of
            if name == "spar-bench" and question.kind == "number" and given[where] == 0.0:
                continue  # 0.7.3 forgets to import `partial` there, and takes the error for a wrong answer
            compared += 1
            assert score.value == pytest.approx(given[where], abs=1e-9), (name, where, reply)
    assert compared > 800
