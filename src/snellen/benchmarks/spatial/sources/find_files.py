"""Files of a folder or repository that hold the questions of a benchmark, and files that only look alike; and its media."""

from __future__ import annotations

import re
from pathlib import Path

from snellen.benchmarks.spatial.tasks import EVERY, Task
from snellen.errors import DataError
from snellen.sources.locator import NearPlaces, Pictures, archives_below, ending_in, files_below
from snellen.sources.open_tree import kept_tree
from snellen.types import Blob

DEPTH = 3  # folders below the root in which archives and tables are looked for
TABLES = (".parquet", ".jsonl", ".ndjson", ".json")
VARIANT = re.compile(r"_(?:\d+frame|\d+fps|default|(?:zeroshot|manual)_cot)$")
"""What VLMEvalKit's data names of one table differ in."""


def kit_tables(task: Task, part: str = "") -> tuple[str, ...]:
    """File names of VLMEvalKit's tables of a benchmark: its data names without the number of frames."""
    names = [VARIANT.sub("", name) for name in task.kit.split(", ")]
    return tuple(f"{name}.tsv" for name in names if name and part in name.lower())


def endings(task: Task) -> tuple[str, ...]:
    """Return how names of files end that may hold the questions: the usual ones, and those that the set declares."""
    return (*TABLES, *(Path(name).suffix for name in task.files))


def chosen(task: Task, part: str, folder: Path) -> tuple[tuple[Path | Blob, ...], tuple[str, ...]]:
    """Return the files that hold the questions, in order, and what is to be said about others that look alike.

    A set's `full` configuration may be declared as `test*.parquet` and so take in parts of itself (VSI-Bench does): only
    files named for the split itself, or its numbered shards, are taken, and of one kind of file. Where none of these names
    lies beside the archives, one that lies inside of an archive is taken.

    Raises:
        DataError: there is none.
    """
    names = {name: folder / name for name in files_below(folder, endings(task), DEPTH)}
    own = folder.absolute().name
    for config in configs(task, part) if own not in configs(task, part) else ("",):
        for split in task.splits:
            matches = _of_one_kind([name for name in names if _is_shard(name, config, split)])
            if matches:
                alike = [name for name in names if name not in matches and _is_alike(name, config, split)]
                return tuple(names[name] for name in matches), _remarks(folder, matches, alike)
    if task.together and (matches := _of_one_kind([name for name in names if _is_part(name, task.together)])):
        at = {split: number for number, split in enumerate(task.together)}
        matches.sort(key=lambda name: (at[_is_part(name, task.together)], name))
        return tuple(names[name] for name in matches), ()
    for wanted in task.files:
        if matches := ending_in(names, wanted):
            return (names[matches[0]],), ()
    if part:
        matches = _of_one_kind([name for name in names if part in Path(name).name.lower()])
        if matches:
            return tuple(names[name] for name in matches), ()
    packed = _packed(task, folder)
    if packed is not None:
        return (packed,), ()
    if len(names) == 1 and not _of_another(task, part, folder):
        return tuple(names.values()), ()
    some = ", ".join(list(names)[:8]) or "no parquet or JSON file"
    shards = (f"{split}-*.parquet" for split in (*task.splits, *task.together))
    wanted_names = ", ".join(dict.fromkeys((*shards, *task.files, *kit_tables(task, part))))
    under = [config for config in configs(task, part) if config]
    raise DataError(
        f"{folder}: no questions of {task.name} in it; it has {some}",
        f"{wanted_names} was looked for{' under ' + ', '.join(under) if under else ''}. Name the file as --data.",
    )


def require_own(task: Task, path: Path) -> None:
    """Refuse a file of the authors' that another set of the same repository is declared to be in.

    Raises:
        DataError: its name, or its folder's, is that of another set and not of this one.
    """
    if task.declared.source.without:  # such a set may lie in the file of the whole one
        return
    for other in EVERY.values():
        theirs = path.name in other.files or path.absolute().parent.name in other.configs
        own = path.name in task.files or path.absolute().parent.name in task.configs
        if other.hub == task.hub and theirs and not own:
            raise DataError(
                f"{path} holds the questions of {other.name}; those of {task.name} were expected", f"Run {other.name}."
            )


def packed_table(task: Task, path: Path) -> Blob:
    """Return the table of a benchmark inside of one archive.

    Raises:
        DataError: the archive cannot be opened, or has none.
    """
    table = _packed(task, path)
    if table is None:
        kept_tree(path)  # a damaged archive is named as that
        wanted = f" ({', '.join(task.files)})" if task.files else ""
        raise DataError(f"{path}: no questions of {task.name} in it{wanted}", "Unpack it, and give the folder.")
    return table


def _packed(task: Task, root: Path) -> Blob | None:
    for path in archives_below(root, DEPTH) if task.files else ():
        try:
            tree = kept_tree(path)
        except DataError:
            if path == root:
                raise
            continue  # one among several that cannot be opened: a notice says so where its media are missed
        names = [name for name in tree.names() if name.lower().endswith(endings(task))]
        for wanted in task.files:
            if matches := ending_in(names, wanted):
                return tree.blob(matches[0])
    return None


def configs(task: Task, part: str) -> list[str]:
    """Return the folders that a split may lie in, `*` being any and the empty one the root."""
    return [config for config in task.configs if not part or config.startswith(part)]


def _of_another(task: Task, part: str, folder: Path) -> bool:
    """Return True if a folder is of a configuration that is not asked, such as SITE's other half."""
    return folder.absolute().name in set(task.configs) - set(configs(task, part))


def patterns(task: Task, part: str = "") -> list[str]:
    """Return the names of the files with the questions, as the hub's client takes them."""
    globs: list[str] = []
    for config in configs(task, part):
        tops = {"": ("", "data/"), "*": ("*/",)}.get(config, (f"{config}/", f"*/{config}/"))
        for top in tops:
            for split in task.splits:
                globs += [f"{top}{split}{mark}{suffix}" for mark in ("", "-*-of-*") for suffix in TABLES]
    parts = (
        f"{top}{split}{mark}{suffix}"
        for split in task.together
        for top in ("", "*/")
        for mark in ("", "-*-of-*", "_questions")
        for suffix in TABLES
    )
    globs += [*parts, *(f"*{split}*/question*.json" for split in task.together)]
    globs += [pattern for name in task.files for pattern in (name, f"*/{name}")]
    globs += [f"*{part}*{suffix}" for suffix in TABLES if part]
    return [*globs, *kit_tables(task, part)]


def _of_one_kind(names: list[str]) -> list[str]:
    """Return those of the first kind of file: the same rows may lie there as parquet and as JSON."""
    for suffix in TABLES:
        if same := [name for name in names if name.lower().endswith(suffix)]:
            return same
    return []


def _remarks(folder: Path, files: list[str], alike: list[str]) -> tuple[str, ...]:
    if not alike:
        return ()
    taken = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    some = ", ".join(alike[:3]) + (" ..." if len(alike) > 3 else "")
    return (f"{folder}: {taken} is read; {len(alike)} files of like names ({some}) repeat or part it, and are not",)


def _is_alike(name: str, config: str, split: str) -> bool:
    return config in ("", "full") and Path(name).name.startswith(split)


def _is_shard(name: str, config: str, split: str) -> bool:
    folder = {"": r"(?:data/)?", "*": r"[^/]+/"}.get(config, rf"(?:.*/)?{re.escape(config)}/")
    return re.fullmatch(rf"{folder}{re.escape(split)}(?:-\d+-of-\d+)?\.(?:parquet|jsonl?|ndjson)", name) is not None


def _is_part(name: str, together: tuple[str, ...]) -> str:
    """Return which of a set's parts a file holds, by its name or, of a `question.json`, by its folder; else empty."""
    path = Path(name)
    stem = re.sub(r"-\d+-of-\d+$", "", path.stem).lower()
    if stem in ("question", "questions"):
        stem = path.parent.name.lower()
    return next((split for split in together if stem in (split.lower(), f"{split.lower()}_questions")), "")


class MediaFiles(Pictures):
    """Images, videos and masks by the paths that rows give, under a folder or archive, or near by."""

    def __init__(self, root: Path, *, by_name: bool = False) -> None:
        places = NearPlaces(root, DEPTH, by_name=by_name)

        def absent(path: str) -> str:
            many = len(places.trees)
            looked = f"nor in {many} archive{'s' if many > 1 else ''} there" if many else "and no archive is there"
            return f"{path} is not under {root}, {looked}"

        hint = "Fetch the data again, or give the media's folder or archive as --images."
        super().__init__(str(root), (places,), absent, hint, places.archives)

    def find(self, path: str, at: str) -> Blob:
        """Return a file as `Pictures.find`; the slash before a path and the backslashes of Windows are no fault."""
        return super().find(path.removeprefix("/").replace("\\", "/"), at)
