"""Files of a table: one file, or the tables of a folder, an archive or a data set of the hub.

Where several files could be the table, none is chosen: the error lists them with the option that decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import ROW_SUFFIXES
from snellen.benchmarks.table.declaration import Declaration, Source
from snellen.benchmarks.table.images import MEDIA_SUFFIXES
from snellen.benchmarks.table.official import official_table
from snellen.benchmarks.table.vqa_form import annotations_of
from snellen.errors import DataError, UsageError
from snellen.sources.hub import HUB
from snellen.sources.locator import archives_below, files_below, on_disk, opened
from snellen.sources.open_tree import kept_tree
from snellen.sources.remote import is_address
from snellen.sources.tree import FolderTree, Tree

DEPTH = 4
NAMED = 8
_NO_TABLE = re.compile(
    r"(?:dataset_infos?|dataset_dict|config|state|package|benchmark|schema|license|run_meta|summary)\.json|cache-[^/]*\.arrow",
    re.I,
)
SAMPLES = "samples.json"
"""FiftyOne's file of samples, whose `metadata.json` says what its fields are."""
SAVED = "data"
"""Name of the shards that `save_to_disk` writes into the folder of a split."""
_SHARD = re.compile(r"[-_.](?:\d{1,5}[-_]of[-_]\d{1,5}|\d{4,5})$", re.I)
_SPLITS = ("train", "training", "validation", "valid", "val", "dev", "test", "testmini", "eval")


class LocatedTable(Struct, frozen=True):
    """The files of a table.

    Attributes:
        name: what the user named, for messages.
        tree: the folder or archive that holds them.
        files: their names in it, in the order in which they are read; empty for a folder of class folders.
        archive: the tree is an archive.
        folder: the folder of that archive, where what is shown lies; None: the tree's own.
    """

    name: str
    tree: Tree
    files: tuple[str, ...]
    archive: bool = False
    folder: Path | None = None

    @property
    def within(self) -> str:
        """Return the folder of the first file in the tree, with a slash at its end; empty at the top."""
        folder = self.files[0].rpartition("/")[0] if self.files else ""
        return f"{folder}/" if folder else ""


def locate_table(source: Source, data: Data, base: Path = Path()) -> LocatedTable:
    """Find the files of a table. `--data` takes the place of the declared source.

    Args:
        data: the user's settings: `file`, `config` and `split` choose among several files.
        base: the folder at which relative paths of the source begin.

    Raises:
        DataError: nothing is there, or no file is a table.
        UsageError: several files could be the table.
    """
    place = _place(source, data, base)
    name = str(place)
    if name.startswith(HUB):
        patterns = _patterns(source, data)
        place = on_disk(name, *([tuple(patterns)] if patterns is not None else []))
    tree, file = opened(place, ("",), "")
    if file:
        return LocatedTable(name, tree, (file,))
    names = sorted(files_below(place, _endings(source), DEPTH)) if isinstance(tree, FolderTree) else tree.names()
    if source.packed and isinstance(tree, FolderTree) and not _matching(names, source):
        packed = (path for path in archives_below(place, 1) if fnmatch(path.name, source.packed))
        if (
            inside := next((tree for path in packed if _matching((tree := kept_tree(path)).names(), source)), None)
        ) is not None:
            return structs.replace(_chosen(name, inside, inside.names(), source, data), folder=place)
    return _chosen(name, tree, names, source, data)


def with_authors_files(declared: Declaration, data: Data, base: Path) -> Declaration:
    """Return the declaration with the authors' own files as its source, where `--data` has them and not those of [source]."""
    authors = declared.authors
    if authors is None or data.path is None or _is_there(declared.source, data, base):
        return declared
    for file in authors.source.files:
        source = structs.replace(authors.source, files=(file,), hub=declared.source.hub, rows=declared.source.rows)
        if _is_there(source, data, base):
            return structs.replace(declared, source=source, rows={**declared.rows, **authors.rows})
    return declared


def _is_there(source: Source, data: Data, base: Path) -> bool:
    try:
        return bool(_matching(locate_table(source, data, base).files, source))
    except (DataError, UsageError):
        return False


def _endings(source: Source) -> tuple[str, ...]:
    return (".txt", *ROW_SUFFIXES) if source.line else ROW_SUFFIXES


def _matching(files: Sequence[str], source: Source) -> list[str]:
    return [file for file in files if not source.files or any(fnmatch(file, pattern) for pattern in source.files)]


def _place(source: Source, data: Data, base: Path) -> Path:
    if data.path is not None:
        return data.path
    if source.kind == "hub":
        revision = f"@{source.revision}" if source.revision else ""
        return Path(f"{HUB}{source.hub.removeprefix(HUB)}{revision}")
    written = str(getattr(source, source.kind))
    return official_table(source) if is_address(written) else base / written


def _patterns(source: Source, data: Data) -> list[str] | None:
    """Return the files of a repository that are fetched; None: all."""
    if source.files:
        return list(source.files)
    config, split = data.options.get("config", source.config), data.options.get("split", source.split)
    if file := data.options.get("file"):
        return [file, *([] if "*" in file else [f"{PurePosixPath(file).parent}/*"] * ("/" in file))]
    if config or split:
        return [f"*{config}*{split}*" if config else f"*{split}*"]
    return None


def _chosen(name: str, tree: Tree, names: Sequence[str], source: Source, data: Data) -> LocatedTable:
    archive = not isinstance(tree, FolderTree)
    tables = [
        file for file in names if file.lower().endswith(_endings(source)) and not _NO_TABLE.fullmatch(_base(file))
    ]
    tables = [file for file in tables if not file.startswith(("__MACOSX/", ".")) and "/." not in file]
    if wanted := data.options.get("file"):
        matching = [file for file in tables if fnmatch(file, wanted) or _base(file) == wanted]
        if not matching:
            raise UsageError(f"{name}: no table {wanted!r}", f"Its tables: {_listed(tables) or 'none'}.")
        return LocatedTable(name, tree, tuple(_natural(matching)), archive)
    tables = _matching(tables, source)
    for option, declared in (("config", source.config), ("split", source.split)):
        if wanted := data.options.get(option, declared):
            key = config_of if option == "config" else split_of
            matching = [file for file in tables if key(file) == wanted]
            if not matching:
                known = ", ".join(sorted({key(file) for file in tables} - {""})) or "none"
                raise UsageError(
                    f"{name}: there is no {option} {wanted!r}", f"It has: {known}. Or name a file: -o file=NAME."
                )
            tables = matching
    beside = {annotations_of(file) for file in tables} | {
        f"{file[: -len(SAMPLES)]}metadata.json" for file in tables if _base(file) == SAMPLES
    }
    tables = [file for file in tables if file not in beside]
    metadata = [file for file in tables if PurePosixPath(file).stem.lower() == "metadata"]
    tables = metadata or tables
    if not tables:
        if _has_classes(tree, names):
            return LocatedTable(name, tree, (), archive)
        raise DataError(
            f"{name}: no table was found in it; {', '.join(ROW_SUFFIXES)} or one folder of images per class was expected",
            "Name the file of your questions.",
        )
    if len({_series(file) for file in tables}) > 1 and not source.files:
        raise _several(name, tables)
    return LocatedTable(name, tree, tuple(_natural(tables)), archive)


def _several(name: str, tables: Sequence[str]) -> UsageError:
    configs, splits = sorted({config_of(file) for file in tables}), sorted({split_of(file) for file in tables})
    if len(configs) > 1 and "" not in configs:
        hint = f"Choose one: -o config={configs[0]}. It has: {', '.join(configs[: NAMED * 3])}."
    elif len(splits) > 1 and "" not in splits:
        hint = f"Choose one: -o split={splits[-1]}. It has: {', '.join(splits[: NAMED * 3])}."
    else:
        hint = f"Choose one: -o file={tables[0]}"
    return UsageError(f"{name}: {len(tables):,} files could be the table: {_listed(tables)}", hint)


def config_of(file: str) -> str:
    """Return the configuration of a hub data set that a file belongs to, by its folder; empty where none is named."""
    folders = [part for part in file.split("/")[:-1] if part.lower() != "data" and part.lower() not in _SPLITS]
    return "/".join(folders)


def split_of(file: str) -> str:
    """Return the split that a file belongs to, by its name or its folder; empty where none is named."""
    stem = _SHARD.sub("", PurePosixPath(file).stem)
    if stem.lower() == SAVED:
        return PurePosixPath(file).parent.name
    if stem != PurePosixPath(file).stem or stem.lower() in _SPLITS:
        return stem
    return next((part for part in reversed(file.split("/")[:-1]) if part.lower() in _SPLITS), "")


def _series(file: str) -> tuple[str, str]:
    """Return the name of a file without its number, and its folder: shards of one table are equal."""
    path = PurePosixPath(file)
    return _SHARD.sub("", path.stem), str(path.parent)


def _natural(files: Sequence[str]) -> list[str]:
    return sorted(files, key=lambda file: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file)])


def _base(file: str) -> str:
    return file.rpartition("/")[2]


def _listed(files: Sequence[str]) -> str:
    return ", ".join(files[:NAMED]) + (f" and {len(files) - NAMED:,} more" if len(files) > NAMED else "")


def _has_classes(tree: Tree, names: Sequence[str]) -> bool:
    """Return True if images lie in at least two folders."""
    if isinstance(tree, FolderTree):
        return len(class_folders(tree.path)) > 1
    return len({name.rpartition("/")[0] for name in names if name.lower().endswith(MEDIA_SUFFIXES)}) > 1


def class_folders(folder: Path) -> list[str]:
    """Return the folders directly below `folder` that hold an image, sorted."""
    inner = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    return [name for name in inner if any(_is_media(entry) for entry in os.scandir(folder / name))]


def _is_media(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(MEDIA_SUFFIXES) and entry.is_file()
