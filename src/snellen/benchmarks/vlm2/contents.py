"""One digest of questions and of the pictures that they ask about, the same for a zip and for what it unpacks to.

A picture is told by its size and its CRC-32. A zip has both in its directory, so 6.5 GB need not be read before a run
starts; zipfile holds each member to its CRC-32 when it is read. In a folder each file is read once, and its CRC-32 is
remembered in the cache folder under its size, modification time and inode, unless it was changed just now.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.errors import DataError
from snellen.sources import FileBlob, Unreadable, ZipBlob, cache_folder
from snellen.sources.blobs import stream
from snellen.sources.digest import SETTLED_NS
from snellen.types import Blob

CHUNK = 1 << 20


class Known(Struct, frozen=True, array_like=True):
    """A file's CRC-32, and what the file looked like when it was made."""

    size: int
    mtime_ns: int
    inode: int
    crc: int


def digest(questions: str, pictures: Iterable[tuple[str, Blob]], note: str) -> str:
    """`sha256:` and SHA-256 over the questions' own digest and each picture's name, size and CRC-32, in order.

    Args:
        questions: digest of the file that holds the questions.
        pictures: (name as the questions give it, where it is). A picture that cannot be had counts as missing.
        note: what the folder's CRC-32s are remembered under: its path, and the subtask.
    """
    total = sha256(questions.encode())
    place = cache_folder() / "checksums" / f"{sha256(note.encode(errors='surrogateescape')).hexdigest()}.json"
    before = _recall(place)
    known = dict(before)
    done: set[str] = set()
    for name, blob in pictures:
        if blob.key in done:
            continue
        done.add(blob.key)
        try:
            found = None if isinstance(blob, Unreadable) else _checksum(blob, known)
        except (OSError, DataError):  # its samples fail alone, each with the reason
            found = None
        total.update(f"{name}\0{'missing' if found is None else f'{found[0]} {found[1]:08x}'}\n".encode())
    if known != before:
        _remember(place, known)
    return f"sha256:{total.hexdigest()}"


def _checksum(blob: Blob, known: dict[str, Known]) -> tuple[int, int]:
    if isinstance(blob, ZipBlob):
        return blob.tree.size(blob.name), blob.tree.checksum(blob.name)
    if not isinstance(blob, FileBlob):
        return _read(blob)
    found = blob.path.stat()
    had = known.get(blob.key)
    if had and (had.size, had.mtime_ns, had.inode) == (found.st_size, found.st_mtime_ns, found.st_ino):
        return had.size, had.crc
    size, crc = _read(blob)
    if time.time_ns() - found.st_mtime_ns > SETTLED_NS:
        known[blob.key] = Known(found.st_size, found.st_mtime_ns, found.st_ino, crc)
    return size, crc


def _read(blob: Blob) -> tuple[int, int]:
    size = crc = 0
    with stream(blob) as data:
        while chunk := data.read(CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc


def _recall(place: Path) -> dict[str, Known]:
    try:
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Known])
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}


def _remember(place: Path, known: dict[str, Known]) -> None:
    with suppress(OSError, UnicodeEncodeError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as part:
            part.write_bytes(msgspec.json.encode(known))
