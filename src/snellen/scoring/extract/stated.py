"""The short and the prose stage: a reply of one short sentence, and statements about a closed set of values."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.choice import Choice, MultiChoice
from snellen.scoring.answers.dress import line_span, undressed, undressed_span
from snellen.scoring.answers.fold import stemmed
from snellen.scoring.answers.name import Name
from snellen.scoring.answers.text import PREPOSITIONS, Text
from snellen.scoring.extract.base import Reading, two_answers
from snellen.scoring.replies.reply import Visible
from snellen.scoring.replies.sentences import (
    Phrase,
    Sentence,
    in_brackets,
    sentences,
    sentences_at,
    single_words,
    spans,
    words_in,
)
from snellen.text import terms

MOST_WORDS = 14
"""Words of a short reply."""
MOST_SENTENCES = 400
"""Sentences of prose that are weighed: the first 40 and the last."""


_NUMBERS = ("count", "number", "quantity")


class Statement(NamedTuple):
    """What a sentence says of the values: those that it asserts and those that it rules out."""

    sentence: Sentence
    asserted: tuple[Found, ...]
    denied: tuple[Found, ...]
    concludes: bool


def value_in(text: str, kind: AnswerType) -> tuple[Any | None, tuple[str, ...]]:
    """Return the value of a marked text, and other forms of it: all of it, else its first sentence or what that names alone."""
    whole = undressed(text)
    if not isinstance(kind, Text):
        if whole == "null":  # no value in JSON, though zero in German
            return None, ()
        is_line = kind.kind == "list" and len(whole) <= 1_000 and whole[:1] != "[" and "\n" not in whole
        if is_line and Sentence(whole).has("or", "negation", "refusal"):
            return None, ()
        bare = kind.bare(Sentence(whole)) if is_line else None
        if (value := bare if bare is not None and len(bare.items) > 1 else kind.parse(whole)) is not None:
            return value, ()
        parts = list(spans(whole, 0, min(len(whole), 400)))
        if not parts:
            return None, ()
        first = Sentence(whole, *parts[0])
        if (value := kind.bare(first)) is not None:
            return value, ()
        found = _asserted_short(first, kind)
        return (found.value if found is not None else None), ()
    return text_in(whole, kind)


def text_in(whole: str, kind: AnswerType) -> tuple[str | None, tuple[str, ...]]:
    """Return a marked text: its first line, or the first sentence where an explanation follows; the other forms also count."""
    line = whole.split("\n", 1)[0].strip()
    parts = list(spans(line, 0, len(line)))
    if not parts or line.lower() in NOTHING:
        return None, ()
    first = Sentence(line, *parts[0])
    if first.opens("refusal"):
        return None, ()
    named = kind.short(first)
    if named is None and len(line.split()) > 1 and first.words[0].text in single_words("subject"):
        return None, ()
    if named is None and isinstance(kind, Name) and (len(line.split()) > MOST_WORDS or first.has("shows")):
        return None, ()  # a sentence that is no name
    forms = [line]
    if len(parts) > 1 and len(line[parts[1][0] :].split()) >= FEWEST_OF_EXPLANATION:
        forms.insert(0, undressed(first.text))
    if named is not None:
        forms.insert(0, undressed(str(named.value)))
    forms = list(dict.fromkeys(filter(None, map(undressed, forms))))
    if not forms or len(forms[0]) > LONGEST_TEXT:
        return None, ()
    return forms[0], tuple(forms[1:])


FEWEST_OF_EXPLANATION, LONGEST_TEXT = 4, 200
"""Words behind a first sentence that explain it; characters of a marked text."""
NOTHING = frozenset(("null", "n/a", "nan", "?", "unknown", "undefined"))
"""Texts of a marked answer that say there is none."""


def one_named(text: str, kind: AnswerType) -> Any | None:
    """Return the only value that a short text names; None for none or several."""
    found = _asserted_short(Sentence(text), kind)
    return None if found is None else found.value


def short(said: Visible, kind: AnswerType) -> Reading | None:
    """Return the answer of a reply of one short sentence, or of its first line or sentence where an explanation follows."""
    text = said.text
    parts = list(spans(text, 0, min(len(text), 2_000)))
    if not parts:
        return None
    first, rest = Sentence(text, *parts[0]), text[parts[0][1] :]
    rest = rest if _WORD.search(rest) else ""
    size = sum(word.text[0].isalnum() for word in first.words)
    if (
        first.asks
        or rest.rstrip("\"') \n").endswith(("?", "？"))
        or size > (MOST_WORDS if rest.strip() else 2 * MOST_WORDS)
        or (size > 3 and text.rstrip().rpartition(" ")[2].lower() in single_words("and") | single_words("or"))
    ):
        return None
    if isinstance(kind, Text):
        return _short_text(said, first, rest, kind)
    value = kind.bare(first)
    found = Found(value, 0, len(first.text)) if value is not None else _asserted_short(first, kind)
    if found is None:
        return None
    if rest.strip() and value is None:
        is_open = kind.kind == "truth" and not statement_of(first, kind).asserted  # `If it is parsley, it is false.`
        is_open = is_open or (kind.kind in _NUMBERS and not repeats(first, kind))
        if is_open or ((end := _last_of(rest)).concluding and not kind.find(end)):
            return None
    if kind.kind == "truth" and _clashes(first, found, kind, rest):
        return Reading(None, f"contradicts itself: {kind.show(found.value)}")
    if rest.strip() and not _explains(rest, found, kind, bare=value is not None):
        return None
    place = said.place(first.start + found.start, first.start + found.end)
    return Reading(found.value, None, (), "short", (place,))


def _short_text(said: Visible, first: Sentence, rest: str, kind: Text) -> Reading | None:
    """Return the open answer of a first sentence or line, in each form in which the reply may mean it."""
    if first.text.endswith((":", "：")) and rest.strip() and "\n" not in rest.strip():
        return _quoted_below(said, first, rest, kind)
    if _concludes(first) and first.conclusion is not first:
        return None  # its last part answers, see `_concluded`
    found = kind.short(first)
    framed = first.words[:1] != [] and first.words[0].text in single_words("subject")
    framed = framed or (found is not None and repeats(Sentence(first.text, 0, found.start), kind))
    if found is None or not _is_answer_line(said, first, rest, framed=framed):
        return None
    place = undressed_span(said.reply, *said.written(first.start + found.start, first.start + found.end))
    words = first.words
    if not rest.strip() and said.whole and words and (found.start, found.end) == (words[0].start, words[-1].end):
        place = line_span(said.reply, *said.whole)
    raw = said.reply[slice(*place)]
    if not raw:
        return None
    also = [str(found.value)] if raw != found.value and any(mark in raw for mark in ("**", "`", "__")) else []
    before = first.text[: found.start].rsplit(maxsplit=1)[-1:]
    in_front = said.reply[max(0, said.place(first.start, first.end)[0] - 1) : place[0]]
    if before and before[0].lower() in single_words("article") and "$" not in in_front:
        named = f"{before[0]}{'' if before[0].endswith(chr(39)) else ' '}{raw}"
        if isinstance(kind, Name) and not kind.same(named, raw) and before[0].lower() in ("a", "an"):
            start = len(first.text[: found.start].rstrip()) - len(before[0])
            place = said.place(first.start + start, first.start + found.start)[0], place[1]
            raw, also = said.reply[slice(*place)], []  # `a 12`: its first word is no article, but of the name
        else:
            also.append(named)
    if said.whole and not rest.strip() and found.start == 0 and first.text[found.end :].strip(" .!。！"):
        also.append(said.reply[slice(*line_span(said.reply, *said.whole))])  # `March 14, 1988`
    if rest.strip() and not (rest.startswith("\n") and first.text[0] == '"'):
        other = _concluded(said, kind)
        if other is not None and other.value is not None and not kind.same(other.value, raw):
            return other
        quotes = {quote.strip() for quote in rest.split('"')[1::2]} if '"' in first.text else set()
        if other is None and (quotes - {raw} or _last_of(rest).concluding):
            return None  # it quotes more, or concludes what cannot be read
    also += _IN_BRACKETS.findall(first.text[found.end : found.end + 200])[:1] if isinstance(kind, Name) else []
    return Reading(raw, None, tuple(also), "short", (place,))


def _last_of(text: str) -> Sentence:
    """Return the last sentence of a text that is not blank."""
    text = text.rstrip()[-1_000:]
    return sentences(text)[-1]


def _quoted_below(said: Visible, first: Sentence, rest: str, kind: AnswerType) -> Reading | None:
    """Return the only line behind a sentence that ends with a colon: `The sign says:`, and the sign's words below it."""
    if not first.has("shows") or first.has("negation", "hedge", "refusal"):
        return None
    start = first.end + len(rest) - len(rest.lstrip())
    place = undressed_span(said.reply, *said.written(start, first.end + len(rest.rstrip())))
    value, also = value_in(said.reply[slice(*place)], kind)
    return None if value is None else Reading(value, None, also, "short", (place,))


def _is_answer_line(said: Visible, first: Sentence, rest: str, *, framed: bool) -> bool:
    """Return True if a first line or sentence may be an open answer: no heading, no label, no interjection, no list behind it."""
    start, end = said.place(first.start, first.end)
    if not rest.strip() and said.whole is not None and line_span(said.reply, *said.whole)[0] >= start:
        return "|" not in first.text and _DATA.match(said.reply, start) is None
    opening = said.reply[:start].rsplit("\n", 1)[-1].strip()
    if opening.startswith(("#", "{", "[", "-", "|")) or _DATA.match(said.reply) or "|" in first.text:
        return False
    if not rest.strip():
        return True
    if _FIELDS.match(said.reply, start):
        return False
    if first.text.endswith((":", "!", "：", "！")) or rest.lstrip()[:1] == ":" or first.has("refusal"):
        return False
    if not framed and len(rest.split()) < FEWEST_OF_EXPLANATION:
        return False  # it may be the other lines of a sign
    if (
        not framed
        and not rest.startswith("\n")
        and (len(first.text.split()) > 3 or first.text[0] > "\u2e7f" or first.words[0].text in PREPOSITIONS)
    ):
        return False
    return _LISTED.match(said.reply, end) is None or first.text.endswith(")")


_WORD = re.compile(r"[^\W_]")
_DATA = re.compile(r"\s*(?:[{|]|#{1,6}\s|```\w*\s*[{\[])")
_IN_BRACKETS = re.compile(r"^\s*\(([^()]{2,80})\)")
_FIELDS = re.compile(r"[^\n:]{2,30}:[ \t][^\n]{1,100}\n[^\n:]{2,30}:[ \t]")
_LISTED = re.compile(r"[*_`.。\s]{0,8}\n\s{0,4}(?:[-*•|]|\d+[.)])\s")


def _clashes(first: Sentence, found: Found, kind: AnswerType, rest: str) -> bool:
    """Return True if a reply says the opposite of its first word, in the same sentence or in a statement behind it."""
    tail = Sentence(first.text, found.end, len(first.text))
    stated = [one.value for one in kind.find(tail)] if tail.words else []
    other = "no" if found.value else "yes"
    behind = {word.end for word in tail.words if word.text in (",", ";", "and", "und", "et", "y")}
    assured = {
        at
        for phrase in tail.phrases
        if phrase.table == ("yes" if found.value else "no")
        for at in range(phrase.first, phrase.after)
    }
    starts = [
        tail.words[phrase.first].start
        for phrase in tail.phrases
        if phrase.table == other and phrase.first not in assured and _stands_alone(tail, phrase)
    ]
    stated += [not found.value for start in starts if len(tail.text[:start].rstrip()) in behind]
    for sentence in sentences(rest[:1_000]):
        stated += [one.value for one in statement_of(sentence, kind).asserted]
    return any(value != found.value for value in stated)


def _stands_alone(sentence: Sentence, phrase: Phrase) -> bool:
    """Return True for a `no` that is no article: before a sign, at the end, before `it`."""
    after = sentence.words[phrase.after].text if phrase.after < len(sentence.words) else ""
    return not after.isalnum() or after in single_words("subject")


def _explains(rest: str, found: Found, kind: AnswerType, *, bare: bool) -> bool:
    """Return True if what follows an answer names no other as an answer: no other line that is a value, no other conclusion."""
    for line in rest[:4_000].split("\n"):
        value = kind.parse(undressed(line)) if line.strip() and len(line) < 120 else None
        if value is not None and value != found.value:
            return False
    if not kind.is_closed:
        return bare
    if kind.kind == "truth":
        return True
    statements = [statement_of(sentence, kind) for sentence in sentences(rest[:4_000])]
    if any(
        (statement.concludes or (kind.kind in _NUMBERS and "=" in statement.sentence.text))
        and {one.value for one in statement.asserted} - {found.value}
        for statement in statements
    ):
        return False
    about = [one for one in statements if kind.kind not in _NUMBERS or repeats(one.sentence, kind)]
    return bare or not any({one.value for one in statement.asserted} - {found.value} for statement in about)


def _asserted_short(sentence: Sentence, kind: AnswerType) -> Found | None:
    """Return the only value that a sentence asserts."""
    if sentence.asks or (kind.kind == "truth" and sentence.words[:1] != [] and sentence.words[0].text in _IF):
        return None
    if not isinstance(kind, Choice) or isinstance(kind, MultiChoice):
        if kind.kind != "truth" and sentence.has("refusal"):
            return None
        part = sentence.conclusion
        found = kind.short(part) if part is not sentence and _concludes(sentence) else None
        if found is not None and (kind.kind != "quantity" or found.value.unit):
            return Found(found.value, found.start + part.start, found.end + part.start)
        return kind.short(sentence)
    statement = statement_of(sentence, kind, hedged=True)
    values = {found.value for found in statement.asserted}
    return statement.asserted[-1] if len(values) == 1 else None


def prose(said: Visible, kind: AnswerType) -> Reading | None:
    """Return the only value that the statements of a reply assert; its last statement must agree, or decide."""
    if isinstance(kind, MultiChoice) or not kind.is_closed:
        return _concluded(said, kind)
    if _is_broken_off(said.text, kind):
        return None
    listed = sentences_at(said.text, kind.candidates(said.text))
    listed = [one for one in listed if not _is_aside(one)] or listed
    if len(listed) > MOST_SENTENCES:
        listed = [*listed[:40], *listed[40 - MOST_SENTENCES :]]
    statements = [
        statement for sentence in listed if (statement := statement_of(sentence, kind)).asserted or statement.denied
    ]
    asserting = [statement for statement in statements if statement.asserted]
    if not asserting and (left := _left_over(statements, kind, said)) is not None:
        return left
    known = {statement.sentence.start for statement in statements}
    read = asserting[-1].sentence.end if asserting else 0
    later = sentences(said.text, max(read, len(said.text) - 1_000), len(said.text))
    if any((one.concluding or one.has("choose")) and one.start not in known for one in later):
        return None  # it concludes what cannot be read
    if not asserting:
        return _only_named(listed, kind, said)
    last = asserting[-1]
    if kind.kind in _NUMBERS and not _states(last, kind):
        last = next((statement for statement in reversed(asserting) if statement.concludes), last)
    values = list(dict.fromkeys(found.value for found in last.asserted))
    if len(values) != 1:
        return two_answers(
            [kind.show(value) for value in values], [_placed(said, last.sentence, found) for found in last.asserted]
        )
    value = values[0]
    opening = next(iter(sentences(said.text.lstrip()[:400])))
    if kind.kind in _NUMBERS and not last.concludes and opening.asks and len(opening.words) > 5:
        return None  # it asks back
    others = dict.fromkeys(
        found.value for statement in asserting for found in statement.asserted if found.value != value
    )
    if others and not _decides(last, asserting, listed, said, kind):
        clashing = next(s for s in reversed(asserting) if {found.value for found in s.asserted} - {value})
        places = [_placed(said, one.sentence, one.asserted[0]) for one in (clashing, last)]
        return two_answers([*map(kind.show, others), kind.show(value)], places)
    after = [one for one in statements if one.sentence.start >= last.sentence.start]
    if any(found.value == value for statement in after for found in statement.denied):
        return Reading(None, f"contradicts itself: {kind.show(value)}")
    return Reading(value, None, (), "prose", (_placed(said, last.sentence, last.asserted[-1]),))


def _decides(
    last: Statement, asserting: Sequence[Statement], listed: Sequence[Sentence], said: Visible, kind: AnswerType
) -> bool:
    """Return True if a statement outranks others that differ: it concludes, corrects, or ends the reply about what is asked."""
    if last.concludes or last.sentence.has("correction"):
        return True
    behind = Sentence(said.text, last.sentence.end, min(len(said.text), last.sentence.end + 300))
    if listed[-1].start != last.sentence.start or behind.has("negation", "hedge", "refusal"):
        return False
    if isinstance(kind, Choice):
        confirmed = any(_is_confirmed(one.sentence, found) for one in asserting[:-1] for found in one.asserted)
        before = [one for one in asserting[:-1] if {found.value for found in one.asserted} - {last.asserted[-1].value}]
        about = repeats(last.sentence, kind) or any(_identifies(last.sentence, one) for one in last.asserted)
        about = about or not any(repeats(one.sentence, kind) for one in before)
        return about and not confirmed and not _is_item(said, last.sentence)
    is_alike = any(_is_alike(one.sentence, last.sentence) for one in asserting[:-1])
    return kind.kind in _NUMBERS and repeats(last.sentence, kind) and not is_alike


def _is_aside(sentence: Sentence) -> bool:
    """Return True for a sentence in brackets, and one that checks the answer."""
    return sentence.text[0] + sentence.text[-1] == "()" or (
        sentence.words[:1] != [] and sentence.words[0].text in _CHECKS
    )


_IF = terms("if wenn falls si se unless")
_CHECKS = terms(
    "check probe kontrolle verification verify vérification comprobación verifica verificação проверка 验 検"
)


def _is_broken_off(text: str, kind: AnswerType) -> bool:
    """Return True for a text that ends with a question, a sign of going on, or a word that needs another: `and`, `by`, `the`."""
    text = text.rstrip("\"') \n")
    last = text[-20:].rsplit(maxsplit=1)[-1:]
    word = last[0] if last and len(last[0]) == 1 else "".join(last).lower()
    placed = kind.kind != "truth" and word in PREPOSITIONS  # `The lamp is on`
    return text.endswith(_OPEN_ENDS) or word in _NEEDS_MORE or placed


_OPEN_ENDS = ("?", "？", "=", "+", "×", ":", "：", ",", "，", "、", "(")
_NEEDS_MORE = terms("we is are was that which because if when of with to for from by through at than") | {
    *single_words("article"),
    *single_words("and"),
    *single_words("or"),
}


def _is_item(said: Visible, sentence: Sentence) -> bool:
    """Return True if a sentence stands on a line of a list, or opens with a label."""
    start, end = said.place(sentence.start, sentence.end)
    line = said.reply[said.reply.rfind("\n", 0, start) + 1 : end]
    return _ITEM.match(line) is not None


_ITEM = re.compile(r"\s*(?:[-*•·+]|\(?[A-Za-z0-9]{1,2}[.):])\s|[^.\n]{1,40}:\s|\*\*")


def _states(statement: Statement, kind: AnswerType) -> bool:
    """Return True if a statement repeats the question or calculates: `The average of the bars is 37.5`."""
    return repeats(statement.sentence, kind) or "=" in statement.sentence.text


def _concluded(said: Visible, kind: AnswerType) -> Reading | None:
    """Return what the last sentence says, if it concludes, repeats the question or identifies: `So the name is Aoife`, `It is a robin`."""
    ends = list(spans(said.text, max(0, len(said.text) - 1_500), len(said.text)))
    if not ends:
        return None
    last = Sentence(said.text, *ends[-1])
    part = last.conclusion
    concludes = _concludes(last)
    if (len(ends) < 2 and part is last) or (":" in last.text and _FIELDS.search(said.reply[-500:])):
        return None
    if last.asks or last.has("refusal") or (isinstance(kind, MultiChoice) and not concludes):
        return None
    if not isinstance(kind, (Text, MultiChoice)) and part.has("hedge", "or", "bound", "negation"):
        return None
    if isinstance(kind, Text) and part.text.count('"') > 2:
        return None  # which quotation is meant cannot be told
    found = kind.short(part)
    stated = not part.has("hedge") and (repeats(part, kind) or (found is not None and _identifies(part, found)))
    if not concludes and not stated:
        return None
    if found is None and isinstance(kind, Text):
        begin, part, found = part.start * (part is not last), last, kind.short(last)
        found = found if found is not None and found.start >= begin else None
    if found is None or (isinstance(kind, Text) and part is last and not part.words[0].start < found.start):
        return None
    offset = last.start + (part.start if part is not last else 0)
    place = undressed_span(said.reply, *said.written(offset + found.start, offset + found.end))
    value = said.reply[slice(*place)] if isinstance(kind, Text) else found.value
    return Reading(value, None, (), "prose", (place,)) if value else None


def _is_alike(first: Sentence, second: Sentence) -> bool:
    """Return True if two sentences are the same but for their numbers: they contradict each other."""
    return [word.text for word in first.words if word.text.isalpha()] == [
        word.text for word in second.words if word.text.isalpha()
    ]


def repeats(sentence: Sentence, kind: AnswerType) -> bool:
    """Return True if a sentence says again what the question asks about."""
    function = single_words("function")
    asked = {
        stemmed(word.text)
        for word in Sentence(kind.context.question[-500:], 0, 500).words
        if word.text.isalnum() and word.text not in function
    }
    return any(stemmed(word.text) in asked for word in sentence.words)


def _placed(said: Visible, sentence: Sentence, found: Found) -> tuple[int, int]:
    return said.place(sentence.start + found.start, sentence.start + found.end)


def _only_named(listed: Sequence[Sentence], kind: AnswerType, said: Visible) -> Reading | None:
    """Return the only option that a reply names at all, though with doubt: `It might be B`."""
    if not isinstance(kind, Choice) or any(sentence.has("refusal", "negation", "wrong", "or") for sentence in listed):
        return None
    named = [(sentence, one) for sentence in listed if not sentence.asks for one in kind.find(sentence)]
    if any(_stance(sentence, one, [one], kind) is None for sentence, one in named):
        return None  # `smaller than a crow`
    if len(listed) > 3 or len({one.value for _, one in named}) != 1:
        return None
    return Reading(named[-1][1].value, None, (), "prose", (_placed(said, *named[-1]),))


def _left_over(statements: Sequence[Statement], kind: AnswerType, said: Visible) -> Reading | None:
    """Return the option that is left where each of the others is ruled out in words."""
    if not isinstance(kind, Choice):
        return None
    denied = {found.value for statement in statements for found in statement.denied}
    left = [letter for letter in kind.options.letters if letter not in denied]
    if len(left) != 1 or len(kind.options.letters) < 3:
        return None
    places = tuple(_placed(said, statement.sentence, statement.denied[-1]) for statement in statements)
    return Reading(left[0], None, (), "prose", places[-1:])


def statement_of(sentence: Sentence, kind: AnswerType, hedged: bool = False) -> Statement:
    """Return what a sentence asserts and rules out; a question, a condition or a comparison does neither."""
    concludes = sentence.opens("conclusion") or bool(sentence.concluding)
    if sentence.asks:
        return Statement(sentence, (), (), False)
    found = list(kind.find(sentence))
    part = sentence.conclusion
    if part is not sentence and not isinstance(kind, Choice):
        behind = [Found(one.value, one.start + part.start, one.end + part.start) for one in kind.find(part)]
        behind = behind or [one for one in found if one.start >= part.start]
        found = behind or [one for one in found if kind.kind not in _NUMBERS or not any(map(str.isdigit, part.text))]
    if not found or (kind.kind in _NUMBERS and sentence.has("refusal")):
        return Statement(sentence, (), (), concludes)
    concludes = concludes or (kind.kind in _NUMBERS and _sums_up(sentence, found[-1]))
    if not isinstance(kind, Choice):
        words = sentence.words
        last = found[-1]
        unsure = any(
            one.table == "hedge" and words[one.first].text not in _AGAINST and words[one.first].start < last.end
            for one in sentence.phrases
        )
        if kind.kind in _NUMBERS:
            found = [one for one in found if not in_brackets(sentence.text, one.start)]
        if kind.kind in _NUMBERS and sentence.has("negation") and any(one.value for one in found):
            found = [one for one in found if not _is_denied(sentence, one, found, kind)]
        return Statement(sentence, () if unsure and not concludes else tuple(found), (), concludes)
    stances: list[bool | None] = []
    for at, one in enumerate(found):
        own = _stance(sentence, one, found, kind)
        listed = at > 0 and _is_listed(sentence, found[at - 1], one)
        stances.append(stances[-1] if listed and own is not False else own)
        first = at if own is None else _first_joined(sentence, found, at)  # `A, B and D are wrong`, `A or B is right`
        stances[first:at] = [own if before is None else own and before for before in stances[first:at]]
    asserted = [one for one, stance in zip(found, stances, strict=True) if stance]
    denied = [one for one, stance in zip(found, stances, strict=True) if stance is False]
    concludes = concludes or any(_is_confirmed(sentence, one) for one in asserted)
    if asserted and (concludes or "=" in sentence.text):
        asserted = _behind_conclusion(sentence, asserted)
    doubts = any(one.table == "hedge" and sentence.words[one.first].text not in _AGAINST for one in sentence.phrases)
    if asserted and doubts and not hedged and not concludes:
        asserted = _in_sure_clauses(sentence, asserted)
    return Statement(sentence, tuple(asserted), tuple(denied), concludes)


def _sums_up(sentence: Sentence, found: Found) -> bool:
    """Return True if a word of summing up stands shortly before or behind a number."""
    words = sentence.words
    first, after = (bisect_left(words, place, key=_start_of) for place in (found.start, found.end))
    return any(
        one.table == "total" and (0 <= first - one.after <= 3 or 0 <= one.first - after <= 3)
        for one in sentence.phrases
    )


def _concludes(sentence: Sentence) -> bool:
    return bool(sentence.concluding) or sentence.opens("conclusion") or "✓" in sentence.text or "✅" in sentence.text


def _is_listed(sentence: Sentence, before: Found, one: Found) -> bool:
    """Return True if only a comma, `or` or `and` stands between two options, so that one stance holds for both."""
    gap = Sentence(sentence.text, before.end, one.start)
    joints = {at for said in gap.phrases if said.table in ("or", "and") for at in range(said.first, said.after)}
    signs = single_words("article") | {",", "、", "・", "(", ")"}
    return 0 < len(gap.words) < 3 + len(joints) and all(
        at in joints or word.text in signs for at, word in enumerate(gap.words)
    )


def _first_joined(sentence: Sentence, found: Sequence[Found], at: int) -> int:
    """Return the first of the options that are listed with one and joined to it by `or` or `and`."""
    if not at or not Sentence(sentence.text, found[at - 1].end, found[at].start).has("and", "or"):
        return at
    while at > 0 and _is_listed(sentence, found[at - 1], found[at]):
        at -= 1
    return at


def _in_sure_clauses(sentence: Sentence, asserted: Sequence[Found]) -> list[Found]:
    """Return the options in clauses without a hedge: `While A is near, it is dark; the one that fits is B`."""
    cuts = [word.start for word in sentence.words if word.text in (";", ":") or word.text in _BUT]
    clauses = [Sentence(sentence.text, *bounds) for bounds in pairwise((0, *cuts, len(sentence.text)))]
    if not cuts or any(one.has("hedge") and one.has("answer") for one in clauses):
        return []  # `It conveys fear; the answer could be B or D`
    sure = [(one.start, one.end) for one in clauses if not one.has("hedge")]
    return [one for one in asserted if any(low <= one.start < high for low, high in sure)]


def _behind_conclusion(sentence: Sentence, asserted: list[Found]) -> list[Found]:
    """Return the options behind the last concluding word of a sentence, if there are any."""
    words = sentence.words
    ends = [words[phrase.after - 1].end for phrase in sentence.phrases if phrase.table in ("conclusion", "strong")]
    ends += [word.end for word in words if word.text == "="]
    behind = [one for one in asserted if one.start >= max(ends, default=0)] or asserted
    confirmed = [at for at, one in enumerate(behind) if _is_confirmed(sentence, one)]
    joined = {place for at in confirmed for place in range(_first_joined(sentence, behind, at), at + 1)}
    return [behind[at] for at in sorted(joined)] or behind


def _stance(sentence: Sentence, found: Found, all_found: Sequence[Found], kind: AnswerType) -> bool | None:
    """Return True for an asserted option, False for one that is ruled out, None for one that is only compared with."""
    words = sentence.words
    if not _CROSSES.isdisjoint(sentence.text):
        return False
    first, after = (bisect_left(words, place, key=_start_of) for place in (found.start, found.end))
    clause = _clause_start(words, first)
    before, behind = (
        [word.text for word in part] for part in (words[max(clause, first - 5) : first], words[after : after + 6])
    )
    if not _THAN.isdisjoint(before[-3:]) and any(
        word in _MORE or word in _LESS or word.endswith("er") for word in before
    ):
        return None  # `besser als B`
    if not (_THAN.isdisjoint(behind) or _LESS.isdisjoint(behind)) and _LESS.isdisjoint(words_in(kind.context.question)):
        return None  # `B is worse than A`
    for phrase in sentence.phrases:
        if phrase.table not in ("wrong", "negation", "hedge") or not first - 60 <= phrase.first <= after + 60:
            continue
        start, end = words[phrase.first].start, words[phrase.after - 1].end
        if any(one.start < end and start < one.end for one in all_found):
            continue  # the word is an option itself: yes, no, none of them
        gap = [word.text for word in words[after : phrase.first]]
        near = len(gap) <= 3 and not any(word in _BREAKS or word in single_words("shows") for word in gap)
        if phrase.table == "wrong" and phrase.first >= after and (near or all(word in _GAP for word in gap)):
            return False
        if phrase.table == "negation" and clause <= phrase.first < first and not _turned(words, phrase.after, first):
            return False
        if phrase.table == "hedge" and words[phrase.first].text in _AGAINST and clause <= phrase.first < first:
            return None
    return True


def _identifies(sentence: Sentence, found: Found) -> bool:
    """Return True if only a pronoun, a verb and an article stand before an option in its clause: `…: this is badminton`."""
    words = [word for word in sentence.words if word.start < found.start]
    clause = words[_clause_start(words, len(words)) :]
    tables = [phrase for phrase in sentence.phrases if phrase.table in ("subject", "shows", "adverb")]
    said = {word.text for phrase in tables for word in sentence.words[phrase.first : phrase.after]}
    opens = bool(clause) and clause[0].text in single_words("subject")
    return opens and all(word.text in said or word.text in single_words("article") for word in clause)


def _is_confirmed(sentence: Sentence, found: Found) -> bool:
    """Return True if a sentence calls an option the answer: `B is correct`, `B fits best`."""
    words = sentence.words
    after = bisect_left(words, found.end, key=_start_of)
    return any(phrase.table == "letter_after" and 0 <= phrase.first - after <= 1 for phrase in sentence.phrases)


_start_of = attrgetter("start")


def _is_denied(sentence: Sentence, found: Found, all_found: Sequence[Found], kind: AnswerType) -> bool:
    """Return True if a negation that the question has not stands in the part that holds a value, between commas or words for `and`."""
    closed = {one.end + 1 for one in all_found}  # `20 and 35 are not the price`
    joints = single_words("and")
    ends = [
        one for one in sentence.words if one.text in (",", ";", ":") or (one.text in joints and one.start not in closed)
    ]
    start = max((word.end for word in ends if word.end <= found.start), default=0)
    end = min((word.start for word in ends if word.start >= found.end), default=len(sentence.text))
    clause, asked = Sentence(sentence.text, start, end), kind.context.question.lower()
    return any(one.table == "negation" and clause.words[one.first].text not in asked for one in clause.phrases)


_THAN = terms("than als que che di dan чем")
_MORE = terms("more mehr plus más mais più meer mejor mieux meilleur meilleure meglio migliore melhor лучше более")
_LESS = terms("less worse weaker schlechter weniger moins pire menos peor pior meno peggio minder slechter хуже менее")
_CROSSES = frozenset("✗✘❌❎✖")
_GAP = single_words("adverb") | {":", ")", ".", '"', "-", "both", "really", "also"}
_BUT = terms("but aber sondern mais pero sino ma mas maar ale но а 但 但是 而")
_AGAINST = frozenset(
    ("than", "instead", "rather", "unlike", "similar", "while", "although", "compared", "resembles", "resemble")
)
_BREAKS = terms(", ; : but so aber sondern pero sino mais 而是 而 — – therefore но а")


def _clause_start(words: Sequence[Any], first: int) -> int:
    at = first
    while at > 0 and words[at - 1].text not in _BREAKS:
        at -= 1
    return at


def _turned(words: Sequence[Any], after: int, first: int) -> bool:
    """Return True if `but` stands between a negation and an option: `not A but B`."""
    return any(words[at].text in ("but", "sondern", "sino", "mais") for at in range(after, first))
