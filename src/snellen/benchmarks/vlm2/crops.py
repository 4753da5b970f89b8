"""Boxes that a detector found, and images cut to them.

Which detector is the user's choice; `snellen build boxes` runs one before the run. Coordinates are pixels of the upright
image (Exif orientation applied), x0, y0 at the upper left and x1, y1 at the lower right, the latter not included.
"""

from __future__ import annotations

import difflib
import math
import posixpath
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks.vlm2.dot_grid import upright, written
from snellen.errors import DataError, UsageError
from snellen.sources.blobs import Drawn, Unreadable
from snellen.sources.rows import numbered
from snellen.types import Blob

CORNERS = ("x0", "y0", "x1", "y1")


class Box(Struct, frozen=True):
    """A rectangle in pixels of the upright image; `where` is the line or row of the file in which it stands."""

    x0: float
    y0: float
    x1: float
    y1: float
    where: str = ""


class Boxes(Struct, frozen=True):
    """One box an image, by the image's path as the questions give it; `file` is where they were read."""

    file: str
    by_image: Mapping[str, Box]

    def crop(self, blob: Blob, name: str, margin: float) -> Blob:
        """Return the part of an image that its box encloses, cut when it is read.

        Args:
            blob: the image.
            name: its path as the question's row gives it.
            margin: kept on each side, as a fraction of the box's width (left, right) and height (above, below).

        Returns:
            A blob whose `read` raises DataError where the image has no box, or its box does not lie in the image.
        """
        box = self.by_image.get(plain(name))
        if box is None:
            similar = difflib.get_close_matches(plain(name), self.by_image, 1)
            return Unreadable(
                f"{blob.key}#no-box",
                f"{self.file}: no box for the image {name}"
                + (f"; the nearest name in it is {similar[0]}" if similar else ""),
                "Add its box, under the path that the question file gives.",
            )
        corners = ",".join(f"{value!r}" for value in (box.x0, box.y0, box.x1, box.y1))
        key = f"{blob.key}#crop={corners}&margin={margin!r}"
        return Drawn(key, partial(_cut, blob, box, margin, f"{self.file}, {box.where}"))

    def notices(self, names: Iterable[str]) -> list[str]:
        """Return warnings: boxes for images that no question shows, images without a box."""
        images = {plain(name) for name in names}
        unknown, missing = sorted(self.by_image.keys() - images), sorted(images - self.by_image.keys())
        lines = []
        if unknown:
            lines.append(
                f"{self.file}: {len(unknown):,} of {len(self.by_image):,} images in it are shown by no question "
                f"(the first is {unknown[0]})"
            )
        if missing:
            lines.append(
                f"{self.file}: {len(missing):,} of {len(images):,} images have no box; their questions fail "
                f"(the first is {missing[0]})"
            )
        return lines


def plain(name: str) -> str:
    """Return an image's path in one spelling: forward slashes, no `./`."""
    return posixpath.normpath(name.strip().replace("\\", "/"))


def margin_of(options: Mapping[str, str]) -> float:
    """`-o crop-margin`. Raises UsageError."""
    text = options.get("crop-margin", "0")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 10:
        raise UsageError(
            f"crop-margin={text!r}: a fraction of the box's sides from 0 to 10 was expected",
            "0.1 keeps a tenth of the box's width on its left and right, and of its height above and below.",
        )
    return value + 0.0


def read_boxes(path: Path) -> Boxes:
    """Return the boxes of a file whose rows have `image`, and `box` (x0, y0, x1, y1) or columns of these names.

    Of several boxes for an image the one with the highest `score` counts, else the first.

    Raises:
        DataError: the file cannot be read, is empty, or a row has no image or no box; names the line of the first such
            row and how many there are.
    """
    best: dict[str, tuple[float, Box]] = {}
    faults: list[str] = []
    unit = "line" if path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv") else "row"
    for line, row in numbered(path):
        where = f"{unit} {line:,}"
        try:
            name, box, score = _row(row, where)
        except ValueError as fault:
            faults.append(f"{path}, {where}: {fault}")
            continue
        if name not in best or score > best[name][0]:
            best[name] = score, box
    if faults:
        others = f"; {len(faults) - 1:,} more rows are at fault" if len(faults) > 1 else ""
        raise DataError(
            faults[0] + others,
            "A row is {image, box: [x0, y0, x1, y1]} or has columns x0 to y1: pixels of the upright picture, "
            "x0 < x1 and y0 < y1.",
        )
    if not best:
        raise DataError(f"{path}: no boxes were found", "Give the file that the detector's boxes were written to.")
    return Boxes(str(path), {name: box for name, (_, box) in best.items()})


def _row(row: Mapping[str, Any], where: str) -> tuple[str, Box, float]:
    """(image, box, score) of a row; a row without a score has the lowest. Raises ValueError, which says what is wrong."""
    name = row.get("image")
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"image is {name!r}; the path of an image was expected")
    box = row.get("box")
    if box is None:
        missing = [corner for corner in CORNERS if row.get(corner) in (None, "")]
        if missing:
            raise ValueError(f"neither box nor {', '.join(missing)}")
        box = [row[corner] for corner in CORNERS]
    if isinstance(box, str):
        try:
            box = msgspec.json.decode(box)
        except (msgspec.DecodeError, RecursionError):
            raise ValueError(f"box is {box!r}; [x0, y0, x1, y1] was expected") from None
    if not isinstance(box, list) or len(box) != len(CORNERS):
        raise ValueError(f"box is {box!r}; four numbers, x0, y0, x1, y1, were expected")
    x0, y0, x1, y1 = (_number(value, corner) for value, corner in zip(box, CORNERS, strict=True))
    if x1 <= x0 or y1 <= y0:
        raise ValueError(
            f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} is empty; corners were expected, not width and height"
        )
    if max(map(abs, (x0, y0, x1, y1))) <= 1:
        raise ValueError(
            f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} lies in one pixel; pixels were expected, not fractions"
        )
    score = row.get("score")
    return plain(name), Box(x0, y0, x1, y1, where), -math.inf if score in (None, "") else _number(score, "score")


def _number(value: Any, label: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{label} is {value!r}; a finite number was expected")
    return number


def clipped(box: Box, margin: float, width: int, height: int) -> tuple[int, int, int, int]:
    """Return the whole pixels that a box with its margin touches, within an image of this size.

    Returns:
        (left, upper, right, lower), right and lower not included, at least one pixel each way.

    Raises:
        ValueError: less than half of the box (without margin) lies in the image: it belongs to another one, or to
            this one at another size.
    """
    wide, high = box.x1 - box.x0, box.y1 - box.y0
    inside = (
        max(0.0, min(box.x1, width) - max(box.x0, 0.0))
        / wide
        * (max(0.0, min(box.y1, height) - max(box.y0, 0.0)) / high)
    )
    if inside < 0.5:
        raise ValueError(f"{inside:.0%} of the box lies inside")
    left = max(0, math.floor(box.x0 - margin * wide))
    upper = max(0, math.floor(box.y0 - margin * high))
    right = min(width, math.ceil(box.x1 + margin * wide))
    lower = min(height, math.ceil(box.y1 + margin * high))
    return left, upper, right, lower


def _cut(blob: Blob, box: Box, margin: float, where: str) -> bytes:
    picture, jpeg = upright(blob)
    try:
        corners = clipped(box, margin, *picture.size)
    except ValueError as error:
        raise DataError(
            f"{where}: the box {box.x0:g}, {box.y0:g}, {box.x1:g}, {box.y1:g} is not one of image {blob.key}, which "
            f"is {picture.width} x {picture.height} pixels upright: {error}",
            "Give boxes in pixels of the original file with its Exif orientation applied.",
        ) from error
    return written(picture.crop(corners), jpeg)
