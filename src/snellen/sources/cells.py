"""Pictures in the cells of parquet files: referred to by file, row and column, and read again from there when asked for.

The hub's data sets hold a picture as a struct of `bytes` and `path`, as bare bytes, or as a list of either. A run asks for
them nearly in order, so that a reader goes forward through a row group and keeps its last batches; asked for an earlier
row it starts the row group again.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.confine import regular_file

BATCH_ROWS = 16
KEPT_BATCHES = 4


class ParquetCell(Struct, frozen=True):
    """One picture of a cell.

    Attributes:
        path: the file.
        row: its row, from 0.
        column: its column.
        item: its place in the cell's list, from 0; -1 where the cell is no list.
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
        """Raises DataError where the cell holds no bytes, or the file was changed meanwhile."""
        cell = _reader(self.path, self.column).cell(self.row)
        if self.item >= 0:
            cell = cell[self.item] if isinstance(cell, Sequence) and self.item < len(cell) else None
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if not isinstance(data, bytes):
            raise DataError(f"{self.key}: no bytes of a picture are in it", "Fetch the file again.")
        return data


def _reader(path: Path, column: str) -> _Column:
    found = regular_file(path)
    return _opened(path, column, found.st_mtime_ns, found.st_size, os.getpid())


@lru_cache(maxsize=16)
def _opened(path: Path, column: str, changed: int, size: int, process: int) -> _Column:
    return _Column(path, column)


class _Column:
    """One column of one file, read forward by batches of a row group; a few batches are kept."""

    def __init__(self, path: Path, column: str) -> None:
        import pyarrow.parquet as pq

        self._path, self._column = path, column
        self._lock = threading.Lock()
        with pq.ParquetFile(path) as file:
            meta = file.metadata
            self._starts = [0]
            for group in range(meta.num_row_groups):
                self._starts.append(self._starts[-1] + meta.row_group(group).num_rows)
        self._kept: OrderedDict[int, list[Any]] = OrderedDict()
        self._group = -1
        self._batches: Iterator[tuple[int, list[Any]]] = iter(())
        self._next = 0

    def cell(self, row: int) -> Any:
        """The value of a row."""
        with self._lock:
            for start, values in self._kept.items():
                if start <= row < start + len(values):
                    return values[row - start]
            return self._forward(row)

    def _forward(self, row: int) -> Any:
        group = next((at for at, end in enumerate(self._starts[1:]) if row < end), None)
        if group is None:
            raise DataError(f"{self._path} has no row {row + 1:,}: it was changed while it was in use", "Start again.")
        if group != self._group or row < self._next:
            self._group, self._batches = group, self._from(group)
        for start, values in self._batches:
            self._next = start + len(values)
            self._kept[start] = values
            while len(self._kept) > KEPT_BATCHES:
                self._kept.popitem(last=False)
            if row < self._next:
                return values[row - start]
        raise DataError(f"{self._path}: row {row + 1:,} could not be reached", "The file is damaged; fetch it again.")

    def _from(self, group: int) -> Iterator[tuple[int, list[Any]]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        start = self._starts[group]
        try:
            with pq.ParquetFile(self._path, buffer_size=1 << 20, pre_buffer=False) as file:
                for batch in file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=[self._column], use_threads=False
                ):
                    values = batch.column(0).to_pylist()
                    yield start, values
                    start += len(values)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{self._path}, near row {start + 1:,}: cannot be read as parquet: {error}", "Fetch the file again."
            ) from error


def picture_columns(path: Path) -> list[str]:
    """Columns of a parquet file that hold pictures: bytes, or structs of bytes and path, or lists of either."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def holds(kind: Any) -> bool:
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return holds(kind.value_type)
        if pa.types.is_struct(kind):
            return any(field.name == "bytes" for field in kind)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as parquet: {error}", "Fetch the file again.") from error
    return [field.name for field in schema if holds(field.type)]


def pictured_rows(path: Path) -> Iterator[tuple[int, dict[str, Any], dict[str, int]]]:
    """(number from 1, row without pictures, how many pictures each picture column has in it) of a parquet file.

    A count of -1 is a cell that is one picture and no list; columns without a picture in this row are not among them.
    Of structs only the leaf `path` is read, so that no picture's bytes are touched.

    Raises:
        DataError: the file is damaged, at the row where it is found out.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pictures = picture_columns(path)
    number = 0
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            leaves = [file.schema.column(at).path for at in range(len(file.schema))]
            wanted: list[str] = []
            for name in file.schema_arrow.names:
                own = [leaf for leaf in leaves if leaf == name or leaf.startswith(f"{name}.")]
                light = [leaf for leaf in own if leaf.endswith(".path")] if name in pictures else []
                wanted += light or own
            for batch in file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    cells = {name: row.pop(name) for name in pictures}
                    yield number, row, {name: _count(cell) for name, cell in cells.items() if _count(cell)}
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}, after row {number:,}: cannot be read as parquet: {error}", "The file is damaged; fetch it again."
        ) from error


def _count(cell: Any) -> int:
    """Pictures in a list; -1 for a cell that is one; 0 for none."""
    if isinstance(cell, list):
        return len(cell)
    return 0 if cell is None else -1
