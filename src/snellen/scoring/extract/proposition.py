"""What a sentence says of the claim in a yes/no question: the same, its opposite, or nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

from snellen.scoring.extract.sentences import Sentence, tokenize
from snellen.scoring.names import stem, terms

_INSTRUCTION = re.compile(
    r"\b(?:please\s+)?(?:answer|reply|respond|say|choose|select|output|write|give|state)\b[^.?!\n]*(?:yes|no|true|false|\bT\b|\bF\b|word|question|only)[^.?!\n]*[.?!]?"
    r"|\(?(?:true or false|yes or no|yes/no|true/false|T/F|\bT or F)\)?\s*[?:.]?|\b(?:question|statement)\s*:",
    re.IGNORECASE,
)
_DROP = terms(
    "a an the is are was were do does did be been being it its this that these those there of in on at to with "
    "and or as by for image picture photo photograph shown show depicted depict visible see seen can could you "
    "i we they he she which what please answer question statement follow below above here from has have had "
    "any some one yes no true false s both all appear appears look looks seem seems actually indeed really so "
    "very two pictured main very kind type sort species same-or-different"
) - {"above", "below"}
_NEGATORS = terms(
    "not never no none neither nor cannot without nothing nobody nowhere lacks lack absent hardly different fails"
)
_NOT_CONTENT = _NEGATORS - {"different", "nobody"}
_OPPOSITES = {
    frozenset(pair.split("/"))
    for pair in [
        "same/different",
        "same/distinct",
        "same/differ",
        "same/separate",
        "same/unlike",
        "identical/different",
        "identical/distinct",
        "left/right",
        "above/below",
        "over/under",
        "top/bottom",
        "front/behind",
        "near/far",
        "nearer/farther",
        "nearer/further",
        "closer/farther",
        "closer/further",
        "close/far",
        "larger/smaller",
        "bigger/smaller",
        "big/small",
        "large/small",
        "taller/shorter",
        "tall/short",
        "longer/shorter",
        "long/short",
        "more/fewer",
        "more/less",
        "higher/lower",
        "high/low",
        "open/closed",
        "wide/narrow",
        "full/empty",
        "on/off",
        "inside/outside",
        "indoors/outdoors",
        "indoor/outdoor",
        "day/night",
        "male/female",
        "young/old",
        "thick/thin",
        "hot/cold",
        "wet/dry",
        "clockwise/counterclockwise",
        "facing/away",
        "up/down",
        "match/mismatch",
        "alive/dead",
        "standing/sitting",
        "moving/still",
        "related/unrelated",
        "present/absent",
    ]
}
OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES:
    for _word in _pair:
        OPPOSITE.setdefault(_word, set()).update(_pair - {_word})
_SAME = {
    "identical": "same",
    "equal": "same",
    "alike": "same",
    "matching": "same",
    "distinct": "different",
    "differ": "different",
    "anyone": "person",
    "anybody": "person",
    "someone": "person",
    "somebody": "person",
    "nobody": "person",
    "human": "person",
    "separate": "different",
}
SHORT = re.compile(
    r"^(?:(?:so|well|therefore|thus|indeed|actually|and|,)\s*+(?:,\s*+)?+)*+(?:it|they|this|that|these|those|there|he|she|both|the\s+\w+(?:\s+\w+)?)\s?"
    r"(?P<aux>is|are|was|were|does|do|did|has|have|can|'s|'re)(?P<not>n't|\s+not|\s+none)?\s*(?:indeed|really|any|at all|so|the case)?\s*[.!,]?\s*$",
    re.IGNORECASE,
)


class Proposition(NamedTuple):
    """The claim of a question.

    Attributes:
        content: stems of its content words, in order.
        negated: the claim itself denies (`This is not a robin.`).
        name: stems of the name that it gives to a thing (`Is this bird a red kite?`), empty where it gives none.
    """

    content: tuple[str, ...]
    negated: bool
    name: tuple[str, ...] = ()


def proposition(question: str) -> Proposition | None:
    """The claim that a yes/no question asks about, None where nothing of it can be compared."""
    text = _indexes_gone(_INSTRUCTION.sub(" ", question[-600:])).strip()
    if not text:
        return None
    sentence = tokenize(text)
    content = content_of(sentence)
    if not content:
        return None
    given = _NAME.search(text)
    name = content_of(tokenize(given.group("name") or given.group("name2"))) if given is not None else ()
    if not OPPOSITE.keys().isdisjoint(name[:2]):
        name = ()  # `is to the left of the lamp`: a relation and no name
    return Proposition(content, negations(sentence.words) % 2 == 1, name)


_NAME = re.compile(
    r"^(?:is|are|was)\s+(?:.*?\ban?|(?:this|it|that)\s+the)\s+(?P<name>[^?.!,]+?)(?=\s+(?:in|on|with|from|or)\b|[?.!,]|$)"
    r"|^(?!is\b|are\b|was\b|do\b|does\b).*?\b(?:is|are|shows?|depicts?)\s+(?:an?|the)\s+(?P<name2>[^?.!,]+?)(?=\s+(?:in|on|with|from|or)\b|[?.!,]|$)",
    re.IGNORECASE,
)
_INDEX = re.compile(
    r"\b(?:images?|pictures?|photos?|frames?)\s*#?\d+(?:\s*(?:,|and|&)\s*(?:image |picture |photo )?#?\d+)*"
    r"|\b(?:first|second|third|fourth|1st|2nd) (?=image|picture|photo|frame|one)",
    re.IGNORECASE,
)


def _indexes_gone(text: str) -> str:
    return _INDEX.sub(" image ", text)


def content_of(sentence: Sentence) -> tuple[str, ...]:
    found = (
        stem(w)
        for w in sentence.words
        if w[0].isalnum() and w not in _DROP and w not in _NOT_CONTENT and not w.endswith("n't")
    )
    return tuple(dict.fromkeys(_SAME.get(w, w) for w in found if w not in _DROP))


def negations(words: list[str]) -> int:
    return sum(1 for w in words if (w in _NEGATORS and w != "different") or w.endswith("n't"))
