"""Limits of an .xlsx: its XML is scanned once before openpyxl builds anything from it.

A sheet of a few bytes can claim a billion cells, skip a million rows, or contain expanding entities. The limits are
those of Excel's own format, and a bound on XML that no table of answers reaches.
"""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat
from zipfile import ZipFile

from snellen.errors import UnsafeArchiveError

ROWS, COLUMNS = 1_048_576, 16_384
"""Maximum rows and columns of a sheet (Microsoft: Excel specifications and limits)."""
CELLS = 50_000_000
ELEMENTS = 200_000_000
DEPTH = 100
CHUNK = 1 << 16
FORMULA_CHARACTERS = 256 << 20
"""Maximum characters of all formulas, expanded: a shared one counts for each of its cells."""
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


def check_sheets(parts: ZipFile, name: str) -> None:
    """Scan every XML part of an .xlsx, in bounded memory.

    Raises:
        UnsafeArchiveError: a part exceeds a workbook's limits; the message names the part and the limit.
    """
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
