"""Sizes of birds and of their heads in CUB-200-2011, from its own text files.

`images.txt` names the images, `bounding_boxes.txt` has a box of each bird, and `parts/part_locs.txt` has points of 15 parts
(`parts/parts.txt`). Parts are points and not boxes, so that a head is the box around its visible points.
Source: Wah et al. 2011, The Caltech-UCSD Birds-200-2011 Dataset, README.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from snellen.errors import DataError
from snellen.runs.geometry.items import LARGEST, ItemGeometry, ItemLevel

CubPart: TypeAlias = Literal["bird", "head"]
HEAD = ("beak", "crown", "forehead", "left eye", "right eye", "nape", "throat")
LEAST_POINTS = 3
"""Visible points that a head needs: two may lie on one line with its edge."""
GAPS = 5.0
"""Gaps across a figure that is just recognised, as across a Landolt ring."""


def read_cub(folder: Path, part: CubPart, images: Mapping[str, str]) -> ItemGeometry:
    """Return the gap that corresponds to each item's bird or head: the longer side of its box / 5, in pixels of the file.

    Args:
        folder: CUB_200_2011, or the folder of its text files.
        part: bird: the bounding box; head: the box around at least three visible points of beak, crown, forehead, eyes, nape and
            throat.
        images: sample id to the path of its image, of which the file name counts; names are unique in CUB.

    Raises:
        DataError: a file is missing or damaged, or no image of the run is in it.
    """
    names = {PurePosixPath(name).name: number for number, name in _two_columns(folder / "images.txt")}
    sizes = _birds(folder) if part == "bird" else _heads(folder)
    numbers = {sample: names.get(PurePosixPath(path).name) for sample, path in images.items()}
    matched = {sample: number for sample, number in numbers.items() if number is not None}
    if not matched:
        raise DataError(
            f"no image of the run is in {folder / 'images.txt'}",
            "Name the folder of the data set that was asked about.",
        )
    levels = [
        ItemLevel(sample, "gap", sizes[number] / GAPS) for sample, number in matched.items() if number in sizes
    ]  # fmt: skip
    notes = []
    if lacking := len(images) - len(matched):
        notes.append(f"{lacking:,} samples show an image that {folder / 'images.txt'} does not name")
    if lacking := len(matched) - len(levels):
        notes.append(f"{lacking:,} samples have no {part} of known size")
    return ItemGeometry(levels, f"{part} of {folder}: longer side / 5", notes)


def _birds(folder: Path) -> dict[str, float]:
    """Return the longer side of each bounding box: image number, x, y, width, height."""
    sizes = {}
    for line, words in _lines(folder / "bounding_boxes.txt", 5):
        _, _, width, height = _numbers(folder / "bounding_boxes.txt", line, words[1:])
        if max(width, height) > 0:
            sizes[words[0]] = max(width, height)
    return sizes


def _heads(folder: Path) -> dict[str, float]:
    """Return the longer side of the box around the visible points of each head: image, part, x, y, visible."""
    parts = folder / "parts" / "parts.txt"
    heads = {number for number, name in _two_columns(parts) if name in HEAD}
    if not heads:
        raise DataError(f"{parts} names no part of a head", f"Expected among others: {', '.join(HEAD)}.")
    file = folder / "parts" / "part_locs.txt"
    points: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for line, words in _lines(file, 5):
        x, y, visible = _numbers(file, line, words[2:])
        if words[1] in heads and visible == 1.0:
            points[words[0]].append((x, y))
    sizes = {}
    for number, places in points.items():
        size = max(max(column) - min(column) for column in zip(*places, strict=True))
        if len(places) >= LEAST_POINTS and size > 0:
            sizes[number] = size
    return sizes


def _two_columns(path: Path) -> list[tuple[str, str]]:
    pairs = []
    for _, words in _lines(path, None):
        pairs.append((words[0], " ".join(words[1:])))
    return pairs


def _lines(path: Path, columns: int | None) -> Iterator[tuple[int, list[str]]]:
    """Yield number and words of each line that is not empty. Raises DataError, also for another number of columns."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            for line, text in enumerate(stream, 1):
                words = text.split()
                if not words:
                    continue
                if (columns is not None and len(words) != columns) or len(words) < 2:
                    expected = columns if columns is not None else "2 or more"
                    raise DataError(f"{path}, line {line}: found {len(words)} columns; expected {expected}")
                yield line, words
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}", "Name the folder that holds images.txt, such as CUB_200_2011."
        ) from error


def _numbers(path: Path, line: int, words: Iterable[str]) -> list[float]:
    values = []
    for word in words:
        try:
            value = float(word)
        except ValueError:
            value = float("nan")
        if not isfinite(value) or abs(value) > LARGEST:
            raise DataError(f"{path}, line {line}: found {word!r}; a number was expected")
        values.append(value)
    return values
