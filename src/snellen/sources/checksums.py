"""Checksums of journal lines: each line ends with its record's number and a CRC-32 over all that stands before.

    {"sample_id":"a", …,"seq":12,"crc32":"1f2e3d4c"}

A CRC-32 notices every change of up to four neighbouring bytes. The numbers count from 1, so that a line that is
missing, repeated or out of its place is noticed too. Lines of Snellen 0.1 have neither field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

import msgspec

CRC_FIELD, SEQ_FIELD = b',"crc32":"', b',"seq":'
CRC_END = b'"}\n'
TAIL_BYTES = len(CRC_FIELD) + 8 + len(CRC_END)
MOST_DIGITS = 15
_RECORD_END = re.compile(rb'"crc32":"[0-9a-f]{8}"\}')
_RECORD_START = b'{"sample_id":'
_SAMPLE_ID = re.compile(rb'"sample_id"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){0,400}")')


def seal(line: bytearray, number: int) -> None:
    """Turn an encoded JSON object into line `number` of a journal: number, checksum and line end are added in place."""
    if len(line) == 2:
        line[-1:] = b'"seq":%d' % number
    else:
        line[-1:] = b',"seq":%d' % number
    line += b',"crc32":"%08x"}\n' % crc32(line)


def sealed(encoded: bytes, number: int) -> bytes:
    """As `seal`, for an object in bytes; a number and checksum that it has are replaced."""
    line = bytearray(encoded)
    if record_number(encoded) is not None:
        line[line.rfind(SEQ_FIELD, 0, -TAIL_BYTES) :] = b"}"
    seal(line, number)
    return bytes(line)


def record_number(line: bytes) -> int | None:
    """The number of a line whose checksum matches; None for any other line."""
    body = line[:-TAIL_BYTES]
    if line[-TAIL_BYTES:] != b'%s%08x"}\n' % (CRC_FIELD, crc32(body)):
        return None
    digits = body[body.rfind(SEQ_FIELD) + len(SEQ_FIELD) :]
    return int(digits) if digits.isdigit() and len(digits) <= MOST_DIGITS else None


class _Marks(msgspec.Struct, frozen=True, gc=False):
    seq: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    crc32: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def never_sealed(line: bytes) -> bool:
    """Whether a line is a JSON object without number and checksum. One damaged byte cannot take away both."""
    if b'"seq"' not in line and b'"crc32"' not in line:
        return True
    try:
        marks = msgspec.json.decode(line, type=_Marks)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return marks.seq is msgspec.UNSET and marks.crc32 is msgspec.UNSET


def intact_parts(line: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of each intact record in a line as a whole is none: line ends get lost, and torn lines are added
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
    """The sample that a damaged line names, as far as it can be read; empty where it names none."""
    match = _SAMPLE_ID.search(line)
    if match is None:
        return ""
    try:
        return msgspec.json.decode(match[1], type=str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
