"""The final answer of a reply: markers, conclusions, corrections and contradictions among its sentences.

Each kind of question (truth, choice, count, number, short) reads single sentences; this module ranks their claims:

1. an announced answer (`The answer is`, `Final answer:`, a bare answer at the head), before
2. a conclusion (`so …`, `therefore …`), before
3. a plain assertion, before
4. a value that is only considered (`could be`, `similar to`).

At each level one value is an answer and two are none, unless the reply corrects itself in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from snellen.scoring.extract.base import Reading, two_answers
from snellen.scoring.extract.patterns import (
    CONCLUSION,
    CORRECTION,
    FINAL,
    HEADER,
    REFUSAL,
    SUPERSEDED,
    SUPERSEDING,
    ULTIMATE,
    UNSURE,
)
from snellen.scoring.extract.tokenize import split


class SentenceFinding(NamedTuple):
    """The values that one sentence asserts, considers or denies.

    Attributes:
        values: asserted, distinct, in order.
        weak: only considered or hedged.
        denied: explicitly excluded.
        firm: the sentence is an answer by itself (`Yes, …`, `B`, `There are 3 birds`).
        final: the sentence states a total or result (`3 in total`, `2 + 1 = 3`).
        problem: why the sentence, taken as the answer, names none (`range`, `none of the options`).
    """

    values: tuple[Any, ...] = ()
    weak: tuple[Any, ...] = ()
    denied: tuple[Any, ...] = ()
    firm: bool = False
    final: bool = False
    problem: str | None = None


NOTHING = SentenceFinding()


class RankedClaim(NamedTuple):
    """Values of a reply with the rank (tier) of the sentence that gives them."""

    values: tuple[Any, ...]
    tier: int
    problem: str | None


Reader = Callable[[str, bool], SentenceFinding]
"""A reader of one sentence; its flag is True if a marker announced the sentence as the answer."""

MARKED, FIRM, DRAWN, PLAIN, CONSIDERED = 4, 3, 2, 1, 0


def distinct(values: list[Any]) -> list[Any]:
    """Return values without repeats, in order."""
    return list(dict.fromkeys(values))


def conclude(
    text: str,
    read: Reader,
    *,
    universe: Sequence[Any] = (),
    show: Callable[[Any], str] = str,
    merge: Callable[[list[Any]], list[Any]] = distinct,
) -> Reading:
    """Return the one answer of a text, or the reason why there is none.

    Args:
        text: a cleaned reply.
        read: reads one sentence.
        universe: all possible values, if known: when all but one are denied, that one is the answer.
        show: formats a value for a reason.
        merge: reduces values to the different ones, where equality is not enough (`hawk`, `red-tailed hawk`).
    """
    if not text:
        return Reading(None, "empty reply")
    sentences = split(text)
    if len(sentences) > SHORT:
        read = _once(read)
        marked = [i for i, sentence in enumerate(sentences) if FINAL.search(sentence)]
        if marked:  # what is said in the middle of a long reply weighs nothing beside an announced answer
            corrects = CORRECTION.parts_in(text)  # what a text does not hold is in none of its sentences
            corrected = [i for i in range(marked[-1]) if corrects and CORRECTION.search(sentences[i])]
            chosen = {0, *marked, *corrected, *range(marked[-1], len(sentences))}
            claims, denied, unsure = _collect([sentences[i] for i in sorted(chosen)], read)
            if any(claim.tier >= MARKED for claim in claims):
                return _weigh(claims, denied, unsure, text, universe, show, merge)
    claims, denied, unsure = _collect(sentences, read)
    return _weigh(claims, denied, unsure, text, universe, show, merge)


def _once(read: Reader) -> Reader:
    """Cache the findings of a reply's sentences: models repeat themselves, and some sentences are read twice."""
    known: dict[tuple[str, bool], SentenceFinding] = {}

    def remembered(text: str, announced: bool) -> SentenceFinding:
        finding = known.get((text, announced))
        if finding is None:
            finding = known[text, announced] = read(text, announced)
        return finding

    return remembered


_ASKS = re.compile(r"(?:is|are|was|do|does|did|can|could|has|have|what|which|how|who|where|why|when)\b", re.IGNORECASE)
SHORT = 6
"""A reply of at most this many sentences is read completely, even if it announces an answer."""


def _collect(sentences: list[str], read: Reader) -> tuple[list[RankedClaim], list[Any], bool]:
    """Return claims and denied values of the sentences in order, and True if one says that the answer is unknowable."""
    claims: list[RankedClaim] = []
    denied: list[Any] = []
    unsure = False
    pending = False  # a marker stood at the end of the sentence before: `Answer:` and then a line
    for index, sentence in enumerate(sentences):
        if (
            sentence[-1] == "?"
            and not pending
            and (index < len(sentences) - 1 or len(sentence) > 30 or _ASKS.match(sentence))
        ):
            continue  # a question that the reply asks itself, or repeats
        unsure |= _take(sentence, index == 0, pending, read, claims, denied)
        pending = len(sentence) < 160 and (
            HEADER.match(sentence) is not None
            or any(marker.end() >= len(sentence) for marker in FINAL.finditer(sentence))
            or (sentence[-1] in ":>=-" and FINAL.search(sentence) is not None)
        )
    return claims, denied, unsure


def _take(sentence: str, head: bool, pending: bool, read: Reader, claims: list[RankedClaim], denied: list[Any]) -> bool:
    """Read one sentence into claims; return True if it says that the answer cannot be known."""
    start = 0
    corrections = list(CORRECTION.finditer(sentence)) if len(sentence) > 4 else []
    for cue in corrections:
        if cue.start() > start:
            _part(sentence[start : cue.start()], head and start == 0, pending, read, claims, denied)
        claims.append(RankedClaim((), -1, None))
        start = cue.end()
    part = sentence[start:].strip(" ,:-.") if start else sentence
    if part:
        _part(part, head and not start, pending, read, claims, denied)
    return UNSURE.search(sentence) is not None


def _part(
    part: str, head: bool, pending: bool, read: Reader, claims: list[RankedClaim], denied: list[Any], depth: int = 0
) -> None:
    granted = _GRANTED.match(part)
    if granted is not None:  # `Although it resembles A, …`
        thought = read(granted.group("granted"), False)
        if thought.values or thought.weak:
            claims.append(RankedClaim((*thought.values, *thought.weak), CONSIDERED, None))
        part = part[granted.end() :]
    old = SUPERSEDED.search(part) if len(part) > 20 and depth < 3 else None
    if old is not None:
        new = SUPERSEDING.search(part, old.end())
        end = new.start() if new is not None else len(part)
        before = read(part[: old.start()].rstrip(" ,"), pending) if old.start() > 3 else NOTHING
        thought = read(part[old.end() : end], False)
        considered = tuple(v for v in (*thought.values, *thought.weak) if v not in before.values)
        if considered:
            claims.append(RankedClaim(considered, CONSIDERED, None))
        remainder = (part[: old.start()] + " " + part[end:]).strip(" ,;:")
        if remainder and remainder != part:
            _part(remainder, head, pending, read, claims, denied, depth + 1)
        return
    markers = list(FINAL.finditer(part))
    if markers:
        marker = markers[-1]
        announced = part[marker.end() :].strip(" ,")
        if not announced:
            return  # the answer stands in the next sentence
        finding = read(announced, True)
        denied.extend(finding.denied)
        if finding.values or finding.weak or finding.problem:
            ultimate = ULTIMATE.search(part[max(0, marker.start() - 12) : marker.start()]) is not None
            _claim(finding, MARKED + ultimate, claims)
            return
    for cue in list(CONCLUSION.finditer(part))[:-4:-1]:
        drawn = read(part[cue.end() :].strip(" ,:"), pending) if cue.start() > 3 and cue.end() < len(part) else NOTHING
        if drawn.values or drawn.problem:
            denied.extend(drawn.denied)
            _claim(drawn, MARKED if pending or drawn.final else DRAWN, claims)
            return
    finding = read(part, pending)
    denied.extend(finding.denied)
    if pending or finding.final:
        tier = MARKED
    elif finding.firm:
        tier = FIRM
    elif CONCLUSION.search(part):
        tier = DRAWN
    else:
        tier = PLAIN
    _claim(finding, tier, claims)


_GRANTED = re.compile(
    r"^(?:while|although|though|even though|even if|despite|whereas|if)\b(?P<granted>[^,.]{3,200}),\s*", re.IGNORECASE
)


def _claim(finding: SentenceFinding, tier: int, claims: list[RankedClaim]) -> None:
    if finding.values:
        claims.append(RankedClaim(finding.values, tier, finding.problem))
    elif finding.weak:
        claims.append(RankedClaim(finding.weak, tier if tier >= MARKED else CONSIDERED, finding.problem))
    elif finding.problem:
        claims.append(RankedClaim((), tier, finding.problem))


def _weigh(
    claims: list[RankedClaim],
    denied: list[Any],
    unsure: bool,
    text: str,
    universe: Sequence[Any],
    show: Callable[[Any], str],
    merge: Callable[[list[Any]], list[Any]],
) -> Reading:
    # what stands before a correction is taken back when something is claimed after it
    claimed = False
    for index in range(len(claims) - 1, -1, -1):
        claimed = claimed or claims[index].tier >= PLAIN
        if claimed and claims[index].tier == -1:
            claims = claims[index + 1 :]
            break
    claims = [claim for claim in claims if claim.tier >= 0]
    if not claims:
        return _eliminate(denied, universe) or _nothing(text, unsure)
    top = max(claim.tier for claim in claims)
    if top >= MARKED:
        first = next(i for i, claim in enumerate(claims) if claim.tier == top)
        strong = [claim for claim in claims[first:] if claim.tier >= MARKED]
        later = [claim for claim in claims[first + 1 :] if claim.tier in (FIRM, DRAWN)]
        head = [claims[0]] if claims[0].tier == FIRM and top == MARKED else []
        return _agree(strong, later + head, show, merge)
    if top == FIRM:
        strong = [claim for claim in claims if claim.tier == FIRM]
        drawn = [claim for claim in claims if claim.tier == DRAWN][-1:]
        return _agree(strong, drawn, show, merge)
    if top == DRAWN:
        return _agree([claim for claim in claims if claim.tier == DRAWN][-1:], [], show, merge)
    level = [claim for claim in claims if claim.tier == top]
    return _agree([claim for claim in level if claim.values] or level, [], show, merge)


def _agree(
    strong: list[RankedClaim],
    others: list[RankedClaim],
    show: Callable[[Any], str],
    merge: Callable[[list[Any]], list[Any]],
) -> Reading:
    problem = next((claim.problem for claim in strong if claim.problem), None)
    if problem:
        return Reading(None, problem)
    values = merge([value for claim in strong for value in claim.values])
    if len(values) > 1:
        return two_answers([show(value) for value in values])
    for claim in others:
        added = values[0] not in claim.values and len(merge([values[0], *claim.values])) > len(claim.values)
        if claim.values and added:
            return Reading(None, f"contradicts itself: {show(values[0])[:40]}, {show(claim.values[0])[:40]}")
    return Reading(values[0], None)


def _eliminate(denied: list[Any], universe: Sequence[Any]) -> Reading | None:
    remaining = [value for value in universe if value not in denied]
    if len(remaining) == 1 and len(universe) > 1:
        return Reading(remaining[0], None)
    return None


def _nothing(text: str, unsure: bool) -> Reading:
    if REFUSAL.search(text):
        return Reading(None, "refusal")
    return Reading(None, "hedged" if unsure else "no answer")
