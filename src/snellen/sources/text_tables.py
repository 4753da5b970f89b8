"""CSV, TSV and JSON lines with the place of each row, so that images inside of them are read again on demand.

A cell that holds images as base64 or data URIs becomes a tuple of lazy images: a table of gigabytes is read in a few
megabytes. The separator of a .csv is taken from its header: a comma, a semicolon (Excel in most of Europe), a tab or a bar.
"""

from __future__ import annotations

import csv
import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, ClassVar, TypeAlias

from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.blobs import Base64Blob, FileBlob, stream
from snellen.sources.rows import LINE_BYTES, bad_width, json_line
from snellen.sources.vlmevalkit_tsv import OffsetLines, Place, list_elements, row_cells
from snellen.types import Blob

SEPARATORS = (",", ";", "\t", "|")
SHORTEST_IMAGE = 64
"""A base64 text of at most that many characters is no image."""
_BOM = b"\xef\xbb\xbf"
_WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BASE64_HEAD = re.compile(r"[A-Za-z0-9+/=\r\n]+")
_SIGNATURES = (
    *(b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM", b"II*\0", b"MM\0*"),
    *(b"\x1a\x45\xdf\xa3",),
)
TextRow: TypeAlias = tuple[Place, dict[str, Any] | DataError]


class TextTable(Struct, frozen=True):
    """A table of text: `header` is empty for JSON lines, whose rows name their own columns."""

    header: tuple[str, ...]
    rows: Iterator[TextRow]


def open_text_table(source: Blob) -> TextTable:
    """Open a .csv, .tsv, .jsonl or .ndjson by the suffix of its key.

    A row that cannot be read is yielded as its error. An error that concerns the whole file is raised.

    Raises:
        DataError: it is empty, is not UTF-8, has a column twice, or a quote is never closed; with file and line.
    """
    name = source.key
    path = source.path if isinstance(source, FileBlob) else None
    if Path(name).suffix.lower() in (".jsonl", ".ndjson"):
        return TextTable((), _json_rows(source, name, path))
    separator = "\t" if name.lower().endswith(".tsv") else ""
    records = _records(source, name, separator)
    _, header, separator = next(records, (Place(0, 0, 1), [], ""))
    if len(header) == 1 and any(mark in header[0] for mark in SEPARATORS):  # a .tsv with commas
        records = _records(source, name, "")
        _, header, separator = next(records, (Place(0, 0, 1), [], ""))
    if not header or header == [""]:
        raise DataError(f"{name}: the file is empty; a line of column names was expected", "Check the file.")
    names = [cell.strip() for cell in header]
    while names and not names[-1]:  # Excel writes empty columns at the right
        names.pop()
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise DataError(f"{name}: two columns are called {twice[0]!r}", "Rename one of them.")
    if any("\r" in column or "\0" in column for column in names):
        raise DataError(f"{name}, line 1: the header holds a control character", "Save the file again as CSV (UTF-8).")
    return TextTable(tuple(names), _rows(records, names, len(header), name, path, separator))


def _rows(
    records: Iterator[tuple[Place, list[str], str]],
    names: Sequence[str],
    width: int,
    name: str,
    path: Path | None,
    separator: str,
) -> Iterator[TextRow]:
    for place, cells, _ in records:
        if len(cells) < len(names) or (len(cells) != width and any(cells[len(names) :])):
            if any(cells):
                yield place, bad_width(name, place.line, place.line, len(cells), width)
            continue
        row: dict[str, Any] = dict(zip(names, cells, strict=False))
        for column, text in row.items():
            if len(text) > SHORTEST_IMAGE and (texts := inline_texts(text)):
                row[column] = _images(texts, name, path, place, separator, column)
            elif "\0" in text:
                yield place, DataError(f"{name}, line {place.line:,}: column {column!r} holds a NUL byte")
                break
        else:
            yield place, row


def _json_rows(source: Blob, name: str, path: Path | None) -> Iterator[TextRow]:
    with stream(source) as lines:
        at = number = 0
        while line := lines.readline(LINE_BYTES + 1):
            number += 1
            place = Place(at, len(line), number)
            at += len(line)
            if len(line) > LINE_BYTES:
                raise DataError(f"{name}, line {number:,}: longer than {LINE_BYTES:,} bytes", "Is it JSON lines?")
            if number == 1:
                _require_utf8(line, name)
                line = line.removeprefix(_BOM)
            if text := line.strip():
                row = json_line(text, name, number, line)
                yield place, row if isinstance(row, DataError) else with_lazy_images(row, name, path, place)


def with_lazy_images(row: Mapping[str, Any], name: str, path: Path | None, place: Place) -> dict[str, Any]:
    """Return a row whose inline images are lazy; `path` and `place` say where they are read again, if they can be."""
    lazy = {}
    for column, value in row.items():
        if isinstance(value, str):
            if len(value) <= SHORTEST_IMAGE and not value.startswith("data:"):
                continue
        elif isinstance(value, dict):
            if not ("bytes" in value or "base64" in value or "url" in value):
                continue
        elif not isinstance(value, list):
            continue
        if texts := inline_texts(value):
            lazy[column] = _images(texts, name, path, place, "json", column)
    return {**row, **lazy}


def inline_texts(value: Any) -> list[str] | None:
    """Return the base64 texts of a cell that holds nothing but images; None for any other cell."""
    if isinstance(value, str):
        if is_inline(value):
            return [value]
        head = value[:40].lstrip()
        if len(value) > SHORTEST_IMAGE and head.startswith(("['", '["')) and is_inline(head[2:], least=8):
            texts = list_elements(value)
            return texts if texts and all(map(is_inline, texts)) else None
        return None
    if isinstance(value, dict):
        return inline_texts(value.get("bytes") or value.get("base64") or value.get("url"))
    if isinstance(value, list) and value:
        several = [inline_texts(element) for element in value]
        return None if None in several else [text for texts in several for text in texts or ()]
    return None


def is_inline(text: str, least: int = SHORTEST_IMAGE) -> bool:
    """Return True for a data URI of an image or a video, and for base64 that begins like one."""
    if text.startswith("data:"):
        return text[:16].startswith(("data:image/", "data:video/", "data:application", "data:;base64"))
    if len(text) <= least or not _BASE64_HEAD.fullmatch(text, 0, min(len(text), 256)):
        return False
    head = "".join(text[:64].split())
    try:
        data = a2b_base64(head[: len(head) // 4 * 4])
    except (NotBase64, ValueError):
        return False
    return data.startswith(_SIGNATURES) or data[8:12] == b"WEBP" or data[4:8] == b"ftyp"


class CellImage(Struct, frozen=True):
    """One image of a cell, read again from its row and decoded on demand. Equal contents have equal `content`."""

    path: Path
    place: Place
    form: str
    column: str
    number: int
    content: str
    quick: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"{self.path}, line {self.place.line:,}, {self.column}, image {self.number + 1}, {self.content}"

    def read(self) -> bytes:
        """Read the image. Raises DataError if the text is not base64, or the file has changed."""
        texts = _texts(self.path, self.place, self.form, self.column)
        if self.number >= len(texts):
            raise DataError(f"{self.path}, line {self.place.line:,}: the file changed meanwhile", "Start again.")
        return Base64Blob(f"{self.path}, line {self.place.line:,}", texts[self.number]).read()


def _images(
    texts: Sequence[str], name: str, path: Path | None, place: Place, form: str, column: str
) -> tuple[Blob, ...]:
    contents = [blake2b(text.encode(), digest_size=8).hexdigest() for text in texts]
    if path is None:
        line = f"{name}, line {place.line:,}, {column}"
        return tuple(Base64Blob(f"{line}, image {at + 1}, {contents[at]}", text) for at, text in enumerate(texts))
    return tuple(CellImage(path, place, form, column, at, content) for at, content in enumerate(contents))


@lru_cache(maxsize=4)
def _texts(path: Path, place: Place, form: str, column: str) -> tuple[str, ...]:
    """Return the base64 texts of one cell. The last cells are cached, since their images are read one by one."""
    try:
        with path.open("rb") as file:
            header: list[str] = next(_split(_TableLines(file), form), []) if form != "json" else []
            file.seek(place.offset)
            data = file.read(place.length)
    except (OSError, csv.Error, UnicodeDecodeError, StopIteration) as error:
        raise DataError(f"{path}: cannot be read again: {error}", "The file changed meanwhile; start again.") from error
    if form == "json":
        row = json_line(data.removeprefix(_BOM).strip(), str(path), place.line, data)
        value = row.get(column) if isinstance(row, dict) else None
    else:
        lines = iter(_LINE.findall(data.decode("utf-8", "replace")))
        cells = next(row_cells(next(lines, ""), lines, form), [])
        names = [cell.strip() for cell in header]
        value = dict(zip(names, cells, strict=False)).get(column)
    return tuple(inline_texts(value) or ())


def _records(source: Blob, name: str, separator: str) -> Iterator[tuple[Place, list[str], str]]:
    """Yield the place, the cells and the separator of each row. Blank lines are skipped."""
    with stream(source) as file:
        lines = _TableLines(file)
        rows = _split(lines, separator)
        first = 1
        try:
            for cells in rows:
                place = Place(lines.start, lines.end - lines.start, first)
                first = lines.number + 1
                lines.start = lines.end
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield place, cells, lines.separator
        except UnicodeDecodeError as error:
            raise _not_utf8(name, lines.number, lines.last[error.start]) from error
        except csv.Error as error:
            raise DataError(
                f"{name}, lines {first:,} to {lines.number:,}: {error}",
                "A quote is missing or too many, or the file is cut off.",
            ) from error


def _split(lines: _TableLines, separator: str) -> Iterator[list[str]]:
    for line in lines:
        if lines.number == 1:
            lines.separator = separator = separator or _separator_of(line)
        yield next(row_cells(line, lines, separator), [])


def _separator_of(header: str) -> str:
    """Return the separator that occurs most often in a header outside of quotes; a comma where none does."""
    plain = re.sub(r'"[^"]*"', "", header)
    return max(SEPARATORS, key=lambda mark: (plain.count(mark), mark == ","))


class _TableLines(OffsetLines):
    """Lines of a file as text; the separator is that of the header. A file in UTF-16 is told by its first bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.separator = ""

    def __next__(self) -> str:
        try:
            return super().__next__()
        except UnicodeDecodeError as error:
            if self.number == 1 and self.last[:2] in _WIDE:
                raise UnicodeDecodeError("utf-8", self.last, 0, 1, "UTF-16") from error
            raise


def _require_utf8(line: bytes, name: str) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(name, 1, line[error.start]) from error


def _not_utf8(name: str, line: int, byte: int) -> DataError:
    wide = line == 1 and byte in (0xFF, 0xFE)
    return DataError(
        f"{name}, line {line:,}: " + ("the file is UTF-16" if wide else f"byte {byte:#04x} is not UTF-8"),
        "Save the file as UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f LATIN1 -t UTF-8 OLD > NEW. "
        "No request was sent.",
    )
