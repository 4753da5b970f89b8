"""Tables in which some rows cannot be read: the others are, and each that cannot says where and why."""

import base64
import csv
import errno
import io
import json
import random
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.sources import BytesBlob, numbered, open_tree, salvaged


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def told(path: Path, **options: object) -> list[tuple[int, object]]:
    """(line, row), or (line, what is wrong)."""
    found = []
    for line, row in salvaged(path, **options):
        if isinstance(row, DataError):
            assert row.message.startswith(f"{path}, ") and row.hint
            found.append((line, row.message.removeprefix(f"{path}, ")))
        else:
            found.append((line, row))
    return found


def test_each_line_of_json_stands_for_itself(tmp_path):
    lines = [b'{"a": 1}', b"", b'{"a": 2', b"[1]", b'{"a": "\xff"}', b'{"a": 6}', b"[" * 100_000, b'{"a": 8}', b'{"a":']
    found = told(written(tmp_path / "a.jsonl", b"\n".join(lines)))
    assert [row for row in found if isinstance(row[1], dict)] == [(1, {"a": 1}), (6, {"a": 6}), (8, {"a": 8})]
    wrong = {line: why for line, why in found if isinstance(why, str)}
    assert list(wrong) == [3, 4, 5, 7, 9]
    assert all(why.startswith(f"line {line}: ") for line, why in wrong.items())
    assert "a list was found" in wrong[4] and "utf-8" in wrong[5].lower()
    assert "nested too deeply" in wrong[7] and "the last line is cut off" in wrong[9]


def test_a_line_that_is_too_long_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["snellen.sources.rows"], "LINE_BYTES", 100)
    path = written(tmp_path / "a.jsonl", b'{"a": 1}\n{"a": "' + b"x" * 1000 + b'"}\n{"a": 3}\n')
    assert told(path) == [(1, {"a": 1}), (2, "line 2: longer than 100 bytes"), (3, {"a": 3})]


def test_in_a_list_the_elements_that_are_no_objects_are_named(tmp_path):
    found = told(written(tmp_path / "a.json", '[{"a": 1}, 7, null, {"a": 4}]'))
    assert [line for line, _ in found] == [1, 2, 3, 4]
    assert found[0][1] == {"a": 1} and found[3][1] == {"a": 4}
    assert "row 2: a number was found" in str(found[1][1]) and "row 3: null was found" in str(found[2][1])


@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_a_row_of_another_width_or_of_other_bytes_is_passed_over(suffix, mark, tmp_path):
    table = [b"a,b", b"1,x", b"2", b"3,y,z", b"4,\xff\xfe", "5,é".encode(), b'"6"6,x', b'7,"two', b'lines"', b"9,x"]
    path = written(tmp_path / f"a.{suffix}", b"\n".join(table).replace(b",", mark.encode()))
    found = told(path, columns=["b"])
    assert [row for row in found if isinstance(row[1], dict)] == [
        (2, {"b": "x"}),
        (6, {"b": "é"}),
        (8, {"b": "two\nlines"}),
        (10, {"b": "x"}),
    ]
    wrong = [why for _, why in found if isinstance(why, str)]
    assert wrong[0] == "line 3: 1 fields were found, 2 expected as in the header"
    assert wrong[1] == "line 4: 3 fields were found, 2 expected as in the header"
    assert wrong[2] == "line 5: byte 0xff is not UTF-8"
    assert wrong[3].startswith("line 7: ") and "expected after" in wrong[3]


def test_rows_that_an_open_quote_has_swallowed_are_named_and_none_is_made_up(tmp_path):
    wide = written(tmp_path / "a.csv", 'a,b\n1,x\n2,"y\n3,z\n4,"\n5,u,v\n6,w\n')
    assert told(wide) == [
        (2, {"a": "1", "b": "x"}),
        (3, {"a": "2", "b": "y\n3,z\n4,"}),
        (6, "line 6: 3 fields were found, 2 expected as in the header"),
        (7, {"a": "6", "b": "w"}),
    ]
    several = written(tmp_path / "b.csv", 'a,b\n1,"x\n2,y\n3",z,u\n4,v\n')
    assert told(several) == [
        (2, "lines 2 to 4, read as one row: 4 fields were found, 2 expected as in the header"),
        (5, {"a": "4", "b": "v"}),
    ]


@pytest.mark.parametrize("lost", ['"y\n3,z\n4,w\n', '"y\n3,"z"\n4,w\n', '"y" and "\n3,"z"\n4,w\n'])
def test_where_nobody_knows_what_stands_in_quotes_the_rest_is_lost_and_said_to_be(lost, tmp_path):
    found = told(written(tmp_path / "a.csv", "a,b\n1,x\n2," + lost))
    assert found[0] == (2, {"a": "1", "b": "x"})
    assert len(found) == 2 and found[1][0] == 3 and str(found[1][1]).startswith("line 3: ")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", ""),
        ("a.csv", b"\xff\xfea\x00\n"),
        ("a.csv", "a,a\n1,2\n"),
        ("a.csv", '"a" b,c\n1,2\n'),
        ("a.json", "{}"),
        ("a.json", '[{"a": 1}'),
        ("a.parquet", "PAR1"),
        ("a.xlsx", "PK"),
        ("a.txt", "a"),
        ("a.jsonl", None),
    ],
)
def test_what_is_no_table_at_all_is_an_error_at_once(name, data, tmp_path):
    if data is not None:
        written(tmp_path / name, data)
    with pytest.raises(DataError, match=name):
        next(salvaged(tmp_path / name))


def test_a_column_that_is_not_there_is_an_error_and_in_json_lines_none(tmp_path):
    with pytest.raises(DataError, match="no column 'c'"):
        next(salvaged(written(tmp_path / "a.csv", "a,b\n1,2\n"), columns=["c"]))
    path = written(tmp_path / "a.jsonl", '{"a": 1}\n7\n{"b": 2}\n')
    assert [row for _, row in told(path, columns=["b"]) if isinstance(row, dict)] == [{"b": None}, {"b": 2}]


def test_a_parquet_file_with_a_damaged_page_gives_the_rows_before_it(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    noise = random.Random(0).randbytes(1 << 12)
    with pq.ParquetWriter(path, pa.schema([("a", pa.binary())]), compression="snappy", use_dictionary=False) as out:
        for group in range(4):
            out.write_table(pa.table({"a": [bytes([group]) + noise for _ in range(64)]}))
    start = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    hurt = bytearray(path.read_bytes())
    hurt[start : start + 64] = bytes(64)
    path.write_bytes(hurt)
    *good, (line, last) = salvaged(path)
    assert [(at, row["a"][0]) for at, row in good] == [(n + 1, n // 64) for n in range(128)]
    assert line == 129 and isinstance(last, DataError) and "after row 128" in last.message


def test_an_archive_that_is_damaged_in_the_middle_gives_the_rows_before_it(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        rows = [{"n": n, "text": base64.b64encode(random.Random(n).randbytes(60)).decode()} for n in range(20_000)]
        archive.writestr("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    hurt = bytearray(path.read_bytes())
    middle = len(hurt) // 2
    hurt[middle : middle + 200] = bytes(200)
    path.write_bytes(hurt)
    found = list(salvaged(open_tree(path).blob("rows.jsonl")))
    first = next(at for at, (_, row) in enumerate(found) if isinstance(row, DataError))
    assert [row for _, row in found[:first]] == rows[:first] and first > 1000
    last = found[-1][1]
    assert isinstance(last, DataError) and "a.zip: member 'rows.jsonl' cannot be read" in last.message


class Worn(BytesBlob, frozen=True):
    """A file on a disk that gives its first half."""

    def open(self) -> io.BytesIO:
        class Half(io.BytesIO):
            def readline(self, size: int | None = -1) -> bytes:
                if self.tell() > len(self.getvalue()) // 2:
                    raise OSError(errno.EIO, "Input/output error")
                return super().readline(size)

        return Half(self.data)


def test_a_disk_that_fails_on_the_way_is_an_error_that_names_the_file(tmp_path):
    found = list(salvaged(Worn("a.jsonl", b'{"a": 1}\n' * 10)))
    assert [line for line, _ in found] == [1, 2, 3, 4, 5, 6, 7]
    last = found[-1][1]
    assert (
        isinstance(last, DataError)
        and last.message == "a.jsonl, after line 6: the rest is unreadable: Input/output error"
    )


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
FAULTS = [b"", b'{"cut": "o', b"null", b"7", b"\xff\xfe", b"{]", b"}{", b"\x00"]


@settings(deadline=None)
@given(st.lists(st.dictionaries(cells, cells, max_size=3) | st.sampled_from(FAULTS), max_size=12), st.booleans())
def test_the_whole_lines_of_a_damaged_json_lines_file_are_all_read_in_place(tmp_path_factory, lines, end):
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path = written(tmp_path_factory.mktemp("lines") / "a.jsonl", data + b"\n" * end)
    found = told(path)
    assert [number for number, _ in found] == [number for number, line in enumerate(lines, 1) if line != b""]
    for number, row in found:
        line = lines[number - 1]
        assert (row == line) if isinstance(line, dict) else str(row).startswith(f"line {number}: ")


@settings(deadline=None)
@given(st.lists(st.lists(cells, min_size=1, max_size=4), max_size=12), st.sampled_from([",", "\t"]))
def test_rows_of_the_right_width_are_all_read_between_rows_of_other_widths(tmp_path_factory, table, mark):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["a", "b"], *table])
    path = written(tmp_path_factory.mktemp("wide") / ("a.csv" if mark == "," else "a.tsv"), out.getvalue())
    found = told(path)
    assert len(found) == len(table)
    for (_, row), given_ in zip(found, table, strict=True):
        assert (row == dict(zip("ab", given_, strict=True))) if len(given_) == 2 else "fields were found" in str(row)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([".jsonl", ".json", ".csv", ".tsv", ".parquet", ".xlsx"]))
def test_reading_strictly_gives_what_is_salvaged_up_to_the_first_fault(tmp_path_factory, data, suffix):
    path = written(tmp_path_factory.mktemp("any") / f"rows{suffix}", data)
    strict, fault = [], None
    try:
        for each in numbered(path):
            strict.append(each)
    except DataError as error:
        fault = error.message
    before = []
    try:
        for line, row in salvaged(path):
            if isinstance(row, DataError):
                assert row.message == fault and path.name in row.message
                break
            before.append((line, row))
        else:
            assert fault is None
    except DataError as error:
        assert error.message == fault
    assert repr(before) == repr(strict)  # NaN is not equal to itself
