"""Tar and tar.gz files read in place: one pass indexes the members, then they are read by position.

Checks are as strict as for zip: links, devices, sparse members, names that leave the root and duplicate members make
the whole archive an error or, with `leave_out`, are omitted. A .tar.gz is read by position too (see `tar_gz`);
.tar.bz2, .tar.xz and .tar.zst are refused, since every read would unpack them from the beginning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from snellen.errors import DataError
from snellen.sources.safe_paths import member_name, regular_file
from snellen.sources.tar_gz import GzipFile, GzipStream
from snellen.sources.zip_archive import (
    QUICK_STORED,
    Limits,
    MemberBlob,
    afresh,
    check_unpacked,
    damaged,
    no_member,
    not_a_file,
    plain_name,
    too_much,
    twice,
)

if TYPE_CHECKING:
    from tarfile import TarInfo

# tarfile reads extended headers whole into memory, at the size that the archive claims.
HEADER_BYTES = 1 << 20


class TarTree:
    """The members of a tar or tar.gz file. Thread-safe; can be pickled (it opens its file again)."""

    def __init__(self, path: Path | str, limits: Limits | None = None, *, leave_out: bool = False) -> None:
        """Open, index and check the archive; a .tar.gz is read through once. Raises DataError, UnsafeArchiveError."""
        self.path = Path(path)
        self.limits = limits or Limits()
        self._leave_out = leave_out
        self._left_out: dict[str, DataError] = {}
        self._size = regular_file(self.path).st_size
        with self.path.open("rb") as start:
            self._gzip = GzipFile(self.path, self.limits) if start.read(2) == b"\x1f\x8b" else None
        self._descriptor = -1 if self._gzip else os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            self._members = self._index()
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(TarTree, leave_out=self._leave_out), (self.path, self.limits)

    def _index(self) -> dict[str, tuple[int, int]]:
        """Name to (offset, size), both in bytes of the unpacked tar."""
        import tarfile  # a run without a tar does without

        members: dict[str, tuple[int, int]] = {}
        source = GzipStream(self._gzip, HEADER_BYTES) if self._gzip else _Plain(self._descriptor, self.path)
        stream = cast(IO[bytes], source)
        try:
            with tarfile.open(fileobj=stream, mode="r:", errorlevel=2) as tar:
                while (info := tar.next()) is not None:
                    self._admit(info, members)
                    tar.members.clear()  # type: ignore[attr-defined]  # it would keep every header it has met
                stream.seek(tar.offset)
                if stream.read(512) != bytes(512):  # tarfile takes the end of the file for the end of the archive
                    raise EOFError("its end mark is missing; it is cut off")
        except (tarfile.TarError, OSError, ValueError, EOFError, OverflowError, RecursionError) as error:
            raise DataError(
                f"{self.path}: cannot be read as a tar file: {error}",
                "Pass a complete .tar, .tar.gz or .tgz; unpack other kinds first.",
            ) from error
        return members

    def _admit(self, info: TarInfo, members: dict[str, tuple[int, int]]) -> None:
        if info.isdir() and info.name.strip("/") in ("", "."):
            return
        name = info.name
        try:
            name = member_name(name, str(self.path))
            if info.isdir():
                return
            if info.issym() or info.islnk():
                raise not_a_file(self.path, name, "link")
            if not info.isreg() or info.issparse():
                raise not_a_file(self.path, name, "special file")
            if name in members or name in self._left_out:
                raise twice(self.path, name)
        except DataError as error:
            if not self._leave_out:
                raise
            if len(self._left_out) >= self.limits.members:
                raise too_much(self.path, "", "more members", f"{self.limits.members:,}") from error
            members.pop(name, None)
            self._left_out[name] = afresh(error)
            return
        if info.size < 0 or (not self._gzip and info.offset_data + info.size > self._size):
            raise damaged(self.path, name, EOFError("it is cut off"))
        check_unpacked(self.path, name, info.size, info.size, self.limits.stream_bytes, self.limits)
        if len(members) >= self.limits.members:
            raise too_much(self.path, "", "more members", f"{self.limits.members:,}")
        members[name] = (info.offset_data, info.size)

    @property
    def left_out(self) -> Mapping[str, DataError]:
        """Omitted members by name, with the reason; see `open_tree`."""
        return self._left_out

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(self._members)

    def exists(self, name: str) -> bool:
        """Return True if the archive has a file of this name. Raises UnsafeArchiveError for a name that leads out."""
        return member_name(name, str(self.path)) in self._members

    def size(self, name: str) -> int:
        """Return the bytes of a member."""
        return self._place(name)[1]

    def blob(self, name: str) -> TarBlob:
        """Return a member, read on demand. Raises DataError if there is none."""
        self._place(name)
        return TarBlob(self, member_name(name, str(self.path)))

    def open(self, name: str) -> IO[bytes]:
        """Open a member as a stream, within `stream_bytes`."""
        return BufferedReader(_Member(self, name, *self._place(name)), 1 << 20)

    def read(self, name: str) -> bytes:
        """Read a member whole, within `read_bytes`. Raises DataError (damaged), UnsafeArchiveError (too large)."""
        offset, size = self._place(name)
        check_unpacked(self.path, name, size, size, self.limits.read_bytes, self.limits)
        return self.read_at(name, offset, size)

    def read_at(self, name: str, offset: int, size: int) -> bytes:
        """Read `size` bytes of the unpacked tar; `name` is for the error message."""
        data = self._gzip.read_at(offset, size) if self._gzip else os.pread(self._descriptor, size, offset)
        if len(data) != size:
            raise damaged(self.path, name, EOFError(f"{len(data):,} of {size:,} bytes are there"))
        return data

    def digest(self) -> str:
        """Return SHA-256 of the archive's bytes; see `snellen.sources.digests`."""
        from snellen.sources.digests import digest

        return digest(self.path)

    def close(self) -> None:
        if self._gzip is not None:
            self._gzip.close()
        elif self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def quick(self, name: str) -> bool:
        """Return True if reading costs less than a thread: never for compressed archives."""
        return self._gzip is None and self._place(name)[1] <= QUICK_STORED

    def _place(self, name: str) -> tuple[int, int]:
        place = self._members.get(name) or self._members.get(plain_name(name, self.path, self._left_out))
        if place is None:
            raise no_member(self.path, name, len(self._members))
        return place


class TarBlob(MemberBlob[TarTree], frozen=True):
    """One member of a tar file."""


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


class _Plain(RawIOBase):
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
