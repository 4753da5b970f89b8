"""Digests of data for a run's fingerprint: by content, cached, so that 100 GB are not read at every start.

A file's digest is cached in the user's cache folder (`SNELLEN_CACHE`, else `XDG_CACHE_HOME`/snellen, else
~/.cache/snellen) by its path, size, modification time in nanoseconds and inode. A file that changed within the last two
seconds is not cached: it could change again without a new time. If the cache is not writable, the file is read again
next time.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import file_digest, md5, sha256
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.errors import DataError
from snellen.sources.blobs import FileBlob, Unreadable, stream
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import MemberBlob
from snellen.types import Blob

SETTLED_NS = 2_000_000_000
SAMPLE_BYTES = 1 << 20
SAMPLES = 64

T = TypeVar("T")


class _Remembered(Struct, frozen=True):
    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str


class KnownChecksum(Struct, frozen=True, array_like=True):
    """A file's CRC-32, with the file's size, time and inode when it was made."""

    size: int
    mtime_ns: int
    inode: int
    crc: int


def cache_folder() -> Path:
    """Return the folder of Snellen's cache: everything in it can be made again."""
    return Path(_cache_path())


def _cache_path() -> str:
    """Return the same as text: a `Path` for each of a million images would cost seconds."""
    own = os.environ.get("SNELLEN_CACHE")
    return own or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "snellen")  # noqa: PTH111, PTH118


def digest(path: Path | str, *, sampled: bool = False) -> str:
    """Return the digest of a file or folder.

    A file: `sha256:` and SHA-256 of its bytes. A folder: SHA-256 over one line per file, sorted by name: the name, its
    size and its content's digest. Links are followed; files that are not regular are an error.

    Args:
        sampled: for files too large to read even once: `sampled:` and SHA-256 of the size and of 64 pieces of 1 MiB,
            evenly spaced, including the first and last bytes. A change between the pieces goes unnoticed; the prefix
            says so in the fingerprint.

    Raises:
        DataError: nothing there, or unreadable.
    """
    where = Path(path)
    if not where.is_dir():
        return _file(where, sampled)
    total = sha256()
    for name in _names(where):
        file = where / name
        size = regular_file(file).st_size
        total.update(f"{name}\0{size}\0{_file(file, sampled)}\n".encode(errors="surrogateescape"))
    return f"{'sampled' if sampled else 'sha256'}:{total.hexdigest()}"


def with_md5(path: Path) -> tuple[str, str]:
    """Return a file's digest as of `digest`, and its MD5 in hexadecimal, which many projects publish of their data.

    The file is read once for both, and both are cached. The MD5 detects accidental differences, not malicious ones.

    Raises:
        DataError: nothing there, or unreadable.
    """
    sha256_digest, md5_digest = _cached(path, ("False", "md5"), _both)
    return sha256_digest, md5_digest


def blob_digest(blob: Blob) -> str:
    """Return `sha256:` and SHA-256 of a blob's bytes; that of a file as of `digest`."""
    if isinstance(blob, FileBlob):
        return digest(blob.path)
    with stream(blob) as data:
        return f"sha256:{file_digest(data, 'sha256').hexdigest()}"  # type: ignore[arg-type]


def content_digest(questions: str, images: Iterable[tuple[str, Blob]], note: str) -> str:
    """Return a digest of questions and of their images, equal for a zip and for the folder that it unpacks to.

    `sha256:` and SHA-256 over the questions' own digest and each image's name, size and CRC-32, in order. A zip has
    both in its directory, so 6.5 GB need not be read before a run starts; zipfile verifies the CRC-32 when a member is
    read. In a folder each file is read once, and its CRC-32 is cached.

    Args:
        questions: digest of the file that holds the questions.
        images: (name as the questions give it, where it is). An image that cannot be read counts as missing.
        note: the key under which a folder's CRC-32s are cached: its path, and the subtask.
    """
    total = sha256(questions.encode())
    place = cache_folder() / "checksums" / f"{sha256(note.encode(errors='surrogateescape')).hexdigest()}.json"
    before = _recall(place, dict[str, KnownChecksum]) or {}
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
    """Return (size, CRC-32) of an image."""
    if isinstance(blob, MemberBlob) and (declared := blob.tree.checksum(blob.name)) is not None:
        return blob.tree.size(blob.name), declared
    if not isinstance(blob, FileBlob):
        return _crc32(blob)
    status = blob.path.stat()
    before = known.get(blob.key)
    if before and (before.size, before.mtime_ns, before.inode) == (status.st_size, status.st_mtime_ns, status.st_ino):
        return before.size, before.crc
    size, crc = _crc32(blob)
    if _settled(status):
        known[blob.key] = KnownChecksum(status.st_size, status.st_mtime_ns, status.st_ino, crc)
    return size, crc


def _crc32(blob: Blob) -> tuple[int, int]:
    size = crc = 0
    with stream(blob) as data:
        while chunk := data.read(SAMPLE_BYTES):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc


def _names(folder: Path) -> list[str]:
    top = str(folder)
    return sorted(
        os.path.relpath(os.path.join(inner, file), top).replace(os.sep, "/")  # noqa: PTH118 - hot loop
        for inner, _, files in os.walk(top)
        for file in files
    )


def _file(path: Path, sampled: bool) -> str:
    return _cached(path, (str(sampled),), _sampled if sampled else _whole)[0]


def _cached(path: Path, kinds: Sequence[str], read: Callable[[Path], tuple[str, ...]]) -> tuple[str, ...]:
    """Return a file's digests of some kinds: those that are cached, else what `read` makes of the file, cached."""
    status = regular_file(path)
    place = os.path.realpath(path)
    notes = [_note(place, kind) for kind in kinds]
    known = [digest for note in notes if (digest := _known(note, place, status)) is not None]
    if len(known) == len(kinds):
        return tuple(known)
    try:
        digests = read(path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "Check its permissions.") from error
    if _settled(status):
        for note, result in zip(notes, digests, strict=True):
            _remember(note, _Remembered(place, status.st_size, status.st_mtime_ns, status.st_ino, result))
    return digests


def _note(place: str, kind: str) -> Path:
    """Return the cache file of one kind of digest."""
    name = sha256(f"{place}\0{kind}".encode(errors="surrogateescape")).hexdigest()
    return Path(_cache_path(), "digests", f"{name}.json")


def _known(note: Path, place: str, status: os.stat_result) -> str | None:
    known = _recall(note, _Remembered)
    now = (place, status.st_size, status.st_mtime_ns, status.st_ino)
    if known is None or (known.path, known.size, known.mtime_ns, known.inode) != now:
        return None
    return known.digest


def _settled(status: os.stat_result) -> bool:
    return time.time_ns() - status.st_mtime_ns > SETTLED_NS


def _whole(path: Path) -> tuple[str]:
    with path.open("rb") as stream:
        return (f"sha256:{file_digest(stream, 'sha256').hexdigest()}",)


def _both(path: Path) -> tuple[str, str]:
    sha, side = sha256(), md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while piece := stream.read(SAMPLE_BYTES):
            sha.update(piece)
            side.update(piece)
    return f"sha256:{sha.hexdigest()}", side.hexdigest()


def _sampled(path: Path) -> tuple[str]:
    size = path.stat().st_size
    total = sha256(f"{size}\n".encode())
    with path.open("rb") as stream:
        for index in range(SAMPLES):
            stream.seek(index * max(0, size - SAMPLE_BYTES) // (SAMPLES - 1))
            total.update(stream.read(SAMPLE_BYTES))
    return (f"sampled:{total.hexdigest()}",)


def _recall(note: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(note.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _remember(note: Path, entry: Any) -> None:
    with suppress(OSError, UnicodeEncodeError):
        note.parent.mkdir(parents=True, exist_ok=True)
        with replacing(note) as part:
            part.write_bytes(msgspec.json.encode(entry))
