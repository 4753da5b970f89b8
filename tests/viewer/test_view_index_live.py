"""The viewer's index beside writers that come, go and are killed: nothing of a run is changed, nothing of it is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import append, record, right_reply, samples_of, write_meta, write_run

from snellen.engine.journal import Journal, record_name
from snellen.viewer import following
from snellen.viewer.index import SampleQuery, ViewIndex, open_index
from snellen.viewer.index.journal_tail import JournalTail

DIGITS = samples_of("chart/digits", 40)
RIGHT = {sample.id: right_reply(sample) for sample in DIGITS}
NAMES = list(RIGHT)


def verdicts(index: ViewIndex, key: str) -> dict[str, str]:
    page = index.samples(SampleQuery("chart/digits", (key,), limit=1000))
    return {record_name(row.sample_id, row.repeat): row.cells[0].verdict for row in page.rows}


def wait_for(condition: Callable[[], bool], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def journal_bytes(path: Path, count: int) -> bytes:
    append(path, (record(name, RIGHT[name]) for name in NAMES[:count]))
    return (path / "results.jsonl").read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_a_journal_read_in_pieces_has_the_rows_of_one_read_at_once(seed: int, tmp_path: Path) -> None:
    content, path = journal_bytes(tmp_path / "whole", 30), tmp_path / "pieces.jsonl"
    draw, at = random.Random(seed), 0
    path.write_bytes(b"")
    tail, rows = JournalTail(path), []
    while at < len(content):
        at = min(len(content), at + draw.randrange(1, 400))
        path.write_bytes(content[:at])
        tail = JournalTail(path, tail.position())
        assert tail.continues()
        rows += [row for _, _, row in tail.rows()]
    assert [row.sample_id for row in rows] == NAMES[:30]
    assert tail.state.faults() == ""


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_journal_gives_every_intact_record_and_says_what_is_wrong(seed: int, tmp_path: Path) -> None:
    content = bytearray(journal_bytes(tmp_path / "run", 30))
    draw = random.Random(seed)
    lines = bytes(content).splitlines(keepends=True)
    kind, line = seed % 6, draw.randrange(1, 28)
    damaged = {
        0: [*lines[:line], lines[line].replace(b"digit", b"dogit", 1), *lines[line + 1 :]],
        1: [*lines[:line], *lines[line + 1 :]],
        2: [*lines[:line], lines[line][: len(lines[line]) // 2], *lines[line + 1 :]],
        3: [*lines[:line], b"\x00\xff not json at all\n", *lines[line:]],
        4: [*lines[:line], lines[line - 1], *lines[line:]],
        5: [*lines[:line], b'{"sample_id": 7}\n', *lines[line:]],
    }[kind]
    (tmp_path / "run" / "results.jsonl").write_bytes(b"".join(damaged))
    write_meta(tmp_path / "run", "chart/digits", limit=30)
    index = open_index(tmp_path)
    index.refresh()
    read = verdicts(index, "run")
    lost = {NAMES[line]} if kind in (0, 1, 2) else set()
    assert {name for name, verdict in read.items() if verdict == "right"} == set(NAMES[:30]) - lost
    entry = index.run("run")
    assert entry.state == "torn"
    assert any("results.jsonl has" in problem for problem in entry.problems)


def test_a_journal_that_was_written_anew_is_indexed_anew(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "chart/digits", dict.fromkeys(NAMES[:5], "?"), limit=5)
    index = open_index(tmp_path)
    index.refresh()
    assert set(verdicts(index, "run").values()) == {"unparseable"}
    (tmp_path / "run" / "results.jsonl").unlink()
    append(tmp_path / "run", (record(name, RIGHT[name]) for name in NAMES[:5]))
    index.refresh()
    assert set(verdicts(index, "run").values()) == {"right"}


def test_repeats_and_retries_have_one_verdict_each(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_meta(path, "chart/digits", repeats=2, limit=2)
    first, second = NAMES[:2]
    append(
        path,
        [
            record(first, None),
            record(first, "?", repeat=1),
            record(second, RIGHT[second]),
            record(first, RIGHT[first]),
            record(first, "?"),  # of two answers the first counts
            record(second, None, repeat=1),
            record(second, None, repeat=1),
        ],
    )
    index = open_index(tmp_path)
    index.refresh()
    assert verdicts(index, "run") == {
        first: "right",
        f"{first}#1": "unparseable",
        second: "right",
        f"{second}#1": "failed",
    }


def test_a_killed_indexing_process_is_replaced_and_a_killed_run_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "THREAD_BYTES", 0)
    monkeypatch.setattr(following, "PAUSE_S", 0.1)
    monkeypatch.setattr(following, "FOLLOW_S", 0.1)
    path = tmp_path / "live"
    write_meta(path, "chart/digits", state="running", limit=40)
    journal = Journal(path / "results.jsonl")
    journal.append(record(NAMES[0], RIGHT[NAMES[0]]))
    before = sorted(child.name for child in path.iterdir())
    index = open_index(tmp_path)
    follower = following.IndexFollower(index)

    def shown(count: int) -> bool:
        follower.touch()
        return index.run("live").indexed == count and verdicts(index, "live")[NAMES[count - 1]] == "right"

    try:
        wait_for(lambda: shown(1))
        first = follower.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        journal.append(record(NAMES[1], RIGHT[NAMES[1]]))
        wait_for(lambda: shown(2))
        assert follower.pid != first
    finally:
        follower.close()
    journal.close()
    assert sorted(child.name for child in path.iterdir()) == before
    assert index.run("live").state in ("partial", "failed")


def test_a_read_only_root_has_its_index_elsewhere_and_two_viewers_share_one(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_run(root / "run", "chart/digits", dict(list(RIGHT.items())[:5]), limit=5)
    index = open_index(root, cache=tmp_path / "cache")
    index.refresh()
    assert not (root / ".snellen-index").exists()
    other = open_index(root, cache=tmp_path / "cache")
    with index.database.writing() as mine:
        assert mine
        refresh = other.refresh()  # another process writes: what is there is read
    assert refresh.waiting == ()
    assert set(verdicts(other, "run").values()) == {"right"}


def test_an_index_that_another_user_made_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run", "chart/digits", dict(list(RIGHT.items())[:5]), limit=5)
    index = open_index(tmp_path)
    index.refresh()
    file = index.database.file
    copy = file.read_bytes()
    file.unlink()
    file.write_bytes(copy)  # the same bytes, as an archive of another user brings them
    reader = open_index(tmp_path)
    assert reader.refresh(samples=False).waiting == ("run",)
    reader.refresh()
    assert set(verdicts(reader, "run").values()) == {"right"}


def test_the_records_of_a_large_folder_are_indexed_by_another_process(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "THREAD_BYTES", 0)
    write_run(tmp_path / "run", "chart/digits", dict(list(RIGHT.items())[:5]), limit=5)
    index = open_index(tmp_path)
    follower = following.IndexFollower(index)
    monkeypatch.setattr(index, "_index", None)  # this process writes nothing

    def shown() -> bool:
        follower.touch()  # as every page does
        return index.run("run").samples == "ready"

    try:
        wait_for(shown)
        assert set(verdicts(index, "run").values()) == {"right"}
    finally:
        follower.close()
