"""VLMEvalKit's tables of questions (TSV), read in place: gigabytes of pictures in base64, of which none is held.

Columns: `index`; `image`, the base64 of one picture or a list of several, written as JSON or as Python writes it; and
whatever else a benchmark has. A cell of `image` of at most 64 characters is no picture but another row's index, and
stands for that row's pictures.

A file is gone through a row at a time; what is kept of a row is its other columns and where it lies. A picture is read
again from there when it is asked for.

Source: VLMEvalKit's base class of image data sets, as its tables and code have it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.blobs import Base64Blob, Unreadable
from snellen.sources.rows import CELL_CHARACTERS, pick
from snellen.sources.safe_paths import regular_file
from snellen.types import Blob

LONGEST_REFERENCE = 64
ROW_BYTES = 1 << 27
PATH_PARTS = 8
_BOM = b"\xef\xbb\xbf"
_MEND = "A quote or separator is missing or too many, or the file is cut off; fetch it again."
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Possessive: a text of megabytes is gone through once, and nothing is kept for going back.
_QUOTED = r"""'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+\""""
_LIST = re.compile(rf"\s*\[\s*(?:(?:{_QUOTED})\s*(?:,\s*(?:{_QUOTED})\s*)*)?,?\s*\]\s*", re.DOTALL)
_ELEMENT = re.compile(_QUOTED, re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Place(Struct, frozen=True):
    """Where a row lies in the file: byte offset, bytes, and the line that it begins in, from 1."""

    offset: int
    length: int
    line: int


class KitRow(Struct, frozen=True):
    """One row as it is kept.

    Attributes:
        place: where it lies.
        cells: its columns but `image`; for a row that cannot be read, why.
        pictures: how many pictures its `image` holds; 0 where the cell holds none that can be told apart.
        reference: the index of the row whose pictures it shows, empty where it has its own.
        filled: whether there is anything in `image` at all.
    """

    place: Place
    cells: Mapping[str, str] | DataError
    pictures: int = 0
    reference: str = ""
    filled: bool = False


class KitTable(Struct, frozen=True):
    """A table that is about to be gone through.

    Attributes:
        path: the file.
        header: its columns, in order.
        rows: every row once, in the order of the file; see `opened`.
    """

    path: Path
    header: tuple[str, ...]
    rows: Iterator[KitRow]


def opened(path: Path, needed: Sequence[str], either: Sequence[str] = ("image",)) -> KitTable:
    """The table at `path`, its header read and found to have what is needed.

    A row of another width than the header, or one that cannot be read, is handed out as the reason. As soon as it is
    not known any more what is inside of quotes, the rest of the file is one error, which is the last that comes.

    Args:
        needed: columns that must be there.
        either: columns of which one must be there.

    Raises:
        DataError: it cannot be opened, is empty, or lacks a column.
    """
    regular_file(path)
    records = _of_file(path)
    _, header = next(records, (None, None))
    if header is None:
        raise DataError(f"{path}: the file is empty; a line of column names was expected", "Fetch it again.")
    if isinstance(header, DataError):
        raise header
    pick(header, needed, str(path))
    if not any(column in header for column in either):
        pick(header, either[-1:], str(path))
    return KitTable(path, tuple(header), (_kept(place, cells, header, path) for place, cells in records))


def _of_file(path: Path) -> Iterator[tuple[Place, list[str] | DataError]]:
    with path.open("rb", buffering=1 << 20) as file:
        yield from _records(file, path)


def _kept(place: Place, cells: list[str] | DataError, header: list[str], path: Path) -> KitRow:
    if isinstance(cells, DataError):
        return KitRow(place, cells)
    if len(cells) != len(header):
        return KitRow(
            place,
            DataError(
                f"{path}, line {place.line:,}: {len(cells):,} fields were found, {len(header):,} expected as in the "
                "header",
                _MEND,
            ),
        )
    columns = dict(zip(header, cells, strict=True))
    image = columns.pop("image", "")
    if not image:
        return KitRow(place, columns)
    if len(image) <= LONGEST_REFERENCE and not image.startswith("["):
        return KitRow(place, columns, reference=image, filled=True)
    return KitRow(place, columns, pictures=len(listed(image)), filled=True)


def owner(row: KitRow, by_index: Mapping[str, KitRow]) -> KitRow | None:
    """The row that has a row's pictures; None where there is none such, or it has none of its own."""
    if not row.reference:
        return row
    target = by_index.get(row.reference)
    return None if target is None or target.reference else target


def no_owner(row: KitRow, at: str) -> Unreadable:
    """What stands for the pictures of a row that refers to none; `at` is its file and line."""
    message = f"{at}: image {row.reference!r} is neither a picture in base64 nor another row's index"
    return Unreadable(at, message, "The column is cut off, or holds something else.")


def pictures(path: Path, header: Sequence[str], row: KitRow) -> list[Blob]:
    """The pictures that a row itself has, to be read when needed."""
    column = header.index("image")
    return [KitPicture(path, row.place, column, number) for number in range(row.pictures)]


def by_end_of_path(name: str, at: str, find: Callable[[str, str], Blob], least: int = 1) -> Blob:
    """A picture that the kit put into a file, on whatever machine that was: the longest end of its path that is there.

    Args:
        name: the path as the row gives it.
        at: file and line, for messages.
        find: looks for a path (given it and `at`); Unreadable where nothing is there.
        least: how many parts of the path must be the same, the file's own name being one.
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or len(parts) < least:
        return find(name, at)
    last = len(parts) - least
    for first in range(max(0, min(len(parts) - PATH_PARTS, last)), last):
        blob = find("/".join(parts[first:]), at)
        if not isinstance(blob, Unreadable):
            return blob
    return find("/".join(parts[last:]), at)


def listed(cell: str) -> list[str]:
    """Elements of a list of texts, written as JSON or as Python writes it; a text that is no list is its one
    element.
    """
    text = cell.strip()
    if not text.startswith("["):
        return [text] if text else []
    if text.startswith("['") and text.endswith("']") and "\\" not in text:
        elements = text[2:-2].split("', '")  # as Python writes base64: most of a gigabyte
        if not any("'" in element for element in elements):
            return elements
    try:
        return msgspec.json.decode(text, type=list[str])
    except (ValueError, RecursionError):
        if not _LIST.fullmatch(text):
            return []
        return [
            _ESCAPE.sub(r"\1", element[0][1:-1]) if "\\" in element[0] else element[0][1:-1]
            for element in _ELEMENT.finditer(text)
        ]


class KitPicture(Struct, frozen=True):
    """One picture of a row: read from its place in the file and decoded when it is asked for."""

    path: Path
    place: Place
    column: int
    number: int
    quick: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"{self.path}, line {self.place.line:,}, image {self.number + 1}"

    def read(self) -> bytes:
        """Raises DataError where the text is not base64, or the file was changed meanwhile."""
        texts = _texts(self.path, self.place, self.column)
        if self.number >= len(texts):
            raise DataError(f"{self.key}: the file was changed while it was in use", "Start again.")
        return Base64Blob(self.key, texts[self.number]).read()


@lru_cache(maxsize=4)
def _texts(path: Path, place: Place, column: int) -> tuple[str, ...]:
    """Texts of the pictures of one row. The last rows are kept, since their pictures are asked for one by one."""
    try:
        with path.open("rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    texts = (part for part in _LINE.findall(data.decode("utf-8", "replace")))
    cells = next(_read(next(texts), texts), [])
    return tuple(listed(cells[column])) if column < len(cells) else ()


def _records(file: IO[bytes], path: Path) -> Iterator[tuple[Place, list[str] | DataError]]:
    """Where each row lies, and its cells or why it has none. Blank lines are left out.

    A row may go over several lines inside of quotes. As soon as it is not known any more what is inside of quotes, the
    rest of the file is one error, which is the last that comes.
    """
    lines = _Lines(file)
    lost = False
    while not lost:
        lines.start, first = lines.end, lines.number + 1
        try:
            line = next(lines)
            cells: list[str] | DataError = next(_read(line, lines), [])
            if not line.strip():
                continue
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"line {first:,}" if lines.number == first else f"lines {first:,} to {lines.number:,}"
            why = (
                f"byte {lines.last[error.start]:#04x} is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
            )
            cells = DataError(f"{path}, {where}: {why}", _MEND)
            lost = lines.number > first or lines.last.count(b'"') % 2 == 1 or not lines.last.endswith(b"\n")
        yield Place(lines.start, lines.end - lines.start, first), cells


def _read(line: str, following: Iterator[str]) -> Iterator[list[str]]:
    """The cells of the row that begins with a line; as many of the others are taken as it goes over."""
    if '"' not in line:
        return iter([line.rstrip("\r\n").split("\t")])
    head, _, quoted = line.rstrip("\r\n").partition('"')
    if head.endswith("\t") and quoted.endswith('"') and '"' not in quoted[:-1].replace('""', ""):
        # Only the last cell is quoted, and ends here: a list of pictures as JSON, which csv would take by letters.
        return iter([[*head[:-1].split("\t"), quoted[:-1].replace('""', '"')]])
    csv.field_size_limit(CELL_CHARACTERS)
    return csv.reader(chain([line], following), delimiter="\t", strict=True)


class _Lines:
    """Lines of a file as text; knows where the row began (`start`, set by the reader), and where the last line
    ended.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
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
        self.end += len(self.last)
        if self.end - self.start > ROW_BYTES:
            raise csv.Error(f"a row of more than {ROW_BYTES:,} bytes")
        if self.number == 1 and self.last.startswith(_BOM):
            self.start = len(_BOM)
            return self.last.removeprefix(_BOM).decode()
        return self.last.decode()


def beginning(path: Path, place: Place) -> str:
    """The first characters of a row: what its index is, where the rest cannot be read."""
    with path.open("rb") as file:
        file.seek(place.offset)
        return file.read(LONGEST_REFERENCE).decode("utf-8", "replace")
