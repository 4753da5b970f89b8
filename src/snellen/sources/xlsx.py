"""Rows of an .xlsx by openpyxl, whose XML is scanned once before anything is built from it.

A sheet of a few bytes can claim a billion cells, skip a million rows, or contain expanding entities. The limits are
those of Excel's own format, and a bound on XML that no table of answers reaches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.parsers import expat
from zipfile import ZipFile

from snellen.errors import DataError, UnsafeArchiveError
from snellen.sources.archive import ArchiveLimits, check_unpacked
from snellen.sources.rows import RowsAndErrors, pick
from snellen.types import Blob

SHEET_LIMITS = ArchiveLimits(stream_bytes=1 << 31, total_bytes=1 << 32)
ROWS, COLUMNS = 1_048_576, 16_384
"""Maximum rows and columns of a sheet (Microsoft: Excel specifications and limits)."""
CELLS = 50_000_000
ELEMENTS = 200_000_000
DEPTH = 100
CHUNK = 1 << 16
FORMULA_CHARACTERS = 256 << 20
"""Maximum characters of all formulas, expanded: a shared one counts for each of its cells."""
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


def rows(blob: Blob, name: str, columns: Sequence[str] | None, sheet: str | None) -> RowsAndErrors:
    """Yield (row number, row) of one sheet whose first row holds the column names; empty rows are skipped.

    A formula is returned as its text: nothing is evaluated, and a reply that begins with `=` is not lost.
    """
    import openpyxl

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
    """Check the members of an .xlsx against limits, since openpyxl reads some of them whole; scan every XML part.

    Raises:
        UnsafeArchiveError: a part exceeds a workbook's limits; the message names the part and the limit.
    """
    with ZipFile(BytesIO(data)) as parts:
        total = 0
        for part in parts.infolist():
            total += part.file_size
            check_unpacked(
                Path(name), part.filename, part.file_size, part.compress_size, SHEET_LIMITS.stream_bytes, SHEET_LIMITS
            )
            check_unpacked(Path(name), part.filename, total, total, SHEET_LIMITS.total_bytes, SHEET_LIMITS)
        for part in parts.infolist():
            if part.filename.lower().endswith((".xml", ".rels")):
                _Reader(f"{name}, {part.filename}").read(parts, part.filename)


class _Reader:
    """Counts of one XML part."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._depth = self._elements = self._cells = self._rows = 0
        self._formula_characters = 0
        self._shared: dict[str, int] = {}
        self._shared_id: str | None = None
        self._formula = False

    def read(self, parts: ZipFile, member: str) -> None:
        parser: Any = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        with parts.open(member) as stream:
            while chunk := stream.read(CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)

    def _doctype(self, *declared: object) -> None:
        raise self._refused("has a document type, which can expand without bounds", "none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > DEPTH:
            raise self._refused("is nested deeper", f"{DEPTH} levels")
        if self._elements > ELEMENTS:
            raise self._refused("has more XML elements", f"{ELEMENTS:,}")
        local = tag.rpartition(":")[2]
        if local == "row":
            self._rows += 1
            if self._rows > ROWS or not _is_row(attributes.get("r")):
                raise self._refused("has more rows", f"{ROWS:,}")
        elif local == "c":
            self._cells += 1
            if self._cells > CELLS:
                raise self._refused("has more cells", f"{CELLS:,}")
            if (place := attributes.get("r")) is not None:
                self._check_place(place)
        elif local == "f":
            self._formula = True
            self._shared_id = attributes.get("si") if attributes.get("t") == "shared" else None
            if self._shared_id is not None:
                self._add_formula(self._shared.get(self._shared_id, 0))

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._formula = False

    def _text(self, text: str) -> None:
        if self._formula:
            if self._shared_id is not None:
                self._shared[self._shared_id] = self._shared.get(self._shared_id, 0) + len(text)
            self._add_formula(len(text))

    def _add_formula(self, characters: int) -> None:
        self._formula_characters += characters
        if self._formula_characters > FORMULA_CHARACTERS:
            raise self._refused("has longer formulas", f"{FORMULA_CHARACTERS:,} characters in all")

    def _check_place(self, place: str) -> None:
        match = _PLACE.fullmatch(place.upper().replace("$", ""))
        if match is None or int(match[2]) > ROWS or _column(match[1]) > COLUMNS:
            raise self._refused(f"has a cell at {place[:40]!r}", f"XFD{ROWS} at the end of a sheet")

    def _refused(self, problem: str, limit: str) -> UnsafeArchiveError:
        return UnsafeArchiveError(
            f"{self._where}: {problem}; at most {limit} is read",
            "If you trust the file, save the table as .csv or .jsonl.",
        )


def _is_row(number: str | None) -> bool:
    return number is None or (number.isascii() and number.isdecimal() and len(number) <= 7 and int(number) <= ROWS)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
