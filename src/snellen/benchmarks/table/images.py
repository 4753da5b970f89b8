"""Images and clips of a row: a cell becomes references to bytes, none of which are read here.

A cell may hold a relative name, several of them, inline images (already lazy, see `snellen.sources.text_tables`), a struct of
`bytes` and `path`, or the id of another row, whose images it stands for. Names never leave the folder or archive of the
images, and addresses on the network are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any, TypeAlias
from unicodedata import normalize
from zlib import crc32

from snellen.benchmarks.table.literals import NoLiteralError, is_literal, literal
from snellen.benchmarks.table.operations import CellError
from snellen.errors import DataError
from snellen.sources.blobs import FileBlob, Unreadable
from snellen.sources.locator import ends_of
from snellen.sources.open_tree import kept_tree
from snellen.sources.safe_paths import member_name
from snellen.sources.text_tables import SHORTEST_IMAGE
from snellen.sources.tree import FolderTree, Tree
from snellen.types import DECODED_SUFFIXES, Blob

IMAGE_SUFFIXES = (*DECODED_SUFFIXES, ".jfif", ".svg")
VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v", ".mpg", ".mpeg", ".flv", ".wmv")
MEDIA_SUFFIXES = (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES, ".pdf")
FOLDERS = ("images", "image", "imgs", "img", "pictures", "pics", "photos", "videos", "documents", "data")
"""Folders beside a table that are searched for its images."""
MOST_IMAGES = 1_000
MOST_FOLDERS = 1 << 16
LOOKS = 32
"""Looks into one folder after which it is listed: each is a round trip where the files are another machine's."""
_DIGITS = re.compile(r"(\d{1,18})")
_ADDRESS = re.compile(r"(?:https?|ftp|s3|gs)://", re.IGNORECASE)
References = Callable[[str], Sequence[Any] | None]
Look: TypeAlias = Callable[[Tree, str], Blob | None]
"""Returns what a tree has at a place; None where it has nothing."""


class ImageRoot:
    """The folders and archives in which the images of a table are looked for.

    Args:
        trees: folders and archives, the one that the user named first.
        named: the user named the first of them (--images).
        within: the table's own folder inside of its tree, with a slash at its end; empty: the top.
    """

    def __init__(self, trees: Sequence[Tree], *, named: bool, within: str = "") -> None:
        self.trees = tuple(trees)
        self.named, self._within = named, within
        self._ends: dict[str, str] = {}
        self._looks: dict[tuple[str, str], list[Any]] = {}
        self._prefixes: list[tuple[Tree, str]] = []
        for at, tree in enumerate(self.trees):
            if within and at == len(self.trees) - 1:
                self._prefixes += [(tree, prefix) for prefix in (within, *_inner(tree, within))]
            self._prefixes += [(tree, prefix) for prefix in ("", *_inner(tree))]

    def anew(self) -> ImageRoot:
        """Return the same root for another pass, which looks at the folders again."""
        trees = [FolderTree(tree.path) if isinstance(tree, FolderTree) else tree for tree in self.trees]
        return ImageRoot(trees, named=self.named, within=self._within)

    def find(self, name: str) -> Blob | None:
        """Return the image of that name; None where there is none. Raises CellError for a name that leaves the root."""
        return self._find(name, lambda tree, place: None if self._lacks(tree, place) else tree.find(place))

    def _lacks(self, tree: Tree, place: str) -> bool:
        """Return True for a name that is not in the list of its folder, which is made once many names were looked for there.

        A pass has a root of its own, so that a list is as new as the pass.
        """
        if not isinstance(tree, FolderTree):
            return False
        folder, _, base = place.rpartition("/")
        if len(self._looks) > MOST_FOLDERS:
            self._looks = {}
        known = self._looks.setdefault((str(tree.path), folder), [0, None])
        known[0] += 1
        if known[1] is None and known[0] > LOOKS:
            known[1] = tree.names_in(folder)
        # Some file systems take upper and lower case, or two spellings of an accent, for one name.
        return known[1] is not None and base.isascii() and base.lower() not in known[1]

    def frames(self, folder: str) -> list[Blob]:
        """Return the images right in a folder, by their numbers; none where it is not there. Raises CellError as `find`."""
        frames: list[Blob] = []

        def first(tree: Tree, place: str) -> Blob | None:
            frames[:] = sorted(
                (blob for blob in tree.files_in(place) if blob.key.lower().endswith(IMAGE_SUFFIXES)), key=_by_number
            )
            return frames[0] if frames else None

        return frames if self._find(folder, first) is not None else []

    def _find(self, name: str, look: Look) -> Blob | None:
        plain = name.strip().replace("\\", "/")
        if plain.startswith("file://"):
            plain = plain.removeprefix("file://")
        if plain.startswith("/") or re.match(r"[A-Za-z]:/", plain):
            return self._absolute(plain, look)
        try:
            plain = member_name(plain, "the row")
        except DataError as error:
            raise CellError(error.message.partition(": ")[2] or error.message) from error
        return self._relative(plain, look)

    def _relative(self, name: str, look: Look) -> Blob | None:
        forms = [name] if name.isascii() else dict.fromkeys((name, normalize("NFC", name), normalize("NFD", name)))
        try:
            spelt = ((tree, prefix + form) for form in forms for tree, prefix in self._prefixes)
            return next((blob for tree, place in spelt if (blob := look(tree, place)) is not None), None)
        except DataError as error:
            raise CellError(error.message) from error

    def _absolute(self, path: str, look: Look) -> Blob | None:
        """Find an image by the longest end of its path that exists: tables record paths of the machine that wrote them."""
        if ".." in path.split("/"):
            raise CellError(f"image {path!r}: names must stay under their root")
        for tree in self.trees:
            root = str(tree.path.absolute())
            if path.startswith(root + "/") and (blob := self._relative(path[len(root) + 1 :], look)) is not None:
                return blob
        for end in ends_of(path):
            if (blob := self._relative(end, look)) is not None:
                other = self._ends.setdefault(blob.key, path)
                if other != path:
                    raise CellError(f"image {path!r} and {other!r} are both found as {end!r}; which of them is it?")
                return blob
        return None

    @property
    def place(self) -> str:
        """Return where images are looked for, in words."""
        return ", ".join(str(tree.path) for tree in self.trees)


class AbsentImages(ImageRoot):
    """Stands for images that are gone: answers to their questions are scored without them, and nothing else is."""

    def find(self, name: str) -> Blob | None:
        """Return a placeholder whose reading raises the reason."""
        return Unreadable(name, f"image missing: {name!r} is not in {self.place}", "Name their folder: --images FOLDER")


def codes_of_names(images: Sequence[Blob]) -> list[int]:
    """Return a code of each image's name, in place of its content's, so that images that are gone still form clusters."""
    return [crc32(normpath(image.key).encode()) for image in images]


def image_root(
    table: Path | Tree | None, images: Path | None, within: str = "", archives: Sequence[Path] = ()
) -> ImageRoot:
    """Return where images are looked for: in `images` if the user names it, and beside the table.

    Args:
        table: the folder of the table, or the archive that holds it.
        images: --images.
        archives: further archives of images.

    Raises:
        DataError: `images` is no folder and no archive.
    """
    trees: list[Tree] = []
    if images is not None:
        trees.append(kept_tree(images) if images.exists() else FolderTree(images))
    trees += map(kept_tree, archives)
    if isinstance(table, Tree):
        trees.append(table)
    elif table is not None:
        trees.append(FolderTree(table))
    return ImageRoot(trees, named=images is not None, within=within)


def _by_number(blob: Blob) -> list[tuple[int, str]]:
    """Return the parts of a file's name, by which `2.jpg` comes before `10.jpg`."""
    parts = _DIGITS.split(blob.key.rpartition("/")[2])
    return [(int(part), part) if part.isdecimal() else (-1, part) for part in parts]


def _inner(tree: Tree, within: str = "") -> list[str]:
    """Return the folders in a folder of a tree that may hold images; in archives all of them, the usual ones first."""
    if not isinstance(tree, FolderTree):
        below = [name[len(within) :] for name in tree.names() if name.startswith(within)]
        tops = {name.partition("/")[0] for name in below if "/" in name}
        return [f"{within}{top}/" for top in dict.fromkeys((*FOLDERS, *sorted(tops))) if top in tops][:40]
    return [f"{within}{name}/" for name in FOLDERS if (tree.path / within / name).is_dir()]


def images_of(value: Any, root: ImageRoot, references: References | None = None) -> tuple[Blob, ...]:
    """Return the images of a cell, in their order; empty for an empty cell.

    Args:
        references: returns the images of the row with an id; None: ids mean nothing here.

    Raises:
        CellError: an image is missing, on the network, or of an unknown form.
    """
    if value is None or value == "" or value != value:
        return ()
    if isinstance(value, tuple) or (isinstance(value, list) and value and not isinstance(value[0], (str, dict, list))):
        if isinstance(value, list) and any(isinstance(element, dict) for element in value):
            return tuple(blob for element in value for blob in images_of(element, root, references))
        if all(hasattr(element, "read") for element in value):
            return tuple(value)
        raise CellError(f"its image is a list of {type(value[0]).__name__}; names or bytes were expected")
    if hasattr(value, "read"):
        return (value,)
    if isinstance(value, list):
        if len(value) > MOST_IMAGES:
            raise CellError(f"{len(value):,} images; at most {MOST_IMAGES:,} are read")
        return tuple(blob for element in value for blob in images_of(element, root, references))
    if isinstance(value, dict):
        name = value.get("path") or value.get("file_name") or value.get("filename") or value.get("image")
        if not isinstance(name, str):
            address = value.get("url")
            name = address if isinstance(address, str) else None
        if name is None:
            raise CellError(
                f"its image is an object with {', '.join(map(str, list(value)[:6]))}; bytes or path expected"
            )
        return images_of(name, root, references)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise CellError(f"its image is {value!r:.60}; a name or an image was expected")
    return _of_text(value.strip(), root, references)


def _of_text(text: str, root: ImageRoot, references: References | None) -> tuple[Blob, ...]:
    if not text:
        return ()
    if _ADDRESS.match(text):
        raise CellError(
            f"image {text[:80]!r} is an address on the network; download the images, put their names into the table, "
            "and add --images FOLDER"
        )
    if is_literal(text):
        try:
            values = literal(text)
        except NoLiteralError as error:
            raise CellError(f"its list of images cannot be read: {error}") from error
        return images_of(values, root, references)
    if (
        len(text) > SHORTEST_IMAGE
        and "." not in text[-6:]
        and not any(mark in text[:SHORTEST_IMAGE] for mark in " ._-\\")
    ):
        raise CellError(f"image {text[:24]!r}… ({len(text):,} characters) is neither a name nor a base64 image")
    blob = root.find(text)
    if blob is not None:
        return (blob,)
    for mark in (";", "|", ","):
        names = [name.strip() for name in text.split(mark) if name.strip()]
        if len(names) > 1 and all(name.lower().endswith(MEDIA_SUFFIXES) for name in names):
            return tuple(blob for name in names for blob in _of_text(name, root, references))
    if "." not in text.rpartition("/")[2]:
        for suffix in IMAGE_SUFFIXES[:4]:
            if (blob := root.find(f"{text}{suffix}")) is not None:
                return (blob,)
    if references is not None and len(text) <= SHORTEST_IMAGE:
        target = references(text)
        if target is not None:
            return tuple(blob for value in target for blob in images_of(value, root))
    if text.startswith("/") and not root.named:
        raise CellError(
            f"image missing: {text!r} is not in {root.place}; name the folder of the images: --images FOLDER"
        )
    raise CellError(f"image missing: {text!r} is not in {root.place}")


def is_video(blob: Blob) -> bool:
    """Return True for a clip: by its suffix, and of the cell of a table by its first bytes."""
    name = str(blob.path) if isinstance(blob, FileBlob) else str(getattr(blob, "name", blob.key))
    return name.lower().endswith(VIDEO_SUFFIXES) or bool(getattr(blob, "is_clip", False))


def is_address(value: Any) -> bool:
    """Return True for an address on the network."""
    return isinstance(value, str) and _ADDRESS.match(value.strip()) is not None


def names_media(value: Any) -> bool:
    """Return True for a cell that holds images or clips, or names them."""
    if isinstance(value, tuple):
        return bool(value)
    if isinstance(value, list):
        return bool(value) and all(names_media(element) for element in value[:20])
    if isinstance(value, dict):
        return names_media(value.get("path") or value.get("bytes"))
    if hasattr(value, "read"):
        return True
    if not isinstance(value, str) or len(value) > 4096:
        return False
    text = value.strip()
    if is_literal(text):
        try:
            return names_media(literal(text))
        except NoLiteralError:
            return False
    last = re.split(r"[;|,]\s*", text)[-1]
    return last.lower().partition("?")[0].endswith(MEDIA_SUFFIXES) and "\n" not in last
