"""A redacted copy of a run is named as one, and a run that cannot be read does not hide the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import snellen
from snellen.cli import main
from snellen.viewer.index.catalogue import make_entries, read_files


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    snellen.evaluate("chart/digits", "embedded", out="results/run", limit=4)
    assert main(["report", "results/run", "--redact", "results/copy"]) == 0
    capsys.readouterr()
    return tmp_path / "results" / "copy"


@pytest.mark.parametrize(
    "words",
    [
        ["score", "results/copy"],
        ["report", "results/copy"],
        ["compare", "results/copy", "results/run"],
        ["failures", "results/copy"],
        ["rerun", "results/copy"],
        ["query", "SELECT * FROM runs", "results/copy"],
    ],
    ids=lambda words: words[0],
)
def test_commands_name_a_redacted_copy_as_what_it_is(copy: Path, capsys: pytest.CaptureFixture[str], words: list[str]):
    assert main(words) == 5
    error = capsys.readouterr().err
    assert "results/copy is a redacted copy of a run" in error and "summary.json" in error
    assert "missing required field" not in error


def test_the_viewer_calls_it_a_redacted_copy(copy: Path):
    (entry,) = make_entries([read_files("copy", copy)], {})
    assert entry.state == entry.shown_state == "redacted"
    assert "redacted copy" in entry.problems[0]


def test_a_query_of_all_runs_leaves_out_what_cannot_be_read_by_name(copy: Path, capsys: pytest.CaptureFixture[str]):
    bad = copy.parent / "bad"
    bad.mkdir()
    (bad / "run_meta.json").write_text("{}", encoding="utf-8")
    assert main(["query", "SELECT count(*) FROM runs", "--csv"]) == 0
    printed: Any = capsys.readouterr()
    assert printed.out.split()[-1] == "1"
    assert "left out: results/bad" in printed.err and "left out: results/copy is a redacted copy" in printed.err


def test_a_meta_that_only_speaks_of_redaction_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for content in ('{"redacted": 7}', '{"redacted": []}', "[]", '"redacted"'):
        (tmp_path / "run_meta.json").write_text(content, encoding="utf-8")
        assert main(["score", str(tmp_path)]) == 5
        assert "cannot be read as a run's meta" in capsys.readouterr().err


def test_a_query_where_no_run_can_be_read_fails_as_that_run_does(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "results" / "bad"
    bad.mkdir(parents=True)
    (bad / "run_meta.json").write_text("{}", encoding="utf-8")
    assert main(["query", "SELECT count(*) FROM runs"]) == 5
    assert "results/bad/run_meta.json cannot be read" in capsys.readouterr().err
