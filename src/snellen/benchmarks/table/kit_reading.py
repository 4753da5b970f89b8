"""A table as VLMEvalKit reads it: with pandas, which takes `None` for an empty cell and `007` for 7 (`--as-kit`).

Snellen does not read so by default, since it changes questions; `-o as_kit=false` says in how many rows the two readings differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from snellen.benchmarks.base import Data
from snellen.benchmarks.table.declaration import Source
from snellen.errors import DataError, UsageError
from snellen.sources.pandas_cells import ColumnForms, ColumnKind, as_pandas

OPTION = "as_kit"
FORMS = ("CSV", "TSV")
TRUE, FALSE = ("true", "1", "yes", "on"), ("", "false", "0", "no", "off")
Placed = Iterable[tuple[str, dict[str, Any] | DataError]]


def is_kit_reading(source: Source, data: Data) -> bool:
    """Return True if a table is read as VLMEvalKit does, by its declaration or by the user's --as-kit.

    Raises:
        UsageError: the option is neither true nor false.
    """
    text = data.options.get(OPTION, "").lower()
    if text not in (*TRUE, *FALSE):
        raise UsageError(f"-o {OPTION}={text}: true or false was expected", "Type: --as-kit")
    return text in TRUE or (source.as_kit_reads and OPTION not in data.options)


def column_kinds(rows: Placed) -> dict[str, ColumnKind]:
    """Return what pandas makes of each column of a text table."""
    forms = ColumnForms()
    for _, row in rows:
        if isinstance(row, dict):
            forms.add(row)
    return forms.kinds()


def as_kit(rows: Placed, kinds: Mapping[str, ColumnKind]) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """Yield rows with cells as the kit prints them: `3.0` in a column of numbers with an empty cell, None for `None`."""
    for place, row in rows:
        yield (
            place,
            row if isinstance(row, DataError) else {name: _cell(cell, kinds, name) for name, cell in row.items()},
        )


def _cell(cell: Any, kinds: Mapping[str, ColumnKind], name: str) -> Any:
    if not isinstance(cell, str):
        return cell
    read = as_pandas(cell, kinds.get(name, "text"))
    return "" if read is None else str(read)


def difference_note(count: int) -> str:
    """Return the line that says in how many rows VLMEvalKit's reading differs; empty for none."""
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return (
        f"VLMEvalKit reads {rows} otherwise (cells such as `None`, `NA` or `007`): --as-kit reads as it does"
        if count
        else ""
    )


def exploded(rows: Placed, column: str) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """Yield each row once for each element of a list in a column."""
    for place, row in rows:
        cell = None if isinstance(row, DataError) else row.get(column)
        for element in cell if isinstance(cell, list) and cell else [cell]:
            yield place, row if isinstance(row, DataError) else {**row, column: element}


def unpacked(rows: Placed, parts: tuple[Mapping[str, str], ...]) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """Yield each row once for each of `parts`, which sets columns to the cells of others, or to the text behind `=`."""
    for place, row in rows:
        if isinstance(row, DataError):
            yield place, row
            continue
        for part in parts:
            cells = {name: text[1:] if text.startswith("=") else row.get(text) for name, text in part.items()}
            yield place, {**row, **cells}
