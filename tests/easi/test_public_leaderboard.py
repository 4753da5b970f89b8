"""EASI's public leaderboard: read live, from a copy or from a file, and its two averages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import official_drawn as drawn
from servers.loopback import JsonHandler, LoopbackServer
from snellen import evaluate
from snellen.cli import main
from snellen.easi import leaderboard
from snellen.easi.leaderboard import LeaderboardEntry, averages, parse, read_leaderboard
from snellen.errors import DataError, UsageError

EIGHT = ["vsi_bench", "mmsi_bench", "mindcube_tiny", "viewspatial", "site", "blink", "3dsrbench", "embspatial"]
ANSWER: dict[str, Any] = {
    "data": [
        {
            "name": "org/first",
            "displayName": "First",
            "type": "instruction",
            "precision": "bfloat16",
            "scores": {"vsi_bench": 50.0, "mmsi_bench": 30.0, "blink": None, "embspatial": 0},
            "subScores": {
                "vsi_bench": {"object_counting": 60.0, "object_abs_distance": 20.0, "object_rel_distance_accuracy": 40},
                "mmsi_bench": {"msr_accuracy": 10.0, "pos_cam_cam_accuracy": None},
            },
        },
        {"name": "second", "scores": {"vsi_bench": 70.5, "blink": "high"}},
        {"name": "", "scores": {}},
        "no row",
    ],
    "lastUpdated": "2026-05-14T10:00:00Z",
    "capabilityMap": {
        "vsi_bench": {
            "object_counting": ["cr"],
            "object_abs_distance": ["mm"],
            "object_rel_distance_accuracy": ["sr", "MM"],
        },
        "mmsi_bench": {"pos_cam_cam_accuracy": "pt", "msr_accuracy": "cr"},
    },
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(leaderboard.VARIABLE, raising=False)


class Stub(LoopbackServer):
    """A server of the API; `content` is what it answers, `status` how."""

    def __init__(self, content: Any) -> None:
        self.content, self.status, self.paths = content, 200, []
        stub = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                stub.paths.append(self.path)
                assert "Authorization" not in self.headers
                self.send_json(stub.content, stub.status)

        super().__init__(Handler)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(ANSWER) as running:
        yield running


def test_the_benchmark_average_is_over_what_is_not_null_and_the_capability_average_counts_null_as_nought() -> None:
    board = parse(json.dumps(ANSWER).encode(), "here", live=True)
    first, second = board.rows
    made = board.averages(first, EIGHT)
    assert (made.benchmark, made.known, made.of) == (pytest.approx(80 / 3), 3, 8)  # 0 is a score, null is none
    assert made.capabilities == {"mm": 30.0, "mr": None, "sr": 40.0, "pt": None, "da": None, "cr": 35.0}
    assert made.capability == pytest.approx((30 + 40 + 35) / 6)
    other = board.averages(second, EIGHT)  # a score that is no number is null; no sub-score at all
    assert (other.benchmark, other.known, other.capability) == (70.5, 1, 0.0)
    assert board.averages(first, ["mmsi_bench"]).capabilities["cr"] == 10.0  # over the selected columns alone
    assert board.notes == ("2 of 4 rows cannot be read and are left out",)


def test_without_a_capability_map_there_is_no_capability_average() -> None:
    entry = LeaderboardEntry("m", {"blink": None, "site": -3.5})
    made = averages(entry, ["blink", "site"], {})
    assert (made.benchmark, made.known, made.capabilities, made.capability) == (-3.5, 1, {}, None)
    assert averages(LeaderboardEntry("m", {}), EIGHT, {}).benchmark is None


@pytest.mark.parametrize("ending", ["", "/", "/api", "/api/leaderboard", "/api/leaderboard/"])
def test_the_base_url_may_be_set_in_any_of_its_spellings(ending: str, stub: Stub) -> None:
    board = read_leaderboard(stub.origin + ending)
    assert board is not None and board.live and len(board.rows) == 2
    assert stub.paths == ["/api/leaderboard"]


def test_without_network_the_copy_of_the_last_reading_counts_and_says_so(stub: Stub) -> None:
    live = read_leaderboard(stub.origin)
    stub.status = 502
    kept = read_leaderboard(stub.origin)
    assert live is not None and kept is not None
    assert (live.live, kept.live) == (True, False) and kept.rows == live.rows
    assert "the copy of" in kept.source and "HTTP 502" in kept.notes[0]
    assert read_leaderboard("http://127.0.0.1:9") is None  # never read: there is no copy


def test_the_environment_names_the_leaderboard_where_no_option_does(stub: Stub, monkeypatch) -> None:
    monkeypatch.setenv(leaderboard.VARIABLE, stub.origin)
    assert read_leaderboard() is not None and stub.paths


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"data": 3}', b"\x00\xff" * 9, b"[" * 100_000])
def test_what_is_no_leaderboard_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is no answer of EASI's leaderboard"):
        read_leaderboard(str(path))
    with pytest.raises(DataError, match="cannot be read"):
        read_leaderboard(str(tmp_path / "absent.json"))
    with pytest.raises(UsageError, match="an address without a password"):
        read_leaderboard("https://user:pass@easi.lmms-lab.com")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run")
    data = drawn.draw("embspatial", root / "data")
    return evaluate("embspatial", "embedded", data=data, out=root / "run").path


def test_the_report_shows_both_averages_by_name_and_where_they_come_from(run: Path, stub: Stub, capsys) -> None:
    assert main(["report", str(run), "--reference", "easi", "--leaderboard", stub.origin]) == 0
    printed = capsys.readouterr()
    assert "benchmark average" in printed.out and "capability average" in printed.out
    (first,) = [line for line in printed.out.splitlines() if " First " in line]
    assert "26.67 (3 of 8)" in first and "17.50" in first
    assert f"2 rows, live from {stub.origin}/api/leaderboard, last changed 2026-05-14T10:00:00Z" in printed.err
    assert "counts null as 0" in printed.err

    assert main(["report", str(run), "--reference", "easi", "--leaderboard", stub.origin, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["leaderboard"]
    assert told["live"] and told["rows"][0]["capability_average"] == pytest.approx(17.5)
    assert told["here"][0]["benchmarks"] == 1


def test_the_report_without_network_says_that_the_packages_rows_are_shown(run: Path, capsys) -> None:
    dead = "http://127.0.0.1:9"
    assert main(["report", str(run), "--reference", "easi", "--leaderboard", dead]) == 0
    printed = capsys.readouterr()
    assert "SenseNova-SI" in printed.out and "capability average" not in printed.out
    assert "the leaderboard was not read: no network, and no copy" in printed.err


def test_a_file_stands_for_the_leaderboard_and_is_named(run: Path, tmp_path: Path, capsys) -> None:
    saved = tmp_path / "leaderboard.json"
    saved.write_text(json.dumps(ANSWER))
    assert main(["report", str(run), "--reference", "easi", "--leaderboard", str(saved)]) == 0
    assert f"not live, but from the file {saved}" in capsys.readouterr().err


def test_the_six_capabilities_are_drawn_from_the_rows_with_a_gap_for_null(run: Path, tmp_path: Path, capsys) -> None:
    saved, out = tmp_path / "leaderboard.json", tmp_path / "figures"
    saved.write_text(json.dumps(ANSWER))
    asked = ["report", str(run), "--reference", "easi", "--leaderboard", str(saved), "--figures", str(out)]
    assert main(asked) == 0
    index = (out / "figures.csv").read_text()
    assert "6 capabilities by 1 model:" in index and (out / "radar-capabilities.svg").stat().st_size > 1_000
    assert "a mapped sub-score is missing in each" in index  # the run has one of eight benchmarks
    saved.write_text(json.dumps({**ANSWER, "capabilityMap": None}))
    assert main(asked) == 3
    assert "the leaderboard gave no capability map" in capsys.readouterr().err
