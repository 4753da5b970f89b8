"""Tar and tar.gz files read in place: one pass indexes the members, then they are read by position.

Checks are as strict as for zip (`ArchiveTree`); links, devices and sparse members are refused. A .tar.gz is read by
position too (see `tar_gz`); .tar.bz2, .tar.xz and .tar.zst are refused, since every read would unpack them from the
beginning.
"""

from __future__ import annotations

import os
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from snellen.errors import DataError
from snellen.sources.archive import (
    QUICK_STORED,
    ArchiveLimits,
    ArchiveTree,
    MemberBlob,
    check_unpacked,
    damaged,
    too_much,
)
from snellen.sources.tar_gz import GzipFile, GzipStream

if TYPE_CHECKING:
    from tarfile import TarInfo

# tarfile reads extended headers whole into memory, at the size that the archive claims.
HEADER_BYTES = 1 << 20


class TarTree(ArchiveTree[tuple[int, int]]):
    """The members of a tar or tar.gz file, as (offset, size) in bytes of the unpacked tar. Thread-safe."""

    def __init__(self, path: Path | str, limits: ArchiveLimits | None = None, *, leave_out: bool = False) -> None:
        """Open, index and check the archive; a .tar.gz is read through once. Raises DataError, UnsafeArchiveError."""
        super().__init__(path, limits, leave_out=leave_out)
        with self.path.open("rb") as start:
            self._gzip = GzipFile(self.path, self.limits) if start.read(2) == b"\x1f\x8b" else None
        self._descriptor = -1 if self._gzip else os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            self._index()
        except BaseException:
            self.close()
            raise

    def _index(self) -> None:
        import tarfile  # a run without a tar does without

        source = GzipStream(self._gzip, HEADER_BYTES) if self._gzip else _PlainTar(self._descriptor, self.path)
        stream = cast(IO[bytes], source)
        try:
            with tarfile.open(fileobj=stream, mode="r:", errorlevel=2) as tar:
                while (info := tar.next()) is not None:
                    if not info.isdir() or info.name.strip("/") not in ("", "."):
                        self._admit(info.name, _kind(info), (info.offset_data, info.size), info.size, info.size)
                    end = info.offset_data + info.size
                    if info.isreg() and (info.size < 0 or (not self._gzip and end > self._file_bytes)):
                        raise damaged(self.path, info.name, EOFError("it is cut off"))
                    tar.members.clear()  # type: ignore[attr-defined]  # it would keep every header it has met
                stream.seek(tar.offset)
                if stream.read(512) != bytes(512):  # tarfile takes the end of the file for the end of the archive
                    raise EOFError("its end mark is missing; it is cut off")
        except (tarfile.TarError, OSError, ValueError, EOFError, OverflowError, RecursionError) as error:
            raise DataError(
                f"{self.path}: cannot be read as a tar file: {error}",
                "Pass a complete .tar, .tar.gz or .tgz; unpack other kinds first.",
            ) from error

    def size(self, name: str) -> int:
        return self._member(name)[1]

    def open(self, name: str) -> IO[bytes]:
        """Open a member as a stream, within `stream_bytes`."""
        return BufferedReader(_Member(self, name, *self._member(name)), 1 << 20)

    def read(self, name: str) -> bytes:
        """Read a member whole, within `read_bytes`. Raises DataError (damaged), UnsafeArchiveError (too large)."""
        offset, size = self._member(name)
        check_unpacked(self.path, name, size, size, self.limits.read_bytes, self.limits)
        return self.read_at(name, offset, size)

    def read_at(self, name: str, offset: int, size: int) -> bytes:
        """Read `size` bytes of the unpacked tar; `name` is for the error message."""
        data = self._gzip.read_at(offset, size) if self._gzip else os.pread(self._descriptor, size, offset)
        if len(data) != size:
            raise damaged(self.path, name, EOFError(f"{len(data):,} of {size:,} bytes are there"))
        return data

    def close(self) -> None:
        if self._gzip is not None:
            self._gzip.close()
        elif self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def quick(self, name: str) -> bool:
        """Return True if reading costs less than a thread: never for compressed archives."""
        return self._gzip is None and self._member(name)[1] <= QUICK_STORED


def _kind(info: TarInfo) -> str:
    if info.isdir():
        return "folder"
    if info.issym() or info.islnk():
        return "link"
    return "file" if info.isreg() and not info.issparse() else "special file"


class TarBlob(MemberBlob[TarTree], frozen=True):
    """One member of a tar file."""


TarTree.blob_class = TarBlob


class _Member(RawIOBase):
    def __init__(self, tree: TarTree, name: str, offset: int, size: int) -> None:
        self._tree, self._name, self._at, self._end = tree, name, offset, offset + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        size = min(len(view), self._end - self._at)
        data = self._tree.read_at(self._name, self._at, size) if size else b""
        view[:size] = data
        self._at += size
        return size


class _PlainTar(RawIOBase):
    """An uncompressed tar for tarfile; one read is at most one header."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path, self._at = descriptor, path, 0

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset if whence == os.SEEK_SET else self._at + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > HEADER_BYTES:
            raise too_much(self._path, "", f"a header of {size:,} bytes", f"{HEADER_BYTES:,}")
        data = os.pread(self._descriptor, size, self._at)
        self._at += len(data)
        return data
