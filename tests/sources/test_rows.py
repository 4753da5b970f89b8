import base64
import json
import random
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.sources import Base64Blob, BytesBlob, FileBlob, Unreadable, UrlBlob, numbered, open_tree, rows


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_marks_and_line_ends_make_no_difference(start, end, tmp_path):
    expected = [{"id": "1", "q": "wo?"}, {"id": "2", "q": "è"}]
    lines = {
        "a.jsonl": [json.dumps(row, ensure_ascii=False).encode() for row in expected],
        "a.csv": [b"id,q", b"1,wo?", "2,è".encode()],
        "a.tsv": [b"id\tq", b"1\two?", "2\tè".encode()],
        "a.json": [b"[", json.dumps(expected[0]).encode() + b",", json.dumps(expected[1]).encode(), b"]"],
    }
    for name, each in lines.items():
        assert list(rows(written(tmp_path / name, start + end.join(each) + end))) == expected
        assert list(rows(written(tmp_path / name, start + end.join(each)))) == expected


def test_lines_are_counted_from_one_with_blank_ones_and_line_breaks_in_cells(tmp_path):
    path = written(tmp_path / "a.jsonl", '\n{"a": 1}\n\n{"a": 2}\n')
    assert [line for line, _ in numbered(path)] == [2, 4]
    path = written(tmp_path / "a.csv", 'a,b\n1,"x\ny\nz"\n2,q\n')
    assert list(numbered(path)) == [(2, {"a": "1", "b": "x\ny\nz"}), (5, {"a": "2", "b": "q"})]


@pytest.mark.parametrize(
    ("name", "data", "where", "why"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": }\n{"a": 3}\n', "a.jsonl, line 2", "malformed"),
        ("a.jsonl", '{"a": 1}\n{"a": "cut o', "a.jsonl, line 2", "the last line is cut off"),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xff\xfe"}\n', "a.jsonl, line 2", "utf-8"),
        ("a.jsonl", '{"a": 1}\n[1, 2]\n', "a.jsonl, line 2", "a list was found; an object was expected"),
        ("a.jsonl", "[" * 100_000 + "\n", "a.jsonl, line 1", "nested too deeply"),
        ("a.jsonl", '{"a": NaN' + "[" * 100_000 + "\n", "a.jsonl, line 1", "delimiter"),
        ("a.json", '[{"a": 1},\n{"a": 2},\n{"a" 3}]', "a.json, line 3", "malformed"),
        ("a.json", '[{"a": 1},\n{"a": ', "a.json, line", "truncated"),
        ("a.json", '{"a": 1}', "a.json", "an object was found; a list of objects was expected"),
        ("a.json", '[{"a": 1}, "x"]', "a.json, row 2", "a string was found"),
        ("a.json", '[{"a":' * 50_000, "a.json", "nested too deeply"),
        ("a.json", "", "a.json, line 1", "truncated"),
        ("a.csv", "a,b\n1,2\n1,2,3\n", "a.csv, line 3", "3 fields were found, 2 expected"),
        ("a.csv", "a,b\n1,2\n1\n", "a.csv, line 3", "1 fields were found, 2 expected"),
        ("a.csv", 'a,b\n1,2\n1,"cut o', "a.csv, line 3", "unexpected end of data"),
        ("a.csv", b"a,b\n1,\xff\n", "a.csv, line 2", "0xff is not UTF-8"),
        ("a.csv", "", "a.csv", "the file is empty"),
        ("a.csv", "a,b,a\n1,2,3\n", "a.csv", "duplicate column 'a'"),
        ("a.tsv", "a\tb\n1\n", "a.tsv, line 2", "1 fields were found, 2 expected"),
        ("a.parquet", b"PAR1 no PAR1", "a.parquet", "cannot be read as parquet"),
        ("a.xlsx", b"PK\x03\x04 no", "a.xlsx", "cannot be read as .xlsx"),
        ("a.txt", "x", "a.txt", r"\.jsonl, \.json, \.csv, \.tsv, \.parquet, \.arrow, \.feather or \.xlsx was expected"),
    ],
)
def test_every_fault_names_the_file_the_line_and_what_is_wrong(name, data, where, why, tmp_path):
    with pytest.raises(DataError, match=why) as caught:
        list(rows(written(tmp_path / name, data)))
    assert where in caught.value.message and caught.value.hint


def test_rows_before_a_fault_are_handed_out_first(tmp_path):
    found = rows(written(tmp_path / "a.jsonl", '{"a": 1}\n{"a": 2}\nbroken\n'))
    assert [next(found)["a"], next(found)["a"]] == [1, 2]
    with pytest.raises(DataError, match="line 3"):
        next(found)


def test_only_the_asked_columns_come_out_and_a_missing_one_is_named(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2], "q": ["x", "y"], "image": [b"1", b"2"]}), tmp_path / "a.parquet")
    written(tmp_path / "a.csv", "id,q,image\n1,x,1\n2,y,2\n")
    for name in ("a.parquet", "a.csv"):
        assert [list(row) for row in rows(tmp_path / name, columns=["q", "id"])] == [["q", "id"]] * 2
        with pytest.raises(DataError, match=r"no column 'answer'; the columns are id, q, image"):
            list(rows(tmp_path / name, columns=["answer"]))
    path = written(tmp_path / "a.jsonl", '{"id": 1, "q": "x"}\n{"id": 2}\n')
    assert list(rows(path, columns=["q"])) == [{"q": "x"}, {"q": None}]


def test_times_that_python_cannot_hold_are_read_as_text(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "fine": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns")),
            "clock": pa.array([1, 2], pa.time64("ns")),
            "late": pa.array([2**31 - 1, 0], pa.date32()),
            "long": pa.array([2**62, 1], pa.duration("s")),
            "n": [1, 2],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    first, second = rows(tmp_path / "a.parquet")
    assert first["fine"] == "2023-11-14 22:13:20.123456789" and second["fine"] is None
    assert (first["clock"], second["clock"]) == ("00:00:00.000000001", "00:00:00.000000002")
    assert second["late"] == "1970-01-01" and first["long"] == str(2**62) and first["n"] == 1
    pq.write_table(pa.table({"a": pa.array([[2**62]], pa.list_(pa.timestamp("ns")))}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet"):
        list(rows(tmp_path / "b.parquet"))


def test_nan_as_pandas_writes_it_is_read(tmp_path):
    (row,) = rows(written(tmp_path / "a.jsonl", '{"a": NaN, "b": "NaN", "c": -Infinity}\n'))
    assert row["a"] != row["a"] and row["b"] == "NaN" and row["c"] == float("-inf")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=6), st.booleans())
def test_whatever_was_written_as_json_is_read_back(tmp_path_factory, table, plain):
    folder = tmp_path_factory.mktemp("json")
    lines = written(folder / "a.jsonl", "".join(json.dumps(row, ensure_ascii=plain) + "\n" for row in table))
    whole = written(folder / "a.json", json.dumps(table, ensure_ascii=plain))
    assert list(rows(lines)) == table == list(rows(whole))


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([".jsonl", ".json", ".csv", ".tsv", ".parquet", ".xlsx"]))
def test_any_bytes_at_all_give_rows_or_an_error_that_names_the_file(tmp_path_factory, data, suffix):
    path = written(tmp_path_factory.mktemp("any") / f"rows{suffix}", data)
    try:
        assert all(isinstance(row, dict) for row in rows(path))
    except DataError as error:
        assert path.name in error.message


def test_rows_come_out_of_archives_as_out_of_files(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q/rows.jsonl", '{"a": 1}\n{"a": 2}\n')
        archive.write(tmp_path / "t.parquet", "t.parquet")
        archive.writestr("bad.jsonl", '{"a": 1}\n{')
    tree = open_tree(tmp_path / "d.zip")
    assert list(rows(tree.blob("q/rows.jsonl"))) == [{"a": 1}, {"a": 2}] == list(rows(tree.blob("t.parquet")))
    assert list(rows(FileBlob(tmp_path / "t.parquet"))) == [{"a": 1}, {"a": 2}]
    with pytest.raises(DataError, match=r"d\.zip!bad\.jsonl, line 2"):
        list(rows(tree.blob("bad.jsonl")))


def test_a_spreadsheet_is_read_by_its_header_and_formulas_are_text(tmp_path):
    book = openpyxl.Workbook()
    page = book.active
    page.title = "answers"
    for line in (["id", "prediction", None], [1, "=1+1"], [None, None], [2, "B"], [3]):
        page.append(line)
    other = book.create_sheet("other")
    other.append(["x"])
    other.append(["y"])
    book.save(tmp_path / "a.xlsx")
    assert list(numbered(tmp_path / "a.xlsx")) == [
        (2, {"id": 1, "prediction": "=1+1"}),
        (4, {"id": 2, "prediction": "B"}),
        (5, {"id": 3, "prediction": None}),
    ]
    assert list(rows(tmp_path / "a.xlsx", sheet="other")) == [{"x": "y"}]
    with pytest.raises(DataError, match=r"no sheet 'gone'; the sheets are answers, other"):
        list(rows(tmp_path / "a.xlsx", sheet="gone"))
    with pytest.raises(DataError, match=r"no column 'answer'"):
        list(rows(tmp_path / "a.xlsx", columns=["answer"]))


def test_a_spreadsheet_that_is_a_bomb_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"<t>" + bytes(40 << 20))
    with pytest.raises(DataError, match="200 times its packed size"):
        list(rows(tmp_path / "a.xlsx"))


def test_entities_that_multiply_in_a_spreadsheet_are_an_error(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["a"])
    book.save(tmp_path / "good.xlsx")
    laughs = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">' + b"".join(
        b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 12)
    )
    with zipfile.ZipFile(tmp_path / "good.xlsx") as good, zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as bad:
        for name in good.namelist():
            data = good.read(name)
            if name.endswith("workbook.xml"):
                data = laughs + b"]>" + data[data.index(b"<workbook") :].replace(b"<sheets>", b"<sheets>&l11;")
            bad.writestr(name, data)
    with pytest.raises(DataError, match=r"bad\.xlsx"):
        list(rows(tmp_path / "bad.xlsx"))


MEASURE = """if True:
    import sys
    from snellen.sources import rows
    total = 0
    for row in rows(sys.argv[1], columns=["id", "image"]):
        total += len(row["image"])
    print(total, *(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def measured(path: Path) -> tuple[int, int]:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, timeout=600, check=True
    )
    total, peak = run.stdout.split()
    return int(total), int(peak)


def test_a_table_with_large_cells_is_streamed(tmp_path):
    """120 MB in 40 rows of 3 MB: the csv module's own limit is 128 kB, and the whole must not be held."""
    cell = base64.b64encode(random.Random(0).randbytes(2_250_000)).decode()
    with (tmp_path / "a.tsv").open("w") as out:
        out.write("id\timage\n")
        out.writelines(f"{number}\t{cell}\n" for number in range(40))
    with (tmp_path / "a.jsonl").open("w") as out:
        out.writelines(f'{{"id": {number}, "image": "{cell}"}}\n' for number in range(40))
    for name in ("a.tsv", "a.jsonl"):
        total, peak = measured(tmp_path / name)
        assert total == 40 * len(cell) and peak < 110_000  # kB


def test_thirty_megabytes_of_pictures_in_cells_take_the_memory_of_one(tmp_path):
    cells = [base64.b64encode(random.Random(seed).randbytes(75_000)).decode() for seed in range(300)]
    with (tmp_path / "a.tsv").open("w") as out:
        out.write("index\tquestion\timage\n")
        out.writelines(f'{number}\t"Which, if any?\nA or ""B"""\t{cell}\n' for number, cell in enumerate(cells))
    assert (tmp_path / "a.tsv").stat().st_size > 30_000_000
    seen = 0
    tracemalloc.start()
    try:
        for number, (line, row) in enumerate(numbered(tmp_path / "a.tsv")):
            assert line == 2 + 2 * number and row["question"] == 'Which, if any?\nA or "B"'
            seen += row["image"] == cells[number]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == 300 and peak < 2_000_000


def test_one_cell_of_a_hundred_megabytes_is_read(tmp_path):
    with (tmp_path / "a.tsv").open("w") as out:
        out.write("id\timage\n1\t" + "A" * 100_000_000 + "\n")
    assert measured(tmp_path / "a.tsv")[0] == 100_000_000


def test_parquet_is_read_in_small_batches(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    noise = random.Random(0).randbytes(1 << 18)
    schema = pa.schema([("id", pa.int64()), ("image", pa.binary()), ("unused", pa.binary())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema, use_dictionary=False, compression="none") as writer:
        for group in range(4):
            images = [bytes([group, number]) + noise for number in range(100)]
            writer.write_table(pa.table([list(range(100)), images, images], schema=schema))
    total, peak = measured(tmp_path / "a.parquet")
    assert total == 400 * (len(noise) + 2)
    assert peak < 250_000  # kB; the file holds 210,000 and pyarrow itself takes 100,000


def test_base64_cells_are_decoded_when_read_and_a_cut_off_one_is_named():
    text = base64.b64encode(b"pixels and more").decode()
    for each in (text, f"data:image/png;base64,{text}", text[:8] + "\n" + text[8:]):
        assert Base64Blob("a.tsv#3", each).read() == b"pixels and more"
    for each in (text[:-3], "not base64!", text[:5] + "=" + text[5:], "é"):
        with pytest.raises(DataError, match=r"a\.tsv#3"):
            Base64Blob("a.tsv#3", each).read()
    assert BytesBlob("k", b"x").open().read() == b"x"


def test_what_cannot_be_had_says_why_to_whoever_asks():
    blob = Unreadable("a.tsv, line 3", "a.tsv, line 3: 2 fields were found, 5 expected", "Mend it.")
    assert (
        blob.quick
        and blob.key == "a.tsv, line 3"
        and hash(blob) == hash(Unreadable(blob.key, blob.message, "Mend it."))
    )
    for ask in (blob.read, blob.open):
        with pytest.raises(DataError) as caught:
            ask()
        assert (caught.value.message, caught.value.hint) == (blob.message, "Mend it.")


def test_a_url_is_passed_on_and_never_fetched():
    blob = UrlBlob("http://127.0.0.1:9/bird.jpg")
    assert blob.key == blob.url
    with pytest.raises(DataError, match="not fetched"):
        blob.read()
