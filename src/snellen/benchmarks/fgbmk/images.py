"""Images of a data set, which are looked for when they are read, and never before.

A question file names up to 117,000 images, and most commands read none of them.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import IO, Protocol

from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.fgbmk.catalogue import datasets
from snellen.benchmarks.fgbmk.locate import ARCHIVES
from snellen.errors import DataError
from snellen.sources import FolderTree, Tree, Unreadable, kept_tree, locate, member_name
from snellen.sources.blobs import stream
from snellen.types import Blob

MAX_TOP_FOLDERS = 40


class ImageFinder(Protocol):
    """A finder of a data set's images."""

    @property
    def place(self) -> str: ...

    def find(self, image: str, at: str) -> Blob: ...


class DatasetImage(Struct, frozen=True):
    """An image of a question, looked for when its bytes are asked for.

    Attributes:
        image_finder: where.
        name: path relative to the data set's root, as the question gives it.
        file, line: the question, for messages.
    """

    image_finder: ImageFinder
    name: str
    file: str
    line: int

    @property
    def key(self) -> str:
        return f"{self.image_finder.place}!{self.name}"

    @property
    def quick(self) -> bool:
        return bool(getattr(self.located(), "quick", False))

    def read(self) -> bytes:
        """Raises DataError with file and line where the image is not there, or cannot be read."""
        return self.located().read()

    def open(self) -> IO[bytes]:
        """Return the image as a stream. Raises DataError as `read`."""
        return stream(self.located())

    def located(self) -> Blob:
        return self.image_finder.find(self.name, f"{self.file}, line {self.line:,}")


class DatasetImages:
    """The images of one data set, in the folders and archives that may hold them; each is opened when it is needed."""

    def __init__(self, dataset: str, root: Path | None, label: str) -> None:
        """`root` is None if no images were given; `label` is its name in messages."""
        self.dataset, self.root, self.label = dataset, root, label
        self._trees: list[tuple[Tree, list[str]]] | None = None

    @property
    def place(self) -> str:
        return f"{self.label or 'no images'}:{self.dataset}"

    def find(self, image: str, at: str) -> Blob:
        """Return an image, to be read; an Unreadable that names file and line where it cannot be had.

        Args:
            image: path relative to the data set's root.
            at: file and line of the question.
        """
        key = f"{at}: {image}"
        if self.root is None:
            return Unreadable(key, f"{at}: image {image!r} was asked for, and no --images were given", self._hint())
        if self._trees is None and not self.root.exists():
            return Unreadable(key, f"{at}: image {image!r} was asked for, and nothing is at {self.label}", self._hint())
        try:
            name = member_name(image, at)
            for tree, prefixes in self._opened():
                for prefix in prefixes:
                    place = f"{prefix}{name}"
                    if place in tree.left_out or tree.exists(place):
                        return tree.blob(place)
                inner = name.partition("/")[2]
                if inner and tree.path.name == name.partition("/")[0] and tree.exists(inner):
                    return tree.blob(inner)  # --images CUB_200_2011/images
        except OSError as error:
            return Unreadable(key, f"{at}: image {image!r} cannot be read: {error.strerror or error}", self._hint())
        except DataError as error:
            return Unreadable(key, error.message if at in error.message else f"{at}: {error.message}", error.hint)
        return Unreadable(key, f"{at}: image {image!r} is not under --images {self.label}", self._hint())

    def _hint(self) -> str:
        named = datasets()[self.dataset].images[0]
        return (
            f"--images is the folder, zip or tar of {self.dataset}'s images, or a folder that holds {named}/ or "
            f"{named}.zip; images are not part of the question files."
        )

    def _opened(self) -> list[tuple[Tree, list[str]]]:
        if self._trees is None and self.root is not None:
            self._trees = [(tree, _prefixes(tree)) for tree in _trees(self.dataset, self.root)]
        return self._trees or []


@lru_cache(maxsize=64)
def _dataset_images(dataset: str, name: str, process: int) -> DatasetImages:
    # Whether it is there is seen when an image is read: answers are scored after the images have gone.
    return DatasetImages(dataset, locate(name) if name else None, name)


def dataset_images(dataset: str, data: Data) -> DatasetImages:
    """Return the images of a data set: under --images, else beside the questions in a --data folder or archive.

    Raises:
        DataError: --images is no path, or cannot be fetched.
    """
    place = data.images or (None if data.path is None or data.path.suffix in (".jsonl", ".ndjson") else data.path)
    if data.images is None and str(place).startswith("hf:"):
        place = None  # the questions' repository has no images
    return _dataset_images(dataset, "" if place is None else str(place), os.getpid())


def _trees(dataset: str, root: Path) -> list[Tree]:
    """Folders and archives that may hold the data set, those named after it first."""
    if not root.is_dir():
        return [kept_tree(root)]
    named = _named(dataset, root)
    for folder in [path for path in named if path.is_dir()]:
        named += _named(dataset, folder, only_archives=True)
    return [*(kept_tree(path) for path in named), FolderTree(root)]


def _named(dataset: str, folder: Path, *, only_archives: bool = False) -> list[Path]:
    names = datasets()[dataset].images
    matches: list[tuple[int, str, Path]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            lower = entry.name.lower()
            ending = next((suffix for suffix in ARCHIVES if lower.endswith(suffix)), "")
            if lower.removesuffix(ending) not in names or (only_archives and not ending):
                continue
            if bool(ending) == entry.is_file():
                matches.append((names.index(lower.removesuffix(ending)), entry.name, Path(entry.path)))
    return [path for _, _, path in sorted(matches)]


def _prefixes(tree: Tree) -> list[str]:
    """Return the prefixes of image paths to try: none, and one folder on top."""
    if isinstance(tree, FolderTree):
        with os.scandir(tree.path) as entries:
            tops = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    else:
        tops = sorted({name.partition("/")[0] for name in tree.names() if "/" in name})
    return ["", *(f"{top}/" for top in tops)] if len(tops) <= MAX_TOP_FOLDERS else [""]
