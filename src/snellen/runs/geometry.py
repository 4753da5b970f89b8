"""Sizes of items from a file of the user: sample id, attribute, and level in the attribute's unit.

Sizes of birds and of their heads in CUB-200-2011, from its own text files.
`images.txt` names the images, `bounding_boxes.txt` has a box of each bird, and `parts/part_locs.txt` has points of 15 parts
(`parts/parts.txt`). Parts are points and not boxes, so that a head is the box around its visible points.
Source: Wah et al. 2011, The Caltech-UCSD Birds-200-2011 Dataset, README.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.acuity.drawing import difference, lab_of
from snellen.errors import DataError
from snellen.sources.rows import numbered
from snellen.text import shorten

COLUMNS = ("sample_id", "attribute", "level")
LARGEST = 1e9
"""Levels and sides above this are mistakes."""


class ItemLevel(Struct, frozen=True):
    """One decisive part of one item.

    Attributes:
        sample_id: of the run's sample.
        attribute: condition of acuity, such as `gap`, `contrast@8`, or with a side `gap@512`.
        level: in the attribute's unit; pixels are those of the picture file.
        width, height: of the picture file in pixels; None: unknown.
    """

    sample_id: str
    attribute: str
    level: float
    width: int | None = None
    height: int | None = None


class ItemGeometry(Struct, frozen=True):
    """Levels of items, what made them, and what a reader must know."""

    levels: Sequence[ItemLevel]
    source: str
    notes: Sequence[str] = ()


def read_items(path: Path) -> ItemGeometry:
    """Read a CSV, TSV, JSONL, JSON, Parquet or Excel file with the columns sample_id, attribute and level.

    The columns width and height are optional: of the picture in which pixels were counted. A sample may have several rows, one an
    attribute; equal rows count once.

    Raises:
        DataError: the file cannot be read, a value is no positive number, or two rows contradict each other; with the line.
    """
    levels: dict[tuple[str, str], ItemLevel] = {}
    for line, row in numbered(path):
        missing = [column for column in COLUMNS if row.get(column) in (None, "")]
        if missing:
            raise DataError(
                f"{path}, line {line}: no {missing[0]}", f"Each row needs the columns {', '.join(COLUMNS)}."
            )
        item_level = ItemLevel(
            str(row["sample_id"]),
            str(row["attribute"]).strip(),
            _positive(path, line, "level", row["level"]),
            _pixels(path, line, "width", row.get("width")),
            _pixels(path, line, "height", row.get("height")),
        )
        if (item_level.width is None) != (item_level.height is None):
            raise DataError(f"{path}, line {line}: width and height belong together", "Give both, or neither.")
        place = item_level.sample_id, item_level.attribute
        if levels.setdefault(place, item_level) != item_level:
            raise DataError(
                f"{path}, line {line}: {item_level.sample_id!r} has two levels of {item_level.attribute}",
                "Keep the level of the part that decides the answer.",
            )
    if not levels:
        raise DataError(f"{path} has no row", f"Each row needs the columns {', '.join(COLUMNS)}.")
    return ItemGeometry(list(levels.values()), str(path))


def _positive(path: Path, line: int, name: str, value: Any) -> float:
    try:
        parsed = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        parsed = float("nan")
    if not isfinite(parsed) or not 0.0 < parsed <= LARGEST:
        raise DataError(
            f"{path}, line {line}: {name} is {shorten(repr(value), 60)}; a number above 0, at most {LARGEST:g}, was expected"
        )
    return parsed


def _pixels(path: Path, line: int, name: str, value: Any) -> int | None:
    if value in (None, ""):
        return None
    parsed = _positive(path, line, name, value)
    if parsed != int(parsed):
        raise DataError(f"{path}, line {line}: {name} is {value!r}; a whole number of pixels was expected")
    return int(parsed)


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


CHANGED = 24
"""Code values by which a channel must differ: less is what JPEG does to equal regions."""
TRIM = 1.0
"""Per cent of the changed pixels that lie outside the region's box on each side, as scattered noise."""
LEAST_PIXELS = 9
SAMPLED = 300
"""Changed pixels whose colours are compared."""
AXES = (("L-", "L+"), ("a-", "a+"), ("b-", "b+"))


def differing_region(
    sample_id: str, first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[Sequence[ItemLevel], str]:
    """Return the levels of a pair, and why there are none; one of both is empty.

    `gap` is the longer side of the region / 5. `colour@DIRECTION` is the median CIEDE2000 of its pixels; the direction is the
    axis of CIELAB along which the mean colours differ most.

    Args:
        first, second: [height, width, 3] code values.
    """
    if first.shape != second.shape:
        return (), "pictures of two sizes"
    changed = np.abs(first.astype(np.int16) - second.astype(np.int16)).max(axis=2) >= CHANGED
    rows, columns = np.nonzero(changed)
    if len(rows) < LEAST_PIXELS:
        return (), "pictures that hardly differ"
    ends = [np.percentile(places, [TRIM, 100 - TRIM]) for places in (rows, columns)]
    side = max(float(high - low) + 1.0 for low, high in ends)
    chosen = np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(int)
    labs = [
        [lab_of((float(r), float(g), float(b))) for r, g, b in picture[rows[chosen], columns[chosen]]]
        for picture in (first, second)
    ]
    shift = np.asarray(labs[1]).mean(axis=0) - np.asarray(labs[0]).mean(axis=0)
    axis = int(np.abs(shift).argmax())
    size = float(np.median([difference(a, b) for a, b in zip(*labs, strict=True)]))
    height, width = changed.shape
    levels = [ItemLevel(sample_id, "gap", side / GAPS, width, height)]
    if size > 0:
        levels.append(ItemLevel(sample_id, f"colour@{AXES[axis][int(shift[axis] > 0)]}", size, width, height))
    return levels, ""
