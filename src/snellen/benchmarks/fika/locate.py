"""The rows and images of FIKA-Bench in --data: the gated zip, its folder, a manifest, or the hub.

Member names of the zip may hold labels, so none of them stands in a message that a run could write down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from snellen.benchmarks.base import Data
from snellen.benchmarks.fika.columns import FieldMap
from snellen.errors import DataError, UsageError
from snellen.sources import BytesBlob, FolderTree, Tree, digest, kept_tree, salvaged
from snellen.sources.encodings import Row
from snellen.sources.rows import JSON_BYTES
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import TARS
from snellen.sources.user_data import encodable, on_disk

REPOSITORY = "oking0197/FIKA-Bench"
ARCHIVE, ARCHIVES = "fika-bench-testset.zip", (".zip", *TARS)
MANIFESTS = ("manifest.json", "manifest.jsonl", "manifest.ndjson")
HINT = (
    f"Give --data {ARCHIVE} (or the folder that it unpacks to), or --data hf:{REPOSITORY} once access to the gated data "
    "set was granted and HF_TOKEN is set; DATA_ZIP stands in for --data."
)
FIX_HINT = "Fix the row, or fetch the data again."
_SHA256 = re.compile(r"\b[0-9a-fA-F]{64}\b")


@dataclass(frozen=True)
class ManifestQuestions:
    """The manifest, and the files that its rows refer to.

    Attributes:
        tree: folder or archive that holds the manifest.
        manifest: its name in the tree.
        image_tree: the tree that holds the images, and the name of what their paths start from: the manifest.
        others: how many further manifests there are.
        checked: the side file with the archive's SHA-256 that was found to agree; None: there is none.
    """

    tree: Tree
    manifest: str
    others: int
    checked: Path | None
    images: Tree | None = None

    @property
    def image_tree(self) -> tuple[Tree, str]:
        return (self.tree, self.manifest) if self.images is None else (self.images, "manifest")

    @property
    def file(self) -> str:
        """The manifest, as messages name it."""
        return f"{self.tree.path}!{self.manifest}"

    def rows(self, fields: FieldMap) -> Iterator[tuple[int, Row | DataError]]:
        """(line, row) of the manifest; an error in the place of a row that cannot be read.

        Raises:
            DataError: nothing of it can be read.
        """
        rows = _rows(self.tree.read(self.manifest), self.file, self.manifest, fields)
        return encodable(rows, self.file, FIX_HINT, quote=False)


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
    if path.is_file() and path.name.lower().endswith((".json", ".jsonl", ".ndjson")):
        tree: Tree = FolderTree(path.parent)
        return ManifestQuestions(tree, path.name, 0, None)
    if path.is_dir():
        tree = FolderTree(path)
        if not _manifests(tree, wanted):
            archive = _archive_in(path)
            if archive is not None:
                return _in_archive(archive, wanted)
        return _in_tree(tree, wanted, None)
    if path.name.lower().endswith(ARCHIVES):
        return _in_archive(path, wanted)
    regular_file(path)
    raise DataError(f"{path}: a zip, a folder or a manifest was expected", HINT)


def _archive_in(folder: Path) -> Path | None:
    named = folder / ARCHIVE
    if named.is_file():
        return named
    archives = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ARCHIVES))
    return archives[0] if len(archives) == 1 else None


def _in_archive(path: Path, wanted: str | None) -> ManifestQuestions:
    checked = check_side_file(path)
    return _in_tree(kept_tree(path), wanted, checked)


def _in_tree(tree: Tree, wanted: str | None, checked: Path | None) -> ManifestQuestions:
    manifests = _manifests(tree, wanted)
    if not manifests:
        named = wanted or "manifest.json or manifest.jsonl"
        raise DataError(f"{tree.path}: there is no {named} in it, at its root or in any folder", HINT)
    return ManifestQuestions(tree, manifests[0], len(manifests) - 1, checked)


def _manifests(tree: Tree, wanted: str | None) -> list[str]:
    """Return the names of manifests, the one under the fewest folders first."""
    if wanted is not None:
        return [wanted] if tree.exists(wanted) else []
    names = [name for name in tree.names() if PurePosixPath(name).name.lower() in MANIFESTS and "__MACOSX" not in name]
    return sorted(names, key=lambda name: (name.count("/"), name))


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


def _rows(content: bytes, file: str, name: str, fields: FieldMap) -> Iterator[tuple[int, Row | DataError]]:
    """Yield a list, an object that holds the list, or lines: by what is in it, for a name may be wrong."""
    if len(content) > JSON_BYTES:
        raise DataError(f"{file}: larger than {JSON_BYTES:,} bytes", HINT)
    lines = name.lower().endswith((".jsonl", ".ndjson"))
    value: Any = None
    if not lines:
        try:
            value = msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, RecursionError) as error:
            if not content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") or b"\n" not in content.strip():
                raise DataError(f"{file}: {error}", FIX_HINT) from error
    if value is None:
        yield from salvaged(BytesBlob(file if lines else f"{file} (lines).jsonl", content))
    else:
        yield from _listed(value, file, fields)


def _listed(rows: Any, file: str, fields: FieldMap) -> Iterator[tuple[int, Row | DataError]]:
    if isinstance(rows, dict):
        rows = next((rows[member] for member in fields.rows if member in rows), [rows])
    if not isinstance(rows, list):
        expected = ", ".join(fields.rows)
        raise DataError(f"{file}: a list of rows was expected, or an object with one as {expected}", FIX_HINT)
    for number, row in enumerate(rows, 1):
        fault = DataError(f"{file}, row {number:,}: a {type(row).__name__} was found; an object was expected", FIX_HINT)
        yield number, row if isinstance(row, dict) else fault
