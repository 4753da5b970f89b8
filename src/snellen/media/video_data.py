"""The bytes of a video: in memory, or of a large one a file that is read in pieces.

A video of hours is several gigabytes. A file is read where it lies; a member of an archive is copied to a temporary file,
since a demuxer seeks and an archive cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, TypeAlias

from snellen.errors import DataError
from snellen.types import Blob

LARGE = 64 << 20
"""Bytes from which on a video is not held in memory."""
_PIECE = 1 << 20


class VideoFile:
    """A file of a video that is read in pieces."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size

    def __len__(self) -> int:
        return self.size

    def open(self) -> IO[bytes]:
        return self.path.open("rb")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        digest = sha256()
        with self.open() as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        return digest.digest()


VideoData: TypeAlias = bytes | VideoFile


def opened_data(data: VideoData) -> IO[bytes]:
    """Open the bytes for a demuxer, which seeks in them."""
    return BytesIO(data) if isinstance(data, bytes) else data.open()


def digest_of(data: VideoData) -> bytes:
    """Return the SHA-256 of the bytes."""
    return sha256(data).digest() if isinstance(data, bytes) else data.digest


@contextmanager
def video_data(blob: Blob) -> Iterator[VideoData]:
    """Give the bytes of a video, for as long as the block lasts.

    Raises:
        DataError: it cannot be read, or there is no room for a copy of an archive's member.
    """
    opener = getattr(blob, "open", None)
    if opener is None:
        yield blob.read()
        return
    with opener() as stream:
        if path := _plain_file(stream):
            size = path.stat().st_size
            if size > LARGE:
                yield VideoFile(path, size)
                return
        first = stream.read(LARGE + 1)
        if len(first) <= LARGE:
            yield first
            return
        with NamedTemporaryFile(prefix="snellen-video-", suffix=".part") as copy:
            try:
                size = _copied(first, stream, copy)
            except OSError as error:
                raise DataError(
                    f"video {blob.key}: cannot be copied out of its archive: {error.strerror}",
                    "Set TMPDIR to a folder with room for it, or unpack the archive.",
                ) from error
            del first
            yield VideoFile(Path(copy.name), size)


def _plain_file(stream: Any) -> Path | None:
    """Return the path of a stream that is a file on disk."""
    raw = stream.raw if isinstance(stream, BufferedReader) else None
    return Path(stream.name) if isinstance(raw, FileIO) and isinstance(stream.name, str) else None


def _copied(first: bytes, stream: IO[bytes], copy: Any) -> int:
    copy.write(first)
    size = len(first)
    while piece := stream.read(_PIECE):
        copy.write(piece)
        size += len(piece)
    copy.flush()
    return size
