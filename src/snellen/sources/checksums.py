"""Checksums of journal lines: each line ends with its record's number and a CRC-32 over everything before.

    {"sample_id":"a", …,"seq":12,"crc32":"1f2e3d4c"}

A CRC-32 detects every change of up to four adjacent bytes. Numbers count from 1, so that a missing, repeated or moved
line is detected too. Lines of Snellen 0.1 have neither field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

import msgspec

CRC_FIELD, SEQ_FIELD = b',"crc32":"', b',"seq":'
CRC_END = b'"}\n'
TAIL_BYTES = len(CRC_FIELD) + 8 + len(CRC_END)
MAX_DIGITS = 15
_RECORD_END = re.compile(rb'"crc32":"[0-9a-f]{8}"\}')
_RECORD_START = b'{"sample_id":'
_SAMPLE_ID = re.compile(rb'"sample_id"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){0,400}")')


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
