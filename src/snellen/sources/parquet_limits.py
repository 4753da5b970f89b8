"""Bounds for parquet files: a few bytes may stand for billions of rows, for one value repeated, or for one endless
list.

Run-length and dictionary encoding make that possible, so the size of the file says nothing. Its metadata is checked
before anything is decoded, and the number of rows decoded at once goes by the largest value that there may be.
"""

from __future__ import annotations

import itertools
from typing import Any

from snellen.errors import DataError

MOST_ROWS = 100_000_000
"""Rows of a table at most."""
MANY_ROWS, ROWS_PER_BYTE = 10_000_000, 16
"""From so many rows on, a file with more rows than that for each of its bytes has no content."""
MANY_VALUES, VALUES_PER_BYTE = 1 << 24, 64
"""The same for the values in a column of lists, by the column's bytes."""
BATCH_BYTES = 256 << 20
"""Bytes that a batch of rows may take at worst, unless one row takes more."""
WHOLE_BYTES = 1 << 33
"""Bytes of texts in one column that is read whole."""
REPEATING = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"})
"""Encodings in which a large value costs bytes once, and counts for many rows."""


def check_parquet(metadata: Any, name: str, file_bytes: int) -> None:
    """Refuse a table with more rows or list values than its bytes can hold.

    Args:
        metadata: pyarrow's FileMetaData.
        name: the file, for messages.
        file_bytes: its size.

    Raises:
        DataError: with what the file claims and the bound.
    """
    rows = metadata.num_rows
    if rows > MOST_ROWS:
        raise DataError(
            f"{name}: claims {rows:,} rows; at most {MOST_ROWS:,} are read", "Split the table, or fetch the file again."
        )
    if rows > MANY_ROWS and rows > ROWS_PER_BYTE * file_bytes:
        raise DataError(
            f"{name}: claims {rows:,} rows in {file_bytes:,} bytes, so nearly all of them are the same",
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
    """How many rows to decode at once: `most`, fewer where one repeated value may make them larger than BATCH_BYTES."""
    largest = max((_repeated_bytes(column) for _, column in _chunks(metadata)), default=0)
    return max(1, min(limit, BATCH_BYTES // max(largest, 1)))


def read_whole(file: str, name: str) -> Any:
    """A table (pyarrow) read whole, with its texts counted before they are repeated.

    Raises:
        DataError: more rows, values or bytes than the bounds. OSError, ArrowException: as pyarrow has it.
    """
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        check_parquet(opened.metadata, name, Path(file).stat().st_size)
        for _, column in _chunks(opened.metadata):
            if "DELTA_BYTE_ARRAY" in column.encodings and _repeated_bytes(column) * column.num_values > 1 << 40:
                raise _too_long(name, column.path_in_schema)
        schema = opened.schema_arrow
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
    table = pq.read_table(file, read_dictionary=texts)
    for place, field in enumerate(table.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        total = 0
        for chunk in table.column(place).chunks:
            total += pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
        if total > WHOLE_BYTES:
            raise _too_long(name, field.name)
        if field.name in texts:
            plain = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, plain)
    return table


def _chunks(metadata: Any) -> Any:
    groups = range(metadata.num_row_groups)
    return (
        (group, metadata.row_group(group).column(column))
        for group, column in itertools.product(groups, range(metadata.num_columns))
    )


def _repeated_bytes(column: Any) -> int:
    """Bytes that one value of a column may have without being stored for each row; 0 for numbers and plain texts."""
    if column.physical_type != "BYTE_ARRAY" or not REPEATING.intersection(column.encodings):
        return 0
    return int(column.total_uncompressed_size)


def _too_long(name: str, column: str) -> DataError:
    return DataError(
        f"{name}: the texts of the column {column!r} come to more than {WHOLE_BYTES:,} bytes",
        "Fetch the file again; it may have been made to exhaust this machine.",
    )
