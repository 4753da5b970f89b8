"""Answer mentions: find a name in a text by whole words, with its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from msgspec import Struct

from snellen.scoring.answers.name import spoken_words as words
from snellen.scoring.rubric import plain_letters

QUOTE = 240
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|[\r\n]+")
_MARKS = re.compile(r"[/_.+=&?%#:~-]+")


class AnswerMention(Struct, frozen=True):
    """A name of an answer found in a text, and the sentence around it."""

    form: str
    quote: str


def find(text: str, forms: Iterable[str]) -> AnswerMention | None:
    """Return the first sentence that contains one of the names; in a sentence the first listed name wins."""
    wanted = [(form, words(form)) for form in forms if words(form)]
    for sentence in sentences(text):
        for form, name in wanted:
            if _holds(sentence, form, name):
                return AnswerMention(form, _around(sentence, form))
    return None


def in_address(address: str, forms: Iterable[str]) -> AnswerMention | None:
    """Find a name in the address of a page or a file; its path components are words."""
    mention = find(spelled(address), forms)
    return None if mention is None else AnswerMention(mention.form, address[:QUOTE])


def spelled(address: str) -> str:
    """Split an address into words: no scheme, percent-escapes decoded, punctuation as spaces."""
    return _MARKS.sub(" ", unquote(address.partition("://")[2] or address))


def sentences(text: str) -> Iterator[str]:
    """Yield lines, split at sentence ends."""
    for piece in _SENTENCE.split(text):
        if piece and (piece := piece.strip()):
            yield piece


def _holds(sentence: str, form: str, name: tuple[str, ...]) -> bool:
    if _UNSPACED.search(form):  # written without spaces, so that there are no words to compare
        return plain_letters(form) in plain_letters(sentence)
    spoken = words(sentence)
    size = len(name)
    if any(spoken[at : at + size] == name for at in range(len(spoken) - size + 1)):
        return True
    joined = "".join(name)
    if not any(letter.isdigit() for letter in joined):
        return False
    return any(_spells(spoken, at, joined) for at in range(len(spoken)))


def _spells(spoken: tuple[str, ...], at: int, joined: str) -> bool:
    """Return True if the words from `at` on, joined, equal `joined`: `737 800` and `737800` are one name."""
    prefix = ""
    for place in range(at, len(spoken)):
        prefix += spoken[place]
        if len(prefix) >= len(joined):
            break
    return prefix == joined


def _around(sentence: str, form: str) -> str:
    """Return the sentence, or the part of a long sentence around the name."""
    if len(sentence) <= QUOTE:
        return sentence
    at = max(0, sentence.casefold().find(form.casefold()) - QUOTE // 3)
    return sentence[at : at + QUOTE]
