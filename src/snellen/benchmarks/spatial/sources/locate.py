"""The questions of one benchmark in --data: official parquet, JSON and archives, or VLMEvalKit's table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import ShownMedia
from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.benchmarks.spatial.sources import carried, vlmevalkit
from snellen.benchmarks.spatial.sources.find_files import TABLES, chosen, is_archive, packed_table, patterns
from snellen.benchmarks.spatial.sources.official import OfficialFiles
from snellen.benchmarks.spatial.sources.subsets import SelectedQuestions, chosen_subsets, for_subsets
from snellen.benchmarks.spatial.sources.vlmevalkit import KitFile
from snellen.benchmarks.spatial.tasks import EVERY, MORE, Task
from snellen.errors import DataError, UsageError
from snellen.sources import locate
from snellen.sources.hub import HUB
from snellen.sources.safe_paths import regular_file
from snellen.sources.user_data import on_disk

MEDIA = ("*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.mp4", "*.jpg", "*.jpeg", "*.png")


class QuestionSource(Protocol):
    """The questions of one benchmark in one layout.

    `file` is what messages call it; `questions` starts a new pass over (place such as `row 7`, question or why there is
    none); `shown` is what a question shows, asked at most once and before the next question; `content` the digest of the
    questions' bytes; `remarks` what is odd about the source, one line each, whole only after a pass.
    """

    @property
    def file(self) -> str: ...

    def questions(self) -> Iterator[tuple[str, SpatialQuestion | DataError]]: ...

    def shown(self, question: SpatialQuestion) -> ShownMedia: ...

    def content(self) -> str: ...

    def remarks(self) -> list[str]: ...


def source(task: Task, part: str, data: Data) -> QuestionSource:
    """Locate the questions of a benchmark in the user's data.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of this benchmark in it.
    """
    if data.path is None:
        hint = f"Give it: --data hf:{task.hub}, or a folder, a parquet or JSON file, or VLMEvalKit's table."
        raise UsageError(f"{task.name} needs its data, and none was given", hint)
    if task.name in MORE:
        return _more(task, data)
    path = questions_on_disk(str(data.path), task.name, part)
    media = media_root(task, data, path)
    if path.is_dir():
        if (table := vlmevalkit.in_folder(task, part, path)) is not None:
            return KitFile(task, part, table, media, vlmevalkit.beside(table))
        files, remarks = chosen(task, part, path)
        return OfficialFiles(task, part, path, files, media, remarks)
    regular_file(path)
    if path.name == carried.NAME:
        return carried.CarriedQuestions(task, part, path)
    if path.suffix.lower() == ".tsv":
        return KitFile(task, part, path, media)
    if is_archive(path):
        return OfficialFiles(task, part, path, (packed_table(task, path),), media)
    if path.suffix.lower() in TABLES:
        return OfficialFiles(task, part, path, (path,), media)
    raise _not_data(task, path)


def _not_data(task: Task, path: Path) -> DataError:
    return DataError(
        f"{path}: a folder, {', '.join(TABLES)}, .zip or .tsv was expected",
        f"Give what {task.hub} holds, or VLMEvalKit's table of {task.kit}.",
    )


def _more(task: Task, data: Data) -> QuestionSource:
    """Locate the questions of one of the further benchmarks, which may lie in several tables, and select its subsets."""
    subsets = chosen_subsets(task, data)
    task = for_subsets(task, subsets)
    path = questions_on_disk(str(data.path), task.name, "", subsets)
    media = media_root(task, data, path)
    tables = vlmevalkit.tables_in(task, path, subsets) if path.is_dir() else [path]
    if path.is_dir() and not tables:
        files, remarks = chosen(task, "", path)
        return SelectedQuestions(task, str(path), (OfficialFiles(task, "", path, files, media, remarks),), subsets)
    if not path.is_dir():
        regular_file(path)
    if path.name == carried.NAME:
        return carried.CarriedQuestions(task, "", path)
    if path.is_dir() or path.suffix.lower() == ".tsv":
        beside = vlmevalkit.beside(tables[0]) if path.is_dir() else ()
        kit = [KitFile(task, "", table, media, beside if at == 0 else ()) for at, table in enumerate(tables)]
        return SelectedQuestions(task, str(path), kit, subsets)
    if is_archive(path):
        packed = OfficialFiles(task, "", path, (packed_table(task, path),), media)
        return SelectedQuestions(task, str(path), (packed,), subsets)
    if path.suffix.lower() in TABLES:
        return SelectedQuestions(task, str(path), (OfficialFiles(task, "", path, (path,), media),), subsets)
    raise _not_data(task, path)


def media_root(task: Task, data: Data, path: Path) -> Path:
    """Locate images and videos: --images, which may be on the hub, else the data's folder or archive itself.

    Args:
        path: the data, on disk.
    """
    if data.images is not None:
        return on_disk(str(data.images), task.media or MEDIA)
    return path if path.is_dir() or is_archive(path) else path.absolute().parent


@lru_cache(maxsize=32)
def questions_on_disk(place: str, name: str, part: str, subsets: tuple[str, ...] = ()) -> Path:
    """Return the path, or the folder of the hub's files: asked of the hub once a process.

    The questions are fetched first. Media, which may be a hundred gigabytes, come only when they are those of the benchmark,
    and from the same commit.

    Raises:
        DataError: as `snellen.sources.web_files`; no questions of the benchmark are in the repository.
    """
    if not place.startswith(HUB):
        return Path(place)
    task = for_subsets(EVERY[name], subsets)
    wanted = patterns(task, part)
    try:
        folder = locate(place, patterns=wanted)
    except DataError:
        if not task.media:
            raise
        folder = locate(place, patterns=[*wanted, *task.media])  # OmniSpatial's questions lie in its archive
    if not any(folder.glob("*.tsv")):
        chosen(task, part, folder)
    if not task.media:
        return folder
    repo = place.partition("@")[0]
    return locate(f"{repo}@{folder.name}", patterns=[*wanted, *task.media])
