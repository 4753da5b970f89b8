"""Names of species, objects and people: compared by words, without plurals and articles, never across digits or signs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar

from snellen.scoring.answers.base import Found
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import folded, stemmed
from snellen.scoring.answers.text import Text
from snellen.scoring.replies.sentences import Sentence

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|[^\W_\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]|_")
_POSSESSIVE = re.compile(r"'s?(?![^\W\d_])|(?<=s)'")
_JOINT = re.compile(r"(?<=[^\W\d_])[-'](?=[^\W\d_])")
_PLACE = re.compile(r" (?:in|at|near|from|bei|en|em|à) (?=[A-Z])")
_PLACE_BEHIND = re.compile(r" (?:in|at|near|from|bei|en|em|à|de) (?=[A-Z])")
_LABELLED = re.compile(r"[^\W\d][^\W\d]+(?: [^\W\d]+){0,2}: (?=\w)")
_BRACKET = re.compile(r"(?P<name>.{2,80}?)\s?[(（](?P<other>[^()（）]{3,80})[)）]")
_ARTICLES = frozenset(("a", "an", "the"))


@lru_cache(maxsize=50_000)
def words(name: str) -> tuple[str, ...]:
    """Return the words by which a name is compared; signs are words of their own.

    >>> words("The Brewer's Blackbirds")
    ('brewer', 'blackbird')
    >>> words("-12 %")
    ('-', '12', '%')
    """
    text = _JOINT.sub(" ", _POSSESSIVE.sub("", folded(name))).replace("&", " and ")
    stems = [stemmed(word) for word in _WORD.findall(text)]
    if len(stems) > 1 and stems[0] in _ARTICLES:
        is_word = len(stems[1]) > 1 and stems[1].isalpha()  # `A B` and `a 12` are names
        stems = stems[is_word or (stems[0] == "the" and stems[1][:1].isalnum()) :]
    return tuple(stems)


def spoken_words(name: str) -> tuple[str, ...]:
    """Return the words of a name that are letters or digits."""
    return tuple(word for word in words(name) if word[:1].isalnum())  # a lone apostrophe is stemmed to nothing


class Name(Text):
    """A name, as the reply or the cell has it."""

    kind: ClassVar[str] = "name"
    expected: ClassVar[str] = "a name"

    def short(self, sentence: Sentence) -> Found | None:
        """Return the name, without the place behind it: `This is the Eiffel Tower in Paris`."""
        found = super().short(sentence)
        place = _PLACE.search(sentence.text)
        label = _LABELLED.match(sentence.text) if found is None else None
        if label is not None:
            inner = super().short(Sentence(sentence.text, label.end(), len(sentence.text)))
            return None if inner is None else Found(inner.value, inner.start + label.end(), inner.end + label.end())
        if found is not None or place is None or not place.start():
            return found
        found = super().short(Sentence(sentence.text, 0, place.start()))
        return found if found is not None and str(found.value)[:1].isupper() else None

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if two names have the same words, in order."""
        return words(str(value)) == words(str(gold))

    def forms(self, value: Any) -> tuple[Any, ...]:
        """Return a name, those before and in brackets at its end, and the one before a place: `Wartburg bei Eisenach`."""
        bracket, place = _BRACKET.fullmatch(str(value)), _PLACE_BEHIND.search(str(value))
        named: tuple[str, ...] = () if bracket is None else (bracket["name"], undressed(bracket["other"]))
        named += (value[2:],) if value.startswith(("l'", "d'")) else ()
        return (value, *named, *((value[: place.start()],) if place is not None and value[0].isupper() else ()))
