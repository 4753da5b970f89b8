"""Extraction of counts: digits or words, the total among its parts, none for ranges and bounds."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.clean import CleanReply
from snellen.scoring.extract.final_answer import NOTHING, SentenceFinding, conclude
from snellen.scoring.extract.numerals import CJK_DIGITS, CJK_SCALES, cjk_at, digits, words_at
from snellen.scoring.extract.tokenize import Sentence, tokenize
from snellen.scoring.name_match import stem
from snellen.text import terms

_INDEXED = terms(
    "image images picture pictures photo photos figure fig frame frames step option question view row column "
    "panel page version chapter line level number no # day section item example scene clip 图 第 class type "
    "group route bus room car-no player"
)
_SCALES_OF_OTHER = terms(
    "% percent percentage cm mm km meter meters metre metres inch inches foot feet ft kg kilogram kilograms "
    "gram grams g lb lbs pound pounds second seconds minute minutes hour hours hrs year years month months "
    "week weeks degree degrees ° pixel pixels px dollar dollars $ am pm o'clock st nd rd th x m"
)
_BOUNDS = re.compile(
    r"\b(?:at least|at most|more than|fewer than|less than|greater than|over|under|up to|no more than|no fewer than|upwards of|a minimum of|a maximum of|minimum|maximum)\s+$",
    re.IGNORECASE,
)
_BOUND_AFTER = re.compile(
    r"^\s*(?:\w+\s+)?(?:or more|or so more|or fewer|or less|plus\b(?!\s*\w*\d)|\+(?!\s*\d)|and (?:more|counting))",
    re.IGNORECASE,
)
_RANGE_AFTER = re.compile(r"^\s*(?:-|~|to|or|–|至|到|或|/)\s*$", re.IGNORECASE)
_VAGUE = re.compile(
    r"\b(?:several|many|numerous|a few|a handful|some|multiple|various|lots|countless|dozens|hundreds|plenty|a number of)\b|几|许多|很多|一些",
    re.IGNORECASE,
)
_ZERO = re.compile(
    r"^(?:\W{0,4}(?:so|well|the answer is|there (?:are|is)|i (?:can )?(?:see|count)|it has|zero)?\W{0,4})(?:none|nothing|nil)\b|\b(?:there (?:are|is|were) (?:no|none|not any|zero)|there (?:aren't|isn't|are not|is not) (?:any|a)\b|"
    r"(?:i |we |can |do |)(?:see|count|find|spot|observe|identify|contains?|shows?|has|have|with|depicts?)\s+no\b(?! (?:more|fewer|less|other|additional|further))|"
    r"(?:don't|do not|doesn't|does not|didn't|can't|cannot)\s+(?:\w+ )?(?:see|contain|show|have|find|spot|include|count|observe|depict) (?:any|a)\b|"
    r"not a single|none of (?:them|the|these)|none (?:is|are) )|没有(?!看清)|^no (?!idea|clue|way|more|doubt|fewer|less)\w+",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"\b(?:in total|total(?:ing|s)?|altogether|in all|overall|all together|combined|sum|all told|i\.e|in other words|makes|making|giving|gives|leaves|leaving|for a total)\b|总共|一共|共",
    re.IGNORECASE,
)
_EXISTS = re.compile(
    r"\b(?:there (?:are|is|were|'s)|there're|i (?:can )?(?:see|count(?:ed)?|find|spot|observe)|we (?:can )?(?:see|count)|(?:image|picture|photo|scene)s? (?:\w+ )?(?:shows?|contains?|depicts?|has|have|includes?)|you can see|has|have|shows?|contains?|visible)\b|有",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"\b(?:how many|number of|count(?: of| the)?)\s+(?:different |distinct |unique |separate |individual |total |visible )*((?:[\w'-]+\s+){0,2}[\w'-]+)",
    re.IGNORECASE,
)
_NOUN_STOP = terms(
    "are is do does did can in on of that there were was you the this appear shown visible have has different "
    "distinct image picture total"
)
_NOUN_ENDS = terms("and or , ; : ( ) . of in on at with to is are - but from near")
_PART = re.compile(
    r"\b(?:(?:on|to|at|in|from) (?:the |its )?(?:far |upper |lower |top |bottom )?(?:left|right|top|bottom|front|back|middle|cent(?:er|re)|foreground|background|first|second|third|fourth|other|upper|lower|distance|sky|corner|ground|water)|"
    r"(?:first|second|third|fourth|left|right|top|bottom|upper|lower|middle|front|back) (?:row|shelf|image|picture|photo|side|half|group|column|panel|branch|frame|section|part|region)|in (?:image|picture|photo|frame) \d|another|more|behind)\b|左|右",
    re.IGNORECASE,
)
_AMONG = re.compile(
    r"\b(?:of which|of whom|of them|including|among (?:them|which)|one of)\b|其中|(?<=\w)\s\(", re.IGNORECASE
)
_ENUMERATED = re.compile(r"^\s*\(?\d{1,2}[.)]\s+(?=\S)")


@lru_cache(maxsize=2_048)
def counted(question: str) -> frozenset[str]:
    """Return stems of the nouns that a question asks to count."""
    nouns: set[str] = set()
    for match in _HOW_MANY.finditer(question[-800:]):
        for word in match.group(1).lower().split():
            if word in _NOUN_STOP:
                break
            nouns.add(stem(word))
    return frozenset(nouns)


def read_count(reply: CleanReply, question: str) -> Reading:
    """Read the whole number that the reply gives as its count, or the reason why there is none."""
    nouns = counted(question) if question else frozenset()
    text = reply.text
    lines = text.split("\n")
    if sum(1 for line in lines if _ENUMERATED.match(line)) >= 2:
        text = "\n".join(_ENUMERATED.sub("", line) for line in lines)

    def sentence(part: str, announced: bool) -> SentenceFinding:
        return _read(part, announced, nouns)

    return conclude(text, sentence)


def _read(text: str, announced: bool, nouns: frozenset[str]) -> SentenceFinding:
    spoken = tokenize(text)
    words = spoken.words
    numbers = _numbers(spoken)
    if len(numbers) > 2 and [n[0] for n in numbers] == list(range(1, len(numbers) + 1)):
        return SentenceFinding((len(numbers),), firm=True)  # counted aloud: `1, 2, 3, 4`
    if len(numbers) > 2 and numbers[-1][0] == sum(n[0] for n in numbers[:-1]):
        return SentenceFinding((numbers[-1][0],), final=True)  # `3 below, 4 above: 7`
    among = _AMONG.search(text)
    if among is not None:
        numbers = [n for n in numbers if spoken.spans[n[1]][0] < among.start()] or numbers
    zero = _none_of(words, nouns) or _ZERO.search(text) is not None
    if zero and not any(_names(words, n, nouns) for n in numbers):
        return SentenceFinding((0,), firm=True)
    if not numbers:
        if _VAGUE.search(text):
            return SentenceFinding(problem="no exact number") if announced else NOTHING
        return _single(words, nouns)
    problem = _inexact(text, spoken, numbers)
    if problem:
        return SentenceFinding(problem=problem)
    summed = _summed(text, spoken, numbers)
    if summed is not None:
        return SentenceFinding((summed,), final=True)
    values = tuple(dict.fromkeys(n[0] for n in numbers))
    first = numbers[0]
    if first[1] <= 1 and len(words) <= 3 + first[2] - first[1]:
        return SentenceFinding(values, firm=True)
    if announced and first[1] <= 3:
        return SentenceFinding(values[:1], firm=True)
    part = _PART.search(text) is not None
    named = [n for n in numbers if _names(words, n, nouns)]
    exists = _EXISTS.search(text)
    if named:
        first = named[0]
        values = tuple(dict.fromkeys(n[0] for n in named))
        led = exists is not None and exists.start() < spoken.spans[first[1]][0]
        if led and len(values) > 1 and (":" in words[first[2] : named[1][1]] or "including" in words):
            values = values[:1]
        return SentenceFinding(values, firm=len(values) == 1 and not part and (led or first[1] <= 1))
    if exists is not None and not nouns:
        return SentenceFinding(values[:1], firm=not part)
    after = words[first[2]] if first[2] < len(words) else ""
    if first[1] == 0 and after in (".", ",", ":", "-", ";", "("):
        return SentenceFinding(values[:1], firm=True)
    return SentenceFinding(values)


def _names(words: list[str], number: tuple[int, int, int], nouns: frozenset[str]) -> bool:
    """Return True if a counted noun follows the number, with up to three words (`small red`) in between."""
    for word in words[number[2] : number[2] + 4]:
        if word in _NOUN_ENDS:
            return False
        if stem(word) in nouns:
            return True
    return False


def _none_of(words: list[str], nouns: frozenset[str]) -> bool:
    """Return True for `no birds`, `no visible birds`."""
    return any(
        word == "no" and any(stem(following) in nouns for following in words[i + 1 : i + 3])
        for i, word in enumerate(words)
    )


def _inexact(text: str, spoken: Sentence, numbers: list[tuple[int, int, int]]) -> str | None:
    """Return why the numbers of a sentence give no count: a bound (`at least 3`) or a range (`2 or 3`); else None."""
    spans = spoken.spans
    for _, start, end in numbers:
        if _BOUNDS.search(text[max(0, spans[start][0] - 24) : spans[start][0]]) or _BOUND_AFTER.match(
            text[spans[end - 1][1] :]
        ):
            return "a bound, not a count"
    for (low, begin, end), (high, start, _) in pairwise(numbers):
        between = text[spans[end - 1][1] : spans[start][0]].strip().lower()
        if low == high:
            continue
        if _RANGE_AFTER.match(between) or (between == "and" and spoken.words[max(0, begin - 1)] == "between"):
            return f"a range: {low} to {high}"
    return None


def _summed(text: str, spoken: Sentence, numbers: list[tuple[int, int, int]]) -> int | None:
    """Return the number that a sentence gives as total: after `=`, `makes`, `total of`, or before `in total`."""
    equal = text.rfind("=")
    totals = list(_TOTAL.finditer(text))
    at = equal + 1 if equal >= 0 else totals[-1].end() if totals else -1
    if at < 0:
        return None
    after = [n for n in numbers if spoken.spans[n[1]][0] >= at - 1]
    if after:
        return after[0][0]
    return numbers[-1][0] if equal < 0 else None


def _single(words: list[str], nouns: frozenset[str]) -> SentenceFinding:
    """Read counts without a number: `a pair of birds` is two, `a single bird` is one, `a bird` is perhaps one."""
    for i, word in enumerate(words):
        if word in ("pair", "couple") and (not nouns or any(stem(w) in nouns for w in words[i + 1 : i + 5])):
            return SentenceFinding((2,))
        if word == "both" and i <= 1:
            return SentenceFinding(weak=(2,))
        if word in ("single", "sole") or (word == "once" and len(words) < 3):
            return SentenceFinding((1,))
    for i, word in enumerate(words):
        if word in ("a", "an") and nouns:
            for following in words[i + 1 : i + 4]:
                if following in _NOUN_ENDS:
                    break
                if stem(following) in nouns:
                    return SentenceFinding(weak=(1,))
    return NOTHING


def _numbers(spoken: Sentence) -> list[tuple[int, int, int]]:
    """Return (value, first word, end word) of the numbers that can be counts."""
    words = spoken.words
    numbers: list[tuple[int, int, int]] = []
    i, n = 0, len(words)
    while i < n:
        word = words[i]
        value: float | int | None = None
        end = i + 1
        if word[0].isdigit():
            value = digits(word)
        elif word in CJK_DIGITS or word in CJK_SCALES:
            if words[i + 1 : i + 2] and words[i + 1] in "些样起定般直边切共旦":
                i += 2
                continue
            cjk = cjk_at(words, i)
            if cjk is not None:
                value, end = cjk
        elif word == "half" and words[i + 1 : i + 3] == ["a", "dozen"]:
            value, end = 6, i + 3
        elif word in ("dozen",) and i and words[i - 1] == "a":
            value = 12
        elif word.isalpha() and word.isascii():
            spelled = words_at(words, i)
            if spelled is not None:
                value, end = spelled
        if value is None:
            i += 1
            continue
        if value == int(value) and value < 1_000_000_000 and not _other(words, i, end, spoken):
            numbers.append((int(value), i, end))
        i = end
    return numbers


# Words around a `one` that counts nothing (`the one on the left`, `one of them`), and before one that does.
_POINTING = terms("no this that which each every another other left right red first second last any some the")
_PARTS = terms("of side part half end corner view angle")
_COUNTING = terms("only just exactly and see is are")


def _other(words: list[str], i: int, end: int, spoken: Sentence) -> bool:
    """Return True if the number at words i to end counts something else: an index, an ordinal, a unit, a pronoun."""
    before = words[i - 1] if i else ""
    after = words[end] if end < len(words) else ""
    if (
        before in ("the", "these", "those", "all")
        and i >= 3
        and words[i - 2] == "of"
        and (words[i - 3][0].isdigit() or words_at(words, i - 3))
    ):
        return True  # `two of the three`
    if before in _INDEXED or before == "第":
        return True
    if (
        before in ("and", ",", "&", "or", "-", "to")
        and i >= 3
        and (words[i - 2][0].isdigit() or words[i - 2] in ("one", "two", "three"))
        and words[i - 3] in _INDEXED
    ):
        return True
    if after == "-" and words[end + 1 : end + 2] and words[end + 1] in _SCALES_OF_OTHER:
        return True  # `a 9-year-old`
    if after in _SCALES_OF_OTHER and spoken.spans[end][0] - spoken.spans[end - 1][1] <= 1:
        return True
    if words[i] == "one" and end == i + 1:
        if before in _POINTING or after in _PARTS:
            return True
        if before.isalpha() and after in ("is", "has") and before not in _COUNTING:
            return True
    return before in ("in", "since", "from", "of") and re.fullmatch(r"(?:19|20)..", words[i]) is not None
