"""The question files of FG-BMK in --data: a folder, an archive, one file, or the hub; and the images that they name.

The released tree may lie anywhere inside (`benchmark/human-oriented/...`, `human-oriented/...`, or the tree itself). Files
are known by their released names. Files of other names, and those of attributes, are split by what their rows say. Every file
that lies there is listed, with its use or the reason why it is omitted.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, structs

from snellen.benchmarks.base import Data, DataFile
from snellen.benchmarks.fgbmk.catalogue import Member, member_of_path, members, released_name
from snellen.benchmarks.fgbmk.row_kinds import members_of_rows
from snellen.errors import DataError, UsageError
from snellen.sources.blobs import FileBlob, stream
from snellen.sources.encodings import Row
from snellen.sources.hub import fetch_hint, pointer_in
from snellen.sources.image_sets import image_set_of, image_sets, set_pictures
from snellen.sources.locator import ARCHIVES, Pictures, on_disk, opened
from snellen.sources.open_tree import NOT_IN_PLACE, kept_tree
from snellen.sources.rows import encodable, salvaged
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import FolderTree, Tree
from snellen.types import Blob

REPOSITORY = "SEU-VIPGroup/FG-BMK"
HINT = (
    "Give the folder, zip or tar that holds human-oriented/ (or a part of it), one of its .jsonl files, or "
    f"--data hf:{REPOSITORY}."
)
FETCHED = (("*.jsonl",), ("*.zip", "*.tar", "*.tar.gz"))
"""Files of the hub, the first group that is there."""
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

    def omit(self, name: str, reason: str) -> None:
        self.omitted.append(DataFile(name, False, reason))

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
    tree, file = opened(path, ("",), HINT)
    if file:
        _sort_file(file, FileBlob(path), result)
    elif isinstance(tree, FolderTree):
        archives = _search_folder(path, result)
        for archive in sorted(archives, key=lambda place: (bool(image_set_of(place.name)), place.name)):
            _search_beside(archive, result)
    else:
        _search_tree(tree, "", result)
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
        result.omit(f"{error.filename}/", f"cannot be read: {error.strerror}")

    for folder, inner, names in os.walk(top, onerror=refuse):
        relative = Path(folder).relative_to(top)
        here = "" if relative == Path() else f"{relative.as_posix()}/"
        for subfolder in sorted(inner):
            if reason := _not_entered(Path(folder) / subfolder, len(relative.parts)):
                result.omit(f"{here}{subfolder}/", reason)
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
        result.omit(label, reason)
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


def _search_beside(archive: Path, result: FileSearch) -> None:
    """Search an archive that lies right in the folder."""
    if result.any_questions():
        about = image_set_of(archive.name)
        reason = f"images of {about}: pass it, or its folder, as --images" if about else ""
        reason = reason or "not opened, since question files were found outside of it: pass it as --data"
        result.omit(archive.name, reason)
        return
    try:
        _search_tree(kept_tree(archive), f"{archive.name}!", result)
    except DataError as error:
        result.omit(archive.name, f"cannot be opened: {error.message}")


def _search_tree(tree: Tree, prefix: str, result: FileSearch) -> None:
    others = 0
    for name in tree.names():
        if name.lower().endswith(QUESTIONS):
            _sort_file(f"{prefix}{name}", tree.blob(name), result)
        else:
            others += 1
    if others:
        result.omit(f"{prefix or tree.path.name + '!'}* ({others:,} files)", "no JSON lines")
    for name, error in tree.left_out.items():
        result.omit(f"{prefix}{name}", error.message)


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
        result.omit(name, reason)
        return
    if member is not None and member.questions is not None:
        questions = member.questions
    result.lost.append(LostFile(name, member, attributes, reason, max(1, questions)))


def _unreadable(blob: Blob) -> tuple[str, int]:
    """Return why nothing of a file can be read, and how many questions it may have; "" for a readable one."""
    if (pointer := pointer_in(blob)) is not None:
        hint = fetch_hint(blob.path if isinstance(blob, FileBlob) else None)
        return f"a pointer of Git LFS, {pointer.size_text} were not fetched. {hint}", pointer.size // ROW_BYTES
    with stream(blob) as start:
        return ("", 0) if start.read(1) else ("the file is empty", 0)


def _has_questions(file: CandidateFile) -> bool:
    try:
        return bool(count_rows(file).by_member)
    except DataError:
        return False


class QuestionFile(Struct, frozen=True):
    """A question file: which member's, where, and its name without folders and ending.

    Attributes:
        mixed: it holds rows of other members too, which are not this file's.
        attributes: all of its rows are about attributes.
        further: another file of the member comes before it, so that its ids carry its name.
        with_unreadable: of a mixed file, the one that its unreadable rows count to.
    """

    member: Member
    blob: Blob
    stem: str
    mixed: bool = False
    attributes: bool = False
    further: bool = False
    with_unreadable: bool = True


class Layout(Struct):
    """The question files of some data.

    Attributes:
        files: member's name to its files, in the order of the catalogue; members that it does not know come last.
        lost: files that cannot be read, by member; those of attributes under `cub/attributes`.
        entries: every file of the data, with its use.
    """

    files: dict[str, tuple[QuestionFile, ...]]
    lost: dict[str, tuple[LostFile, ...]]
    entries: tuple[DataFile, ...]


def files(data: Data) -> dict[str, tuple[QuestionFile, ...]]:
    """Return member's name to its files, for every member that the data has, in the order of the catalogue's files.

    All but attributes have one file each, where they bear their released names; of copies the one under the fewest folders
    counts.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or no question file of FG-BMK in it.
    """
    data_layout = layout(data)
    if not data_layout.files:
        lost = next((file for lost_files in data_layout.lost.values() for file in lost_files), None)
        if lost is not None:
            raise DataError(f"{data.path}: {lost.name}: {lost.reason}", "No question file of FG-BMK in it can be read.")
        raise DataError(f"{data.path}: no question file of FG-BMK was found in it{_reasons(data_layout)}", HINT)
    return data_layout.files


def _reasons(data_layout: Layout) -> str:
    reasons = [f"{entry.name}: {entry.note}" for entry in data_layout.entries if entry.name.endswith(QUESTIONS)]
    return f" ({'; '.join(reasons[:3])})" if reasons else ""


def layout(data: Data) -> Layout:
    """Return the question files of the data, and what else is in it.

    Raises:
        UsageError: no data was given.
        DataError: nothing is there.
    """
    if data.path is None:
        raise UsageError("FG-BMK needs its question files, and no --data was given", HINT)
    return _arranged(search(on_disk(str(data.path), *FETCHED)))


def _arranged(result: FileSearch) -> Layout:
    by_member: dict[str, list[QuestionFile]] = {}
    entries: list[DataFile] = []
    for file in sorted(result.candidates, key=_depth):
        if file.member is None:
            continue
        name = file.member.name
        if name in by_member:
            first = next(entry.name for entry in entries if entry.used and entry.note == f"fgbmk/{name}")
            entries.append(DataFile(file.name, False, f"another file of fgbmk/{name}; {first} is used"))
            continue
        by_member[name] = [QuestionFile(file.member, file.blob, file.stem)]
        entries.append(DataFile(file.name, True, f"fgbmk/{name}"))
    unnamed = [file for file in result.candidates if file.member is None]
    attribute_files = sorted((file for file in unnamed if file.attributes), key=_depth)
    for file in attribute_files:
        if file.name.count("/") > attribute_files[0].name.count("/"):
            entries.append(DataFile(file.name, False, f"a copy; the files beside {attribute_files[0].name} are used"))
        else:
            entries.append(_split(file, by_member, set()))
    taken = set(by_member)
    entries += [_split(file, by_member, taken) for file in sorted(unnamed, key=_depth) if not file.attributes]
    lost: dict[str, list[LostFile]] = {}
    for lost_file in result.lost:
        name = "cub/attributes" if lost_file.member is None else lost_file.member.name
        if lost_file.member is not None and name in by_member:
            entries.append(DataFile(lost_file.name, False, f"{lost_file.reason}. Another copy of it is used"))
            continue
        lost.setdefault(name, []).append(lost_file)
        entries.append(DataFile(lost_file.name, False, lost_file.reason, lost_file.questions))
    order = [*(name for name in members() if name in by_member), *sorted(set(by_member) - set(members()))]
    return Layout(
        {name: tuple(by_member[name]) for name in order},
        {name: tuple(lost_files) for name, lost_files in lost.items()},
        (*entries, *result.omitted),
    )


def _depth(file: CandidateFile) -> tuple[int, str]:
    return file.name.count("/"), file.name


def _split(file: CandidateFile, by_member: dict[str, list[QuestionFile]], taken: set[str]) -> DataFile:
    """Add the parts of a file whose rows say what they are; members in `taken` have a file of their released name."""
    try:
        count = count_rows(file)
    except DataError as error:
        return DataFile(file.name, False, error.message)
    if not count.by_member:
        return DataFile(file.name, False, count.reason)
    used = [(member, n) for member, n in count.by_member if member.name not in taken]
    left = [f"{n:,} of fgbmk/{member.name}" for member, n in count.by_member if member.name in taken]
    for number, (member, _) in enumerate(used):
        earlier = by_member.setdefault(member.name, [])
        part = QuestionFile(
            member,
            file.blob,
            file.stem,
            mixed=len(count.by_member) > 1,
            attributes=file.attributes,
            further=bool(earlier),
            with_unreadable=number == 0,
        )
        earlier.append(part)
    use = ", ".join(f"{n:,} of fgbmk/{member.name}" if len(used) > 1 else f"fgbmk/{member.name}" for member, n in used)
    notes = [use] if use else []
    notes += [f"rows left out, since a file of their released name is there: {', '.join(left)}"] if left else []
    notes += [f"{count.unreadable:,} rows cannot be read"] if count.unreadable else []
    return DataFile(file.name, bool(used), "; ".join(notes), sum(n for _, n in used) + count.unreadable * bool(used))


def member_files(member: Member, data: Data) -> tuple[QuestionFile, ...]:
    """A member's files. One .jsonl file, however named, is taken for the member's unless its name says another's.

    Where such a file has rows of this member and of others, only its own rows are taken.

    Raises:
        UsageError, DataError: as `files`; also where the data has other members only.
    """
    if data.path is not None:
        path = on_disk(str(data.path), *FETCHED)
        if path.suffix.lower() in QUESTIONS and not path.is_dir():
            regular_file(path)
            return (_single(member, path),)
    by_member = files(data)
    if member.name not in by_member:
        lost = lost_files(member, data)
        if lost:
            raise DataError(f"{data.path}: {lost[0].name}: {lost[0].reason}", "Nothing of it can be read.")
        names = (
            ", ".join(by_member)
            if len(by_member) <= 6
            else f"{', '.join(list(by_member)[:6])} and {len(by_member) - 6} more"
        )
        raise DataError(f"{data.path}: no {released_name(member)} in it; it has {names}", HINT)
    return by_member[member.name]


def _single(member: Member, path: Path) -> QuestionFile:
    result = search(path)
    if result.lost or not result.candidates:
        reason = result.lost[0].reason if result.lost else result.omitted[0].note
        raise DataError(f"{path}: {reason}", "Fetch the file itself.")
    candidate = result.candidates[0]
    if candidate.member is not None and candidate.member.name != member.name:
        raise DataError(
            f"{path} holds the questions of fgbmk/{candidate.member.name}; those of fgbmk/{member.name} were expected",
            f"Run fgbmk/{candidate.member.name}, or give {released_name(member)}.",
        )
    file = QuestionFile(member, candidate.blob, candidate.stem)
    if candidate.member is not None:
        return file
    kinds = [other.name for other, _ in count_rows(candidate).by_member]
    mixed = len(kinds) > 1 and member.name in kinds
    return structs.replace(
        file, mixed=mixed, attributes=candidate.attributes, with_unreadable=not mixed or kinds[0] == member.name
    )


def lost_files(member: Member, data: Data) -> tuple[LostFile, ...]:
    """Return the files of a member that cannot be read, in data that has others."""
    if data.path is None or on_disk(str(data.path), *FETCHED).suffix.lower() in QUESTIONS:
        return ()
    lost = layout(data).lost
    return (*lost.get(member.name, ()), *(lost.get("cub/attributes", ()) if member.ask == "attribute" else ()))


def rows(file: QuestionFile) -> Iterator[tuple[int, Row | DataError]]:
    """(line, row) of a question file, or why there is no row.

    Raises:
        DataError: nothing can be read at all.
    """
    every = encodable(salvaged(file.blob), file.blob.key, "Fix the line, or fetch the file again.")
    if not file.mixed:
        yield from every
        return
    for line, row, member in members_of_rows(every, file.attributes):
        if member == file.member or (member is None and file.with_unreadable):
            yield line, row


def dataset_images(dataset: str, data: Data) -> Pictures:
    """Return the images of a data set: under --images, else beside the questions in a --data folder or archive.

    Raises:
        DataError: --images is no path, or cannot be fetched.
    """
    place = data.images or (None if data.path is None or data.path.suffix in QUESTIONS else data.path)
    if data.images is None and str(place).startswith("hf:"):
        place = None  # the questions' repository has no images
    return _dataset_images(dataset, "" if place is None else str(place), os.getpid())


@lru_cache(maxsize=64)
def _dataset_images(dataset: str, place: str, process: int) -> Pictures:
    # Whether it is there is seen when an image is read: answers are scored after the images have gone.
    known = image_sets().get(dataset)
    hint = "--images is the folder, zip or tar of the images, or a folder that holds several sets of them."
    if known is not None:
        hint = (
            f"--images is the folder, zip or tar of {known.title}, or a folder that holds it, unpacked or as an archive; "
            "images are not part of the question files."
        )
    if not place:
        return Pictures(
            "no images", (), lambda image: f"image {image!r} was asked for, and no --images were given", hint
        )
    return set_pictures(on_disk(place), [dataset] if known is not None else [], given=place, hint=hint)
