"""The declared stage: an answer that the reply marks, in a container, behind a marker, or as the only emphasised value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType
from snellen.scoring.answers.dress import undressed, undressed_span
from snellen.scoring.answers.text import Text
from snellen.scoring.extract.base import Reading, two_answers
from snellen.scoring.replies.phrases import phrases
from snellen.scoring.replies.reply import Visible
from snellen.scoring.replies.sentences import Phrase, Sentence, sentences

CONTAINER, FINAL, PLAIN, EMPHASISED = 3, 2, 1, 0
"""Ranks of marks: the highest that holds a value decides."""
_TRIGGER = re.compile(r"[^\W_]")
_ARROW = re.compile(r"(?:^|\s)(?:=>|⇒|→|->|➡)\s*(?=\S)")
_BOLD = re.compile(r"\*\*([^*\n]{1,120})\*\*|__([^_\n]{1,120})__")
_JOINTS = frozenset((":", "=", "-", ">", "→", "(", '"', "'", "："))
_OF = 10
"""Words between an announcing noun and its verb: `The answer to the question about the sign is`."""


class Mark(NamedTuple):
    """A marked answer: its rank, its value (None for one that is no value), and its place in the reply."""

    rank: int
    value: Any
    also: tuple[str, ...]
    place: tuple[int, int]


def declared(said: Visible, kind: AnswerType) -> Reading | None:
    """Return the answer that a reply marks; a reading without a value where two marks differ; None without a mark."""
    for rank, found in ((CONTAINER, _contained), (PLAIN, _announced), (EMPHASISED, _emphasised)):
        marks = list(found(said, kind))
        if rank == PLAIN and any(mark.rank == FINAL and mark.value is not None for mark in marks):
            marks = [mark for mark in marks if mark.rank == FINAL]
        values = [mark for mark in marks if mark.value is not None]
        if values:
            return _decided(values, said, kind)
        if rank == CONTAINER and marks:
            return Reading(None, "no value in the marked answer", places=(marks[-1].place,))
    return None


def _decided(marks: Sequence[Mark], said: Visible, kind: AnswerType) -> Reading | None:
    last = marks[-1]
    others = [mark for mark in marks if not _alike(mark, last, kind)]
    if not others:
        return Reading(last.value, None, last.also, "declared", (last.place,))
    if last.rank == EMPHASISED:
        return None
    between = said.reply[others[-1].place[1] : last.place[0]]
    if last.rank != CONTAINER and any(sentence.has("correction") for sentence in sentences(between)):
        return Reading(last.value, None, last.also, "declared", (last.place,))
    shown = list(dict.fromkeys(kind.show(mark.value) for mark in (*others, last)))
    return two_answers(shown, [others[-1].place, last.place])


def _alike(first: Mark, second: Mark, kind: AnswerType) -> bool:
    return bool(first.value == second.value or (isinstance(kind, Text) and kind.same(first.value, second.value)))


def _contained(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    from snellen.scoring.extract.stated import value_in

    for start, end in said.containers:
        text = said.reply[start:end]
        value, also = value_in(text, kind)
        yield Mark(CONTAINER, value, also, (start, end))


def _announced(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    """Yield what stands behind a marker, line by line."""
    text = said.text
    low = text.lower()
    if not any(noun in low for noun in _nouns(low.isascii())) and not any(
        sign in text for sign in ("=>", "⇒", "→", "->", "➡")
    ):
        return
    lines = list(_lines(text))
    for index, (start, end) in enumerate(lines):
        line = low[start:end]
        if not any(noun in line for noun in _nouns(line.isascii())) and _ARROW.search(line) is None:
            continue
        for sentence in sentences(text, start, end):
            for rank, at in _markers(sentence):
                begin, stop = sentence.start + at, end
                if not text[begin:stop].strip(" .:-") and index + 1 < len(lines):
                    begin, stop = lines[index + 1]
                mark = _marked(said, begin, stop, rank, kind)
                if mark is not None:
                    yield mark


def _lines(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.split("\n"):
        if line.strip():
            yield at, at + len(line)
        at += len(line) + 1


@lru_cache(maxsize=2)
def _nouns(ascii_only: bool) -> tuple[str, ...]:
    """Return what a line with a marker holds: announcing nouns and verbs of choice, longest first."""
    listed = {*phrases("answer"), *phrases("choose")}
    return tuple(phrase for phrase in listed if not ascii_only or phrase.isascii())


def _markers(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield rank and end of each marker of a sentence, in order."""
    words, found = sentence.words, sentence.phrases
    for phrase in found:
        if phrase.table == "choose" and not _is_negated(sentence, phrase):
            yield PLAIN, _behind(sentence, phrase.after)
        elif phrase.table == "answer" and (end := _linked(sentence, phrase)) is not None:
            yield _rank(sentence, phrase), end
    if (arrow := list(_ARROW.finditer(sentence.text))) and words:
        yield PLAIN, arrow[-1].end()


def _is_negated(sentence: Sentence, phrase: Phrase) -> bool:
    return any(other.table == "negation" and 0 <= phrase.first - other.after <= 1 for other in sentence.phrases)


def _rank(sentence: Sentence, phrase: Phrase) -> int:
    before = {word.text for word in sentence.words[max(0, phrase.first - 3) : phrase.first]}
    return FINAL if before & {"final", "finale", "endgültige", "最终", "최종", "окончательный", "definitiva"} else PLAIN


def _linked(sentence: Sentence, phrase: Phrase) -> int | None:
    """Return where the answer begins behind an announcing noun and its verb or colon; None without one."""
    words = sentence.words
    at = phrase.after
    links, spaced = _links(), range(at, min(len(words), at + _OF))
    if at < len(words) and (
        words[at].text in (":", "=", "：", ")") or words[at].text in links or words[at].text[0] > "\u2e7f"
    ):
        return _behind(sentence, at)
    if at >= len(words):
        return len(sentence.text) if phrase.first <= 3 else None
    if words[at].text in ("-", ">", '"') and phrase.first <= 2:
        return _behind(sentence, at)
    if phrase.first <= 3 and words[at].text in ("to", "for", "of", "auf", "à", "a", "in", "(", "is"):
        for place in spaced:
            if words[place].text in ("is", "ist", "est", "es", "é", "è", ":", "lautet", "would"):
                return _behind(sentence, place)
    return None


def _behind(sentence: Sentence, at: int) -> int:
    """Return the place behind links, colons and such words as `therefore`, from a word on."""
    words, skipped = (
        sentence.words,
        _links() | {"therefore", "thus", "likely", "probably", "clearly", "that", "most", "indeed", "option"},
    )
    while at < len(words) and (words[at].text in _JOINTS or words[at].text in skipped):
        if words[at].text in ("(", '"', "'", "option", "-", "a"):
            break
        at += 1
    return words[at].start if at < len(words) else len(sentence.text)


@lru_cache(maxsize=1)
def _links() -> frozenset[str]:
    return frozenset(word for phrase in phrases("link") for word in ([phrase] if " " not in phrase else phrase.split()))


def _marked(said: Visible, start: int, end: int, rank: int, kind: AnswerType) -> Mark | None:
    """Return the value of a marked text: as a whole line, else of its first sentence."""
    from snellen.scoring.extract.stated import value_in

    text = said.text[start:end]
    if not text.strip(" .:*-"):
        return None
    if isinstance(kind, Text):
        raw_start, raw_end = undressed_span(said.reply, *said.place(start, end))
        value, also = value_in(said.reply[raw_start:raw_end], kind)
        return Mark(rank, value, also, (raw_start, raw_end)) if value is not None else None
    value, also = value_in(text, kind)
    if value is None and rank:
        return None
    low, high = undressed_span(said.reply, *said.place(start, end))
    return Mark(rank, value, also, (low, high))


def _emphasised(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    """Yield the bold parts of a reply that are values as a whole; of open texts none are."""
    if isinstance(kind, Text) or ("**" not in said.reply and "__" not in said.reply):
        return
    low = said.place(0, 1)[0] if said.text else 0
    for bold in _BOLD.finditer(said.reply, low):
        inner = undressed(bold[1] or bold[2])
        value = kind.parse(inner)
        if value is None and len(inner.split()) <= 6:
            from snellen.scoring.extract.stated import one_named

            value = one_named(inner, kind)
        if value is not None:
            yield Mark(EMPHASISED, value, (), bold.span(1 if bold[1] else 2))
