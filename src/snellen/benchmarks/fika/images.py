"""Images of a row under neutral names: what they are called in the archive may be the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

from msgspec import Struct

from snellen.benchmarks.fika import columns
from snellen.errors import DataError
from snellen.sources import Base64Blob, Tree, Unreadable, kept_tree, member_name
from snellen.sources.blobs import stream
from snellen.types import Blob

HINT = "Fetch the data again, or name the field that holds the image: -o fields=FILE."


class NeutralImage(Struct, frozen=True):
    """An image of the data set, known by the row that shows it and never by its own name.

    `key` is file and row, `tree` and `name` say where the bytes are.
    """

    key: str
    tree: Tree
    name: str

    @property
    def quick(self) -> bool:
        try:
            return bool(getattr(self.tree.blob(self.name), "quick", False))
        except DataError:
            return True  # reading fails at once, with the reason

    def read(self) -> bytes:
        """Raises DataError where it cannot be read, without its name."""
        try:
            return self.tree.read(self.name)
        except DataError as error:
            raise self._neutral(error) from None

    def open(self) -> IO[bytes]:
        """Return the image as a stream. Raises DataError as `read`."""
        try:
            return stream(self.tree.blob(self.name))
        except DataError as error:
            raise self._neutral(error) from None

    def _neutral(self, error: DataError) -> DataError:
        plain = error.message
        for name in (self.name, PurePosixPath(self.name).name):
            plain = plain.replace(name, "(its image)")
        return DataError(f"{self.key}: {plain}", error.hint)


def row_images(value: Any, tree: Tree, manifest: str, at: str) -> list[Blob]:
    """Return the images of a row, in order.

    Args:
        value: what the row's field for the image holds: a path, an object with one, or a list of these.
        tree, manifest: where the images are, and the name of the manifest among them.
        at: file and row, for messages.

    Returns:
        A blob each; an Unreadable, which names the row alone, where it cannot be had.
    """
    names = list(columns.texts(_paths(value)))
    if not names:
        return [Unreadable(at, f"{at}: it names no image", HINT)]
    return [_image(name, tree, manifest, f"{at}, image {number}") for number, name in enumerate(names, 1)]


def members(value: Any, tree: Tree, manifest: str) -> list[tuple[str, Blob]]:
    """(name as the row gives it, blob of the tree) of a row's images, for a digest; those that are there."""
    blobs = []
    for name in columns.texts(_paths(value)):
        try:
            member = _member(name, tree, manifest)
        except (DataError, OSError):
            continue
        if member is not None:
            blobs.append((name, tree.blob(member)))
    return blobs


def _paths(value: Any) -> Any:
    """Return the paths in a value: of an object the member that holds them."""
    if isinstance(value, Mapping):
        return next((value[name] for name in ("path", "file_name", "image", "url") if name in value), None)
    return [_paths(item) for item in value] if isinstance(value, list) else value


def _image(name: str, tree: Tree, manifest: str, at: str) -> Blob:
    if name.startswith("data:"):
        return Base64Blob(at, name)
    if name.startswith(("http://", "https://")):
        return Unreadable(at, f"{at} is on the network, and pictures are not fetched while a run goes on", HINT)
    try:
        member = _member(name, tree, manifest)
    except (DataError, OSError):
        return Unreadable(at, f"{at}: its path cannot be used: it leaves the data, or is damaged", HINT)
    if member is None:
        return Unreadable(at, f"{at} is not in {tree.path}", HINT)
    return NeutralImage(at, tree, member)


def _member(name: str, tree: Tree, manifest: str) -> str | None:
    """Return the image's name in the tree.

    Beside the manifest or in a folder above it, else wherever one path ends so.
    """
    plain = member_name(name.removeprefix("./"), manifest)
    for folder in PurePosixPath(manifest).parents:
        place = str(folder / plain) if str(folder) != "." else plain
        if tree.exists(place):
            return place
    ending = [
        path
        for path in _by_name(tree.path, tree.path.stat().st_mtime_ns).get(PurePosixPath(plain).name, ())
        if f"/{path}".endswith(f"/{plain}")
    ]
    return ending[0] if len(ending) == 1 else None


@lru_cache(maxsize=1)
def _by_name(path: Path, changed: int) -> Mapping[str, list[str]]:
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name in kept_tree(path).names():
        by_name[PurePosixPath(name).name].append(name)
    return by_name
