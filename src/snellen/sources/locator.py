"""The locator: where the files and pictures of a set are looked for, and what is said where they are not.

A benchmark declares its places and names; the search is here, the same for all.

- `on_disk`: the path of what the user names, fetched first where it is on the hub.
- `opened`: the folder or archive there, or the one file; `files_below` and `ending_in`: files in it, by their names.
- `Pictures`: pictures, clips and masks by the paths that rows give. Its rules say where a file of a path may be, the likeliest
  place first; the first that holds one counts. Rules: `under` a folder with known names before the path, `MemberEnds` (the only
  member whose path ends so), `NearPlaces` (archives beside, folders more or less), `image_sets.SetPlaces` (published sets of
  images, as their archives come or unpack).

No name leaves its folder or archive: `Tree.find` refuses it, and links that lead out.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import IO, TypeAlias

from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.blobs import FileBlob, Unreadable, stream
from snellen.sources.hub import fetch_hint, locate, pointer_in, pointer_of
from snellen.sources.open_tree import NOT_IN_PLACE, TARS, kept_tree
from snellen.sources.safe_paths import member_name, regular_file
from snellen.sources.tree import FolderTree, MemberBlob, Tree
from snellen.types import Blob

ARCHIVES = (".zip", *TARS)
MOST_FILES = 200_000
MOST_FOLDERS = 64
FOLDERS_APART = 2
"""Leading folders that the path of a row and that of its file may differ by."""
PATH_PARTS = 8
Rule: TypeAlias = Callable[[str], Iterable[tuple[Tree, str]]]
"""Of a plain relative path: the folders and archives where its file may be, and its name there."""


@lru_cache(maxsize=64)
def on_disk(name: str, *patterns: tuple[str, ...]) -> Path:
    """Return the path that a user names, or the folder of the hub's files, which is fetched once a process.

    Args:
        name: a path, or `hf:owner/name`.
        patterns: groups of files to fetch from the hub, the first that matches a file; without any, all files.

    Raises:
        DataError: as `snellen.sources.hub.locate`.
    """
    for group in patterns[:-1]:
        try:
            return locate(name, patterns=list(group))
        except DataError as error:
            if "no file matches" not in error.message:
                raise
    return locate(name, patterns=list(patterns[-1]) if patterns else None)


def opened(path: Path, endings: tuple[str, ...], hint: str) -> tuple[Tree, str]:
    """Return the folder or archive at a path and an empty name, or the folder of a single file and the file's name.

    Raises:
        DataError: nothing is there, it cannot be opened, or it is a file of other endings; `hint` says what to give.
    """
    if path.is_dir():
        return FolderTree(path), ""
    regular_file(path)
    name = path.name.lower()
    if name.endswith(ARCHIVES):
        return kept_tree(path), ""
    if name.endswith(endings):
        return FolderTree(path.absolute().parent), path.name
    *others, last = *ARCHIVES, *endings
    raise DataError(f"{path}: a folder, {', '.join(others)} or {last} was expected", hint)


def files_below(folder: Path, endings: tuple[str, ...], depth: int) -> list[str]:
    """Return the names of the files of these endings in a folder and some folders down, sorted by folder.

    Hidden ones are passed over, and the search ends in a folder of very many files: unpacked media may be a million.
    """
    names: list[str] = []
    seen = 0
    for place, folders, files in os.walk(folder):
        relative = os.path.relpath(place, folder).replace(os.sep, "/")
        prefix = "" if relative == "." else f"{relative}/"
        folders[:] = sorted(name for name in folders if prefix.count("/") < depth and not name.startswith("."))
        names += [prefix + name for name in files if name.lower().endswith(endings) and not name.startswith(".")]
        seen += len(files)
        if seen > MOST_FILES:
            break
    return sorted((name for name in names if (folder / name).is_file()), key=lambda name: name.split("/"))


def archives_below(root: Path, depth: int) -> list[Path]:
    """Return the archives in a folder and some folders down; the archive itself where `root` is one."""
    return [root / name for name in files_below(root, ARCHIVES, depth)] if root.is_dir() else [root]


def ending_in(names: Iterable[str], *wanted: str) -> list[str]:
    """Return the names that are, or end in, one of the wanted paths, case apart: those under the fewest folders first."""
    ends = tuple(f"/{name.lower()}" for name in wanted)
    matching = [name for name in names if f"/{name.lower()}".endswith(ends) and "__MACOSX" not in name]
    return sorted(matching, key=lambda name: (name.count("/"), name))


def ends_of(path: str, least: int = 1) -> Iterator[str]:
    """Yield the last parts of a path of another machine, the longest first, down to `least` parts."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    for first in range(max(0, len(parts) - PATH_PARTS), len(parts) - least + 1):
        yield "/".join(parts[first:])


class Archives:
    """Archives, each opened when something may be in it.

    Attributes:
        faults: those that cannot be used by their names, with the reason.
    """

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self._trees: dict[Path, Tree | None] = {}
        self._lock = RLock()

    def tree(self, path: Path) -> Tree | None:
        """Return an archive opened; None, with a fault, for one that cannot be used."""
        with self._lock:
            if path not in self._trees:
                self._trees[path] = self._open(path)
            return self._trees[path]

    def _open(self, path: Path) -> Tree | None:
        try:
            if path.name.lower().endswith(NOT_IN_PLACE):
                self.faults[path.name] = "archives of this kind are not read in place: unpack it"
            elif (pointer := pointer_in(FileBlob(path))) is not None:
                hint = fetch_hint(path)
                self.faults[path.name] = f"a pointer of Git LFS, {pointer.size_text} were not fetched. {hint}"
            else:
                return kept_tree(path)
        except DataError as error:
            self.faults[path.name] = error.message
        return None


class Pictures:
    """Pictures, clips and masks by the paths that rows give.

    Args:
        place: where they are looked for, in words.
        rules: see `Rule`; asked in their order.
        absent: says of a path that no place holds it.
        hint: what to do then.
        archives: those that the rules open.
    """

    def __init__(
        self,
        place: str,
        rules: Sequence[Rule],
        absent: Callable[[str], str],
        hint: str,
        archives: Archives | None = None,
    ) -> None:
        self.place, self.rules = place, tuple(rules)
        self._absent, self._hint, self._archives = absent, hint, archives

    @property
    def faults(self) -> list[str]:
        """What is wrong with archives that may hold a picture and cannot be used."""
        known = [] if self._archives is None else list(self._archives.faults.items())  # other threads may add some
        return [f"{name} cannot be used: {why}" for name, why in known]

    def located(self, path: str, at: str = "") -> tuple[Blob, str] | None:
        """Return the file of a path and its name where it lies; None where there is none.

        Raises:
            UnsafeArchiveError: the path, or a link in it, leads out of its root; `at` or the place is named.
        """
        plain = member_name(path, at or self.place)
        for rule in self.rules:
            for tree, name in rule(plain):
                if (blob := tree.find(name)) is not None:
                    return blob, name
        return None

    def blob(self, path: str) -> Blob:
        """Return the file of a path. Raises DataError where there is none, or where it leads out of its root."""
        if (located := self.located(path)) is None:
            raise DataError("; ".join([self._absent(path), *self.faults]), self._hint)
        return located[0]

    def find(self, path: str, at: str) -> Blob:
        """Return the file that a row at `at` (file and line, for messages) names.

        Unreadable where there is none, it is empty, or the path leads out of its root.
        """
        key = f"{at}: {path[:200]}"
        try:
            if (located := self.located(path, at)) is None:
                return Unreadable(key, f"{at}: {'; '.join([self._absent(path), *self.faults])}", self._hint)
            if _is_empty(located[0]):
                return Unreadable(key, f"{at}: {located[0].key} is empty (0 bytes)", "Fetch the data again.")
            return located[0]
        except OSError as error:
            return Unreadable(key, f"{at}: {path[:200]!r} cannot be read: {error.strerror or error}", self._hint)
        except DataError as error:
            return Unreadable(key, error.message if at in error.message else f"{at}: {error.message}", error.hint)


class LazyPicture(Struct, frozen=True):
    """A picture that is looked for when its bytes are asked for: a set names 100,000, and few commands read one.

    Attributes:
        pictures: where it is looked for.
        name: its path, as the row gives it.
        at: the row, for messages.
    """

    pictures: Pictures
    name: str
    at: str

    @property
    def key(self) -> str:
        return f"{self.pictures.place}!{self.name}"

    @property
    def quick(self) -> bool:
        return bool(getattr(self.located(), "quick", False))

    def read(self) -> bytes:
        """Raises DataError with the row where the picture is not there, or cannot be read."""
        data = self.located().read()
        if pointer_of(data) is not None:
            fault = f"{self.at}: image {self.name!r} is a pointer of Git LFS, not the image"
            raise DataError(fault, fetch_hint(None))
        return data

    def open(self) -> IO[bytes]:
        """Return the picture as a stream. Raises DataError as `read`."""
        return stream(self.located())

    def located(self) -> Blob:
        return self.pictures.find(self.name, self.at)


def _is_empty(blob: Blob) -> bool:
    if isinstance(blob, FileBlob):
        return blob.path.stat().st_size == 0
    return isinstance(blob, MemberBlob) and blob.tree.size(blob.name) == 0


def under(tree: Tree, prefixes: Sequence[str], endings: Sequence[str] = ("",)) -> Rule:
    """Return the rule of known places: what may stand before a path (each empty, or with `/` behind), and behind it."""
    return lambda path: ((tree, f"{prefix}{path}{ending}") for prefix in prefixes for ending in endings)


class MemberEnds:
    """The only member whose path ends in the wanted one; none where two do: another question's image is worse than none.

    Args:
        trees: folders and archives; their names are listed when the first path is looked for.
    """

    def __init__(self, trees: Callable[[], Iterable[Tree]]) -> None:
        self._trees = trees

    @cached_property
    def _members(self) -> dict[str, list[tuple[Tree, str]]]:
        """Members by their last part and by their last two."""
        members: defaultdict[str, list[tuple[Tree, str]]] = defaultdict(list)
        for tree in self._trees():
            for name in tree.names():
                parts = name.rsplit("/", 2)
                for end in {parts[-1], "/".join(parts[-2:])}:
                    members[end].append((tree, name))
        return dict(members)

    def __call__(self, path: str, most: int | None = None) -> Iterator[tuple[Tree, str]]:
        """Yield the member; its path has at most `most` folders more, or any number."""
        depth = path.count("/")
        matching = {
            name: tree
            for tree, name in reversed(self._members.get("/".join(path.rsplit("/", 2)[-2:]), ()))
            if f"/{name}".endswith(f"/{path}") and (most is None or name.count("/") - depth <= most)
        }
        if len(matching) == 1:
            yield from ((tree, name) for name, tree in matching.items())


class NearPlaces:
    """Files under one root, which is a folder or an archive, in archives that lie in it, or near the place that a path says.

    What a row calls `scannet/scene0011_00.mp4` may lie, beside under that very path,

    - under one folder of the root more, as an unpacked archive does (`OmniSpatial-test/...`);
    - in an archive, under its first one or two folders more, or without a folder of the archive's own name;
    - without the first one or two folders of the row's path (`ViewSpatial-Bench/val2017/...`).

    Only one of these differences is bridged at a time, a folder's name always remains to compare, and where two members could
    be meant neither is taken.

    Args:
        root: the folder or archive.
        depth: folders below it in which archives are looked for.
        by_name: find a path of a name alone in any folder of the archives, where only one member has it.
    """

    def __init__(self, root: Path, depth: int, *, by_name: bool = False) -> None:
        self.root, self._depth, self._by_name = root, depth, by_name
        self.archives = Archives()
        self._folder = FolderTree(root) if root.is_dir() else None
        inner = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
        self._inner = [FolderTree(path) for path in inner if not path.name.startswith(".")][:MOST_FOLDERS]
        self._with_first: dict[str, list[FolderTree]] = {}
        self._member_ends = MemberEnds(lambda: self.trees)

    @cached_property
    def trees(self) -> list[Tree]:
        """The archives that could be opened."""
        paths = archives_below(self.root, self._depth)
        return [tree for path in paths if (tree := self.archives.tree(path)) is not None]

    def __call__(self, path: str) -> Iterator[tuple[Tree, str]]:
        first, _, rest = path.partition("/")
        if self._folder is not None:
            yield self._folder, path
            inner = [tree for tree in self._folders_with(first, rest) if tree.find(path) is not None]
            if len(inner) == 1:
                yield inner[0], path
        yield from ((tree, path) for tree in self.trees)
        if rest:
            yield from ((tree, rest) for tree in self.trees if first == _stem(tree.path))
            yield from self._member_ends(path, FOLDERS_APART)
            if self._folder is not None and first == self.root.absolute().name:
                yield self._folder, rest
        for _ in range(min(FOLDERS_APART, path.count("/") - 1)):
            first, _, tail = rest.partition("/")
            if self._folder is not None:
                yield self._folder, rest
            for tree in self.trees:
                yield tree, rest
                if first == _stem(tree.path):
                    yield tree, tail
            rest = tail
        if self._by_name and "/" not in path:
            yield from self._member_ends(path)

    def _folders_with(self, first: str, rest: str) -> list[FolderTree]:
        """Return the folders of the root that have a path's first folder."""
        if not rest:
            return self._inner
        if first not in self._with_first:
            self._with_first[first] = [tree for tree in self._inner if os.path.lexists(tree.path / first)]
        return self._with_first[first]


def _stem(path: Path) -> str:
    """Return an archive's name without its suffix."""
    return next(path.name[: -len(suffix)] for suffix in (*ARCHIVES, "") if path.name.lower().endswith(suffix))
