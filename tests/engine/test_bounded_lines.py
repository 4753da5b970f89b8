"""A line that no run writes is refused before it is held in memory, and so is a log that is a link."""

import os

import pytest

from snellen.engine.batches.log import BATCH_LOG, read_log
from snellen.engine.journal import read
from snellen.errors import RunError
from snellen.sources import journal_lines
from snellen.types import Record


def test_a_journal_of_holes_is_refused_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_lines, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "results.jsonl"
    path.touch()
    os.truncate(path, 1 << 22)
    with pytest.raises(RunError, match=r"results.jsonl holds a line of more than 1 MiB"):
        list(read(path, Record))


def test_a_line_of_just_the_bound_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_lines, "LONGEST_LINE", 8)
    path = tmp_path / "lines"
    path.write_bytes(b"1234567\n12345\nend")
    with path.open("rb") as file:
        assert list(journal_lines.bounded_lines(file, path)) == [b"1234567\n", b"12345\n", b"end"]


def test_a_batch_log_that_is_a_link_is_not_read(tmp_path):
    (tmp_path / BATCH_LOG).symlink_to("/dev/zero")
    with pytest.raises(RunError, match="symbolic link"):
        read_log(tmp_path)
