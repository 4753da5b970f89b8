"""Zip files read in place, without trust.

All names are checked when the archive is opened (`ArchiveTree`), backslashes as slashes; links, devices and encrypted members are refused. Sizes are checked at opening (as declared) and again during reading. Nested archives are not opened. Nothing is unpacked
to disk.

Of .npz files, the size in an array's header is compared with the bytes in the archive.
"""

from __future__ import annotations

import math
import stat
import zipfile
import zlib
from io import BufferedReader, RawIOBase
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

from snellen.errors import DataError
from snellen.sources.tree import QUICK_STORED, ArchiveLimits, ArchiveTree, check_unpacked, damaged, too_much

QUICK_DEFLATED = 1 << 16


class ZipTree(ArchiveTree[zipfile.ZipInfo]):
    """The members of a zip file. Thread-safe."""

    def __init__(self, path: Path | str, limits: ArchiveLimits | None = None, *, leave_out: bool = False) -> None:
        """Open and check the archive. Raises DataError (no zip, encrypted), UnsafeArchiveError (all else above)."""
        super().__init__(path, limits, leave_out=leave_out)
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, zlib.error) as error:
            raise DataError(
                f"{self.path}: cannot be opened as a zip file: {error}", "It is damaged or cut off; fetch it again."
            ) from error
        try:
            infos = self._zip.infolist()
            if len(infos) > self.limits.members:
                raise too_much(self.path, "", f"{len(infos):,} members", f"{self.limits.members:,}")
            for info in infos:
                # ZipInfo.filename is cut at a NUL; orig_filename is what the archive really says. Programs for Windows
                # write backslashes, which the format forbids; the name is checked after they are replaced.
                whole = info.orig_filename.replace("\\", "/")
                kind = _kind(info, is_folder=whole.endswith("/"))
                self._admit(whole.rstrip("/") or "/", kind, info, info.file_size, info.compress_size)
        except BaseException:
            self._zip.close()
            raise

    def size(self, name: str) -> int:
        return self._member(name).file_size

    def checksum(self, name: str) -> int:
        return self._member(name).CRC

    def open(self, name: str) -> IO[bytes]:
        """Open a member as a stream, within `stream_bytes`."""
        return self._opened(name, self.limits.stream_bytes)

    def read(self, name: str) -> bytes:
        """Read a member whole, within `read_bytes`. Raises DataError (damaged), UnsafeArchiveError (too large)."""
        info = self._member(name)
        check_unpacked(self.path, name, info.file_size, info.compress_size, self.limits.read_bytes, self.limits)
        with self._opened(name, self.limits.read_bytes) as stream:
            return stream.read()

    def close(self) -> None:
        self._zip.close()

    def quick(self, name: str) -> bool:
        info = self._members.get(name)
        if info is None:
            return True
        return info.compress_size <= (QUICK_STORED if info.compress_type == zipfile.ZIP_STORED else QUICK_DEFLATED)

    def _opened(self, name: str, limit: int) -> IO[bytes]:
        info = self._member(name)
        try:
            raw = self._zip.open(info)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
            raise damaged(self.path, name, error) from error
        return BufferedReader(_Watched(raw, self.path, name, limit, info.compress_size, self.limits), 1 << 16)


def _kind(info: zipfile.ZipInfo, *, is_folder: bool) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == 3 else 0
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "symbolic link" if kind == stat.S_IFLNK else "special file"
    if is_folder:
        return "folder"
    return "encrypted" if info.flag_bits & 0x1 else "file"


class _Watched(RawIOBase):
    """A member's stream that counts its bytes and names the archive in every error."""

    def __init__(self, raw: IO[bytes], path: Path, name: str, limit: int, packed: int, limits: ArchiveLimits) -> None:
        self._raw, self._path, self._name = raw, path, name
        self._max_bytes, self._packed, self._limits = limit, packed, limits
        self._out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        try:
            data = self._raw.read(len(view))
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, zlib.error, RuntimeError) as error:
            raise damaged(self._path, self._name, error) from error
        self._out += len(data)
        check_unpacked(self._path, self._name, self._out, self._packed, self._max_bytes, self._limits)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


LIMITS = ArchiveLimits()


def check_npz(path: Path, kind: str = ".npz") -> None:
    """Raise for an archive of arrays that claims more bytes than it holds, or an implausible compression ratio.

    Args:
        kind: what messages say that the archive should be: files of torch are zip archives too.

    Raises:
        DataError: it is no zip file, or an array's header is damaged or claims too much.
        UnsafeArchiveError: a member unpacks to more than `zip_archive.Limits` allow.
    """
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            total = 0
            for member in archive.infolist():
                packed = min(member.compress_size, size)
                total += member.file_size
                check_unpacked(path, member.filename, member.file_size, packed, LIMITS.stream_bytes, LIMITS)
                check_unpacked(path, member.filename, total, total, LIMITS.total_bytes, LIMITS)
                if member.filename.endswith(".npy"):
                    with archive.open(member) as stream:
                        check_header(stream, member.file_size, f"{path}: {member.filename}")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise DataError(f"{path} cannot be read as {kind}: {error}", "The file is damaged; save it again.") from error


def check_header(stream: IO[bytes], size: int, where: str) -> None:
    """Raise DataError if an .npy stream of `size` bytes has a damaged header, or one that claims more than it holds."""
    import numpy as np

    forms: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(stream)
        if version not in forms:
            raise ValueError(f"version {version}")  # 3.0 is for field names, which no array here has
        shape, _, dtype = forms[version](stream)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, TokenError) as error:
        raise DataError(f"{where}: its header is damaged: {error}", "Save it again with numpy.") from error
    size -= stream.tell()
    claimed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and (claimed > size or min(shape, default=0) < 0):
        raise DataError(
            f"{where}: claims an array of shape {list(shape)}, {claimed:,} bytes, and holds {size:,}",
            "The file is damaged; save it again with numpy.",
        )
