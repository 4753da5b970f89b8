"""Names of columns by role in ten languages (column_names.toml), compared without case, accents, blanks and signs.

Options stand in one column each (A, B, C …; option_a, choice_1 …), or as a list in one column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any
from unicodedata import category, normalize

from msgspec import Struct

from snellen.benchmarks.table.cells import LETTERS, options_in, options_of
from snellen.benchmarks.table.declaration import CellSpec
from snellen.benchmarks.table.literals import is_literal
from snellen.benchmarks.table.operations import CellError, cell_of
from snellen.benchmarks.table.rows import plain_text
from snellen.toml_text import packaged_toml

_NO_LETTERS = re.compile(r"[\W_]+")
IMAGE_IDS = ("imageid", "imgid", "imageids", "imgids")
"""Names of images without their ending, where no other column has images."""


class RoleNames(Struct, frozen=True):
    """Names of columns that may have a role: `strong` ones, and `weak` ones that count only if there is no strong one."""

    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()


def plain_name(column: str) -> str:
    """Return a column's name without case, accents, blanks and signs; letters of all scripts stay.

    >>> plain_name("Réponse_correcte"), plain_name("選択肢 "), plain_name("Правильный ответ")
    ('reponsecorrecte', '選択肢', 'правильныиответ')
    """
    if column.isascii():
        return _NO_LETTERS.sub("", column.lower())
    apart = normalize("NFKD", column.casefold().replace("ß", "ss"))
    return _NO_LETTERS.sub("", normalize("NFC", "".join(char for char in apart if category(char) != "Mn")))


@cache
def role_names() -> Mapping[str, RoleNames]:
    """Return the names of each role, and `single_option`: what stands before the letter of a column of one option."""
    roles = packaged_toml("snellen.benchmarks.table", "column_names.toml")
    names: dict[str, RoleNames] = {}
    for role, by_language in roles.items():
        weak = by_language.pop("weak", ())
        strong = dict.fromkeys(plain_name(name) for several in by_language.values() for name in several)
        names[role] = RoleNames(tuple(strong), tuple(dict.fromkeys(map(plain_name, weak))))
    return names


_MARKED = re.compile(r"(?P<stem>.*?)(?P<gap>[ _.\-\[(:#]*)(?P<mark>[a-zA-Z\u0410-\u044f]|\d{1,2})[\])]?", re.DOTALL)
_CYRILLIC = "АБВГДЕЖЗИКЛМ"
_ANSWERS = ("answer", "answers", "ans", "response")


def option_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns of single options in their order; empty if there are no two.

    Columns answerA, answer_b are options; answer1, answer2 are accepted answers.
    """
    for first in ("A", "a", "1"):
        single = [column for column in columns if len(column) == 1 and _place(column) >= 0 and _like(column, first)]
        if first in single and chr(ord(first) + 1) in single:
            return sorted(single)
    by_stem: dict[str, dict[int, str]] = {}
    for column in columns:
        if (named := _single_option(column)) is not None:
            stem, place = named
            by_stem.setdefault(stem, {})[place] = column
    several = [places for places in by_stem.values() if len(places) > 1]
    return [places[at] for places in several[:1] for at in sorted(places)]


def is_option_column(column: str) -> bool:
    """Return True for a column whose name is that of a single option."""
    named = _single_option(column)
    return (named is not None and not named[0].startswith("answer:")) or (len(column) == 1 and column in LETTERS)


def _single_option(column: str) -> tuple[str, int] | None:
    """Return what the columns of a row's options share, and the place of this one; None for any other column."""
    match = _MARKED.fullmatch(column.strip())
    if match is None or _place(match["mark"]) < 0:
        return None
    stem, mark = plain_name(match["stem"]), match["mark"]
    if stem in role_names()["single_option"].strong:
        return stem.rstrip("s") + ("#" if mark.isdigit() else ""), _place(mark)
    is_letter = not mark.isdigit() and (match["gap"] or mark.isupper())
    if is_letter and (stem in _ANSWERS or stem in role_names()["answer"].strong):
        return f"answer:{stem}", _place(mark)
    return None


def _place(mark: str) -> int:
    if mark.isdigit():
        return int(mark)
    return LETTERS.find(mark.upper()) if mark.isascii() else _CYRILLIC.find(mark.upper())


def _like(column: str, first: str) -> bool:
    """Return True if two names of one character are both capitals, both small letters, or both digits."""
    kinds = (str.isupper, str.islower, str.isdigit)
    return any(kind(column) and kind(first) for kind in kinds)


@lru_cache(maxsize=64)
def _lettered(columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the columns of single options with their letters: their own, or A, B and so on."""
    own = all(len(column) == 1 and column.upper() in LETTERS for column in columns)
    return tuple((column, column.upper() if own else letter) for column, letter in zip(columns, LETTERS, strict=False))


def row_options(spec: CellSpec | None, row: Mapping[str, Any], question: CellSpec | None = None) -> dict[str, str]:
    """Return the options of a row, letter to text. Raises CellError for a cell of an unknown form."""
    if spec is None:
        return {}
    if isinstance(spec, tuple):
        options = {}
        for column, letter in _lettered(spec):
            cell = row.get(column)
            if text := (cell if type(cell) is str else plain_text(cell_of(row, column))).strip():
                options[letter] = text
        return options
    if isinstance(spec, str):
        value = cell_of(row, spec)
        return options_in(plain_text(value)) if spec == question else options_of(value)
    return options_of(cell_of(row, spec.column), spec.split)


def options_or_none(value: Any) -> dict[str, str]:
    """Return the options of a cell; empty for a cell of an unknown form."""
    try:
        return options_of(value)
    except CellError:
        return {}


def holds_list(value: Any) -> bool:
    """Return True for a cell that holds a list or an object of two texts or more, or writes one."""
    if isinstance(value, str) and not is_literal(value):
        return False
    return isinstance(value, (str, list, dict)) and len(options_or_none(value)) > 1
