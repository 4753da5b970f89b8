"""VLMEvalKit's table of the image subtasks, `VLM2Bench_img.tsv`: 1 GB of images in base64, read in place.

Columns: `index` (`<subtask>_<n>`, of pairs with `_p` or `_n` behind), `question`, `answer`, `category` (the subtask) and
`image`; or, where the kit has put the images into files, `image_path`, a list of paths. How such tables are read is
`snellen.sources.vlmevalkit_tsv`'s; the file is gone through once a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from snellen.benchmarks.vlm2.layout import BY_NAME, SUBTASKS, Subtask
from snellen.errors import DataError
from snellen.sources import vlmevalkit_tsv
from snellen.sources.encodings import Row
from snellen.sources.locator import Pictures
from snellen.sources.safe_paths import regular_file
from snellen.sources.vlmevalkit_tsv import VLMEvalKitRow, list_elements
from snellen.types import Blob

NEEDED = ("index", "question", "answer", "category")


@dataclass(frozen=True)
class SubtaskTable:
    """The table without its images: rows by subtask in the order of the file, by first line, and by index."""

    path: Path
    header: tuple[str, ...]
    by_subtask: dict[str, list[VLMEvalKitRow]] = field(default_factory=dict)
    by_line: dict[int, VLMEvalKitRow] = field(default_factory=dict)
    by_index: dict[str, VLMEvalKitRow] = field(default_factory=dict)
    strangers: dict[str, int] = field(default_factory=dict)


def table(path: Path) -> SubtaskTable:
    """Return the table at `path`, gone through once a process as long as the file stays the same.

    Raises:
        DataError: it cannot be opened, is empty, or lacks a column. A row that cannot be read is kept as the reason.
    """
    status = regular_file(path)
    return _gone_through(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _gone_through(path: Path, changed: int, size: int) -> SubtaskTable:
    opened = vlmevalkit_tsv.open_table(path, NEEDED, ("image", "image_path"))
    made = SubtaskTable(path, opened.header)
    lost: list[VLMEvalKitRow] = []
    before = ""
    for row in opened.rows:
        if isinstance(row.cells, DataError):
            # The line's own beginning says which subtask it belonged to, else the row before it does.
            before = _subtask_of(vlmevalkit_tsv.beginning(path, row.place)) or before
            if not before:
                lost.append(row)
                continue
        else:
            category = row.cells["category"].strip().replace("_", "-")
            if category not in BY_NAME:
                made.strangers[category] = made.strangers.get(category, 0) + 1
                continue
            before = category
            made.by_index.setdefault(row.cells["index"], row)
        made.by_subtask.setdefault(before, []).append(row)
        made.by_line[row.place.line] = row
    if lost:
        first = next(iter(made.by_subtask), SUBTASKS[0].name)
        made.by_subtask[first] = lost + made.by_subtask.get(first, [])
        made.by_line.update({row.place.line: row for row in lost})
    return made


def rows(subtask: Subtask, path: Path) -> Iterator[tuple[int, Row | DataError]]:
    """(line, row) of a subtask, each row with the fields of the authors' question files.

    `q_id` is the index without the subtask in front of it, and for gc without the half behind it: the two questions of
    a pair carry one q_id there. `images` has a name for each image, `image_seq_len` how many there are.
    """
    questions = table(path)
    for row in questions.by_subtask.get(subtask.name, ()):
        if isinstance(row.cells, DataError):
            yield row.place.line, row.cells
            continue
        cells = row.cells
        names = _names(questions, row)
        length = cells.get("image_seq_len", "")
        yield (
            row.place.line,
            {
                **{name: cell for name, cell in cells.items() if name not in (*NEEDED, "image_path")},
                "index": cells["index"],
                "q_id": q_id(subtask, cells["index"]),
                "question": cells["question"],
                "gt_answer": gold(subtask, cells["answer"]),
                "images": names,
                "image_seq_len": int(length) if length.isascii() and length.isdigit() else len(names),
            },
        )


def shown(path: Path, line: int, files: Pictures) -> list[Blob]:
    """Return the images of the row that begins in a line, to be read when needed; paths are looked for in `files`."""
    questions = table(path)
    at = f"{path}, line {line:,}"
    row = questions.by_line[line]
    own = vlmevalkit_tsv.row_with_images(row, questions.by_index)
    if own is None:
        return [vlmevalkit_tsv.missing_images(row, at)]
    if paths := _paths(own):
        return [vlmevalkit_tsv.by_end_of_path(name, at, files.find) for name in paths]
    return vlmevalkit_tsv.own_images(path, questions.header, own)


def remarks(subtask: Subtask, path: Path) -> list[str]:
    """Return warnings about the table: rows of unknown categories; that it has no videos."""
    lines = [
        f"{path}: rows of the unknown category {name!r}: {count:,}" for name, count in table(path).strangers.items()
    ]
    if subtask.family == "video" and subtask.name not in table(path).by_subtask:
        lines.append(f"{path}: VLMEvalKit's table has no videos; give the official zip for {subtask.name}")
    return lines


def _paths(row: VLMEvalKitRow) -> list[str]:
    """Return the paths of images that lie in files."""
    return [] if row.filled or isinstance(row.cells, DataError) else list_elements(row.cells.get("image_path", ""))


def _names(questions: SubtaskTable, row: VLMEvalKitRow) -> list[str]:
    own = vlmevalkit_tsv.row_with_images(row, questions.by_index)
    if own is None or isinstance(own.cells, DataError):
        return [row.reference]
    return _paths(own) or [f"{own.cells['index']}_{number}.jpg" for number in range(1, own.image_count + 1)]


def q_id(subtask: Subtask, index: str) -> str:
    """Return the authors' q_id for an index of the kit's."""
    name = index.removeprefix(f"{subtask.name}_").removeprefix(subtask.name.replace("-", "_") + "_")
    return name.rpartition("_")[0] if subtask.cue == "gc" and "_" in name else name


def gold(subtask: Subtask, answer: str) -> Any:
    """Return the gold answer that the kit writes as text, in the type that the authors' files have."""
    whole = answer.strip().removesuffix(".0")  # a column of numbers with a gap in it is written as 3.0
    if subtask.family == "count" and whole.isascii() and whole.isdigit():
        return int(whole)
    return answer


def _subtask_of(text: str) -> str:
    return next((name for name in BY_NAME if text.startswith((f"{name}_", name.replace("-", "_") + "_"))), "")
