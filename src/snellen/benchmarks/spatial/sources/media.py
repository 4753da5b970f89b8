"""Images and videos by the paths that rows give: under a folder, in archives that lie in it, or in one archive.

Archives are read in place. What a row calls `scannet/scene0011_00.mp4` may lie, beside under that very path,

- under one folder of the root more, as an unpacked archive does (`OmniSpatial-test/...`);
- in an archive, under its first one or two folders more, or without a folder of the archive's own name;
- without the first one or two folders of the row's path (`ViewSpatial-Bench/val2017/...`).

Only one of these differences is bridged at a time, a folder's name always remains to compare, and where two members could be
meant neither is taken: another question's image is worse than none.
"""

from __future__ import annotations

import os
from pathlib import Path

from snellen.errors import DataError
from snellen.sources import FileBlob, FolderTree, Tree, Unreadable, kept_tree, member_name, within
from snellen.types import Blob

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
DEPTH = 3  # folders below the root in which archives and tables are looked for
MORE = 2  # leading folders that a path and a member may differ by


class MediaFiles:
    """Files under one root, which is a folder or an archive. Lists of names are read once, when they are first needed."""

    def __init__(self, root: Path, *, by_name: bool = False) -> None:
        """Prepare the look-up.

        Args:
            root: the folder or archive.
            by_name: find a path of a name alone by that name in any folder of the archives, where only one member has it.
        """
        self.root = root
        self._by_name = by_name
        self._named: dict[str, tuple[Tree, str] | None] | None = None
        self.faults: list[str] = []
        self._folder = _Folder(root) if root.is_dir() else None
        self._inner = [_Folder(folder) for folder in _subfolders(root)] if root.is_dir() else []
        self._opened: list[Tree] | None = None
        self._shortened: dict[str, tuple[Tree, str] | None] | None = None

    def find(self, name: str, at: str) -> Blob:
        """Return the file that a row at `at` (file and line, for messages) calls `name`.

        Unreadable where there is none.
        """
        try:
            wanted = member_name(name.removeprefix("/").replace("\\", "/"), at)
            file = self._find(wanted)
        except DataError as error:
            return Unreadable(f"{at}: {name[:200]!r}", error.message, "Fix or remove the row.")
        if file is not None:
            return file
        many = len(self._archives())
        looked = f"nor in {many} archive{'s' if many > 1 else ''} there" if many else "and no archive is there"
        hint = "Fetch the data again, or give the media's folder or archive as --images."
        return Unreadable(f"{at}: {wanted}", f"{at}: {wanted} is not under {self.root}, {looked}", hint)

    def _find(self, wanted: str) -> Blob | None:
        parts = wanted.split("/")
        if self._folder is not None and (file := self._folder.file(parts)) is not None:
            return file
        inner = [file for folder in self._inner if (file := folder.file(parts)) is not None]
        if len(inner) == 1:
            return inner[0]
        for tree in self._archives():
            if tree.exists(wanted):
                return tree.blob(wanted)
        for tree in self._archives():
            if len(parts) > 1 and parts[0] == _stem(tree.path) and tree.exists("/".join(parts[1:])):
                return tree.blob("/".join(parts[1:]))
        if len(parts) > 1 and (member := self._longer().get(wanted)) is not None:
            return member[0].blob(member[1])
        if self._folder is not None and len(parts) > 1 and parts[0] == self.root.absolute().name:
            within = self._folder.file(parts[1:])
            if within is not None:
                return within
        for first in range(1, min(MORE, len(parts) - 2) + 1):
            rest = parts[first:]
            if self._folder is not None and (file := self._folder.file(rest)) is not None:
                return file
            for tree in self._archives():
                for tail in (rest, rest[1:]) if rest[0] == _stem(tree.path) else (rest,):
                    if tree.exists("/".join(tail)):
                        return tree.blob("/".join(tail))
        if self._by_name and len(parts) == 1 and (member := self._members().get(wanted)) is not None:
            return member[0].blob(member[1])
        return None

    def _members(self) -> dict[str, tuple[Tree, str] | None]:
        """Members by their names without folders; None for a name that two have."""
        if self._named is None:
            self._named = {}
            for tree in self._archives():
                for member in tree.names():
                    name = member.rpartition("/")[2]
                    self._named[name] = None if name in self._named else (tree, member)
        return self._named

    def _archives(self) -> list[Tree]:
        if self._opened is None:
            self._opened = []
            for path in archives(self.root):
                try:
                    self._opened.append(kept_tree(path))
                except DataError as error:
                    self.faults.append(error.message)
        return self._opened

    def _longer(self) -> dict[str, tuple[Tree, str] | None]:
        """Members by their paths without the first folders; None for a path that two members have."""
        if self._shortened is None:
            self._shortened = {}
            for tree in self._archives():
                for member in tree.names():
                    parts = member.split("/")
                    for first in range(1, min(MORE, len(parts) - 2) + 1):
                        tail = "/".join(parts[first:])
                        again = self._shortened.get(tail, (tree, member))
                        same = again is not None and again[1] == member
                        self._shortened[tail] = again if same else None
        return self._shortened


class _Folder:
    """One folder: what lies in each of its folders is listed once, so that a frame among thousands costs a look-up."""

    def __init__(self, root: Path) -> None:
        self._tree = FolderTree(root)
        self._plain: dict[str, dict[str, bool]] = {}

    def file(self, parts: list[str]) -> Blob | None:
        """Return the file of these parts of a path; None where there is none.

        Raises:
            UnsafeArchiveError: a link on the way leads out of the folder.
        """
        folder, name = "/".join(parts[:-1]), parts[-1]
        if folder not in self._plain:
            self._plain[folder] = self._listed(folder)
        plain = self._plain[folder].get(name)
        if plain is None:
            return None
        if plain:
            return FileBlob(self._tree.path.joinpath(*parts))
        wanted = "/".join(parts)
        return self._tree.blob(wanted) if self._tree.exists(wanted) else None

    def _listed(self, folder: str) -> dict[str, bool]:
        """Return name to whether it is a file in the folder itself, for which it is enough that the folder is inside.

        Anything else (a link, as in the hub's cache, or a folder) is looked at when it is asked for.
        """
        try:
            with os.scandir(self._tree.path / folder) as entries:
                plain = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
        except OSError:
            return {}
        if folder:
            try:
                within(self._tree.path, folder)
            except DataError:  # by a link; the hub's cache has some that are allowed, and each file is looked at
                return dict.fromkeys(plain, False)
        return plain


def _stem(path: Path) -> str:
    """Return an archive's name without its suffix."""
    return next(path.name[: -len(suffix)] for suffix in (*ARCHIVES, "") if path.name.lower().endswith(suffix))


def _subfolders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))[:64]


def nearby_files(root: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of these suffixes in a folder and a few folders down, sorted; hidden folders are passed over.

    Not the whole tree: media that were unpacked beside may be a million files.
    """
    paths: list[Path] = []
    top = len(root.parts)
    for folder, inner, files in os.walk(root):
        where = Path(folder)
        inner[:] = (
            []
            if len(where.parts) - top >= DEPTH
            else sorted(subfolder for subfolder in inner if not subfolder.startswith("."))
        )
        paths += [where / name for name in files if name.lower().endswith(suffixes) and not name.startswith(".")]
    return sorted(path for path in paths if path.is_file())


def archives(root: Path) -> list[Path]:
    """Return the archive itself, or those in a folder and a few folders down, sorted by name."""
    return nearby_files(root, ARCHIVES) if root.is_dir() else [root]
