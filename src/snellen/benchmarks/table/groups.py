"""Groups of rows, such as the two questions of a pair or the rolls of a circular question, as keys in a sample's meta.

A key is `<rows of the group>:<its name>`, so that a summary knows an incomplete group in a run that is not finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snellen.benchmarks.table.declaration import Group
from snellen.benchmarks.table.operations import text_of
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
        groups: as declared.
        cells: see `Lookup`.
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
