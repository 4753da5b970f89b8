"""`score` and `compare` of a run without any answer: exit status 9, whatever the options. `report` shows the errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from snellen.benchmarks import registry

pytestmark = pytest.mark.installed

Snellen = Callable[..., Any]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def run(snellen: Snellen, out: str, replies: list[str | None]) -> Any:
    lines = [json.dumps({"id": f"q{i}", "reply": reply}) + "\n" for i, reply in enumerate(replies)]
    Path(f"{out}.jsonl").write_text("".join(lines))
    return snellen("run", "arithmetic", "-m", f"replay:{out}.jsonl", "--limit", "10", "--out", out, "--quiet")


def test_a_run_without_any_answer_is_named_and_has_no_score(snellen: Snellen):
    assert run(snellen, "none", [None] * 10).status == 9
    said = snellen("score", "none")
    assert said.status == 9 and "0 of 10 samples have an answer" in said.out
    assert snellen("score", "none", "--profile", "all").status == 9
    said = snellen("report", "none")
    assert said.status == 0 and "no sample of none has an answer" in said.err and Path("none/report.html").exists()
    run(snellen, "all", [str(i % 7) for i in range(10)])
    assert snellen("compare", "all", "none").status == 9
    assert "no sample of none has an answer" in snellen("report", "all", "none").err
    assert "no sample" not in snellen("report", "all").err
    assert snellen("score", "none", "--junit", "j.xml").status == 9
    assert ElementTree.parse("j.xml").getroot().get("failures") == "1"


def test_a_run_whose_journal_is_empty_or_gone_is_not_exit_0(snellen: Snellen):
    run(snellen, "all", [str(i % 7) for i in range(10)])
    run(snellen, "other", [str(i % 7) for i in range(10)])
    Path("other/results.jsonl").write_bytes(b"")
    for command in (("score", "other"), ("compare", "all", "other")):
        assert snellen(*command).status != 0, command


def test_a_file_without_any_answer_is_not_exit_0(snellen: Snellen):
    Path("a.jsonl").write_text("".join(json.dumps({"id": f"q{i}", "reply": None}) + "\n" for i in range(100)))
    said = snellen("score", "a.jsonl", "--benchmark", "arithmetic", "--json")
    assert said.status == 9
    assert json.loads(said.out)["failures"] == {"answered": 0, "failed": 100, "errors": []}


def test_json_of_score_has_the_failures_that_json_of_run_has(snellen: Snellen):
    run(snellen, "some", [None, None, *["1"] * 8])
    said = snellen("run", "arithmetic", "-m", "replay:some.jsonl", "--limit", "10", "--out", "some", "--json")
    expected = json.loads(said.out)["runs"][0]["failures"]
    assert (expected["answered"], expected["failed"]) == (8, 2)
    said = snellen("score", "some", "--json")
    assert said.status == 0 and json.loads(said.out)["failures"] == expected
    run(snellen, "all", ["1"] * 10)
    assert "failures" not in json.loads(snellen("score", "all", "--json").out)


def test_samples_without_an_answer_are_not_counted_as_answers_in_the_title_of_a_table(snellen: Snellen):
    run(snellen, "some", [None, None, *["1"] * 8])
    assert "8 of 100 answers" in snellen("score", "some").out


def test_answers_of_a_file_without_a_reply_are_counted_beside_its_score(snellen: Snellen):
    rows = [{"id": f"q{i}", "reply": None if i % 4 else "1"} for i in range(100)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = snellen("score", "a.jsonl", "--benchmark", "arithmetic")
    assert "note: 75 of 100 answers are empty or failures and count as wrong" in said.err
    Path("a.jsonl").write_text("".join(json.dumps({**row, "reply": "1"}) + "\n" for row in rows))
    assert "count as wrong" not in snellen("score", "a.jsonl", "--benchmark", "arithmetic").err
