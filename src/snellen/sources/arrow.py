"""Arrow files by pyarrow: the IPC file and stream formats, Feather, and the shards that `save_to_disk` writes.

A file is mapped into memory and read batch by batch. Arrow trusts its offsets, so that each batch is validated in full before
a value is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from snellen.errors import DataError
from snellen.sources.blobs import FileBlob
from snellen.sources.encodings import RowsAndErrors, pick
from snellen.sources.parquet import BATCH_BYTES, FETCH_AGAIN, MAX_ROWS, ROWS_AT_ONCE, UNPACKED_PER_BYTE, WHOLE_BYTES
from snellen.sources.parquet import to_rows as rows_of_batch
from snellen.sources.safe_paths import regular_file
from snellen.types import Blob

SUFFIXES = (".arrow", ".feather")
_FILE, _OLD_FEATHER = b"ARROW1", b"FEA1"
_SQL_COLUMN = re.compile(r"(\w+) (\w+(?:\[\]|\([\w, ]+\))?)")


@cache
def sql_types() -> dict[str, Any]:
    """Return Arrow's types by the names that DuckDB has for them."""
    import pyarrow as pa

    text = pa.string()
    return {
        **{"TINYINT": pa.int8(), "UTINYINT": pa.uint8(), "INTEGER": pa.int32(), "BIGINT": pa.int64()},
        **{"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "VARCHAR": text},
        **{"VARCHAR[]": pa.list_(text), "MAP(VARCHAR, VARCHAR)": pa.map_(text, text)},
    }


def schema_of(columns: str) -> Any:
    """Return the Arrow schema of columns as SQL declares them: `name TYPE, …`."""
    import pyarrow as pa

    return pa.schema([(name, sql_types()[kind]) for name, kind in _SQL_COLUMN.findall(columns)])


class ArrowReader:
    """An opened file; `row` is the number of rows read so far."""

    def __init__(self, reader: Any, name: str | Path, file_bytes: int, *, is_file: bool) -> None:
        self.schema = reader.schema
        self.row = 0
        self._reader, self._name, self._file_bytes, self._is_file = reader, name, file_bytes, is_file
        self._unpacked = 0

    def batches(self) -> Iterator[Any]:
        """Yield the validated record batches. Raises DataError if they unpack to more than 200 times the file."""
        for batch in (
            map(self._reader.get_batch, range(self._reader.num_record_batches)) if self._is_file else self._reader
        ):
            batch.validate(full=True)
            self._add(batch.nbytes)
            if self.row + batch.num_rows > MAX_ROWS:
                raise DataError(f"{self._name}: it has more than {MAX_ROWS:,} rows", "Split the table.")
            yield batch
            self.row += batch.num_rows

    def rows(self, batch: Any, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a batch with some of its columns; few at once where values may be repeated."""
        part = batch.select(list(columns))
        repeating = [column for column, field in zip(part.columns, part.schema, strict=True) if _repeats(field.type)]
        largest = max((column.nbytes + _dictionary_bytes(column) for column in repeating), default=0)
        step = max(1, min(ROWS_AT_ONCE, BATCH_BYTES // max(largest, 1)))
        names = [field.name for field in part.schema if _repeats(field.type)]
        for start in range(0, part.num_rows, step):
            for row in rows_of_batch(part.slice(start, step)):
                if names:
                    self._add(sum(len(cell) for name in names if isinstance(cell := row[name], str | bytes)))
                yield row

    def _add(self, size: int) -> None:
        self._unpacked += size
        if self._unpacked > max(WHOLE_BYTES, UNPACKED_PER_BYTE * self._file_bytes):
            raise DataError(
                f"{self._name}: unpacks to {self._unpacked:,} bytes or more from {self._file_bytes:,}; "
                f"at most {UNPACKED_PER_BYTE} times its size is read",
                "Fetch the file again; it may have been made to exhaust this machine.",
            )


@contextmanager
def opened(source: Path | bytes, name: str | Path) -> Iterator[ArrowReader]:
    """Open a file; pyarrow's errors become DataErrors that name the file and the last row read before.

    Args:
        source: a path, or the file's bytes.
    """
    import pyarrow as pa

    reader = None
    try:
        size = len(source) if isinstance(source, bytes) else regular_file(source).st_size
        if size == 0:
            raise DataError(f"{name}: the file is empty", FETCH_AGAIN)
        with pa.BufferReader(source) if isinstance(source, bytes) else pa.memory_map(str(source)) as data:
            mark = data.read(len(_FILE))
            data.seek(0)
            if mark.startswith(_OLD_FEATHER):
                raise DataError(
                    f"{name}: it is Feather of version 1, which is not read", "Write it as parquet, or as Feather 2."
                )
            is_file = mark == _FILE
            with pa.ipc.open_file(data) if is_file else pa.ipc.open_stream(data) as opened_reader:
                for field in opened_reader.schema:
                    _require_plain(field.name, field.type, name)
                reader = ArrowReader(opened_reader, name, size, is_file=is_file)
                yield reader
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        where = f"{name}, after row {reader.row:,}" if reader is not None and reader.row else name
        raise DataError(f"{where}: cannot be read as Arrow: {error}", FETCH_AGAIN) from error


def rows(blob: Blob, name: str, columns: Sequence[str] | None) -> RowsAndErrors:
    """Yield (row number, row) of an Arrow or Feather file."""
    with opened(blob.path if isinstance(blob, FileBlob) else blob.read(), name) as reader:
        wanted = [column for column, _ in pick(reader.schema.names, columns, name)]
        for batch in reader.batches():
            yield from enumerate(reader.rows(batch, wanted), reader.row + 1)


def _require_plain(column: str, kind: Any, name: str | Path) -> None:
    """Refuse kinds that no data set of questions has, and that repeat values without bounds."""
    import pyarrow as pa

    if (
        pa.types.is_run_end_encoded(kind)
        or pa.types.is_union(kind)
        or str(kind).startswith(("list_view", "large_list_view"))
    ):
        raise DataError(f"{name}: the column {column!r} is {kind}, which is not read", "Write the table as parquet.")
    for at in range(kind.num_fields):
        _require_plain(column, kind.field(at).type, name)


def _repeats(kind: Any) -> bool:
    """Return True if values of a kind may share their bytes."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind) or str(kind) in ("string_view", "binary_view"):
        return True
    return any(_repeats(kind.field(at).type) for at in range(kind.num_fields))


def _dictionary_bytes(column: Any) -> int:
    import pyarrow as pa

    return int(column.dictionary.nbytes) if pa.types.is_dictionary(column.type) else 0
