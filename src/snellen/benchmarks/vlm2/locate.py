"""The rows and images of one subtask in --data: a zip, a folder, a file, a table, or the hub.

In the official layout `jsonl/<cue>/vanilla/<file>.jsonl` (the released scripts also spell it `vallina`) lies beside
`data/...`, at the root or under a folder that somebody put on top. An image that cannot be had is an `Unreadable` that names
the question's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import vlmevalkit_tsv
from snellen.benchmarks.vlm2.layout import SUBTASKS, Subtask
from snellen.errors import DataError, UsageError
from snellen.sources.blobs import FileBlob, stream
from snellen.sources.digests import blob_digest, content_digest
from snellen.sources.digests import digest as digest_of
from snellen.sources.encodings import Row
from snellen.sources.locator import ARCHIVES, Pictures, ending_in, files_below, on_disk, opened, under
from snellen.sources.open_tree import kept_tree
from snellen.sources.rows import encodable, salvaged
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import FolderTree, Tree
from snellen.sources.vlmevalkit_tsv import VLMEvalKitImage
from snellen.types import Blob

REPOSITORY = "Sterzhang/vlm2-bench"
HINT = (
    f"Give vlm2-bench_dataset.zip or the folder it was unpacked to, one question file, or --data hf:{REPOSITORY} "
    "(6.5 GB)."
)
FETCHED = (("*.zip",), ("jsonl/*", "data/*", "*.tsv"))
"""Files of the hub, the first group that is there."""
QUESTIONS = (".jsonl", ".ndjson", ".json")
VIDEO_ENDINGS = (".mp4", ".mov", ".avi")
LEVELS_UP = 5
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
        raise UsageError(f"vlm2/{subtask.name} needs its data, and none was given", HINT)
    path = on_disk(str(data.path), *FETCHED)
    tree, file = opened(path, (*QUESTIONS, ".tsv"), HINT)
    name = file or _question_file(tree, subtask)
    if not name and isinstance(tree, FolderTree):
        if archive := _inside(path, ARCHIVES):
            tree = kept_tree(archive)
            name = _question_file(tree, subtask)
        elif table := _inside(path, (".tsv",)):
            path, name = table, table.name
    if not name:
        folder = subtask.folders[0]
        raise DataError(
            f"{tree.path}: no {folder}/{subtask.questions} in it, at its root or under another folder", HINT
        )
    if name.lower().endswith(".tsv"):
        return _in_table(path, subtask, data)
    if file:
        _check_right_file(path, subtask)
    beside = partial(_above_file, path, subtask) if file else partial(_beside_questions, tree, name, subtask)
    pictures = _pictures(subtask, data, beside)
    blob = FileBlob(path) if file else tree.blob(name)
    trees = ([] if file else [tree]) + ([] if data.images is None else [kept_tree(data.images)])
    return SubtaskQuestions(
        blob.key,
        partial(_encodable, blob),
        partial(_shown, subtask, blob.key, pictures),
        lambda: blob_digest(blob).removeprefix("sha256:"),
        tuple(_left_out(tree) for tree in dict.fromkeys(trees) if tree.left_out),
        partial(_lines, blob) if blob.key.lower().endswith((".jsonl", ".ndjson")) else None,
    )


def _question_file(tree: Tree, subtask: Subtask) -> str:
    """Return the name of a subtask's question file; empty where there is none.

    At the root in either spelling of its folder, else the one under the fewest folders.

    Raises:
        DataError: it is there and was left out as unsafe to read.
    """
    wanted = tuple(f"{folder}/{subtask.questions}" for folder in subtask.folders)
    at_root = (name for name in wanted if tree.find(name) is not None)
    return next(at_root, "") or next(iter(ending_in(tree.names(), *wanted)), "")


def _inside(folder: Path, endings: tuple[str, ...]) -> Path | None:
    """Return the first file of VLM2-Bench with one of these endings that lies right in a folder."""
    names = (name for name in files_below(folder, endings, 0) if "vlm2" in name.lower())
    return next((folder / name for name in names), None)


def _check_right_file(path: Path, subtask: Subtask) -> None:
    """Raises DataError where a file has the name of another subtask's question file."""
    other = {known.questions: known.name for known in SUBTASKS}.get(path.name)
    if other is not None and other != subtask.name:
        raise DataError(
            f"{path} holds the questions of vlm2/{other}; those of vlm2/{subtask.name} were expected",
            f"Run vlm2/{other}, or give {subtask.questions}, or the folder or zip that holds all of them.",
        )


def _pictures(subtask: Subtask, data: Data, beside: Callable[[], Pictures]) -> Pictures:
    """Return the images under --images (the data's root, its `data`, or the folder that paths start from), or beside."""
    if data.images is None:
        return beside()
    prefixes = (f"{subtask.media}/", f"{subtask.media.removeprefix('data/')}/", "")
    hint = f"Check --images {data.images}: it should hold {subtask.media}."
    return _pictures_in(kept_tree(data.images), subtask, prefixes, hint)


def _pictures_in(tree: Tree, subtask: Subtask, prefixes: Sequence[str], hint: str) -> Pictures:
    """Return the images or videos of a subtask in a folder or archive, behind these prefixes of a row's own path."""
    first, *others = VIDEO_ENDINGS if subtask.family == "video" else ("",)
    nor = f" (nor with {', '.join(others)})" if others else ""
    return Pictures(
        str(tree.path),
        (under(tree, prefixes, (first, *others)),),
        lambda path: f"there is no {prefixes[0] + path + first!r} in {tree.path}{nor}",
        hint,
    )


def _beside_questions(tree: Tree, name: str, subtask: Subtask) -> Pictures:
    """Return the images that belong to a question file of the same folder or archive."""
    top = next((name.removesuffix(f"{folder}/{subtask.questions}") for folder in subtask.folders if folder in name), "")
    own, inner = f"{top}{subtask.media}/", f"{subtask.media}/"
    prefixes = [own]
    if not (isinstance(tree, FolderTree) and (tree.path / own).is_dir()):
        others = {member[: member.index(inner)] + inner for member in tree.names() if f"/{inner}" in f"/{member}"}
        prefixes += [] if own in others else sorted(others)
    return _pictures_in(tree, subtask, prefixes, "Fetch or unpack the data again.")


def _above_file(path: Path, subtask: Subtask) -> Pictures:
    """Return the images for a question file that was given alone: `data/...` in a folder above it."""
    for folder in list(path.absolute().parents)[:LEVELS_UP]:
        if (folder / subtask.media).is_dir():
            return _pictures_in(FolderTree(folder), subtask, (f"{subtask.media}/",), "Fetch or unpack the data again.")
    hint = f"Give --images: the folder or zip that holds {subtask.media}."
    return Pictures("no images", (), lambda name: f"{name!r} was asked for, and no pictures were found", hint)


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


def _shown(subtask: Subtask, file: str, pictures: Pictures, line: int, row: Row) -> list[Blob]:
    return [pictures.find(name, f"{file}, line {line:,}") for name in names(subtask, row)]


def _in_table(path: Path, subtask: Subtask, data: Data) -> SubtaskQuestions:
    """VLMEvalKit's table; it has no videos, and so no rows of pc-vid."""
    beside = FolderTree(path.absolute().parent), subtask, ("", "images/VLM2Bench/", "images/")
    pictures = _pictures(subtask, data, partial(_pictures_in, *beside, "Give their folder as --images."))
    return SubtaskQuestions(
        str(path),
        partial(vlmevalkit_tsv.rows, subtask, path),
        lambda line, row: vlmevalkit_tsv.shown(path, line, pictures),
        partial(_once, path),
        tuple(vlmevalkit_tsv.remarks(subtask, path)),
    )


def _once(path: Path) -> str:
    status = regular_file(path)
    return _file_digest(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _file_digest(path: Path, changed: int, size: int) -> str:
    return digest_of(path)
