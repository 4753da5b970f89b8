"""The closed set of operations on a row's cells: cut, rename, split, list and the others of `declaration.Cell`.

A cell is never evaluated: lists are parsed as JSON or as a Python literal, numbers as numbers.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from snellen.benchmarks.table.cell_form import Cell, CellSpec
from snellen.errors import DataError
from snellen.scoring.rules.page_parse import page_parts
from snellen.scoring.rules.vlmevalkit import MAX_CHARS, literal, literal_list
from snellen.sources.number_formats import CellFault

Row: TypeAlias = Mapping[str, Any]
ROW_NUMBER, KEY, WHOLE_ROW = "#", "@key", "@row"
LETTERS = string.ascii_uppercase
ALL_LETTERS = "A-Z"
_PLACE = re.compile(r"\{(\w*)\}")
OPTION_NAME = re.compile(r"(?:[A-Z][a-z]{1,20} )?(?:([A-Z])[.:]|(?<=[a-z] )([1-9]):) ")
"""Name of an option before its text: `A. `, `Caption A: `, `Option 1: `."""
MAX_DIGITS = 18
"""A whole number has at most this many digits; a longer cell is a text."""


class CellError(DataError):
    """A cell on which an operation of the declaration cannot be done. The row is omitted; the message names the column."""


def columns_of(spec: CellSpec) -> Iterator[str]:
    """Yield the columns of the file that a declared value is made from; `options = "A-Z"` names none."""
    several = (*spec.first_of, spec.column, spec.from_, spec.labels, spec.by) if isinstance(spec, Cell) else spec
    for name in (several,) if isinstance(several, str) else several:
        if name not in ("", ROW_NUMBER, KEY, WHOLE_ROW, ALL_LETTERS):
            yield name


def value(spec: CellSpec, row: Row, number: int) -> Any:
    """Return one declared value of a row: the cell, or a list of cells, after the operations of its `Cell`.

    Args:
        spec: a column, several columns, or a cell with operations.
        row: the row; a column that it lacks is empty (None).
        number: the row's number, from 0.

    Raises:
        CellError: an operation does not fit the cell.
    """
    if isinstance(spec, str):
        return _cell(spec, row, number)
    if isinstance(spec, tuple):
        return [_cell(name, row, number) for name in spec]
    cells = (_cell(name, row, number) for name in spec.first_of)
    column = next((cell for cell in cells if text_of(cell) != ""), None)  # a number of 0 is a value
    column = _cell(spec.column, row, number) if column is None else column
    current = spec.text if spec.text is not None else column
    return None if current is None else operated(spec, current, row)


def cell_reader(spec: CellSpec) -> Callable[[Row, int], Any]:
    """Return `value` for all rows of a table: a text in a plain column is taken as it is."""
    if isinstance(spec, Cell) and spec == Cell(column=spec.column, as_=spec.as_):
        spec = spec.column  # the form of a cell is no operation
    if not isinstance(spec, str) or spec in ("", ROW_NUMBER, WHOLE_ROW):
        return partial(value, spec)
    return lambda row, number: cell if isinstance(cell := row.get(spec), str) else value(spec, row, number)


def _cell(column: str, row: Row, number: int) -> Any:
    if column == ROW_NUMBER:
        return number
    if column == WHOLE_ROW:
        return dict(row)
    cell = row.get(column)
    return cell_of(row, column) if isinstance(cell, float) else cell


def cell_of(row: Row, column: str) -> Any:
    """Return a cell of a row; None if the row lacks it. Raises CellError for one without a value, such as `#N/A`."""
    cell = row.get(column)
    if isinstance(cell, CellFault):
        raise CellError(f"column {column!r}: {cell.reason}")
    return cell


def operated(spec: Cell, current: Any, row: Row) -> Any:
    """Apply the operations to a value, in the order in which `Cell` declares them; `row` has what is filled in."""
    if spec.member:
        for name in spec.member.split("."):
            current = _member(spec, name, current)
    if spec.page_parts:
        try:
            current = page_parts(current)
        except ValueError as error:
            raise CellError(f"column {spec.column!r} holds {error}") from error
    if spec.rename:
        current = spec.rename.get(text_of(current), current if spec.otherwise is None else spec.otherwise)
    if spec.cut:
        current = _field(spec, text_of(current))
    if spec.before:
        current = text_of(current).partition(spec.before)[0]
    if spec.after:
        head, mark, tail = text_of(current).partition(spec.after)
        current = tail if mark else head
    if spec.strip:
        current = text_of(current).strip().strip(spec.strip)
    for old, new in spec.replace.items():
        current = text_of(current).replace(old, new)
    if spec.lower:
        current = text_of(current).strip().lower()
    if spec.first is not None:
        current = text_of(current)[: spec.first]
    if spec.fill and current != "":
        shown = _filled(current)
        current = _PLACE.sub(lambda place: _filled(row.get(place[1])) if place[1] else shown, spec.fill)
    if spec.remove:
        current = text_of(current).replace(spec.remove, "")
    if spec.modulo is not None:
        current = whole_number(current, spec.column) % spec.modulo
    if spec.split:
        current = text_of(current).split(spec.split) if current != "" else []
    if spec.list:
        current = list_of(current, spec.column) if current != "" else []
    if spec.sizes:
        current = spec.sizes[min(len(list_of(current, spec.column)), len(spec.sizes) - 1)]
    if order := spec.orders.get(text_of(row.get(spec.by))):
        current = dict(zip(order, list_of(current, spec.column), strict=False)) if order == "xywh" else order
    if spec.labels:
        boxes, labels = list_of(current, spec.column), list_of(row.get(spec.labels), spec.labels)
        if len(boxes) != len(labels):
            raise CellError(f"{len(boxes)} boxes in {spec.column!r} and {len(labels)} labels in {spec.labels!r}")
        current = [{"bbox": box, "label": str(label)} for box, label in zip(boxes, labels, strict=True)]
    if spec.drop:
        several = isinstance(current, list)
        current = [text_of(item)[spec.drop :] for item in current] if several else text_of(current)[spec.drop :]
    return current


def _filled(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell)


def _member(spec: Cell, name: str, cell: Any) -> Any:
    """Return a member of an object, which stands in the cell as such or as JSON or Python text; one with `?` may be missing."""
    value = cell if isinstance(cell, Mapping) else _object(text_of(cell).strip())
    if name.endswith("?") and (value is None or isinstance(value, Mapping)):
        return (value or {}).get(name[:-1])
    if not isinstance(value, Mapping) or name not in value:
        raise CellError(f"column {spec.column!r} holds {text_of(cell)[:80]!r}; an object with {name!r} was expected")
    return value[name]


def _object(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return literal(text)


def _field(spec: Cell, text: str) -> str:
    parts = text.split(spec.cut)
    at = spec.field or 0
    if at >= len(parts):
        raise CellError(
            f"column {spec.column!r} holds {text[:80]!r}, which {spec.cut!r} cuts into {len(parts)} parts; "
            f"field {at} (from 0) was expected"
        )
    return parts[at]


def text_of(cell: Any) -> str:
    """Return a cell as text; an empty one is the empty text."""
    return "" if cell is None else cell if isinstance(cell, str) else str(cell)


def whole_number(cell: Any, column: str) -> int:
    """Return a cell as a whole number. Raises CellError for any other, and for more than 18 digits."""
    text = text_of(cell).strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
        raise CellError(f"column {column!r} holds {text[:80]!r}; a whole number was expected")
    return int(text)


def list_of(cell: Any, column: str) -> list[Any]:
    """Return a cell that holds a list, as JSON or as a Python literal. Raises CellError for anything else."""
    if isinstance(cell, list | tuple):
        return list(cell)
    text = text_of(cell).strip()
    items = parsed_list(text)
    if items is None:
        raise CellError(f"column {column!r} holds {text[:80]!r}; a list such as ['a', 'b'] was expected")
    return items


def parsed_list(text: str) -> list[Any] | None:
    """Parse a list in JSON or Python syntax; None for any other text, and for more than a megabyte."""
    if not text.startswith("[") or len(text) > MAX_CHARS:
        return None
    try:
        items = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        items = literal_list(text)
    return items if isinstance(items, list) else None


def lettered(spec: CellSpec, row: Row, number: int) -> dict[str, str]:
    """Return the options of a row, letter to text; empty cells are no options, so that letters may have gaps.

    `A-Z` takes the columns of those names; a list of columns takes their own letters where all are one capital, else A, B
    and so on, which is removed where each option begins with it (`A: text`); a list or an object in one cell is taken in its
    order, and so is a list of objects with `letter` and `content`. Names that all texts of a list bring along in order (`A. `,
    `Caption A: `, `Option 1: `) are removed.

    Raises:
        CellError: the cell holds no list, or more options than there are letters.
    """
    if spec == ALL_LETTERS:
        return {letter: text_of(row[letter]) for letter in LETTERS if text_of(row.get(letter)) != ""}
    if isinstance(spec, tuple):
        own = all(len(name) == 1 and name in LETTERS for name in spec)
        letters = spec if own else LETTERS
        cells = ((letter, text_of(row.get(name))) for letter, name in zip(letters, spec, strict=False))
        options = {letter: text for letter, text in cells if text != ""}
        marked = {letter: re.match(rf"\s*{letter}\s*[:.)]", text) for letter, text in options.items()}
        if not own and all(marked.values()):
            return {letter: options[letter][mark.end() :].strip() for letter, mark in marked.items() if mark}
        return options
    column = spec if isinstance(spec, str) else spec.column
    items = value(spec, row, number)
    if isinstance(items, Mapping):
        return {str(letter): text_of(text) for letter, text in items.items() if text_of(text) != ""}
    listed = list_of(items, column) if items not in (None, "") else []
    if listed and all(isinstance(item, Mapping) and "letter" in item and "content" in item for item in listed):
        return {text_of(item["letter"]): text_of(item["content"]) for item in listed}
    texts = [text_of(item) for item in listed]
    if not texts and isinstance(spec, Cell):
        return {letter: letter for letter in spec.letters}
    if len(texts) > len(LETTERS):
        raise CellError(f"column {column!r} holds {len(texts)} options; at most {len(LETTERS)} were expected")
    if isinstance(spec, Cell) and spec.as_ == "text":
        return dict(zip(LETTERS, texts, strict=False))
    leads = [OPTION_NAME.match(text) for text in texts]
    if texts and [lead and (lead[1] or LETTERS[int(lead[2]) - 1]) for lead in leads] == [*LETTERS[: len(texts)]]:
        texts = [text[lead.end() :] for text, lead in zip(texts, leads, strict=True) if lead]
    return dict(zip(LETTERS, texts, strict=False))


def _generator(seed: int, sample: str) -> random.Random:
    """Return the random numbers of one row: they depend on seed and id, not on the rows before it."""
    return random.Random(  # noqa: S311  an order of options is no secret
        blake2b(f"{seed}\0{sample}".encode("utf-8", "replace"), digest_size=8).digest()
    )


def shuffled(options: Mapping[str, str], answer: str, seed: int, sample: str) -> tuple[dict[str, str], str]:
    """Return the options in another order under the same letters, and the letter that the answer has then.

    The order depends on the seed and the sample's id alone, so that a subset of the rows is asked alike.
    """
    letters = list(options)
    order = list(letters)
    _generator(seed, sample).shuffle(order)
    mixed = {letter: options[source] for letter, source in zip(letters, order, strict=True)}
    return mixed, letters[order.index(answer)] if answer in options else answer


def drawn_options(gold: str, labels: Sequence[str], count: int, seed: int, sample: str) -> tuple[dict[str, str], str]:
    """Return `count` options out of all labels, the gold one among them, and its letter.

    Args:
        gold: the right label.
        labels: every label of the table, without repetition, in a fixed order.
        count: how many options; fewer where there are fewer labels.
        seed, sample: decide the draw, as in `shuffled`.
    """
    generator = _generator(seed, sample)
    others = [label for label in labels if label != gold]
    texts = [gold, *generator.sample(others, min(count - 1, len(others)))]
    generator.shuffle(texts)
    options = dict(zip(LETTERS, texts, strict=False))
    return options, LETTERS[texts.index(gold)]


def first_is_always_right(answers: Sequence[tuple[str, Mapping[str, str]]], at_least: int = 20) -> bool:
    """Return True where the gold letter of every row is its first option, and rows enough say so.

    Such a table rewards a model that always says A; it is shuffled before it is asked.
    """
    return len(answers) >= at_least and all(options and letter == next(iter(options)) for letter, options in answers)
