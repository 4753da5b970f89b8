"""Cells of a text table as pandas reads them by default: missing words, numbers, truth values.

VLMEvalKit reads its tables so. A cell `None` or `NA` is missing; a column of whole numbers with one empty cell becomes decimals
(`3.0`); `007` becomes 7. Source: pandas 2.3, `read_csv` with its defaults, reproduced from its behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

ColumnKind: TypeAlias = Literal["text", "whole", "decimal", "truth"]
MISSING = frozenset(
    (
        *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
        *("NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
"""Texts that pandas takes for a missing cell; the empty cell is missing too."""
_TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_DECIMAL = re.compile(
    r"\s*[+-]?(?:(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,6})?|inf(?:inity)?)\s*", re.ASCII | re.IGNORECASE
)
_STARTS = frozenset("0123456789+-.iI") | {word[0] for word in (*MISSING, *_TRUTH)}
"""Characters that a cell of another form than text begins with, besides spaces."""
LONGEST = 1_000
"""A longer cell is a text."""
_EMPTY, _WORD, _PLAIN_WHOLE, _ODD_WHOLE, _PLAIN_DECIMAL, _ODD_DECIMAL, _PLAIN_TRUTH, _ODD_TRUTH, _TEXT = range(9)


def _form(cell: str) -> int:
    if cell == "":
        return _EMPTY
    if cell[0] not in _STARTS and not cell[0].isspace():
        return _TEXT
    if len(cell) > LONGEST:
        return _TEXT
    if cell in MISSING:
        return _WORD
    if cell in _TRUTH:
        return _PLAIN_TRUTH if cell == str(_TRUTH[cell]) else _ODD_TRUTH
    if _WHOLE.fullmatch(cell):
        if not -(1 << 63) <= (number := int(cell)) < 1 << 64:
            return _TEXT  # pandas leaves a column with such a number as it is
        return _PLAIN_WHOLE if str(number) == cell else _ODD_WHOLE
    if _DECIMAL.fullmatch(cell):
        return _PLAIN_DECIMAL if str(float(cell)) == cell else _ODD_DECIMAL
    return _TEXT


class ColumnForms:
    """The forms of a table's cells, column by column: one byte a cell.

    `add` takes the rows in order; a row that lacks a column has an empty cell there.
    """

    def __init__(self) -> None:
        self._forms: dict[str, bytearray] = {}
        self._rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row. A tuple, which inline images become, was a long text; other cells that are no text have no form."""
        for column, cell in row.items():
            if isinstance(cell, (str, tuple)):
                forms = self._forms.get(column)
                if forms is None:
                    forms = self._forms[column] = bytearray(self._rows)
                elif len(forms) < self._rows:
                    forms.extend(bytes(self._rows - len(forms)))
                forms.append(_form(cell) if isinstance(cell, str) else _TEXT)
        self._rows += 1

    def kinds(self) -> dict[str, ColumnKind]:
        """Return what pandas makes of each column."""
        return {column: _kind(set(self._padded(forms))) for column, forms in self._forms.items()}

    def _padded(self, forms: bytearray) -> bytes:
        return bytes(forms) + bytes(self._rows - len(forms))

    def differing_rows(self, columns: Iterable[str]) -> int:
        """Return in how many rows pandas changes a cell of these columns."""
        changed = bytearray(self._rows)
        for column in columns:
            if (forms := self._forms.get(column)) is not None:
                differing = _changed_forms(_kind(set(self._padded(forms))))
                for at, form in enumerate(forms):
                    if form in differing:
                        changed[at] = 1
        return sum(changed)


def _kind(forms: set[int]) -> ColumnKind:
    known = forms - {_EMPTY, _WORD}
    if known and known <= {_PLAIN_TRUTH, _ODD_TRUTH}:
        return "truth"
    if known <= {_PLAIN_WHOLE, _ODD_WHOLE}:
        return "whole" if known and forms == known else "decimal"
    if known <= {_PLAIN_WHOLE, _ODD_WHOLE, _PLAIN_DECIMAL, _ODD_DECIMAL}:
        return "decimal"
    return "text"


def _changed_forms(kind: ColumnKind) -> frozenset[int]:
    changed = {
        "text": (),
        "truth": (_ODD_TRUTH,),
        "whole": (_ODD_WHOLE,),
        "decimal": (_PLAIN_WHOLE, _ODD_WHOLE, _ODD_DECIMAL),
    }[kind]
    return frozenset((_WORD, *changed))


def column_kinds(rows: Iterable[Mapping[str, Any]]) -> dict[str, ColumnKind]:
    """Return what pandas makes of each column of some rows."""
    forms = ColumnForms()
    for row in rows:
        forms.add(row)
    return forms.kinds()


def as_pandas(cell: Any, kind: ColumnKind) -> Any:
    """Return a cell as pandas gives it: text, int, float or bool; None where it is missing."""
    if not isinstance(cell, str):
        return cell
    if cell == "" or cell in MISSING:
        return None
    if kind == "whole":
        return int(cell)
    if kind == "decimal":
        return float(cell)
    return _TRUTH[cell] if kind == "truth" else cell


def row_as_pandas(row: Mapping[str, Any], kinds: Mapping[str, ColumnKind]) -> dict[str, Any]:
    """Return a row with every cell as pandas gives it."""
    return {column: as_pandas(cell, kinds.get(column, "text")) for column, cell in row.items()}
