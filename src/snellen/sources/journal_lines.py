"""Lines of a journal: the number and checksum of each, and the damage found in a file of them.

Each line ends with its record's number and a CRC-32 over everything before:

    {"sample_id":"a", …,"seq":12,"crc32":"1f2e3d4c"}

A CRC-32 detects every change of up to four adjacent bytes. Numbers count from 1, so that a missing, repeated or moved
line is detected too. Lines of Snellen 0.1 have neither field.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO
from zlib import crc32

import msgspec

from snellen.errors import RunError
from snellen.text import shorten

CRC_FIELD, SEQ_FIELD = b',"crc32":"', b',"seq":'
CRC_END = b'"}\n'
TAIL_BYTES = len(CRC_FIELD) + 8 + len(CRC_END)
MAX_DIGITS = 15
_RECORD_END = re.compile(rb'"crc32":"[0-9a-f]{8}"\}')
_RECORD_START = b'{"sample_id":'
_SAMPLE_ID = re.compile(rb'"sample_id"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){0,400}")')
LISTED = 20
LONGEST_LINE = 1 << 29
"""Bytes of a line that is read: a reply of 64 MiB with each character escaped has fewer."""
RESULTS = "results.jsonl"
log = logging.getLogger(__name__)


def bounded_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of a file of a run, the last one with or without its end.

    Raises:
        RunError: a line is longer than any that a run writes, as in a file of holes; it would be held in memory.
    """
    read = file.readline
    while line := read(LONGEST_LINE):
        if len(line) == LONGEST_LINE and line[-1:] != b"\n":
            raise RunError(
                f"{path} holds a line of more than {LONGEST_LINE >> 20} MiB, which no run writes",
                "Restore the file. If the run is from somebody else, do not use it.",
            )
        yield line


def seal(line: bytearray, number: int) -> None:
    """Turn an encoded JSON object into line `number` of a journal: add number, checksum and line end in place."""
    if len(line) == 2:
        line[-1:] = b'"seq":%d' % number
    else:
        line[-1:] = b',"seq":%d' % number
    line += b',"crc32":"%08x"}\n' % crc32(line)


def sealed(encoded: bytes, number: int) -> bytes:
    """Seal an object given as bytes; an existing number and checksum are replaced."""
    line = bytearray(encoded)
    if record_number(encoded) is not None:
        line[line.rfind(SEQ_FIELD, 0, -TAIL_BYTES) :] = b"}"
    seal(line, number)
    return bytes(line)


def record_number(line: bytes) -> int | None:
    """Return the number of a line whose checksum matches; None for any other line."""
    body = line[:-TAIL_BYTES]
    if line[-TAIL_BYTES:] != b'%s%08x"}\n' % (CRC_FIELD, crc32(body)):
        return None
    digits = body[body.rfind(SEQ_FIELD) + len(SEQ_FIELD) :]
    return int(digits) if digits.isdigit() and len(digits) <= MAX_DIGITS else None


class _Marks(msgspec.Struct, frozen=True, gc=False):
    seq: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    crc32: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def never_sealed(line: bytes) -> bool:
    """Return True for a JSON object without number and checksum. One damaged byte cannot remove both."""
    if b'"seq"' not in line and b'"crc32"' not in line:
        return True
    try:
        marks = msgspec.json.decode(line, type=_Marks)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return marks.seq is msgspec.UNSET and marks.crc32 is msgspec.UNSET


def intact_parts(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each intact record in a damaged line: line ends get lost, and torn lines are appended
    to.
    """
    start = 0
    for match in _RECORD_END.finditer(line):
        end = match.end()
        first = line.rfind(_RECORD_START, start, end)
        if first >= 0 and record_number(line[first:end] + b"\n") is not None:
            yield first, end
        start = end


def sample_named(line: bytes) -> str:
    """Return the sample id in a damaged line, as far as it is readable; empty if there is none."""
    match = _SAMPLE_ID.search(line)
    if match is None:
        return ""
    try:
        return msgspec.json.decode(match[1], type=str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


@dataclass
class Damage:
    """Faults of a journal, collected from its lines in file order.

    Attributes:
        path: the journal.
        last: number of the last record that must be there; None: not known.
        strict: raise RunError at the first line that holds no intact record, or one for a second time.
        damaged: lines that hold no intact record.
        missing: records that are not there, beyond those on damaged lines.
        repeated: lines that hold a record for a second time; the first counts.
        moved: places at which a record comes after one with a higher number.
        unnumbered: lines without number and checksum behind lines that have them; they count.
        torn: bytes behind the last line end.
        highest: the highest number of a record.
    """

    path: Path
    last: int | None = None
    strict: bool = False
    damaged: int = 0
    missing: int = 0
    repeated: int = 0
    moved: int = 0
    unnumbered: int = 0
    torn: int = 0
    highest: int = 0
    faults: list[str] = field(default_factory=list)
    _upto: int = 0
    _upto_line: int = 0
    _beyond: dict[int, int] = field(default_factory=dict)
    _before: int = 0
    _bad_lines: list[int] = field(default_factory=list)
    _count: int = 0

    def __bool__(self) -> bool:
        return bool(self.damaged or self.missing or self.repeated or self.moved or self.torn)

    @property
    def renumbered(self) -> bool:
        """Return True if numbers are missing, so that later lines must be numbered anew."""
        return bool(self._beyond)

    def take(self, number: int, line: int, content: bytes) -> bool:
        """Note an intact record; return False if it was there before."""
        if not self._beyond and number == self._upto + 1:
            self._upto = self.highest = self._before = number
            self._upto_line = line
            return True
        if number <= self._upto or number in self._beyond:
            self.repeated += 1
            self._fault(line, content, f"repeats record {number}")
            return False
        if number < self._before:
            self.moved += 1
            self._fault(line, b"" if self.strict else content, f"record {number} comes after record {self._before}")
        self._beyond[number] = line
        self._before = number
        self.highest = max(self.highest, number)
        return True

    def bad(self, line: int, content: bytes, why: str) -> None:
        """Note a line that holds no intact record."""
        self.damaged += 1
        self._bad_lines.append(line)
        self._fault(line, content, why)

    def joined(self, line: int, content: bytes, records: int, rest: int) -> None:
        """Note a line that holds intact records, and `rest` bytes that are none."""
        self.damaged += 1
        if rest > 1:
            self._bad_lines.append(line)
        counted = "its intact record counts" if records == 1 else f"its {records:,} intact records count"
        self._fault(line, content, f"holds bytes that are no record; {counted}")

    def without_number(self, line: int) -> None:
        """Note a line without number and checksum; before the first line that has them it is one of version 0.1."""
        if self.highest:
            self.unnumbered += 1
            self._bad_lines.append(line)  # it may stand for a number that is missing

    def close(self, torn: int) -> None:
        """Note the end of the file, and which records are missing before it."""
        self.torn = torn
        if torn:
            self._fault(None, b"", f"{torn:,} bytes behind the last line end are not a record")
        before, before_line = self._upto, self._upto_line
        numbers = sorted(self._beyond)
        for number in numbers:
            line = self._beyond[number]
            self._gap(before, number, before_line, line)
            before, before_line = number, line
        if self.last is not None and self.last > before:
            self._gap(before, self.last + 1, before_line, None)

    def _gap(self, before: int, after: int, before_line: int, after_line: int | None) -> None:
        absent = after - before - 1
        if not absent:
            return
        upto = len(self._bad_lines) if after_line is None else bisect_left(self._bad_lines, after_line)
        absent -= min(absent, max(0, upto - bisect_left(self._bad_lines, before_line)))
        if absent:
            self.missing += absent
            where = "at the end" if after_line is None else f"before line {after_line:,}"
            records = f"{absent:,} records are" if absent > 1 else "1 record is"
            numbers = f"number {before + 1:,}" if after - before == 2 else f"numbers {before + 1:,} to {after - 1:,}"
            self._fault(None, b"", f"{records} missing {where} ({numbers})")

    def _fault(self, line: int | None, content: bytes, why: str) -> None:
        sample = sample_named(content) if line is not None and len(self.faults) < LISTED else ""
        named = f" (sample {printable(sample)})" if sample else ""
        text = why if line is None else f"line {line:,}{named}: {why}"
        if self.strict and content:
            raise RunError(
                f"{self.path}, {text}", "Something else has changed the file. Restore it, or delete that line."
            )
        if self.strict:  # who has deleted a line must get on
            _warn(f"{self.path}: {text}")
        if len(self.faults) < LISTED:
            self.faults.append(text)
        self._count += 1

    def summary(self) -> str:
        """Return the number of faults of each kind; empty if there is none."""
        kinds = (
            (self.damaged, "damaged line", "damaged lines"),
            (self.missing, "missing record", "missing records"),
            (self.repeated, "repeated line", "repeated lines"),
            (self.moved, "line out of order", "lines out of order"),
            (int(bool(self.torn)), "torn line", "torn lines"),
        )
        return ", ".join(f"{count:,} {several if count > 1 else single}" for count, single, several in kinds if count)

    def lines(self, *, advised: bool = True) -> list[str]:
        """Describe the faults: a heading, then one line for each, and what to do unless `advised` is false."""
        if not self and not self.unnumbered:
            return []
        lines = []
        if self:
            lines = [f"{self.path}: {self.summary()}", *(f"  {fault}" for fault in self.faults)]
            if self._count > len(self.faults):
                lines.append(f"  … and {self._count - len(self.faults):,} more")
            if advised and self.path.name == RESULTS and (self.damaged or self.missing or self.torn):
                again = f"`snellen rerun {self.path.parent}` runs every sample that has no record."
                lines.append("  Import its answers again." if _is_imported(self.path.parent) else f"  {again}")
        if self.unnumbered:
            lines.append(
                f"{self.path}: {self.unnumbered:,} lines have no checksum, though lines before them do: an older version "
                "of snellen or another program wrote them. They count."
            )
        return lines

    def warn(self, *, advised: bool = True) -> None:
        """Log the faults as a warning, each text once in a process; `advised` as in `lines`."""
        if lines := self.lines(advised=advised):
            _warn("\n".join(lines))


def _is_imported(folder: Path) -> bool:
    """Return True for a run whose answers were imported, as its run_meta.json says: no model could be asked again."""
    try:
        return "imported" in msgspec.json.decode((folder / "run_meta.json").read_bytes())["environment"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


@lru_cache(maxsize=1000)
def _warn(text: str) -> None:
    log.warning("%s", text)


def printable(name: str) -> str:
    """Make a sample's id printable on a terminal."""
    short = shorten(name, 100)
    return short if short.isprintable() else ascii(short)
