"""Meta of samples from the rows of a table: declared values, and the groups that a row is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snellen.benchmarks.table.declaration import OWN_NAMES, Cell, CellSpec, Declaration
from snellen.benchmarks.table.groups import column_name, columns_needed, group_keys
from snellen.benchmarks.table.operations import cell_reader, columns_of, text_of, value
from snellen.benchmarks.table.rows import Rows


def separator(spec: CellSpec) -> str:
    """Return what stands between the elements of a list in meta: the declared one where rows are repeated or slices overlap."""
    return spec.split if isinstance(spec, Cell) and (spec.repeat_row or spec.each) and spec.split else ", "


def values_reader(declared: Declaration) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
    """Return what reads the declared values of a row that become meta, lists joined for columns whose rows are repeated.

    It raises CellError where an operation does not fit a cell.
    """
    columns = [(name, cell_reader(spec), spec) for name, spec in declared.rows.items() if name not in OWN_NAMES]

    def read(row: Mapping[str, Any], number: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, cell_of, spec in columns:
            cell = cell_of(row, number)
            if isinstance(cell, list):
                cell = separator(spec).join(map(text_of, cell))
            if cell is not None:
                values[name] = text_of(cell)
        return values

    return read


def group_meta(declared: Declaration, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return for each row the keys of its groups, by the names of their meta columns.

    Args:
        declared: the declaration.
        rows: the rows in the order of the file; of each only the columns that the groups are made from are read.

    Raises:
        DataError: rows form no groups of the declared size, or a cell does not fit its operation.
    """

    def cells(name: str) -> list[Any]:
        spec = declared.rows.get(name, name)
        return [value(spec, row, number) for number, row in enumerate(rows)]

    keys = group_keys(declared.group, cells, len(rows))
    return [
        {column_name(name): keys[name][number] for name in keys if keys[name][number]} for number in range(len(rows))
    ]


def group_columns(declared: Declaration) -> set[str]:
    """Return the names of the values that groups are made from; empty without groups."""
    return columns_needed(declared.group)


def row_meta(declared: Declaration, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the meta of every row: its declared values and its groups."""
    groups = group_meta(declared, rows) if declared.group else [{} for _ in rows]
    read = values_reader(declared)
    return [read(row, number) | groups[number] for number, row in enumerate(rows)]


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
