"""The question files of FG-BMK in --data: a folder, an archive, one file, or the hub; and the images that they name.

The released tree may lie anywhere inside (`benchmark/human-oriented/...`, `human-oriented/...`, or the tree itself). Files
are known by their released names. Files of other names, and those of attributes, are split by what their rows say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, structs

from snellen.benchmarks.base import Data, DataFile
from snellen.benchmarks.fgbmk.catalogue import Member, members, released_name
from snellen.benchmarks.fgbmk.row_kinds import members_of_rows
from snellen.benchmarks.fgbmk.survey import QUESTIONS, CandidateFile, FileSearch, LostFile, count_rows, search
from snellen.errors import DataError, UsageError
from snellen.sources.encodings import Row
from snellen.sources.image_sets import image_sets, set_pictures
from snellen.sources.locator import Pictures, on_disk
from snellen.sources.rows import encodable, salvaged
from snellen.sources.safe_paths import regular_file
from snellen.types import Blob

REPOSITORY = "SEU-VIPGroup/FG-BMK"
HINT = (
    "Give the folder, zip or tar that holds human-oriented/ (or a part of it), one of its .jsonl files, or "
    f"--data hf:{REPOSITORY}."
)
FETCHED = (("*.jsonl",), ("*.zip", "*.tar", "*.tar.gz"))
"""Files of the hub, the first group that is there."""


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
