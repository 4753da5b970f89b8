"""The journal: whole up to its last line at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.engine import journal
from snellen.engine.journal import Journal
from snellen.errors import RunError, StorageError
from snellen.types import Failure, Record, Response

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
RECORDS = st.lists(
    st.builds(
        Record,
        sample_id=TEXT,
        status=st.sampled_from(["ok", "error", "timeout", "refused"]),
        repeat=st.integers(0, 5),
        response=st.none() | st.builds(Response, text=TEXT),
        error=st.none() | st.builds(Failure, kind=TEXT, message=TEXT),
    ),
    max_size=20,
)


def write(path: Path, records: list[Record]) -> None:
    book = Journal(path)
    for record in records:
        book.append(record)
    book.close()


@given(records=RECORDS, cut=st.integers(0, 10_000))
@settings(deadline=None, max_examples=100)
def test_a_journal_cut_at_any_byte_keeps_every_record_before_the_cut(tmp_path_factory, records, cut):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    write(path, records)
    whole = path.read_bytes()
    cut = min(cut, len(whole))
    os.truncate(path, cut)
    kept = whole[:cut].count(b"\n")
    assert list(journal.read(path, Record)) == records[:kept]
    book = Journal(path)
    assert book.repaired == cut - (whole[:cut].rfind(b"\n") + 1)
    book.append(Record("after", "ok"))
    book.close()
    assert list(journal.read(path, Record)) == [*records[:kept], Record("after", "ok")]


def test_a_torn_line_longer_than_the_reading_block_is_cut_off(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path, [Record("first", "ok")])
    with path.open("ab") as file:
        file.write(b'{"sample_id":"' + b"x" * 3_000_000)
    assert journal.repair(path) == 3_000_014
    assert [r.sample_id for r in journal.read(path, Record)] == ["first"]


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"sample_id":"a","status":"ok"}\n{"sample_id":\x00\xff}\n{"sample_id":"b","status":"ok"}\n')
    with pytest.raises(RunError, match="line 2"):
        list(journal.read(path, Record))


FULL = """
import resource, signal, sys
from pathlib import Path
from snellen.engine.journal import Journal
from snellen.errors import StorageError
from snellen.types import Record, Response
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
book = Journal(Path(sys.argv[1]))
try:
    for i in range(1000):
        book.append(Record(str(i), "ok", response=Response("word " * 20)))
except StorageError as error:
    print(i, error.exit_code, error)
"""


def test_a_disk_that_fills_up_leaves_whole_records_only(tmp_path):
    """The limit on the size of a file stands in for a full disk: both fail in write(2), in the middle of a line."""
    path = tmp_path / "results.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    stopped, code, rest = done.stdout.split(maxsplit=2)
    assert code == "6"
    assert "cannot write" in rest and "run the same command to resume" in rest
    assert len(list(journal.read(path, Record))) == int(stopped)
    assert path.read_bytes().endswith(b"\n")


def test_a_journal_that_cannot_be_opened_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="cannot write"):
        Journal(tmp_path / "no-such-folder" / "results.jsonl")


def test_closing_in_the_moment_of_a_sync_does_not_wait_for_ever(tmp_path, monkeypatch):
    class Slow(threading.Event):
        """Widens the moment between taking note of news and acting on it, which a close may fall into."""

        def clear(self):
            time.sleep(0.05)
            super().clear()

    monkeypatch.setattr("snellen.engine.journal.threading.Event", Slow)
    for turn in range(5):
        book = Journal(tmp_path / f"{turn}.jsonl", sync_every_s=0.0001)
        book.append(Record("a", "ok"))
        time.sleep(0.02)
        closing = threading.Thread(target=book.close, daemon=True)
        closing.start()
        closing.join(600)
        assert not closing.is_alive(), "closing hangs"
