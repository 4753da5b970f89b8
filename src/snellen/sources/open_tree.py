"""Opening of a folder, a zip or a tar by its name; the readers of archives are imported where one is opened."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from snellen.errors import DataError, UsageError
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import ArchiveLimits, FolderTree, Tree

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
        from snellen.sources.zip_archive import ZipTree  # few runs read archives

        return ZipTree(where, limits, leave_out=leave_out)
    if name.endswith(TARS):
        from snellen.sources.tar_archive import TarTree

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
