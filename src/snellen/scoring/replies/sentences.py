"""Sentences of a plain text with their words, and the phrases of phrases.toml that stand in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

LONGEST = 2_000
"""Maximum characters of a sentence; a longer one is read in pieces."""
_TOKEN = re.compile(
    r"[\u0e00-\u0e7f\u2e80-\ud7ff]|[\u0900-\u0963\u0966-\u0dff]+"
    r"|(?<!\w)(?i:l|d(?!'d[iıuü]r)|dell|all|nell|dall|sull|qu)'(?=\w)"
    r"|[^\W\u0900-\u0e7f\u2e80-\ud7ff]+(?:'[^\W\u0900-\u0e7f\u2e80-\ud7ff]+)*|[^\w\s]"
)
# A stop ends a sentence before a blank or the end; one of a script without blanks always does.
_END = re.compile(r"[.!?…؟]+[\"')\]]*(?=\s|$)|[。！？；।]+[\"')\]」』”]*|\n+")
_TABLES = (
    *("negation", "hedge", "correction", "conclusion", "total", "wrong", "letter_after", "option", "bound", "label"),
    *(
        "yes",
        "no",
        "refusal",
        "answer",
        "choose",
        "or",
        "and",
        "every",
        "except",
        "partly",
        "retraction",
        "subject",
        "shows",
        "strong",
        "adverb",
    ),
)


class Word(NamedTuple):
    """A word, a sign, or a character of a script without blanks: lower case, with its place in the text."""

    text: str
    start: int
    end: int


class Phrase(NamedTuple):
    """A phrase of a table, from word `first` up to word `after`."""

    table: str
    first: int
    after: int


_QUESTION_ENDS = ("?", "？", "؟", "すか", "うか", "のか", "吗", "嗎")


class Sentence:
    """A sentence of a plain text.

    Attributes:
        start, end: its place in the text.
        text: its characters.
        asks: it is a question.
    """

    __slots__ = ("_phrases", "_words", "asks", "end", "start", "text")

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        end = len(text) if end is None else end
        self.text, self.start, self.end = text[start:end], start, end
        self.asks = self.text.rstrip("\"') 。").endswith(_QUESTION_ENDS)
        self._words: list[Word] | None = None
        self._phrases: list[Phrase] | None = None

    @property
    def words(self) -> list[Word]:
        """Return the words and signs, with their places in the sentence."""
        if self._words is None:
            self._words = words_of(self.text)
        return self._words

    @property
    def phrases(self) -> list[Phrase]:
        """Return the phrases that stand in it, the longest of each table at each word."""
        if self._phrases is None:
            self._phrases = list(_found([word.text for word in self.words]))
        return self._phrases

    @property
    def concluding(self) -> list[Phrase]:
        """Return the phrases that conclude: `therefore` anywhere, `so` and the like at its head or behind a sign."""
        words = self.words
        return [
            phrase
            for phrase in self.phrases
            if phrase.table == "strong"
            or (
                phrase.table == "conclusion"
                and (phrase.first == 0 or words[phrase.first - 1].text in ",;-—–")
                and not any(word.text in ("known", "called", '"') for word in words[phrase.after : phrase.after + 1])
            )
        ]

    @property
    def conclusion(self) -> Sentence:
        """Return the part behind the last concluding words (`therefore`, `, so`), or all of it."""
        words, ends = self.words, [phrase.after for phrase in self.concluding]
        at = max(ends, default=0)
        while at < len(words) and not words[at].text[0].isalnum() and words[at].text in (",", ":", "-"):
            at += 1
        return Sentence(self.text, words[at].start, len(self.text)) if 0 < at < len(words) and ends else self

    def has(self, *tables: str) -> bool:
        """Return True if it holds a phrase of one of the tables."""
        return any(phrase.table in tables for phrase in self.phrases)

    def opens(self, *tables: str) -> bool:
        """Return True if it begins with a phrase of one of the tables, behind `and` and signs at most."""
        at = 0
        while at < len(self.words) and (
            self.words[at].text in ("and", "but", "ok", "okay") or not self.words[at].text[0].isalnum()
        ):
            at += 1
        return any(phrase.table in tables and phrase.first <= at for phrase in self.phrases)


def words_of(text: str) -> list[Word]:
    """Return the words and signs of a text, lower case."""
    return [Word(match[0].lower(), match.start(), match.end()) for match in _TOKEN.finditer(text)]


@lru_cache(maxsize=2_048)
def words_in(text: str) -> frozenset[str]:
    """Return the words and signs of a question or another text that comes again."""
    return frozenset(word.text for word in words_of(text))


def in_brackets(text: str, place: int) -> bool:
    """Return True for a place in brackets."""
    return text.count("(", 0, place) > text.count(")", 0, place)


def sentences(text: str, start: int = 0, end: int | None = None) -> list[Sentence]:
    """Return the sentences of a text; blank ones are left out."""
    return [Sentence(text, low, high) for low, high in spans(text, start, len(text) if end is None else end)]


def sentences_at(text: str, places: Iterable[int]) -> list[Sentence]:
    """Return the sentences that hold one of some places of a text."""
    chosen, done = [], 0
    for place in sorted(set(places)):
        if place >= done:
            start, done = _start(text, place), _end(text, place)
            chosen += [
                Sentence(text, *span)
                for span in _trimmed(text, start, done)
                if span[0] <= place < span[1] or span[1] - span[0] < LONGEST
            ]
    return chosen


def _start(text: str, place: int) -> int:
    """Return where the sentence that holds a place begins, at most `LONGEST` characters before it."""
    low = at = max(0, place - LONGEST)
    before = place
    while (at := max(text.rfind(stop, low, before) for stop in _STOPS)) >= 0:
        while text[at] in "\"')]" and at > low:
            at -= 1
        stop = _END.match(text, at)
        if stop is not None and stop.end() <= place and not _goes_on(text, stop):
            return stop.end()
        before = at
    return low


def _end(text: str, place: int) -> int:
    """Return where the sentence that holds a place ends, with its full stop."""
    for stop in _END.finditer(text, place, min(len(text), place + LONGEST)):
        if not _goes_on(text, stop):
            return stop.end()
    return min(len(text), place + LONGEST)


_STOPS = (". ", "! ", "? ", ".\n", "\n", "。", "！", "？", "；", "।", "؟ ", "… ", '" ', ") ")


def spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the sentences of a text, with their full stop, without blanks around."""
    at = start
    for stop in _END.finditer(text, start, end):
        if _goes_on(text, stop):
            continue
        yield from _trimmed(text, at, stop.end())
        at = stop.end()
    yield from _trimmed(text, at, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    for low in range(start, end, LONGEST):
        yield low, min(end, low + LONGEST)


def _goes_on(text: str, stop: re.Match[str]) -> bool:
    """Return True if a sentence goes on behind a stop: dots before a small letter, an abbreviation, a German date, `Of these, 5`."""
    next_sign = text[stop.end() : stop.end() + 3].strip(" ")[:1]
    if next_sign in _TICKS or (next_sign in _TAKING and _TAKES_UP.match(text, stop.end()) is not None):
        return True
    if stop[0] == ".":
        return _is_abbreviated(text, stop.start()) or (
            _DATE.match(text, stop.end()) is not None and text[stop.start() - 1].isdigit()
        )
    return (
        stop[0][0] in ".…"
        and (stop[0] == "…" or len(stop[0]) > 1)
        and text[stop.end() : stop.end() + 2].strip()[:1].islower()
    )


_TAKES_UP = re.compile(
    r" ?(?:Of (?:them|these|those)|Davon|Darunter|其中)[^.\n]{0,12}(?<![\w.])(?:\d|one |two |three |four |five )"
)
"""A part of the amount in the sentence before it."""
_TAKING = frozenset("OD其")
_TICKS = frozenset("✓✔✅☑✗✘❌❎✖")
_DATE = re.compile(r" [^\W\d_]{3,12} \d{4}\b")


def _is_abbreviated(text: str, stop: int) -> bool:
    """Return True for a full stop behind an abbreviation, an initial or the number of a list."""
    start = stop
    while start > 0 and stop - start < 8 and (text[start - 1].isalnum() or text[start - 1] == "."):
        start -= 1
    word = text[start:stop]
    if word.isdecimal():
        above = text[max(0, start - LONGEST) : start]
        is_next = any(f"\n{int(word) - 1}{sign}" in f"\n{above}" for sign in ".)")
        return above[-1:] in ("", "\n") and (int(word) < 2 or is_next)
    if len(word) == 1 and word.isupper():
        before = text[max(0, start - 40) : start].rsplit("\n", 1)[-1].split()
        after = text[stop + 1 : stop + 12].split()
        if after and after[0].strip(",.;:'").lower() in single_words("function") | single_words("conclusion"):
            return not before and "answer" not in text[stop : stop + 40].lower()
        return not before or (before[-1][0].isupper() and before[-1].lower() not in phrases("option"))
    return word.lower() in single_words("abbreviation") and text[stop + 1 : stop + 2] not in ("\n", "")


_CONDITIONAL = ("rait", "raient", "rebbe", "rebbero")
"""Ends of verbs in the conditional of French and Italian."""


@cache
def _by_head() -> dict[str, dict[str, tuple[tuple[tuple[str, ...], str], ...]]]:
    """Return, by first and second word, the phrases that begin with them or are the first alone, longest first; "" is any other second word."""
    heads: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for table in _TABLES:
        for phrase in phrases(table):
            words = tuple(word.text for word in words_of(phrase))
            heads.setdefault(words[0], []).append((words, table))
    return {
        head: {
            second: tuple(entry for entry in listed if entry[0][1:2] in ((), (second,)))
            for second in {"", *(word for entry in listed for word in entry[0][1:2])}
        }
        for head, listed in ((head, sorted(listed, key=lambda entry: -len(entry[0]))) for head, listed in heads.items())
    }


NEAR = 20
"""Words before and behind a word by which its language is told."""
_PORTUGUESE = frozenset("ãõç")
_ITALIAN = frozenset(("è", "che", "sono", "gli", "nel", "nell'", "nella", "della", "delle", "dei"))
"""Words of a text in which `si` is a pronoun: `nel quadro si vedono sei alberi`."""


_MISLEADING = frozenset(("may", "可", "if", "si", "logo", "no"))


def _misleads(words: Sequence[str], at: int) -> bool:
    """Return True for a word that is a phrase's in another place: the month of May, `most probable`, `If I have to pick`, a logo, `no vídeo`, `si vedono`."""
    word, after = words[at], tuple(words[at + 1 : at + 3])
    if word == "may":
        return bool(after) and after[0].isdecimal()
    if word == "可":
        return at > 0 and words[at - 1] == "最"
    if word == "if":
        return after in (("i", "have"), ("i", "had"))
    if word == "si" and after and after[0].isalpha():
        return after[0].endswith(("ono", "ano")) or not _ITALIAN.isdisjoint(words[max(0, at - NEAR) : at + NEAR])
    if word == "logo":
        return after[:1] != (",",)
    if word != "no":
        return False
    near = words[max(0, at - NEAR) : at + NEAR]
    is_portuguese = any(other in ("uma", "é", "em") or not _PORTUGUESE.isdisjoint(other) for other in near)
    return is_portuguese and at > 0 and words[at - 1] != "o" and bool(after) and after[0].isalpha()


def _found(words: Sequence[str]) -> Iterator[Phrase]:
    heads = _by_head()
    taken: dict[str, int] = {}
    for at, (word, second) in enumerate(zip(words, [*words[1:], ""], strict=False)):
        listed = heads.get(word)
        if listed is None:
            if "'" in word and word.endswith("n't"):
                yield Phrase("negation", at, at + 1)
            elif word.endswith(_CONDITIONAL) and not word.endswith("trait"):
                yield Phrase("hedge", at, at + 1)
        elif word not in _MISLEADING or not _misleads(words, at):
            for phrase, table in listed.get(second) or listed[""]:
                size = len(phrase)
                if taken.get(table, 0) <= at and (size < 3 or tuple(words[at : at + size]) == phrase):
                    taken[table] = at + size
                    yield Phrase(table, at, at + size)


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
def _by_word(name: str) -> tuple[dict[str, tuple[int, list[str]]], list[str]]:
    """Return the longest word of each phrase of a table to its rank and the phrases, and those of scripts without blanks."""
    keyed: dict[str, tuple[int, list[str]]] = {}
    unspaced = []
    for phrase in phrases(name):
        words = _WORD.findall(phrase)
        if not words or any(char > "\u2e7f" or "\u0dff" < char < "\u0e80" for char in phrase):
            unspaced.append(phrase)
        else:
            keyed.setdefault(max(words, key=len), (len(keyed), []))[1].append(phrase)
    return keyed, unspaced


@lru_cache(maxsize=8)
def _words_in(text: str) -> frozenset[str]:
    return frozenset(text.translate(_LETTERS_ONLY).split() if text.isascii() else _WORD.findall(text))


def possible(text: str, name: str) -> list[str]:
    """Return the phrases of a table that a lower-case text may hold: those whose longest word it has."""
    keyed, unspaced = _by_word(name)
    words = _words_in(text)
    found = [phrase for _, listed in sorted(keyed[word] for word in keyed.keys() & words) for phrase in listed]
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
def phrase_words(*names: str) -> frozenset[str]:
    """Return the words of the phrases of tables."""
    return frozenset(word.text for name in names for phrase in phrases(name) for word in words_of(phrase))


@cache
def single_words(name: str) -> frozenset[str]:
    """Return the phrases of a table that are one word."""
    return frozenset(phrase for phrase in phrases(name) if " " not in phrase)
