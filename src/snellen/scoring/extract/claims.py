"""Claims of yes/no questions, and whether a sentence of the reply affirms or denies them."""

from __future__ import annotations

import re
from typing import NamedTuple

from snellen.scoring.extract.patterns import Cue
from snellen.scoring.extract.tokenize import Sentence, tokenize
from snellen.scoring.name_match import CLASSES, stem
from snellen.text import terms

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
_PAIRS = terms(
    "same/different same/distinct same/differ same/separate same/unlike identical/different identical/distinct "
    "left/right above/below over/under top/bottom front/behind near/far nearer/farther nearer/further "
    "closer/farther closer/further close/far larger/smaller bigger/smaller big/small large/small taller/shorter "
    "tall/short longer/shorter long/short more/fewer more/less higher/lower high/low open/closed wide/narrow "
    "full/empty on/off inside/outside indoors/outdoors indoor/outdoor day/night male/female young/old thick/thin "
    "hot/cold wet/dry clockwise/counterclockwise facing/away up/down match/mismatch alive/dead standing/sitting "
    "moving/still related/unrelated present/absent"
)
OPPOSITE: dict[str, set[str]] = {}
for _pair in _PAIRS:
    _first, _second = _pair.split("/")
    OPPOSITE.setdefault(_first, set()).add(_second)
    OPPOSITE.setdefault(_second, set()).add(_first)
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
        negated: the claim itself is negative (`This is not a robin.`).
        name: stems of the name that it assigns (`Is this bird a red kite?`); empty if it assigns none.
    """

    content: tuple[str, ...]
    negated: bool
    name: tuple[str, ...] = ()


def proposition(question: str) -> Proposition | None:
    """Return the claim of a yes/no question; None if it has no content words."""
    text = _INDEX.sub(" image ", _INSTRUCTION.sub(" ", question[-600:])).strip()
    if not text:
        return None
    sentence = tokenize(text)
    content = content_of(sentence)
    if not content:
        return None
    match = _NAME.search(text)
    name = content_of(tokenize(match.group("name") or match.group("name2"))) if match is not None else ()
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


def content_of(sentence: Sentence) -> tuple[str, ...]:
    """Return the stems of a sentence's content words, in order."""
    content_words = (
        stem(w)
        for w in sentence.words
        if w[0].isalnum() and w not in _DROP and w not in _NOT_CONTENT and not w.endswith("n't")
    )
    return tuple(dict.fromkeys(_SAME.get(w, w) for w in content_words if w not in _DROP))


def negations(words: list[str]) -> int:
    """Count the negations among words."""
    return sum(1 for w in words if (w in _NEGATORS and w != "different") or w.endswith("n't"))


class Stance(NamedTuple):
    """The stance of a sentence on a claim; `strict`: it repeats every word; `weak`: it hedges (`could`, `might` …)."""

    value: bool
    strict: bool
    weak: bool


_REASON = re.compile(
    r"\b(?:because|since|as|due to|given|so|which|with|based on|despite|although|though|even|judging|considering|while|"
    r"whereas|instead)\b|[;:(]| - ",
    re.IGNORECASE,
)
_CONTRAST = Cue(
    r"(?:,|;)?\s*\b(?:but )?(?:and )?(?:not|rather than|instead of|as opposed to)\s+(?=an?\b|the\b|to\b|on\b|[A-Z])",
    "not rather instead opposed",
)
_NOT_BUT = Cue(r"\bnot (?:an?|the) [^,;]{1,50}?,? but (?:rather |actually |instead )?(?=an?\b|the\b)", "not")
_IS_A = re.compile(
    r"^(?:\W|so\b|no\b|yes\b|actually\b|i (?:think|believe|see)\b|that\b(?= th))*(?:this|it|that|these|they|the [\w' -]{1,40}?)\s?(?:is|are|'s|'re|looks like|appears to be|seems to be|looks to be)\s+"
    r"(?:most likely |likely |probably |actually |indeed |clearly |in fact |really |obviously |definitely )*(?:an?|the)\s+(?P<name>[^,.;!?()]+)",
    re.IGNORECASE,
)
_POINTING = terms(
    "it this that these those they the both there he she i i'm we all neither image picture its it's they're each two yes no here none nobody nothing we're"
)
_PRESENT = terms("visible present seen shown found")
_TENTATIVE = terms("could might may possibly perhaps maybe possible")
_SYMMETRIC = terms("same different match mismatch related unrelated open closed full empty on off")


def compare(sentence: Sentence, claim: Proposition) -> Stance | None:
    """Return the stance of a sentence's main clause on the claim; None if it neither affirms nor denies it."""
    short = SHORT.match(sentence.text) if len(sentence.words) < 8 else None
    if short is not None:
        return Stance((short.group("not") is None) != claim.negated, True, False)
    text = sentence.text
    turned = _NOT_BUT.search(text)
    if turned is not None:
        text = text[: turned.start()] + text[turned.end() :]
    contrast = _CONTRAST.search(text)
    if (
        contrast is not None
        and contrast.start() > 8
        and not re.search(r"\b(?:is|are|was|does|do|'s|'re)\s*$", text[: contrast.start()], re.IGNORECASE)
    ):
        denied = set(content_of(tokenize(text[contrast.end() :])))
        text = text[: contrast.start()]
        if claim.name and denied.issuperset(claim.name) and not set(content_of(tokenize(text))).issuperset(claim.name):
            return Stance(claim.negated, False, False)
    reason = _REASON.search(text, 12)
    if reason is not None:
        text = text[: reason.start()]
    return _said(tokenize(text), claim)


def _said(sentence: Sentence, claim: Proposition) -> Stance | None:
    words = sentence.words
    content = content_of(sentence)
    fragment = len(words) <= 4
    if (
        not content
        or "or" in words
        or not (
            fragment or any(w in _POINTING or w.endswith("'s") for w in words[:4]) or not _PRESENT.isdisjoint(words)
        )
    ):
        return None
    heard = set(content)
    weak = not _TENTATIVE.isdisjoint(words)
    shared = [word for word in claim.content if word in heard]
    flips = [w for w in claim.content if w not in heard and not heard.isdisjoint(OPPOSITE.get(w, ()))]
    aside = len(words) > 1 and words[0] in ("no", "yes") and not words[1].isalnum()
    negated = negations(words[1:] if aside else words) % 2 == 1
    relations = [w for w in claim.content if w in OPPOSITE]
    both_sides = any(w in heard and not heard.isdisjoint(OPPOSITE[w]) for w in relations)
    if both_sides or (relations and not claim.name and not flips and not heard.intersection(relations)):
        return None  # both sides are named (`the lamp left, the sofa right`), or the relation asked about is not
    if len(flips) == 1 and (len(shared) + 1 >= (len(claim.content) + 1) // 2 or len(words) <= 7):
        return Stance(negated != claim.negated, False, weak)
    relation = len(words) <= 6 and any(word in OPPOSITE for word in shared)
    enough = bool(shared) and claim.content[-1] in heard and 3 * len(shared) >= 2 * len(claim.content)
    coarser = negated and bool(claim.name) and claim.name[-1] in heard  # `not a hawk` is no red-tailed hawk either
    named = bool(claim.name) and (heard.issuperset(claim.name) or coarser)
    if flips or not (relation or enough or named):
        return None if flips or negated else _other_name(sentence.text, claim, weak)
    if enough and _swapped(content, claim.content, relations):
        return Stance(negated != claim.negated, False, weak)
    return Stance(negated == claim.negated, len(shared) == len(claim.content), weak)


def _other_name(text: str, claim: Proposition, weak: bool) -> Stance | None:
    """Return a denial if the sentence gives another name: `This is a sparrow.` denies `Is this a robin?`.

    `This is a bird.` and other coarser names deny nothing.
    """
    match = _IS_A.match(text)
    if match is None or not claim.name:
        return None
    name = content_of(tokenize(match.group("name").split(" in ")[0].split(" on ")[0].split(" of ")[0]))
    if not name or name[-1] in CLASSES or set(name) <= set(claim.content) or set(claim.name) <= set(name):
        return None
    if " of " in match.group("name") or "with" in text:
        return None
    return Stance(claim.negated, False, weak)


def _swapped(sentence_content: tuple[str, ...], claim_content: tuple[str, ...], relations: list[str]) -> bool:
    """Return True if the two objects of a one-way relation are swapped: `lamp left of sofa`, `sofa left of lamp`."""
    if len(relations) != 1 or relations[0] in _SYMMETRIC or relations[0] not in sentence_content:
        return False
    at = claim_content.index(relations[0])
    before, after = (set(part).intersection(sentence_content) for part in (claim_content[:at], claim_content[at + 1 :]))
    if not before or not after:
        return False
    place = sentence_content.index
    return max(map(place, after)) < place(relations[0]) < min(map(place, before))
