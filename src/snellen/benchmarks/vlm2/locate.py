"""The rows and images of one subtask in --data: a zip, a folder, a file, a table, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import layout, vlmevalkit_tsv
from snellen.benchmarks.vlm2.layout import Subtask
from snellen.errors import DataError, UsageError
from snellen.sources.blobs import FileBlob, stream
from snellen.sources.digests import blob_digest, content_digest
from snellen.sources.digests import digest as digest_of
from snellen.sources.encodings import Row
from snellen.sources.locator import ARCHIVES, Pictures, on_disk, opened
from snellen.sources.rows import encodable, salvaged
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import FolderTree, Tree, kept_tree
from snellen.sources.vlmevalkit_tsv import VLMEvalKitImage
from snellen.types import Blob

FETCHED = (("*.zip",), ("jsonl/*", "data/*", "*.tsv"))
"""Files of the hub, the first group that is there."""
NAMED = 5


@dataclass(frozen=True)
class SubtaskQuestions:
    """The questions of one subtask, wherever they lie.

    Attributes:
        file: the question file or table, as messages name it.
        rows: starts a new pass: (line, row with the fields of the authors' files, or why there is none).
        shown: the images, or the video, of a row by its line; nothing is read yet, and what cannot be had is
            Unreadable.
        content: digest of the question file's or table's bytes.
        remarks: what is odd about the source itself, one line each: members of an archive that are not read ...
        lines: counts rows without decoding them, where each line is one.
    """

    file: str
    rows: Callable[[], Iterator[tuple[int, Row | DataError]]]
    shown: Callable[[int, Row], list[Blob]]
    content: Callable[[], str]
    remarks: tuple[str, ...] = ()
    lines: Callable[[], int] | None = None

    def count(self) -> int:
        """Count the rows, unreadable ones included."""
        return self.lines() if self.lines is not None else sum(1 for _ in self.rows())


def questions(subtask: Subtask, data: Data) -> SubtaskQuestions:
    """Locate the questions of a subtask in the user's data.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of VLM2-Bench in it.
    """
    if data.path is None:
        raise UsageError(f"vlm2/{subtask.name} needs its data, and none was given", layout.HINT)
    path = on_disk(str(data.path), *FETCHED)
    tree, file = opened(path, (*layout.QUESTIONS, ".tsv"), layout.HINT)
    if file:
        return _in_table(path, subtask, data) if file.lower().endswith(".tsv") else _in_file(path, subtask, data)
    return _in_folder(tree, subtask, data) if isinstance(tree, FolderTree) else _in_tree(tree, subtask, data)


def _in_folder(tree: FolderTree, subtask: Subtask, data: Data) -> SubtaskQuestions:
    if layout.question_file(tree, subtask) is not None:
        return _in_tree(tree, subtask, data)
    if archive := layout.inside(tree.path, ARCHIVES, "vlm2"):
        return _in_tree(kept_tree(archive), subtask, data)
    if table := layout.inside(tree.path, (".tsv",), "vlm2"):
        return _in_table(table, subtask, data)
    return _in_tree(tree, subtask, data)


def _in_tree(tree: Tree, subtask: Subtask, data: Data) -> SubtaskQuestions:
    name = layout.question_file(tree, subtask)
    if name is None:
        raise DataError(
            f"{tree.path}: no {subtask.folders[0]}/{subtask.questions} in it, at its root or under another folder",
            layout.HINT,
        )
    blob = tree.blob(name)
    subtask_images = (
        layout.beside_questions(tree, name, subtask)
        if data.images is None
        else layout.given_pictures(data.images, subtask)
    )
    return _of_rows(subtask, blob, subtask_images, tree, _given(data))


def _in_file(path: Path, subtask: Subtask, data: Data) -> SubtaskQuestions:
    layout.check_right_file(path, subtask)
    subtask_images = (
        layout.above_file(path, subtask) if data.images is None else layout.given_pictures(data.images, subtask)
    )
    return _of_rows(subtask, FileBlob(path), subtask_images, _given(data))


def _given(data: Data) -> Tree | None:
    return None if data.images is None else kept_tree(data.images)


def _of_rows(subtask: Subtask, blob: Blob, subtask_images: Pictures, *trees: Tree | None) -> SubtaskQuestions:
    return SubtaskQuestions(
        blob.key,
        partial(_encodable, blob),
        partial(_shown, subtask, blob.key, subtask_images),
        lambda: blob_digest(blob).removeprefix("sha256:"),
        tuple(_left_out(tree) for tree in dict.fromkeys(trees) if tree is not None and tree.left_out),
        partial(_lines, blob) if blob.key.lower().endswith((".jsonl", ".ndjson")) else None,
    )


def _lines(blob: Blob) -> int:
    """Lines of JSONL that are not blank: each is a row, or an error in its place."""
    with stream(blob) as lines:
        return sum(1 for line in lines if not line.isspace())


def _left_out(tree: Tree) -> str:
    reasons = "; ".join(error.message for error in islice(tree.left_out.values(), NAMED))
    count = len(tree.left_out)
    many = "1 member is" if count == 1 else f"{count:,} members are"
    return f"{tree.path}: {many} not read: {reasons}{'; ...' if count > NAMED else ''}"


def _encodable(blob: Blob) -> Iterator[tuple[int, Row | DataError]]:
    return encodable(salvaged(blob), blob.key, "Fix the line, or fetch the file again.")


def digest(subtask: Subtask, data: Data) -> str:
    """Return the digest of the questions of a subtask and of their images, for a run's fingerprint.

    Equal for the zip and for the folder that it unpacks to; VLMEvalKit's table, whose questions were written by others,
    has its own.

    Raises:
        UsageError, DataError: as `questions`; the question file cannot be read.
    """
    source = questions(subtask, data)
    subtask_images = (
        (name, blob)
        for line, row in source.rows()
        if not isinstance(row, DataError)
        for name, blob in zip(names(subtask, row), source.shown(line, row), strict=False)
        if not isinstance(blob, VLMEvalKitImage)
    )
    return content_digest(source.content(), subtask_images, f"{source.file}\0{subtask.name}")


def names(subtask: Subtask, row: Row) -> list[str]:
    """Return the paths of a row's images, or the name of its video, as the row gives them.

    What is no text is left out.
    """
    values: Any = [row.get("vid")] if subtask.family == "video" else row.get("images")
    return [name for name in values if isinstance(name, str)] if isinstance(values, list) else []


def _shown(subtask: Subtask, file: str, subtask_images: Pictures, line: int, row: Row) -> list[Blob]:
    return [subtask_images.find(name, f"{file}, line {line:,}") for name in names(subtask, row)]


def _in_table(path: Path, subtask: Subtask, data: Data) -> SubtaskQuestions:
    """VLMEvalKit's table; it has no videos, and so no rows of pc-vid."""
    if data.images is None:
        beside = FolderTree(path.absolute().parent), subtask, ("", "images/VLM2Bench/", "images/")
        subtask_images = layout.pictures_in(*beside, "Give their folder as --images.")
    else:
        subtask_images = layout.given_pictures(data.images, subtask)
    return SubtaskQuestions(
        str(path),
        partial(vlmevalkit_tsv.rows, subtask, path),
        lambda line, row: vlmevalkit_tsv.shown(path, line, subtask_images),
        partial(_once, path),
        tuple(vlmevalkit_tsv.remarks(subtask, path)),
    )


def _once(path: Path) -> str:
    status = regular_file(path)
    return _file_digest(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _file_digest(path: Path, changed: int, size: int) -> str:
    return digest_of(path)
