"""The authors' files (or lmms-eval's copies) as a source: parquet with pictures in cells, or JSON rows with paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from snellen.benchmarks.spatial.media_files import media_files
from snellen.benchmarks.spatial.official import QUESTIONS, Row
from snellen.benchmarks.spatial.prompts import Shown
from snellen.benchmarks.spatial.question import Question
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError
from snellen.sources import digest, salvaged
from snellen.sources.cells import ParquetCell, pictured_rows
from snellen.types import Blob

VIDEOS = (".mp4", ".mov", ".mkv", ".webm", ".avi")


@dataclass
class OfficialFiles:
    """Questions of one benchmark in one or more files of rows, counted on from file to file."""

    task: Task
    part: str
    path: Path
    files: tuple[Path, ...]
    media: Path
    said: tuple[str, ...] = ()
    _cells: dict[int, tuple[Blob, ...]] = field(default_factory=dict)
    _dropped: int = 0

    @property
    def file(self) -> str:
        """What messages call it: the file, or the folder of several."""
        return str(self.files[0] if len(self.files) == 1 else self.path)

    def questions(self) -> Iterator[tuple[str, Question | DataError]]:
        """(place, question), rows of an id that was there already left out where ids are the set's own."""
        at = -1
        seen: set[str] = set()
        self._dropped = 0
        for file in self.files:
            for number, row, cells in _rows(file):
                place = f"row {number:,}" if len(self.files) == 1 else f"{file.name}, row {number:,}"
                if isinstance(row, DataError):
                    yield place, row
                    continue
                if self.task.name == "vsi-debiased" and row.get("pruned") is True:
                    continue
                at += 1
                try:
                    question = QUESTIONS[self.task.name](row, at)
                except DataError as error:
                    yield place, DataError(f"{file}, {place}: {error.message}", "Is this a file of this benchmark?")
                    continue
                if self.task.name in ("vsi-bench", "vsi-debiased") and question.id in seen:
                    self._dropped += 1
                    continue
                seen.add(question.id)
                self._cells[at] = cells
                yield place, question

    def shown(self, question: Question) -> Shown:
        """Pictures of cells first, else files by their paths."""
        cells = self._cells.pop(question.row, ())
        if cells:
            return Shown(images=cells)
        at = f"{self.file}, row {question.row + 1:,}"
        files = media_files(self.media)
        if question.segments:
            clips = tuple(tuple(files.find(name, at) for name in clip) for clip in question.segments)
            return Shown(tuple(files.find(name, at) for name in question.media), None, clips)
        if question.media and (self.part == "video" or question.media[0].lower().endswith(VIDEOS)):
            return Shown(video=files.find(question.media[0], at))
        return Shown(images=tuple(files.find(name, at) for name in question.media))

    def content(self) -> str:
        """SHA-256 over the digests of the files."""
        return sha256("\n".join(digest(file) for file in self.files).encode()).hexdigest()

    def remarks(self) -> list[str]:
        """What was said when the files were chosen, and how many rows had an id again."""
        if self._dropped:
            return [
                *self.said,
                f"{self.file}: {self._dropped:,} rows have an id that was there already; they are left out",
            ]
        return list(self.said)


def _rows(file: Path) -> Iterator[tuple[int, Row | DataError, tuple[Blob, ...]]]:
    """(number from 1, row without its pictures, the pictures of its cells in order)."""
    if file.suffix.lower() != ".parquet":
        for number, row in salvaged(file):
            yield number, row, ()
        return
    for number, row, counts in pictured_rows(file):
        cells: list[Blob] = []
        for column, count in counts.items():
            items = range(count) if count >= 0 else (-1,)
            cells += [ParquetCell(file, number - 1, column, item) for item in items]
        yield number, row, tuple(cells)
