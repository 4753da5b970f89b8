"""The SQL box against queries that need endless time or memory: each ends, and the viewer stays as it was."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from run_folders import right_reply, samples_of, write_run

from snellen.errors import UsageError
from snellen.viewer.index import ViewIndex, open_index, sql

RIGHT = {sample.id: right_reply(sample) for sample in samples_of("chart/digits", 8)}


@pytest.fixture
def index(tmp_path: Path) -> ViewIndex:
    write_run(tmp_path / "run", "chart/digits", RIGHT, limit=8)
    index = open_index(tmp_path)
    index.refresh()
    return index


@pytest.mark.parametrize(
    "text", ["SELECT repeat('x', 20000000) FROM range(1000)", "SELECT repeat(run, 20000000) FROM runs, range(1000)"]
)
def test_a_query_that_needs_more_memory_than_there_is_ends_in_words(index, monkeypatch, text):
    monkeypatch.setattr(sql, "QUERY_BYTES", 2 << 30)
    monkeypatch.setattr(sql, "SECONDS", 600.0)
    with pytest.raises(UsageError, match="memory"):
        index.sql(text)
    assert index.sql("SELECT count(*) FROM runs").rows == ((1,),)


def test_a_step_that_heeds_no_interruption_is_killed(index, monkeypatch):
    monkeypatch.setattr(sql, "SECONDS", 0.5)
    monkeypatch.setattr(sql, "GRACE_SECONDS", 0.5)
    begin = time.monotonic()
    with pytest.raises(UsageError, match="stopped after"):
        index.sql("SELECT levenshtein(repeat('a', 900000), repeat('b', 900000))")
    assert time.monotonic() - begin < 300  # of the 8 * 10**11 steps that it has


def test_a_query_waits_only_so_long_for_another_one(index, monkeypatch):
    begun, over, ask, answers = threading.Event(), threading.Event(), sql._ask, []

    def slow(*words):
        begun.set()
        assert over.wait(600)
        return ask(*words)

    monkeypatch.setattr(sql, "_ask", slow)
    monkeypatch.setattr(sql, "WAIT_SECONDS", 0.1)
    first = threading.Thread(target=lambda: answers.append(index.sql("SELECT 1").rows))
    first.start()
    assert begun.wait(600)
    with pytest.raises(UsageError, match="another query"):
        index.sql("SELECT 2")
    over.set()
    first.join(600)
    assert answers == [((1,),)]


def test_cells_keep_their_types_and_long_ones_are_cut(index):
    table = index.sql(
        "SELECT 1 a, 1.5::DECIMAL(4, 1), NULL, true, repeat('é', 5000), 9007199254740993, 'nan'::DOUBLE, [1, 2] b"
    )
    row = table.rows[0]
    assert row[:4] == (1, 1.5, None, True) and len(row[4]) == sql.CELL_CHARACTERS and row[5] == "9007199254740993"
    assert row[6] != row[6] and row[7] == "[1, 2]"
    assert index.sql("SELECT repeat('x', 4000) FROM range(10000)", limit=10_000).truncated
