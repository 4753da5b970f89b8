"""Images of published sets, found as their archives unpack and inside the archives as they come.

A path such as `images/001.Albatross/x.jpg` is looked for below the folder or archive that the user names: there itself,
in any folder that ends like it (`CUB_200_2011/images/...`, `Images/...` for `images/...`), and in archives that are named
after the set or after the path's first folder (`CUB_200_2011.tgz`, `img.zip`). One folder may hold many sets.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import IO

from snellen.errors import DataError
from snellen.sources.archive import Tree
from snellen.sources.blobs import FileBlob
from snellen.sources.hub import fetch_hint, pointer_in
from snellen.sources.image_sets import image_sets, plain_name, set_of_name, sets_of_path
from snellen.sources.safe_paths import member_name
from snellen.sources.tree import NOT_IN_PLACE, TARS, FolderTree, kept_tree, open_tree
from snellen.types import Blob

ARCHIVES = (".zip", *TARS)
DEPTH = 5
MAX_FOLDERS = 20_000
MAX_INNER = 400
"""Folders with more folders than this hold one a class, and are not entered."""
MAX_PREFIXES = 40


class ImageRoots:
    """The folders and archives below one root that may hold images of some sets. Each is opened when it is needed.

    Attributes:
        root: the user's folder or archive.
        sets: names of the sets; empty: those that an image's path may belong to.
        problems: archives that may hold an image and cannot be read, with the reason.
    """

    def __init__(self, root: Path, sets: Sequence[str] = (), *, tree: Tree | None = None) -> None:
        self.root, self.sets = root, tuple(sets)
        self.problems: dict[str, str] = {}
        self._lock = RLock()
        self._first = tree
        self._indexes: dict[Path, _TreeIndex | None] = {}
        self._folder: _FolderIndex | None = None
        self._last: dict[str, tuple[Tree, str]] = {}

    def find(self, image: str) -> tuple[Tree, str] | None:
        """Return the tree that holds an image, and its name there; None where there is none.

        Raises:
            UnsafeArchiveError: the path, or a link in it, leads out of its root.
        """
        name = member_name(image, str(self.root))
        head, _, rest = name.partition("/")
        last = self._last.get(head)
        if last is not None and rest and _holds(last[0], place := f"{last[1]}{rest}"):
            return last[0], place
        with self._lock:
            for tree, place in self._places(name):
                if _holds(tree, place):
                    if rest and place.endswith(rest):
                        self._last[head] = (tree, place[: len(place) - len(rest)])
                    return tree, place
        return None

    def _places(self, name: str) -> Iterator[tuple[Tree, str]]:
        """Yield (tree, name in it) of every place where an image may be, the likeliest first."""
        if self._first is None:
            self._first = kept_tree(self.root)
        yield self._first, name
        if not isinstance(self._first, FolderTree):
            index = self._index(self.root)
            if index is not None:
                yield from index.places(name, self._heads(name))
            return
        if self._folder is None:
            self._folder = _FolderIndex(self.root)
        wanted = self._wanted(name)
        for place in self._folder.places(name, self._heads(name), wanted):
            top, _, inner = place.partition("/")
            if inner and top in self._folder.links and _named_after(top, wanted):
                yield FolderTree(self.root / top), inner  # a set that the user has linked into the folder
            else:
                yield self._first, place
        for archive in self._folder.archives_for(name, wanted):
            index = self._index(archive)
            if index is not None:
                yield from index.places(name, self._heads(name))

    def _wanted(self, name: str) -> tuple[str, ...]:
        return self.sets or tuple(sets_of_path(name))

    def _heads(self, name: str) -> tuple[str, ...]:
        """Return the names that the first folder of a path may have."""
        head = name.partition("/")[0]
        others = [image_sets()[entry].heads.get(head, ()) for entry in self._wanted(name) if entry in image_sets()]
        return (head, *(other for names in others for other in names))

    def _index(self, archive: Path) -> _TreeIndex | None:
        if archive not in self._indexes:
            self._indexes[archive] = None
            try:
                if archive.name.lower().endswith(NOT_IN_PLACE):
                    self.problems[archive.name] = "archives of this kind are not read in place: unpack it"
                elif (pointer := pointer_in(FileBlob(archive))) is not None:
                    hint = fetch_hint(archive)
                    self.problems[archive.name] = f"a pointer of Git LFS, {pointer.size_text} were not fetched. {hint}"
                else:
                    tree = kept_tree(archive)
                    self._indexes[archive] = _TreeIndex(tree)
                    inner = [name for name in tree.names() if name.lower().endswith((*ARCHIVES, *NOT_IN_PLACE))]
                    if inner:
                        self.problems[archive.name] = f"it holds {inner[0]}, and archives in archives are not opened"
            except DataError as error:
                self.problems[archive.name] = error.message
        return self._indexes[archive]


class ImageTree(Tree):
    """The images of a split under their own paths, wherever `ImageRoots` finds them."""

    def __init__(self, root: Path | str, sets: Sequence[str] = ()) -> None:
        """Open the folder or archive. Raises DataError as `open_tree`."""
        self.path = Path(root)
        self.left_out = {}
        self._tree = open_tree(self.path)
        self.roots = ImageRoots(self.path, sets, tree=self._tree)

    def names(self) -> list[str]:
        return self._tree.names()

    def exists(self, name: str) -> bool:
        return self.roots.find(name) is not None

    def blob(self, name: str) -> Blob:
        tree, place = self.roots.find(name) or (self._tree, name)
        return tree.blob(place)

    def holder(self, name: str) -> Tree:
        """Return the folder or archive that holds an image."""
        located = self.roots.find(name)
        return self._tree if located is None else located[0]

    def open(self, name: str) -> IO[bytes]:
        tree, place = self.roots.find(name) or (self._tree, name)
        return tree.open(place)

    def read(self, name: str) -> bytes:
        return self.blob(name).read()

    def close(self) -> None:
        self._tree.close()


def missing_places(roots: ImageRoots) -> str:
    """Return what to add to a message about a missing image: archives that could not be read; empty without any."""
    return "".join(f" {name} cannot be used: {why}." for name, why in roots.problems.items())


def _holds(tree: Tree, name: str) -> bool:
    return name in tree.left_out or tree.exists(name)


class _TreeIndex:
    """The folders of an archive by their names, in lower case."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        folders: set[str] = set()
        for name in {name.rpartition("/")[0] for name in (*tree.names(), *tree.left_out)}:
            while name and name not in folders:
                folders.add(name)
                name = name.rpartition("/")[0]
        self._folders = sorted(folders, key=lambda name: (name.count("/"), name))
        self._by_name = _by_name(self._folders)

    def places(self, name: str, heads: Iterable[str]) -> Iterator[tuple[Tree, str]]:
        """Yield the names that an image may have in the archive, at last those without its first folder."""
        head, _, rest = name.partition("/")
        yield self.tree, name
        if rest:
            for other in heads:
                yield from ((self.tree, f"{folder}/{rest}") for folder in self._by_name.get(other.lower(), ()))
        if rest:
            yield self.tree, rest
            yield from ((self.tree, place) for place in _below_second(rest, self._by_name))
        if len(self._folders) <= MAX_PREFIXES:
            for folder in self._folders:
                yield self.tree, f"{folder}/{rest or head}"


class _FolderIndex:
    """The folders and archives below a folder, listed once."""

    def __init__(self, root: Path) -> None:
        self._own = root.absolute().name
        self._folders: list[str] = []
        self._archives: list[Path] = []
        self.links: set[str] = set()
        level = [""]
        for depth in range(DEPTH + 1):
            level = [inner for folder in level for inner in self._list(root, folder, depth)]
            if len(self._folders) > MAX_FOLDERS:
                break
        self._by_name = _by_name(self._folders)

    def _list(self, root: Path, folder: str, depth: int) -> list[str]:
        """List one folder; return the folders in it that are to be listed too."""
        inner: list[str] = []
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    place = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir():
                        inner.append(place)
                        if not folder and entry.is_symlink():
                            self.links.add(entry.name)
                    elif entry.name.lower().endswith((*ARCHIVES, *NOT_IN_PLACE)) and entry.is_file():
                        self._archives.append(root / place)
        except OSError:
            return []  # a folder that cannot be read holds no image that could be
        inner.sort()
        self._archives.sort(key=lambda path: (len(path.parts), path.name))
        self._folders += inner
        return inner if depth < DEPTH and len(inner) <= MAX_INNER else []

    def places(self, name: str, heads: Iterable[str], wanted: Sequence[str]) -> Iterator[str]:
        """Yield the names that an image may have below the folder; folders named after a wanted set come first."""
        rest = name.partition("/")[2]
        if not rest:
            yield from (f"{folder}/{name}" for folder in self._folders if _named_after(folder, wanted))
            return
        for other in heads:
            if self._own.lower() == other.lower():
                yield rest  # --images CUB_200_2011/images
            folders = self._by_name.get(other.lower(), [])
            for folder in sorted(folders, key=lambda place: not _named_after(place, wanted)):
                yield f"{folder}/{rest}"
        yield from (f"{folder}/{rest}" for folder in self._folders if _named_after(folder, wanted, last=True))
        yield from _below_second(rest, self._by_name)

    def archives_for(self, name: str, wanted: Sequence[str]) -> list[Path]:
        """Return the archives that may hold an image: named after a set, in a folder of that name, or after its head."""
        head = plain_name(name.partition("/")[0])
        by_set, by_folder, by_head = [], [], []
        for archive in self._archives:
            known = set_of_name(archive.name)
            if known is not None and known.name in wanted:
                by_set.append(archive)
            elif plain_name(archive.name) == head:
                by_head.append(archive)
            elif known is None and any(_named_after(part, wanted) for part in archive.parent.parts[-3:]):
                by_folder.append(archive)
        return [*by_set, *by_folder, *by_head]


def _by_name(folders: Iterable[str]) -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        by_name[folder.rpartition("/")[2].lower()].append(folder)
    return dict(by_name)


def _below_second(rest: str, by_name: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the places of a path without its first folder, by the name of its second one: `--images Images/`."""
    second, _, inner = rest.partition("/")
    if inner:
        yield from (f"{folder}/{inner}" for folder in by_name.get(second.lower(), ()))


def _named_after(place: str, wanted: Sequence[str], *, last: bool = False) -> bool:
    """Return True if a part of a path, or only its last part, is a name of a wanted set."""
    parts = place.split("/")
    known = [set_of_name(part) for part in (parts[-1:] if last else parts)]
    return any(entry is not None and entry.name in wanted for entry in known)
