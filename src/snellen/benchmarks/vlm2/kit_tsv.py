"""VLMEvalKit's table of the image subtasks, `VLM2Bench_img.tsv`: 1 GB of pictures in base64, read in place.

Columns: `index` (`<subtask>_<n>`, of pairs with `_p` or `_n` behind), `question`, `answer`, `category` (the subtask) and
`image`, a list of base64 pictures written as JSON or as Python writes it; or, where the kit has put the pictures into
files, `image_path`, a list of paths. A cell of at most 64 characters that is another row's index stands for that row's
pictures, as in all of the kit's tables.

The file is gone through once a process, a row at a time; what is kept of a row is its short columns and where it lies.
A picture is read again from there when it is asked for.
"""

from __future__ import annotations

import csv
import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, ClassVar

import msgspec
from msgspec import Struct

from snellen.benchmarks.vlm2.layout import Pictures
from snellen.benchmarks.vlm2.subtasks import BY_NAME, SUBTASKS, Subtask
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.sources.confine import regular_file
from snellen.sources.rows import CELL_CHARACTERS, Row, pick
from snellen.types import Blob

NEEDED = ("index", "question", "answer", "category")
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


@dataclass(frozen=True)
class Found:
    """One row as it is kept.

    Attributes:
        place: where it lies.
        cells: its short columns; for a row that cannot be read, why.
        pictures: how many pictures it holds itself.
        reference: the index of the row whose pictures it shows, empty where it has its own.
        paths: paths of pictures that lie in files.
    """

    place: Place
    cells: Row | DataError
    pictures: int = 0
    reference: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """The table without its pictures: rows by subtask in the order of the file, by first line, and by index."""

    path: Path
    header: list[str]
    by_subtask: dict[str, list[Found]] = field(default_factory=dict)
    by_line: dict[int, Found] = field(default_factory=dict)
    by_index: dict[str, Found] = field(default_factory=dict)
    strangers: dict[str, int] = field(default_factory=dict)


def table(path: Path) -> Table:
    """The table at `path`, gone through once a process as long as the file stays the same.

    Raises:
        DataError: it cannot be opened, is empty, or lacks a column. A row that cannot be read is kept as the reason.
    """
    found = regular_file(path)
    return _gone_through(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=2)
def _gone_through(path: Path, changed: int, size: int) -> Table:
    with path.open("rb", buffering=1 << 20) as file:
        records = _records(file, path)
        _, header = next(records, (None, None))
        if header is None:
            raise DataError(f"{path}: the file is empty; a line of column names was expected", "Fetch it again.")
        if isinstance(header, DataError):
            raise header
        pick(header, NEEDED, str(path))
        if "image" not in header:
            pick(header, ("image_path",), str(path))
        made = Table(path, header)
        lost: list[Found] = []
        before = ""
        for place, cells in records:
            found = _kept(place, cells, header, path)
            if isinstance(found.cells, DataError):
                # The line's own beginning says which subtask it belonged to, else the row before it does.
                before = _subtask_of(_beginning(path, place)) or before
                if not before:
                    lost.append(found)
                    continue
            else:
                category = found.cells["category"].strip().replace("_", "-")
                if category not in BY_NAME:
                    made.strangers[category] = made.strangers.get(category, 0) + 1
                    continue
                before = category
                made.by_index.setdefault(found.cells["index"], found)
            made.by_subtask.setdefault(before, []).append(found)
            made.by_line[place.line] = found
    if lost:
        first = next(iter(made.by_subtask), SUBTASKS[0].name)
        made.by_subtask[first] = lost + made.by_subtask.get(first, [])
        made.by_line.update({found.place.line: found for found in lost})
    return made


def _kept(place: Place, cells: list[str] | DataError, header: list[str], path: Path) -> Found:
    if isinstance(cells, DataError):
        return Found(place, cells)
    if len(cells) != len(header):
        return Found(
            place,
            DataError(
                f"{path}, line {place.line:,}: {len(cells):,} fields were found, {len(header):,} expected as in the "
                "header",
                _MEND,
            ),
        )
    given = dict(zip(header, cells, strict=True))
    image, paths = given.pop("image", ""), tuple(listed(given.pop("image_path", "")))
    if not image:
        return Found(place, given, paths=paths)
    if len(image) <= LONGEST_REFERENCE and not image.startswith("["):
        return Found(place, given, reference=image)
    return Found(place, given, pictures=len(listed(image)))


def rows(subtask: Subtask, path: Path) -> Iterator[tuple[int, Row | DataError]]:
    """(line, row) of a subtask, each row with the fields of the authors' question files.

    `q_id` is the index without the subtask in front of it, and for gc without the half behind it: the two questions of
    a pair carry one q_id there. `images` has a name for each picture, `image_seq_len` how many there are.
    """
    whole = table(path)
    for found in whole.by_subtask.get(subtask.name, ()):
        if isinstance(found.cells, DataError):
            yield found.place.line, found.cells
            continue
        cells = found.cells
        names = _names(whole, found)
        length = cells.get("image_seq_len", "")
        yield (
            found.place.line,
            {
                **{name: cell for name, cell in cells.items() if name not in NEEDED},
                "q_id": q_id(subtask, cells["index"]),
                "question": cells["question"],
                "gt_answer": gold(subtask, cells["answer"]),
                "images": names,
                "image_seq_len": int(length) if length.isascii() and length.isdigit() else len(names),
            },
        )


def shown(path: Path, line: int, files: Pictures) -> list[Blob]:
    """The pictures of the row that begins in a line, to be read when needed; paths are looked for in `files`."""
    whole = table(path)
    at = f"{path}, line {line:,}"
    found = whole.by_line[line]
    own = _owner(whole, found)
    if own is None:
        message = f"{at}: image {found.reference!r} is neither a picture in base64 nor another row's index"
        return [Unreadable(at, message, "The column is cut off, or holds something else.")]
    if own.paths:
        return [_file(name, at, files) for name in own.paths]
    column = whole.header.index("image")
    return [KitPicture(path, own.place, column, number) for number in range(own.pictures)]


def remarks(subtask: Subtask, path: Path) -> list[str]:
    """What is odd about the table: rows of categories that nobody knows; that it has no videos."""
    found = [
        f"{path}: rows of the unknown category {name!r}: {count:,}" for name, count in table(path).strangers.items()
    ]
    if subtask.family == "video" and subtask.name not in table(path).by_subtask:
        found.append(f"{path}: VLMEvalKit's table has no videos; give the official zip for {subtask.name}")
    return found


def _owner(whole: Table, found: Found) -> Found | None:
    """The row that has the pictures; None where there is none such."""
    if not found.reference:
        return found
    other = whole.by_index.get(found.reference)
    return None if other is None or other.reference else other


def _names(whole: Table, found: Found) -> list[str]:
    own = _owner(whole, found)
    if own is None or isinstance(own.cells, DataError):
        return [found.reference]
    return list(own.paths) or [f"{own.cells['index']}_{number}.jpg" for number in range(1, own.pictures + 1)]


def _file(name: str, at: str, files: Pictures) -> Blob:
    """A picture that the kit put into a file, on whatever machine that was: the longest end of its path that is there."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        return files.find(name, at)
    for first in range(max(0, len(parts) - PATH_PARTS), len(parts) - 1):
        blob = files.find("/".join(parts[first:]), at)
        if not isinstance(blob, Unreadable):
            return blob
    return files.find(parts[-1], at)


def q_id(subtask: Subtask, index: str) -> str:
    """The authors' q_id for an index of the kit's."""
    name = index.removeprefix(f"{subtask.name}_").removeprefix(subtask.name.replace("-", "_") + "_")
    return name.rpartition("_")[0] if subtask.cue == "gc" and "_" in name else name


def gold(subtask: Subtask, answer: str) -> Any:
    """The gold answer that the kit writes as text, in the type that the authors' files have."""
    whole = answer.strip().removesuffix(".0")  # a column of numbers with a gap in it is written as 3.0
    if subtask.family == "count" and whole.isascii() and whole.isdigit():
        return int(whole)
    return answer


def listed(cell: str) -> list[str]:
    """Elements of a list of texts, written as JSON or as Python writes it; a text that is no list is its one element."""
    text = cell.strip()
    if not text.startswith("["):
        return [text] if text else []
    if text.startswith("['") and text.endswith("']") and "\\" not in text:
        found = text[2:-2].split("', '")  # as Python writes base64: most of a gigabyte
        if not any("'" in one for one in found):
            return found
    try:
        return msgspec.json.decode(text, type=list[str])
    except (ValueError, RecursionError):
        if not _LIST.fullmatch(text):
            return []
        return [_ESCAPE.sub(r"\1", one[0][1:-1]) if "\\" in one[0] else one[0][1:-1] for one in _ELEMENT.finditer(text)]


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
        pictures = _pictures(self.path, self.place, self.column)
        if self.number >= len(pictures):
            raise DataError(f"{self.key}: the file was changed while it was in use", "Start again.")
        text = pictures[self.number]
        if text.startswith("data:"):
            text = text[text.find(",") + 1 :]
        try:
            return a2b_base64("".join(text.split()), strict_mode=True)
        except (NotBase64, ValueError) as error:
            raise DataError(
                f"{self.key}: {text[:24]!r}... ({len(text):,} characters) is not base64: {error}",
                "The column is cut off, or holds something else.",
            ) from error


@lru_cache(maxsize=4)
def _pictures(path: Path, place: Place, column: int) -> tuple[str, ...]:
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


def _read(line: str, rest: Iterator[str]) -> Iterator[list[str]]:
    """The cells of the row that begins with a line; as many of the others are taken as it goes over."""
    if '"' not in line:
        return iter([line.rstrip("\r\n").split("\t")])
    head, _, quoted = line.rstrip("\r\n").partition('"')
    if head.endswith("\t") and quoted.endswith('"') and '"' not in quoted[:-1].replace('""', ""):
        # Only the last cell is quoted, and ends here: a list of pictures as JSON, which csv would take by letters.
        return iter([[*head[:-1].split("\t"), quoted[:-1].replace('""', '"')]])
    csv.field_size_limit(CELL_CHARACTERS)
    return csv.reader(chain([line], rest), delimiter="\t", strict=True)


class _Lines:
    """Lines of a file as text; knows where the row began (`start`, set by the reader), and where the last line ended."""

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


def _beginning(path: Path, place: Place) -> str:
    with path.open("rb") as file:
        file.seek(place.offset)
        return file.read(LONGEST_REFERENCE).decode("utf-8", "replace")


def _subtask_of(text: str) -> str:
    return next((name for name in BY_NAME if text.startswith((f"{name}_", name.replace("-", "_") + "_"))), "")
