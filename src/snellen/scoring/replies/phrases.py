"""Phrases of replies, read from phrases.toml once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files

_LETTERS_ONLY = {code: " " for code in range(128) if not chr(code).isalpha()}
_WORD = re.compile(r"[^\W\d_]+")


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


def phrases_in(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the phrases of a table in a lower-case text, as whole words."""
    places = ((at, at + len(phrase)) for phrase in possible(text, name) for at in places_of(text, (phrase,)))
    return (place for place in places if _ends(text, place[1]))


@cache
def _by_word(name: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the longest word of each phrase of a table to the phrases, and those of scripts without blanks."""
    keyed: dict[str, list[str]] = {}
    unspaced = []
    for phrase in phrases(name):
        words = _WORD.findall(phrase)
        if not words or any(char > "\u2e7f" or "\u0dff" < char < "\u0e80" for char in phrase):
            unspaced.append(phrase)
        else:
            keyed.setdefault(max(words, key=len), []).append(phrase)
    return keyed, unspaced


@lru_cache(maxsize=8)
def _words_in(text: str) -> frozenset[str]:
    return frozenset(text.translate(_LETTERS_ONLY).split() if text.isascii() else _WORD.findall(text))


def possible(text: str, name: str) -> list[str]:
    """Return the phrases of a table that a lower-case text may hold: those whose longest word it has."""
    keyed, unspaced = _by_word(name)
    words = _words_in(text)
    found = [phrase for word, listed in keyed.items() if word in words for phrase in listed]
    return found if text.isascii() else found + unspaced


def places_of(text: str, words: Iterable[str]) -> Iterator[int]:
    """Yield the places of words in a lower-case text, where a word begins."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            if at == 0 or not text[at - 1].isalnum() or text[at] > "\u2e7f" or text[at - 1] > "\u2e7f":
                yield at
            at = text.find(word, at + len(word))


def _ends(text: str, end: int) -> bool:
    """Return True if no word goes on at a place; scripts without blanks between words have no word ends."""
    return not (text[end - 1 : end + 1].isalnum() and end < len(text) and max(text[end - 1 : end + 1]) < "\u2e80")


@cache
def single_words(name: str) -> frozenset[str]:
    """Return the phrases of a table that are one word."""
    return frozenset(phrase for phrase in phrases(name) if " " not in phrase)
