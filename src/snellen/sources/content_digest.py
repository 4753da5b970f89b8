"""A digest of questions and of the images that they ask about, equal for a zip and for the folder that it unpacks to.

An image is identified by its size and its CRC-32. A zip has both in its directory, so 6.5 GB need not be read before a
run starts; zipfile holds each member to its CRC-32 when it is read. In a folder each file is read once, and its CRC-32
is remembered in the cache folder under its size, modification time and inode, unless it was changed just now.
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
from snellen.sources.blobs import FileBlob, Unreadable, stream
from snellen.sources.digest import SETTLED_NS, cache_folder
from snellen.sources.zip_archive import ZipBlob
from snellen.types import Blob

CHUNK = 1 << 20


class KnownChecksum(Struct, frozen=True, array_like=True):
    """A file's CRC-32, with the file's size, time and inode when it was made."""

    size: int
    mtime_ns: int
    inode: int
    crc: int


def content_digest(questions: str, images: Iterable[tuple[str, Blob]], note: str) -> str:
    """Return `sha256:` and SHA-256 over the questions' own digest and each image's name, size and CRC-32, in order.

    Args:
        questions: digest of the file that holds the questions.
        images: (name as the questions give it, where it is). An image that cannot be read counts as missing.
        note: the key under which a folder's CRC-32s are remembered: its path, and the subtask.
    """
    total = sha256(questions.encode())
    place = cache_folder() / "checksums" / f"{sha256(note.encode(errors='surrogateescape')).hexdigest()}.json"
    before = _recall(place)
    known = dict(before)
    done: set[str] = set()
    for name, blob in images:
        if blob.key in done:
            continue
        done.add(blob.key)
        try:
            checksum = None if isinstance(blob, Unreadable) else _checksum(blob, known)
        except (OSError, DataError):  # its samples fail alone, each with the reason
            checksum = None
        total.update(f"{name}\0{'missing' if checksum is None else f'{checksum[0]} {checksum[1]:08x}'}\n".encode())
    if known != before:
        _remember(place, known)
    return f"sha256:{total.hexdigest()}"


def _checksum(blob: Blob, known: dict[str, KnownChecksum]) -> tuple[int, int]:
    if isinstance(blob, ZipBlob):
        return blob.tree.size(blob.name), blob.tree.checksum(blob.name)
    if not isinstance(blob, FileBlob):
        return _read(blob)
    status = blob.path.stat()
    before = known.get(blob.key)
    if before and (before.size, before.mtime_ns, before.inode) == (status.st_size, status.st_mtime_ns, status.st_ino):
        return before.size, before.crc
    size, crc = _read(blob)
    if time.time_ns() - status.st_mtime_ns > SETTLED_NS:
        known[blob.key] = KnownChecksum(status.st_size, status.st_mtime_ns, status.st_ino, crc)
    return size, crc


def _read(blob: Blob) -> tuple[int, int]:
    size = crc = 0
    with stream(blob) as data:
        while chunk := data.read(CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc


def _recall(place: Path) -> dict[str, KnownChecksum]:
    try:
        return msgspec.json.decode(place.read_bytes(), type=dict[str, KnownChecksum])
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}


def _remember(place: Path, known: dict[str, KnownChecksum]) -> None:
    with suppress(OSError, UnicodeEncodeError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as part:
            part.write_bytes(msgspec.json.encode(known))
