"""Parts of an .xlsx, scanned before anything is built from them: limits, and what a reader of values does not tell.

A sheet of a few bytes can claim a billion cells, skip a million rows, or contain expanding entities. The limits are
those of Excel's own format, and a bound on XML that no table of answers reaches. The same scan finds formulas without a
value, merged areas, and cells with a picture in them.

Pictures of a workbook's sheet by the cell they belong to: pasted over it (a drawing), or placed in it.

A drawing names the cell under a picture's upper left corner. A picture in a cell is a rich value (Excel), or the result of
`DISPIMG` (WPS Office). Only pictures that are members of the workbook are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import ZipFile

from msgspec import Struct, field

from snellen.errors import UnsafeArchiveError
from snellen.sources.tree import ArchiveLimits, check_unpacked

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


SHEET_LIMITS = ArchiveLimits(stream_bytes=1 << 31, total_bytes=1 << 32)
ROWS, COLUMNS = 1_048_576, 16_384
"""Maximum rows and columns of a sheet (Microsoft: Excel specifications and limits)."""
CELLS = 50_000_000
ELEMENTS = 200_000_000
DEPTH = 100
CHUNK = 1 << 16
FORMULA_CHARACTERS = 256 << 20
"""Maximum characters of all formulas, expanded: a shared one counts for each of its cells."""
NOTED = 1_000_000
"""Maximum cells that are kept for their formula or picture, and maximum merged areas, of a sheet."""
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


class Area(Struct, frozen=True, order=True):
    """A rectangle of cells; rows and columns from 1, the last ones included."""

    first_row: int
    first_column: int
    last_row: int
    last_column: int


class SheetScan(Struct):
    """What the scan of a sheet tells.

    Attributes:
        uncalculated: formulas without a value, by row and column from 1.
        zeros: formulas whose value is 0. In a workbook that asks to be calculated when it is opened they have no value: the
            program that wrote it calculates nothing.
        pictures: cells with a rich value, by row and column: its number in the workbook's metadata, from 1.
        merged: merged areas.
    """

    uncalculated: dict[tuple[int, int], str] = field(default_factory=dict)
    zeros: dict[tuple[int, int], str] = field(default_factory=dict)
    pictures: dict[tuple[int, int], int] = field(default_factory=dict)
    merged: list[Area] = field(default_factory=list)


def scan_parts(parts: ZipFile, name: str) -> dict[str, SheetScan]:
    """Check the members of an .xlsx against limits, since openpyxl reads some of them whole; return the scan of each sheet.

    Raises:
        UnsafeArchiveError: a part exceeds a workbook's limits; the message names the part and the limit.
    """
    total = 0
    for part in parts.infolist():
        total += part.file_size
        check_unpacked(
            Path(name), part.filename, part.file_size, part.compress_size, SHEET_LIMITS.stream_bytes, SHEET_LIMITS
        )
        check_unpacked(Path(name), part.filename, total, total, SHEET_LIMITS.total_bytes, SHEET_LIMITS)
    scans: dict[str, SheetScan] = {}
    not_calculated = False
    for part in parts.infolist():
        if part.filename.lower().endswith((".xml", ".rels")):
            reader = _Reader(f"{name}, {part.filename}")
            reader.read(parts, part.filename)
            if "/worksheets/" in part.filename:
                scans[part.filename] = reader.scan
            not_calculated |= reader.not_calculated
    if not_calculated:
        for scan in scans.values():
            scan.uncalculated |= scan.zeros
    return scans


class _Reader:
    """Counts of one XML part."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._depth = self._elements = self._cells = self._rows = 0
        self._formula_characters = 0
        self._shared: dict[str, int] = {}
        self._shared_id: str | None = None
        self._formula = False
        self._place: tuple[int, int] | None = None
        self._text_cell = self._has_formula = self._in_value = False
        self._value = ""
        self._formula_parts: list[str] = []
        self.scan = SheetScan()
        self.not_calculated = False

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
            self._text_cell, self._has_formula, self._value = attributes.get("t") == "str", False, ""
            place = attributes.get("r")
            self._place = None if place is None else self._checked_place(place)
            if (number := attributes.get("vm", "")).isdecimal() and len(number) < 9 and self._place is not None:
                self.scan.pictures[self._place] = int(number)
                self._require_few(len(self.scan.pictures), "cells with a picture")
        elif local == "v":
            self._in_value = True
        elif local == "calcPr":
            self.not_calculated = attributes.get("fullCalcOnLoad") in ("1", "true")
        elif local == "mergeCell":
            self._merge(attributes.get("ref", ""))
        elif local == "f":
            self._formula = self._has_formula = True
            self._formula_parts = []
            self._shared_id = attributes.get("si") if attributes.get("t") == "shared" else None
            if self._shared_id is not None:
                self._add_formula(self._shared.get(self._shared_id, 0))

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._formula = self._in_value = False
        if self._has_formula and tag.rpartition(":")[2] == "c":
            self._has_formula = False
            if self._place is not None and not self._text_cell and self._value in ("", "0"):
                noted = self.scan.zeros if self._value else self.scan.uncalculated
                noted[self._place] = f"={''.join(self._formula_parts)}"
                self._require_few(len(noted), "formulas without a value")

    def _text(self, text: str) -> None:
        if self._in_value:
            if len(self._value) < 2:
                self._value += text.strip()[:2]
        elif self._formula:
            self._formula_parts.append(text)
            if self._shared_id is not None:
                self._shared[self._shared_id] = self._shared.get(self._shared_id, 0) + len(text)
            self._add_formula(len(text))

    def _add_formula(self, characters: int) -> None:
        self._formula_characters += characters
        if self._formula_characters > FORMULA_CHARACTERS:
            raise self._refused("has longer formulas", f"{FORMULA_CHARACTERS:,} characters in all")

    def _checked_place(self, place: str) -> tuple[int, int]:
        match = _PLACE.fullmatch(place.upper().replace("$", ""))
        if match is None or int(match[2]) > ROWS or _column(match[1]) > COLUMNS:
            raise self._refused(f"has a cell at {place[:40]!r}", f"XFD{ROWS} at the end of a sheet")
        return int(match[2]), _column(match[1])

    def _merge(self, area: str) -> None:
        first, _, last = area.partition(":")
        (top, left), (bottom, right) = self._checked_place(first), self._checked_place(last or first)
        self.scan.merged.append(Area(min(top, bottom), min(left, right), max(top, bottom), max(left, right)))
        self._require_few(len(self.scan.merged), "merged areas")

    def _require_few(self, count: int, things: str) -> None:
        if count > NOTED:
            raise self._refused(f"has more {things}", f"{NOTED:,}")

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


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell, such as B12, from its row and column from 1."""
    return f"{column_letters(column)}{row}"


def column_letters(column: int) -> str:
    """Return the letters of a column, from its number from 1."""
    letters = ""
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


T = TypeVar("T")
PART_BYTES = 64 << 20
"""Maximum bytes of an XML part that is read whole."""
Place: TypeAlias = tuple[int, int]
"""Row and column, from 1."""
_DISPIMG = re.compile(r'=?(?:_xlfn\.)?DISPIMG\("([^"]{1,200})"', re.IGNORECASE)


class SheetPictures(Struct):
    """Pictures of a sheet: the members of the workbook that hold them.

    Attributes:
        members: by row and column, in the order of the drawing.
        by_name: pictures that a cell names with `DISPIMG`.
        refused: pictures without a cell or a file of their own: linked ones, and those that lie on no cell.
    """

    members: dict[Place, list[str]] = field(default_factory=dict)
    by_name: dict[str, str] = field(default_factory=dict)
    refused: int = 0

    def named_in(self, value: object) -> str:
        """Return the picture that a cell's value names; empty without one."""
        match = _DISPIMG.match(value) if isinstance(value, str) and self.by_name else None
        return self.by_name.get(match[1], "") if match else ""


def sheet_pictures(parts: ZipFile, sheet: str, rich_cells: Mapping[Place, int], name: str) -> SheetPictures:
    """Return the pictures of a sheet.

    Args:
        parts: the workbook, whose XML was scanned.
        sheet: the sheet's part.
        rich_cells: number of the metadata of each cell with a rich value, from 1.
    """
    found = SheetPictures()
    workbook = _Parts(parts, name)
    for kind, target in workbook.relations(sheet).values():
        if kind == "drawing":
            _add_drawn(found, workbook, target)
    if rich_cells:
        rich = _rich_pictures(workbook)
        for place, number in rich_cells.items():
            if 0 < number <= len(rich) and rich[number - 1]:
                found.members.setdefault(place, []).append(rich[number - 1])
    root = workbook.root("xl/cellimages.xml")
    if root is not None:
        targets = workbook.relations("xl/cellimages.xml")
        for picture in _descendants(root, "pic"):
            named = next((element.get("name", "") for element in _descendants(picture, "cNvPr")), "")
            if (member := _embedded(picture, targets)) and named:
                found.by_name[named] = member
    return found


class _Parts:
    """XML parts of a workbook and what they refer to."""

    def __init__(self, parts: ZipFile, name: str) -> None:
        self._parts, self._name = parts, name
        self._names = set(parts.namelist())

    def root(self, part: str) -> Element | None:
        """Return the root of a part; None if the workbook lacks it."""
        if part not in self._names:
            return None
        if (size := self._parts.getinfo(part).file_size) > PART_BYTES:
            raise UnsafeArchiveError(
                f"{self._name}, {part}: has {size:,} bytes; at most {PART_BYTES:,} are read",
                "If you trust the file, save the table as .csv, and its pictures as files.",
            )
        return ElementTree.fromstring(self._parts.read(part))  # noqa: S314 - the scan has refused document types

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return id to kind and member for what a part refers to inside of the workbook."""
        folder, _, base = part.rpartition("/")
        root = self.root(f"{folder}/_rels/{base}.rels")
        found = {}
        for relation in root if root is not None else ():
            target = relation.get("Target", "")
            member = target.lstrip("/") if target.startswith("/") else normpath(join(dirname(part), target))
            if relation.get("TargetMode") != "External" and member in self._names:
                found[relation.get("Id", "")] = (relation.get("Type", "").rpartition("/")[2], member)
        return found


def _add_drawn(found: SheetPictures, workbook: _Parts, drawing: str) -> None:
    root, targets = workbook.root(drawing), workbook.relations(drawing)
    for anchor in _descendants(root, "oneCellAnchor", "twoCellAnchor", "absoluteAnchor") if root is not None else ():
        corner = next((child for child in anchor if _local(child) == "from"), None)
        place = None if corner is None else _cell(corner)
        for picture in _descendants(anchor, "pic"):
            member = _embedded(picture, targets)
            if place is None or not member:
                found.refused += 1
            else:
                found.members.setdefault(place, []).append(member)


def _cell(corner: Element) -> Place | None:
    texts = {_local(child): (child.text or "").strip() for child in corner}
    numbers = [texts.get("row", ""), texts.get("col", "")]
    if not all(text.isascii() and text.isdecimal() and len(text) < 8 for text in numbers):
        return None
    row, column = (int(text) + 1 for text in numbers)
    return (row, column) if row <= ROWS and column <= COLUMNS else None


def _embedded(picture: Element, targets: Mapping[str, tuple[str, str]]) -> str:
    """Return the member that holds a picture; empty for one that is linked."""
    for blip in _descendants(picture, "blip"):
        for attribute, value in blip.attrib.items():
            if attribute.rpartition("}")[2] == "embed":
                return targets.get(value, ("", ""))[1]
    return ""


def _rich_pictures(workbook: _Parts) -> list[str]:
    """Return for each number of value metadata the member of its picture; empty for a rich value of another kind."""
    metadata, values = workbook.root("xl/metadata.xml"), workbook.root("xl/richData/rdrichvalue.xml")
    structures = workbook.root("xl/richData/rdrichvaluestructure.xml")
    references = workbook.root("xl/richData/richValueRel.xml")
    if metadata is None or values is None or structures is None or references is None:
        return []
    keys = [[key.get("n", "") for key in _descendants(structure, "k")] for structure in _descendants(structures, "s")]
    targets = workbook.relations("xl/richData/richValueRel.xml")
    members = []
    for reference in _descendants(references, "rel"):
        identifier = next((value for name, value in reference.attrib.items() if name.endswith("}id")), "")
        members.append(targets.get(identifier, ("", ""))[1])
    pictures = []
    for value in _descendants(values, "rv"):
        names = _item(keys, value.get("s", "")) or []
        cells = dict(zip(names, ((cell.text or "") for cell in _descendants(value, "v")), strict=False))
        pictures.append(_item(members, cells.get("_rvRel:LocalImageIdentifier", "")) or "")
    by_block = [block.get("i", "") for block in _descendants(metadata, "rvb")]
    cells_metadata = next(_descendants(metadata, "valueMetadata"), None)
    records = [] if cells_metadata is None else list(_descendants(cells_metadata, "rc"))
    return [_item(pictures, _item(by_block, record.get("v", "")) or "") or "" for record in records]


def _item(items: Sequence[T], number: str) -> T | None:
    return items[int(number)] if number.isdecimal() and len(number) < 9 and int(number) < len(items) else None


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _descendants(element: Element, *names: str) -> Iterator[Element]:
    """Yield the elements of these names, the outermost ones; what stands for older programs (`Fallback`) is skipped."""
    for child in element:
        local = _local(child)
        if local in names:
            yield child
        elif local != "Fallback":
            yield from _descendants(child, *names)
