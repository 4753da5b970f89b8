"""What a sentence says of the claim in a yes/no question: the same, its opposite, or nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

from snellen.scoring.extract.sentences import Sentence, tokenize
from snellen.scoring.names import stem, terms

_INSTRUCTION = re.compile(
    r"\b(?:please\s+)?(?:answer|reply|respond|say|choose|select|output|write|give|state)\b[^.?!\n]*(?:yes|no|true|false|\bT\b|\bF\b|word|question|only)[^.?!\n]*[.?!]?"
    r"|\(?(?:true or false|yes or no|yes/no|true/false|T/F)\)?\s*[?:.]?|\b(?:question|statement)\s*:",
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
        "light/dark",
        "thick/thin",
        "heavy/light",
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
_OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES:
    for _word in _pair:
        _OPPOSITE.setdefault(_word, set()).update(_pair - {_word})
_SAME = {
    "identical": "same",
    "equal": "same",
    "alike": "same",
    "matching": "same",
    "distinct": "different",
    "differ": "different",
    "separate": "different",
}
_SHORT = re.compile(
    r"^(?:(?:so|well|therefore|thus|indeed|actually|and|,)\s*,?\s*)*(?:it|they|this|that|these|those|there|he|she|both|the\s+\w+(?:\s+\w+)?)\s?"
    r"(?P<aux>is|are|was|were|does|do|did|has|have|can|'s|'re)(?P<not>n't|\s+not|\s+none)?\s*(?:indeed|really|any|at all|so|the case)?\s*[.!,]?\s*$",
    re.IGNORECASE,
)


class Proposition(NamedTuple):
    """The claim of a question.

    Attributes:
        content: stems of its content words, in order.
        negated: the claim itself denies (`This is not a robin.`).
    """

    content: tuple[str, ...]
    negated: bool


def proposition(question: str) -> Proposition | None:
    """The claim that a yes/no question asks about, None where nothing of it can be compared."""
    text = _INSTRUCTION.sub(" ", question[-600:]).strip()
    if not text:
        return None
    sentence = tokenize(text)
    content = _content(sentence)
    if not content:
        return None
    return Proposition(content, _negations(sentence.words) % 2 == 1)


def _content(sentence: Sentence) -> tuple[str, ...]:
    found = (
        stem(w)
        for w in sentence.words
        if w[0].isalnum() and w not in _DROP and w not in _NEGATORS - {"different"} and not w.endswith("n't")
    )
    return tuple(dict.fromkeys(_SAME.get(w, w) for w in found if w not in _DROP))


def _negations(words: list[str]) -> int:
    return sum(1 for w in words if (w in _NEGATORS and w != "different") or w.endswith("n't"))


class Said(NamedTuple):
    """What a sentence says of a claim; `strict`: it takes up every word of it; `weak`: with `could`, `might` …"""

    value: bool
    strict: bool
    weak: bool


_REASON = re.compile(
    r"\b(?:because|since|as|due to|given|so|which|with|based on|despite|although|though|even|judging|considering|while|whereas|instead|but|rather than)\b|[;:(]| - ",
    re.IGNORECASE,
)
_POINTING = terms(
    "it this that these those they the both there he she i we all neither image picture its it's they're each two yes no here none"
)
_TENTATIVE = terms("could might may possibly perhaps maybe possible")


def compare(sentence: Sentence, claim: Proposition) -> Said | None:
    """What the main clause of a sentence says of the claim; None where it says neither that nor its opposite."""
    short = _SHORT.match(sentence.text)
    if short is not None:
        if len(sentence.words) >= 8:
            return None
        return Said((short.group("not") is None) != claim.negated, True, False)
    reason = _REASON.search(sentence.text, 12)
    if reason is not None:
        sentence = tokenize(sentence.text[: reason.start()])
    said = _content(sentence)
    fragment = len(sentence.words) <= 4
    if (
        not said
        or "or" in sentence.words
        or (not fragment and not any(w in _POINTING or w.endswith("'s") for w in sentence.words[:4]))
    ):
        return None
    heard = set(said)
    weak = not _TENTATIVE.isdisjoint(sentence.words)
    shared = [word for word in claim.content if word in heard]
    flips = [w for w in claim.content if w not in heard and not heard.isdisjoint(_OPPOSITE.get(w, ()))]
    spoken = sentence.words[1:] if sentence.words[0] in ("no", "yes") else sentence.words
    negated = _negations(spoken) % 2 == 1
    relations = [w for w in claim.content if w in _OPPOSITE]
    if any(w in heard and not heard.isdisjoint(_OPPOSITE[w]) for w in relations) or (
        relations and not flips and not heard.intersection(relations)
    ):
        return None  # both sides are named (`the lamp left, the sofa right`), or the relation asked about is not
    if len(flips) == 1 and (len(shared) + 1 >= (len(claim.content) + 1) // 2 or len(sentence.words) <= 7):
        return Said(negated != claim.negated, False, weak)
    relation = any(word in _OPPOSITE for word in shared) and len(sentence.words) <= 6
    enough = len(shared) >= max(1, -(-2 * len(claim.content) // 3)) and claim.content[-1] in heard
    if not flips and enough and _swapped(said, claim.content, relations):
        return Said(negated != claim.negated, False, weak)
    if not flips and (relation or enough):
        return Said(negated == claim.negated, len(shared) == len(claim.content), weak)
    return None


_SYMMETRIC = terms("same different match mismatch related unrelated open closed full empty on off")


def _swapped(said: tuple[str, ...], asked: tuple[str, ...], relations: list[str]) -> bool:
    """Whether the two things of a one-way relation have changed places: `lamp left of sofa` for `sofa left of lamp`."""
    if len(relations) != 1 or relations[0] in _SYMMETRIC or relations[0] not in said:
        return False
    at = asked.index(relations[0])
    before, after = set(asked[:at]) & set(said), set(asked[at + 1 :]) & set(said)
    if not before or not after:
        return False
    return max(map(said.index, after)) < said.index(relations[0]) < min(map(said.index, before))
