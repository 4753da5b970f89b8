"""Tables written as .xlsx, as VLMEvalKit's scorers and people's spreadsheets read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import MissingExtraError

CELL = 32_767
"""How many characters a cell of Excel's holds."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class Lost(Struct):
    """What a sheet could not hold: cells that were cut, and cells that had characters which no sheet may have."""

    cut: int = 0
    stripped: int = 0


def write_workbook(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Lost:
    """Write rows under the names of their columns; a row without a column leaves its cell empty.

    Texts stay texts: one that begins with `=`, `+`, `-` or `@`, as a model's reply may, is no formula to whoever opens the
    file. Texts longer than 32,767 characters lose what is behind, as they do where VLMEvalKit writes them.

    Raises:
        MissingExtraError: without openpyxl.
    """
    try:
        import openpyxl
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise MissingExtraError(
            f"{path.name} needs openpyxl, which is not installed", "pip install 'snellen[excel]'"
        ) from error
    lost = Lost()
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = _CONTROL.sub("", value)
        lost.stripped += text != value
        lost.cut += len(text) > CELL
        made = WriteOnlyCell(sheet, value=text[:CELL])
        # Set behind the value, by which openpyxl guesses a formula or an error.
        made.data_type = "s"
        return made

    sheet.append([cell(name) for name in columns])
    for row in rows:
        sheet.append([cell(row.get(name)) for name in columns])
    book.save(path)
    return lost
