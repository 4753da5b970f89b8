"""Numbers in words of a dozen languages, read from their parts: `treinta y dos`, `quatre-vingt-dix`, `zweiunddreißig`, `сорок два`.

A run of number words is one number or none: of `сто два` nobody reads the `два` alone.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED

MOST_PARTS, LONGEST = 24, 90
"""Maximum words of a number, and characters of a word."""
_UNREAD = -1
"""Value of a word with which a run is no number: `drei Viertel` are not three."""
_JOINTS = ("-", "–", "‑")


class Language(NamedTuple):
    """Words of numbers with their values, those that are also other words, words between them, and words that tell a text of the language.

    `ordinals` are those of 1 to 19, 20 and 30 in each inflected form, `stems` what they begin with.
    """

    values: Mapping[str, int]
    doubtful: frozenset[str]
    joints: frozenset[str]
    spoken: frozenset[str]
    ordinals: Mapping[str, int]
    stems: Mapping[str, int]


class Spelled(NamedTuple):
    """A run of number words: the first and the last word, its value (None for no number), and its language."""

    first: int
    last: int
    value: int | None
    language: str


@cache
def languages() -> Mapping[str, Language]:
    """Return the languages of number_words.toml."""
    read = tomllib.loads(files(__package__).joinpath("number_words.toml").read_text("utf-8"))
    return {name: _language(table) for name, table in read.items()}


def _language(table: Mapping[str, str]) -> Language:
    values: dict[str, int] = {}
    doubtful: set[str] = set()
    ranges = {
        "low": range(100),
        "tens": range(20, 100, 10),
        "hundreds": range(100, 1_000, 100),
        "scales": (1_000, 1_000_000, 1_000_000_000),
    }
    for name, numbers in ranges.items():
        for value, forms in zip(numbers, table[name].split(), strict=False):
            own = [form for form in forms.split("|") if form != "-"]
            values |= {form.lstrip("~"): value for form in own}
            doubtful |= {form[1:] for form in own if form[0] == "~"}
    values |= dict.fromkeys(table["unread"].split(), _UNREAD)
    rows = zip((*range(1, 20), 20, 30), table.get("ordinals", "").split(), strict=False)
    stems = {stem: value for value, row in rows for stem in row.split("|")}
    ends = [end.strip("-") for end in table.get("ordinal_ends", "").split()]
    ordinals = {f"{stem}{end}": value for stem, value in stems.items() for end in ends}
    spoken = frozenset(table["spoken"].split())
    return Language(values, frozenset(doubtful), frozenset(table["and"].split()), spoken, ordinals, stems)


def ordinal(words: Sequence[str]) -> tuple[int, int] | None:
    """Return the number below 40 that the last words say as an ordinal, with how many say it: `twenty first`, `пятого`."""
    for name, language in languages().items() if words else ():
        value = _ordinal(words[-1], language, name)
        if value is not None:
            before = words[-2] if len(words) > 1 and value < 10 else ""
            ten = language.ordinals.get(before) or (_parts(before, name) or (ENGLISH_BELOW_HUNDRED.get(before, 0),))[0]
            return (ten + value, 2) if ten in (20, 30) else (value, 1)
    return None


def _ordinal(word: str, language: Language, name: str) -> int | None:
    """Return the number of one word, which German and Dutch put together: `einundzwanzigsten`."""
    if word in language.ordinals or name not in ("de", "nl"):
        return language.ordinals.get(word)
    tens = [(form, value) for form, value in language.ordinals.items() if value >= 20 and word.endswith(form)]
    parts = [
        (value, _parts(word[: -len(form) - len(joint)], name)) for form, value in tens for joint in language.joints
    ]
    return next((value + own[0] for value, own in parts if len(own) == 1 and 0 < own[0] < 10), None)


def language_of(words: frozenset[str]) -> str:
    """Return the language of most words of a text, English before others; empty where none is told."""
    hits = {name: len(words & language.spoken) for name, language in languages().items()}
    cyrillic = any("а" <= word[0] <= "я" for word in words)
    return "ru" if cyrillic else max(hits, key=lambda name: hits[name]) if any(hits.values()) else ""


_KOREAN_UNITS = ("한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_KOREAN_TENS = ("열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_KOREAN = re.compile(
    rf"(?<![가-힣])(?=[가-힣])(?P<number>(?P<ten>{'|'.join(_KOREAN_TENS)}|스무)?(?P<unit>{'|'.join(_KOREAN_UNITS)})?)(?<=[가-힣])"
    r" ?(?:[대명개마자권장송사그병잔채켤척]|입니다|이다)"
)
"""A Korean number before a word that counts: `열두 마리`."""


def korean(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the Korean numbers of 1 to 99 in a text, each with its place: `열두 마리`, `다섯 개`."""
    for match in () if text.isascii() else _KOREAN.finditer(text):
        ten, unit = match["ten"], match["unit"]
        value = 20 if ten == "스무" else 10 * (_KOREAN_TENS.index(ten) + 1) if ten else 0
        yield value + (_KOREAN_UNITS.index(unit) + 1 if unit else 0), match.start(), match.end("number")


def spelled(words: Sequence[str], also: frozenset[str] = frozenset()) -> Iterator[Spelled]:
    """Yield the runs of number words of a text in lower case: each is one number or none.

    Args:
        words: words and signs of the text.
        also: words of its question, which help to tell the language.
    """
    if not any(map(_owners, words)):
        return
    text = also.union(words)
    hits = {name: len(text & language.spoken) for name, language in languages().items()}
    said = frozenset(words)
    end = 0
    for at, word in enumerate(words):
        owners = () if at < end else [name for name in _owners(word) if _parts_of(word, name, also)]
        if not owners:
            continue
        runs = [_run(words, at, name, also) for name in owners]
        end = 1 + max(run.last for run in runs)
        runs = [run for run in runs if run.last == end - 1 and _is_told(run, words, hits, said)]
        best = max((hits[run.language] for run in runs), default=0)
        runs = [run for run in runs if hits[run.language] == best]
        if len({run.value for run in runs}) == 1:
            yield runs[0]


def _is_told(run: Spelled, words: Sequence[str], hits: Mapping[str, int], said: frozenset[str]) -> bool:
    """Return True if a text may be in the language of a run: no other has as many of its words in it, or none is told."""
    language, most, first = languages()[run.language], max(hits.values()), words[run.first]
    is_first = hits[run.language] == most
    if run.value is None:
        return (is_first and most > 0) or not language.spoken
    is_english = first in ENGLISH_BELOW_HUNDRED  # `six cents` are 600 in French alone
    if is_english or (run.first == run.last and first in language.doubtful):
        # The reply's own words are not more of them English: `It sits on the wire` answers a Turkish question.
        rest = said.difference(words[run.first : run.last + 1])
        is_only = most > 0 and is_first and list(hits.values()).count(most) == 1
        return is_only and len(rest & languages()["en"].spoken) <= len(rest & language.spoken)
    return is_first or not language.spoken or run.first != run.last or first not in language.values


@lru_cache(maxsize=4_096)
def _owners(word: str) -> tuple[str, ...]:
    """Return the languages in which a word is one of numbers, or put together of such."""
    return tuple(name for name in languages() if _parts(word, name))


def _run(words: Sequence[str], start: int, name: str, asked: frozenset[str]) -> Spelled:
    """Return the longest run of number words of a language that starts at a word."""
    parts, at, last = list[int](), start, start
    while at < len(words) and len(parts) < 2 * MOST_PARTS:
        if own := _parts_of(words[at], name, asked):
            parts += own
            last = at
        elif words[at] not in joints(name):
            break
        at += 1
    value = _value(parts, name) if len(parts) <= MOST_PARTS else None
    return Spelled(start, last, value, name)


def _parts_of(word: str, name: str, asked: frozenset[str]) -> tuple[int, ...]:
    """Return `_parts`; none where the question names the word: `três quartos` are rooms then."""
    parts = _parts(word, name)
    return () if parts == (_UNREAD,) and word in asked else parts


@lru_cache(maxsize=4_096)
def _parts(word: str, name: str) -> tuple[int, ...]:
    """Return the values of the number words that a word is put together of; empty for any other word."""
    language, word = languages()[name], word if word.isascii() else unicodedata.normalize("NFC", word)
    if word in language.values:
        return (language.values[word],)
    if len(word) > LONGEST or len(word) < 4:
        return ()
    best: dict[int, tuple[int, ...]] = {0: ()}
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - 14), end):
            piece = word[start:end]
            if start not in best or (end in best and len(best[end]) <= len(best[start])):
                continue
            value = language.values.get(piece)
            elided = None if value is not None or end == len(word) else _elided(piece, word[end], name)
            if value is not None or elided is not None:
                best[end] = (*best[start], value if value is not None else elided or 0)
            elif piece in language.joints and 0 < end < len(word) and (start or name == "ar"):
                best[end] = best[start]
    return best.get(len(word), ())


def _elided(piece: str, following: str, name: str) -> int | None:
    """Return the value of an Italian ten without its vowel before another one: `vent-uno`, `trent-otto`."""
    if name != "it" or following not in "uo":
        return None
    return next(
        (value for word, value in languages()[name].values.items() if 20 <= value <= 100 and word[:-1] == piece), None
    )


def _value(parts: Sequence[int], name: str) -> int | None:
    """Return the number that parts make: 4 20 10 9 are 99 in French, 2 and 30 are 32 in German; None if they make none."""
    total = current = 0
    room = scale = 10**12  # what may be added next is less: after a hundred 100, after a ten 10, after units nothing
    for part in parts:
        if part >= 1_000:
            if part > scale == 1_000:  # `dos mil millones`
                total, current = 0, total + current
            elif part >= scale:
                return None
            total, current, scale, room = total + (current or 1) * part, 0, part, 1_000
        elif part == 100 and 0 < current < 10:
            current, room = current * 100, 100
        elif name == "fr" and part == 20 and current % 100 == 4:
            current, room = current + 76, 20
        elif _is_turned(part, current, name):
            current, room = current + part, 0
        elif part < room:
            low = 20 if name == "fr" and part in (60, 80) else 10 if part >= 20 else 0
            current, room = current + part, 100 if part >= 100 else low
        else:
            return None
    return total + current if min(parts) > 0 or parts == [0] else None


def _is_turned(part: int, current: int, name: str) -> bool:
    """Return True for units behind ten, or before tens, where a language says them so: `dix-sept`, `zwei-und-dreißig`."""
    if part < 10:
        return current % 20 == 10 and (name == "tr" or (name == "fr" and part >= 7))
    if part < 100 and 0 < current % 100 < 10:
        return name == "ar" if part == 10 else part >= 20 and name in ("de", "nl", "ar")
    return False


@cache
def heads() -> frozenset[str]:
    """Return the words with which a number in words begins, but for those of one, which are articles."""
    return frozenset(word for language in languages().values() for word, value in language.values.items() if value != 1)


@cache
def joints(name: str) -> frozenset[str]:
    """Return the words and signs that may stand between those of a language's numbers."""
    return languages()[name].joints.union(_JOINTS)


@cache
def scales() -> Mapping[str, int]:
    """Return the words of a thousand and more, with their powers of ten."""
    words = [pair for language in languages().values() for pair in language.values.items()]
    return {word: len(str(value)) - 1 for word, value in words if value >= 1_000}
