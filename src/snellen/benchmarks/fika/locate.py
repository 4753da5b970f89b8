"""The rows and images of FIKA-Bench in --data: the gated zip, its folder, a manifest, or the hub.

Member names of the zip may hold labels, so none of them stands in a message that a run could write down: images have neutral
names, since what they are called in the archive may be the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.fika import columns
from snellen.benchmarks.fika.columns import FieldMap
from snellen.errors import DataError, SnellenError, UsageError
from snellen.sources.blobs import Base64Blob, BytesBlob, Unreadable, stream
from snellen.sources.digests import digest
from snellen.sources.encodings import Row
from snellen.sources.locator import ARCHIVES, MemberEnds, Pictures, ending_in, on_disk, opened, under
from snellen.sources.open_tree import kept_tree
from snellen.sources.rows import encodable, salvaged
from snellen.sources.tree import FolderTree, Tree
from snellen.types import Blob

REPOSITORY = "oking0197/FIKA-Bench"
ARCHIVE = "fika-bench-testset.zip"
MANIFESTS = ("manifest.json", "manifest.jsonl", "manifest.ndjson")
HINT = (
    f"Give --data {ARCHIVE} (or the folder that it unpacks to), or --data hf:{REPOSITORY} once access to the gated data "
    "set was granted and HF_TOKEN is set; DATA_ZIP stands in for --data."
)
FIX_HINT = "Fix the row, or fetch the data again."
IMAGE_HINT = "Fetch the data again, or name the field that holds the image: -o fields=FILE."
MANIFEST_BYTES = 64 << 20
_SHA256 = re.compile(r"\b[0-9a-fA-F]{64}\b")


@dataclass(frozen=True)
class ManifestQuestions:
    """The manifest, and the files that its rows refer to.

    Attributes:
        tree: folder or archive that holds the manifest.
        manifest: its name in the tree.
        others: how many further manifests there are.
        checked: the side file with the archive's SHA-256 that was found to agree; None: there is none.
        images: the folder or archive of the images; None: the manifest's.
    """

    tree: Tree
    manifest: str
    others: int
    checked: Path | None
    images: Tree | None = None

    @cached_property
    def pictures(self) -> Pictures:
        """The images: beside the manifest or in a folder above it, else wherever one path ends like the row's."""
        tree, manifest = (self.tree, self.manifest) if self.images is None else (self.images, "manifest")
        above = [f"{folder}/" if str(folder) != "." else "" for folder in PurePosixPath(manifest).parents]
        return Pictures(str(tree.path), (under(tree, above), MemberEnds(lambda: [tree])), lambda _: "", IMAGE_HINT)

    @property
    def file(self) -> str:
        """The manifest, as messages name it."""
        return f"{self.tree.path}!{self.manifest}"

    def rows(self, fields: FieldMap) -> Iterator[tuple[int, Row | DataError]]:
        """(line, row) of the manifest; an error in the place of a row that cannot be read.

        Raises:
            DataError: nothing of it can be read.
        """
        blob = BytesBlob(self.file, self.tree.read(self.manifest))
        return encodable(salvaged(blob, each=fields.rows), self.file, FIX_HINT, quote=False)


def questions(data: Data) -> ManifestQuestions:
    """Locate the user's data; images lie under --images where that is given.

    Raises:
        UsageError: none was given.
        DataError: nothing there, no manifest in it, or an archive that its side file contradicts.
    """
    if data.path is None:
        raise UsageError("fika needs its data, and none was given", HINT)
    source = _questions_at(on_disk(str(data.path), ("*.zip", "*.sha256")), data.options.get("manifest"))
    return source if data.images is None else replace(source, images=kept_tree(data.images))


def _questions_at(path: Path, wanted: str | None) -> ManifestQuestions:
    archive = _archive_at(path, wanted)
    checked = check_side_file(archive) if archive.name.lower().endswith(ARCHIVES) and archive.is_file() else None
    return _in_archive(archive, wanted, checked)


def _archive_at(path: Path, wanted: str | None) -> Path:
    return (_archive_in(path) or path) if path.is_dir() and not _manifests(FolderTree(path), wanted) else path


def _in_archive(archive: Path, wanted: str | None, checked: Path | None) -> ManifestQuestions:
    tree, file = opened(archive, (".json", ".jsonl", ".ndjson"), HINT)
    manifests = [file] if file else _manifests(tree, wanted)
    if not manifests:
        named = wanted or "manifest.json or manifest.jsonl"
        raise DataError(f"{tree.path}: there is no {named} in it, at its root or in any folder", HINT)
    return ManifestQuestions(tree, manifests[0], len(manifests) - 1, checked)


def is_whole_set(path: Path) -> bool:
    """Return True for data that read as the whole set, whatever their names are: its zip, its folder or its manifest."""
    fields = columns.built_in()
    wanted = fields.expected.samples
    try:
        found = _in_archive(_archive_at(path, None), None, None)
        with found.tree.open(found.manifest) as manifest:
            if len(manifest.read(MANIFEST_BYTES + 1)) > MANIFEST_BYTES:
                return False
        rows = [row for _, row in islice(found.rows(fields), (wanted or 0) + 1)]
    except (SnellenError, OSError, ValueError):
        return False
    return len(rows) == wanted and all(
        isinstance(row, DataError) or all(fields.first(row, name) is not None for name in columns.NEEDED)
        for row in rows
    )


def _archive_in(folder: Path) -> Path | None:
    named = folder / ARCHIVE
    if named.is_file():
        return named
    archives = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ARCHIVES))
    return archives[0] if len(archives) == 1 else None


def _manifests(tree: Tree, wanted: str | None) -> list[str]:
    """Return the names of manifests, the one under the fewest folders first."""
    if wanted is not None:
        return [wanted] if tree.exists(wanted) else []
    return ending_in(tree.names(), *MANIFESTS)


def check_side_file(archive: Path) -> Path | None:
    """Return the side file that agrees with the archive: `<name>.zip.sha256`, or `<name>.sha256` as on the hub.

    Returns:
        Its path; None where there is none.

    Raises:
        DataError: it names another SHA-256, or none.
    """
    for side in (archive.with_name(f"{archive.name}.sha256"), archive.with_suffix(".sha256")):
        if side.is_file():
            _agree(archive, side)
            return side
    return None


def _agree(archive: Path, side: Path) -> None:
    try:
        lines = side.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{side}: cannot be read: {error}", "Fetch it again, or remove it.") from error
    hashes = [(line, match[0].lower()) for line in lines if (match := _SHA256.search(line))]
    expected = next((value for line, value in hashes if archive.name in line), hashes[0][1] if hashes else None)
    if expected is None:
        raise DataError(f"{side}: holds no SHA-256", "Fetch it again, or remove it to go without the check.")
    actual = digest(archive).removeprefix("sha256:")
    if actual != expected:
        raise DataError(
            f"{archive}: its SHA-256 is {actual}, and {side.name} beside it says {expected}",
            "The archive is damaged or of another version: fetch it again together with its side file.",
        )


class NeutralImage(Struct, frozen=True):
    """An image of the data set, known by the row that shows it and never by its own name.

    `key` is file and row; `name`, where the blob lies in its tree, is taken out of messages.
    """

    key: str
    blob: Blob
    name: str

    @property
    def quick(self) -> bool:
        return bool(getattr(self.blob, "quick", False))

    def read(self) -> bytes:
        """Raises DataError where it cannot be read, without its name."""
        try:
            return self.blob.read()
        except DataError as error:
            raise self._neutral(error) from None

    def open(self) -> IO[bytes]:
        """Return the image as a stream. Raises DataError as `read`."""
        try:
            return stream(self.blob)
        except DataError as error:
            raise self._neutral(error) from None

    def _neutral(self, error: DataError) -> DataError:
        plain = error.message
        for name in (self.name, PurePosixPath(self.name).name):
            plain = plain.replace(name, "(its image)")
        return DataError(f"{self.key}: {plain}", error.hint)


def row_images(value: Any, pictures: Pictures, at: str) -> list[Blob]:
    """Return the images of a row, in order.

    Args:
        value: what the row's field for the image holds: a path, an object with one, or a list of these.

    Returns:
        A blob each; an Unreadable, which names the row alone, where it cannot be had.
    """
    names = list(columns.texts(_paths(value)))
    if not names:
        return [Unreadable(at, f"{at}: it names no image", IMAGE_HINT)]
    return [_image(name, pictures, f"{at}, image {number}") for number, name in enumerate(names, 1)]


def named_images(value: Any, pictures: Pictures) -> Iterator[tuple[str, Blob]]:
    """Yield (name as the row gives it, blob of the tree) of a row's images that are there, for a digest."""
    for name in columns.texts(_paths(value)):
        try:
            located = pictures.located(name)
        except (DataError, OSError):
            continue
        if located is not None:
            yield name, located[0]


def _paths(value: Any) -> Any:
    """Return the paths in a value: of an object the member that holds them."""
    if isinstance(value, Mapping):
        return next((value[name] for name in ("path", "file_name", "image", "url") if name in value), None)
    return [_paths(item) for item in value] if isinstance(value, list) else value


def _image(name: str, pictures: Pictures, at: str) -> Blob:
    if name.startswith("data:"):
        return Base64Blob(at, name)
    if name.startswith(("http://", "https://")):
        return Unreadable(at, f"{at} is on the network, and pictures are not fetched while a run goes on", IMAGE_HINT)
    try:
        located = pictures.located(name)
    except (DataError, OSError):
        return Unreadable(at, f"{at}: its path cannot be used: it leaves the data, or is damaged", IMAGE_HINT)
    if located is None:
        return Unreadable(at, f"{at} is not in {pictures.place}", IMAGE_HINT)
    return NeutralImage(at, *located)
