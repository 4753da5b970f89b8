"""The table in a workbook's sheet: cells as the sheet shows them, its merged areas, and its pictures.

The table begins at its header: the first row that is no title, which fills one or two cells and fewer than half as many as the
fullest of the first rows. Formulas are never evaluated; the value that the workbook keeps is read.
openpyxl reads the cells, after `xlsx_parts` has checked the file.
"""

from __future__ import annotations

import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias
from zipfile import ZipFile

from msgspec import Struct

from snellen.errors import DataError, UnsafeArchiveError
from snellen.sources.blobs import BytesBlob, FileBlob
from snellen.sources.encodings import RowsAndErrors, pick
from snellen.sources.number_formats import CellFault, shown
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import check_unpacked
from snellen.sources.xlsx_parts import (
    SHEET_LIMITS,
    Area,
    Place,
    SheetPictures,
    SheetScan,
    cell_name,
    column_letters,
    scan_parts,
    sheet_pictures,
)
from snellen.sources.zip_archive import ZipTree
from snellen.types import Blob

HEADER_ROWS = 10
"""Rows among which the header is looked for."""
TITLE_CELLS = 2
"""Maximum filled cells of a row that is taken for a title."""
HEAD = 200
"""Rows that decide which column holds the pictures, and which columns without a name hold something."""
KEPT_SHEETS = 4
MERGED_CELLS = 5_000_000
"""Maximum columns of all merged areas together, and rows of those with a picture."""
PICTURE_BYTES = 1 << 27
PICTURES = "picture"
"""The column of pictures that lie over cells with a content, or in a column without a name."""
Line: TypeAlias = tuple[int, list[Any]]
_kept: OrderedDict[tuple[Any, ...], Sheet] = OrderedDict()
_lock = Lock()


class Sheet(Struct):
    """The table of a sheet, opened and not yet read.

    Attributes:
        name: the sheet.
        others: the other sheets that can be named.
        header: names of its columns.
        columns: the position of each column, from 1; of the column of pictures alone 0.
        first_row: the row of the header, from 1.
        notes: what a reader must know about where the table was found, in words.
        pictures: members of the workbook by row.
        picture_column: the column whose cells are the pictures; empty without any.
        scan: what the scan of the sheet tells.
        found_pictures: the pictures by cell, and those that cells name.
    """

    name: str
    others: tuple[str, ...]
    header: tuple[str, ...]
    columns: tuple[int, ...]
    first_row: int
    notes: tuple[str, ...]
    pictures: dict[int, list[str]]
    picture_column: str
    scan: SheetScan
    found_pictures: SheetPictures


def open_sheet(blob: Blob, name: str, sheet: str | None = None) -> Sheet:
    """Find the table of a workbook; of a file it is kept while the file stays as it is.

    Args:
        sheet: the sheet; None: the first visible one with a header.

    Raises:
        DataError: no sheet has a header, there is no such sheet, or the file is damaged or beyond a workbook's limits.
    """
    if not isinstance(blob, FileBlob):
        return _open_sheet(blob.read(), name, sheet)
    status = regular_file(blob.path)
    key = (str(blob.path), status.st_mtime_ns, status.st_size, status.st_ino, sheet)
    with _lock:
        if key not in _kept:
            _kept[key] = _open_sheet(blob.path, name, sheet)
            while len(_kept) > KEPT_SHEETS:
                _kept.popitem(last=False)
        return _kept[key]


def sheet_rows(blob: Blob, name: str, sheet: Sheet) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number, row) of an opened sheet; empty rows are skipped.

    A cell without a value is a CellFault; a cell of pictures is a tuple of blobs.
    """
    source = blob.path if isinstance(blob, FileBlob) else blob.read()
    images = _Images(source, name) if sheet.pictures or sheet.found_pictures.by_name else None
    row = sheet.first_row
    with _readable(name, lambda: row), _book(source, name) as book:
        page = book[sheet.name]
        page.reset_dimensions()  # what a sheet says of its own size may be anything
        places = [(column, at - 1) for column, at in zip(sheet.header, sheet.columns, strict=True) if at]
        lines = _lines(page, sheet.scan, sheet.found_pictures, sheet.first_row + 1, max(1, *sheet.columns))
        for row, cells in _filled(lines, sheet, name):
            members = sheet.pictures.get(row, ())
            if not members and all(cells[at] is None for _, at in places if at < len(cells)):
                continue
            values = {column: cells[at] if at < len(cells) else None for column, at in places}
            if images is not None:
                for column, value in values.items():
                    if member := sheet.found_pictures.named_in(value):
                        values[column] = (images.blob(member),)
                if sheet.picture_column and (members or sheet.picture_column not in values):
                    values[sheet.picture_column] = tuple(map(images.blob, members)) or None
            yield row, values


def rows(blob: Blob, name: str, columns: Sequence[str] | None, sheet: str | None) -> RowsAndErrors:
    """Yield (row number, row) of a sheet, whose cells without a value are what the file has in their place.

    A reply that begins with `=`, or reads `#N/A`, is not lost: programs write such texts as formulas and error values.
    """
    opened = open_sheet(blob, name, sheet)
    picked = pick(opened.header, columns, name)
    for row, cells in sheet_rows(blob, name, opened):
        yield row, {column: _as_text(cells.get(column)) for column, _ in picked}


def _as_text(cell: Any) -> Any:
    return cell.text if isinstance(cell, CellFault) else cell


@contextmanager
def _readable(name: str, row: Callable[[], int]) -> Iterator[None]:
    """Turn what openpyxl's XML and zip readers stumble over into a DataError that names the file and the last row read."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{name}, after row {row():,}: cannot be read as .xlsx: {error}", "The file is damaged; save it again."
        ) from error


@contextmanager
def _book(source: Path | bytes, name: str) -> Iterator[Any]:
    """Open a workbook, whose parts were checked before."""
    import openpyxl  # lazy: most tables are none

    warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")  # of styles that are not read
    place = BytesIO(source) if isinstance(source, bytes) else source
    book = openpyxl.load_workbook(place, read_only=True, data_only=True, keep_links=False)
    try:
        yield book
    finally:
        book.close()


def _open_sheet(source: Path | bytes, name: str, sheet: str | None) -> Sheet:
    with _readable(name, lambda: 0), ZipFile(BytesIO(source) if isinstance(source, bytes) else source) as parts:
        scans = scan_parts(parts, name)
        with _book(source, name) as book:
            pages = {page.title: page for page in book.worksheets}
            if sheet is not None and sheet not in pages:
                raise DataError(f"{name}: no sheet {sheet!r}; the sheets are {', '.join(pages)}", "Choose one of them.")
            visible = [page for page in pages.values() if page.sheet_state == "visible"]
            tables = []
            for page in [pages[sheet]] if sheet is not None else visible or pages.values():
                scan = scans.get(page._worksheet_path, SheetScan())
                page.reset_dimensions()
                pictures = sheet_pictures(parts, page._worksheet_path, scan.pictures, name)
                head = list(islice(_lines(page, scan, pictures, 1), HEAD))
                if (table := _table(page.title, head, scan, pictures, name)) is not None:
                    tables.append(table)
                    if len(table.header) > 1:
                        break
    if not tables:
        others = f" The sheets are {', '.join(pages)}." if len(pages) > 1 else ""
        raise DataError(
            f"{name}: the sheet is empty; a row of column names was expected", f"Choose another sheet.{others}"
        )
    chosen = tables[-1] if len(tables[-1].header) > 1 else tables[0]
    chosen.others = tuple(title for title in pages if title != chosen.name)
    if sheet is None and chosen.name != next(iter(pages)):
        chosen.notes = (f"the table is sheet `{chosen.name}`", *chosen.notes)
    return chosen


def _table(title: str, head: Sequence[Line], scan: SheetScan, pictures: SheetPictures, name: str) -> Sheet | None:
    """Return the table that a sheet's first rows begin; None if they are empty."""
    counts = [(line, sum(cell is not None for cell in line[1])) for line in head]
    first = [(line, count) for line, count in counts if count][:HEADER_ROWS]
    if not first:
        return None
    width = max(count for _, count in first)
    least = max(min(2, width), (width + 1) // 2)
    (header_row, names), _ = next(entry for entry in first if entry[1] >= least or entry[1] > TITLE_CELLS)
    below = [line for line in head if line[0] > header_row]
    header, columns = _header(names, below)
    notes = [f"the header is row {header_row} of the sheet"] if header_row != first[0][0][0] else []
    by_row, column, unused = _pictures_by_row(pictures.members, header_row, scan.merged, name)
    picture_column = ""
    if by_row:
        occupied = any(row in by_row and column <= len(cells) and cells[column - 1] is not None for row, cells in below)
        named = dict(zip(columns, header, strict=True)).get(column, "")
        picture_column = named if named and not occupied else PICTURES
        if occupied and PICTURES in header:
            picture_column = f"{PICTURES} (pasted)"
        if picture_column not in header:
            header, columns = (*header, picture_column), (*columns, 0)
    for count, why in ((unused, "above the header"), (pictures.refused, "linked to a file elsewhere, or on no cell")):
        if count:
            notes.append(
                f"{count:,} picture{'s' if count > 1 else ''} of the sheet {'are' if count > 1 else 'is'} {why}, "
                "and not used"
            )
    return Sheet(title, (), header, columns, header_row, tuple(notes), by_row, picture_column, scan, pictures)


def _header(names: Sequence[Any], below: Sequence[Line]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names of columns and their positions, up to the last that has a name.

    One without a name is named by its letters if its first rows hold anything.
    """
    texts = ["" if name is None else str(_as_text(name)).strip() for name in names]
    while texts and not texts[-1]:
        texts.pop()
    found = {}
    for at, text in enumerate(texts):
        if text:
            found[at + 1] = text
        elif any(at < len(cells) and cells[at] is not None for _, cells in below):
            found[at + 1] = f"column {column_letters(at + 1)}"
    return tuple(found.values()), tuple(found)


def _pictures_by_row(
    members: Mapping[Place, Sequence[str]], header_row: int, merged: Sequence[Area], name: str
) -> tuple[dict[int, list[str]], int, int]:
    """Return the pictures of each row in the order of columns, the column that most lie in, and how many lie above."""
    areas = {(area.first_row, area.first_column): area for area in merged} if members else {}
    by_row: dict[int, list[str]] = {}
    columns: Counter[int] = Counter()
    unused = spread = 0
    for (row, column), own in sorted(members.items()):
        if row <= header_row:
            unused += len(own)
            continue
        columns[column] += 1
        last = areas[row, column].last_row if (row, column) in areas else row
        spread += last - row
        _require_small(spread, name)
        for covered in range(row, last + 1):
            by_row.setdefault(covered, []).extend(own)
    most = min(columns, key=lambda column: (-columns[column], column), default=0)
    return by_row, most, unused


def _lines(
    page: Any, scan: SheetScan, pictures: SheetPictures, first: int, last_column: int | None = None
) -> Iterator[Line]:
    """Yield the rows of a sheet with the values of their cells, merged areas as the file has them."""
    formulas = scan.uncalculated
    for row, cells in enumerate(page.iter_rows(min_row=first, max_col=last_column), first):
        values = []
        for column, cell in enumerate(cells, 1):
            value = cell.value
            if formulas and (row, column) in formulas and not value:
                at, text = cell_name(row, column), formulas[row, column]
                why = f"holds the formula {text[:60]} without its value; open the workbook in Excel and save it"
                value = CellFault(text, f"cell {at} {why}")
            elif value is not None and not isinstance(value, str):
                value = shown(value, cell.number_format)
            elif value is not None and cell.data_type == "e":
                at = cell_name(row, column)
                value = (
                    None
                    if (row, column) in pictures.members
                    else CellFault(value, f"cell {at} holds the error value {value}")
                )
            values.append(value)
        yield row, values


def _filled(lines: Iterator[Line], sheet: Sheet, name: str) -> Iterator[Line]:
    """Yield rows in which the value of a merged area stands in all of its cells.

    An area over every column is a heading, whose text is no answer; it stays in its first cell.
    """
    named = [column for column in sheet.columns if column]
    areas = [
        area
        for area in sorted(sheet.scan.merged)
        if area.first_row > sheet.first_row
        and not (len(named) > 1 and area.first_column <= min(named) and area.last_column >= max(named))
    ]
    if not areas:
        yield from lines
        return
    spread = at = 0
    values: dict[int, tuple[int, Any]] = {}
    for row, cells in lines:
        while at < len(areas) and areas[at].first_row <= row:
            area, at = areas[at], at + 1
            last = min(area.last_column, len(cells))
            spread += max(0, last - area.first_column)
            _require_small(spread, name)
            for column in range(area.first_column, last + 1):
                values[column] = (area.last_row, cells[area.first_column - 1])
        for column, (last_row, value) in list(values.items()):
            if row > last_row:
                del values[column]
            elif cells[column - 1] is None:
                cells[column - 1] = value
        yield row, cells


def _require_small(spread: int, name: str) -> None:
    if spread > MERGED_CELLS:
        raise UnsafeArchiveError(
            f"{name}: its merged areas have more cells than a table of answers; at most {MERGED_CELLS:,} are read",
            "If you trust the file, save the table as .csv or .jsonl.",
        )


class _Images:
    """Pictures of a workbook as blobs: of a file its members, of one in an archive their bytes."""

    def __init__(self, source: Path | bytes, name: str) -> None:
        self._source, self._name = source, name
        self._tree = ZipTree(source, leave_out=True) if isinstance(source, Path) else None
        self._blobs: dict[str, Blob] = {}

    def blob(self, member: str) -> Blob:
        """Return a picture. Raises DataError for one that is too large to be an image."""
        if member not in self._blobs:
            self._blobs[member] = self._tree.blob(member) if self._tree is not None else self._read(member)
        return self._blobs[member]

    def _read(self, member: str) -> Blob:
        with ZipFile(BytesIO(self._source) if isinstance(self._source, bytes) else self._source) as parts:
            info = parts.getinfo(member)
            check_unpacked(Path(self._name), member, info.file_size, info.compress_size, PICTURE_BYTES, SHEET_LIMITS)
            return BytesBlob(f"{self._name}!{member}", parts.read(member))
