"""From what the user gives to the questions of one benchmark: official parquet, JSON and archives, or VLMEvalKit's table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.official_files import OfficialFiles
from snellen.benchmarks.spatial.prompts import Shown
from snellen.benchmarks.spatial.question import Question
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, UsageError
from snellen.sources import locate
from snellen.sources.confine import regular_file

TABLES = (".parquet", ".jsonl", ".ndjson", ".json")
METADATA = ["*.parquet", "*.json", "*.jsonl", "*.tsv"]
MEDIA = ["*.zip", "*.tar", "*.tar.gz", "*.mp4", "*.jpg", "*.jpeg", "*.png"]


class Source(Protocol):
    """The questions of one benchmark in one layout.

    `file` is what messages call it; `questions` starts a new pass over (place such as `row 7`, question or why there is
    none); `shown` is what a question shows; `content` the digest of the questions' bytes; `remarks` what is odd about the
    source, one line each.
    """

    @property
    def file(self) -> str: ...

    def questions(self) -> Iterator[tuple[str, Question | DataError]]: ...

    def shown(self, question: Question) -> Shown: ...

    def content(self) -> str: ...

    def remarks(self) -> list[str]: ...


def source(task: Task, part: str, data: Data) -> Source:
    """Where the user's data has the questions of a benchmark.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of this benchmark in it.
    """
    if data.path is None:
        hint = f"Give it: --data hf:{task.hub}, or a folder, a parquet or JSON file, or VLMEvalKit's table."
        raise UsageError(f"{task.name} needs its data, and none was given", hint)
    path = _on_disk(str(data.path))
    media = data.images or (path if path.is_dir() else path.absolute().parent)
    if path.is_dir():
        files, remarks = chosen(task, part, path)
        return OfficialFiles(task, part, path, files, media, remarks)
    regular_file(path)
    if path.suffix.lower() in TABLES:
        return OfficialFiles(task, part, path, (path,), media)
    raise DataError(
        f"{path}: a folder, {', '.join(TABLES)} or .tsv was expected",
        f"Give what {task.hub} holds, or VLMEvalKit's table of {task.kit}.",
    )


@lru_cache(maxsize=16)
def _on_disk(given: str) -> Path:
    """The path, or the folder of the hub's files; asked of the hub once a process."""
    return locate(given, patterns=METADATA + MEDIA)


def chosen(task: Task, part: str, folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files of a folder that hold the questions, in order, and what is to be said about others that look alike.

    A set's `full` configuration may be declared as `test*.parquet` and so take in parts of itself (VSI-Bench does): only
    files named for the split itself, or its numbered shards, are taken.

    Raises:
        DataError: there is none.
    """
    there = sorted(path for path in folder.rglob("*") if path.name.lower().endswith(TABLES) and path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in there}
    configs = [one for one in task.configs if not part or one.startswith(part)]
    for config in configs:
        for split in task.splits:
            found = [name for name in names if _is_shard(name, config, split)]
            if found:
                stem = f"{split}"
                alike = [
                    n for n in names if n not in found and Path(n).name.startswith(stem) and config in ("", "full")
                ]
                said = f"{folder}: {len(found)} of {len(found) + len(alike)} files that begin with {stem!r} are taken"
                return tuple(names[name] for name in found), (said,) if alike else ()
    for wanted in task.files:
        for name, path in names.items():
            if name == wanted or name.endswith(f"/{wanted}"):
                return (path,), ()
    if part:
        found = [name for name in names if part in Path(name).name.lower()]
        if found:
            return tuple(names[name] for name in found), ()
    if len(there) == 1:
        return (there[0],), ()
    some = ", ".join(list(names)[:8]) or "no parquet or JSON file"
    wanted_names = ", ".join((*(f"{split}-*.parquet" for split in task.splits), *task.files))
    raise DataError(
        f"{folder}: no questions of {task.name} in it; it has {some}",
        f"{wanted_names} was looked for{' under ' + ', '.join(configs) if any(configs) else ''}. Name the file as --data.",
    )


def _is_shard(name: str, config: str, split: str) -> bool:
    folder = {"": r"(?:data/)?", "*": r"[^/]+/"}.get(config, rf"(?:.*/)?{re.escape(config)}/")
    return re.fullmatch(rf"{folder}{re.escape(split)}(?:-\d+-of-\d+)?\.(?:parquet|jsonl?|ndjson)", name) is not None
