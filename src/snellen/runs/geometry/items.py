"""Sizes of items from a file of the user: sample id, attribute, and level in the attribute's unit."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

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
