"""The questions of one benchmark in --data: official parquet, JSON and archives, or VLMEvalKit's table.

VLMEvalKit's table of a benchmark as a source: images in base64, or paths of images and videos that lie elsewhere.
Where a table has the column `image`, that column counts: rows in which it is empty are left out, as the kit leaves them
out, and paths beside it are only the names that the kit writes images to. A table without it has `image_path`, `video` or
`video_path`, each one path or a list; those of MMSI-Video are lists of frames, one list a clip.

Source: the kit's base classes of image and video data sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.question import VIDEOS, QuestionSource, ShownMedia, SpatialQuestion
from snellen.benchmarks.spatial.scorers.points import Mask
from snellen.benchmarks.spatial.sources import carried
from snellen.benchmarks.spatial.sources.find_files import (
    TABLES,
    MediaFiles,
    chosen,
    endings,
    kit_tables,
    packed_table,
    patterns,
    require_own,
)
from snellen.benchmarks.spatial.sources.official import OfficialFiles
from snellen.benchmarks.spatial.sources.rows import FILE, Row, paths
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.sources.subsets import SelectedQuestions, chosen_subsets, for_subsets
from snellen.benchmarks.spatial.tasks import EVERY, SITE_HALVES, Task
from snellen.errors import DataError, UsageError
from snellen.sources import Unreadable, salvaged, vlmevalkit_tsv, within
from snellen.sources.digests import with_md5
from snellen.sources.hub import HUB
from snellen.sources.locator import ARCHIVES, on_disk
from snellen.sources.parquet_images import ParquetCell
from snellen.sources.safe_paths import regular_file
from snellen.sources.vlmevalkit_tsv import VLMEvalKitRow
from snellen.types import Blob

MEDIA = ("*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.mp4", "*.jpg", "*.jpeg", "*.png")


def source(task: Task, part: str, data: Data) -> QuestionSource:
    """Locate the questions of a benchmark in the user's data.

    Raises:
        UsageError: no data was given.
        DataError: nothing there, or nothing of this benchmark in it.
    """
    if data.path is None:
        kit = ", or VLMEvalKit's table" if task.kit else ""
        hint = f"Give it: --data hf:{task.hub}, or a folder, a parquet or JSON file{kit}."
        raise UsageError(f"{task.name} needs its data, and none was given", hint)
    subsets = () if task.in_payload else chosen_subsets(task, data)
    task = for_subsets(task, subsets)
    path = questions_on_disk(str(data.path), task, part)
    media = media_root(task, data, path)
    sources: Sequence[QuestionSource]
    if path.is_dir() and (tables := tables_in(task, part, path, subsets)):
        remarks = beside(tables[0])
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
    if path.suffix.lower() in endings(task):
        require_own(task, path)
        return OfficialFiles(task, part, path, (path,), media)
    kit = f", or VLMEvalKit's table of {task.kit}" if task.kit else ""
    raise DataError(
        f"{path}: a folder, {', '.join(TABLES)}, .zip or .tsv was expected", f"Give what {task.hub} holds{kit}."
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


_PACKED = re.compile(r"images/(.+)/([^/]+)/(\d{1,3})\.png")
PATHS = ("image_path", "video_path", "video")
SHOWN = ("image", *PATHS)
NAMELESS = frozenset({"nan", "-nan", "none", "null", "na", "n/a", "#n/a", "<na>"})  # what tables write for nothing
MD5: Mapping[str, str] = {name: md5 for task in EVERY.values() for name, md5 in task.declared.vlmevalkit.tables.items()}
"""By the name of the table."""


@dataclass(frozen=True)
class KitQuestionTable:
    """A table without its images.

    Attributes:
        header: its columns, in order.
        rows: those that are asked, and those that cannot be read, in the order of the file.
        by_index: those that can be read, by index; of several of one index the first.
        shared: indices of rows whose images other rows show as well.
        dropped: how many rows were left out, their `image` being empty.
    """

    header: tuple[str, ...]
    rows: tuple[VLMEvalKitRow, ...]
    by_index: Mapping[str, VLMEvalKitRow]
    shared: frozenset[str]
    dropped: int


@dataclass
class KitFile:
    """Questions of one benchmark in a table of VLMEvalKit's.

    Attributes:
        task, part: the benchmark; image or video for a half of SITE.
        path: the table.
        media: the root of the paths in its rows.
        choice_remarks: remarks from when the table was chosen.
    """

    task: Task
    part: str
    path: Path
    media: Path
    choice_remarks: tuple[str, ...] = ()
    _media_files: MediaFiles | None = field(default=None)

    @property
    def file(self) -> str:
        """The name in messages."""
        return str(self.path)

    def questions(self) -> Iterator[tuple[str, SpatialQuestion | DataError]]:
        """(place, question) in the order of the file; rows that show the same row's images are one cluster."""
        whole = table(self.path, self.task, self.part)
        for at, row in enumerate(whole.rows):
            place = f"line {row.place.line:,}"
            if isinstance(row.cells, DataError):
                yield place, row.cells
                continue
            try:
                cells = _filled(row.cells)
                known = cells if self.task.in_payload else {**cells, FILE: self.path.name}
                question = question_of(self.task, "kit", known, at)
            except DataError as error:
                hint = error.hint or "Fix or remove the row."
                yield place, DataError(f"{self.path}, {place}: {error.message}", hint)
                continue
            source = row.reference or row.cells["index"]
            if source in whole.shared and not question.cluster:
                question = structs.replace(question, cluster=source)
            if question.masks:
                mask = Mask(self._file(question.masks[0], f"{self.path}, {place}"))
                question = structs.replace(question, scoring={**question.scoring, "mask": mask})
            yield place, question

    def shown(self, question: SpatialQuestion) -> ShownMedia:
        """Return the images of the table itself, else files by their paths."""
        whole = table(self.path, self.task, self.part)
        row = whole.rows[question.row]
        at = f"{self.path}, line {row.place.line:,}"
        if row.filled:
            return ShownMedia(images=self._own(whole, row, at))
        cells: Row = {} if isinstance(row.cells, DataError) else _filled(row.cells)
        if question.segments:
            clips = tuple(tuple(self._file(name, at) for name in clip) for clip in question.segments)
            return ShownMedia(tuple(self._file(name, at) for name in question.media), None, clips)
        if self.task.name == "mmsi-video-bench" and cells.get("image_path"):
            fault = f"{at}: image_path is no list of lists of frames: {str(cells['image_path'])[:80]!r}"
            return ShownMedia(
                images=(Unreadable(f"{at}: image_path", fault, "Fix the row, or fetch the table again."),)
            )
        names = question.media or paths(cells, PATHS, kept=True)
        if not names:
            columns = [column for column in SHOWN if column in whole.header]
            fault = f"{at}: there is nothing to show: {', '.join(columns)} {'is' if len(columns) == 1 else 'are'} empty"
            return ShownMedia(images=(Unreadable(f"{at}: nothing to show", fault, "Fix or remove the row."),))
        if self.part == "video" or names[0].lower().endswith(VIDEOS):
            return ShownMedia(video=self._file(names[0], at))
        return ShownMedia(images=tuple(self._file(name, at) for name in names))

    def _own(self, whole: KitQuestionTable, row: VLMEvalKitRow, at: str) -> tuple[Blob, ...]:
        owner = vlmevalkit_tsv.row_with_images(row, whole.by_index)
        if owner is None:
            return (vlmevalkit_tsv.missing_images(row, at),)
        pictures = vlmevalkit_tsv.own_images(self.path, whole.header, owner)
        fault = f"{at}: its image is a list that cannot be read, or has no picture in it"
        return tuple(pictures) or (
            Unreadable(f"{at}: image", fault, "The column is cut off, or holds something else."),
        )

    def _file(self, name: str, at: str) -> Blob:
        if self._media_files is None:
            self._media_files = MediaFiles(self.media, by_name=not self.task.in_payload)
        # Where the kit wrote large tables' images to files, paths are those of that machine.
        if name.startswith("/"):
            return vlmevalkit_tsv.by_end_of_path(name, at, self._media_files.find, least=2)
        file = self._media_files.find(name, at)
        if self.task.name == "stare" and isinstance(file, Unreadable):
            return _packed_image(self.media, name) or file
        return file

    def content(self) -> str:
        """Return the digest of the table's bytes."""
        return with_md5(self.path)[0]

    def remarks(self) -> list[str]:
        """Return remarks: on rows that were left out, bytes other than the kit's, archives that cannot be opened."""
        lines = list(self.choice_remarks)
        if dropped := table(self.path, self.task, self.part).dropped:
            lines.append(f"{self.path}: {dropped:,} rows have no image and are left out, as VLMEvalKit leaves them out")
        return [*lines, *self._other_bytes(), *(self._media_files.faults if self._media_files is not None else ())]

    def _other_bytes(self) -> list[str]:
        md5, known = with_md5(self.path)[1], MD5
        expected = {name: known[name] for name in names(self.task, self.part) if name in known}
        if not self.task.in_payload and self.path.name in known:  # several tables make up a set
            expected = {self.path.name: known[self.path.name]}
        if not expected or md5 in expected.values():
            return []
        if same := [name for name, digest in known.items() if digest == md5]:
            return [f"{self.path}: this is VLMEvalKit's {same[0]}"]
        correction = self.task.declared.correction
        if correction is not None and correction.by_digest(md5) == "before":
            return []  # the notice about its gold answers names it
        expected_text = " or ".join(f"{digest} ({name})" for name, digest in expected.items())
        return [f"{self.path}: its MD5 is {md5}, VLMEvalKit's table has {expected_text}: rows may have been changed"]


def names(task: Task, part: str = "") -> tuple[str, ...]:
    """File names of a benchmark's tables: the kit's, with and without the number of frames, then the authors' own."""
    of_data = (f"{name}.tsv" for name in task.kit.split(", ") if name and part in name.lower())
    own = (name for name in task.files if name.endswith(".tsv"))
    return tuple(dict.fromkeys(chain(kit_tables(task, part), of_data, own)))


def tables_in(task: Task, part: str, folder: Path, subset: tuple[str, ...]) -> list[Path]:
    """Return the tables of a benchmark right in a folder, in the kit's order; none where there is none.

    Where each subset has a table of its own, those that were asked for are read one behind the other; else the first is read.
    """
    paths = [folder / name for name in names(task, part) if (folder / name).is_file()]
    tables = task.declared.subset.tables
    if not tables:
        return paths[:1]
    wanted = {tables[name] for name in subset if name in tables}
    return [path for path in paths if not subset or path.name in wanted]


def beside(path: Path) -> tuple[str, ...]:
    """Return the remark on tables of other kinds in a table's folder, which are not read."""
    others = sorted(other.name for other in path.parent.iterdir() if other.name.lower().endswith(TABLES))
    if not others:
        return ()
    some = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
    return (f"{path.parent}: {path.name} is read; {some} beside it {'is' if len(others) == 1 else 'are'} not",)


def table(path: Path, task: Task, part: str = "") -> KitQuestionTable:
    """Return the table at `path`, gone through once a process as long as the file stays the same.

    Raises:
        DataError: it cannot be opened, is empty, is another benchmark's, lacks a column, or has an image in no row.
    """
    status = regular_file(path)
    return _gone_through(path, status.st_mtime_ns, status.st_size, task, part)


@lru_cache(maxsize=2)
def _gone_through(path: Path, changed: int, size: int, task: Task, part: str) -> KitQuestionTable:
    _check_name(path, task, part)
    opened = vlmevalkit_tsv.open_table(path, ("index",), ())
    _check_columns(path, opened.header, task, part)
    rows: list[VLMEvalKitRow] = []
    by_index: dict[str, VLMEvalKitRow] = {}
    dropped = 0
    for row in opened.rows:
        if not isinstance(row.cells, DataError):
            if "image" in opened.header and (not row.filled or row.reference.lower() in NAMELESS):
                dropped += 1
                continue
            by_index.setdefault(row.cells["index"], row)
        rows.append(row)
    if dropped and not rows:
        hint = "Take the column out where pictures or videos lie in files, or fetch the table again."
        raise DataError(f"{path}: the column 'image' is empty in all of {dropped:,} rows, so that none is asked", hint)
    shared = frozenset(row.reference for row in rows if row.reference)
    return KitQuestionTable(opened.header, tuple(rows), by_index, shared, dropped)


def _check_name(path: Path, task: Task, part: str) -> None:
    """Raises DataError where a file has the name of another benchmark's table."""
    if path.name in names(task, part):
        return
    for other in EVERY.values():
        for half in SITE_HALVES if other.name == "site" else ("",):
            if path.name in names(other, half):
                named, wanted = "/".join(filter(None, (other.name, half))), "/".join(filter(None, (task.name, part)))
                raise DataError(
                    f"{path} holds the questions of {named}; those of {wanted} were expected",
                    f"Run {named}, or give {next(iter(names(task, part)), 'a table')}, or the folder that holds both.",
                )


def _check_columns(path: Path, header: tuple[str, ...], task: Task, part: str) -> None:
    media_columns = SHOWN if not part else tuple(column for column in SHOWN if column.startswith(part))
    for some in (*task.declared.vlmevalkit.needed, media_columns):
        if not any(column in header for column in some):
            raise DataError(
                f"{path}: no column {' or '.join(some)}; it has {', '.join(header)[:400]}",
                f"Give VLMEvalKit's {next(iter(names(task, part)), 'a table')}.",
            )


def _filled(cells: Mapping[str, str]) -> Row:
    """Return the cells that hold something: in a table of text an empty one is a missing one."""
    return {column: cell for column, cell in cells.items() if cell}


def _packed_image(root: Path, name: str) -> ParquetCell | None:
    """Return STARE's image that a table calls `name`, of a parquet file under `root`; None where there is none.

    The kit writes the images of each row to `images/<path of the parquet file, without its ending>/<qid>/<number>.png`.
    """
    match = _PACKED.fullmatch(name)
    if match is None or not root.is_dir():
        return None
    try:
        path = within(root, f"{match[1]}.parquet")
        status = regular_file(path)
        row = _numbers_of(path, status.st_mtime_ns, status.st_size).get(match[2])
    except DataError:
        return None  # the caller says that the image is not there
    return None if row is None else ParquetCell(path, row, "images", int(match[3]))


@lru_cache(maxsize=16)
def _numbers_of(path: Path, changed: int, size: int) -> dict[str, int]:
    """Return row number by qid."""
    numbers: dict[str, int] = {}
    for number, row in salvaged(path, columns=("qid",)):
        if not isinstance(row, DataError):
            numbers.setdefault(str(row["qid"]), number - 1)
    return numbers
