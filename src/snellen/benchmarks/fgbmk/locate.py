"""The question files of FG-BMK in --data: a folder, an archive, one file, or the hub.

The released tree may lie anywhere inside (`benchmark/human-oriented/...`, `human-oriented/...`, or the tree itself). A
folder is searched for files by name, and folders of images are not entered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.fgbmk.catalogue import Member, member_of_path, members, released_name
from snellen.errors import DataError, UsageError
from snellen.sources import FileBlob, Tree, kept_tree, salvaged
from snellen.sources.blobs import stream
from snellen.sources.rows import Row
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import TARS
from snellen.sources.user_data import encodable, on_disk
from snellen.types import Blob

REPOSITORY = "SEU-VIPGroup/FG-BMK"
HINT = (
    "Give the folder, zip or tar that holds human-oriented/ (or a part of it), one of its .jsonl files, or "
    f"--data hf:{REPOSITORY}."
)
ARCHIVES = (".zip", *TARS)
FETCHED = (("*.jsonl",), ("*.zip", "*.tar", "*.tar.gz"))
"""Files of the hub, the first group that is there."""
DEPTH = 8
NOT_ENTERED = frozenset({"images", "img", "jpg", "car_ims", "val", "veg200_images", "fru92_images", "machine-oriented"})
POINTER = b"version https://git-lfs"


class QuestionFile(Struct, frozen=True):
    """A question file: which member's, where, and its name without folders and ending."""

    member: Member
    blob: Blob
    stem: str


def files(data: Data) -> dict[str, tuple[QuestionFile, ...]]:
    """Return member's name to its files, for every member that the data has, in the order of the catalogue's files.

    All but attributes have one file each; of copies the one under the fewest folders counts.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or no question file of FG-BMK in it.
    """
    if data.path is None:
        raise UsageError("FG-BMK needs its question files, and no --data was given", HINT)
    path = on_disk(str(data.path), *FETCHED)
    by_member = _sorted(_searched(path))
    if not by_member:
        raise DataError(f"{path}: no question file of FG-BMK was found in it", HINT)
    return by_member


def member_files(member: Member, data: Data) -> tuple[QuestionFile, ...]:
    """A member's files. One .jsonl file, however named, is taken for the member's unless its name says another's.

    Raises:
        UsageError, DataError: as `files`; also where the data has other members only.
    """
    if data.path is not None:
        path = on_disk(str(data.path), *FETCHED)
        if path.suffix.lower() in (".jsonl", ".ndjson") and not path.is_dir():
            regular_file(path)
            named = member_of_path(path.absolute().as_posix())
            if named is not None and named.name != member.name:
                raise DataError(
                    f"{path} holds the questions of fgbmk/{named.name}; those of fgbmk/{member.name} were expected",
                    f"Run fgbmk/{named.name}, or give {released_name(member)}.",
                )
            return (QuestionFile(member, FileBlob(path), path.stem),)
    by_member = files(data)
    if member.name not in by_member:
        names = (
            ", ".join(by_member)
            if len(by_member) <= 6
            else f"{', '.join(list(by_member)[:6])} and {len(by_member) - 6} more"
        )
        raise DataError(f"{data.path}: no {released_name(member)} in it; it has {names}", HINT)
    return by_member[member.name]


def rows(file: QuestionFile) -> Iterator[tuple[int, Row | DataError]]:
    """(line, row) of a question file, or why there is no row.

    Raises:
        DataError: nothing can be read at all, or git-lfs left a pointer in the file's place.
    """
    with stream(file.blob) as start:
        if start.read(len(POINTER)) == POINTER:
            raise DataError(
                f"{file.blob.key}: this is a pointer that Git LFS left in the file's place",
                "Fetch the file itself: `git lfs pull`.",
            )
    yield from encodable(salvaged(file.blob), file.blob.key, "Fix the line, or fetch the file again.")


def _searched(path: Path) -> Iterator[tuple[str, Blob]]:
    """(name, file) of all .jsonl files; of archives right in a folder only where it has none of its own."""
    if path.is_dir():
        own = [(name, FileBlob(path / name)) for name in _walked(path)]
        yield from own
        if not any(member_of_path(_full(path, name)) for name, _ in own):
            for archive in sorted(path.iterdir()):
                if archive.name.lower().endswith(ARCHIVES) and "image" not in archive.name.lower():
                    yield from _inside(kept_tree(archive))
    elif path.name.lower().endswith(ARCHIVES):
        yield from _inside(kept_tree(path))
    else:
        regular_file(path)
        yield path.absolute().as_posix(), FileBlob(path)


def _inside(tree: Tree) -> Iterator[tuple[str, Blob]]:
    for name in tree.names():
        if name.lower().endswith(".jsonl"):
            yield name, tree.blob(name)


def _full(path: Path, name: str) -> str:
    return f"{path.absolute().as_posix()}/{name}"


def _walked(top: Path) -> Iterator[str]:
    root = str(top)
    for folder, inner, names in os.walk(root):
        relative = Path(folder).relative_to(root)
        inner[:] = sorted(
            subfolder
            for subfolder in inner
            if subfolder not in NOT_ENTERED and not subfolder.startswith(".") and len(relative.parts) < DEPTH
        )
        yield from ((relative / name).as_posix() for name in sorted(names) if name.lower().endswith(".jsonl"))


def _sorted(files: Iterator[tuple[str, Blob]]) -> dict[str, tuple[QuestionFile, ...]]:
    by_member: dict[str, list[tuple[int, str, QuestionFile]]] = {}
    for name, blob in files:
        # The folders above the given one may be what tells the data set: --data .../hierarchical_.../cub.
        at = blob.path.absolute().as_posix() if isinstance(blob, FileBlob) else name
        member = member_of_path(at)
        if member is not None:
            stem = Path(name).stem
            by_member.setdefault(member.name, []).append((name.count("/"), name, QuestionFile(member, blob, stem)))
    chosen: dict[str, tuple[QuestionFile, ...]] = {}
    for key in (entry for entry in members() if entry in by_member):
        copies = sorted(by_member[key], key=lambda entry: entry[:2])
        shallowest = [entry[2] for entry in copies if entry[0] == copies[0][0]]
        chosen[key] = tuple(shallowest if shallowest[0].member.ask == "attribute" else shallowest[:1])
    return chosen
