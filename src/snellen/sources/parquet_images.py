"""Images in the cells of parquet and Arrow files, referred to by file, row and column, and read on demand.

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
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.sources import arrow, parquet
from snellen.sources.blobs import PDF_MARK, Base64Blob, begins_as_video
from snellen.sources.number_formats import plain_value
from snellen.sources.safe_paths import regular_file

DECODED_BYTES = 4 << 20
_CONTENT: dict[tuple[Path, str, int], str] = {}
"""What the first cell of a column that was asked about holds: `pdf`, `clip`, or another content."""
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

    @property
    def is_pdf(self) -> bool:
        """True for a PDF; where the first cell of a column that is asked about is none, no other is read for it."""
        return self._content == "pdf" and self.read().startswith(PDF_MARK)

    @property
    def is_clip(self) -> bool:
        """True for a cell of a column whose first cell that is asked about is a clip."""
        return self._content == "clip"

    @property
    def _content(self) -> str:
        place = (self.path, self.column, self.path.stat().st_mtime_ns)
        if place not in _CONTENT:
            first = self.read()[:16]
            _CONTENT[place] = "pdf" if first.startswith(PDF_MARK) else "clip" if begins_as_video(first) else ""
        return _CONTENT[place]

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


def is_arrow(path: Path) -> bool:
    """Return True for a file in Arrow's own format, Feather among them."""
    return path.suffix.lower() in arrow.SUFFIXES


def _reader(path: Path, column: str) -> _Column | _ArrowColumn:
    status = regular_file(path)
    return _opened(path, column, status.st_mtime_ns, status.st_size, os.getpid())


@lru_cache(maxsize=8)  # BLINK has four columns of images, and two of its files are read where one ends
def _opened(path: Path, column: str, changed: int, size: int, process: int) -> _Column | _ArrowColumn:
    return _ArrowColumn(path, column) if is_arrow(path) else _Column(path, column)


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


class _ArrowColumn:
    """A reader of one column of an Arrow file, forward by its batches, which are mapped into memory."""

    def __init__(self, path: Path, column: str) -> None:
        self._path, self._column = path, column
        self._lock = threading.Lock()
        self._batches: Iterator[tuple[int, Any]] = iter(())
        self._start, self._values = 0, ()

    def cell(self, row: int) -> Any:
        """Return the value of a row."""
        with self._lock:
            if row < self._start or not self._values:
                self._batches = self._from_first()
                self._start, self._values = 0, ()
            while row >= self._start + len(self._values):
                following = next(self._batches, None)
                if following is None:
                    raise DataError(
                        f"{self._path} has no row {row + 1:,}: the file changed during the run", "Start again."
                    )
                self._start, self._values = following
            return self._values[row - self._start].as_py()

    def _from_first(self) -> Iterator[tuple[int, Any]]:
        with arrow.opened(self._path, self._path) as reader:
            for batch in reader.batches():
                yield reader.row, batch.column(self._column)


def _image_columns(schema: Any) -> list[str]:
    """Return the columns of a schema that hold images: bytes, structs of bytes and path, or lists of either."""
    import pyarrow as pa

    def holds(kind: Any) -> bool:
        if _is_list(kind) or pa.types.is_dictionary(kind):
            return holds(kind.value_type)
        if pa.types.is_struct(kind):
            return any(field.name == "bytes" for field in kind)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))

    return [field.name for field in schema if holds(field.type)]


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def schema_of(path: Path) -> Any:
    """Return the schema of a parquet or Arrow file. Raises DataError: it cannot be opened."""
    if is_arrow(path):
        with arrow.opened(path, path) as reader:
            return reader.schema
    with parquet.opened(path, path) as file:
        return file.file.schema_arrow


def columns(path: Path) -> tuple[str, ...]:
    """Return the names of a file's columns. Raises DataError: it cannot be opened."""
    return tuple(schema_of(path).names)


def class_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the words that the numbers of a column stand for, as data sets of the hub record them (`ClassLabel`).

    Columns whose words are single characters are omitted: their numbers are indexes. Raises DataError as `columns`.
    """
    recorded = (schema_of(path).metadata or {}).get(b"huggingface", b"{}")
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
    """Yield (number from 1, row without images, number of images by column) for the rows of a parquet or Arrow file.

    A count of -1 is a cell that is one image and no list; columns without an image in this row are omitted. A cell with
    images that are named and not held, `{bytes: null, path: …}`, stays in the row. No image's bytes are read, except
    once per process of a parquet file: bare ones are counted, and so are those of a column that names some images.

    Raises:
        DataError: the file is damaged, at the row where this is detected.
    """
    schema = schema_of(path)
    names = _image_columns(schema)
    texts = [field.name for field in schema if field.name not in names and _becomes_text(field.type)]
    for at, row, images in (_arrow_rows if is_arrow(path) else _parquet_rows)(path, schema, names):
        for name in texts:
            row[name] = plain_value(row[name])
        counts: dict[str, int] = {}
        for name, (held, named) in images.items():
            if isinstance(held, list):
                paths = named if isinstance(named, list) else [None] * len(held)
                if all(held):
                    counts[name] = len(held)
                else:
                    several = zip(held, paths, strict=True)
                    row[name] = [
                        ParquetCell(path, at, name, item) if own else {"path": other}
                        for item, (own, other) in enumerate(several)
                        if own or other
                    ]
            elif held:
                counts[name] = -1
            elif named:
                row[name] = {"path": named}
        yield at + 1, row, {name: count for name, count in counts.items() if count}


RowImages: TypeAlias = dict[str, tuple[Any, Any]]
"""By column: whether a row holds its image, and what it names it; of a list both for each element."""


def _parquet_rows(path: Path, schema: Any, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any], RowImages]]:
    with parquet.opened(path, path) as reader:
        file, stamp = reader.file, path.stat()
        leaves = [file.schema.column(at).path for at in range(len(file.schema))]
        light: dict[str, list[str]] = {
            name: [leaf for leaf in leaves if leaf.startswith(f"{name}.") and leaf.endswith(".path")] for name in names
        }
        plain = [name for name in schema.names if name not in names]
        wanted = [*plain, *(leaf for own in light.values() for leaf in own)]
        counted = {
            name: _counted(path, name, stamp.st_mtime_ns, stamp.st_size)
            for name, own in light.items()
            if not own or _names_some(file.metadata, name)
        }
        for batch in reader.batches(_batch_rows(file.metadata, set(plain)), wanted):
            held = {name: _held(batch.column(name)) for name, own in light.items() if own and name not in counted}
            named = {name: _paths(batch.column(name)) for name, own in light.items() if own}
            rows = parquet.to_rows(batch.select(plain)) if plain else [{} for _ in range(batch.num_rows)]
            for at, row in enumerate(rows):
                number = reader.row + at
                if any(number >= len(flags) for flags in counted.values()):
                    raise DataError(
                        f"{path}, row {number + 1:,}: its images and all later ones are unreadable", parquet.FETCH_AGAIN
                    )
                images = {
                    name: (
                        counted[name][number] if name in counted else held[name][at],
                        named[name][at] if name in named else None,
                    )
                    for name in names
                }
                yield number, row, images


def _arrow_rows(path: Path, schema: Any, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any], RowImages]]:
    plain = [name for name in schema.names if name not in names]
    with arrow.opened(path, path) as reader:
        for batch in reader.batches():
            held = {name: _held(batch.column(name)) for name in names}
            named = {name: _paths(batch.column(name)) for name in names}
            rows = reader.rows(batch, plain) if plain else ({} for _ in range(batch.num_rows))
            for at, row in enumerate(rows):
                yield reader.row + at, row, {name: (held[name][at], named[name][at]) for name in names}


def _names_some(meta: Any, column: str) -> bool:
    """Return True if some images of a column are null and may be named instead, by the statistics of the file."""
    nulls = {"bytes": 0, "path": 0}
    values = 0
    for group in range(meta.num_row_groups):
        for at in range(meta.num_columns):
            part = meta.row_group(group).column(at)
            leaf = part.path_in_schema.rpartition(".")[2]
            if part.path_in_schema.partition(".")[0] == column and leaf in nulls:
                statistics = part.statistics
                known = statistics is not None and statistics.has_null_count
                nulls[leaf] += statistics.null_count if known else 0
                values += part.num_values if leaf == "path" else 0
    return nulls["bytes"] > 0 and nulls["path"] < values


@lru_cache(maxsize=64)
def _counted(path: Path, column: str, changed: int, size: int) -> tuple[Any, ...]:
    """Return whether each row of a column holds its image, by its bytes, up to the first damaged page."""
    flags: list[Any] = []
    with suppress(DataError), parquet.opened(path, path) as reader:
        for batch in reader.batches(_batch_rows(reader.file.metadata, {column}), [column]):
            flags += _held(batch.column(0))
    return tuple(flags)


def _held(values: Any) -> list[Any]:
    """Return for each row whether it holds an image: a list of truth values for a list, None for an empty cell."""
    import pyarrow as pa

    if _is_list(values.type):
        return _split(values, _held(values.flatten()))
    if pa.types.is_struct(values.type) and values.type.get_field_index("bytes") >= 0:
        return values.flatten()[values.type.get_field_index("bytes")].is_valid().to_pylist()  # type: ignore[no-any-return]
    return values.is_valid().to_pylist()  # type: ignore[no-any-return]


def _paths(values: Any) -> list[Any]:
    """Return for each row the name of its image, or a list of names; None without one."""
    import pyarrow as pa

    if _is_list(values.type):
        return _split(values, _paths(values.flatten()))
    if not pa.types.is_struct(values.type) or values.type.get_field_index("path") < 0:
        return [None] * len(values)
    return values.flatten()[values.type.get_field_index("path")].to_pylist()  # type: ignore[no-any-return]


def _split(values: Any, flat: Sequence[Any]) -> list[Any]:
    """Return the elements of lists by list; None for an empty cell."""
    import pyarrow.compute as pc

    lists: list[Any] = []
    at = 0
    for length in pc.list_value_length(values).to_pylist():
        lists.append(None if length is None else list(flat[at : at + length]))
        at += length or 0
    return lists


def _becomes_text(kind: Any) -> bool:
    """Return True for decimals, dates and times, and for lists and structs of them."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _becomes_text(kind.value_type)
    if pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
        return True
    return any(_becomes_text(kind.field(at).type) for at in range(kind.num_fields))


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
