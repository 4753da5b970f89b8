"""Pictures and videos by the paths that rows give: under a folder, in archives that lie in it, or in one archive.

Archives are read in place. A path is looked for as it stands and without its first folder, and a member of an archive may
stand under one folder more, as the authors packed some of them.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from snellen.errors import DataError
from snellen.sources import FolderTree, Tree, Unreadable, open_tree
from snellen.types import Blob

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
DEPTH = 3


class MediaFiles:
    """Files under one root, which is a folder or an archive."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.faults: list[str] = []
        self._folder = FolderTree(root) if root.is_dir() else None
        self._archives: list[Tree] | None = None
        self._index: dict[str, tuple[Tree, str]] = {}

    def find(self, name: str, at: str) -> Blob:
        """The file that a row at `at` (file and line, for messages) calls `name`; Unreadable where there is none."""
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        wanted = "/".join(parts)
        if not parts or ".." in parts:
            return Unreadable(f"{at}: {name!r}", f"{at}: {name!r} is no path under the data's folder", "Mend the row.")
        tails = ["/".join(parts[first:]) for first in range(min(len(parts), DEPTH))]
        if self._folder is not None:
            for tail in tails:
                if self._folder.exists(tail):
                    return self._folder.blob(tail)
        self._open()
        for tail in tails:
            if tail in self._index:
                tree, member = self._index[tail]
                return tree.blob(member)
        looked = f"nor in {len(self._archives or ())} archives there" if self._archives else "and no archive is there"
        hint = "Was the data fetched whole? Give the folder of the media, or the archive, as --images."
        return Unreadable(f"{at}: {wanted}", f"{at}: {wanted} is not under {self.root}, {looked}", hint)

    def _open(self) -> None:
        """Every archive's list of members, read once; a member is known by its path and by its path's shorter ends."""
        if self._archives is not None:
            return
        self._archives = []
        for path in archives(self.root):
            try:
                tree = open_tree(path, leave_out=True)
            except DataError as error:
                self.faults.append(error.message)
                continue
            self._archives.append(tree)
            for member in tree.names():
                parts = member.split("/")
                for first in range(min(len(parts), DEPTH)):
                    self._index.setdefault("/".join(parts[first:]), (tree, member))


def archives(root: Path) -> list[Path]:
    """The archive itself, or those in a folder and its folders, sorted by name."""
    if not root.is_dir():
        return [root]
    return sorted(path for path in root.rglob("*") if path.name.lower().endswith(ARCHIVES) and path.is_file())


def media_files(root: Path) -> MediaFiles:
    """The files under a root; its archives are opened once a process."""
    return _kept(root, os.getpid())


@lru_cache(maxsize=16)
def _kept(root: Path, process: int) -> MediaFiles:
    # By process, too: a forked one must not share the position in an archive.
    return MediaFiles(root)
