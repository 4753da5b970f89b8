"""The declared stage: an answer that the reply marks, in a container, behind a marker or a label, or as the only bold value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType
from snellen.scoring.answers.choice import Choice, MultiChoice
from snellen.scoring.answers.dress import undressed, undressed_span
from snellen.scoring.answers.fold import stemmed
from snellen.scoring.answers.text import Text, heads, is_glued
from snellen.scoring.extract.base import Reading, two_answers
from snellen.scoring.extract.stated import NOTHING, one_named, prose, repeats, statement_of, value_in
from snellen.scoring.replies.reply import Visible, json_fields, text_at, visible
from snellen.scoring.replies.sentences import (
    Phrase,
    Sentence,
    Word,
    phrase_words,
    places_of,
    possible,
    sentences,
    sentences_at,
    single_words,
    spans,
)

CONTAINER, FINAL, PLAIN, EMPHASISED = 3, 2, 1, 0
"""Ranks of marks: the highest that holds a value decides."""
LONGEST = 20_000
"""Characters in which labels are looked for."""
_ARROWS = ("=>", "⇒", "→", "->", "➡")
_ARROW = re.compile(rf"(?:^|\s)(?:{'|'.join(_ARROWS)})\s*(?=\S)")
_BOLD = re.compile(r"\*\*([^*\n]{1,120})\*\*|__([^_\n]{1,120})__")
_STRESS = re.compile(r"\*\*([^*\n]{1,120})\*\*|__([^_\n]{1,120})__|[\"“«]([^\"“”«»*\n]{1,120})[\"”»]")
_LABEL = re.compile(
    r"^[^\w\n]{0,8}(?P<key>[^\s:：][^:：\n]{0,60}?)[\"'*_ ]{0,3}[:：][ \t]{0,3}"
    r"(?P<value>[^\n,]{1,200}(?:,[^\n]{0,200}[^\n,])?)",
    re.MULTILINE,
)
_JOINTS = frozenset((":", "=", "："))
_LINKS = phrase_words("link") - {"option"}
_FINAL_WORDS = frozenset(("final", "finale", "endgültige", "最终", "최종", "окончательный", "definitiva"))
LONGEST_CLASH = 100
"""Characters of a reply whose marker must agree with its container: a longer one may announce other answers on its way."""
LONGEST_HEAD = 100
"""Characters of a value with which a reply opens."""
LONGEST_MARKED = 2_000
"""Characters of a marked answer."""
MOST_MARKS = 40
"""Places of announcing words that are looked at: the first ten and the last."""
_OF = 10
"""Words between an announcing noun and its verb: `The answer to the question about the sign is`."""


class Mark(NamedTuple):
    """A marked answer: its rank, its value (None for one that is no value), other forms, and its place in the reply."""

    rank: int
    value: Any
    also: tuple[str, ...]
    place: tuple[int, int]


def declared(said: Visible, kind: AnswerType) -> Reading | None:
    """Return the answer that a reply marks; a reading without a value where two marks differ; None without a mark."""
    marks = list(_objects(said, kind) if kind.kind == "json" else _contained(said, kind))
    head = _head(said, kind)
    if values := [mark for mark in marks if mark.value is not None]:
        said_before = [] if len(said.text) > LONGEST_CLASH or isinstance(kind, Text) else _announced(said, kind)
        said_before = [one for one in said_before if one.rank and one.place[1] <= values[0].place[0]]
        return _decided([*said_before, *values], said, kind)
    if marks:
        return Reading(None, "no value in the marked answer", places=(marks[-1].place,))
    marks = list(_announced(said, kind))
    for rank in (FINAL, PLAIN):
        if values := [mark for mark in marks if mark.rank == rank]:
            return _decided([*head, *values, *_contradicting(said, kind, values[-1])], said, kind)
    stressed = list(_emphasised(said, kind))
    values = [*marks, *_labelled(said, kind), *stressed]
    if values and not stressed and kind.kind in ("number", "count", "quantity"):
        stated = prose(said, kind)
        if stated is not None and stated.value is not None and stated.places[0][0] > values[-1].place[1]:
            return stated  # `Adults: $12` in a list of prices, and the sum below it
    return _decided(values, said, kind) if values else None


def _head(said: Visible, kind: AnswerType) -> list[Mark]:
    """Return the value that a reply opens with, alone on its line or in its sentence: a mark that another one contradicts."""
    if isinstance(kind, Text) or kind.kind in ("list", "formula") or said.offset:
        return []
    start, end = next(spans(said.text, 0, min(len(said.text), 200)), (0, 0))
    value = kind.parse(undressed(said.text[start:end])) if 0 < end - start <= LONGEST_HEAD else None
    return [] if value is None else [Mark(PLAIN, value, (), said.place(start, end))]


def _contradicting(said: Visible, kind: AnswerType, last: Mark) -> list[Mark]:
    """Return what a concluding statement behind the last mark says, if it is another option."""
    if not isinstance(kind, Choice) or isinstance(kind, MultiChoice):
        return []
    begin = said.text_place(last.place[0])
    places = [begin + place for place in kind.candidates(said.text[begin:])]
    found = []
    for sentence in sentences_at(said.text, places):
        if sentence.start > begin and (statement := statement_of(sentence, kind)).concludes:
            found += [Mark(PLAIN, one.value, (), last.place) for one in statement.asserted if one.value != last.value]
    return found[:1]


def _decided(marks: Sequence[Mark], said: Visible, kind: AnswerType) -> Reading | None:
    last = marks[-1]
    others = [mark for mark in marks if not _alike(mark, last, kind)]
    if not others:
        return Reading(last.value, None, last.also, "declared", (last.place,))
    if last.rank == EMPHASISED:
        return None
    shown = list(dict.fromkeys(kind.show(mark.value) for mark in (*others, last)))
    return two_answers(shown, [others[-1].place, last.place])


def _alike(first: Mark, second: Mark, kind: AnswerType) -> bool:
    return bool(first.value == second.value or (isinstance(kind, Text) and kind.same(first.value, second.value)))


def _contained(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    for start, end in said.containers:
        text = text_at(said.reply, start, end)
        value, also = (None, ()) if text.lower() in NOTHING else value_in(text, kind)
        if value is None and not isinstance(kind, Text):
            value, also = value_in(visible(text[:500]).text, kind)  # of which 400 are read
        yield Mark(CONTAINER, value, also, _place_of(value, said, (start, end), kind))


def _begin(said: Visible) -> int:
    """Return where what is said begins, with the marks in front of it."""
    low = said.place(0, 1)[0] if said.text else 0
    while low and said.reply[low - 1] in "{[\"'`*_“« \n":
        low -= 1
    return low


def _objects(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    """Yield the JSON objects of a reply."""
    low = _begin(said)
    for found in kind.find(Sentence(said.reply, low, len(said.reply))):
        yield Mark(CONTAINER, found.value, (), (low + found.start, low + found.end))


def _announced(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    """Yield the values that stand behind a marker, up to the end of the line or on the next one."""
    text = said.text
    low = text.lower()
    places = [place for name in ("answer", "choose", "best") for place in places_of(low, possible(low, name))]
    if any(sign in text for sign in _ARROWS):
        places += [match.end() - 1 for match in _ARROW.finditer(text)]
    places = sorted(set(places))
    if len(places) > MOST_MARKS:
        places = [*places[: MOST_MARKS // 4], *places[-3 * MOST_MARKS // 4 :]]
    for sentence in sentences_at(text, places):
        markers = list(_markers(sentence))
        if text[sentence.end :].strip():
            markers = [marker for marker in markers if marker[0] != EMPHASISED]  # an arrow within an explanation
        if len(markers) > 4:
            markers = [markers[0], *markers[-3:]]
        for rank, at in markers:
            begin = sentence.start + at
            stop = text.find("\n", begin)
            stop = min(len(text) if stop < 0 else stop, begin + LONGEST_MARKED)
            if not text[begin:stop].strip(" .:-*"):
                begin = stop + len(text[stop:]) - len(text[stop:].lstrip())
                stop = text.find("\n", begin) if "\n" in text[begin:] else len(text)
                stop = min(stop, begin + LONGEST_MARKED)
                if (
                    len(list(islice(spans(text, begin, stop), 2))) > 1
                    and kind.parse(undressed(text[begin:stop])) is None
                ):
                    continue  # a heading over a paragraph
            if not text[sentence.start + at : stop].strip(" .:-*"):  # all of it may have been taken for markup
                inner = undressed_span(said.reply, *_line_behind(said, sentence.start + at))
                written = said.reply[slice(*inner)]
                value = kind.parse(written) if written.strip(" *_`:") else None
                if value is not None:
                    yield Mark(rank, value, (), inner)
                    continue
            if (mark := _marked(said, begin, stop, rank, kind)) is not None:
                yield mark


def _markers(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield rank and end of each marker of a sentence, in order; one that is only recalled (`at first I'd say`) is none."""
    doubts = [phrase.first for phrase in sentence.phrases if phrase.table == "hedge"]
    none = True
    for phrase in sentence.phrases:
        end = None
        if doubts:
            clause = max((at for at in range(phrase.first) if sentence.words[at].text == ";"), default=0)
            if any(clause <= first < phrase.first for first in doubts):
                continue
        labelled = sentence.words[phrase.after - 1].text == ":" and phrase.first
        if phrase.table == "choose" and not labelled and not _is_negated(sentence, phrase):
            end = _behind(sentence, phrase.after)
        elif phrase.table == "answer":
            end = _linked(sentence, phrase)
        if end is not None:
            none = False
            yield (_rank(sentence, phrase) if phrase.table == "answer" else PLAIN), end
    if none and (best := _best(sentence)) is not None:
        yield PLAIN, best
    elif none and (arrows := list(_ARROW.finditer(sentence.text))):
        yield EMPHASISED, arrows[-1].end()


def _best(sentence: Sentence) -> int | None:
    """Return where the answer begins behind any noun that is called correct: `The correct description is`."""
    words = sentence.words
    for at, word in enumerate(words[:6]):
        if word.text in single_words("best"):
            for place in range(at + 1, min(len(words), at + 4)):
                if words[place].text in _LINKS or words[place].text == ":":
                    return _behind(sentence, place)
    return None


def _is_negated(sentence: Sentence, phrase: Phrase) -> bool:
    near = {phrase.first, phrase.first - 1}
    return any(other.table == "negation" and other.after in near for other in sentence.phrases)


def _rank(sentence: Sentence, phrase: Phrase) -> int:
    before = {word.text for word in sentence.words[max(0, phrase.first - 3) : phrase.first]}
    return FINAL if before & _FINAL_WORDS else PLAIN


def _linked(sentence: Sentence, phrase: Phrase) -> int | None:
    """Return where the answer begins behind an announcing noun and its verb or colon; None without one."""
    words = sentence.words
    at = phrase.after
    if at >= len(words):
        return len(sentence.text) if phrase.first <= 3 else None
    while at < len(words) - 1 and words[at].text in single_words("final"):
        at += 1
    if words[at].text in (":", "=", "：", ")") or words[at].text in _LINKS or words[at].text[0] > "\u2e7f":
        return _behind(sentence, at)
    if words[at].text in ("-", ">", '"') and phrase.first <= 2:
        return _behind(sentence, at + (words[at].text != '"'))
    if phrase.first <= 6 and words[at].text in _BEFORE_BE:
        for place in range(at, min(len(words), at + 4)):
            if words[place].text in ("be", "is", "ist", "est", "es"):
                return _behind(sentence, place)
    if phrase.first <= 3 and words[at].text in ("to", "for", "of", "auf", "à", "a", "in", "(", "is"):
        for place in range(at, min(len(words), at + _OF)):
            if words[place].text in ("is", "ist", "est", "es", "é", "è", ":", "lautet", "would"):
                return _behind(sentence, place)
    return None


_BEFORE_BE = frozenset(("here", "has", "must", "should", "would", "therefore", "then", "hier", "aquí", "ici"))


def _behind(sentence: Sentence, at: int) -> int:
    """Return the place behind links, colons and words of certainty, from a word on."""
    words, links = sentence.words, _LINKS
    skipped = links | single_words("adverb") | single_words("strong") | {"that", "most", "indeed"}
    begun, linked = at, words[at - 1].text if at and words[at - 1].text in links else ""
    last = next((place for place in range(len(words) - 1, -1, -1) if words[place].text[0].isalnum()), -1)
    while at < len(words) and (words[at].text in _JOINTS or words[at].text in skipped):
        is_last = at >= last
        signs = words[at].text in ("=", ":") and at and words[at].start > words[at - 1].end and words[at + 1 : at + 2]
        if signs and signs[0].start == words[at].end:
            break  # `The answer is =0`, `is :0`
        if is_glued(words, at + 1) or (words[at].text in links and _is_first_sign(words, at, linked)):
            break
        if words[at].text == "a" or (
            is_last and words[at].text not in _JOINTS and (at > begun or words[at].text not in links)
        ):
            break  # an article that may be a letter, or the answer itself
        linked = words[at].text if words[at].text in links else linked
        at += 1
        if words[at - 1].text in _JOINTS:
            break
    if linked and words[at : at + 1] and words[at].text == "," and words[at].start == words[at - 1].end:
        at += at < last and (linked[0] > "\u2e7f" or words[at + 1].start > words[at].end)  # `The answer is, a robin`
    return words[at].start if at < len(words) else len(sentence.text)


def _is_first_sign(words: Sequence[Word], at: int, linked: str) -> bool:
    """Return True for a particle of a script without blanks that begins the answer: `答えははさみ`, `답은 이순신`."""
    own, follows = words[at].text, words[at + 1 : at + 2]
    if own[0] < "\u2e80" or not follows or follows[0].start > words[at].end:
        return False
    if own[0] > "\uabff":
        return follows[0].text[0] > "\uabff"  # a Korean particle ends its word
    if not linked:
        return False
    is_kana = all("\u3040" <= word[0] < "\u3100" for word in (own, linked))
    return follows[0].text[0].isalnum() and (own == linked or is_kana or linked[0] < "\u2e80")


def _marked(said: Visible, start: int, end: int, rank: int, kind: AnswerType) -> Mark | None:
    """Return the value of a marked text; None if it is no value."""
    text = said.text[start:end]
    if not text.strip(" " if isinstance(kind, Text) else " .:*-"):
        return None
    place = undressed_span(said.reply, *said.written(start, end))
    value, also = value_in(said.reply[slice(*place)], kind)
    if value is None and not isinstance(kind, Text):
        value, also = value_in(text, kind)
    if isinstance(kind, Text) and value is not None and any(mark in value for mark in ("**", "`", "__", "</")):
        also = (*also, undressed(text))
    if isinstance(kind, Text) and value is not None:
        line = said.reply[slice(*_line_behind(said, start))].strip()
        also = (*also, line) if any(sign in line for sign in "<{}") else also  # it may be no tag, but text
    return None if value is None else Mark(rank, value, also, _place_of(value, said, place, kind))


def _line_behind(said: Visible, at: int) -> tuple[int, int]:
    """Return the span of the line of the reply behind the words before a character of the plain text."""
    shown = len(said.text[:at].rstrip())
    low = said.place(shown - 1, shown)[1] if shown else 0
    opened = said.reply[max(said.reply.rfind("\n", 0, low) + 1, low - 400) : low]
    low += next((len(mark) for mark in ("**", "__") if said.reply.startswith(mark, low) and opened.count(mark) % 2), 0)
    high = said.reply.find("\n", low, low + LONGEST_MARKED)
    return low, (high if high >= 0 else min(len(said.reply), low + LONGEST_MARKED))


def _place_of(value: Any, said: Visible, place: tuple[int, int], kind: AnswerType) -> tuple[int, int]:
    """Return the place of a text within a marked one."""
    at = said.reply.find(value, *place) if isinstance(kind, Text) and value is not None else -1
    return place if at < 0 else (at, at + len(value))


def _labelled(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    """Yield the values of lines or JSON fields whose label the question asks for: `Species: red kite`, `"apples": 3`."""
    question = kind.context.question
    if not question or (":" not in said.text and "：" not in said.text):
        return
    asked = {stemmed(word.text) for word in Sentence(question).words}
    wanted = frozenset() if kind.kind == "truth" else heads(question[-500:])
    fields = [(field["key"], field.span("value"), True) for field in json_fields(said.reply[: 2 * LONGEST])]
    lines = (
        [] if fields else [(line["key"], line.span("value"), False) for line in _LABEL.finditer(said.text[:LONGEST])]
    )
    for key, span, is_json in (*fields, *lines):
        words = [word.text for word in Sentence(key).words if word.text[0].isalnum()]
        words = [part for word in words for part in word.split("_")]
        content = [stemmed(word) for word in words if word and word not in _plain_words()]
        counted = (
            is_json
            and kind.kind in ("count", "number")
            and words
            and words[0].lower() in ("count", "total", "number", "value")
        ) or (is_json and kind.kind == "truth" and said.reply[slice(*span)].strip() in ("true", "false"))
        named = content and asked.issuperset(content) and (not wanted or not wanted.isdisjoint(content))
        if len(words) > 6 or not (counted or named):
            continue
        start, end = undressed_span(said.reply, *(span if is_json else said.place(*span)))
        value, also = value_in(text := text_at(said.reply, start, end), kind)
        if value is not None and text.lower() not in NOTHING:
            yield Mark(EMPHASISED, value, also, (start, end))


@lru_cache(maxsize=1)
def _plain_words() -> frozenset[str]:
    """Return the words of a label that name nothing."""
    named = frozenset(("of", "number", "total", "the", "name", "value", "in", "on"))
    return single_words("article") | single_words("final") | named


def _emphasised(said: Visible, kind: AnswerType) -> Iterator[Mark]:
    """Yield the bold parts of a reply that are values; of open texts the only one, see `_stressed`."""
    if isinstance(kind, Text):
        yield from _stressed(said, kind)
        return
    if "**" not in said.reply and "__" not in said.reply:
        return
    low = _begin(said)
    for bold in islice(_BOLD.finditer(said.reply, low), MOST_MARKS):
        inner = undressed(bold[1] or bold[2])
        if _is_label(bold):
            continue
        value = kind.parse(inner)
        if value is None and len(inner.split()) <= 6:
            value = one_named(inner, kind)
        if value is not None:
            yield Mark(EMPHASISED, value, (), bold.span(1 if bold[1] else 2))


def _is_label(stressed: re.Match[str]) -> bool:
    """Return True for stressed words with a colon at their end or behind it: `**Key features:**`."""
    text = stressed[stressed.lastindex or 0].rstrip()
    return text.endswith((":", "：")) or stressed.string[stressed.end() : stressed.end() + 1] in (":", "：")


def _stressed(said: Visible, kind: Text) -> Iterator[Mark]:
    """Yield the only bold or quoted part of a reply, or of its concluding sentence, if it ends a statement: `The plate shows **B12**.`"""
    if not any(mark in said.reply for mark in ("**", "__", '"', "“", "«")):
        return
    low = _begin(said)
    found = islice(_STRESS.finditer(said.reply, low), MOST_MARKS)
    places = [match.span(match.lastindex or 0) for match in found if not _is_label(match)]
    ends = sentences(said.text, max(0, len(said.text) - LONGEST_MARKED)) if places else []
    for sentence in ends if len(places) == 1 else ends[-1:]:
        if sentence is not ends[-1] and ends[-1].concluding:
            continue
        start, end = said.place(sentence.start, sentence.end)
        inside = [place for place in places if start <= place[0] and place[1] <= end + 3]
        if len(inside) != 1 or not (len(ends) == 1 or sentence.concluding or repeats(sentence, kind)):
            continue
        value = undressed(said.reply[slice(*inside[0])])
        if not value:
            continue
        before, _, after = sentence.text.partition(value)
        parts = [Sentence(text) for text in (before, after)]
        is_statement = parts[0].has("shows") and not any(
            part.has("hedge", "negation", "refusal", "or") for part in parts
        )
        behind = parts[1].words[0].text if parts[1].words else ""
        is_last = not behind[:1].isalnum() and (
            len(parts[1].words) <= 6 or (behind in (",", "(", "（") and not repeats(parts[1], kind))
        )
        if is_statement and not sentence.asks and is_last:
            yield Mark(EMPHASISED, value, (), inside[0])
