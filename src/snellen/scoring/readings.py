"""Readings by a model: the answer that a reader quotes from a reply which the rules leave unread, and its score.

A reader points and cannot invent. Its quote must stand in the reply, as whole words and numbers and outside of thinking, and the
sample's own rules read the quote as they read any reply. An option that the reader names besides must be the one that the quote
names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs

from snellen.scoring.answers.fold import folded
from snellen.scoring.replies.reply import outside_thinking, visible
from snellen.scoring.rubric import OPTION, QUOTE, REPLY_CHARACTERS, shortened, shown_parts, verdict_object
from snellen.types import Sample, Score

STAGE, READER, EVIDENCE = "stage", "reader", "evidence"
"""Names in a score's detail: the stage that read the reply, its value here, and start and end of the words that were read."""
PROFILE = "strict"
"""The only scoring profile that readings belong to."""
QUOTE_CHARACTERS = 500
_SIGNS = "+-−–±"
_SEPARATORS = ".,:/"
_SPACED_SCRIPTS = 0x0E00
"""Scripts below this code point divide words by blanks."""


class Quote(Struct, frozen=True):
    """What a reader quotes from a reply: the text as it stands there, its place, and the option that it names.

    An empty text says that the reply has no answer.
    """

    text: str = ""
    option: str = ""
    start: int = 0
    end: int = 0


def read_quote(said: str, reply: str) -> Quote:
    """Parse what a reader says of a reply.

    Raises:
        ValueError: it is not the object that was asked for, or its quote does not stand in the reply.
    """
    answer = verdict_object(said)
    if QUOTE not in answer:
        raise ValueError(f"the object has no {QUOTE!r}")
    quoted, option = answer[QUOTE], answer.get(OPTION)
    for name, value in ((QUOTE, quoted), (OPTION, option)):
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name!r} must be a text or null")
    if quoted is None or not quoted.strip():
        return Quote()
    if len(quoted) > QUOTE_CHARACTERS:
        raise ValueError(f"{QUOTE!r} has {len(quoted):,} characters, and an answer has at most {QUOTE_CHARACTERS}")
    place = find_quote(quoted, reply)
    if place is None:
        raise ValueError(f"its quote {shortened(quoted, 60)!r} does not stand in the reply as whole words")
    return Quote(reply[slice(*place)], (option or "").strip(), *place)


def find_quote(quoted: str, reply: str) -> tuple[int, int] | None:
    """Return start and end of the last place outside of thinking where a reply holds these words; None if there is none.

    Of a long reply the reader is shown head and tail, and only these are searched.

    Blanks are all alike, everything else counts. A place within a word or a number is none: `12` does not stand in `-12`,
    `12.5` or `12 %`.
    """
    if visible(reply).unfinished:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, quoted.split())))
    places = [
        match.span()
        for start, end in outside_thinking(reply)
        for low, high in shown_parts(len(reply), REPLY_CHARACTERS)
        for match in pattern.finditer(reply, max(start, low), min(end, high))
        if _is_whole(reply, *match.span())
    ]
    return places[-1] if places else None


def _is_whole(reply: str, start: int, end: int) -> bool:
    """Return True if a place in a reply cuts no word and no number."""
    before, after = reply[max(0, start - 2) : start], reply[end : end + 2]
    first, last = reply[start], reply[end - 1]
    if (before and _are_joined(before[-1], first)) or (after and _are_joined(last, after[0])):
        return False
    if first.isdigit() and before:
        sign, other = before[-1], before[:-1]
        if (sign in _SIGNS and not other[-1:].isalnum()) or (sign in _SEPARATORS and other[-1:].isdigit()):
            return False
        if _is_unit(sign) and sign not in "%‰°":
            return False
    if last.isdigit() and after:
        if after[0] in _SEPARATORS and after[1:].isdigit():
            return False
        return not _is_unit(after.strip()[:1])
    return True


def _are_joined(left: str, right: str) -> bool:
    """Return True if two characters stand within one word."""
    if unicodedata.combining(right):
        return True
    return left.isalnum() and right.isalnum() and max(ord(left), ord(right)) < _SPACED_SCRIPTS


def _is_unit(char: str) -> bool:
    return bool(char) and (char in "%‰°" or unicodedata.category(char) == "Sc")


def score_reading(sample: Sample, reply: str, said: str, scored: Callable[[str], Score], unread: Score) -> Score:
    """Score a reply by what a reader says of it.

    Args:
        said: the reader's own reply.
        scored: the profile's scorer, which reads the quote in place of the reply.
        unread: the score by the rules alone.

    Returns:
        The score of the quote, its detail naming stage and place; `unread` with a further reason where there is no reading.
    """

    def none(why: str) -> Score:
        return structs.replace(unread, reason=f"{unread.reason}; {why}" if unread.reason else why)

    try:
        quote = read_quote(said, reply)
    except ValueError as error:
        return none(f"the reader's answer is refused: {error}")
    if not quote.text:
        return none("the reader finds no answer")
    score = scored(quote.text)
    if score.extracted is None and (concluded := scored(f"So, {quote.text}")).extracted is not None:
        score = concluded  # the reader says that the reply concludes so
    named = _option(sample.options, quote.option)
    if score.extracted is None and named and _option(sample.options, quote.text) == named:
        score = scored(named)
    if score.extracted is None:
        return none(f"the reader's quote {shortened(quote.text, 60)!r} is no answer: {score.reason}")
    read = _option(sample.options, str(score.extracted))
    if quote.option and read and named != read:
        return none(
            f"the reader's answer is refused: it names option {shortened(quote.option, 20)!r}, and its quote says {read}"
        )
    detail: Mapping[str, Any] = {**score.detail, STAGE: READER, EVIDENCE: [quote.start, quote.end]}
    how = f"read by a model: {shortened(quote.text, 60)!r}"
    return structs.replace(score, reason=f"{how}; {score.reason}" if score.reason else how, detail=detail)


def _option(options: Mapping[str, str], name: str) -> str:
    """Return the letter of the option that a name means, by its letter or its text; empty for none."""
    if name in options:
        return name
    letter = name.strip("().: ").upper()
    if letter in options:
        return letter
    alike = [letter for letter, text in options.items() if folded(text) == folded(name)]
    return alike[0] if len(alike) == 1 else ""
