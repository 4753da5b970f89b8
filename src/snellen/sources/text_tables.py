"""CSV, TSV and JSON lines with the place of each row, so that images inside of them are read again on demand.

A cell that holds images as base64 or data URIs becomes a tuple of lazy images: a table of gigabytes is read in a few
megabytes. The separator of a .csv is taken from its header: a comma, a semicolon (Excel in most of Europe), a tab
or a bar; a first line `sep=;`, which Excel writes too, names it.
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
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.blobs import PDF_MARK, Base64Blob, FileBlob, is_base64_pdf
from snellen.sources.encodings import not_utf8, text_stream
from snellen.sources.rows import LINE_BYTES, ROW_BYTES, OffsetLines, Place, bad_width, json_line, quoted_rows, row_cells
from snellen.sources.vlmevalkit_tsv import list_elements
from snellen.types import Blob

SEPARATORS = (",", ";", "\t", "|")
SHORTEST_IMAGE = 64
"""A base64 text of at most that many characters is no image."""
_BOM = b"\xef\xbb\xbf"
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[;,\t|]*', re.IGNORECASE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BASE64_HEAD = re.compile(r"[A-Za-z0-9+/=\r\n]+")
_SIGNATURES = (
    *(b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM", b"II*\0", b"MM\0*"),
    *(b"\x1a\x45\xdf\xa3", PDF_MARK),
)
TextRow: TypeAlias = tuple[int, dict[str, Any] | DataError]
"""The first line of a row, from 1, and the row, or why it cannot be read."""


class TextTable(Struct, frozen=True):
    """A table of text: `header` is empty for JSON lines, whose rows name their own columns."""

    header: tuple[str, ...]
    rows: Iterator[TextRow]


def open_text_table(source: Blob, encoding: str = "") -> TextTable:
    """Open a .csv, .tsv, .jsonl or .ndjson by the suffix of its key.

    A row that cannot be read is yielded as its error. An error that concerns the whole file is raised.

    Args:
        encoding: as the user names it; empty: that of its byte order mark, else UTF-8.

    Raises:
        DataError: it is empty, is not UTF-8, has a column twice, or a quote is never closed; with file and line.
    """
    if Path(source.key).suffix.lower() in (".jsonl", ".ndjson"):
        return TextTable((), _json_rows(source, encoding))
    parts = _header_and_rows(source, encoding)
    return TextTable(next(parts), parts)


def _header_and_rows(source: Blob, encoding: str) -> Iterator[Any]:
    """Yield the column names, then the rows."""
    name = source.key
    file, is_plain = text_stream(source, encoding)
    path = source.path if is_plain and isinstance(source, FileBlob) else None
    lines = OffsetLines(file)
    first = 1
    with file:
        try:
            separator, header = read_header(lines, "\t" if name.lower().endswith(".tsv") else "")
            names = _column_names(header, name)
            yield names
            width, cut = len(header), len(names)
            end, number = lines.end, lines.number
            waiting: list[str] = []
            quoted: Iterator[list[str]] | None = None
            while raw := file.readline(ROW_BYTES + 1):
                start, first = end, number + 1
                end, number = end + len(raw), first
                if b'"' in raw or len(raw) > ROW_BYTES:
                    lines.start, lines.end, lines.number, lines.last = start, end, number, raw
                    if len(raw) > ROW_BYTES:
                        lines.require_short(end)
                    line = raw.decode()
                    if line.rstrip("\r\n")[-1:] == '"':
                        cells = next(row_cells(line, lines, separator), [])
                    else:
                        waiting.append(line)
                        quoted = quoted or quoted_rows(waiting, lines, separator)
                        cells = next(quoted)
                    end, number = lines.end, lines.number
                else:
                    cells = raw.decode().rstrip("\r\n").split(separator)
                if len(cells) != cut and (len(cells) < cut or (len(cells) != width and any(cells[cut:]))):
                    if any(cells) and (len(cells) > 1 or cells[0].strip()):
                        yield first, bad_width(name, first, first, len(cells), width)
                    continue
                row: dict[str, Any] = dict(zip(names, cells))  # noqa: B905 - twice as fast
                if cut == 1 and not cells[0].strip():
                    continue
                if end - start > SHORTEST_IMAGE:
                    for column, text in row.items():
                        if len(text) > SHORTEST_IMAGE and (texts := inline_texts(text)):
                            place = Place(start, end - start, first)
                            row[column] = _images(texts, name, path, place, separator, column)
                if b"\0" in raw and (damaged := [column for column in names if "\0" in row[column]]):
                    yield first, DataError(f"{name}, line {first:,}: column {damaged[0]!r} holds a NUL byte")
                    continue
                yield first, row
        except UnicodeDecodeError as error:
            raise not_utf8(
                source, lines.number if lines.number > first else first, error.object[error.start]
            ) from error
        except csv.Error as error:
            raise DataError(
                f"{name}, lines {first:,} to {lines.number:,}: {error}",
                "A quote is missing or too many, or the file is cut off.",
            ) from error


def read_header(lines: OffsetLines, separator: str) -> tuple[str, list[str]]:
    """Read the line of column names, and return the separator of the table and its header.

    Args:
        lines: the lines of the file, from its beginning.
        separator: what is expected; empty, and where the header lacks it: what the header shows. The first line of a file by
            Excel may name it: `sep=;`.
    """
    line = next((line for line in lines if line.strip()), "")
    if named := _SEPARATOR_LINE.fullmatch(line.rstrip("\r\n")):
        separator, line = named[1], next((line for line in lines if line.strip()), "")
    elif not separator or (separator not in line and any(mark in line for mark in SEPARATORS)):
        separator = _separator_of(line)
    return separator, next(row_cells(line, lines, separator), [])


def _column_names(header: Sequence[str], name: str) -> tuple[str, ...]:
    if not header or header == [""]:
        raise DataError(f"{name}: the file is empty; a line of column names was expected", "Check the file.")
    names = [cell.strip() for cell in header]
    while names and not names[-1]:  # Excel writes empty columns at the right
        names.pop()
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise DataError(f"{name}: two columns are called {twice[0]!r}", "Rename one of them.")
    if any("\0" in column for column in names):
        raise DataError(
            f"{name}, line 1: the header holds NUL bytes, as UTF-16 without a byte order mark has them",
            "Name its encoding, UTF-16LE or UTF-16BE: -o encoding=UTF-16LE. Or save the file as UTF-8.",
        )
    if any("\r" in column for column in names):
        raise DataError(f"{name}, line 1: the header holds a control character", "Save the file again as CSV (UTF-8).")
    return tuple(names)


def _json_rows(source: Blob, encoding: str) -> Iterator[TextRow]:
    name = source.key
    lines, is_plain = text_stream(source, encoding)
    path = source.path if is_plain and isinstance(source, FileBlob) else None
    with lines:
        at = number = 0
        while line := lines.readline(LINE_BYTES + 1):
            number += 1
            place = Place(at, len(line), number)
            at += len(line)
            if len(line) > LINE_BYTES:
                raise DataError(f"{name}, line {number:,}: longer than {LINE_BYTES:,} bytes", "Is it JSON lines?")
            if number == 1:
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    raise not_utf8(source, 1, line[error.start]) from error
                line = line.removeprefix(_BOM)
            if text := line.strip():
                row = json_line(text, name, number, line)
                yield number, row if isinstance(row, DataError) else with_lazy_images(row, name, path, place)


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
    is_pdf: bool = False
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
    parts = enumerate(zip(contents, map(is_base64_pdf, texts), strict=True))
    return tuple(CellImage(path, place, form, column, at, content, is_pdf) for at, (content, is_pdf) in parts)


@lru_cache(maxsize=4)
def _texts(path: Path, place: Place, form: str, column: str) -> tuple[str, ...]:
    """Return the base64 texts of one cell. The last cells are cached, since their images are read one by one."""
    try:
        with path.open("rb") as file:
            header: list[str] = read_header(OffsetLines(file), form)[1] if form != "json" else []
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


def _separator_of(header: str) -> str:
    """Return the separator that occurs most often in a header outside of quotes; a comma where none does."""
    plain = re.sub(r'"[^"]*"', "", header)
    return max(SEPARATORS, key=lambda mark: (plain.count(mark), mark == ","))
