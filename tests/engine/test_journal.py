"""The journal: whole up to its last line at any moment, and whatever happens to its bytes is noticed and costs no other record."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.engine import journal
from snellen.engine.batches.log import BATCH_LOG, read_log
from snellen.engine.final_records import final_records
from snellen.engine.journal import Journal
from snellen.errors import RunError, StorageError
from snellen.sources import journal_lines
from snellen.sources.journal_lines import Damage
from snellen.types import Failure, Record, Response

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def once_answered(records: list[Record]) -> list[Record]:
    """What a run writes: nothing comes behind the answer to a sample."""
    answered = set()
    kept = []
    for record in records:
        if (which := (record.sample_id, record.repeat)) not in answered:
            kept.append(record)
            if record.status in journal.ANSWERED:
                answered.add(which)
    return kept


RECORDS = st.lists(
    st.builds(
        Record,
        sample_id=TEXT,
        status=st.sampled_from(["ok", "error", "timeout", "refused"]),
        repeat=st.integers(0, 2),
        response=st.none() | st.builds(Response, text=TEXT),
        error=st.none() | st.builds(Failure, kind=TEXT, message=TEXT),
        started_at=st.floats(0, 2e9),
    ),
    min_size=1,
    max_size=8,
).map(once_answered)


def written(path: Path, records: list[Record]) -> bytes:
    book = Journal(path)
    for record in records:
        book.append(record)
    book.close()
    return path.read_bytes()


def read(path: Path, last: int | None = None) -> tuple[list[Record], Damage]:
    damage = Damage(path, last)
    return list(journal.read(path, Record, damage)), damage


def is_part(some: list[Record], whole: list[Record]) -> bool:
    """Whether `some` is `whole` with some left out, in the same order."""
    rest = iter(whole)
    return all(any(one == other for other in rest) for one in some)


def mended(path: Path, intact: list[Record]) -> None:
    """The journal is whole after mending, and has the records that were intact."""
    journal.repair(path)
    journal.mend(path, Record)
    records, damage = read(path)
    assert not damage, damage.lines()
    assert records == intact
    assert journal.last_number(path) == len(intact)


@given(records=RECORDS, data=st.data())
@settings(deadline=None, max_examples=300)
def test_any_changed_byte_is_noticed_and_costs_its_own_record_alone(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    content = bytearray(written(path, records))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
    path.write_bytes(content)
    found, damage = read(path, len(records))
    assert damage
    assert damage.lines()
    assert is_part(found, records)
    assert len(found) >= len(records) - 1
    mended(path, found)


@given(records=RECORDS, data=st.data())
@settings(deadline=None, max_examples=100)
def test_a_byte_left_out_or_added_is_noticed_and_costs_its_own_record_alone(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    content = bytearray(written(path, records))
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place]
    else:
        content.insert(place, data.draw(st.integers(0, 255)))
    path.write_bytes(content)
    found, damage = read(path, len(records))
    assert damage or found == records  # a line end more is an empty line
    assert is_part(found, records)
    assert len(found) >= len(records) - 1
    mended(path, found)


@given(records=RECORDS, data=st.data())
@settings(deadline=None, max_examples=200)
def test_lines_that_are_missing_repeated_or_moved_are_named_and_change_no_record(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    lines = written(path, records).splitlines(keepends=True)
    chosen = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=12))
    path.write_bytes(b"".join(lines[number] for number in chosen))
    found, damage = read(path, len(records))
    assert [records[number] for number in dict.fromkeys(chosen)] == found
    assert damage.missing == len(records) - len(set(chosen))
    assert damage.repeated == len(chosen) - len(set(chosen))
    firsts = list(dict.fromkeys(chosen))
    assert bool(damage.moved) == (firsts != sorted(firsts))
    mended(path, [records[number] for number in sorted(set(chosen))])


@given(records=RECORDS, cut=st.integers(0, 5_000))
@settings(deadline=None, max_examples=100)
def test_a_journal_that_was_cut_is_noticed_by_the_number_of_its_last_record(tmp_path_factory, records, cut):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    content = written(path, records)
    path.write_bytes(content[: min(cut, len(content) - 1)])
    found, damage = read(path, len(records))
    assert found == records[: len(found)]
    assert damage.missing == len(records) - len(found) > 0


@given(
    junk=st.lists(st.binary(max_size=60) | st.sampled_from([b"{}", b"[" * 5_000, b'{"seq":1}', b"null"]), max_size=5)
)
@settings(deadline=None, max_examples=100)
def test_lines_that_are_no_records_are_named_and_the_others_read(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    records = [Record("a", "ok", response=Response("1")), Record("b", "ok", response=Response("2"))]
    first, second = written(path, records).splitlines(keepends=True)
    path.write_bytes(first + b"".join(one + b"\n" for one in junk) + second)
    found, damage = read(path)
    assert found == records
    assert damage.damaged == sum(one.count(b"\n") + 1 for one in junk)
    mended(path, records)
    assert (path.parent / journal.ASIDE).exists() == any(one.strip(b"\n") for one in junk)


def test_damage_is_named_by_line_and_sample(tmp_path):
    path = tmp_path / "results.jsonl"
    lines = written(path, [Record(f"q{i}", "ok", response=Response(str(i))) for i in range(1, 11)]).splitlines(
        keepends=True
    )
    lines[2] = lines[2].replace(b'"text":"3"', b'"text":"8"')
    lines[6] = b"not a record\n"
    del lines[4]
    path.write_bytes(b"".join([*lines, lines[0]]))
    told = "\n".join(read(path, 11)[1].lines())
    assert "2 damaged lines, 2 missing records, 1 repeated line" in told
    assert "line 3 (sample q3): does not match its checksum" in told
    assert "1 record is missing before line 5 (number 5)" in told
    assert "line 6: not a record" in told
    assert "line 10 (sample q1): repeats record 1" in told
    assert "1 record is missing at the end (number 11)" in told
    assert f"snellen rerun {tmp_path}" in told


def test_a_journal_of_the_first_version_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "results.jsonl"
    old = [Record("a", "ok", response=Response("1")), Record("b", "error", error=Failure("server", "500"))]
    plain = b"".join(msgspec.json.encode(one) + b"\n" for one in old)
    path.write_bytes(plain)
    assert read(path)[0] == old
    content = written(path, [Record("b", "ok", response=Response("2"))])
    assert content.startswith(plain)
    found, damage = read(path, 1)
    assert [one.sample_id for one in found] == ["a", "b", "b"]
    assert damage.lines() == []
    assert [one.response and one.response.text for one in final_records(path)] == ["1", "2"]
    assert not journal.mend(path, Record)
    path.write_bytes(content.replace(b'"a"', b'"a', 1))
    assert [one.sample_id for one in read(path)[0]] == ["b", "b"]


def test_lines_that_an_older_version_adds_count_and_are_told(tmp_path):
    path = tmp_path / "results.jsonl"
    content = written(path, [Record("a", "ok"), Record("b", "ok")])
    path.write_bytes(content + msgspec.json.encode(Record("c", "ok")) + b"\n")
    found, damage = read(path)
    assert [one.sample_id for one in found] == ["a", "b", "c"]
    assert not damage
    assert "1 lines have no checksum" in damage.lines()[0]
    written(path, [Record("d", "ok")])
    assert [one.sample_id for one in read(path)[0]] == ["a", "b", "c", "d"]
    assert not read(path)[1]


def test_a_journal_whose_lines_were_shuffled_gets_its_bytes_back(tmp_path):
    path = tmp_path / "results.jsonl"
    content = written(path, [Record(f"q{i}", "ok") for i in range(50)])
    lines = content.splitlines(keepends=True)
    random.Random(3).shuffle(lines)
    path.write_bytes(b"".join(lines))
    assert journal.mend(path, Record)
    assert path.read_bytes() == content


def test_a_failure_behind_its_answer_does_not_replace_it(tmp_path):
    path = tmp_path / "results.jsonl"
    failed = Record("a", "error", error=Failure("server", "500"))
    first, second = written(path, [failed, Record("a", "ok", response=Response("1"))]).splitlines(keepends=True)
    path.write_bytes(second + first)
    assert [one.status for one in final_records(path)] == ["ok"]


def test_a_journal_that_nothing_goes_back_to_is_read_strictly(tmp_path, caplog):
    """Opinions and pages of a curation cannot be asked again: a reader stops at a damaged line, and names a missing one."""
    path = tmp_path / "opinions.jsonl"
    content = written(path, [Record("a", "ok"), Record("b", "ok"), Record("c", "ok")])
    path.write_bytes(content.replace(b'"b"', b'"x"'))
    with pytest.raises(RunError, match=r"line 2 \(sample x\): does not match"):
        list(journal.read(path, Record))
    path.write_bytes(b"".join(content.splitlines(keepends=True)[::2]))
    assert [one.sample_id for one in journal.read(path, Record)] == ["a", "c"]
    assert "1 record is missing before line 2 (number 2)" in caplog.text


@pytest.mark.parametrize("hostile", [b'"crc32":"00000000"}', b'{"sample_id":', b'{"seq":', b"["])
def test_a_hostile_line_is_read_in_linear_time(tmp_path, hostile):
    """Bytes that are looked at, not seconds: a line that is searched anew from each of its marks would take minutes."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(hostile * (4_000_000 // len(hostile)) + b"\n")
    assert read(path)[0] == []


@given(records=RECORDS, cut=st.integers(0, 10_000))
@settings(deadline=None, max_examples=100)
def test_a_journal_cut_at_any_byte_keeps_every_record_before_the_cut(tmp_path_factory, records, cut):
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    whole = written(path, records)
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
    written(path, [Record("first", "ok")])
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


def test_a_journal_of_holes_is_refused_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_lines, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "results.jsonl"
    path.touch()
    os.truncate(path, 1 << 22)
    with pytest.raises(RunError, match=r"results.jsonl holds a line of more than 1 MiB"):
        list(journal.read(path, Record))


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
