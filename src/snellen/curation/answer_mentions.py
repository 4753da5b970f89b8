"""Where a text names an answer: by whole words, as names are compared elsewhere, and in which sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from msgspec import Struct

from snellen.scoring.name_match import words
from snellen.scoring.rubric import plain_letters

QUOTE = 240
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|[\r\n]+")
_MARKS = re.compile(r"[/_.+=&?%#:~-]+")


class Mention(Struct, frozen=True):
    """Which of an answer's names a text holds, and the sentence that it stands in."""

    form: str
    quote: str


def find(text: str, forms: Iterable[str]) -> Mention | None:
    """The first sentence that holds one of the names; of several names in it the first given."""
    wanted = [(form, words(form)) for form in forms if words(form)]
    for sentence in sentences(text):
        for form, name in wanted:
            if _holds(sentence, form, name):
                return Mention(form, _around(sentence, form))
    return None


def in_address(address: str, forms: Iterable[str]) -> Mention | None:
    """The same for the address of a page or a file: its parts are words."""
    found = find(spelled(address), forms)
    return None if found is None else Mention(found.form, address[:QUOTE])


def spelled(address: str) -> str:
    """An address as words: without scheme, escapes undone, signs as spaces."""
    return _MARKS.sub(" ", unquote(address.partition("://")[2] or address))


def sentences(text: str) -> Iterator[str]:
    """Lines, cut where a sentence ends."""
    for piece in _SENTENCE.split(text):
        if piece and (piece := piece.strip()):
            yield piece


def _holds(sentence: str, form: str, name: tuple[str, ...]) -> bool:
    if _UNSPACED.search(form):  # written without spaces, so that there are no words to compare
        return plain_letters(form) in plain_letters(sentence)
    said = words(sentence)
    size = len(name)
    if any(said[at : at + size] == name for at in range(len(said) - size + 1)):
        return True
    joined = "".join(name)
    if not any(letter.isdigit() for letter in joined):
        return False
    return any(_spells(said, at, joined) for at in range(len(said)))


def _spells(said: tuple[str, ...], at: int, joined: str) -> bool:
    """Whether the words from `at` on, written as one, are `joined`: `737 800` and `737800` are one name."""
    whole = ""
    for place in range(at, len(said)):
        whole += said[place]
        if len(whole) >= len(joined):
            break
    return whole == joined


def _around(sentence: str, form: str) -> str:
    """The sentence, or of a long one the part around the name."""
    if len(sentence) <= QUOTE:
        return sentence
    at = max(0, sentence.casefold().find(form.casefold()) - QUOTE // 3)
    return sentence[at : at + QUOTE]
