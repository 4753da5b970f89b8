"""Meta of samples from the rows of a table: declared values, and groups of rows, such as the two questions of a pair or the rolls of a circular question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snellen.benchmarks.table.declaration import OWN_NAMES, Cell, CellSpec, Declaration, Group
from snellen.benchmarks.table.operations import cell_reader, columns_of, text_of, value
from snellen.benchmarks.table.rows import Rows
from snellen.errors import DataError

PREFIX = "in "
"""Name of the meta column of a group: `in pair`."""

Lookup = Callable[[str], Sequence[Any]]
"""Name of a declared value or column to its cells, one a row, in the order of the file."""


def column_name(group: str) -> str:
    """Return the name of the meta column that holds the keys of a group."""
    return PREFIX + group


def columns_needed(groups: Mapping[str, tuple[str, ...] | Group]) -> set[str]:
    """Return the names of the values that the groups are made from."""
    names: set[str] = set()
    for group in groups.values():
        names.update(group if isinstance(group, tuple) else filter(None, (group.order, group.same)))
    return names


def group_keys(groups: Mapping[str, tuple[str, ...] | Group], cells: Lookup, rows: int) -> dict[str, list[str]]:
    """Return the key of every row in every group; "" for a row that is in none.

    Args:
        rows: how many rows there are.

    Raises:
        DataError: the rows of a group of a fixed size do not agree in the column that must be equal.
    """
    names: dict[str, list[str]] = {}
    positions: dict[str, list[int]] = {}
    pending = dict(groups)
    while pending:
        ready = [name for name, group in pending.items() if isinstance(group, tuple) or group.of not in pending]
        if not ready:
            raise DataError(f"[group] {', '.join(pending)}: each is part of another; one must be a list of columns")
        for name in ready:
            group = pending.pop(name)
            if isinstance(group, tuple):
                names[name] = _by_columns(group, cells, rows)
                positions[name] = _positions(names[name])
            elif group.of:
                names[name] = _parts(group, names[group.of], positions[group.of])
                positions[name] = _positions(names[name])
            else:
                names[name], positions[name] = _in_order(name, group, cells, rows)
    return {name: _with_sizes(groups[name], keys) for name, keys in names.items()}


def _by_columns(columns: Sequence[str], cells: Lookup, rows: int) -> list[str]:
    parts = [cells(column) for column in columns]
    return [
        " / ".join(text_of(part[row]).replace("\\", "\\\\").replace("/", "\\/") for part in parts)
        for row in range(rows)
    ]


def _positions(keys: Sequence[str]) -> list[int]:
    """Return the position of each row within its group, in the order of the file."""
    seen: Counter[str] = Counter()
    positions = []
    for key in keys:
        positions.append(seen[key])
        seen[key] += 1
    return positions


def _parts(group: Group, keys: Sequence[str], positions: Sequence[int]) -> list[str]:
    part_of = {position: number for number, part in enumerate(group.parts) for position in part}
    return [
        f"{key} part {part_of[position]}" if key and position in part_of else ""
        for key, position in zip(keys, positions, strict=True)
    ]


def _in_order(name: str, group: Group, cells: Lookup, rows: int) -> tuple[list[str], list[int]]:
    """Return keys and positions of groups of `size` rows, after sorting by the column `order`."""
    order = list(range(rows))
    if group.order:
        column = cells(group.order)
        keys_ = [_sort_key(cell) for cell in column]
        if all(isinstance(key, int) for key in keys_):
            order.sort(key=lambda row: keys_[row])
        else:
            order.sort(key=lambda row: text_of(column[row]))
    size = max(1, group.size)
    keys, positions = [""] * rows, [0] * rows
    same = cells(group.same) if group.same else None
    for at, row in enumerate(order):
        keys[row], positions[row] = str(at // size), at % size
        first = order[at - at % size]
        if same is not None and text_of(same[row]) != text_of(same[first]):
            raise DataError(
                f"[group] {name}: rows {first + 1} and {row + 1} form a group by {group.order or 'their order'}, and "
                f"{group.same!r} is {text_of(same[first])[:80]!r} in one and {text_of(same[row])[:80]!r} in the other",
                "A row is missing, or the table is another one: restore the rows, or correct order, size and same.",
            )
    return keys, positions


def _sort_key(cell: Any) -> int | str:
    text = text_of(cell).strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else text


def _with_sizes(group: tuple[str, ...] | Group, keys: Sequence[str]) -> list[str]:
    """Put the number of rows before each key: the declared one where there is one, else the rows that there are."""
    counts = Counter(keys)
    lengths = [len(part) for part in group.parts] if isinstance(group, Group) else []

    def size(key: str) -> int:
        if lengths:
            return lengths[int(key.rpartition(" ")[2])]
        return group.size if isinstance(group, Group) and group.size else counts[key]

    return [f"{size(key)}:{key}" if key else "" for key in keys]


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
