"""Zip files read in place, without trust.

All names are checked when the archive is opened: a member that leaves its root, a link, a device, an encrypted member
or duplicate members make the whole archive an error or, with `leave_out`, are omitted. Sizes are checked at opening (as
declared) and again during reading. Nested archives are not opened. Nothing is unpacked to disk.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Mapping
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from msgspec import Struct

from snellen.errors import DataError, UnsafeArchiveError
from snellen.sources.safe_paths import member_name, regular_file

QUICK_STORED, QUICK_DEFLATED = 1 << 20, 1 << 16


class Limits(Struct, frozen=True):
    """Limits of an archive's unpacked size, in bytes unless stated otherwise.

    Attributes:
        read_bytes: one member read whole into memory.
        stream_bytes: one member read as a stream.
        total_bytes: all members together, and all of a compressed tar.
        ratio: unpacked to packed, checked from `ratio_from` unpacked bytes on (small flat images compress well).
        members: number of members.
    """

    read_bytes: int = 1 << 30
    stream_bytes: int = 1 << 36
    total_bytes: int = 1 << 42
    ratio: int = 200
    ratio_from: int = 16 << 20
    members: int = 5_000_000


class ZipTree:
    """The members of a zip file. Thread-safe; can be pickled (it opens its file again)."""

    def __init__(self, path: Path | str, limits: Limits | None = None, *, leave_out: bool = False) -> None:
        """Open and check the archive. Raises DataError (no zip, encrypted), UnsafeArchiveError (all else above)."""
        self.path = Path(path)
        self.limits = limits or Limits()
        self._leave_out = leave_out
        self._left_out: dict[str, DataError] = {}
        regular_file(self.path)
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, zlib.error) as error:
            raise DataError(
                f"{self.path}: cannot be opened as a zip file: {error}", "It is damaged or cut off; fetch it again."
            ) from error
        try:
            self._members = self._checked()
        except BaseException:
            self._zip.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ZipTree, leave_out=self._leave_out), (self.path, self.limits)

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        infos = self._zip.infolist()
        if len(infos) > self.limits.members:
            raise too_much(self.path, "", f"{len(infos):,} members", f"{self.limits.members:,}")
        total = 0
        where = str(self.path)
        for info in infos:
            # ZipInfo.filename is cut at a NUL; orig_filename is what the archive really says.
            name = info.orig_filename.rstrip("/") or "/"
            try:
                name = member_name(name, where)
                self._check_kind(info, name)
                if info.is_dir():
                    continue
                if name in members or name in self._left_out:
                    raise twice(self.path, name)
            except DataError as error:
                if not self._leave_out:
                    raise
                members.pop(name, None)
                self._left_out[name] = afresh(error)
                continue
            check_unpacked(self.path, name, info.file_size, info.compress_size, self.limits.stream_bytes, self.limits)
            total += info.file_size
            if total > self.limits.total_bytes:
                raise too_much(self.path, "", f"more than {self.limits.total_bytes:,} bytes in all", "that")
            members[name] = info
        return members

    def _check_kind(self, info: zipfile.ZipInfo, name: str) -> None:
        kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == 3 else 0
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise not_a_file(self.path, name, "symbolic link" if kind == stat.S_IFLNK else "special file")
        if info.flag_bits & 0x1 and not info.is_dir():
            raise DataError(f"{self.path}: member {name!r} is encrypted", "Unpack it with its password first.")

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
        """Return the declared unpacked bytes."""
        return self._info(name).file_size

    def checksum(self, name: str) -> int:
        """Return the declared CRC-32 of the unpacked bytes; reading verifies it."""
        return self._info(name).CRC

    def blob(self, name: str) -> ZipBlob:
        """Return a member, read on demand. Raises DataError if there is none."""
        self._info(name)
        return ZipBlob(self, member_name(name, str(self.path)))

    def open(self, name: str) -> IO[bytes]:
        """Open a member as a stream, within `stream_bytes`."""
        return self._opened(name, self.limits.stream_bytes)

    def read(self, name: str) -> bytes:
        """Read a member whole, within `read_bytes`. Raises DataError (damaged), UnsafeArchiveError (too large)."""
        info = self._info(name)
        check_unpacked(self.path, name, info.file_size, info.compress_size, self.limits.read_bytes, self.limits)
        with self._opened(name, self.limits.read_bytes) as stream:
            return stream.read()

    def digest(self) -> str:
        """Return SHA-256 of the archive's bytes; see `snellen.sources.digests`."""
        from snellen.sources.digests import digest

        return digest(self.path)

    def close(self) -> None:
        self._zip.close()

    def quick(self, name: str) -> bool:
        """Return True if reading costs less than a thread."""
        info = self._members.get(name)
        if info is None:
            return True
        return info.compress_size <= (QUICK_STORED if info.compress_type == zipfile.ZIP_STORED else QUICK_DEFLATED)

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self._members.get(name) or self._members.get(plain_name(name, self.path, self._left_out))
        if info is None:
            raise no_member(self.path, name, len(self._members))
        return info

    def _opened(self, name: str, limit: int) -> IO[bytes]:
        info = self._info(name)
        try:
            raw = self._zip.open(info)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
            raise damaged(self.path, name, error) from error
        return BufferedReader(_Watched(raw, self.path, name, limit, info.compress_size, self.limits), 1 << 16)


class Packed(Protocol):
    """The methods of an archive that a member needs."""

    path: Path

    def quick(self, name: str) -> bool: ...

    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> IO[bytes]: ...


P = TypeVar("P", bound=Packed)


class MemberBlob(Struct, Generic[P], frozen=True):
    """One member of an archive."""

    tree: P
    name: str

    @property
    def key(self) -> str:
        return f"{self.tree.path}!{self.name}"

    @property
    def quick(self) -> bool:
        return self.tree.quick(self.name)

    def read(self) -> bytes:
        return self.tree.read(self.name)

    def open(self) -> IO[bytes]:
        return self.tree.open(self.name)


class ZipBlob(MemberBlob[ZipTree], frozen=True):
    """One member of a zip file."""


class _Watched(RawIOBase):
    """A member's stream that counts its bytes and names the archive in every error."""

    def __init__(self, raw: IO[bytes], path: Path, name: str, limit: int, packed: int, limits: Limits) -> None:
        self._raw, self._path, self._name = raw, path, name
        self._most, self._packed, self._limits = limit, packed, limits
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
        check_unpacked(self._path, self._name, self._out, self._packed, self._most, self._limits)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def check_unpacked(path: Path, name: str, unpacked: int, packed: int, limit: int, limits: Limits) -> None:
    """Raise UnsafeArchiveError if `unpacked` bytes are more than `limit`, or too many for `packed` bytes."""
    if unpacked > limit:
        raise too_much(path, name, f"{unpacked:,} bytes or more", f"{limit:,}")
    if unpacked > limits.ratio_from and unpacked > limits.ratio * max(packed, 1):
        raise too_much(
            path, name, f"{unpacked:,} bytes or more from {packed:,}", f"{limits.ratio} times its packed size"
        )


def too_much(path: Path, name: str, size: str, limit: str) -> UnsafeArchiveError:
    member = f" member {name!r}" if name else ""
    return UnsafeArchiveError(
        f"{path}:{member} unpacks to {size}; at most {limit} is read",
        "It may be a decompression bomb. If you trust it, unpack it and pass the folder.",
    )


def not_a_file(path: Path, name: str, kind: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(
        f"{path}: member {name!r} is a {kind}; only files and folders are read from archives",
        "Rebuild the archive with the files themselves (tar -h follows links).",
    )


def twice(path: Path, name: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(
        f"{path}: duplicate member {name!r}; programs differ in which one they read",
        "Rebuild the archive without duplicates.",
    )


def plain_name(name: str, path: Path, left_out: Mapping[str, DataError]) -> str:
    """Return the name as `member_name` does. Raises the reason if that member was omitted."""
    error = left_out.get(name)
    if error is None:
        name = member_name(name, str(path))
        error = left_out.get(name)
    if error is not None:
        raise afresh(error)
    return name


def afresh(error: DataError) -> DataError:
    """Return the same error without its traceback, which would be held and grow at every raise."""
    return type(error)(error.message, error.hint)


def no_member(path: Path, name: str, count: int) -> DataError:
    return DataError(f"{path}: no member {name!r} among its {count:,}", "Check the name; upper and lower case differ.")


def damaged(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{path}: member {name!r} cannot be read: {error}", "The archive is damaged; fetch it again.")
