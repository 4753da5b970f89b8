"""Whether a full sentence agrees with the claim of a yes/no question, denies it, or does neither."""

from __future__ import annotations

import re
from typing import NamedTuple

from snellen.scoring.extract.cues import Cue
from snellen.scoring.extract.proposition import OPPOSITE, SHORT, Proposition, content_of, negations
from snellen.scoring.extract.sentences import Sentence, tokenize
from snellen.scoring.names import CLASSES, terms


class Said(NamedTuple):
    """What a sentence says of a claim; `strict`: it takes up every word of it; `weak`: with `could`, `might` …"""

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


def compare(sentence: Sentence, claim: Proposition) -> Said | None:
    """What the main clause of a sentence says of the claim; None where it says neither that nor its opposite."""
    short = SHORT.match(sentence.text) if len(sentence.words) < 8 else None
    if short is not None:
        return Said((short.group("not") is None) != claim.negated, True, False)
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
            return Said(claim.negated, False, False)
    reason = _REASON.search(text, 12)
    if reason is not None:
        text = text[: reason.start()]
    return _said(tokenize(text), claim)


def _said(sentence: Sentence, claim: Proposition) -> Said | None:
    words = sentence.words
    said = content_of(sentence)
    fragment = len(words) <= 4
    if (
        not said
        or "or" in words
        or not (
            fragment or any(w in _POINTING or w.endswith("'s") for w in words[:4]) or not _PRESENT.isdisjoint(words)
        )
    ):
        return None
    heard = set(said)
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
        return Said(negated != claim.negated, False, weak)
    relation = len(words) <= 6 and any(word in OPPOSITE for word in shared)
    enough = bool(shared) and claim.content[-1] in heard and 3 * len(shared) >= 2 * len(claim.content)
    coarser = negated and bool(claim.name) and claim.name[-1] in heard  # `not a hawk` is no red-tailed hawk either
    named = bool(claim.name) and (heard.issuperset(claim.name) or coarser)
    if flips or not (relation or enough or named):
        return None if flips or negated else _other_name(sentence.text, claim, weak)
    if enough and _swapped(said, claim.content, relations):
        return Said(negated != claim.negated, False, weak)
    return Said(negated == claim.negated, len(shared) == len(claim.content), weak)


def _other_name(text: str, claim: Proposition, weak: bool) -> Said | None:
    """`This is a sparrow.` denies `Is this a robin?`; `This is a bird.` says nothing, nor does a coarser name."""
    given = _IS_A.match(text)
    if given is None or not claim.name:
        return None
    name = content_of(tokenize(given.group("name").split(" in ")[0].split(" on ")[0].split(" of ")[0]))
    if not name or name[-1] in CLASSES or set(name) <= set(claim.content) or set(claim.name) <= set(name):
        return None
    if " of " in given.group("name") or "with" in text:
        return None
    return Said(claim.negated, False, weak)


def _swapped(said: tuple[str, ...], asked: tuple[str, ...], relations: list[str]) -> bool:
    """Whether the two things of a one-way relation have changed places: `lamp left of sofa` for `sofa left of lamp`."""
    if len(relations) != 1 or relations[0] in _SYMMETRIC or relations[0] not in said:
        return False
    at = asked.index(relations[0])
    before, after = set(asked[:at]) & set(said), set(asked[at + 1 :]) & set(said)
    if not before or not after:
        return False
    return max(map(said.index, after)) < said.index(relations[0]) < min(map(said.index, before))
