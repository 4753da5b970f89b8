"""Pictures of a workbook's sheet by the cell they belong to: pasted over it (a drawing), or placed in it.

A drawing names the cell under a picture's upper left corner. A picture in a cell is a rich value (Excel), or the result of
`DISPIMG` (WPS Office). Only pictures that are members of the workbook are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from xml.etree import ElementTree
from zipfile import ZipFile

from msgspec import Struct, field

from snellen.errors import UnsafeArchiveError
from snellen.sources.xlsx_parts import COLUMNS, ROWS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

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
        name: the file, for messages.
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
