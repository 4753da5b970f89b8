"""Phrases of replies, read from phrases.toml once, and the expressions that are put together from them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files


@cache
def phrases(name: str) -> tuple[str, ...]:
    """Return the phrases of one table of phrases.toml, lower case, longest first."""
    listed = re.split(r",\s+", " ".join(_tables()[name]["words"].split()))
    return tuple(sorted(dict.fromkeys(phrase.strip() for phrase in listed), key=len, reverse=True))


@cache
def _tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))


def any_of(names: str) -> str:
    """Return an expression for the phrases of one table or several (`answer option`), as whole words where they have letters."""
    listed = sorted({phrase for name in names.split() for phrase in phrases(name)}, key=len, reverse=True)
    return f"(?:{'|'.join(map(_whole, listed))})"


def _whole(phrase: str) -> str:
    """Return a phrase as an expression. Scripts without blanks between words have no word ends."""
    text = re.escape(phrase).replace(r"\ ", r"\s{1,3}")
    before = r"(?<![^\W_])" if is_spaced(phrase[0]) else ""
    after = r"(?![^\W_])" if is_spaced(phrase[-1]) else ""
    return f"{before}{text}{after}"


def is_spaced(char: str) -> bool:
    """Return True for a letter of a script that writes blanks between words; Korean particles follow without one."""
    return char.isalnum() and not "\u2e80" <= char <= "\ud7ff"


@cache
def pattern(names: str) -> re.Pattern[str]:
    """Return the compiled expression of `any_of`; it is matched against lower-case text."""
    return re.compile(any_of(names))


def first_words(names: Iterable[str]) -> frozenset[str]:
    """Return all single words of tables, for quick tests."""
    return frozenset(phrase for name in names for phrase in phrases(name) if " " not in phrase)
