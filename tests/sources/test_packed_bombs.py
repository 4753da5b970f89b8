"""A few bytes that claim to be billions of values are refused by what they claim, before anything is decoded."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snellen.errors import DataError, SnellenError
from snellen.features.probes.head import load_head
from snellen.features.store.importers import import_file
from snellen.sources import parquet
from snellen.sources.parquet_images import rows_with_images
from snellen.sources.rows import rows


def repeated(value: object, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


def npy(shape: tuple[int, ...], body: bytes = b"\0" * 64) -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return head.getvalue() + body


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def test_a_table_that_claims_more_rows_than_its_bytes_hold_is_refused(tmp_path):
    some = pa.table({"question": repeated("q", 1_000_000)})
    with pq.ParquetWriter(tmp_path / "t.parquet", some.schema, compression="zstd") as writer:
        for _ in range(12):
            writer.write_table(some, row_group_size=1_000_000)
    size = (tmp_path / "t.parquet").stat().st_size
    assert size < 200_000
    with pytest.raises(DataError, match="claims 12,000,000 rows"):
        next(rows(tmp_path / "t.parquet"))
    with pytest.raises(DataError, match="claims 12,000,000 rows"):
        import_file(tmp_path / "t.parquet", tmp_path / "store")


def test_a_table_beyond_the_most_rows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_ROWS", 99)
    pq.write_table(pa.table({"a": list(range(100))}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="claims 100 rows; at most 99"):
        next(rows(tmp_path / "t.parquet"))


def test_one_endless_list_is_refused(tmp_path):
    values = pa.array(np.zeros(20_000_000, dtype=np.int8))
    column = pa.ListArray.from_arrays(pa.array([0, len(values)], type=pa.int32()), values)
    pq.write_table(pa.table({"options": column}), tmp_path / "t.parquet", compression="zstd")
    with pytest.raises(DataError, match="claims 20,000,000 values"):
        next(rows(tmp_path / "t.parquet"))


@pytest.mark.parametrize("encoding", ["dictionary", "delta"])
def test_a_large_text_that_counts_for_many_rows_is_decoded_a_few_rows_at_a_time(encoding, tmp_path, monkeypatch):
    text, path = "x" * 1_000_000, tmp_path / "t.parquet"
    if encoding == "dictionary":
        pq.write_table(pa.table({"q": repeated(text, 100)}), path, dictionary_pagesize_limit=1 << 30)
    else:
        table = pa.table({"q": [text] * 100})
        pq.write_table(table, path, use_dictionary=False, column_encoding={"q": "DELTA_BYTE_ARRAY"})
    monkeypatch.setattr(parquet, "BATCH_BYTES", 4_000_000)
    with pq.ParquetFile(path) as file:
        assert 1 <= parquet.batch_rows(file.metadata, 64) <= 4
    assert sum(len(row["q"]) for row in rows(path)) == 100 * len(text)
    monkeypatch.setattr(parquet, "WHOLE_BYTES", 10_000_000)
    if encoding == "dictionary":
        with pytest.raises(DataError, match="the texts of column 'q'"):
            parquet.read_whole(path)


def test_a_large_text_that_counts_for_millions_of_rows_ends_with_an_error(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"reply": repeated("x" * 1_000_000, 3_000)}), path, compression="zstd")
    assert path.stat().st_size < 1_000_000
    monkeypatch.setattr(parquet, "WHOLE_BYTES", 200_000_000)
    taken = 0
    with pytest.raises(DataError, match="at most 200 times its size"):
        for _ in rows(path):
            taken += 1
    assert 100 < taken < 300
    with pytest.raises(DataError, match="at most 200 times its size"):
        list(rows_with_images(path))
    pq.write_table(pa.table({"image": repeated(b"x" * 1_000_000, 3_000)}), path, compression="zstd")
    with pytest.raises(DataError, match="its images and all later ones are unreadable"):
        list(rows_with_images(path))


def test_rows_beside_images_are_measured_by_the_metadata_too(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_ROWS", 99)
    pq.write_table(pa.table({"a": list(range(100))}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="claims 100 rows; at most 99"):
        next(rows_with_images(tmp_path / "t.parquet"))


def test_a_plain_table_is_read_whole_as_ever(tmp_path):
    table = pa.table({"id": ["a", "b", "a", None], "n": [1, 2, 3, 4], "l": [["x"], [], ["y", "z"], None]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert parquet.read_whole(tmp_path / "t.parquet").equals(table)


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 10), (1 << 62,), (17,)])
def test_an_array_whose_header_claims_more_than_the_archive_holds_is_refused(shape, tmp_path):
    path = npz(tmp_path / "a.npz", features=npy(shape), labels=npy((16,)))
    with pytest.raises(DataError, match="claims an array of shape"):
        import_file(path, tmp_path / "store")
    with pytest.raises(DataError, match="claims an array of shape"):
        load_head(path)


def test_arrays_packed_beyond_any_real_array_are_refused(tmp_path):
    path = npz(tmp_path / "a.npz", features=npy((8_000, 1_024), bytes(8_000 * 1_024 * 4)), labels=npy((16,)))
    with pytest.raises(SnellenError, match="unpacks to"):
        import_file(path, tmp_path / "store")


def test_memory_that_runs_out_is_an_error_with_what_to_do():
    from snellen.cli.console import environment_fault

    fault = environment_fault(MemoryError("Unable to allocate 4 TiB"))
    assert fault is not None and "4 TiB" in fault.message and fault.hint
