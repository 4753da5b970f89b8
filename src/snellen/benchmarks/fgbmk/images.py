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
from snellen.errors import DataError
from snellen.sources import Unreadable, locate
from snellen.sources.blobs import stream
from snellen.sources.hub import fetch_hint, pointer_of
from snellen.sources.image_roots import ImageRoots, missing_places
from snellen.sources.image_sets import image_sets
from snellen.types import Blob


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
        data = self.located().read()
        if pointer_of(data) is not None:
            raise DataError(
                f"{self.file}, line {self.line:,}: image {self.name!r} is a pointer of Git LFS, not the image",
                fetch_hint(None),
            )
        return data

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
        self._roots: ImageRoots | None = None

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
        if self._roots is None and not self.root.exists():
            return Unreadable(key, f"{at}: image {image!r} was asked for, and nothing is at {self.label}", self._hint())
        if self._roots is None:
            self._roots = ImageRoots(self.root, [self.dataset] if self.dataset in image_sets() else [])
        try:
            located = self._roots.find(image)
            if located is not None:
                tree, name = located
                return tree.blob(name)
        except OSError as error:
            return Unreadable(key, f"{at}: image {image!r} cannot be read: {error.strerror or error}", self._hint())
        except DataError as error:
            return Unreadable(key, error.message if at in error.message else f"{at}: {error.message}", error.hint)
        problems = missing_places(self._roots)
        return Unreadable(key, f"{at}: image {image!r} is not under --images {self.label}{problems}", self._hint())

    def _hint(self) -> str:
        known = image_sets().get(self.dataset)
        if known is None:
            return "--images is the folder, zip or tar of the images, or a folder that holds several sets of them."
        return (
            f"--images is the folder, zip or tar of {known.title}, or a folder that holds it, unpacked or as an archive; "
            "images are not part of the question files."
        )


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
