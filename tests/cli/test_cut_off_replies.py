"""Replies that ended at the limit of their tokens are counted wherever the score of their run is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from engine.stubs import Calculator
from snellen import evaluate, load_run
from snellen.benchmarks import registry
from snellen.cli.results import ModelOutcome, finish
from snellen.engine.run_folder import RunFolder
from snellen.runs.export import export
from snellen.types import Generation, Prompt, Response

COUNT = "3 of 12 replies were cut off at the token limit"


class Cut(Calculator):
    """Ends every fourth reply at the limit of its tokens."""

    async def answer(self, prompt: Prompt) -> Response:
        response = await super().answer(prompt)
        return structs.replace(response, finish_reason="stop" if len(self.asked) % 4 else "length")


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")


def test_replies_that_were_cut_off_are_counted_under_the_table_and_in_the_report(snellen, capsys):
    run = evaluate("arithmetic", Cut(), limit=12, out="run", generation=Generation(max_tokens=16))
    finish(ModelOutcome([run]), profile=None, report=False, as_json=False)
    line = next(line for line in capsys.readouterr().out.splitlines() if COUNT in line)
    assert "(--max-tokens 16)" in line and "--max-tokens N --out NAME" in line
    finish(ModelOutcome([run]), profile=None, report=False, as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)["runs"]
    assert shown["totals"]["cut_off"] == 3
    assert COUNT in snellen("score", "run").err
    assert snellen("report", "run", "--out", "page.html").status == 0 and COUNT in Path("page.html").read_text()
    assert any(COUNT in note for note in export(run, "vlmevalkit", out="exported").notes)


def test_a_killed_run_counts_the_replies_that_were_cut_off_in_its_journal(snellen):
    evaluate("arithmetic", Cut(), limit=12, out="run", concurrency=1)
    folder = RunFolder("run")
    folder.write_meta(structs.replace(folder.meta(), state="running", totals=type(folder.meta().totals)()))
    assert any(COUNT in note for note in load_run("run").notes())


def test_nothing_is_said_where_no_reply_was_cut_off_or_an_older_version_did_not_count(snellen, capsys):
    run = evaluate("arithmetic", Calculator(), limit=12, out="run")
    assert run.meta.totals.cut_off == 0
    older = structs.replace(run.meta, totals=structs.replace(run.meta.totals, cut_off=None))
    for meta in (run.meta, older):
        run.meta = meta
        finish(ModelOutcome([run]), profile=None, report=False, as_json=False)
        assert "cut off" not in capsys.readouterr().out and not any("cut off" in note for note in run.notes())


def test_a_plan_counts_them_for_each_of_its_runs(snellen):
    Path("plan.toml").write_text(
        'benchmarks = ["chart/creatures"]\nmodels = ["embedded"]\n[defaults]\nlimit = 4\nmax_tokens = 1\n',
        encoding="utf-8",
    )
    assert (
        "chart/creatures × embedded: 4 of 4 replies were cut off at the token limit" in snellen("run", "plan.toml").err
    )
