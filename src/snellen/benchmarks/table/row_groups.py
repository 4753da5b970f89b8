"""Groups of the rows of a declared table, from a pass over the file before its samples are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from snellen.benchmarks.table.declaration import Declaration
from snellen.benchmarks.table.meta import group_columns, group_meta
from snellen.benchmarks.table.operations import columns_of, value
from snellen.benchmarks.table.rows import Rows


def groups_by_row(declared: Declaration, open_table: Callable[[], Rows]) -> dict[int, dict[str, str]]:
    """Return the groups of each row by its number, as meta; rows that are dropped for want of an image are in none.

    Raises:
        DataError: rows form no groups of the declared size.
    """
    if not declared.group:
        return {}
    needed = {column for name in group_columns(declared) for column in columns_of(declared.rows.get(name, name))}
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, (_, row) in enumerate(open_table().rows):
        cells: Mapping[str, Any] = row if isinstance(row, dict) else {}
        if declared.without_image == "drop" and isinstance(row, dict) and not _has_image(declared, row, number):
            continue
        rows.append({column: cells.get(column) for column in needed})
        numbers.append(number)
    return dict(zip(numbers, group_meta(declared, rows), strict=True))


def _has_image(declared: Declaration, row: Mapping[str, Any], number: int) -> bool:
    spec = declared.rows.get("image")
    if spec is None:
        return True
    cell = value(spec, row, number)
    if spec == "image" and cell in (None, "", (), []):
        cell = row.get("image_path")
    return cell not in (None, "", (), [])
