"""The questions of one benchmark in --data: official parquet, JSON and archives, or VLMEvalKit's table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.question import QuestionSource
from snellen.benchmarks.spatial.sources import carried, vlmevalkit
from snellen.benchmarks.spatial.sources.find_files import TABLES, chosen, packed_table, patterns, require_own
from snellen.benchmarks.spatial.sources.official import OfficialFiles
from snellen.benchmarks.spatial.sources.subsets import SelectedQuestions, chosen_subsets, for_subsets
from snellen.benchmarks.spatial.sources.vlmevalkit import KitFile
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, UsageError
from snellen.sources.hub import HUB
from snellen.sources.locator import ARCHIVES, on_disk
from snellen.sources.safe_paths import regular_file

MEDIA = ("*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.mp4", "*.jpg", "*.jpeg", "*.png")


def source(task: Task, part: str, data: Data) -> QuestionSource:
    """Locate the questions of a benchmark in the user's data.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of this benchmark in it.
    """
    if data.path is None:
        hint = f"Give it: --data hf:{task.hub}, or a folder, a parquet or JSON file, or VLMEvalKit's table."
        raise UsageError(f"{task.name} needs its data, and none was given", hint)
    subsets = () if task.in_payload else chosen_subsets(task, data)
    task = for_subsets(task, subsets)
    path = questions_on_disk(str(data.path), task, part)
    media = media_root(task, data, path)
    sources: Sequence[QuestionSource]
    if path.is_dir() and (tables := vlmevalkit.tables_in(task, part, path, subsets)):
        remarks = vlmevalkit.beside(tables[0])
        sources = [KitFile(task, part, table, media, () if at else remarks) for at, table in enumerate(tables)]
    elif path.is_dir():
        files, remarks = chosen(task, part, path)
        sources = [OfficialFiles(task, part, path, files, media, remarks)]
    else:
        sources = [_file(task, part, path, media)]
    whole = len(sources) == 1 and (not task.subsets or isinstance(sources[0], carried.CarriedQuestions))
    return sources[0] if whole else SelectedQuestions(task, str(path), sources, subsets)


def _file(task: Task, part: str, path: Path, media: Path) -> QuestionSource:
    """Return the source over one file."""
    regular_file(path)
    if path.name == carried.NAME:
        return carried.CarriedQuestions(task, part, path)
    if path.suffix.lower() == ".tsv":
        return KitFile(task, part, path, media)
    if path.name.lower().endswith(ARCHIVES):
        return OfficialFiles(task, part, path, (packed_table(task, path),), media)
    if path.suffix.lower() in TABLES:
        require_own(task, path)
        return OfficialFiles(task, part, path, (path,), media)
    raise DataError(
        f"{path}: a folder, {', '.join(TABLES)}, .zip or .tsv was expected",
        f"Give what {task.hub} holds, or VLMEvalKit's table of {task.kit}.",
    )


def media_root(task: Task, data: Data, path: Path) -> Path:
    """Locate images and videos: --images, which may be on the hub, else the data's folder or archive itself.

    Args:
        path: the data, on disk.
    """
    if data.images is not None:
        return on_disk(str(data.images), task.media or MEDIA)
    return path if path.is_dir() or path.name.lower().endswith(ARCHIVES) else path.absolute().parent


def questions_on_disk(place: str, task: Task, part: str) -> Path:
    """Return the path, or the folder of the hub's files: asked of the hub once a process.

    The questions are fetched first. Media, which may be a hundred gigabytes, come only when they are those of the benchmark,
    and from the same commit.

    Raises:
        DataError: as `on_disk`; no questions of the benchmark are in the repository.
    """
    if not place.startswith(HUB):
        return Path(place)
    wanted = tuple(patterns(task, part))
    # OmniSpatial's questions lie in its archive.
    folder = on_disk(place, wanted, (*wanted, *task.media)) if task.media else on_disk(place, wanted)
    if not any(folder.glob("*.tsv")):
        chosen(task, part, folder)
    if not task.media:
        return folder
    repo = place.partition("@")[0]
    return on_disk(f"{repo}@{folder.name}", (*wanted, *task.media))
