"""Published sets of images: which one a path or an archive belongs to, and where its images lie below one root.

A path such as `images/001.Albatross/x.jpg` is looked for below the folder or archive that the user names: there itself,
in any folder that ends like it (`CUB_200_2011/images/...`, `Images/...` for `images/...`), and in archives that are named
after the set or after the path's first folder (`CUB_200_2011.tgz`, `img.zip`). One folder may hold many sets. The names are in
image_sets.toml.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import RLock

import msgspec
from msgspec import Struct

from snellen.sources.locator import ARCHIVES, Archives, Pictures
from snellen.sources.open_tree import NOT_IN_PLACE, kept_tree
from snellen.sources.tree import FolderTree, Tree
from snellen.toml_text import packaged_toml

ENDINGS = (*ARCHIVES, *NOT_IN_PLACE)
DEPTH = 5
MAX_FOLDERS = 20_000
MAX_INNER = 400
"""Folders with more folders than this hold one a class, and are not entered."""
MAX_PREFIXES = 40
_PLAIN = re.compile(r"[^a-z0-9]+")


class ImageSet(Struct, frozen=True):
    """A set: the form of its paths, the names of its folders and archives, and further names of a path's first folder."""

    name: str
    title: str
    path: str
    names: tuple[str, ...]
    heads: dict[str, tuple[str, ...]] = {}


class _ImageSets(Struct, frozen=True):
    set: tuple[ImageSet, ...]


@cache
def image_sets() -> dict[str, ImageSet]:
    """Return name to set."""
    sets = msgspec.convert(packaged_toml("snellen.sources", "image_sets.toml"), _ImageSets).set
    return {entry.name: entry for entry in sets}


def plain_name(name: str) -> str:
    """Return a name without ending, in lower case, letters and digits only.

    >>> plain_name("CUB_200_2011.tgz")
    'cub2002011'
    """
    lower = name.lower()
    ending = next((suffix for suffix in ENDINGS if lower.endswith(suffix)), "")
    return _PLAIN.sub("", lower.removesuffix(ending))


def sets_of_path(path: str) -> list[str]:
    """Return the sets that an image's path may belong to.

    >>> sets_of_path("car_ims/000001.jpg")
    ['stanfordcar']
    """
    return [name for name, form in _forms() if form.search(path)]


@cache
def _forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((entry.name, re.compile(entry.path)) for entry in image_sets().values())


@lru_cache(maxsize=MAX_FOLDERS)
def set_of_name(name: str) -> ImageSet | None:
    """Return the set that a folder or archive is named after."""
    plain = plain_name(name)
    return next((entry for entry in image_sets().values() if plain in entry.names), None)


def image_set_of(name: str) -> str:
    """Return the title of the set whose images an archive holds, by its name; empty for other archives."""
    known = set_of_name(name)
    return known.title if known is not None else "a set" if "image" in plain_name(name) else ""


def set_pictures(
    root: Path, sets: Sequence[str] = (), *, tree: Tree | None = None, given: str = "", hint: str = ""
) -> Pictures:
    """Return the images of published sets below one folder or archive.

    Args:
        root: the folder or archive; opened when the first image is looked for, unless it is opened already as `tree`.
        sets: names of the sets; empty: those that an image's path may belong to.
        given: how the user named the root.
        hint: what to do where an image is not there.
    """
    places, place = SetPlaces(root, sets, tree), given or str(root)
    return Pictures(
        f"{place}:{','.join(sets)}",
        (places,),
        lambda image: f"image {image!r} is not under --images {place}",
        hint,
        places.archives,
    )


class SetPlaces:
    """The rule of the folders and archives below one root that may hold images of some sets."""

    def __init__(self, root: Path, sets: Sequence[str] = (), tree: Tree | None = None) -> None:
        self.root, self.sets = root, tuple(sets)
        self.archives = Archives()
        self._first = tree
        self._lock = RLock()
        self._listed: dict[Path, _Listing] = {}
        self._last: dict[str, tuple[Tree, str]] = {}

    def __call__(self, image: str) -> Iterator[tuple[Tree, str]]:
        head, _, rest = image.partition("/")
        if rest and (last := self._last.get(head)) is not None:
            yield last[0], f"{last[1]}{rest}"
        for tree, place in self._places(image, self.sets or tuple(sets_of_path(image))):
            if rest and place.endswith(rest):  # where this one was, the next of its folder is likely too
                self._last[head] = tree, place[: len(place) - len(rest)]
            yield tree, place
        self._last.pop(head, None)

    def _places(self, image: str, wanted: Sequence[str]) -> Iterator[tuple[Tree, str]]:
        """Yield every place where an image may be, the likeliest first."""
        first = self._first = self._first or kept_tree(self.root)
        if isinstance(first, FolderTree):
            first = FolderTree(self.root)  # links are looked at anew
        yield first, image
        top = self._listing(self.root, first)
        for place in top.places(image, wanted):
            name, _, inner = place.partition("/")
            if inner and name in top.links and _named_after(name, wanted):
                yield FolderTree(self.root / name), inner  # a set that the user has linked into the folder
            else:
                yield first, place
        for path in top.archives_for(image, wanted):
            if (archive := self.archives.tree(path)) is not None:
                yield archive, image
                yield from ((archive, place) for place in self._listing(path, archive).places(image, wanted))

    def _listing(self, path: Path, tree: Tree) -> _Listing:
        with self._lock:
            if path not in self._listed:
                self._listed[path] = _Listing(tree)
                inner = [] if isinstance(tree, FolderTree) else [n for n in tree.names() if n.lower().endswith(ENDINGS)]
                if inner:
                    self.archives.faults[path.name] = f"it holds {inner[0]}, and archives in archives are not opened"
            return self._listed[path]


class _Listing:
    """The folders of a folder or archive, listed once; of a folder the archives below it and the folders linked into it."""

    def __init__(self, tree: Tree) -> None:
        self.links: set[str] = set()
        self._archives: list[Path] = []
        self._folders: list[str] = []
        self._own = ""
        self._in_archive = not isinstance(tree, FolderTree)
        if self._in_archive:
            self._folders = sorted(
                _folders_of((*tree.names(), *tree.left_out)), key=lambda name: (name.count("/"), name)
            )
        else:
            self._own = tree.path.absolute().name.lower()
            level = [""]
            for depth in range(DEPTH + 1):
                level = [inner for folder in level for inner in self._list(tree.path, folder, depth)]
                if len(self._folders) > MAX_FOLDERS:
                    break
            self._archives.sort(key=lambda path: (len(path.parts), path.name))
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        for folder in self._folders:
            self._by_name[folder.rpartition("/")[2].lower()].append(folder)

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
                    elif entry.name.lower().endswith(ENDINGS) and entry.is_file():
                        self._archives.append(root / place)
        except OSError:
            return []  # a folder that cannot be read holds no image that could be
        inner.sort()
        self._folders += inner
        return inner if depth < DEPTH and len(inner) <= MAX_INNER else []

    def places(self, image: str, wanted: Sequence[str]) -> Iterator[str]:
        """Yield the names that an image may have; folders named after a wanted set come first."""
        head, _, rest = image.partition("/")
        if rest:
            for other in _heads(head, wanted):
                if self._own == other.lower():
                    yield rest  # --images CUB_200_2011/images
                folders = self._by_name.get(other.lower(), [])
                for folder in sorted(folders, key=lambda place: not _named_after(place, wanted)):
                    yield f"{folder}/{rest}"
        named = (folder for folder in self._folders if _named_after(folder, wanted, last=bool(rest)))
        yield from (f"{folder}/{rest or head}" for folder in named)
        if self._in_archive and rest:
            yield rest
        second, _, inner = rest.partition("/")
        if inner:  # --images Images/
            yield from (f"{folder}/{inner}" for folder in self._by_name.get(second.lower(), ()))
        if self._in_archive and len(self._folders) <= MAX_PREFIXES:
            yield from (f"{folder}/{rest or head}" for folder in self._folders)

    def archives_for(self, image: str, wanted: Sequence[str]) -> list[Path]:
        """Return the archives that may hold an image: named after a set, in a folder of that name, or after its head."""
        head = plain_name(image.partition("/")[0])
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


def _folders_of(names: Iterable[str]) -> set[str]:
    """Return the folders of the files of these names, and those above them."""
    folders: set[str] = set()
    for name in {name.rpartition("/")[0] for name in names}:
        while name and name not in folders:
            folders.add(name)
            name = name.rpartition("/")[0]
    return folders


def _heads(head: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the names that the first folder of a path may have."""
    others = [image_sets()[name].heads.get(head, ()) for name in wanted if name in image_sets()]
    return (head, *(other for names in others for other in names))


def _named_after(place: str, wanted: Sequence[str], *, last: bool = False) -> bool:
    """Return True if a part of a path, or only its last part, is a name of a wanted set."""
    parts = place.split("/")
    known = [set_of_name(part) for part in (parts[-1:] if last else parts)]
    return any(entry is not None and entry.name in wanted for entry in known)
