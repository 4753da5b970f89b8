"""A survey of the user's data: every file that lies there, with its use or the reason why it is omitted."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from snellen.benchmarks.base import DataFile
from snellen.benchmarks.fgbmk.catalogue import Member, member_of_path
from snellen.benchmarks.fgbmk.row_kinds import members_of_rows
from snellen.errors import DataError
from snellen.sources import FileBlob, Tree, kept_tree, salvaged
from snellen.sources.blobs import stream
from snellen.sources.hub import LfsPointer, fetch_hint, pointer_in
from snellen.sources.image_sets import image_set_of
from snellen.sources.locator import ARCHIVES
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import NOT_IN_PLACE
from snellen.types import Blob

QUESTIONS = (".jsonl", ".ndjson")
IMAGES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"})
DEPTH = 8
NOT_ENTERED = frozenset({"images", "img", "jpg", "car_ims", "val", "veg200_images", "fru92_images", "machine-oriented"})
ATTRIBUTE_FOLDER = "attribute_recognition"
FIELDS = ("image", "text", "class")
ROW_BYTES = 250
"""A question's usual length in a file, by which the number of questions behind a pointer is estimated."""


class CandidateFile(Struct, frozen=True):
    """A file that may hold questions.

    Attributes:
        name: below --data.
        blob: the file.
        member: by its name; None for a file whose rows say what they are.
        attributes: it is a file of attribute questions, whose kinds its rows say.
    """

    name: str
    blob: Blob
    member: Member | None
    attributes: bool

    @property
    def stem(self) -> str:
        return Path(self.name).stem


class LostFile(Struct, frozen=True):
    """A file of questions that cannot be read, and how many questions are missing with it."""

    name: str
    member: Member | None
    attributes: bool
    reason: str
    questions: int


class RowCount(Struct, frozen=True):
    """The rows of a file whose rows say what they are: how many of each member, and how many cannot be read."""

    by_member: tuple[tuple[Member, int], ...]
    unreadable: int
    reason: str


class FileSearch(Struct):
    """The files of a search: those that may hold questions, those that cannot be read, and those that are omitted."""

    candidates: list[CandidateFile]
    lost: list[LostFile]
    omitted: list[DataFile]

    def any_questions(self) -> bool:
        """Return True if there is a question file, by its name or its rows."""
        return bool(self.lost) or any(
            file.member is not None or file.attributes or _has_questions(file) for file in self.candidates
        )


def search(path: Path) -> FileSearch:
    """Return all files of a folder, of an archive, or the one file.

    Archives right in a folder are opened only where the folder has no question file of its own: those of images last.

    Raises:
        DataError: there is nothing at `path`, or an archive that was named cannot be opened.
    """
    result = FileSearch([], [], [])
    if path.is_dir():
        archives = _search_folder(path, result)
        for archive in sorted(archives, key=lambda place: (bool(image_set_of(place.name)), place.name)):
            _search_beside(path, archive, result)
    elif path.name.lower().endswith(ARCHIVES):
        _search_tree(kept_tree(path), "", result)
    else:
        regular_file(path)
        _sort_file(path.name, FileBlob(path), result)
    return result


def count_rows(candidate: CandidateFile) -> RowCount:
    """Count the rows of a file by the member that each belongs to.

    `reason` tells why the file has no questions: its first row lacks a field. Nothing more of it is read then.

    Raises:
        DataError: nothing of the file can be read.
    """
    blob = candidate.blob
    if isinstance(blob, FileBlob):
        status = blob.path.stat()
        return _counted(blob, candidate.attributes, status.st_mtime_ns, status.st_size)
    return _counted(blob, candidate.attributes, 0, 0)  # type: ignore[arg-type]  # all blobs are frozen


@lru_cache(maxsize=256)
def _counted(blob: Blob, attributes: bool, changed: int, size: int) -> RowCount:
    first = next((row for _, row in salvaged(blob) if not isinstance(row, DataError)), None)
    if first is None:
        return RowCount((), 0, "it has no row that can be read")
    if reason := _not_a_question(first):
        return RowCount((), 0, reason)
    by_member: Counter[Member | None] = Counter(member for _, _, member in members_of_rows(salvaged(blob), attributes))
    unreadable = by_member.pop(None, 0)
    return RowCount(tuple((member, n) for member, n in by_member.items() if member is not None), unreadable, "")


def _not_a_question(row: dict[str, object]) -> str:
    missing = [field for field in FIELDS if field not in row]
    if missing:
        return f"its rows are no questions: they have no {' and no '.join(repr(field) for field in missing)}"
    return "its rows are answers: score them with `snellen score`" if "prompt" in row else ""


def _search_folder(top: Path, result: FileSearch) -> list[Path]:
    """Sort the files below a folder; return the archives right in it."""
    counts: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    archives: list[Path] = []

    def refuse(error: OSError) -> None:
        result.omitted.append(DataFile(f"{error.filename}/", False, f"cannot be read: {error.strerror}"))

    for folder, inner, names in os.walk(top, onerror=refuse):
        relative = Path(folder).relative_to(top)
        here = "" if relative == Path() else f"{relative.as_posix()}/"
        for subfolder in sorted(inner):
            if reason := _not_entered(Path(folder) / subfolder, len(relative.parts)):
                result.omitted.append(DataFile(f"{here}{subfolder}/", False, reason))
                inner.remove(subfolder)
        inner.sort()
        for name in sorted(names):
            lower = name.lower()
            if lower.endswith(QUESTIONS):
                _sort_file(f"{here}{name}", FileBlob(Path(folder) / name), result)
            elif not here and lower.endswith(ARCHIVES):
                archives.append(Path(folder) / name)
            else:
                counts[(here, Path(name).suffix.lower(), _no_questions(lower))].append(name)
    for (here, suffix, reason), names in sorted(counts.items()):
        label = f"{here}{names[0]}" if len(names) == 1 else f"{here}*{suffix} ({len(names):,} files)"
        result.omitted.append(DataFile(label, False, reason))
    return archives


def _not_entered(path: Path, depth: int) -> str:
    if path.name == "machine-oriented":
        return "splits of the machine-oriented track: pass them to `snellen features extract --split`"
    if path.name in NOT_ENTERED:
        return "a folder of images, which is not searched for questions"
    if path.name.startswith("."):
        return "hidden"
    if path.is_symlink():
        return "a link to a folder, which is not followed: pass it as --data"
    return f"more than {DEPTH} folders deep: pass it as --data" if depth >= DEPTH else ""


def _no_questions(name: str) -> str:
    suffix = Path(name).suffix
    if suffix in IMAGES:
        return "images"
    if name.endswith((*ARCHIVES, *NOT_IN_PLACE)):
        return "an archive in a subfolder, which is not opened: pass it as --data or --images"
    return "no JSON lines (.jsonl)"


def _search_beside(folder: Path, archive: Path, result: FileSearch) -> None:
    """Search an archive that lies right in the folder."""
    if result.any_questions():
        about = image_set_of(archive.name)
        reason = f"images of {about}: pass it, or its folder, as --images" if about else ""
        reason = reason or "not opened, since question files were found outside of it: pass it as --data"
        result.omitted.append(DataFile(archive.name, False, reason))
        return
    try:
        _search_tree(kept_tree(archive), f"{archive.name}!", result)
    except DataError as error:
        result.omitted.append(DataFile(archive.name, False, f"cannot be opened: {error.message}"))


def _search_tree(tree: Tree, prefix: str, result: FileSearch) -> None:
    others = 0
    for name in tree.names():
        if name.lower().endswith(QUESTIONS):
            _sort_file(f"{prefix}{name}", tree.blob(name), result)
        else:
            others += 1
    if others:
        result.omitted.append(DataFile(f"{prefix or tree.path.name + '!'}* ({others:,} files)", False, "no JSON lines"))
    for name, error in tree.left_out.items():
        result.omitted.append(DataFile(f"{prefix}{name}", False, error.message))


def _sort_file(name: str, blob: Blob, result: FileSearch) -> None:
    # The folders above the given one may be what tells the data set: --data .../hierarchical_.../cub.
    full = blob.path.absolute().as_posix() if isinstance(blob, FileBlob) else name.rpartition("!")[2]
    member = member_of_path(full)
    attributes = member is None and (
        "attribute" in full.rpartition("/")[2].lower() or ATTRIBUTE_FOLDER in full.lower().split("/")[:-1]
    )
    try:
        reason, questions = _unreadable(blob)
    except (DataError, OSError) as error:
        reason, questions = str(error), 0
    if not reason:
        result.candidates.append(CandidateFile(name, blob, member, attributes))
        return
    if member is None and not attributes:
        result.omitted.append(DataFile(name, False, reason))
        return
    if member is not None and member.questions is not None:
        questions = member.questions
    result.lost.append(LostFile(name, member, attributes, reason, max(1, questions)))


def _unreadable(blob: Blob) -> tuple[str, int]:
    """Return why nothing of a file can be read, and how many questions it may have; "" for a readable one."""
    pointer = pointer_in(blob)
    if isinstance(pointer, LfsPointer):
        place = blob.path if isinstance(blob, FileBlob) else None
        return f"a pointer of Git LFS, {pointer.size_text} were not fetched. {fetch_hint(place)}", (
            pointer.size // ROW_BYTES
        )
    with stream(blob) as start:
        return ("", 0) if start.read(1) else ("the file is empty", 0)


def _has_questions(file: CandidateFile) -> bool:
    try:
        return bool(count_rows(file).by_member)
    except DataError:
        return False
