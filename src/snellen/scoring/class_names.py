"""Class names in replies: matched by whole words, longest first, with an alias table; and names in any text, with their sentences.

Matching ignores case, diacritics, apostrophes, hyphens, plural and possessive s, and spaces within a name (`frigate
bird`). class_names.toml lists names that the data sets spell differently or wrongly (`artic tern`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from urllib.parse import unquote

from msgspec import Struct

from snellen.scoring.answers.fold import stemmed as stem
from snellen.scoring.answers.fold import without_marks
from snellen.scoring.answers.name import spoken_words as words
from snellen.scoring.rubric import plain_letters
from snellen.toml_text import packaged_toml

_WORD = re.compile(r"[^\W_]+")
_WRITTEN = re.compile(r"[^\W_]+(?:['\u2019\u2018\u02bc][^\W_]+)*")
_SEVERAL = re.compile(r"(?<=[0-9])s\b")
_POSSESSIVE = re.compile(r"'s(?![a-z])|(?<=s)'(?![a-z])")


def tokens(name: str) -> tuple[str, ...]:
    """Return the normalised words of a text, by which names are compared.

    >>> tokens("Chuck-will's-widows")
    ('chuck', 'will', 'widow')
    >>> tokens("F-18s")
    ('f', '18')
    """
    return _remembered(name) if len(name) <= SHORT else _tokens(name)


def _tokens(name: str) -> tuple[str, ...]:
    if not name.isascii():
        name = without_marks(name.replace("\u2019", "'").replace("\u2018", "'").replace("\u02bc", "'"))
    name = name.lower()
    if "'" in name:
        name = _POSSESSIVE.sub("", name).replace("'", "")
    name = _SEVERAL.sub("", name)
    return tuple(map(stem, _WORD.findall(name)))


SHORT = 200
"""Maximum characters of a cached name; whole replies are not cached."""
_remembered = lru_cache(maxsize=8_192)(_tokens)


@cache
def aliases() -> dict[str, dict[str, str]]:
    """Return class_names.toml: data set to (alias to the data set's own name)."""
    return packaged_toml("snellen.scoring", "class_names.toml")


class Names:
    """The class names of a data set, or of a question's options, indexed for matching."""

    def __init__(self, classes: Iterable[str], alternatives: Mapping[str, str] | None = None) -> None:
        """Index the classes. `alternatives` maps aliases to classes; aliases of unknown classes are ignored."""
        self._known: dict[str, str] = {}
        self._longest = 0
        self._heads: set[str] = set()
        for name in classes:
            self._put(name, name)
        own = {name.lower(): name for name in self._known.values()}
        for alias, name in (alternatives or {}).items():
            if name.lower() in own:
                self._put(alias, own[name.lower()])

    def _put(self, written: str, name: str) -> None:
        words = tokens(written)
        if words:
            joined = "".join(words)
            self._known.setdefault(joined, name)
            self._heads.update(joined[:end] for end in range(len(joined) + 1))
            self._longest = max(self._longest, len(words) + 2)  # a reply may write one word as two

    def exactly(self, text: str) -> str | None:
        """Return the class that the whole text names; None if the text is anything else."""
        return self._known.get("".join(tokens(text)))

    def named(self, text: str) -> list[str]:
        """Return the classes that a text names by whole words, each once, in order.

        At each word the longest name that begins there is taken, and its words belong to no other name: `pink
        primrose` does not name `rose`, nor `herring gull` `gull`.
        """
        return list(dict.fromkeys(name for _, _, name in self._matches(tokens(text))))

    def _matches(self, words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield (first word, word after the last, class) of each name, the longest one at each word."""
        at = 0
        while at < len(words):
            joined, after, longest = "", at + 1, None
            for end in range(at, min(at + self._longest, len(words))):
                joined += words[end]
                if joined not in self._heads:
                    break
                if (name := self._known.get(joined)) is not None:
                    after, longest = end + 1, name
            if longest is not None:
                yield at, after, longest
            at = after

    def replaced(self, text: str, by: Mapping[str, str]) -> str:
        """Replace every class name, matched as by `named`, with the given word."""
        written = [(match, word) for match in _WRITTEN.finditer(text) if (word := "".join(tokens(match[0])))]
        out, end = [], 0
        for first, after, name in self._matches([word for _, word in written]):
            out += [text[end : written[first][0].start()], by[name]]
            end = written[after - 1][0].end()
        return "".join([*out, text[end:]])


@lru_cache(maxsize=8_192)
def of_options(options: tuple[str, ...], dataset: str) -> Names:
    """Return the names of a question's options."""
    return Names(options, aliases().get(dataset))


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
