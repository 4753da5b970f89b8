"""Images in the cells of parquet files, referred to by file, row and column, and read on demand.

The hub's data sets hold an image as a struct of `bytes` and `path`, as bare bytes, as base64, or as a list of these. A
run reads them nearly in order, so a reader moves forward through a row group and keeps its last rows. For an earlier
row it restarts the row group. Memory holds a page of the file, which writers make as large as a row group (some hundred
images), and those rows: nothing grows with the file.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.sources import parquet
from snellen.sources.blobs import Base64Blob
from snellen.sources.safe_paths import regular_file

DECODED_BYTES = 4 << 20
KEPT_ROWS = 48  # more than threads read at once, or two of them would have the row group started again in turn


class ParquetCell(Struct, frozen=True):
    """One image of a cell.

    Attributes:
        path: the file.
        row: its row, from 0.
        column: its column.
        item: its position in the cell's list, from 0; -1 if the cell is no list.
    """

    path: Path
    row: int
    column: str
    item: int = -1
    quick: ClassVar[bool] = False

    @property
    def key(self) -> str:
        at = f", item {self.item + 1}" if self.item >= 0 else ""
        return f"{self.path}, row {self.row + 1:,}, {self.column}{at}"

    def read(self) -> bytes:
        """Read the image. Raises DataError if the cell holds no bytes, or the file has changed."""
        cell = _reader(self.path, self.column).cell(self.row)
        if self.item >= 0:
            cell = cell[self.item] if isinstance(cell, Sequence) and self.item < len(cell) else None
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if isinstance(data, str):
            return Base64Blob(self.key, data).read()
        if not isinstance(data, bytes):
            raise DataError(f"{self.key}: it holds no image bytes", "Fetch the file again.")
        return data


def _reader(path: Path, column: str) -> _Column:
    status = regular_file(path)
    return _opened(path, column, status.st_mtime_ns, status.st_size, os.getpid())


@lru_cache(maxsize=8)  # BLINK has four columns of images, and two of its files are read where one ends
def _opened(path: Path, column: str, changed: int, size: int, process: int) -> _Column:
    return _Column(path, column)


class _Column:
    """A reader of one column of one file, forward by batches of a row group; the last batches are kept."""

    def __init__(self, path: Path, column: str) -> None:
        self._path, self._column = path, column
        self._lock = threading.Lock()
        with parquet.opened(path, path) as reader:
            meta = reader.file.metadata
            self._starts = [0]
            for group in range(meta.num_row_groups):
                self._starts.append(self._starts[-1] + meta.row_group(group).num_rows)
            self._rows = _batch_rows(meta, {column})
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._group = -1
        self._batches: Iterator[tuple[int, Any]] = iter(())
        self._next = 0

    def cell(self, row: int) -> Any:
        """Return the value of a row."""
        with self._lock:
            for start, values in self._kept.items():
                if start <= row < start + len(values):
                    return values[row - start].as_py()
            return self._forward(row)

    def _forward(self, row: int) -> Any:
        group = next((at for at, end in enumerate(self._starts[1:]) if row < end), None)
        if group is None:
            raise DataError(f"{self._path} has no row {row + 1:,}: the file changed during the run", "Start again.")
        if group != self._group or row < self._next:
            self._batches = iter(())  # the page of the last one is given up before the next is read
            self._group, self._batches = group, self._from(group)
        for start, values in self._batches:
            self._next = start + len(values)
            self._kept[start] = values
            while len(self._kept) > max(2, KEPT_ROWS // self._rows):
                self._kept.popitem(last=False)
            if row < self._next:
                return values[row - start].as_py()
        raise DataError(f"{self._path}: row {row + 1:,} is missing", parquet.FETCH_AGAIN)

    def _from(self, group: int) -> Iterator[tuple[int, Any]]:
        with parquet.opened(self._path, self._path, row=self._starts[group]) as reader:
            for batch in reader.batches(self._rows, [self._column], [group]):
                yield reader.row, batch.column(0)


def _image_columns(schema: Any) -> list[str]:
    """Return the columns of a schema that hold images: bytes, structs of bytes and path, or lists of either."""
    import pyarrow as pa

    def holds(kind: Any) -> bool:
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return holds(kind.value_type)
        if pa.types.is_struct(kind):
            return any(field.name == "bytes" for field in kind)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    return [field.name for field in schema if holds(field.type)]


def columns(path: Path) -> tuple[str, ...]:
    """Return the names of a parquet file's columns. Raises DataError: it cannot be opened."""
    with parquet.opened(path, path) as reader:
        return tuple(reader.file.schema_arrow.names)


def class_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the words that the numbers of a column stand for, as data sets of the hub record them (`ClassLabel`).

    Columns whose words are single characters are omitted: their numbers are indexes. Raises DataError as `columns`.
    """
    with parquet.opened(path, path) as reader:
        recorded = (reader.file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = msgspec.json.decode(recorded)["info"]["features"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return {}
    names = {
        column: tuple(feature["names"])
        for column, feature in (features.items() if isinstance(features, dict) else ())
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
    }
    return {
        column: words
        for column, words in names.items()
        if all(isinstance(word, str) for word in words) and any(len(word) > 1 for word in words)
    }


def rows_with_images(path: Path) -> Iterator[tuple[int, dict[str, Any], dict[str, int]]]:
    """Yield (number from 1, row without images, number of images by column) for the rows of a parquet file.

    A count of -1 is a cell that is one image and no list; columns without an image in this row are omitted. Of structs
    only the leaf `path` is read, not the images' bytes; bare bytes are counted once per process.

    Raises:
        DataError: the file is damaged, at the row where this is detected.
    """
    with parquet.opened(path, path) as reader:
        file, stamp = reader.file, path.stat()
        images = _image_columns(file.schema_arrow)
        leaves = [file.schema.column(at).path for at in range(len(file.schema))]
        light: dict[str, list[str]] = {
            name: [leaf for leaf in leaves if leaf.startswith(f"{name}.") and leaf.endswith(".path")] for name in images
        }
        plain = [name for name in file.schema_arrow.names if name not in images]
        wanted = [*plain, *(leaf for own in light.values() for leaf in own)]
        counted = {
            name: _counted(path, name, stamp.st_mtime_ns, stamp.st_size) for name, own in light.items() if not own
        }
        for batch in reader.batches(_batch_rows(file.metadata, set(plain)), wanted):
            for at, row in enumerate(parquet.to_rows(batch), reader.row):
                cells = {name: _count(row.pop(name)) for name, own in light.items() if own}
                if any(at >= len(counts) for counts in counted.values()):
                    raise DataError(
                        f"{path}, row {at + 1:,}: its images and all later ones are unreadable", parquet.FETCH_AGAIN
                    )
                counts = {**cells, **{name: counts[at] for name, counts in counted.items()}}
                yield at + 1, row, {name: counts[name] for name in images if counts[name]}


@lru_cache(maxsize=64)
def _counted(path: Path, column: str, changed: int, size: int) -> tuple[int, ...]:
    """Count the images of each row of a column whose type tells it only by its bytes, up to the first damaged page."""
    import pyarrow as pa

    counts: list[int] = []
    with suppress(DataError), parquet.opened(path, path) as reader:
        for batch in reader.batches(_batch_rows(reader.file.metadata, {column}), [column]):
            values = batch.column(0)
            if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
                counts += [length or 0 for length in values.value_lengths().to_pylist()]
            else:
                counts += [-1 if present else 0 for present in values.is_valid().to_pylist()]
    return tuple(counts)


def _batch_rows(meta: Any, columns: set[str]) -> int:
    """Return the number of rows of these columns that make some megabytes, by the sizes in the file."""
    size = 0
    for group in range(meta.num_row_groups):
        parts = meta.row_group(group)
        for at in range(parts.num_columns):
            part = parts.column(at)
            size += part.total_uncompressed_size if part.path_in_schema.partition(".")[0] in columns else 0
    return int(
        max(1, min(parquet.ROWS_AT_ONCE, DECODED_BYTES * meta.num_rows // size if size else parquet.ROWS_AT_ONCE))
    )


def _count(cell: Any) -> int:
    """Return the number of images in a list; -1 for a single image; 0 for none."""
    if isinstance(cell, list):
        return len(cell)
    return 0 if cell is None else -1
