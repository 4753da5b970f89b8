"""From what the user gives to the rows and pictures of one subtask: a zip, a folder, a file, a table, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import kit_tsv, layout
from snellen.benchmarks.vlm2.layout import Pictures
from snellen.benchmarks.vlm2.subtasks import Subtask
from snellen.errors import DataError, UsageError
from snellen.sources import FileBlob, FolderTree, Tree, locate, salvaged
from snellen.sources import digest as digest_of
from snellen.sources.confine import regular_file
from snellen.sources.rows import Row
from snellen.types import Blob

HUB = "hf:"


@dataclass(frozen=True)
class Questions:
    """The questions of one subtask, wherever they lie.

    Attributes:
        file: the question file or table, as messages name it.
        rows: starts a new pass: (line, row with the fields of the authors' files, or why there is none).
        shown: the pictures, or the video, of a row by its line; nothing is read yet, and what cannot be had is
            Unreadable.
        digest: starts with how it was made; equal for equal questions about equal pictures in the same kind of source.
        remarks: what is odd about the source itself, one line each: members of an archive that are not read ...
    """

    file: str
    rows: Callable[[], Iterator[tuple[int, Row | DataError]]]
    shown: Callable[[int, Row], list[Blob]]
    digest: Callable[[], str]
    remarks: tuple[str, ...] = ()


def questions(subtask: Subtask, data: Data) -> Questions:
    """Where the user's data has the questions of a subtask.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of VLM2-Bench in it.
    """
    if data.path is None:
        raise UsageError(f"vlm2/{subtask.name} needs its data, and none was given", layout.HINT)
    path = _on_disk(str(data.path))
    name = path.name.lower()
    if path.is_dir():
        return _in_folder(path, subtask, data)
    if name.endswith(layout.ARCHIVES):
        return _in_tree(layout.tree_of(path), subtask, data)
    if name.endswith(layout.QUESTIONS):
        return _in_file(path, subtask, data)
    if name.endswith(".tsv"):
        return _in_table(path, subtask, data)
    regular_file(path)
    raise DataError(
        f"{path}: a folder, {', '.join((*layout.ARCHIVES, *layout.QUESTIONS))} or .tsv was expected", layout.HINT
    )


@lru_cache(maxsize=8)
def _on_disk(given: str) -> Path:
    """The path, or the folder of the hub's files; asked of the hub once a process."""
    if not given.startswith(HUB):
        return Path(given)
    try:
        return locate(given, patterns=["*.zip"])
    except DataError as error:
        if "no file matches" not in error.message:
            raise
    return locate(given, patterns=["jsonl/*", "data/*", "*.tsv"])


def _in_folder(folder: Path, subtask: Subtask, data: Data) -> Questions:
    tree = FolderTree(folder)
    if layout.question_file(tree, subtask) is not None:
        return _in_tree(tree, subtask, data)
    if archive := layout.inside(folder, layout.ARCHIVES, "vlm2"):
        return _in_tree(layout.tree_of(archive), subtask, data)
    if table := layout.inside(folder, (".tsv",), "vlm2"):
        return _in_table(table, subtask, data)
    return _in_tree(tree, subtask, data)


def _in_tree(tree: Tree, subtask: Subtask, data: Data) -> Questions:
    name = layout.question_file(tree, subtask)
    if name is None:
        raise DataError(
            f"{tree.path}: no {subtask.folders[0]}/{subtask.questions} in it, at its root or under another folder",
            layout.HINT,
        )
    blob = tree.blob(name)
    pictures = (
        layout.beside_questions(tree, name, subtask)
        if data.images is None
        else layout.given_pictures(data.images, subtask)
    )
    return _of_rows(subtask, blob, pictures, tree if not isinstance(tree, FolderTree) else None)


def _in_file(path: Path, subtask: Subtask, data: Data) -> Questions:
    regular_file(path)
    layout.check_right_file(path, subtask)
    pictures = layout.above_file(path, subtask) if data.images is None else layout.given_pictures(data.images, subtask)
    return _of_rows(subtask, FileBlob(path), pictures, None)


def _of_rows(subtask: Subtask, blob: Blob, pictures: Pictures, archive: Tree | None) -> Questions:
    rows = partial(salvaged, blob)
    shown = partial(_shown, subtask, blob.key, pictures)
    trees = {id(tree): tree for tree in (archive, pictures.tree) if tree is not None}
    return Questions(
        blob.key,
        rows,
        shown,
        partial(_digest, subtask, blob, archive, pictures),
        tuple(f"{error.message}; left out" for tree in trees.values() for error in tree.left_out.values()),
    )


def names(subtask: Subtask, row: Row) -> list[str]:
    """Paths of a row's pictures, or the name of its video, as the row gives them; what is no text is left out."""
    found: Any = [row.get("vid")] if subtask.family == "video" else row.get("images")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _shown(subtask: Subtask, file: str, pictures: Pictures, line: int, row: Row) -> list[Blob]:
    endings = layout.VIDEO_ENDINGS if subtask.family == "video" else ("",)
    return [pictures.find(name, f"{file}, line {line:,}", endings) for name in names(subtask, row)]


def _digest(subtask: Subtask, blob: Blob, archive: Tree | None, pictures: Pictures) -> str:
    """SHA-256 over the digests of the question file, or of the archive that holds it, and of the pictures.

    Pictures of an archive are told by the archive's digest, those in a folder by name and content of each that is
    asked for.
    """
    total = sha256(_content(blob, archive).encode())
    tree = pictures.tree
    if tree is not None and not isinstance(tree, FolderTree):
        if tree is not archive:
            total.update(_archive_digest(tree).encode())
    elif tree is not None:
        asked: dict[str, None] = {}
        for line, row in salvaged(blob):
            if not isinstance(row, DataError):
                for shown in _shown(subtask, blob.key, pictures, line, row):
                    if isinstance(shown, FileBlob):
                        asked[str(shown.path)] = None
        for path in asked:
            total.update(f"{Path(path).relative_to(tree.path)}\0{digest_of(path)}\n".encode(errors="surrogateescape"))
    return f"sha256:{total.hexdigest()}"


def _content(blob: Blob, archive: Tree | None) -> str:
    if archive is not None:
        return _archive_digest(archive)
    return digest_of(blob.path) if isinstance(blob, FileBlob) else sha256(blob.read()).hexdigest()


def _archive_digest(tree: Tree) -> str:
    found = regular_file(tree.path)
    return _file_digest(tree.path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=8)
def _file_digest(path: Path, changed: int, size: int) -> str:
    return digest_of(path)


def _in_table(path: Path, subtask: Subtask, data: Data) -> Questions:
    """VLMEvalKit's table; it has no videos, and so no rows of pc-vid."""
    if data.images is None:
        pictures = Pictures(
            FolderTree(path.absolute().parent), ("", "images/VLM2Bench/", "images/"), "Give their folder as --images."
        )
    else:
        pictures = layout.given_pictures(data.images, subtask)

    def digest() -> str:
        found = regular_file(path)
        return _file_digest(path, found.st_mtime_ns, found.st_size)

    return Questions(
        str(path),
        partial(kit_tsv.rows, subtask, path),
        lambda line, row: kit_tsv.shown(path, line, pictures),
        digest,
        tuple(kit_tsv.remarks(subtask, path)),
    )
