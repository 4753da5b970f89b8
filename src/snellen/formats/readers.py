"""Rows of answer files: a damaged row is skipped and reported; and tables written as .xlsx.

Data sets are read by `snellen.sources`, which refuses a damaged row, since a question would be missing. Answers are
different: their run is over, and the rest is still worth scoring.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.sources.rows import numbered
from snellen.sources.safe_paths import regular_file
from snellen.text import json_with_constants

LINE_BYTES = 64 << 20
CELL_CHARACTERS = 64 << 20
JSON_LINES = (".jsonl", ".ndjson")
SEPARATED = {".csv": ",", ".tsv": "\t"}


def raw_lines(path: Path, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of every non-empty line; a line of more than 64 MB is a problem and skipped."""
    _refuse_utf16(path)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES + 1):
            number += 1
            if len(line) > LINE_BYTES and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = file.readline(LINE_BYTES)
                problems.add(f"line {number}", f"longer than {LINE_BYTES:,} bytes")
                continue
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if line.strip():
                yield number, line


def _refuse_utf16(path: Path) -> None:
    """Raise DataError for a text in UTF-16, as Excel saves "Unicode Text", or for what is no file."""
    regular_file(path)
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise DataError(f"{path}: the text is UTF-16; UTF-8 was expected", "Save the file as UTF-8.")


def json_rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSONL file; a line that is no object is a problem."""
    for number, line in raw_lines(path, problems):
        try:
            row = json_with_constants(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problems.add(f"line {number}", f"not JSON: {error}")
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            problems.add(f"line {number}", "not a JSON object")


def separated_rows(path: Path, mark: str, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) of a CSV or TSV file; an empty cell is None, a row of another width is a problem."""
    _refuse_utf16(path)
    csv.field_size_limit(max(csv.field_size_limit(), CELL_CHARACTERS))
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        reader = csv.reader(text, delimiter=mark)
        line = 1
        try:
            header = next(reader, None)
            if not header:
                raise DataError(f"{path}: the file is empty; a line of column names was expected", "Pass another file.")
            line = reader.line_num + 1
            for cells in reader:
                if cells and len(cells) != len(header):
                    problems.add(f"line {line}", f"{len(cells)} fields; the header has {len(header)}")
                elif cells:
                    yield line, {name: cell or None for name, cell in zip(header, cells, strict=True)}
                line = reader.line_num + 1
        except csv.Error as error:
            problems.add(f"line {line}", f"{error}; the rest of the file was not read")


def separator(path: Path) -> str:
    """Return the separator of cells: by the file's suffix; tabs in a .csv whose header has tabs and no comma.

    VLMEvalKit writes such files.
    """
    mark = SEPARATED[path.suffix.lower()]
    regular_file(path)
    with path.open("rb") as file:
        header = file.readline(LINE_BYTES)
    return "\t" if mark == "," and b"\t" in header and b"," not in header else mark


def table_rows(
    path: Path, problems: Problems, columns: list[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, row) of a .jsonl, .csv, .tsv, .json, .parquet or .xlsx file; from parquet, only `columns` are read.

    Raises:
        DataError: the whole file is unreadable, or of another kind.
    """
    suffix = path.suffix.lower()
    if suffix in JSON_LINES:
        return ((f"line {number}", row) for number, row in json_rows(path, problems))
    if suffix in SEPARATED:
        return ((f"line {number}", row) for number, row in separated_rows(path, separator(path), problems))
    wanted = columns if suffix == ".parquet" else None
    return ((f"row {number}", row) for number, row in numbered(path, columns=wanted))


PEEKED = 20


def first_columns(path: Path, suffixes: tuple[str, ...]) -> set[str]:
    """Return the columns of a table's first rows; none where it is no file with one of these suffixes."""
    if not path.is_file() or path.suffix.lower() not in suffixes:
        return set()
    return {column for _, row in itertools.islice(table_rows(path, Problems()), PEEKED) for column in row}


CELL = 32_767
"""Maximum characters of a cell in Excel."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class Lost(Struct):
    """Losses of a sheet: cells that were cut, and cells with characters that no sheet may contain."""

    cut: int = 0
    stripped: int = 0


def write_workbook(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Lost:
    """Write rows under the names of their columns; a missing value leaves its cell empty.

    Texts stay texts: a reply that begins with `=`, `+`, `-` or `@` does not become a formula when the file is opened.
    Texts longer than 32,767 characters are cut, as VLMEvalKit cuts them.

    """
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    lost = Lost()
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = _CONTROL.sub("", value)
        lost.stripped += text != value
        lost.cut += len(text) > CELL
        made = WriteOnlyCell(sheet, value=text[:CELL])
        # Set behind the value, by which openpyxl guesses a formula or an error.
        made.data_type = "s"
        return made

    sheet.append([cell(name) for name in columns])
    for row in rows:
        sheet.append([cell(row.get(name)) for name in columns])
    book.save(path)
    return lost
