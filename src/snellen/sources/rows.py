"""Rows of a table, one dict at a time, whatever file they lie in.

The kind of file goes by its suffix: .jsonl .ndjson .json .csv .tsv .parquet .xlsx. Text is UTF-8, with or without a
byte order mark, with any line end. Only what is asked for is held: JSONL, CSV, TSV and parquet are streamed. Every
error names the file and the line (parquet, xlsx, JSON: the row), counted from 1.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec

from snellen.errors import DataError
from snellen.sources.blobs import FileBlob
from snellen.sources.confine import regular_file
from snellen.types import Blob

Row: TypeAlias = dict[str, Any]
Source: TypeAlias = Path | str | Blob

LINE_BYTES = 1 << 30
JSON_BYTES = 1 << 31
_POSITION = re.compile(r"\(byte (\d+)\)")
_NOT_NUMBERS = re.compile(rb"\b(?:NaN|Infinity)\b")


def rows(source: Source, *, columns: Sequence[str] | None = None, sheet: str | None = None) -> Iterator[Row]:
    """Rows of a file as dicts from column name to value.

    Args:
        source: a path, or a blob of a tree (`tree.blob(name)`).
        columns: only these, in this order; None: all. A column that is not there is an error, and for parquet the
            others are not even read. JSON rows may lack a column, which is then None.
        sheet: which sheet of an .xlsx; None: the first.

    Yields:
        One dict a row. CSV and TSV values are all str; an .xlsx formula is its own text and is not evaluated.

    Raises:
        DataError: missing, damaged, not UTF-8, not an object, wrong number of fields ...; with file and line.
        MissingExtraError: an .xlsx without openpyxl.
    """
    return (row for _, row in numbered(source, columns=columns, sheet=sheet))


def numbered(
    source: Source, *, columns: Sequence[str] | None = None, sheet: str | None = None
) -> Iterator[tuple[int, Row]]:
    """As `rows`, each with its line (JSONL, CSV, TSV) or row number, from 1, for messages of the caller's own."""
    blob: Blob = FileBlob(Path(source)) if isinstance(source, (str, Path)) else source
    name = blob.key
    if isinstance(blob, FileBlob):
        regular_file(blob.path)
    suffix = Path(name).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return _chosen(_json_lines(blob, name), columns)
    if suffix == ".json":
        return _chosen(_json_list(blob, name), columns)
    if suffix in (".csv", ".tsv"):
        return _separated(blob, name, "\t" if suffix == ".tsv" else ",", columns)
    if suffix in (".parquet", ".xlsx"):
        from snellen.sources import tables

        return tables.parquet(blob, name, columns) if suffix == ".parquet" else tables.xlsx(blob, name, columns, sheet)
    raise DataError(
        f"{name}: .jsonl, .json, .csv, .tsv, .parquet or .xlsx was expected", "Rename the file, or convert it."
    )


def stream(blob: Blob) -> IO[bytes]:
    """The blob's bytes as a stream; held whole only where the blob knows no better."""
    from io import BytesIO

    opener = getattr(blob, "open", None)
    return opener() if opener else BytesIO(blob.read())


def _chosen(found: Iterator[tuple[int, Row]], columns: Sequence[str] | None) -> Iterator[tuple[int, Row]]:
    if columns is None:
        return found
    return ((line, {column: row.get(column) for column in columns}) for line, row in found)


def _json_lines(blob: Blob, name: str) -> Iterator[tuple[int, Row]]:
    with stream(blob) as lines:
        number = 0
        while True:
            line = lines.readline(LINE_BYTES + 1)
            if not line:
                return
            number += 1
            if len(line) > LINE_BYTES:
                raise DataError(f"{name}, line {number:,}: longer than {LINE_BYTES:,} bytes", "Is it JSON lines?")
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            text = line.strip()
            if not text:
                continue
            try:
                row = _parsed(text)
            except (ValueError, RecursionError) as error:
                if line.endswith(b"\n"):
                    raise _bad_json(f"{name}, line {number:,}", error) from error
                raise DataError(
                    f"{name}, line {number:,}: the last line is cut off: {error}",
                    "The file was not written or fetched whole; fetch it again, or delete that line.",
                ) from error
            yield number, _object(row, f"{name}, line {number:,}")


def _json_list(blob: Blob, name: str) -> Iterator[tuple[int, Row]]:
    with stream(blob) as whole:
        data = whole.read(JSON_BYTES + 1)
    if len(data) > JSON_BYTES:
        raise DataError(f"{name}: larger than {JSON_BYTES:,} bytes", "Convert it to JSON lines, which are streamed.")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        found = _parsed(data)
    except (ValueError, RecursionError) as error:
        at = _POSITION.search(str(error))
        line = data.count(b"\n", 0, int(at[1])) + 1 if at else getattr(error, "lineno", 1)
        raise _bad_json(f"{name}, line {line:,}", error) from error
    if not isinstance(found, list):
        raise DataError(
            f"{name}: {_kind(found)} was found; a list of objects was expected", "Give the file that holds the rows."
        )
    for number, row in enumerate(found, 1):
        yield number, _object(row, f"{name}, row {number:,}")


def _parsed(data: bytes) -> Any:
    """msgspec, which is strict; NaN and Infinity, which are not JSON but which Python and pandas write, by the
    standard library.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if _NOT_NUMBERS.search(data):
            return json.loads(data)
        raise


def _bad_json(where: str, error: Exception) -> DataError:
    why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return DataError(f"{where}: {why}", "Mend the line, or fetch the file again.")


def _object(row: Any, where: str) -> Row:
    if isinstance(row, dict):
        return row
    raise DataError(f"{where}: {_kind(row)} was found; an object was expected", "Each row is an object of columns.")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _separated(blob: Blob, name: str, mark: str, columns: Sequence[str] | None) -> Iterator[tuple[int, Row]]:
    # Cells hold base64 pictures of 100 MB; the csv module's own limit, one for the whole process, is 128 kB.
    csv.field_size_limit(LINE_BYTES)
    with TextIOWrapper(stream(blob), encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=mark, strict=True)
        line = 1
        try:
            header = next(reader, None)
            if header is None:
                raise DataError(f"{name}: the file is empty; a line of column names was expected", "Fetch it again.")
            picked = pick(header, columns, name)
            width = len(header)
            line = reader.line_num + 1
            for cells in reader:
                if cells and len(cells) != width:
                    raise DataError(
                        f"{name}, line {line:,}: {len(cells):,} fields were found, {width:,} expected as in the header",
                        "A quote or separator is missing in this line or the one before it.",
                    )
                if cells:
                    yield line, {column: cells[at] for column, at in picked}
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{name}, line {line:,}: {error}", "A quote is missing or too many, or the file is cut off."
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, at or soon after line {line:,}: byte {error.object[error.start]:#04x} is not UTF-8",
                "Save the file as UTF-8.",
            ) from error


def pick(header: Sequence[Any], columns: Sequence[str] | None, name: str) -> list[tuple[str, int]]:
    """(column, position) of the wanted columns. Raises DataError for a missing column or one that is there twice."""
    names = [str(cell) for cell in header]
    twice = sorted({column for column in names if names.count(column) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"{name}: the column {twice[0]!r} is there twice", "Rename one of them.")
    missing = [column for column in columns or () if column not in names]
    if missing:
        shown = ", ".join(names[:30])
        raise DataError(f"{name}: no column {missing[0]!r}; it has {shown}", "Check that the right file was given.")
    return [(column, names.index(column)) for column in (names if columns is None else columns)]
