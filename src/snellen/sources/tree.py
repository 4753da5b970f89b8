"""Folders, zip files and tar files by one interface (`Tree`), and the limits of unpacking."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from msgspec import Struct

from snellen.errors import DataError, UnsafeArchiveError
from snellen.sources.blobs import FileBlob
from snellen.sources.safe_paths import member_name, regular_file, within
from snellen.types import Blob

QUICK_STORED = 1 << 20


class ArchiveLimits(Struct, frozen=True):
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


class Tree(ABC):
    """Files under a root. Names are relative, with `/`; a name that leads out of the root is an UnsafeArchiveError.

    Attributes:
        path: the folder or archive.
        left_out: omitted members by name, with the reason. They are not among the names; reading one raises the reason.
    """

    path: Path
    left_out: Mapping[str, DataError]

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all files, sorted."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return True if there is a file of this name. Raises UnsafeArchiveError for a name that leads out."""

    @abstractmethod
    def blob(self, name: str) -> Blob:
        """Return a file, read on demand. Raises DataError if there is none."""

    def find(self, name: str) -> Blob | None:
        """Return a file, None where there is none. Raises DataError for one that was omitted or leads out of the root."""
        return self.blob(name) if name in self.left_out or self.exists(name) else None

    @abstractmethod
    def files_in(self, folder: str) -> list[Blob]:
        """Return the files right in a folder; empty where there is none. Raises UnsafeArchiveError for one that leads out."""

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file as a stream."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Read a file whole. Raises DataError (damaged), UnsafeArchiveError (too large)."""

    def close(self) -> None:
        """Close the file, if one is held open."""
        return


MAX_CHECKED = 1 << 16


class FolderTree(Tree):
    """Files under a folder. Symbolic links are followed as long as they stay inside."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.left_out: dict[str, DataError] = {}  # a link that leads out is an error when it is asked for
        # In the hub's cache the files of snapshots/<revision>/ are links into the folder `blobs` beside `snapshots`.
        self._allow = tuple(
            folder.parent / "blobs"
            for folder in self.path.absolute().parents
            if folder.name == "snapshots" and (folder.parent / "blobs").is_dir()
        )
        self._checked: set[str] = set()

    def names(self) -> list[str]:
        """Return the names of all files, sorted; linked folders are not entered, unreadable files are omitted."""
        names: list[str] = []
        top = str(self.path)
        for folder, _, files in os.walk(top):
            inner = os.path.relpath(folder, top).replace(os.sep, "/")
            prefix = "" if inner == "." else inner + "/"
            names.extend(prefix + file for file in files if (Path(folder) / file).is_file())
        return sorted(names)

    def exists(self, name: str) -> bool:
        return within(self.path, name, self._allow).is_file()

    def find(self, name: str) -> FileBlob | None:
        """Return a file as `Tree.find`, at the cost of one look at the disk: that its folder is inside is checked once."""
        folder = name.rpartition("/")[0]
        if folder and folder not in self._checked:
            within(self.path, folder, self._allow)
            if len(self._checked) >= MAX_CHECKED:
                self._checked.clear()
            self._checked.add(folder)
        path = f"{self.path}/{name}"
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):
            return None
        if stat.S_ISLNK(mode):
            return self.blob(name) if self.exists(name) else None
        return FileBlob(Path(path)) if stat.S_ISREG(mode) else None

    def names_in(self, folder: str) -> frozenset[str]:
        """Return all names in a folder, in lower case; none where it is not there. Raises UnsafeArchiveError as `files_in`."""
        place = within(self.path, folder, self._allow) if folder else self.path
        try:
            return frozenset(map(str.lower, os.listdir(place)))  # noqa: PTH208 - names, not paths
        except OSError:
            return frozenset()

    def files_in(self, folder: str) -> list[Blob]:
        place = within(self.path, folder, self._allow)
        try:
            with os.scandir(place) as entries:
                files = [(entry.name, entry.is_symlink()) for entry in entries if entry.is_file()]
        except OSError:  # not there, no folder, or a name that is too long
            return []
        return [self.blob(f"{folder}/{name}") if is_link else FileBlob(place / name) for name, is_link in files]

    def blob(self, name: str) -> FileBlob:
        path = within(self.path, name, self._allow)
        regular_file(path)
        return FileBlob(path)

    def open(self, name: str) -> IO[bytes]:
        return self.blob(name).open()

    def read(self, name: str) -> bytes:
        return self.blob(name).read()


M = TypeVar("M")


class ArchiveTree(Tree, Generic[M]):
    """The members of an archive, all checked when it is opened. Can be pickled: it opens its file again.

    A member that leaves its root, is no regular file or has a name twice makes the whole archive an error or, with
    `leave_out`, is omitted.
    """

    def __init__(self, path: Path | str, limits: ArchiveLimits | None = None, *, leave_out: bool = False) -> None:
        """Prepare the list of members. Raises DataError if the file is missing or not regular."""
        self.path = Path(path)
        self.limits = limits or ArchiveLimits()
        self.left_out: dict[str, DataError] = {}
        self._leave_out = leave_out
        self._file_bytes = regular_file(self.path).st_size
        self._members: dict[str, M] = {}
        self._total = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), leave_out=self._leave_out), (self.path, self.limits)

    @abstractmethod
    def size(self, name: str) -> int:
        """Return the unpacked bytes of a member, as declared."""

    def checksum(self, name: str) -> int | None:
        """Return the declared CRC-32 of the unpacked bytes, which reading verifies; None where the archive declares none."""
        return None

    @abstractmethod
    def quick(self, name: str) -> bool:
        """Return True if reading costs less than a thread."""

    def names(self) -> list[str]:
        return sorted(self._members)

    def exists(self, name: str) -> bool:
        return member_name(name, str(self.path)) in self._members

    def files_in(self, folder: str) -> list[Blob]:
        return [MemberBlob(self, name) for name in self._folders.get(member_name(folder, str(self.path)), ())]

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """Members by their folder."""
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._members:
            folders[name.rpartition("/")[0]].append(name)
        return dict(folders)

    def blob(self, name: str) -> MemberBlob:
        self._member(name)
        return MemberBlob(self, member_name(name, str(self.path)))

    def _admit(self, name: str, kind: str, member: M, size: int, packed: int) -> None:
        """Check a member of `size` unpacked and `packed` packed bytes, and list it if its kind is "file"."""
        try:
            name = member_name(name, str(self.path))
            if kind == "folder":
                return
            if kind == "encrypted":
                raise DataError(f"{self.path}: member {name!r} is encrypted", "Unpack it with its password first.")
            if kind != "file":
                raise UnsafeArchiveError(
                    f"{self.path}: member {name!r} is a {kind}; only files and folders are read from archives",
                    "Rebuild the archive with the files themselves (tar -h follows links).",
                )
            if name in self._members or name in self.left_out:
                raise UnsafeArchiveError(
                    f"{self.path}: duplicate member {name!r}; programs differ in which one they read",
                    "Rebuild the archive without duplicates.",
                )
        except DataError as error:
            if not self._leave_out:
                raise
            if len(self.left_out) >= self.limits.members:
                raise self._too_many() from error
            self._members.pop(name, None)
            self.left_out[name] = _afresh(error)
            return
        check_unpacked(self.path, name, size, packed, self.limits.stream_bytes, self.limits)
        if len(self._members) >= self.limits.members:
            raise self._too_many()
        self._total += size
        if self._total > self.limits.total_bytes:
            raise too_much(self.path, "", f"more than {self.limits.total_bytes:,} bytes in all", "that")
        self._members[name] = member

    def _member(self, name: str) -> M:
        member = self._members.get(name)
        if member is not None:
            return member
        if name not in self.left_out:
            name = member_name(name, str(self.path))
        if name in self.left_out:
            raise _afresh(self.left_out[name])
        if name not in self._members:
            count = len(self._members)
            raise DataError(
                f"{self.path}: no member {name!r} among its {count:,}", "Check the name; upper and lower case differ."
            )
        return self._members[name]

    def _too_many(self) -> UnsafeArchiveError:
        return too_much(self.path, "", f"more than {self.limits.members:,} members", "that")


class MemberBlob(Struct, frozen=True):
    """One member of an archive."""

    tree: ArchiveTree[Any]
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


def check_unpacked(path: Path, name: str, unpacked: int, packed: int, limit: int, limits: ArchiveLimits) -> None:
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


def damaged(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{path}: member {name!r} cannot be read: {error}", "The archive is damaged; fetch it again.")


def _afresh(error: DataError) -> DataError:
    """Return the same error without its traceback, which would be held and grow at every raise."""
    return type(error)(error.message, error.hint)
