"""What a judge must not change: the answers it was asked about, the names of scores, and what a later look at them gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from easi_stubs import GradingServer, Speaker, done, settings

from benchmarks.spatial import official_drawn as drawn
from snellen.cli import main
from snellen.easi import BenchmarkRow
from snellen.easi.log_file import line
from snellen.easi.reference import compare_with_easi
from snellen.easi.status import entry

PROSE = "It is hard to see, though I settle on the option named first."


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[GradingServer]:
    with GradingServer(lambda reply: {"grade": "A", "extracted": "A"}) as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("JUDGE_API_KEY", "any")
        yield server


def run(monkeypatch: Any, tmp_path: Path, name: str, **more: Any) -> BenchmarkRow:
    drawn.draw(name, tmp_path / "data")
    board, _ = done(
        monkeypatch, Speaker(lambda text: PROSE), settings(tmp_path / "data", tmp_path / "out", name, **more)
    )
    (row,) = board.rows
    return row


def submitted(row: BenchmarkRow, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a submission of the run would hold."""
    capsys.readouterr()
    words = ["--model-name", "org/m", "--model-type", "rl", "--precision", "int8", "--dry-run", "--json"]
    out = ["--out", str(tmp_path / "submissions"), "--allow-incomplete"]
    main(["submit", "easi", str(row.folder.parent), *words, *out])
    return json.loads(capsys.readouterr().out)["payload"]


@pytest.mark.parametrize("name", ["site", "viewspatial"])
def test_a_judged_score_stands_under_its_official_id_whenever_it_is_looked_at(
    judge, tmp_path, monkeypatch, capsys, name
):
    row = run(monkeypatch, tmp_path, name, judge="api:grader")
    assert row.overall is not None and row.overall.value == 1.0
    first = submitted(row, tmp_path, capsys)
    again = run(monkeypatch, tmp_path, name)  # gone on with, and no judge is named
    assert submitted(again, tmp_path, capsys) == first
    assert first["scores"][name] == 100.0
    assert not [key for key in first["scores"] if "grader" in key or "exact" in key]
    (result,) = compare_with_easi([row.folder.parent])[0].results
    assert result.figures["easi"].value == 100.0 and "under easi, a judge decided: api:grader" in result.remarks


def test_a_judge_leaves_the_answers_and_their_scores_by_rule_as_they_are(judge, tmp_path: Path, monkeypatch):
    plain = run(monkeypatch, tmp_path, "blink")
    names = ("results.jsonl", "summary.json")
    kept = [(plain.folder / name).read_bytes() for name in names]
    assert not judge.asked
    judged = run(monkeypatch, tmp_path, "blink", judge="api:grader")
    assert judged.judgement is not None and len(judge.asked) == drawn.count("blink")
    assert [(plain.folder / name).read_bytes() for name in names] == kept


def test_a_judge_that_gives_no_verdict_takes_no_score_away(tmp_path: Path, monkeypatch):
    plain = run(monkeypatch, tmp_path, "blink")
    before = (plain.folder / "summary.json").read_bytes()
    with GradingServer(lambda reply: "I would rather not.") as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("JUDGE_API_KEY", "any")
        mute = run(monkeypatch, tmp_path, "blink", judge="api:grader")
    assert mute.judgement is not None and mute.judgement.without == drawn.count("blink")
    assert mute.judging == f"not judged: api:grader gave no verdict on any of {drawn.count('blink')} replies"
    assert "judged by" not in line(mute) and entry(mute)["judging"] == mute.judging
    assert (plain.folder / "summary.json").read_bytes() == before
    by_rule = run(monkeypatch, tmp_path, "blink", judging=False)
    assert by_rule.overall is not None and by_rule.overall.value == 0.0 and by_rule.overall.coverage == 1.0
