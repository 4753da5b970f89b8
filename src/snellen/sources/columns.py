"""Rows of a table as every reader yields them, and the choice of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from snellen.errors import DataError

Row: TypeAlias = dict[str, Any]
# The line or number of each row, from 1, and the row, or why it cannot be read.
RowsAndErrors: TypeAlias = Iterator[tuple[int, Row | DataError]]


def pick(header: Sequence[Any], columns: Sequence[str] | None, name: str) -> list[tuple[str, int]]:
    """Return (column, position) of the requested columns. Raises DataError for a missing or duplicate column."""
    names = [str(cell) for cell in header]
    twice = sorted({column for column in names if names.count(column) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"{name}: duplicate column {twice[0]!r}", "Rename one of them.")
    missing = [column for column in columns or () if column not in names]
    if missing:
        available = ", ".join(names[:30])
        raise DataError(f"{name}: no column {missing[0]!r}; the columns are {available}", "Check the file's name.")
    return [(column, names.index(column)) for column in (names if columns is None else columns)]
