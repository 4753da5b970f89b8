"""The list of the user's files: which are used, for what, and why others are not."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import structs

from snellen.benchmarks.base import Data, DataFile
from snellen.benchmarks.fgbmk import data_checks, locate
from snellen.benchmarks.fgbmk.catalogue import Member
from snellen.benchmarks.fgbmk.locate import Layout, QuestionFile
from snellen.benchmarks.fgbmk.survey import QUESTIONS


def of_all(data: Data, chosen: Collection[str]) -> list[DataFile]:
    """List every file of the data; those of members that were not chosen count as not used, in one line.

    Raises:
        UsageError, DataError: as `locate.layout`.
    """
    layout = locate.layout(data)
    entries = [_chosen(entry, layout, chosen) for entry in layout.entries]
    omitted = [after for before, after in zip(layout.entries, entries, strict=True) if before.used and not after.used]
    if len(omitted) < 2:
        return entries
    line = DataFile(f"{len(omitted):,} question files", False, "not chosen by --suite, --datasets or --kinds")
    return [*(entry for entry in entries if entry not in omitted), line]


def of_member(member: Member, data: Data) -> list[DataFile]:
    """List the files of one member, and in one line how many others of the data belong to other benchmarks.

    Raises:
        UsageError, DataError: as `locate.member_files`.
    """
    files = locate.member_files(member, data)
    names = {file.blob.key for file in files}
    used = [_used(file, data_checks.size([file])) for file in files]
    if data.path is None or data.path.suffix.lower() in QUESTIONS:
        return used
    entries = [entry for entry in locate.layout(data).entries if not _is_of(entry, names)]
    others = [DataFile(entry.name, False, f"not of fgbmk/{member.name}") for entry in entries if entry.used]
    if len(others) > 1:
        others = [DataFile(f"{len(others):,} other question files", False, f"not of fgbmk/{member.name}")]
    return [*used, *others, *(entry for entry in entries if not entry.used)]


def _used(file: QuestionFile, questions: int) -> DataFile:
    return DataFile(file.blob.key, True, f"fgbmk/{file.member.name}", questions)


def _is_of(entry: DataFile, keys: Collection[str]) -> bool:
    """Return True if an entry, named below --data, is one of the files with these keys."""
    return any(key == entry.name or key.endswith((f"/{entry.name}", f"!{entry.name}")) for key in keys)


def _chosen(entry: DataFile, layout: Layout, chosen: Collection[str]) -> DataFile:
    if not entry.used:
        return entry
    files = [file for name, files in layout.files.items() for file in files if _is_of(entry, [file.blob.key])]
    wanted = [file for file in files if file.member.name in chosen]
    if not wanted:
        return structs.replace(entry, used=False, note=f"{entry.note}, which was not chosen")
    return structs.replace(entry, questions=data_checks.size(wanted)) if entry.questions is None else entry
