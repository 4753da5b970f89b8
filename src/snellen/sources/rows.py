"""Rows of a table, one dict at a time, from any supported file.

The suffix decides: .jsonl .ndjson .json .csv .tsv .parquet .arrow .feather .xlsx. Text is UTF-8, or what its byte order mark
says, with any line end. JSONL, CSV, TSV and parquet are streamed. Every error names the file and the line (parquet, xlsx,
JSON: the row), counted from 1. A fault that leaves the other rows readable concerns that row alone: `salvaged` yields
it in the row's place, `numbered` and `rows` raise it.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec
from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.sources.blobs import BytesBlob, FileBlob, stream
from snellen.sources.encodings import Row, RowsAndErrors, pick, text_stream
from snellen.sources.safe_paths import regular_file
from snellen.types import Blob

Source: TypeAlias = Path | str | Blob

LINE_BYTES = 1 << 30
# The csv module holds a cell at four bytes a character while it reads it; an image of 100 MB is 134 million of them.
CELL_CHARACTERS = 1 << 28
JSON_BYTES = 1 << 31
ROW_BYTES = 1 << 27
FIX_HINT = "A quote or separator is missing or too many, or the file is cut off; fetch it again."
_POSITION = re.compile(r"\(byte (\d+)\)")
_NOT_NUMBERS = re.compile(rb"\b(?:NaN|Infinity)\b")


def rows(source: Source | None, *, columns: Sequence[str] | None = None, sheet: str | None = None) -> Iterator[Row]:
    """Yield the rows of a file as dicts from column name to value.

    Args:
        source: a path, or a blob of a tree (`tree.blob(name)`); None, as `data.path` is where the user named none, is an
            error.
        columns: only these, in this order; None: all. A missing column is an error; of parquet the others are not even
            read. JSON rows may lack a column, which is then None.
        sheet: the sheet of an .xlsx; None: the first.

    Yields:
        One dict per row. CSV and TSV values are all str; an .xlsx formula is its own text and is not evaluated.

    Raises:
        UsageError: `source` is None.
        DataError: missing, damaged, not UTF-8, not an object, wrong number of fields ...; with file and line.
    """
    if source is None:
        raise UsageError("this benchmark needs a file that was not named", "Add --data FILE to the command.")
    return (row for _, row in numbered(source, columns=columns, sheet=sheet))


def numbered(
    source: Source, *, columns: Sequence[str] | None = None, sheet: str | None = None
) -> Iterator[tuple[int, Row]]:
    """Yield rows as `rows`, each with its line (JSONL, CSV, TSV) or row number, from 1, for the caller's messages."""
    return _sound(salvaged(source, columns=columns, sheet=sheet))


def salvaged(
    source: Source, *, columns: Sequence[str] | None = None, sheet: str | None = None, each: Sequence[str] = ()
) -> RowsAndErrors:
    """Yield rows as `numbered`, but an unreadable row as its error, and continue.

    `each` are names of which one may be the list of rows in a .json that is an object; an object without one is a row.

    Such a row is a JSONL line that is malformed, cut off, not UTF-8 or no object; an element of a .json list that is no
    object; a CSV or TSV row of another width than the header, with a misplaced quote or not UTF-8. If the rest of the
    file is lost with it (an unclosed quote, a damaged archive or parquet page), the error is the last item.

    Yields:
        (line, row), or (line, DataError) with the file and the line in its message. No row is read twice or silently
        skipped: each is one or the other, up to an error that says that the rest is lost.

    Raises:
        DataError: nothing is readable: missing, not a table, no header, a missing column.
    """
    blob: Blob = FileBlob(Path(source)) if isinstance(source, (str, Path)) else source
    if isinstance(blob, FileBlob):
        regular_file(blob.path)
    return until_lost(_reader(blob, columns, sheet, each), blob.key)


def _reader(blob: Blob, columns: Sequence[str] | None, sheet: str | None, each: Sequence[str]) -> RowsAndErrors:
    name = blob.key
    suffix = Path(name).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return _chosen(_json_lines(blob, name), columns)
    if suffix == ".json":
        return _chosen(_json_list(blob, name, each), columns)
    if suffix in (".csv", ".tsv"):
        return _separated(blob, name, "\t" if suffix == ".tsv" else ",", columns)
    if suffix == ".parquet":
        from snellen.sources import parquet

        return parquet.rows(blob, name, columns)
    if suffix in (".arrow", ".feather"):
        from snellen.sources import arrow

        return arrow.rows(blob, name, columns)
    if suffix == ".xlsx":
        from snellen.sources import xlsx

        return xlsx.rows(blob, name, columns, sheet)
    raise DataError(
        f"{name}: .jsonl, .json, .csv, .tsv, .parquet, .arrow, .feather or .xlsx was expected",
        "Rename the file, or convert it.",
    )


def _sound(records: RowsAndErrors) -> Iterator[tuple[int, Row]]:
    for line, row in records:
        if isinstance(row, DataError):
            raise row
        yield line, row


def until_lost(records: RowsAndErrors, name: str) -> RowsAndErrors:
    """Yield the records, and last the error that ended them; an error before the first row is raised."""
    line = 0
    try:
        for line, row in records:
            yield line, row
    except DataError as error:
        if line == 0:
            raise
        yield line + 1, error
    except OSError as error:
        lost = DataError(
            f"{name}, after line {line:,}: the rest is unreadable: {error.strerror or error}",
            "Copy or fetch the file again; the disk or mount failed.",
        )
        if line == 0:
            raise lost from error
        yield line + 1, lost


def _chosen(records: RowsAndErrors, columns: Sequence[str] | None) -> RowsAndErrors:
    if columns is None:
        return records
    return (
        (line, {column: row.get(column) for column in columns} if isinstance(row, dict) else row)
        for line, row in records
    )


def _json_lines(blob: Blob, name: str) -> RowsAndErrors:
    with stream(blob) as lines:
        number = 0
        while True:
            line = lines.readline(LINE_BYTES + 1)
            if not line:
                return
            number += 1
            if len(line) > LINE_BYTES:
                yield (
                    number,
                    DataError(
                        f"{name}, line {number:,}: longer than {LINE_BYTES:,} bytes",
                        "Check that the file is JSON lines.",
                    ),
                )
                while line and not line.endswith(b"\n"):
                    line = lines.readline(LINE_BYTES)
                continue
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            text = line.strip()
            if text:
                yield number, json_line(text, name, number, line)


def json_line(text: bytes, name: str, number: int, line: bytes) -> Row | DataError:
    try:
        row = parsed_json(text)
    except (ValueError, RecursionError) as error:
        if line.endswith(b"\n"):
            return _bad_json(f"{name}, line {number:,}", error)
        return DataError(
            f"{name}, line {number:,}: the last line is cut off: {error}",
            "The file is incomplete; fetch it again, or delete that line.",
        )
    return row if isinstance(row, dict) else _no_object(row, f"{name}, line {number:,}")


def json_document(source: IO[bytes], name: str) -> Any:
    """Return what a file of JSON holds; of JSON lines, however the file is called, a list of its rows.

    Raises:
        DataError: it is too large, or no JSON; with file and line.
    """
    data = source.read(JSON_BYTES + 1)
    if len(data) > JSON_BYTES:
        raise DataError(f"{name}: larger than {JSON_BYTES:,} bytes", "Convert it to JSON lines, which are streamed.")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return parsed_json(data)
    except (ValueError, RecursionError) as error:
        first, mark, _ = data.lstrip().partition(b"\n")
        if mark and first.startswith(b"{") and isinstance(json_line(first, name, 1, data), dict):
            return [row for _, row in _json_lines(BytesBlob(name, data), name)]
        at = _POSITION.search(str(error))
        line = data.count(b"\n", 0, int(at[1])) + 1 if at else getattr(error, "lineno", 1)
        raise _bad_json(f"{name}, line {line:,}", error) from error


def _json_list(blob: Blob, name: str, each: Sequence[str]) -> RowsAndErrors:
    with stream(blob) as source:
        value = json_document(source, name)
    if each and isinstance(value, dict):
        value = next((value[member] for member in each if member in value), [value])
    if not isinstance(value, list):
        raise DataError(
            f"{name}: {_kind(value)} was found; a list of objects was expected", "Pass the file that holds the rows."
        )
    for number, row in enumerate(value, 1):
        sound = isinstance(row, (dict, DataError))
        yield number, row if sound else _no_object(row, f"{name}, row {number:,}")


def parsed_json(data: bytes) -> Any:
    """Parse JSON with msgspec, which is strict; with the standard library for NaN and Infinity, which Python and pandas
    write.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if _NOT_NUMBERS.search(data):
            return json.loads(data)
        raise


def _bad_json(where: str, error: Exception) -> DataError:
    why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return DataError(f"{where}: {why}", "Correct the line, or fetch the file again.")


def _no_object(row: Any, where: str) -> DataError:
    return DataError(
        f"{where}: {_kind(row)} was found; an object was expected", "Write each row as an object of columns."
    )


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _separated(blob: Blob, name: str, mark: str, columns: Sequence[str] | None) -> RowsAndErrors:
    with text_stream(blob)[0] as file:
        lines = records(file, name, mark)
        _, header = next(lines, (None, None))
        if header is None:
            raise DataError(f"{name}: the file is empty; a line of column names was expected", "Fetch it again.")
        if isinstance(header, DataError):
            raise header
        picked = pick(header, columns, name)
        for place, cells in lines:
            if isinstance(cells, DataError):
                yield place.line, cells
            elif len(cells) == len(header):
                yield place.line, {column: cells[at] for column, at in picked}
            else:
                last = place.line + sum(cell.count("\n") for cell in cells)
                yield place.line, bad_width(name, place.line, last, len(cells), len(header))


class Place(Struct, frozen=True):
    """The place of a row in the file: byte offset, bytes, and its first line, from 1."""

    offset: int
    length: int
    line: int


def records(file: IO[bytes], name: str, separator: str) -> Iterator[tuple[Place, list[str] | DataError]]:
    """Yield the place of each row of a CSV or TSV, and its cells or the reason why it has none. Empty lines are skipped.

    A row may span several lines inside of quotes. If a quote is never closed, the rest of the file is one error, which
    is the last item.
    """
    # A byte that is not UTF-8 comes out as a lone surrogate, so that the row it stands in can be named and passed over.
    lines = OffsetLines(file, "surrogateescape")
    waiting: list[str] = []
    quoted = quoted_rows(waiting, lines, separator)  # one for all rows: to make one costs more than a row
    cells: list[str] | DataError
    lost = False
    while not lost:
        lines.start, first = lines.end, lines.number + 1
        try:
            line = next(lines)
            if '"' not in line or line.rstrip("\r\n").endswith('"'):
                parsed = next(row_cells(line, lines, separator), [])
            else:
                waiting.append(line)
                parsed = next(quoted)
            if not line.strip("\r\n"):
                continue
            cells = _not_text(parsed, name, first) or parsed
        except StopIteration:
            return
        except csv.Error as error:
            extent = "" if lines.number == first else f", in lines {first:,} to {lines.number:,}"
            cells = DataError(f"{name}, line {first:,}: {error}{extent}", FIX_HINT)
            # A line whose quotes come in pairs ends where it ends. Otherwise nobody knows what is inside of quotes from
            # here on, and rows that are not there might be read.
            lost = lines.number > first or lines.last.count(b'"') % 2 == 1 or not lines.last.endswith(b"\n")
        yield Place(lines.start, lines.end - lines.start, first), cells


def _not_text(cells: Sequence[str], name: str, line: int) -> DataError | None:
    for cell in cells:
        if not cell.isascii():
            try:
                cell.encode()
            except UnicodeEncodeError as error:
                byte = ord(cell[error.start]) - 0xDC00
                return DataError(f"{name}, line {line:,}: byte {byte:#04x} is not UTF-8", "Save the file as UTF-8.")
    return None


def row_cells(line: str, following: Iterator[str], separator: str) -> Iterator[list[str]]:
    """Parse the row that begins with a line; further lines are consumed if it spans them."""
    if '"' not in line:
        return iter([line.rstrip("\r\n").split(separator)])
    head, _, quoted = line.rstrip("\r\n").partition('"')
    if head.endswith(separator) and quoted.endswith('"') and '"' not in quoted[:-1].replace('""', ""):
        # Only the last cell is quoted, and ends here: a list of images as JSON, which csv would take by letters.
        return iter([[*head[:-1].split(separator), quoted[:-1].replace('""', '"')]])
    return quoted_rows([line], following, separator)


def quoted_rows(waiting: list[str], following: Iterator[str], separator: str) -> Iterator[list[str]]:
    """Parse rows whose first lines wait in a list; further lines are consumed if a row spans them."""
    csv.field_size_limit(CELL_CHARACTERS)
    lines = iter(lambda: waiting.pop() if waiting else next(following), None)
    return csv.reader(lines, delimiter=separator, strict=True)


class OffsetLines:
    """Lines of a file as text, with the row's start (set by the reader) and the end of the last line."""

    def __init__(self, file: IO[bytes], errors: str = "strict") -> None:
        self._file, self._errors = file, errors
        self.start = self.end = self.number = 0
        self.last = b""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.last = b""  # or two of 100 MB are held
        self.last = self._file.readline(ROW_BYTES)
        if not self.last:
            raise StopIteration
        self.number += 1
        self.end = self.require_short(self.end + len(self.last))
        if self.number == 1 and self.last.startswith(codecs.BOM_UTF8):
            self.start = len(codecs.BOM_UTF8)
            return self.last.removeprefix(codecs.BOM_UTF8).decode(errors=self._errors)
        return self.last.decode(errors=self._errors)

    def require_short(self, end: int) -> int:
        """Return the end of a row. Raises csv.Error if the row is too long."""
        if end - self.start > ROW_BYTES:
            raise csv.Error(f"a row of more than {ROW_BYTES:,} bytes")
        return end


def bad_width(name: str, line: int, last: int, fields: int, width: int) -> DataError:
    where = f"line {line:,}" if line == last else f"lines {line:,} to {last:,}, read as one row"
    return DataError(
        f"{name}, {where}: {fields:,} fields were found, {width:,} expected as in the header",
        "A quote or separator is missing in this line or the one before it.",
    )


def encodable(
    rows: Iterable[tuple[int, Row | DataError]], file: str, hint: str, *, quote: bool = True
) -> Iterator[tuple[int, Row | DataError]]:
    """Yield the rows, with an error in place of one whose texts hold half a character, which no file can hold.

    JSON can write such a half, a lone surrogate.

    Args:
        rows: (line, row or error).
        quote: quote the half in messages; False where texts are secret.
    """
    for line, row in rows:
        try:
            msgspec.json.encode(row) if not isinstance(row, DataError) else None
        except UnicodeEncodeError as error:
            half = f"{error.object[error.start]!a}" if quote else "a text"
            fault = f"{file}, line {line:,}: {half} {'is' if quote else 'holds'} half a character (a lone surrogate)"
            yield line, DataError(fault, hint)
        else:
            yield line, row
