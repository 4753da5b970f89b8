"""Rows of parquet files and spreadsheets, by pyarrow and openpyxl."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from snellen.errors import DataError, MissingExtraError
from snellen.sources.archive import Limits, check_unpacked
from snellen.sources.blobs import FileBlob
from snellen.sources.parquet_limits import batch_rows, check_parquet
from snellen.sources.rows import RowsAndErrors, pick
from snellen.sources.xlsx_limits import check_sheets
from snellen.types import Blob

# Rows with pictures are large; a small batch bounds memory, and costs little beside decoding a picture.
BATCH_ROWS = 64
SHEET_LIMITS = Limits(stream_bytes=1 << 31, total_bytes=1 << 32)


def parquet(blob: Blob, name: str, columns: Sequence[str] | None) -> RowsAndErrors:
    """Yield (row number, row) of a parquet file; only the requested columns are read, at most 64 rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        data = None if isinstance(blob, FileBlob) else blob.read()
        place: Any = blob.path if isinstance(blob, FileBlob) else pa.BufferReader(data)
        size = len(data) if data is not None else place.stat().st_size
        with pq.ParquetFile(place, buffer_size=1 << 20, pre_buffer=False) as file:
            check_parquet(file.metadata, name, size)
            rows_at_once = batch_rows(file.metadata, BATCH_ROWS)
            wanted = [column for column, _ in pick(file.schema_arrow.names, columns, name)]
            for batch in file.iter_batches(rows_at_once, columns=wanted, use_threads=False):
                for record in batch.select(wanted).to_pylist():
                    row += 1
                    yield row, record
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{name}, after row {row:,}: cannot be read as parquet: {error}", "The file is damaged; fetch it again."
        ) from error


def xlsx(blob: Blob, name: str, columns: Sequence[str] | None, sheet: str | None) -> RowsAndErrors:
    """Yield (row number, row) of one sheet whose first row holds the column names; empty rows are skipped.

    A formula is returned as its text: nothing is evaluated, and a reply that begins with `=` is not lost.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError(
            f"{name} needs openpyxl, which is not installed", "pip install 'snellen[excel]'"
        ) from error
    row = 0
    try:
        data = blob.read()
        _check_parts(data, name)
        book = openpyxl.load_workbook(BytesIO(data), read_only=True, data_only=False, keep_links=False)
        try:
            if sheet is not None and sheet not in book.sheetnames:
                raise DataError(
                    f"{name}: no sheet {sheet!r}; the sheets are {', '.join(book.sheetnames)}", "Choose one of them."
                )
            page = book[sheet] if sheet is not None else book.worksheets[0]
            page.reset_dimensions()  # what a sheet says of its own size may be anything
            header = next(page.iter_rows(max_row=1, values_only=True), None)
            if header is None:
                raise DataError(
                    f"{name}: the sheet is empty; a row of column names was expected", "Choose another sheet."
                )
            while header and header[-1] is None:
                header = header[:-1]
            picked = pick(header, columns, name)
            lines = page.iter_rows(min_row=2, max_col=max(1, len(header)), values_only=True)
            for row, cells in enumerate(lines, 2):
                if any(cell is not None for cell in cells):
                    yield row, {column: cells[at] if at < len(cells) else None for column, at in picked}
        finally:
            book.close()
    except DataError:
        raise
    except Exception as error:
        # openpyxl raises whatever its XML and zip readers stumble over.
        raise DataError(
            f"{name}, after row {row:,}: cannot be read as .xlsx: {error}", "The file is damaged; save it again."
        ) from error


def _check_parts(data: bytes, name: str) -> None:
    """Check the members of an .xlsx against limits: openpyxl reads some of them whole."""
    import zipfile
    from pathlib import Path

    with zipfile.ZipFile(BytesIO(data)) as parts:
        total = 0
        for part in parts.infolist():
            total += part.file_size
            check_unpacked(
                Path(name), part.filename, part.file_size, part.compress_size, SHEET_LIMITS.stream_bytes, SHEET_LIMITS
            )
            check_unpacked(Path(name), part.filename, total, total, SHEET_LIMITS.total_bytes, SHEET_LIMITS)
        check_sheets(parts, name)
