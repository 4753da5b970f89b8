"""Open folders, zip files and tar files by one interface (`Tree`)."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import IO

from snellen.errors import DataError, UsageError
from snellen.sources.archive import ArchiveLimits, Tree
from snellen.sources.blobs import FileBlob
from snellen.sources.safe_paths import regular_file, within
from snellen.sources.tar_archive import TarTree
from snellen.sources.zip_archive import ZipTree

TARS = (".tar", ".tar.gz", ".tgz")
NOT_IN_PLACE = (".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar")


def open_tree(path: Path | str | None, limits: ArchiveLimits | None = None, *, leave_out: bool = False) -> Tree:
    """Open a folder, .zip, .tar, .tar.gz or .tgz, read in place.

    Args:
        path: the folder or archive; None, as `data.images` is where the user named none, is an error.
        limits: limits of unpacking; not used for folders.
        leave_out: omit unsafe members (a name that leaves the root, a link, a device, an encrypted member, duplicates)
            and read the rest; `Tree.left_out` gives the reasons. Without it they refuse the whole archive.

    Raises:
        UsageError: `path` is None.
        DataError: nothing there, another kind of file, damaged, encrypted.
        UnsafeArchiveError: links, names that leave the root, too much to unpack.
    """
    if path is None:
        raise UsageError(
            "this benchmark needs a folder or an archive that was not named",
            "Add --images PATH to the command; --data PATH if the benchmark opens data.path.",
        )
    where = Path(path)
    if where.is_dir():
        return FolderTree(where)
    regular_file(where)
    name = where.name.lower()
    if name.endswith(".zip"):
        return ZipTree(where, limits, leave_out=leave_out)
    if name.endswith(TARS):
        return TarTree(where, limits, leave_out=leave_out)
    hint = "Unpack it first, and pass the folder." if name.endswith(NOT_IN_PLACE) else "Pass the folder that holds it."
    raise DataError(f"{where}: a folder, .zip, .tar, .tar.gz or .tgz was expected", hint)


def kept_tree(path: Path) -> Tree:
    """Open a folder or archive; an archive's directory is read once per process, while the file stays the same.

    Unsafe members are omitted (`Tree.left_out`).

    Raises:
        DataError: as `open_tree`.
    """
    if path.is_dir():
        return FolderTree(path)
    status = regular_file(path)
    return _kept(path, status.st_mtime_ns, status.st_size, os.getpid())


@lru_cache(maxsize=64)
def _kept(path: Path, changed: int, size: int, process: int) -> Tree:
    # By process, too: a forked one must not share the position in the file.
    return open_tree(path, leave_out=True)


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

    def blob(self, name: str) -> FileBlob:
        path = within(self.path, name, self._allow)
        regular_file(path)
        return FileBlob(path)

    def open(self, name: str) -> IO[bytes]:
        return self.blob(name).open()

    def read(self, name: str) -> bytes:
        return self.blob(name).read()
