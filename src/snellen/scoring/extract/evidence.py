"""Evidence of a reading: the part of a reply from which a scorer reads the same answer as from the whole.

The extraction cleans a reply before it reads it, so its positions are lost. Evidence is therefore found by reading parts
again: sentences and answer containers at first, then fewer and fewer words. It holds for every scorer, those of plug-ins
included, because a scorer is a pure function of the reply.

1. The candidates are the sentences, lines and answer containers, outside of thinking, that are read like the whole reply.
2. An answer container comes first, then an announced answer; of several the last one counts.
3. Of the others, one without which the whole reply is read otherwise comes before one that repeats another. Then a bare
   answer at the head comes before a conclusion, and of equals the last one counts.
4. The answer's own name is the part where a candidate holds it (`B`, `3`). Else words are omitted from its left and its
   right for as long as the rest is read alike.

Of a reply in which several answers were read, each of them gets its own part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from snellen.scoring.extract.clean import answer_containers, outside_thinking
from snellen.scoring.extract.patterns import CONCLUSION, FINAL, HEADER

LONGEST = 20_000
"""Maximum characters that are searched: the first `HEAD` and the last of a longer reply."""
HEAD = 4_000
MOST_PARTS = 160
"""Maximum sentences that are read again: the first 20 and the last."""
MOST_TESTED = 6
"""Maximum candidates without which the whole reply is read again."""
MOST_ANSWERS = 4
ANNOUNCED = 3
_LONGEST_SENTENCE = 2_000
_LONGEST_NAME = 80
_SHORT = 24
"""Maximum characters of a bare answer at the head of a reply."""
_END = re.compile(r"\n+|(?<=[.!?;])[\"')\]*]*(?:\s+|$)|(?<=[。！？；])")
_CLAUSE = re.compile(r"\b(?:or|and|but)\b|[,/;]", re.IGNORECASE)
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|[^\w\s]|_")
_SIGNS = re.compile(r"[\s*_`\"'“”‘’()\[\].,:;!?]+")

Extract = Callable[[str], Any]


class EvidencePart(NamedTuple):
    """A part of a reply, from character `start` up to `end`, and the answer that is read from it."""

    start: int
    end: int
    value: Any


class _Part(NamedTuple):
    """A part of a reply before it is narrowed; `rank` is 4 for an answer container, `ANNOUNCED` for an announced answer, 2 for a
    bare answer at the head, 1 for a conclusion.
    """

    start: int
    end: int
    rank: int


_UNREAD = object()


def locate(reply: str, extract: Extract, value: Any = _UNREAD) -> tuple[EvidencePart, ...]:
    """Return the parts of a reply that its answer was read from, in the order of the reply.

    Args:
        reply: the reply as it was scored.
        extract: reads a text as the reply is read; None where it reads no single answer.
        value: what was read from the whole reply, where that is known already.

    Returns:
        One part where the reply has an answer. Where it has none but several of its parts have different ones, one part
        for each of these answers, at most `MOST_ANSWERS`. Nothing where no part is read like the whole.
    """
    if value is _UNREAD:
        value = extract(reply)
    parts = list(_parts(reply))
    if value is not None:
        chosen = _choose(reply, value, parts, extract)
        return () if chosen is None else (_narrowed(reply, chosen, value, extract),)
    answers: dict[Hashable, EvidencePart] = {}
    for part in parts:
        for start, end in ((part.start, part.end), *_clauses(reply, part)):
            answer = extract(reply[start:end])
            if answer is None or not isinstance(answer, Hashable):
                continue
            if answer not in answers and len(answers) >= MOST_ANSWERS:
                break
            answers[answer] = EvidencePart(start, end, answer)
            if (start, end) == (part.start, part.end):
                break
    if len(answers) < 2:
        return ()
    narrowed = [_narrowed(reply, _Part(part.start, part.end, 0), part.value, extract) for part in answers.values()]
    return _without_overlap(sorted(narrowed))


def _without_overlap(parts: list[EvidencePart]) -> tuple[EvidencePart, ...]:
    separate: list[EvidencePart] = []
    for part in parts:
        if not separate or part.start >= separate[-1].end:
            separate.append(part)
    return tuple(separate)


def _parts(reply: str) -> Iterator[_Part]:
    """Yield the answer containers and sentences of a reply that are read again."""
    windows = [(0, len(reply))] if len(reply) <= LONGEST else [(0, HEAD), (len(reply) - LONGEST + HEAD, len(reply))]
    spoken = [
        (max(start, low), min(end, high))
        for start, end in outside_thinking(reply)
        for low, high in windows
        if max(start, low) < min(end, high)
    ]
    for start, end in spoken:
        for low, high in answer_containers(reply, start, end):
            if (trimmed := _trimmed(reply, low, high)) is not None:
                yield _Part(*trimmed, 4)
    sentences = [span for start, end in spoken for span in _sentences(reply, start, end)]
    if len(sentences) > MOST_PARTS:
        sentences = sentences[:20] + sentences[20 - MOST_PARTS :]
    announced = False
    for number, (start, end) in enumerate(sentences):
        text = reply[start:end]
        bare = text.strip("*_ #")
        rank = ANNOUNCED if announced or FINAL.search(bare) else 2 if number == 0 and len(bare) <= _SHORT else 0
        yield _Part(start, end, rank or (1 if CONCLUSION.search(bare) else 0))
        announced = len(text) < 160 and (HEADER.match(bare) is not None or bare.endswith(":"))


def _sentences(reply: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    at = start
    for match in _END.finditer(reply, start, end):
        if match.end() > at:
            yield from _pieces(reply, at, match.end())
            at = match.end()
    yield from _pieces(reply, at, end)


def _pieces(reply: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a sentence without blanks around it, a long one in pieces."""
    for low in range(start, end, _LONGEST_SENTENCE):
        if (trimmed := _trimmed(reply, low, min(end, low + _LONGEST_SENTENCE))) is not None:
            yield trimmed


def _trimmed(reply: str, start: int, end: int) -> tuple[int, int] | None:
    text = reply[start:end]
    left = len(text) - len(text.lstrip())
    right = len(text) - len(text.rstrip())
    return (start + left, end - right) if left < len(text) else None


def _choose(reply: str, value: Any, parts: list[_Part], extract: Extract) -> _Part | None:
    """Return the part that the answer was read from; None if none is read like the whole."""
    announced = sorted((part for part in parts if part.rank >= ANNOUNCED), key=_weight, reverse=True)
    for part in announced[:MOST_TESTED]:
        if extract(reply[part.start : part.end]) == value:
            return part
    others = [part for part in parts if part.rank < ANNOUNCED]
    alike = [part for part in others if extract(reply[part.start : part.end]) == value]
    if len(alike) > 1:
        ranked = sorted(alike, key=_weight, reverse=True)[:MOST_TESTED]
        decisive = [part for part in ranked if extract(reply[: part.start] + "\n" + reply[part.end :]) != value]
        alike = decisive or ranked
    return max(alike, key=_weight, default=None)


def _weight(part: _Part) -> tuple[int, int]:
    return part.rank, part.start


def _clauses(reply: str, part: _Part) -> Iterator[tuple[int, int]]:
    start = part.start
    for match in _CLAUSE.finditer(reply, part.start, part.end):
        if (trimmed := _trimmed(reply, start, match.start())) is not None:
            yield trimmed
        start = match.end()
    if start > part.start and (trimmed := _trimmed(reply, start, part.end)) is not None:
        yield trimmed


def _narrowed(reply: str, part: _Part, value: Any, extract: Extract) -> EvidencePart:
    """Return the part without the words around it that the answer does not need."""
    if (named := _named(reply, part, value, extract)) is not None:
        return named
    tokens = [match.span() for match in _TOKEN.finditer(reply, part.start, part.end)]
    if len(tokens) < 2:
        return EvidencePart(part.start, part.end, value)

    def same(first: int, last: int) -> bool:
        return bool(extract(reply[tokens[first][0] : tokens[last][1]]) == value)

    whole = (0, len(tokens) - 1)
    if not same(*whole):
        return EvidencePart(part.start, part.end, value)
    left_first = _without_right(*_without_left(*whole, same), same)
    first, last = left_first
    if first < last:  # the other order may leave fewer words
        right_first = _without_left(*_without_right(*whole, same), same)
        first, last = min(left_first, right_first, key=lambda span: span[1] - span[0])
    start, end = tokens[first][0], tokens[last][1]
    text = reply[start:end]
    if (lead := _SIGNS.match(text)) is not None and lead.end() < len(text) and extract(text[lead.end() :]) == value:
        start += lead.end()
    return EvidencePart(start, end, value)


def _named(reply: str, part: _Part, value: Any, extract: Extract) -> EvidencePart | None:
    """Return the last place where a part names the answer as it was read (`B`, `3`, `barn owl`), if it is read alike there."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    name = f"{value:.12g}" if isinstance(value, float) else str(value)
    if not name.strip() or len(name) > _LONGEST_NAME:
        return None
    flags = re.IGNORECASE if len(name) > 1 else 0
    pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w]|[.,]\d)", flags)
    places = list(pattern.finditer(reply, part.start, part.end))
    if not places or extract(places[-1][0]) != value:
        return None
    return EvidencePart(*places[-1].span(), value)


def _without_left(first: int, last: int, same: Callable[[int, int], bool]) -> tuple[int, int]:
    """Return the words that remain if as many as possible are omitted on the left."""
    low, high = first, last
    while low < high:
        middle = (low + high + 1) // 2
        if same(middle, last):
            low = middle
        else:
            high = middle - 1
    return low, last


def _without_right(first: int, last: int, same: Callable[[int, int], bool]) -> tuple[int, int]:
    """Return the words that remain if as many as possible are omitted on the right."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if same(first, middle):
            high = middle
        else:
            low = middle + 1
    return first, low
