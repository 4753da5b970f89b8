"""VLMEvalKit's question tables (TSV), read in place: gigabytes of base64 images, none of which is held in memory.

Columns: `index`; `image`, the base64 of one image or a list of several, in JSON or Python syntax; and a benchmark's
other columns. A cell of `image` of at most 64 characters is no image but another row's index, and stands for that row's
images. The file is read row by row; a row keeps its other columns and its place. An image is read again from there on
demand.

Source: VLMEvalKit's base class of image data sets, as its tables and code have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.blobs import Base64Blob, Unreadable
from snellen.sources.encodings import pick
from snellen.sources.locator import ends_of
from snellen.sources.rows import Place, bad_width, records, row_cells
from snellen.sources.safe_paths import regular_file
from snellen.types import Blob

MAX_REFERENCE = 64
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Possessive: a text of megabytes is gone through once, and nothing is kept for going back.
_QUOTED = r"""'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+\""""
_LIST = re.compile(rf"\s*\[\s*(?:(?:{_QUOTED})\s*(?:,\s*(?:{_QUOTED})\s*)*)?,?\s*\]\s*", re.DOTALL)
_ELEMENT = re.compile(_QUOTED, re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class VLMEvalKitRow(Struct, frozen=True):
    """One row of the table.

    Attributes:
        place: its place in the file.
        cells: its columns without `image`; for an unreadable row, the reason.
        image_count: number of images in its `image`; 0 if they cannot be separated.
        reference: the index of the row whose images it shows; empty if it has its own.
        filled: whether `image` is non-empty.
    """

    place: Place
    cells: Mapping[str, str] | DataError
    image_count: int = 0
    reference: str = ""
    filled: bool = False


class VLMEvalKitTable(Struct, frozen=True):
    """An opened table.

    Attributes:
        path: the file.
        header: its columns, in order.
        rows: every row once, in the order of the file; see `open_table`.
    """

    path: Path
    header: tuple[str, ...]
    rows: Iterator[VLMEvalKitRow]


def open_table(path: Path, needed: Sequence[str], any_of: Sequence[str] = ("image",)) -> VLMEvalKitTable:
    """Open the table at `path` and check its header.

    A row of another width than the header, or an unreadable one, is yielded as the reason. If a quote is never closed,
    the rest of the file is one error, which is the last item.

    Args:
        needed: required columns.
        any_of: columns of which one is required.

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
    if not any(column in header for column in any_of):
        pick(header, any_of[-1:], str(path))
    return VLMEvalKitTable(path, tuple(header), (_row(place, cells, header, path) for place, cells in records))


def _of_file(path: Path) -> Iterator[tuple[Place, list[str] | DataError]]:
    with path.open("rb", buffering=1 << 20) as file:
        for place, cells in records(file, str(path), "\t"):
            if isinstance(cells, DataError) or any(cell.strip() for cell in cells):
                yield place, cells


def _row(place: Place, cells: list[str] | DataError, header: list[str], path: Path) -> VLMEvalKitRow:
    if isinstance(cells, DataError):
        return VLMEvalKitRow(place, cells)
    if len(cells) != len(header):
        return VLMEvalKitRow(place, bad_width(str(path), place.line, place.line, len(cells), len(header)))
    columns = dict(zip(header, cells, strict=True))
    image = columns.pop("image", "")
    if not image:
        return VLMEvalKitRow(place, columns)
    if len(image) <= MAX_REFERENCE and not image.startswith("["):
        return VLMEvalKitRow(place, columns, reference=image, filled=True)
    return VLMEvalKitRow(place, columns, image_count=len(list_elements(image)), filled=True)


def row_with_images(row: VLMEvalKitRow, by_index: Mapping[str, VLMEvalKitRow]) -> VLMEvalKitRow | None:
    """Return the row that has a row's images; None if that row is missing or has none of its own."""
    if not row.reference:
        return row
    target = by_index.get(row.reference)
    return None if target is None or target.reference else target


def missing_images(row: VLMEvalKitRow, at: str) -> Unreadable:
    """Return a placeholder for the images of a row with a dangling reference; `at` is its file and line."""
    message = f"{at}: image {row.reference!r} is neither a base64 image nor another row's index"
    return Unreadable(at, message, "The column is cut off, or holds something else.")


def own_images(path: Path, header: Sequence[str], row: VLMEvalKitRow) -> list[Blob]:
    """Return the images that a row itself has, read on demand."""
    column = header.index("image")
    return [VLMEvalKitImage(path, row.place, column, number) for number in range(row.image_count)]


def by_end_of_path(name: str, at: str, find: Callable[[str, str], Blob], least: int = 1) -> Blob:
    """Find an image by the longest suffix of its path that exists: the kit records paths of the machine that wrote the
    file.

    Args:
        name: the path as the row gives it.
        find: looks for a path (given it and `at`); Unreadable if nothing is there.
        least: minimum number of equal path parts, including the file's own name.
    """
    ends = [] if ".." in name.replace("\\", "/").split("/") else list(ends_of(name, least))
    for end in ends[:-1]:
        blob = find(end, at)
        if not isinstance(blob, Unreadable):
            return blob
    return find(ends[-1] if ends else name, at)


def list_elements(cell: str) -> list[str]:
    """Return the elements of a list of texts, in JSON or Python syntax; a text that is no list is its one element."""
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


class VLMEvalKitImage(Struct, frozen=True):
    """One image of a row, read from its place in the file and decoded on demand."""

    path: Path
    place: Place
    column: int
    number: int
    quick: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"{self.path}, line {self.place.line:,}, image {self.number + 1}"

    def read(self) -> bytes:
        """Read the image. Raises DataError if the text is not base64, or the file has changed."""
        texts = _texts(self.path, self.place, self.column)
        if self.number >= len(texts):
            raise DataError(f"{self.key}: the file changed during the run", "Start again.")
        return Base64Blob(self.key, texts[self.number]).read()


@lru_cache(maxsize=4)
def _texts(path: Path, place: Place, column: int) -> tuple[str, ...]:
    """Return the base64 texts of one row. The last rows are cached, since their images are read one by one."""
    try:
        with path.open("rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    texts = (part for part in _LINE.findall(data.decode("utf-8", "replace")))
    cells = next(row_cells(next(texts), texts, "\t"), [])
    return tuple(list_elements(cells[column])) if column < len(cells) else ()


def beginning(path: Path, place: Place) -> str:
    """Return the first characters of a row: its index, if the rest is unreadable."""
    with path.open("rb") as file:
        file.seek(place.offset)
        return file.read(MAX_REFERENCE).decode("utf-8", "replace")
