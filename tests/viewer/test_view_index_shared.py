"""An index that others change or delete while it is written or shown: no record is lost, no page mixes two states."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from run_folders import append, record, right_reply, samples_of, write_meta, write_run

from snellen.runs.evaluate import evaluate
from snellen.viewer.index import SampleQuery, ViewIndex, open_index
from snellen.viewer.index.database import connected, spill_folder
from snellen.viewer.index.indexer import RunIndexer

RIGHT = {sample.id: right_reply(sample) for sample in samples_of("chart/digits", 8)}
NAMES = list(RIGHT)


def replies(count: int) -> dict[str, str]:
    return {name: RIGHT[name] for name in NAMES[:count]}


def table(path: Path, count: int) -> str:
    rows = ({"id": f"q{at}", "question": f"Q{at}?", "options": ["a", "b"], "answer": "A"} for at in range(count))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def shown(index: ViewIndex, key: str) -> dict[str, int]:
    page = index.samples(SampleQuery(index.run(key).benchmark, (key,)))
    return {verdict: count for verdict, count in page.verdicts[0].items() if verdict != "missing"}


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return a folder with runs of three, four and five records."""
    for count, key in enumerate("abc", 3):
        write_run(tmp_path / key, "chart/digits", replies(count))
    return tmp_path


def test_a_writer_that_is_killed_within_a_change_loses_no_record_of_others(three: Path) -> None:
    index = open_index(three)
    index.refresh()
    append(three / "a", [record(NAMES[3], RIGHT[NAMES[3]])])
    other = (
        "import os, sys, pathlib; from snellen.viewer.index import open_index; "
        "open_index(pathlib.Path(sys.argv[1])).refresh(each=lambda key: os._exit(9))"
    )
    assert subprocess.run([sys.executable, "-c", other, str(three)], check=False).returncode == 9
    assert index.database.file.with_name("index.duckdb.wal").exists()
    index.refresh()
    for each in (index, open_index(three)):
        assert [shown(each, key) for key in "abc"] == [{"right": 4}, {"right": 4}, {"right": 5}]


def test_an_index_that_is_deleted_while_it_is_written_is_whole_after_the_next_look(three: Path) -> None:
    index, seen = open_index(three), []

    def each(key: str) -> None:
        seen.append(key)
        if len(seen) == 4:
            index.database.give_back()
            shutil.rmtree(index.database.path)
            index.database.path.mkdir()

    assert "is made anew" in index.refresh(each=each).skipped[0].reason
    index.refresh()
    for each_index in (index, open_index(three)):
        assert [shown(each_index, key) for key in "abc"] == [{"right": 3}, {"right": 4}, {"right": 5}]


def test_a_run_without_the_records_that_its_state_counts_is_indexed_anew(three: Path) -> None:
    index = open_index(three)
    index.refresh()
    with index.database.writing(), index.database.change() as database:
        database.execute("DELETE FROM record_rows WHERE number > 0")
    index.refresh()
    assert [shown(index, key) for key in "abc"] == [{"right": 3}, {"right": 4}, {"right": 5}]


def test_a_run_without_a_journal_and_one_with_a_pipe_keep_nothing_up(tmp_path, monkeypatch):
    write_run(tmp_path / "a", "chart/digits", replies(3))
    for key in ("none", "pipe"):
        write_meta(tmp_path / key, "chart/digits", state="running")
    os.mkfifo(tmp_path / "pipe" / "results.jsonl")
    write_meta(tmp_path / "live", "chart/digits", state="running")
    append(tmp_path / "live", [record(NAMES[0], RIGHT[NAMES[0]])])
    index = open_index(tmp_path)
    looks: list[object] = []
    thread = threading.Thread(target=lambda: looks.extend(index.refresh().skipped), daemon=True)
    thread.start()
    thread.join(600)
    assert not thread.is_alive()
    assert looks == []
    assert [shown(index, key) for key in ("a", "live")] == [{"right": 3}, {"right": 1}]


def test_a_problem_of_one_run_forgets_that_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = table(tmp_path / "t.jsonl", 20)
    for key in ("bad", "live"):
        write_meta(tmp_path / "runs" / key, name if key == "live" else "chart/digits", state="running")
    append(tmp_path / "runs" / "live", [record("q0", "A")])
    append(tmp_path / "runs" / "bad", [record(NAMES[0], "1")])
    index, passed = open_index(tmp_path / "runs"), []
    read = RunIndexer.add_records

    def add_records(self, entry):
        if entry.key == "bad":
            raise OSError("the disk has a fault")
        return read(self, entry)

    monkeypatch.setattr(RunIndexer, "add_records", add_records)
    monkeypatch.setattr(RunIndexer, "_pass_over", lambda self, entry, *rest: passed.append(entry.key))
    monkeypatch.setattr("snellen.viewer.index.catalogue.is_locked", lambda path: path.name == "live")
    for count in range(1, 4):
        assert [skipped.path for skipped in index.refresh().skipped] == ["bad"]
        assert sum(shown(index, "live").values()) == count
        append(tmp_path / "runs" / "live", [record(f"q{count}", "A")])
    assert passed == []


def test_a_page_shows_the_index_as_it_is_and_not_as_it_was_at_the_last_look(tmp_path: Path) -> None:
    name, answers, root = table(tmp_path / "t.jsonl", 10), tmp_path / "answers.jsonl", tmp_path / "runs"
    answers.write_text("".join(json.dumps({"id": f"q{at}", "reply": "AB"[at % 2]}) + "\n" for at in range(10)))
    evaluate(name, f"replay:{answers}", out=root / "r")
    page, other = open_index(root), open_index(root)
    other.refresh(verdicts=False)
    page.refresh(samples=False)
    before = shown(page, "r")
    assert sum(before.values()) == 10
    other.refresh()  # the saved verdicts give way to those that are scored here
    assert shown(page, "r") == before
    scores = page.scores("r")
    assert scores is not None
    assert len(scores) == 10
    shutil.rmtree(root / "r")
    write_run(root / "z", table(tmp_path / "other.jsonl", 3), {f"q{at}": "B" for at in range(3)})
    other.refresh()
    assert page.samples(SampleQuery(page.run("r").benchmark, ("r",))).rows == ()


def test_viewers_with_and_without_trust_do_not_score_in_turns(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", table(tmp_path / "t.jsonl", 4), {f"q{at}": "A" for at in range(4)})
    indexes = [open_index(tmp_path / "runs", trust=trust) for trust in (False, True)]
    assert indexes[0].database.path != indexes[1].database.path
    for expected in ([["a", "a"]] * 2, [[]] * 2):
        seen: list[list[str]] = [[], []]
        for index, keys in zip(indexes, seen, strict=True):
            index.refresh(each=keys.append)
        assert seen == expected


def test_records_that_were_passed_over_are_scored_when_the_data_is_back(tmp_path: Path) -> None:
    path, root = tmp_path / "t.jsonl", tmp_path / "runs"
    write_meta(root / "r", table(path, 10), state="running")
    append(root / "r", [record(f"q{at}", "A") for at in range(5)])
    path.rename(tmp_path / "away")
    index = open_index(root)
    index.refresh()
    assert shown(index, "r") == {"unknown": 5}
    (tmp_path / "away").rename(path)
    index.refresh()
    assert "unknown" not in shown(index, "r")
    append(root / "r", [record("q5", "A")])
    index.refresh()
    assert sum(shown(index, "r").values()) == 6
    assert "unknown" not in shown(index, "r")


def test_records_of_before_and_after_the_data_came_back_are_scored_together(tmp_path: Path) -> None:
    path, root = tmp_path / "t.jsonl", tmp_path / "runs"
    write_meta(root / "r", table(path, 10), state="running")
    append(root / "r", [record(f"q{at}", "A") for at in range(5)])
    path.rename(tmp_path / "away")
    index = open_index(root)
    index.refresh()
    append(root / "r", [record("q5", "A")])
    (tmp_path / "away").rename(path)
    index.refresh()
    scores = index.scores("r")
    assert scores is not None
    assert len(scores) == 6
    assert "unknown" not in shown(index, "r")


def test_overflow_lies_in_no_folder_of_the_index(tmp_path: Path) -> None:
    write_run(tmp_path / "root" / "a", "chart/digits", replies(3))
    index = open_index(tmp_path / "root")
    index.refresh()
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("index.duckdb.tmp", "spill"):
        (index.database.path / name).symlink_to(outside)
    places = "SELECT current_setting('temp_directory')"
    with index.database.reading() as database, connected() as memory:
        assert database is not None
        folders = [Path(each.execute(places).fetchall()[0][0]) for each in (database, memory)]
    folders.append(Path(index.sql(places).rows[0][0]))
    assert len(set(folders)) == 3
    assert all(tmp_path not in folder.parents and folder.name.startswith("snellen-") for folder in folders)


def test_a_repeat_beyond_64_bits_is_no_prediction(tmp_path: Path) -> None:
    name, answers, root = table(tmp_path / "t.jsonl", 2), tmp_path / "answers.jsonl", tmp_path / "runs"
    answers.write_text("".join(json.dumps({"id": f"q{at}", "reply": "A"}) + "\n" for at in range(2)))
    evaluate(name, f"replay:{answers}", out=root / "r")
    predictions = root / "r" / "predictions.jsonl"
    lines = [{**json.loads(line), "repeat": 1 << 70} for line in predictions.read_text().splitlines()]
    predictions.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    index = open_index(root)
    assert index.refresh(verdicts=False).skipped == ()
    index.refresh()
    assert sum(shown(index, "r").values()) == 2


def test_sql_shows_no_run_that_was_deleted(three: Path) -> None:
    index = open_index(three)
    index.refresh()
    shutil.rmtree(three / "b")
    index.refresh(samples=False)  # as a viewer whose index another process writes
    for name in ("runs", "results", "scores"):
        assert index.sql(f"SELECT DISTINCT run FROM {name} ORDER BY run").rows == (("a",), ("c",)), name


def test_threads_that_open_the_index_at_once_have_one_folder_for_its_overflow(tmp_path: Path) -> None:
    place = str(tmp_path / "index.duckdb")
    duckdb.connect(place).close()
    begin = threading.Barrier(4, timeout=600)

    def overflow(_: int) -> str:
        begin.wait()
        with connected(place, read_only=True) as connection:
            begin.wait()  # all are open at once
            return str(connection.execute("select current_setting('temp_directory')").fetchall()[0][0])

    for _ in range(5):
        spill_folder.cache_clear()
        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(overflow, range(4)))) == 1
