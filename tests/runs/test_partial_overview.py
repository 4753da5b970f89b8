"""The overview of a run that was stopped has the time that it took, beside the counts of its journal."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

import snellen
from engine.stubs import ARITHMETIC, Calculator
from snellen.cli import main, results
from snellen.engine.resume import verified_meta
from snellen.engine.run_folder import RunFolder
from snellen.errors import ModelError
from snellen.reports.runs import facts
from snellen.runs.run import load_run
from snellen.runs.status import State, overview
from snellen.runs.trackers.content import tracked_run
from snellen.types import Prompt, Response
from snellen.viewer.index.catalogue import make_entries, read_files


def test_a_stopped_run_has_its_seconds_in_the_overview(tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", out=tmp_path / "run", limit=4)
    meta = run.meta
    stopped = structs.replace(meta, state="partial", totals=structs.replace(meta.totals, seconds=12.5, ok=1))
    run.folder.write_meta(stopped)
    seen = overview(run.folder, run.folder.meta())
    assert (seen.state, seen.totals.ok, seen.totals.seconds) == ("partial", 4, 12.5)


def test_a_limited_run_is_not_called_complete_by_query_and_list(tmp_path, capsys):
    snellen.evaluate("chart/digits", "embedded", out=tmp_path / "part", limit=4)
    snellen.evaluate("chart/digits", "embedded", out=tmp_path / "whole")
    assert main(["list", "--runs", "--results", str(tmp_path), "--json"]) == 0
    listed = {Path(row["path"]).name: row["state"] for row in json.loads(capsys.readouterr().out)["runs"]}
    assert listed == {"part": "limited", "whole": "complete"}
    asked = "SELECT state FROM runs ORDER BY run"
    assert main(["query", asked, str(tmp_path / "part"), str(tmp_path / "whole"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [["limited"], ["complete"]]


@pytest.mark.parametrize("owner", ["own", "foreign"])
@pytest.mark.parametrize(
    ("loss", "state", "left"),
    [
        ("none", "limited", 6),
        ("middle", "partial", 5),
        ("restored", "partial", 4),
        ("noise", "failed", 0),
        ("gone", "failed", 0),
    ],
)
def test_a_complete_run_that_has_lost_records_is_partial_in_lists_queries_and_exports(
    tmp_path, capsys, owner, loss, state, left
):
    run = snellen.evaluate(ARITHMETIC, Calculator(), out=tmp_path / "run", repeats=2, limit=3)
    damaged(run.folder, loss, foreign=owner == "foreign")
    opened = load_run(run.path)
    assert overview(opened.folder, opened.meta).state == state
    assert (opened.meta.state == "complete") == (loss == "none")
    assert opened.meta.totals.recorded == left and f" {left:,} of 6 answered" in repr(opened)
    assert main(["query", "SELECT state, answered FROM runs", str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[state, left]]
    assert main(["list", "--runs", "--results", str(tmp_path), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["runs"]
    assert (listed["state"], listed["answered"], listed["recorded_share"]) == (state, left, left / 200)


def damaged(folder: RunFolder, loss: str, *, foreign: bool) -> None:
    lines = folder.results.read_bytes().splitlines(keepends=True)
    if foreign:
        meta = json.loads(folder.meta_path.read_text()) | {"owner": "0" * 32}
        folder.meta_path.write_text(json.dumps(meta))
    if loss == "gone":
        folder.results.unlink()
    elif loss != "none":
        left = {"middle": lines[:3] + lines[4:], "restored": lines[:4], "noise": [b"\x93\x00\n" * 90]}[loss]
        folder.results.write_bytes(b"".join(left))
    if loss in ("restored", "noise"):  # a backup, put back with its time
        os.utime(folder.results, ns=(0, folder.meta_path.stat().st_mtime_ns - 10**9))


def test_the_seconds_of_a_killed_session_are_those_until_its_last_answer(tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", out=tmp_path / "run", limit=4)
    earlier = structs.replace(run.meta, totals=structs.replace(run.meta.totals, seconds=10.0))
    run.folder.write_meta(structs.replace(earlier, state="running"))  # as a session that goes on, or was killed
    os.utime(run.folder.meta_path, (1_000_000, 1_000_000))
    os.utime(run.folder.results, (1_000_050, 1_000_050))
    assert overview(run.folder, run.folder.meta()).totals.seconds == 60.0
    assert verified_meta(run.folder).totals.seconds == 60.0
    again = snellen.evaluate("chart/digits", "embedded", out=tmp_path / "run", limit=6)
    assert again.meta.totals.ok == 6
    assert 60.0 < again.meta.totals.seconds < 160.0


def test_times_of_files_that_contradict_each_other_add_nothing(tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", out=tmp_path / "run", limit=4)
    run.folder.write_meta(structs.replace(run.meta, state="running"))
    os.utime(run.folder.results, (1_000_000, 1_000_000))
    assert verified_meta(run.folder).totals.seconds == run.meta.totals.seconds


def test_limited_runs_are_those_that_were_asked_for_a_part_whatever_is_known_of_the_size(tmp_path):
    """A plug-in that declares no size has no coverage, and is complete all the same; a shard has its own samples alone."""
    plain = replace(ARITHMETIC, name="plain", size=lambda data: None)
    states = {}
    for name, words in {"whole": {}, "part": {"limit": 5}, "shard": {"shard": "1/2"}}.items():
        run = snellen.evaluate(plain, Calculator(), out=tmp_path / name, benchmark_options={"n": "20"}, **words)
        (entry,) = make_entries([read_files(name, run.path)], {})
        states[name] = (overview(run.folder, run.meta).state, entry.shown_state)
    assert states == {"whole": ("complete",) * 2, "part": ("limited",) * 2, "shard": ("limited",) * 2}


class Constant(Calculator):
    """Answers each question alike, or fails."""

    def __init__(self, error: ModelError | None) -> None:
        super().__init__()
        self._error = error

    async def answer(self, prompt: Prompt) -> Response:
        if self._error is not None:
            raise self._error
        return Response("3")


def stated(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The state of a run, by the page, list, query, export or JSON that tells it."""
    run = snellen.load_run(path)
    (entry,) = make_entries([read_files(path.name, path)], {})

    def asked(*words: str) -> Any:
        assert main(list(words)) in (0, 9)
        return json.loads(capsys.readouterr().out)

    (listed,) = asked("list", "--runs", "--results", str(path.parent), "--json")["runs"]
    (by_run,) = asked("query", "SELECT state FROM runs", str(path), "--json")["rows"]
    assert main(["list", "--runs", "--results", str(path.parent)]) == 0
    shown = {word for word in capsys.readouterr().out.split() if word in get_args(State)}
    told = {
        "python": run.state,
        "list": listed["state"],
        "query": by_run[0],
        "viewer": entry.shown_state,
        "report": facts(run)["state"],
        "results": results._run_json(run, {})["state"],
        "overview": overview(run.folder, run.meta).state,
        "tracker": str(tracked_run(run, {}).settings["state"]),
    }
    assert shown == {run.state}, shown
    return told


@pytest.mark.parametrize("state", get_args(State))
def test_every_page_list_query_export_and_json_says_the_state_of_a_run_in_the_same_words(tmp_path, capsys, state):
    error = ModelError("no") if state == "failed" else None
    limit = None if state == "complete" else 5
    run = snellen.evaluate("chart/digits", Constant(error), out=tmp_path / "runs" / "one", limit=limit, max_attempts=1)
    if state in ("partial", "running"):
        run.folder.write_meta(structs.replace(run.meta, state=state))
    with run.folder.locked() if state == "running" else contextlib.nullcontext():
        told = stated(run.path, capsys)
    assert set(told.values()) == {state}, told
