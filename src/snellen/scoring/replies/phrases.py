"""Phrases of replies, read from phrases.toml once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files


@cache
def phrases(name: str) -> tuple[str, ...]:
    """Return the phrases of one table of phrases.toml, lower case, longest first."""
    return tuple(sorted(ordered(name), key=len, reverse=True))


@cache
def ordered(name: str) -> tuple[str, ...]:
    """Return the phrases of one table in its order."""
    listed = re.split(r",\s+", " ".join(_tables()[name]["words"].split()))
    return tuple(dict.fromkeys(phrase.strip() for phrase in listed))


@cache
def _tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))


def last_phrase(text: str, name: str) -> tuple[int, int] | None:
    """Return start and end of the last phrase of a table in a lower-case text, as whole words; None without one."""
    found = (-1, -1)
    for phrase in _ascii(name) if text.isascii() else phrases(name):
        at = text.rfind(phrase, max(found[0], 0))
        while at > found[0]:
            end = at + len(phrase)
            if _ends(text, at - 1, phrase[0]) and _ends(text, end, phrase[-1]):
                found = (at, end)
                break
            at = text.rfind(phrase, 0, at)
    return found if found[0] >= 0 else None


@cache
def telling(name: str, ascii_only: bool) -> tuple[str, ...]:
    """Return the phrases of a table without those that begin with another: where one of them is not, there is none."""
    chosen: list[str] = []
    for phrase in sorted(_ascii(name) if ascii_only else phrases(name), key=len):
        if not any(phrase.startswith(other) for other in chosen):
            chosen.append(phrase)
    return tuple(chosen)


def places_of(text: str, words: Iterable[str]) -> Iterator[int]:
    """Yield the places of words in a lower-case text, where a word begins."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            if at == 0 or not text[at - 1].isalnum() or text[at] > "\u2e7f" or text[at - 1] > "\u2e7f":
                yield at
            at = text.find(word, at + len(word))


@cache
def _ascii(name: str) -> tuple[str, ...]:
    return tuple(phrase for phrase in phrases(name) if phrase.isascii())


def _ends(text: str, at: int, char: str) -> bool:
    """Return True if no word goes on at a place; scripts without blanks between words have no word ends."""
    return not (
        char.isalnum() and char < "\u2e80" and 0 <= at < len(text) and text[at].isalnum() and text[at] < "\u2e80"
    )


@cache
def single_words(name: str) -> frozenset[str]:
    """Return the phrases of a table that are one word."""
    return frozenset(phrase for phrase in phrases(name) if " " not in phrase)
