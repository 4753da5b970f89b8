"""While a benchmark runs, its samples are counted on the screen, in lines and in JSON lines."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from snellen.cli import easi_display
from snellen.easi import BenchmarkRow, Board, EasiSettings, plan
from snellen.models.base import ModelOptions


@pytest.fixture
def board(tmp_path) -> Board:
    """Two benchmarks, the first under way."""
    found = plan(EasiSettings("embedded", ModelOptions(), ("mmsi-bench", "blink"), tmp_path / "out"))
    first = found.rows[0]
    first.state, first.done, first.total, first.rate, first.eta_s = "running", 130, 1000, 2.5, 348.0
    return found


def test_the_screen_counts_the_samples_of_the_benchmark_under_way(board: Board):
    console = Console(file=(out := io.StringIO()), width=120)
    console.print(easi_display.Screen(board, "EASI")._draw())
    (line,) = [line for line in out.getvalue().splitlines() if "mmsi-bench" in line]
    assert "130/1,000" in line and "2.5/s" in line and "running" in line
    assert "0 of 2 benchmarks finished" in out.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_screen_a_line_comes_every_while_with_the_count(board: Board, capsys, monkeypatch, as_json):
    row: BenchmarkRow = board.rows[0]
    told = easi_display.Plain(as_json=as_json)
    told.moved(row)
    assert capsys.readouterr().err == ""  # not a line a sample
    monkeypatch.setattr(easi_display, "LINE_INTERVAL_S", 0.0)
    told.moved(row)
    (line,) = capsys.readouterr().err.splitlines()
    if as_json:
        found = json.loads(line)
        assert (found["benchmark"], found["done"], found["total"]) == ("mmsi-bench", 130, 1000)
    else:
        assert "mmsi-bench" in line and "130" in line and "1,000" in line
