"""Reading a count: digits or words, the total among its parts, none for ranges and bounds."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.scoring.extract.cleaning import Reply
from snellen.scoring.extract.conclusion import NOTHING, Finding, Reading, conclude
from snellen.scoring.extract.numerals import CJK_DIGITS, CJK_SCALES, cjk_at, digits, words_at
from snellen.scoring.extract.sentences import Sentence, tokenize
from snellen.scoring.names import stem, terms

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
    r"^\s*(?:\w+\s+)?(?:or more|or so more|or fewer|or less|plus\b|\+|and (?:more|counting))", re.IGNORECASE
)
_RANGE_AFTER = re.compile(r"^\s*(?:-|~|to|or|–|至|到|或|/)\s*$", re.IGNORECASE)
_VAGUE = re.compile(
    r"\b(?:several|many|numerous|a few|a handful|some|multiple|various|lots|countless|dozens|hundreds|plenty|a number of)\b|几|许多|很多|一些",
    re.IGNORECASE,
)
_ZERO = re.compile(
    r"^(?:\W*(?:so|well|the answer is|there (?:are|is)|i (?:can )?(?:see|count)|it has|zero)?\W*)(?:none|nothing|nil)\b|\b(?:there (?:are|is|were) (?:no|none|not any|zero)|there (?:aren't|isn't|are not|is not) (?:any|a)\b|"
    r"(?:i |we |can |do |)(?:see|count|find|spot|observe|identify|contains?|shows?|has|have|with|depicts?)\s+no\b(?! (?:more|fewer|less|other|additional|further))|"
    r"(?:don't|do not|doesn't|does not|didn't|can't|cannot)\s+(?:\w+ )?(?:see|contain|show|have|find|spot|include|count|observe|depict) (?:any|a)\b|"
    r"not a single|none of (?:them|the|these)|none (?:is|are) )|没有(?!看清)|^no (?!idea|clue|way|more|doubt|fewer|less)\w+",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"\b(?:in total|total(?:ing|s)?|altogether|in all|overall|all together|combined|sum|all told|makes|making|giving|gives|leaves|leaving|for a total)\b|总共|一共|共",
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
_ENUMERATED = re.compile(r"^\s*\(?\d{1,2}[.)]\s+\S")


@lru_cache(maxsize=2_048)
def counted(question: str) -> frozenset[str]:
    """Stems of the nouns that a question asks to count."""
    nouns: set[str] = set()
    for match in _HOW_MANY.finditer(question[-800:]):
        for word in match.group(1).lower().split():
            if word in _NOUN_STOP:
                break
            nouns.add(stem(word))
    return frozenset(nouns)


def read_count(reply: Reply, question: str) -> Reading:
    """The whole number that the reply gives as its count, or why there is none."""
    nouns = counted(question) if question else frozenset()
    text = reply.text
    lines = text.split("\n")
    if sum(1 for line in lines if _ENUMERATED.match(line)) >= 2:
        text = "\n".join(
            re.sub(r"^\s*\(?\d{1,2}[.)]\s+", "", line) if _ENUMERATED.match(line) else line for line in lines
        )

    def sentence(part: str, announced: bool) -> Finding:
        return _read(part, announced, nouns)

    return conclude(text, sentence)


def _read(text: str, announced: bool, nouns: frozenset[str]) -> Finding:
    spoken = tokenize(text)
    words = spoken.words
    found = list(_numbers(spoken))
    if not found:
        if _ZERO.search(text):
            return Finding((0,), firm=True)
        if _VAGUE.search(text):
            return NOTHING if not announced else Finding(problem="no exact number")
        return _single(words, nouns)
    for _, start, end in found:
        before = text[: spoken.spans[start][0]]
        after = text[spoken.spans[end - 1][1] :]
        if _BOUNDS.search(before) or _BOUND_AFTER.match(after):
            return Finding(problem="a bound, not a count")
    for (low, _, end), (high, start, _) in zip(found, found[1:], strict=False):
        between = text[spoken.spans[end - 1][1] : spoken.spans[start][0]]
        if low != high and (
            _RANGE_AFTER.match(between)
            or (
                between.strip().lower() == "and"
                and re.search(r"\bbetween\s*$", text[: spoken.spans[found[0][1]][0]], re.IGNORECASE)
            )
        ):
            return Finding(problem=f"a range: {low} to {high}")
    equal = text.rfind("=")
    if equal >= 0:
        after_equal = [n for n in found if spoken.spans[n[1]][0] > equal]
        if after_equal:
            return Finding((after_equal[0][0],), firm=True)
    total = _TOTAL.search(text)
    if total is not None and len(found) > 1:
        near = min(
            found,
            key=lambda n: min(abs(spoken.spans[n[1]][0] - total.end()), abs(total.start() - spoken.spans[n[2] - 1][1])),
        )
        return Finding((near[0],), firm=True)
    if total is not None:
        return Finding((found[0][0],), firm=True)
    if len(words) <= 3 + (found[0][2] - found[0][1]) and found[0][1] <= 1:
        return Finding(tuple(dict.fromkeys(n[0] for n in found)), firm=True)
    if announced and found[0][1] <= 3:
        return Finding((found[0][0],), firm=True)
    named = [n for n in found if nouns and any(stem(w) in nouns for w in words[n[2] : n[2] + 4])]
    exists = _EXISTS.search(text)
    if named:
        first = named[0]
        values = tuple(dict.fromkeys(n[0] for n in named))
        led = exists is not None and exists.start() < spoken.spans[first[1]][0]
        if led and len(values) > 1 and ":" in words[first[2] : named[1][1]]:
            values = values[:1]
        return Finding(values, firm=len(values) == 1 and (led or first[1] <= 1))
    if exists is not None and not nouns:
        return Finding((found[0][0],), firm=True)
    return Finding(
        tuple(dict.fromkeys(n[0] for n in found)),
        firm=found[0][1] == 0 and len(words) > 1 and words[found[0][2]] in (".", ",", ":", "-")
        if found[0][2] < len(words)
        else False,
    )


def _single(words: list[str], nouns: frozenset[str]) -> Finding:
    """`a bird`, `only a single one`: one; weak where it is only an article."""
    for i, word in enumerate(words):
        if word in ("single", "sole") or (word == "once" and len(words) < 3):
            return Finding((1,), firm=False)
        if word in ("pair", "couple", "both", "twice") and (word != "both" or i == 0):
            return Finding((2,) if word != "both" else (), weak=(2,))
        if word in ("a", "an") and nouns and any(stem(w) in nouns for w in words[i + 1 : i + 4]):
            return Finding((), weak=(1,))
    return NOTHING


def _numbers(spoken: Sentence) -> list[tuple[int, int, int]]:
    """(value, first word, end word) of the numbers that can be counts."""
    words = spoken.words
    found: list[tuple[int, int, int]] = []
    i, n = 0, len(words)
    while i < n:
        word = words[i]
        value: float | int | None = None
        end = i + 1
        if word[0].isdigit():
            value = digits(word)
        elif word in CJK_DIGITS or word in CJK_SCALES:
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
            found.append((int(value), i, end))
        i = end
    return found


_PRONOUN_AFTER = terms("of is on in at has seems appears might could can with near to that who which standing sitting")


def _other(words: list[str], i: int, end: int, spoken: Sentence) -> bool:
    """Whether the number at words i to end counts something else: an index, an ordinal, a unit, a pronoun."""
    before = words[i - 1] if i else ""
    after = words[end] if end < len(words) else ""
    if before in _INDEXED or before == "第":
        return True
    if (
        before in ("and", ",", "&", "or", "-", "to")
        and i >= 3
        and (words[i - 2][0].isdigit() or words[i - 2] in ("one", "two", "three"))
        and words[i - 3] in _INDEXED
    ):
        return True
    if after in _SCALES_OF_OTHER and (spoken.spans[end][0] - spoken.spans[end - 1][1] <= 1):
        return True
    if words[i] == "one" and end == i + 1:
        if before in (
            "no",
            "this",
            "that",
            "which",
            "each",
            "every",
            "another",
            "other",
            "left",
            "right",
            "red",
            "first",
            "second",
            "last",
            "any",
            "some",
            "the",
        ) or (
            before.isalpha()
            and after in ("is", "has")
            and before not in ("only", "just", "exactly", "and", "see", "is", "are")
        ):
            return True
        if after == "of":
            return True
    if (
        words[i][0].isdigit()
        and len(words[i]) == 4
        and words[i][:2] in ("19", "20")
        and before in ("in", "since", "from", "of")
    ):
        return True
    return False
