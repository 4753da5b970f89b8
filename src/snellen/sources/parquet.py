"""Parquet files by pyarrow: opened and checked, read in batches of rows or whole; every error names file and row.

A few bytes may encode billions of rows, one repeated value, or one endless list: run-length and dictionary encoding
make that possible, so the file's size says nothing. The metadata is checked before anything is decoded, and the number
of rows decoded at once depends on the largest possible value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snellen.errors import DataError
from snellen.sources.blobs import FileBlob
from snellen.sources.encodings import RowsAndErrors, pick
from snellen.sources.safe_paths import regular_file
from snellen.types import Blob

FETCH_AGAIN = "The file is damaged; fetch it again."
# Rows with images are large; a small batch bounds memory, and costs little beside decoding an image.
ROWS_AT_ONCE = 64
MAX_ROWS = 100_000_000
"""Maximum rows of a table."""
MANY_ROWS, ROWS_PER_BYTE = 10_000_000, 16
"""From this many rows on, a file with more than 16 rows per byte has no content."""
MANY_VALUES, VALUES_PER_BYTE = 1 << 24, 64
"""The same for the values in a column of lists, by the column's bytes."""
BATCH_BYTES = 256 << 20
"""Maximum bytes of a batch of rows in the worst case, unless one row takes more."""
WHOLE_BYTES = 1 << 33
"""Maximum bytes of texts in one column that is read whole."""
UNPACKED_PER_BYTE = 200
"""Maximum bytes of values per byte of a file that is read in batches, beyond WHOLE_BYTES."""
_REPEATING = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"})
"""Encodings that store a large value once for many rows."""


class ParquetReader:
    """An opened file; `file` is pyarrow's, `row` the number of rows read so far."""

    def __init__(self, file: Any, row: int, name: str | Path) -> None:
        self.file = file
        self.row = row
        self.file_bytes = 0
        self._name, self._unpacked = name, 0

    def batches(self, rows: int, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
        """Yield record batches of up to `rows` rows (of the row groups `groups`); nothing is read ahead.

        Raises:
            DataError: the values exceed WHOLE_BYTES and 200 times the file.
        """
        rows = batch_rows(self.file.metadata, rows)
        for batch in self.file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False):
            self._unpacked += sum(_repeated(column).nbytes for column in batch.columns)
            if self._unpacked > max(WHOLE_BYTES, UNPACKED_PER_BYTE * self.file_bytes):
                raise DataError(
                    f"{self._name}: unpacks to {self._unpacked:,} bytes or more from {self.file_bytes:,}; "
                    f"at most {UNPACKED_PER_BYTE} times its size is read",
                    "Fetch the file again; it may have been made to exhaust this machine.",
                )
            yield batch
            self.row += batch.num_rows


@contextmanager
def opened(source: Path | bytes, name: str | Path, hint: str = FETCH_AGAIN, row: int = 0) -> Iterator[ParquetReader]:
    """Open and check a file; pyarrow's errors become DataErrors that name the file and the last row read before.

    Args:
        source: a path, or the file's bytes.
        row: number of the first row that is going to be read, from 0.

    Raises:
        DataError: on opening (missing, damaged), in `ParquetReader.batches`, and for more rows or values than the file's bytes can hold.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = ParquetReader(None, row, name)
    try:
        place: Any = pa.BufferReader(source) if isinstance(source, bytes) else source
        size = len(source) if isinstance(source, bytes) else regular_file(source).st_size
        with pq.ParquetFile(place, buffer_size=1 << 20, pre_buffer=False) as file:
            _check(file.metadata, name, size)
            reader.file, reader.file_bytes = file, size
            yield reader
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        where = f"{name}, after row {reader.row:,}" if reader.row else name
        raise DataError(f"{where}: cannot be read as parquet: {error}", hint) from error


def rows(blob: Blob, name: str, columns: Sequence[str] | None) -> RowsAndErrors:
    """Yield (row number, row) of a parquet file; only the requested columns are read, at most 64 rows at a time."""
    with opened(blob.path if isinstance(blob, FileBlob) else blob.read(), name) as reader:
        wanted = [column for column, _ in pick(reader.file.schema_arrow.names, columns, name)]
        for batch in reader.batches(ROWS_AT_ONCE, wanted):
            yield from enumerate(to_rows(batch.select(wanted)), reader.row + 1)


def to_rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch; of one with a time that Python's types cannot hold, all times as text.

    Such are times finer than a microsecond, which pandas writes, and years beyond 9999.
    """
    import pyarrow as pa

    rows: list[dict[str, Any]]
    try:
        rows = batch.to_pylist()
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError):
        pass
    else:
        return rows
    try:
        for place, field in enumerate(batch.schema):
            if pa.types.is_temporal(field.type):
                batch = batch.set_column(place, field.name, batch.column(place).cast(pa.string()))
        rows = batch.to_pylist()
    except (ValueError, OverflowError) as error:  # one inside a list or a struct, or of an unknown zone
        raise pa.ArrowInvalid(f"a time that cannot be read: {error}") from error
    return rows


def read_whole(path: Path, hint: str = FETCH_AGAIN, columns: Sequence[str] | None = None) -> Any:
    """Read a table (pyarrow), or some of its columns, whole; its texts are measured before they are repeated.

    Raises:
        DataError: unreadable, or more rows, values or bytes than the bounds.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with opened(path, path, hint) as reader:
        for _, column in _chunks(reader.file.metadata):
            if "DELTA_BYTE_ARRAY" in column.encodings and _repeated_bytes(column) * column.num_values > 1 << 40:
                raise _too_long(path, column.path_in_schema)
        schema = reader.file.schema_arrow
        texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
        table = pq.read_table(path, columns=columns, read_dictionary=texts)
        for place, field in enumerate(table.schema):
            if not pa.types.is_dictionary(field.type):
                continue
            total = 0
            for chunk in table.column(place).chunks:
                total += pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
            if total > WHOLE_BYTES:
                raise _too_long(path, field.name)
            if field.name in texts:
                plain = table.column(place).cast(field.type.value_type)
                table = table.set_column(place, field.name, plain)
    return table


def _check(metadata: Any, name: str | Path, file_bytes: int) -> None:
    """Raise DataError for a table with more rows or list values than its bytes can hold."""
    rows = metadata.num_rows
    if rows > MAX_ROWS:
        raise DataError(
            f"{name}: claims {rows:,} rows; at most {MAX_ROWS:,} are read", "Split the table, or fetch the file again."
        )
    if rows > MANY_ROWS and rows > ROWS_PER_BYTE * file_bytes:
        raise DataError(
            f"{name}: claims {rows:,} rows in {file_bytes:,} bytes; nearly all must be equal",
            "Fetch the file again; it may have been made to exhaust this machine.",
        )
    for group, column in _chunks(metadata):
        values, stored = column.num_values, max(column.total_uncompressed_size, 1)
        lists = values - metadata.row_group(group).num_rows
        if lists > MANY_VALUES and values > VALUES_PER_BYTE * min(stored, VALUES_PER_BYTE * file_bytes):
            raise DataError(
                f"{name}: the column {column.path_in_schema!r} claims {values:,} values in {stored:,} bytes",
                "Fetch the file again; it may have been made to exhaust this machine.",
            )


def batch_rows(metadata: Any, limit: int) -> int:
    """Return the number of rows to decode at once: `limit`, or fewer if a repeated value may exceed BATCH_BYTES."""
    largest = max((_repeated_bytes(column) for _, column in _chunks(metadata)), default=0)
    return max(1, min(limit, BATCH_BYTES // max(largest, 1)))


def _repeated(column: Any) -> Any:
    """Return the column with each value as often as its rows have it: a dictionary holds it once."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _chunks(metadata: Any) -> Any:
    groups = range(metadata.num_row_groups)
    return (
        (group, metadata.row_group(group).column(column))
        for group, column in itertools.product(groups, range(metadata.num_columns))
    )


def _repeated_bytes(column: Any) -> int:
    """Return the bytes that one value may have without being stored for each row; 0 for numbers and plain texts."""
    if column.physical_type != "BYTE_ARRAY" or not _REPEATING.intersection(column.encodings):
        return 0
    return int(column.total_uncompressed_size)


def _too_long(name: Path, column: str) -> DataError:
    return DataError(
        f"{name}: the texts of column {column!r} exceed {WHOLE_BYTES:,} bytes",
        "Fetch the file again; it may have been made to exhaust this machine.",
    )
