"""What a row of a table is, and which columns of it are taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from snellen.errors import DataError

Row: TypeAlias = dict[str, Any]
# The line or number of each row, from 1, and the row, or why it cannot be read.
Found: TypeAlias = Iterator[tuple[int, Row | DataError]]


def pick(header: Sequence[Any], columns: Sequence[str] | None, name: str) -> list[tuple[str, int]]:
    """(column, position) of the wanted columns. Raises DataError for a missing column or one that is there twice."""
    names = [str(cell) for cell in header]
    twice = sorted({column for column in names if names.count(column) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"{name}: the column {twice[0]!r} is there twice", "Rename one of them.")
    missing = [column for column in columns or () if column not in names]
    if missing:
        shown = ", ".join(names[:30])
        raise DataError(f"{name}: no column {missing[0]!r}; it has {shown}", "Check that the right file was given.")
    return [(column, names.index(column)) for column in (names if columns is None else columns)]
