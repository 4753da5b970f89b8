"""The authors' files (or lmms-eval's copies) as a source: parquet with images in cells, or JSON rows with paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import structs

from snellen.benchmarks.spatial.question import VIDEOS, ShownMedia, SpatialQuestion
from snellen.benchmarks.spatial.scorers.points import Mask
from snellen.benchmarks.spatial.sources.find_files import MediaFiles
from snellen.benchmarks.spatial.sources.rows import FILE, Row
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError
from snellen.sources import Base64Blob, Unreadable, digest, salvaged
from snellen.sources.parquet_images import ParquetCell, columns, rows_with_images
from snellen.types import Blob

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
LINED = (".jsonl", ".ndjson")
_PICTURES = re.compile(r"images?|image_\d+|visual|ref_images")
LEAST_BASE64 = 64


@dataclass
class OfficialFiles:
    """Questions of one benchmark in one or more files of rows, counted on from file to file.

    Attributes:
        task, part: the benchmark; image or video for a half of SITE.
        path: what the user gave.
        files: the files, or one member of an archive, in order.
        media: the root of the paths in the rows.
        choice_remarks: remarks from when the files were chosen.
    """

    task: Task
    part: str
    path: Path
    files: tuple[Path | Blob, ...]
    media: Path
    choice_remarks: tuple[str, ...] = ()
    _last: tuple[int, str, tuple[Blob, ...]] = (-1, "", ())
    _dropped: int = 0
    _media_files: MediaFiles | None = field(default=None)

    @property
    def file(self) -> str:
        """The name in messages: the file, or the folder of several."""
        return _name(self.files[0]) if len(self.files) == 1 else str(self.path)

    def questions(self) -> Iterator[tuple[str, SpatialQuestion | DataError]]:
        """(place, question), rows of an id that was there already left out where ids are the set's own."""
        at = -1
        ids: set[str] = set()
        self._dropped = 0
        for file in self.files:
            for number, row, cells, masks in _rows(file, self.task):
                place = f"{'line' if _name(file).endswith(LINED) else 'row'} {number:,}"
                if len(self.files) > 1:
                    place = f"{Path(_name(file)).name}, {place}"
                if isinstance(row, DataError):
                    at += 1
                    yield place, row
                    continue
                if self.task.declared.source.without and self._pruned(row, file):
                    continue
                at += 1
                try:
                    known = row if self.task.in_payload else {**row, FILE: self._inner_name(file)}
                    question = self._with_mask(question_of(self.task, "official", known, at), masks, place)
                except DataError as error:
                    yield place, DataError(f"{self.file}, {place}: {error.message}", error.hint or "Check --data.")
                    continue
                if question.media and _other_half(self.part, question.media[0]):
                    other = "video" if self.part == "image" else "image"
                    why = f"{self.file}, {place}: {question.media[0][:200]!r} is for site/{other}, not site/{self.part}"
                    yield place, DataError(why, f"Give the folder with both halves, or the file of the {self.part}s.")
                    continue
                if self.task.columns["official"].unique_ids:
                    if question.id in ids:
                        self._dropped += 1
                        continue
                    ids.add(question.id)
                self._last = (at, place, cells)
                yield place, question

    def _pruned(self, row: Row, file: Path | Blob) -> bool:
        """Return True if VSI-Debiased leaves a row out: one of the whole set that says so.

        Raises:
            DataError: nothing says so, in a file that is not called debiased.
        """
        if isinstance(pruned := row.get(self.task.declared.source.without), bool):
            return pruned
        if "debiased" in _name(file).rpartition("/")[2]:
            return False
        hint = "Give test_debiased.parquet, or a file of the whole set with its column `pruned`."
        raise DataError(f"{_name(file)}: no column `pruned` says which rows are of the debiased set", hint)

    def _inner_name(self, file: Path | Blob) -> str:
        """Return a file's name with the folders below what the user gave, or with its own folder."""
        if not isinstance(file, Path):
            return file.key.rpartition("!")[2]
        if file.is_relative_to(self.path) and file != self.path:
            return file.relative_to(self.path.parent).as_posix()
        return f"{file.absolute().parent.name}/{file.name}"

    def _with_mask(self, question: SpatialQuestion, masks: tuple[Blob | None, ...], place: str) -> SpatialQuestion:
        """Return a question with the mask that its answer is scored by, of its cell or of a file; None where its cell is
        empty.
        """
        if masks:
            mask = None if masks[0] is None else Mask(masks[0])
            return structs.replace(question, scoring={**question.scoring, "mask": mask})
        if question.masks:
            blob = self._files().find(question.masks[0], f"{self.file}, {place}")
            return structs.replace(question, scoring={**question.scoring, "mask": Mask(blob)})
        return question

    def _files(self) -> MediaFiles:
        if self._media_files is None:
            self._media_files = MediaFiles(self.media, by_name=not self.task.in_payload)
        return self._media_files

    def shown(self, question: SpatialQuestion) -> ShownMedia:
        """Return the media of the last question: images of cells, else files by their paths."""
        row, place, cells = self._last if self._last[0] == question.row else (question.row, "", ())
        self._last = (-1, "", ())
        at = f"{self.file}, {place or f'row {row + 1:,}'}"
        files = self._files()
        images = cells or tuple(files.find(name, at) for name in question.media)
        if question.segments:
            clips = tuple(tuple(files.find(name, at) for name in clip) for clip in question.segments)
            return ShownMedia(images, None, clips)
        if not images:
            return ShownMedia(images=(_nothing(at),))
        if not cells and (self.part == "video" or (len(images) == 1 and images[0].key.lower().endswith(VIDEOS))):
            return ShownMedia(video=images[0])
        return ShownMedia(images=images)

    def content(self) -> str:
        """SHA-256 over the digests of the files."""
        digests = [
            digest(file) if isinstance(file, Path) else f"sha256:{sha256(file.read()).hexdigest()}"
            for file in self.files
        ]
        return sha256("\n".join(digests).encode()).hexdigest()

    def remarks(self) -> list[str]:
        """Return remarks: on the choice of files, on rows with a repeated id, on archives that cannot be opened."""
        lines = list(self.choice_remarks)
        if self._dropped:
            lines.append(f"{self.file}: {self._dropped:,} rows have an id that was there already; they are left out")
        return lines + (self._media_files.faults if self._media_files is not None else [])


def _other_half(part: str, name: str) -> bool:
    """Return True if a row of SITE is of the other half, as where one half's file is given for both."""
    other = {"image": VIDEOS, "video": IMAGES}.get(part, ())
    return name.lower().endswith(other)


def _name(file: Path | Blob) -> str:
    return str(file) if isinstance(file, Path) else file.key


def _nothing(at: str) -> Unreadable:
    """Asked without its image a question would be another one."""
    hint = "Check that the file is complete: its rows have images, or paths of files."
    return Unreadable(f"{at}: nothing to show", f"{at}: the row has no picture and names none", hint)


def _rows(
    file: Path | Blob, task: Task
) -> Iterator[tuple[int, Row | DataError, tuple[Blob, ...], tuple[Blob | None, ...]]]:
    """(number from 1, row without its images, the images of its cells in order, its mask)."""
    if not isinstance(file, Path) or file.suffix.lower() != ".parquet":
        each = task.declared.source.each
        for number, row in salvaged(file, each=[each] if each else []):
            if isinstance(row, DataError):
                yield number, row, (), ()
                continue
            texts = {column: row.pop(column) for column in _written(row)}
            written = [
                Base64Blob(f"{_name(file)}, row {number:,}, {column}", text)
                for column, value in texts.items()
                for text in (value if isinstance(value, list) else [value])
            ]
            yield number, row, tuple(written), ()
        return
    number = 0
    masked = not task.in_payload and "mask" in columns(file)
    rows = rows_with_images(file)
    while True:
        try:
            number, parsed_row, counts = next(rows)
        except StopIteration:
            return
        except DataError as error:
            if not number:
                raise
            yield number + 1, error, (), ()
            return
        masks = (ParquetCell(file, number - 1, "mask") if "mask" in counts else None,) if masked else ()
        if task.declared.source.pictures:
            named = {column: counts[column] for column in task.declared.source.pictures if column in counts}
        else:
            named = {column: count for column, count in counts.items() if _PICTURES.fullmatch(column)} or counts
        for column in _written(parsed_row):
            value = parsed_row.pop(column)
            named[column] = len(value) if isinstance(value, list) else -1
        cells: list[Blob] = []
        for column, count in named.items():
            items = range(count) if count >= 0 else (-1,)
            cells += [ParquetCell(file, number - 1, column, item) for item in items]
        yield number, parsed_row, tuple(cells), masks


def _written(row: Mapping[str, Any]) -> list[str]:
    """Return the columns whose images stand as base64; a path has a dot, which base64 has not."""
    return [column for column, value in row.items() if _PICTURES.fullmatch(column) and _is_base64(value)]


def _is_base64(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_base64(item) for item in value)
    if not isinstance(value, str):
        return False
    return value.startswith("data:image/") or (len(value) >= LEAST_BASE64 and "." not in value[:4096])
