"""Reading a short answer: the one name that the reply gives, without the talk around it."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple, cast

from snellen.scoring.extract.cleaning import Reply
from snellen.scoring.extract.conclusion import NOTHING, Finding, conclude
from snellen.scoring.extract.cues import REFUSAL, UNSURE
from snellen.scoring.extract.phrases import (
    BRACKET,
    CALLED,
    CJK_IS,
    IS,
    LABEL,
    LEAD,
    NO_NAME,
    NOT_BUT,
    OR,
    OTHER_LABEL,
    SCIENTIFIC,
    TAIL,
    VERB,
    WEAK_WORDS,
)
from snellen.scoring.extract.reading import Reading
from snellen.scoring.names import CLASSES, MODIFIERS, stem, words

Key = tuple[str, ...]


class Asked(NamedTuple):
    """What the question asks for.

    Attributes:
        nouns: stems of the things asked about, places (`on the table`) left out.
        finer: it asks for a species, model, breed …: the class alone is no answer.
        quality: it asks for a colour, shape, size …: an adjective is an answer.
    """

    nouns: frozenset[str] = frozenset()
    finer: bool = False
    quality: bool = False


class _Names:
    """Names met in one reply: how they were written, and what stood in brackets after them."""

    def __init__(self) -> None:
        self.written: dict[Key, str] = {}
        self.also: dict[Key, tuple[str, ...]] = {}
        self.scientific: list[str] = []

    def key(self, name: str) -> Key:
        key = words(name)
        self.written.setdefault(key, " ".join(name.split()))
        return key


_BRACKETS = re.compile(rf"(?:{BRACKET.pattern})+")
_ASIDE = re.compile(r"\s*[,;(]|\s-+\s|\.\.\.")
_MAKE_MODEL = re.compile(r"\b(?:make|brand|manufacturer)\s*:\s*([^\n,;:]{1,40})[\n,;]++\s*+model\s*:\s*", re.I)
_PRECISE = re.compile(r"\b(?:i\.e\.|that is,|namely|more precisely|more specifically|in other words),?\s+(?=\w)", re.I)
_KNOWN_AS = re.compile(r"^[^.,;]{0,80}\b(?:called|named|known as)\s+(?P<name>.+)$", re.I | re.S)
_PLACE = re.compile(
    r"\b(?:on|in|at|behind|near|above|under|below|beside|next to|inside|from)\s+(?:the|this|these|that|a|an)\s+\w+",
    re.I,
)
_FINER = re.compile(r"\b(?:species|model|breed|variety|make|type|kind|variant|cultivar|scientific name|genus)\b", re.I)
_QUALITY = re.compile(
    r"\b(?:colou?r|shape|size|material|texture|pattern|word|action|doing|direction|side|where|attribute|weather|season|mood|"
    r"emotion|activity|state|condition|style|position|gender|language|time|day|month)s?\b",
    re.I,
)


@lru_cache(maxsize=2_048)
def _asked(question: str) -> Asked:
    text = question[-600:]
    nouns = frozenset(words(_PLACE.sub(" ", text)))
    return Asked(nouns - NO_NAME, _FINER.search(text) is not None, _QUALITY.search(text) is not None)


def read_short(reply: Reply, question: str) -> Reading:
    """The name that the reply gives, cleaned; `also` holds what it adds in brackets or as scientific name."""
    met = _Names()
    asked = _asked(question) if question else Asked()
    text = _MAKE_MODEL.sub(r"Model: \1 ", reply.text)
    lone = "\n" not in text

    def sentence(text: str, announced: bool) -> Finding:
        return _read(text, announced, met, asked, lone)

    def merge(values: list[Key]) -> list[Key]:
        return _merge(values, asked, met)

    def show(key: Key) -> str:
        return met.written.get(key, " ".join(key))

    reading = conclude(text, sentence, show=show, merge=merge)
    if reading.value is None:
        return reading
    key = cast(Key, reading.value)
    plain = all(word in MODIFIERS or word == "and" for word in key[:-1])
    if plain and key[-1] in CLASSES and (key[-1] in asked.nouns or (asked.finer and len(key) == 1)):
        return Reading(None, f"no answer: {show(key)} is only the class asked about")
    return Reading(show(key), None, (*met.also.get(key, ()), *(s for s in met.scientific if words(s) != key)))


def _merge(values: list[Key], asked: Asked, met: _Names) -> list[Key]:
    """Names of different things: a general name gives way to a finer one, a name in brackets to its owner."""
    kept: list[Key] = []
    for value in dict.fromkeys(values):
        if any(value == words(other) for key in kept for other in met.also.get(key, ())):
            continue
        if any(_within(value, key) for key in kept):
            continue
        kept = [
            key
            for key in kept
            if not _within(key, value) and not any(key == words(other) for other in met.also.get(value, ()))
        ]
        kept.append(value)
    fine = [key for key in kept if not (key[-1] in CLASSES or (len(key) == 1 and key[0] in asked.nouns))]
    return fine or kept


def _within(general: Key, fine: Key) -> bool:
    return fine[-len(general) :] == general or fine[: len(general)] == general


def _read(text: str, announced: bool, met: _Names, asked: Asked, lone: bool) -> Finding:
    if UNSURE.search(text) or REFUSAL.search(text):
        said = re.split(r"\b(?:but|however|though)\b", text, maxsplit=1)
        if len(said) < 2 or UNSURE.search(said[1]):
            return NOTHING
        text = said[1]
    if (text[-1:] == "?" and len(text.split()) > 6) or (text[-1:] == ":" and not lone):
        return NOTHING
    scientific = SCIENTIFIC.match(text)
    if scientific is not None:
        name = BRACKET.sub(" ", scientific.group("name")).strip(" .,;\"'")
        met.scientific.append(name)
        return Finding(weak=(met.key(name),))
    label = LABEL.match(text)
    if label is not None:
        return _named(label.group("name"), met, False, True, True)
    if not announced and not lone and OTHER_LABEL.match(text):
        return NOTHING
    if not text.isascii():
        cjk = CJK_IS.search(text)
        if cjk is not None:
            return _named(cjk.group("name") or cjk.group("name2") or "", met, False, True, True)
    return _stated(text, announced, met, asked)


def _stated(text: str, announced: bool, met: _Names, asked: Asked) -> Finding:
    turned = NOT_BUT.match(text)
    if turned is not None:
        return _named(turned.group("name"), met, False, True, True)
    bare, cuts = _unbracketed(text)
    found = IS.search(bare) if not announced or len(text.split()) > 3 else None
    if found is not None:
        name = text[_source(found.start("name"), cuts) :]
        if CALLED.match(name) is None and _can_be_named(found, name, asked):
            weak = (found.group("modal") or "").lower() in WEAK_WORDS or not WEAK_WORDS.isdisjoint(
                (found.group("hedge") or "").lower().split()
            )
            known = _KNOWN_AS.search(name)
            if known is not None:
                name = known.group("name")
            turned = NOT_BUT.match(name)
            return _named(turned.group("name") if turned else name, met, weak, False, asked.quality)
    called = CALLED.search(text)
    if called is not None:
        return _named(called.group("name"), met, False, announced, asked.quality)
    if found is not None and not announced:
        return NOTHING
    if announced or VERB.search(_ASIDE.split(bare, maxsplit=1)[0]) is None:
        return _named(text, met, text.lower().startswith(("possibly", "maybe", "perhaps")), True, True)
    return NOTHING


def _unbracketed(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text with one blank for each run of brackets, and where each blank is, with the characters cut up to there."""
    pieces: list[str] = []
    cuts: list[tuple[int, int]] = []
    at = cut = 0
    for run in _BRACKETS.finditer(text):
        pieces.append(text[at : run.start()])
        cuts.append((run.start() - cut, cut := cut + len(run.group()) - 1))
        at = run.end()
    return " ".join([*pieces, text[at:]]), cuts


def _source(position: int, cuts: list[tuple[int, int]]) -> int:
    """Where a character of an unbracketed text stands in the whole text."""
    before = bisect_left(cuts, (position, 0))
    return position + (cuts[before - 1][1] if before else 0)


def _can_be_named(found: re.Match[str], name: str, asked: Asked) -> bool:
    """Whether `subject is name` gives a name: with an article, a capital, or said of what was asked."""
    first = LEAD.sub("", name)[:1]
    if (
        re.match(r"(?:\w+ly\s+)?(?:an?|the|some|two|three|one)\s", name, re.IGNORECASE)
        or first.isupper()
        or first.isdigit()
    ):
        return True
    subject = (found.group("noun") or found.group("pronoun")).lower().split()
    if name.split()[0].lower().endswith("ly") or re.match(
        r"\w+(?:ed|ing)\s+(?:in|on|at|by|with|across|throughout|from|to)\b", name
    ):
        return False
    if subject[0] == "the" or subject[0] in ("my", "our", "your"):
        adjective = not asked.quality and name.split()[0].lower().rstrip(".").endswith(("ed", "ing"))
        return not adjective and any(stem(w) in asked.nouns for w in subject[1:])
    return asked.quality or len(TAIL.sub("", name).split()) <= 4


def _named(text: str, met: _Names, hedged: bool, firm: bool, quality: bool) -> Finding:
    precise = _PRECISE.search(text)
    if precise is not None:
        text = text[precise.end() :]
    others = tuple(m.group(1).strip(" .,;\"'") for m in BRACKET.finditer(text[:200]))
    text = BRACKET.sub(" ", text)
    name = LEAD.sub("", text.strip(" .,;:!?\"'*-"))
    if name.lower().startswith(("not ", "neither ", "n't", "no ")):
        return NOTHING
    name = TAIL.sub("", name).strip(" .,;:!?\"'*-")
    name = LEAD.sub("", name).strip(" .,;:!?\"'")
    if OR.search(name):
        parts = [part.strip(" .,;:!?\"'") for part in OR.split(name)]
        keys = tuple(dict.fromkeys(met.key(part) for part in parts if part))
        return Finding(keys, firm=firm) if len(keys) > 1 else NOTHING
    if not name or len(name.split()) > 9:
        return NOTHING
    key = met.key(name)
    if (
        not key
        or key[0] in NO_NAME
        or (len(key) == 1 and len(key[0]) == 1 and not key[0].isdigit() and key[0].isascii())
    ):
        return NOTHING
    extra = tuple(o for o in others if 0 < len(o.split()) <= 5)
    if extra:
        met.also.setdefault(key, extra)
    return Finding(weak=(key,)) if hedged else Finding((key,), firm=firm)
