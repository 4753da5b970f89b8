"""Bounds for parquet files: a few bytes may encode billions of rows, one repeated value, or one endless list.

Run-length and dictionary encoding make that possible, so the file's size says nothing. Its metadata is checked before
anything is decoded, and the number of rows decoded at once depends on the largest possible value.
"""

from __future__ import annotations

import itertools
from typing import Any

from snellen.errors import DataError

MOST_ROWS = 100_000_000
"""Maximum rows of a table."""
MANY_ROWS, ROWS_PER_BYTE = 10_000_000, 16
"""From this many rows on, a file with more than 16 rows per byte has no content."""
MANY_VALUES, VALUES_PER_BYTE = 1 << 24, 64
"""The same for the values in a column of lists, by the column's bytes."""
BATCH_BYTES = 256 << 20
"""Maximum bytes of a batch of rows in the worst case, unless one row takes more."""
WHOLE_BYTES = 1 << 33
"""Maximum bytes of texts in one column that is read whole."""
REPEATING = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"})
"""Encodings that store a large value once for many rows."""


def check_parquet(metadata: Any, name: str, file_bytes: int) -> None:
    """Raise for a table with more rows or list values than its bytes can hold.

    Args:
        metadata: pyarrow's FileMetaData.
        name: the file, for messages.
        file_bytes: its size.

    Raises:
        DataError: with the claimed size and the bound.
    """
    rows = metadata.num_rows
    if rows > MOST_ROWS:
        raise DataError(
            f"{name}: claims {rows:,} rows; at most {MOST_ROWS:,} are read", "Split the table, or fetch the file again."
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


def read_whole(file: str, name: str) -> Any:
    """Read a table (pyarrow) whole; its texts are measured before they are repeated.

    Raises:
        DataError: more rows, values or bytes than the bounds. OSError, ArrowException: from pyarrow.
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
    """Return the bytes that one value may have without being stored for each row; 0 for numbers and plain texts."""
    if column.physical_type != "BYTE_ARRAY" or not REPEATING.intersection(column.encodings):
        return 0
    return int(column.total_uncompressed_size)


def _too_long(name: str, column: str) -> DataError:
    return DataError(
        f"{name}: the texts of column {column!r} exceed {WHOLE_BYTES:,} bytes",
        "Fetch the file again; it may have been made to exhaust this machine.",
    )
