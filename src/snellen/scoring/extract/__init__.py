"""Reading of replies in stages, the first that decides, and the comparison of what was read with gold.

1. verbatim: all that is said is a value, or an accepted answer; 2. declared: the reply marks its answer; 3. short: one short
sentence; 4. prose: for choices, yes/no and numbers, what the statements assert; 5. a reader, if the user names one (`runs.judge`).
The rules are in docs/extraction.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from snellen.errors import DataError
from snellen.scoring.answers import BUILT_IN, AnswerContext, AnswerType, answer_type
from snellen.scoring.answers.choice import Choice, MultiChoice
from snellen.scoring.answers.dress import line_span, undressed_span
from snellen.scoring.answers.number import Count, Number, asks_percent
from snellen.scoring.answers.text import Text
from snellen.scoring.extract.base import Reading, lettered, two_answers
from snellen.scoring.extract.declared import declared
from snellen.scoring.extract.stated import prose, short
from snellen.scoring.replies.reply import Visible, holds_calls, holds_thinking, visible
from snellen.scoring.replies.sentences import Sentence, phrases_in, sentences, single_words

__all__ = ["KINDS", "Reading", "correct", "is_right", "read", "read_as", "type_for"]

KINDS = tuple(BUILT_IN)
_LONGEST = 80
_ONE_VALUE = frozenset(
    ("choice", "multi-choice", "choice_text", "truth", "count", "number", "quantity", "date", "time")
)
"""Kinds whose values are told in prose, of which an `or` leaves none."""
MOST_CORRECTIONS = 40
"""The last words of correction, before which a refusal is looked for."""
_AFTER = re.compile(r"(?:[^\w\-+(\[\"'$#.]|\.(?!\d)|-(?=\s))*")
"""Signs behind a word of correction that are no part of the answer behind it."""


_OR = "|".join(sorted(map(re.escape, single_words("or")), key=len, reverse=True))
_OR = rf"(?<![^\W_])(?:{_OR})(?![^\W_])|[か或]|または|あるいは|还是|또는|혹은"
"""Words for `or`: with other words beside them, or between characters of a script without blanks."""
_IDLE = "|".join(map(re.escape, single_words("article") | single_words("option")))
_BETWEEN = rf"(?:[^\w.;!?。！？\n]|(?<![^\W_])(?:{_IDLE})(?![^\W_]))*"
_ORS = re.compile(_OR, re.IGNORECASE)
_OR_BEFORE = re.compile(rf"(?:{_OR}){_BETWEEN}$", re.IGNORECASE)
_OR_AFTER = re.compile(rf"{_BETWEEN}(?:{_OR})", re.IGNORECASE)
_OR_NEXT = re.compile(rf"\W{{0,6}}[.;!?]\W{{0,6}}(?:{_OR})", re.IGNORECASE)
_STOP = re.compile(r"[.;!?](?!\d)|[。！？\n]")


def read(
    kind: str,
    reply: str,
    *,
    question: str = "",
    options: Mapping[str, str] | Sequence[str] | None = None,
    aliases: Sequence[str] = (),
    form: str | None = None,
    unit: str | None = None,
    gold: Any = None,
) -> Reading:
    """Read the answer of one reply.

    Args:
        kind: a kind of answer, see `snellen.scoring.answers`.
        reply: the model's reply, verbatim; any string.
        question: the question's text. Optional; it helps to understand full sentences.
        options: letter to text, or texts that are lettered A, B, … by position.
        aliases: further accepted answers.
        form: `yes/no` or `T/F`, the words of a truth question.
        unit: the expected unit of a number; a reply in a compatible unit is converted.
        gold: the gold answer. It and the aliases are looked at by the first stage alone, which asks whether the whole reply is an
            accepted answer, as it asks of each option.

    Returns:
        The reading. Its value is None, with a reason, where the reply gives no single answer.

    Raises:
        DataError: for an unknown kind, or a choice without options.
    """
    listed = tuple(options.items()) if isinstance(options, Mapping) else tuple(options or ())
    answer = _type_of(kind, listed, isinstance(options, Mapping), question, unit or "", form or "")
    accepted = [str(one) for one in (gold if isinstance(gold, (list, tuple)) else (gold,)) if one is not None]
    reading = read_as(answer, reply, [*accepted, *aliases])
    if kind == "choice_text" and reading.value is not None:
        reading = reading._replace(value=answer.context.options[reading.value])
    return reading


@lru_cache(maxsize=1_024)
def _type_of(
    kind: str, listed: tuple[Any, ...], lettered_already: bool, question: str, unit: str, form: str
) -> AnswerType:
    options = dict(lettered(dict(listed) if lettered_already else listed))
    return type_for(kind, AnswerContext(options, question, unit, form))


def type_for(kind: str, context: AnswerContext) -> AnswerType:
    """Return the answer type of a question.

    Raises:
        DataError: for an unknown kind, or a choice without options.
    """
    if kind in ("choice", "choice_text", "multi-choice") and not context.options:
        raise DataError(f"a reply of kind {kind!r} needs options: letter to text, or a list of texts.")
    return answer_type(kind, context)


def read_as(kind: AnswerType, reply: str, accepted: Sequence[str] = ()) -> Reading:
    """Read a reply as an answer of a type; `accepted` answers are looked at by the first stage alone."""
    reading = _read_as(kind, reply, accepted)
    if isinstance(kind, Number) and reading.value:
        read_from = " ".join(reply[start : end + 2] for start, end in reading.places)
        is_share = kind.kind == "number" and "%" in read_from and not asks_percent(kind.context.question)
        if (divisor := 100 if is_share else 1_000 if kind.is_open(read_from) else 0) > 0:
            return reading._replace(also=(kind.divided(reading.value, divisor),))  # `15 %` is 0.15, too
    return reading


def _read_as(kind: AnswerType, reply: str, accepted: Sequence[str]) -> Reading:
    is_short = len(reply) <= _LONGEST and (not holds_thinking(reply) or reply.strip() in accepted)
    if is_short and (reading := _verbatim(kind, reply, (0, len(reply)), accepted)) is not None:
        return reading
    said = visible(reply)
    if said.unfinished:
        return Reading(None, "reasoning not finished")
    if kind.is_closed and not said.containers and holds_calls(reply):
        said = visible(reply, calls=False)
    if isinstance(kind, Choice) and not isinstance(kind, MultiChoice) and (echoes := list(kind.echoes(said.text))):
        said = _without(said, echoes)
        if not any(map(str.isalnum, said.text)):
            return two_answers(list(kind.options.letters), [said.place(*echo) for echo in echoes])
    reading = None if said.whole is None else _verbatim(kind, reply, said.whole, accepted)
    if reading is None and not said.text.strip() and not said.containers:
        return Reading(None, "empty reply")
    reading = reading or _corrected(said, kind) or _staged(said, kind) or _unread(said, kind)
    if reading.value is not None and reading.stage != "verbatim" and _is_one_of_two(kind, reading, said):
        reading = Reading(None, "two answers", places=reading.places)
    if said.omitted:
        cut = f"read at head and tail: {said.omitted:,} of {len(reply):,} characters were left out"
        reading = reading._replace(reason=cut if reading.reason is None else f"{reading.reason}; {cut}")
    return reading


def _without(said: Visible, spans: Sequence[tuple[int, int]]) -> Visible:
    """Return what is said outside of spans of its text, which become ends of lines."""
    pieces, at = list[str](), 0
    for start, end in spans:
        pieces += [said.text[at:start], "\n" * (end - start)]
        at = end
    return said._replace(text="".join([*pieces, said.text[at:]]))


def _staged(said: Visible, kind: AnswerType) -> Reading | None:
    if isinstance(kind, MultiChoice):
        listed = _anywhere(said, kind)
        if listed is not None or not (end := kind.end_of_options(said.text)):
            return listed or declared(said, kind) or short(said, kind) or prose(said, kind)
        tail = said.tail(end)  # the first line of a list declares no answer, and no line is all of it
        return (declared(tail, kind) or short(tail, kind) or prose(tail, kind)) if tail.text.strip() else None
    if kind.kind == "list":
        return _anywhere(said, kind) or declared(said, kind) or short(said, kind) or prose(said, kind)
    if isinstance(kind, Choice):  # the tick beside one option decides before what is said of each
        return declared(said, kind) or _anywhere(said, kind) or short(said, kind) or prose(said, kind)
    return declared(said, kind) or short(said, kind) or prose(said, kind) or _anywhere(said, kind)


def _is_one_of_two(kind: AnswerType, reading: Reading, said: Visible) -> bool:
    """Return True if a word for `or` joins what was read to something else: the 4 of `三か四 m`, the C of `A or blue`.

    What stands before the word may be what no rule can tell; behind it many things stand that are no answer (`3 or so`).
    """
    if kind.kind not in _ONE_VALUE:
        return False
    reply, place = said.reply, reading.places[-1]
    if isinstance(kind, Choice) and kind.names_unread(said.text[: _LONGEST + 1], reading.value, reply[slice(*place)]):
        return True  # `A, oops B`
    if isinstance(kind, Count) and kind.is_whole(reply, *place):
        return True
    negations = () if kind.kind == "truth" else ("negation", "no")
    for start, end in reading.places:
        around = reply[max(0, start - _LONGEST) : start], reply[start:end], reply[end : end + _LONGEST]
        before, inside, after = _STOP.split(around[0])[-1], around[1], _STOP.split(around[2])[0]
        if (joint := _OR_BEFORE.search(before)) is not None and any(map(str.isalnum, before[: joint.start()])):
            left_of = Sentence(before[: joint.start()])
            left = kind.find(left_of)
            if not left_of.has(*negations) and not (left and kind.same(left[-1].value, reading.value)):
                return True
        pairs = [("", after[joint.end() :])] if (joint := _OR_AFTER.match(after)) is not None else []
        if (joint := _OR_NEXT.match(around[2])) is not None:  # `B. Or maybe C.`
            pairs.append(("", _STOP.split(around[2][joint.end() :])[0]))
        pairs += [(inside[: joint.start()], inside[joint.end() :]) for joint in _ORS.finditer(inside[:_LONGEST])]
        for one, other in pairs:
            left_of, right = Sentence(one), kind.find(Sentence(other))
            if kind.kind in ("date", "time") and other.lstrip()[:1].isdigit():
                return True  # `March 3 or 4, 2024`
            left = kind.find(left_of) if one else []
            if (
                right
                and not left_of.has(*negations)
                and not kind.same(right[0].value, left[-1].value if left else reading.value)
            ):
                return True
    return False


def _anywhere(said: Visible, kind: AnswerType) -> Reading | None:
    found = kind.anywhere(said.text)
    return None if found is None else Reading(found.value, None, (), "prose", (said.place(found.start, found.end),))


def _corrected(said: Visible, kind: AnswerType) -> Reading | None:
    """Return what is read behind the last correction (`wait`, `actually`) of a reply; None if nothing is."""
    low = said.text.lower()
    tables = ("correction",) if kind.kind == "truth" else ("correction", "retraction")
    places = [place for name in tables for place in phrases_in(low, name)]
    named = [place for place in places if _is_named(said.text, *place)]
    if isinstance(kind, Text):  # `Sorry, I cannot see it: look again`
        heads = [_STOP.split(said.text[max(0, start - 400) : start])[-1] for start, _ in places[-MOST_CORRECTIONS:]]
        named += [
            one for one, text in zip(places[-MOST_CORRECTIONS:], heads, strict=True) if Sentence(text).has("refusal")
        ]
    ends = [end for start, end in places if not any(first <= start and end <= last for first, last in named)]
    if not ends:
        return None
    tail = said.tail(_AFTER.match(said.text, max(ends)).end())  # type: ignore[union-attr]  # it matches nothing, too
    reading = None
    if tail.text.strip():
        reading = (
            (declared(tail, kind) or prose(tail, kind) or short(tail, kind))
            if isinstance(kind, Text)
            else _staged(tail, kind)
        )
    if reading is not None and reading.value is not None:
        return reading
    before = _staged(said, kind)
    doubts = isinstance(kind, Text) or any(
        sentence.has("negation", "wrong", "refusal") for sentence in sentences(tail.text[:600])
    )
    return Reading(None, "corrects itself") if doubts and before is not None and before.value is not None else None


def _is_named(text: str, start: int, end: int) -> bool:
    """Return True if a phrase of correction is what the reply speaks of: quoted, or a name that ends it (`Answer: HALT`)."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    if line.count('"') % 2 and text[end : end + 1] not in (",", ":"):
        return True
    before = line.rstrip(" \t\"'([")[-1:]
    names = before in (":", "：") or (before.isalnum() and text[start] != text[start].lower())
    return names and _AFTER.fullmatch(text, end) is not None


def _verbatim(kind: AnswerType, reply: str, span: tuple[int, int], accepted: Sequence[str]) -> Reading | None:
    """Return the value that all of a reply is: an option's letter or text, a value of its type, or an accepted answer."""
    spans = dict.fromkeys((line_span(reply, *span), undressed_span(reply, *span)) if len(reply) > 1 else (span,))
    for start, end in spans:
        value = _value_of(reply[start:end], kind, accepted)
        if value is not None:
            return Reading(value, None, (), "verbatim", ((start, end),))
    return None


def _value_of(text: str, kind: AnswerType, accepted: Sequence[str]) -> Any | None:
    """Return the value that a text is; open texts, lists and formulas are values only where they are an accepted answer."""
    if isinstance(kind, Text):
        return text if text and any(kind.same(text, one) for one in accepted) else None
    value = (kind.as_gold if text in accepted else kind.parse)(text) if text else None
    if kind.kind in ("list", "formula") and value not in [kind.parse(one) for one in accepted]:
        return None
    return value


def _unread(said: Visible, kind: AnswerType) -> Reading:
    """Return the reading without a value, with the reason."""
    text = said.text.strip()
    sentence = Sentence(text, 0, min(len(text), 400))
    if sentence.has("refusal"):
        return Reading(None, "refusal")
    if text.endswith(("?", "？")):
        return Reading(None, "a question in return")
    if not kind.is_closed:
        return Reading(None, "needs a reader")
    return Reading(None, "hedged" if sentence.has("hedge") else "no answer")


def correct(
    kind: str, value: Any, gold: Any, aliases: Sequence[str] = (), context: AnswerContext = AnswerContext()
) -> bool:
    """Return True if a value of `read` (or the whole Reading) is the gold answer; None never is.

    Args:
        kind: as for `read`.
        value: what was read.
        gold: the gold answer; of texts, numbers and single choices a sequence holds several accepted ones.
        aliases: other accepted answers.
        context: what the question says of its answer; several choices need its options.
    """
    reading = value if isinstance(value, Reading) else Reading(value, None)
    if reading.value is None or gold is None:
        return False
    if kind == "choice":
        return Choice().same(reading.value, [gold, *aliases] if isinstance(gold, str) else gold)
    answer = answer_type("text" if kind == "choice_text" else kind, context)
    golds = gold if isinstance(gold, (list, tuple)) and not answer.takes_lists else (gold,)
    return is_right(answer, reading, [*golds, *aliases])


def is_right(answer: AnswerType, reading: Reading, accepted: Sequence[Any]) -> bool:
    """Return True if a reading is one of the accepted answers, in any form in which the reply gives it.

    Raises:
        GoldError: an accepted answer is no value of the type.
    """
    golds = [answer.parse_gold(gold) for gold in accepted]
    forms = [form for value in (reading.value, *reading.also) for form in answer.forms(value)]
    return any(answer.same(form, gold) for gold in golds for form in forms)
