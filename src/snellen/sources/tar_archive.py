"""Tar and tar.gz files read in place: one pass indexes the members, then they are read by position.

Checks are as strict as for zip (`ArchiveTree`); links, devices and sparse members are refused. A .tar.gz is read by
position too, without unpacking it: during the first pass the state of the decompressor is kept every megabyte (zlib can
copy it, about 40 kB). A later read starts from the nearest state and decompresses at most one interval more than it needs.
The interval doubles when there are too many states, so memory stays under about 40 MB for any file size. .tar.bz2, .tar.xz
and .tar.zst are refused, since every read would unpack them from the beginning.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from io import BufferedReader, RawIOBase, UnsupportedOperation
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from snellen.errors import DataError
from snellen.sources.tree import QUICK_STORED, ArchiveLimits, ArchiveTree, check_unpacked, damaged, too_much

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


CHUNK = 1 << 16
STEP = 1 << 20
INTERVAL = 1 << 20
MAX_STATES = 1024
GZIP = 16 + zlib.MAX_WBITS


class GzipFile:
    """Random access to the unpacked bytes of a gzip file. Reads are independent of each other and thread-safe."""

    def __init__(self, path: Path, limits: ArchiveLimits) -> None:
        self.path = path
        self.limits = limits
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = Lock()
        self._interval = INTERVAL
        # States are only ever copied, never advanced in place.
        self._states = [_State(0, 0, True, zlib.decompressobj(GZIP))]

    def read_at(self, offset: int, size: int) -> bytes:
        """Read `size` unpacked bytes from `offset` on, fewer at the end of the stream.

        Raises:
            DataError: the stream is damaged or cut off.
            UnsafeArchiveError: the output exceeds the limits.
        """
        return GzipStream(self, size, offset).read(size)

    def close(self) -> None:
        os.close(self._descriptor)

    def packed_bytes(self, offset: int) -> bytes:
        """Read a chunk of the compressed file; empty at its end."""
        return os.pread(self._descriptor, CHUNK, offset)

    def nearest(self, offset: int) -> _State:
        """Return a copy of the last kept state at or before `offset`."""
        with self._lock:
            state = self._states[bisect_right(self._states, offset, key=lambda state: state.out) - 1]
            return state._replace(inflate=state.inflate.copy())

    def keep(self, out: int, packed: int, fresh: bool, inflate: Any) -> None:
        """Keep a copy of a state, if the last one is at least one interval back."""
        if out < self._states[-1].out + self._interval:
            return
        with self._lock:
            if out < self._states[-1].out + self._interval:
                return
            self._states.append(_State(out, packed, fresh, inflate.copy()))
            if len(self._states) > MAX_STATES:
                self._states = self._states[::2]
                self._interval *= 2


class _State(NamedTuple):
    """The decompressor after `out` unpacked and `packed` packed bytes; `fresh`: at the beginning of a stream."""

    out: int
    packed: int
    fresh: bool
    inflate: Any


class GzipStream(RawIOBase):
    """A `GzipFile` as a stream: cheap forward, and backward by way of the kept states.

    One read is at most `limit` bytes: tarfile reads a header at the size that the archive claims.
    """

    def __init__(self, file: GzipFile, limit: int, at: int = 0) -> None:
        self._file, self._most, self._at = file, limit, at
        self._start, self._data, self._pending = 0, b"", b""
        self._state = file.nearest(at)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            raise UnsupportedOperation("the end of a gzip stream is not known")
        self._at = offset if whence == os.SEEK_SET else self._at + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._most:
            raise too_much(self._file.path, "", f"a header of {size:,} bytes", f"{self._most:,}")
        if self._at < self._start:
            self._state, self._data, self._pending = self._file.nearest(self._at), b"", b""
        pieces: list[bytes] = []
        while size > 0:
            # `_data` is the last piece that was unpacked; it begins at `_start` and ends at the state's `out`.
            piece = self._data[self._at - self._start : self._at - self._start + size] if self._data else b""
            if piece:
                pieces.append(piece)
                self._at += len(piece)
                size -= len(piece)
            elif not self._unpack():
                break
        return b"".join(pieces)

    def _unpack(self) -> bool:
        """Unpack the next piece, of at most 1 MiB, into `_data`; return False at the end of the file."""
        out, packed, fresh, inflate = self._state
        file = self._file
        while True:
            ended = False
            if not self._pending:
                self._pending = file.packed_bytes(packed)
                packed += len(self._pending)
                ended = not self._pending
                if fresh:  # between two streams: padding, another stream, or the end
                    if ended:
                        return False
                    self._pending = self._pending.lstrip(b"\0")
                    if not self._pending:
                        continue
            try:
                data = inflate.decompress(self._pending, STEP)
            except zlib.error as error:
                raise _damaged(file.path, str(error)) from error
            if ended and not data and not inflate.eof:
                raise _damaged(file.path, "it is cut off")
            fresh = inflate.eof
            if fresh:
                packed -= len(inflate.unused_data)
                self._pending, inflate = b"", zlib.decompressobj(GZIP)
            else:
                self._pending = inflate.unconsumed_tail
            self._start, out = out, out + len(data)
            check_unpacked(file.path, "", out, packed, file.limits.total_bytes, file.limits)
            if not self._pending:
                file.keep(out, packed, fresh, inflate)
            if data:
                self._data = data
                self._state = _State(out, packed, fresh, inflate)
                return True


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path}: cannot be unpacked: {why}", "The archive is damaged; fetch it again.")
