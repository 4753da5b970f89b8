"""Checks of a file of questions, reported before its scores are used; and its digest.

The list of the user's files: which are used, for what, and why others are not.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256

from msgspec import structs

from snellen.benchmarks.base import Data, DataFile
from snellen.benchmarks.fgbmk import locate
from snellen.benchmarks.fgbmk.catalogue import Member
from snellen.benchmarks.fgbmk.locate import QUESTIONS, Layout, LostFile, QuestionFile
from snellen.benchmarks.fgbmk.samples import fault, impossible, odd
from snellen.errors import DataError
from snellen.sources.blobs import Unreadable, stream
from snellen.sources.digests import blob_digest
from snellen.sources.locator import Pictures


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
    used = [_used(file, size([file])) for file in files]
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
    return structs.replace(entry, questions=size(wanted)) if entry.questions is None else entry


LOOKED_AT = 64
IN_DIGEST = 16
NAMED = 3


def size(files: Sequence[QuestionFile]) -> int:
    """Count the questions of files: lines that are not blank, or the rows of a mixed file that are its own."""
    return sum(
        sum(1 for _ in locate.rows(file)) if file.mixed else sum(1 for line in _lines(file) if line.strip())
        for file in files
    )


def lost_questions(lost: Iterable[LostFile]) -> int:
    """Return how many questions are in files that cannot be read, as known or by the files' sizes."""
    return sum(file.questions for file in lost)


def lost_notices(lost: Iterable[LostFile]) -> list[str]:
    """Return one line per file that cannot be read: why, how to fetch it, and what is missing with it."""
    return [
        f"{file.name} is not asked: {file.reason.rstrip('.')}; about {file.questions:,} questions are missing, and the "
        "coverage is below 1"
        for file in lost
    ]


def _lines(file: QuestionFile) -> Iterator[bytes]:
    with stream(file.blob) as lines:
        yield from lines


def notices(member: Member, files: Sequence[QuestionFile], data: Data) -> list[str]:
    """Return one line per warning: counts that differ from the known ones, rows that cannot be asked, images
    that are not there (64 spread over the file are looked for, no more).
    """
    rows = 0
    unreadable: list[str] = []
    faulty: list[str] = []
    by_text: list[str] = []
    named_images: list[tuple[str, str]] = []
    classes: set[str] = set()
    every = max(1, size(files) // LOOKED_AT)
    for file in files:
        for line, row in locate.rows(file):
            rows += 1
            at = f"{file.blob.key}, line {line:,}"
            if isinstance(row, DataError):
                unreadable.append(row.message)
                continue
            if wrong := fault(row) or impossible(member, row):
                faulty.append(f"{at}: {wrong}")
                continue
            if unusual := odd(member, row):
                by_text.append(f"{at}: {unusual}")
            if member.kind != "truth":
                classes.add(row["class"])
            if (rows - 1) % every == 0:
                named_images.append((row["image"], at))
    lines = []
    if member.questions is not None and rows != member.questions:
        known = "the released file has" if member.counted else "the paper implies"
        lines.append(f"{rows:,} questions; {known} {member.questions:,}")
    if member.classes is not None and classes and len(classes) != member.classes:
        lines.append(f"{len(classes):,} classes are true somewhere; {member.classes:,} were expected")
    problems = (
        ("cannot be read", unreadable),
        ("cannot be asked", faulty),
        ("scored by the text of the true answer alone", by_text),
    )
    for problem, reasons in problems:
        if reasons:
            examples = "; ".join(reasons[:NAMED]) + ("; ..." if len(reasons) > NAMED else "")
            lines.append(f"{len(reasons):,} row{'' if len(reasons) == 1 else 's'} {problem}: {examples}")
    return lines + _missing(
        locate.dataset_images(member.dataset, data), named_images, rows, images_given=data.images is not None
    )


def _missing(
    pictures: Pictures, named_images: Sequence[tuple[str, str]], rows: int, *, images_given: bool
) -> list[str]:
    lost = [blob.message for image, at in named_images if isinstance(blob := pictures.find(image, at), Unreadable)]
    if not lost or (len(lost) == len(named_images) and not images_given):
        return []  # questions alone, as they are released, are nothing odd
    present = len(named_images) - len(lost)
    return [
        f"{present} of {len(named_images)} images that were looked for, of {rows:,} questions, are there: {lost[0]}"
    ]


def digest_of(files: Sequence[QuestionFile], data: Data) -> str:
    """Digest of question files by their bytes, and of 16 of each file's images, spread over it, by name, size and CRC-32.

    So few, since 300,000 images are not read through before every run; a set of images that was resized is told apart.
    """
    total = sha256()
    for file in files:
        total.update(f"{file.member.name}\0{blob_digest(file.blob)}\n".encode())
        pictures = locate.dataset_images(file.member.dataset, data)
        if not pictures.rules:
            continue
        every = max(1, size([file]) // IN_DIGEST)
        for number, (_, row) in enumerate(locate.rows(file)):
            if number % every or isinstance(row, DataError) or not isinstance(row.get("image"), str):
                continue
            total.update(f"{row['image']}\0{_look(pictures, row['image'])}\n".encode(errors="surrogatepass"))
    return f"sha256:{total.hexdigest()}"


def _look(pictures: Pictures, image: str) -> str:
    try:
        data = pictures.blob(image).read()
    except (OSError, DataError):  # its sample fails alone, with the reason
        return "missing"
    return f"{len(data)} {zlib.crc32(data):08x}"
