"""Values of a row of any layout: texts, lists of texts, paths, options by letter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.errors import DataError
from snellen.scoring.rules.literals import literal_list

Row: TypeAlias = Mapping[str, Any]
Reader: TypeAlias = Callable[[Row, int], SpatialQuestion]
FILE = "snellen:file"
"""The column that a source adds: the name of the row's file, with the folders above it."""


def text(row: Row, *names: str) -> str:
    """Return the first of these columns that the row has, as text.

    Raises:
        DataError: it has none of them.
    """
    for name in names:
        value = row.get(name)
        if value is not None and value == value:  # NaN is what tables have for nothing
            return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    raise DataError(f"the row has no {' and no '.join(names)}; its columns are {', '.join(map(str, row))[:200]}")


def maybe(row: Row, name: str) -> str:
    """Return a column as text, empty where the row does not have it."""
    value = row.get(name)
    return "" if value is None or value != value else str(value)


def texts(value: Any) -> list[str]:
    """Return a list of texts, which may stand as a literal in a text; empty for anything else, such as images."""
    if isinstance(value, str):
        value = literal_list(value) if value.lstrip().startswith("[") else None
    if not isinstance(value, Sequence):
        return []
    # Options such as 3 and 4 may have become numbers; images are structs or bytes.
    return [str(item) for item in value if isinstance(item, (str, int, float))]


def one_of(row: Row, name: str, known: Collection[str]) -> str:
    """Return a column that says by which rule a row is scored.

    Raises:
        DataError: it is missing, or none of these.
    """
    value = text(row, name)
    if value not in known:
        raise DataError(f"{name} is {value[:60]!r}; expected one of {', '.join(known)}")
    return value


def paths(value: Any) -> tuple[str, ...]:
    """Return the paths of files: a list of them, one alone, or structs that have one as `path`."""
    if isinstance(value, str) and value.strip() and not value.lstrip().startswith("["):
        return (value.strip(),)
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = [item.get("path") if isinstance(item, Mapping) else item for item in value]
    return tuple(texts(value))


def columns_as_options(row: Row, letters: str = "ABCD") -> dict[str, str]:
    """Return the options, letter to text, of the columns A, B ... that are not empty."""
    cells = {letter: maybe(row, letter) for letter in letters}
    return {letter: cell for letter, cell in cells.items() if cell and cell.lower() != "nan"}
