"""Options that give the answer away or cannot be told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter

from msgspec import Struct

from snellen.benchmarks.table.question import shown_answer
from snellen.runs.check.finding import CheckedRow
from snellen.scoring.answers.fold import exact, folded

CUT = 60
_IN_QUESTION = ("choice", "choice_text", "short", "text", "name")
"""Kinds whose gold answers are texts, which may stand in the question."""
DIFFERING = {"accents": "with other accents", "exact": "in another case"}
_CATCH_ALL = re.compile(
    r"(?:all|none|neither|both|any)(?: of)?(?: the| these| those| them)?(?: (?:above|others?|options|choices|answers|following|these|"
    r"those))*(?: (?:above|are|is|correct|true|right|apply|applies))*|no (?:correct |right )?(?:answer|option)",
)
_NAMED_OPTIONS = re.compile(
    r"(?i:both |either |neither |only |options? |choices? |answers? |all of )*\(?[A-Z]\)?"
    r"(?:(?:\s*,\s*(?:and |or )?|\s*&\s*|\s+(?:and|or|nor)\s+)\(?[A-Z]\)?)+(?i:\s+(?:are|is|only|correct|true))*"
)
_ONE_NAMED = re.compile(r"(?i:options?|choices?|answers?)\s+\(?([A-Z])\)?")
_LETTERED = re.compile(r"[(\[]?([A-Za-z])[)\].:]{1,2}(?:\s+\S.*|\s*)", re.DOTALL)
_MARKED = re.compile(r"[(\[*](?:the )?(?:correct|right|gold)(?: answer| option| choice)?[)\]*]|[✓✔✅☑]", re.IGNORECASE)
_STATED = re.compile(r"(?i:answer|option|choice)\s?(?i:is|:|=)\s?[(\[]?([A-Z])\b")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_SHORTEST, _SHORTEST_UNSPACED, _LONGEST = 3, 2, 300
"""Characters of an answer that is looked for in the question."""


class OptionText(Struct, frozen=True, gc=False):
    """What an option's text says by itself: its length, its form without case and blanks, and what may be odd about it."""

    length: int
    folded: str
    plain: str
    leading: str = ""
    is_catch_all: bool = False
    may_name_options: bool = False
    is_marked: bool = False


class RowOptions(Struct, frozen=True, gc=False):
    """What the options of a row say, in their order; `odd` says what may be odd about each, and is empty where nothing is."""

    lengths: list[int]
    folded: list[str]
    plain: list[str]
    odd: list[OptionText]


_CATCH_ALL_FIRST = frozenset(("all", "none", "neither", "both", "any", "no"))
_MARKS = frozenset("([*✓✔✅☑")
_SPACED = str.maketrans({**dict.fromkeys(",.&", " "), **dict.fromkeys("'\"-/%$?!;_+=", "x")})
"""What may stand beside an option's letter becomes a blank; what no odd option is told by becomes a letter."""
_ORDINARY = OptionText(0, "", "")
"""Stands in `odd` for an option that is not odd."""
_LENGTH, _FOLDED, _PLAIN = attrgetter("length"), attrgetter("folded"), attrgetter("plain")


def row_options(options: Mapping[str, str]) -> RowOptions:
    """Return what the options of a row say. Most are told at once, from all of their texts, to be ordinary."""
    texts = list(options.values())
    whole = "\n".join(texts)
    lines = whole.lower().split("\n")
    if whole.isascii() and len(lines) == len(options):
        words = whole.translate(_SPACED).lower()
        if words.replace(" ", "").replace("\n", "").isalnum():
            if "  " in whole or " \n" in whole or "\n " in whole or whole[0] == " " or whole[-1] == " ":
                lines = [" ".join(line.split()) for line in lines]
            plain = [line.rstrip(".") for line in lines] if "." in whole else lines
            odd: list[OptionText] = []
            found = words.split()
            if min(map(len, found)) == 1 or not _CATCH_ALL_FIRST.isdisjoint(found):
                may_be = [
                    not _CATCH_ALL_FIRST.isdisjoint(found := line.split()) or min(map(len, found), default=0) == 1
                    for line in words.split("\n")
                ]
                odd = _odd(option_text(text) if odd else _ORDINARY for text, odd in zip(texts, may_be, strict=True))
            return RowOptions([len(text.strip()) for text in texts], lines, plain, odd)
    about = list(map(option_text, texts))
    return RowOptions(list(map(_LENGTH, about)), list(map(_FOLDED, about)), list(map(_PLAIN, about)), _odd(about))


def _odd(about: Iterable[OptionText]) -> list[OptionText]:
    """Return all options if one of them is odd by itself, else none."""
    about = list(about)
    is_odd = any(text.leading or text.is_catch_all or text.may_name_options or text.is_marked for text in about)
    return about if is_odd else []


@lru_cache(maxsize=65_536)
def option_text(text: str) -> OptionText:
    """Return what an option's text says by itself."""
    stripped = text.strip()
    folded_text = " ".join(stripped.casefold().split())
    plain = folded_text.rstrip(".")
    names = len(stripped) <= 2 * CUT and any(len(word.strip("(),.&")) == 1 for word in stripped.split())
    return OptionText(
        len(stripped),
        folded_text,
        plain,
        _leading(stripped),
        plain.partition(" ")[0] in _CATCH_ALL_FIRST and _CATCH_ALL.fullmatch(plain) is not None,
        names and any(pattern.fullmatch(stripped.strip(" .")) for pattern in (_NAMED_OPTIONS, _ONE_NAMED)),
        not _MARKS.isdisjoint(text) and _MARKED.search(text) is not None,
    )


def option_findings(row: CheckedRow, about: RowOptions) -> Iterator[tuple[str, str]]:
    """Yield code and detail of what is odd about the options, of which `about` says more, and the gold answer of a row."""
    if options := row.options:
        if len(set(about.plain)) < len(options) or not "".join(options.values()).isascii():
            yield from _equal(options, row.answer)
        if about.odd:
            by_letter = dict(zip(options, about.odd, strict=True))
            yield from _letters(options, by_letter)
            yield from _marked(options, by_letter)
        if row.kind == "choice" and row.answer not in options:
            yield "gold-not-an-option", f"{str(row.answer)[:CUT]!r} is none of {', '.join(options)}"
    elif (level := row.level) in DIFFERING:
        yield "options-alike", f"{shown_answer(row.answer)[:CUT]!r}, which another row has {DIFFERING[level]}"
    if row.kind == "judged":
        yield "sentence-answers", f"{shown_answer(row.answer)[:CUT]!r}"
    if detail := _in_question(row):
        yield "answer-in-question", detail


def _plain(text: str) -> str:
    """Return a text without case, and with single spaces in place of other spaces and the final point."""
    return " ".join(text.casefold().split()).rstrip(".")


def _equal(options: Mapping[str, str], gold: object) -> Iterator[tuple[str, str]]:
    """Yield options with the same text, and those that differ in case or accents alone."""
    for code, fold in (("equal-options", exact), ("options-alike", folded)):
        letters: dict[str, str] = {}
        for letter, text in options.items():
            key = fold(text)
            if key and (first := letters.setdefault(key, letter)) != letter:
                right = ", one of which is the gold answer" if gold in (first, letter) else ""
                both = repr(text.strip()[:CUT])
                if code == "options-alike":
                    both = f"{options[first].strip()[:CUT]!r} and {both}"
                yield code, f"{first} and {letter} are {both}{right}"
                return


def _letters(options: Mapping[str, str], about: Mapping[str, OptionText]) -> Iterator[tuple[str, str]]:
    """Yield options that hold letters of options, and options that stand for others."""
    drawn = moved = False
    if all(option.leading for option in about.values()):  # perhaps letters, as where they stand in the image
        whole = {text.strip().upper(): letter for letter, text in options.items()}
        drawn = set(whole) == set(options)
        moved = drawn and any(whole[text] != text for text in whole)
    seen = set[str]()
    for letter, text in options.items():
        option = about[letter]
        code = ""
        if moved or (not drawn and option.leading in options and option.leading != letter):
            code = "letter-in-option"
        elif option.is_catch_all:
            code = "catch-all-option"
        elif option.may_name_options and _names_options(text.strip(), options):
            code = "option-names-options"
        if code and code not in seen:
            seen.add(code)
            yield code, f"{letter} is {text.strip()[:CUT]!r}"


def _marked(options: Mapping[str, str], about: Mapping[str, OptionText]) -> Iterator[tuple[str, str]]:
    marked = [letter for letter, option in about.items() if option.is_marked]
    if len(marked) == 1:
        yield "marked-option", f"{marked[0]} is {options[marked[0]].strip()[:CUT]!r}"


def _leading(text: str) -> str:
    """Return the letter that a text begins with as an option does (`B. cat`), or is; empty without one."""
    if len(text) == 1 and text.isascii() and text.isalpha():
        return text.upper()
    match = _LETTERED.fullmatch(text)
    return match[1].upper() if match else ""


def _names_options(text: str, options: Mapping[str, str]) -> bool:
    if len(text) > 2 * CUT:
        return False
    match = _NAMED_OPTIONS.fullmatch(text.strip(" ."))
    if match:
        return set(re.findall(r"\b[A-Z]\b", text)) <= set(options)
    named = _ONE_NAMED.fullmatch(text.strip(" ."))
    return named is not None and named[1] in options


def _in_question(row: CheckedRow) -> str:
    """Return the gold answer that stands in a question, or what states it there; empty where it does not."""
    if not row.own_text or row.kind not in _IN_QUESTION:
        return ""
    folded_question = row.question.casefold()
    if row.kind == "choice":
        gold = row.options.get(row.answer, "") if isinstance(row.answer, str) else ""
        may_state = "answer" in folded_question or "option" in folded_question or "choice" in folded_question
        stated = _STATED.search(row.question) if may_state else None
        if stated is not None and stated[1] == row.answer:
            return f"{stated[0]!r}"
        if not (words := gold.split(None, 1)) or words[0].casefold() not in folded_question:
            return ""  # nearly every row
        others = [text for letter, text in row.options.items() if letter != row.answer]
    else:
        gold = row.answer if isinstance(row.answer, str) else ""
        others = [text for text in row.options.values() if _plain(text) != _plain(gold)]
    shortest = _SHORTEST_UNSPACED if _UNSPACED.search(gold[:_LONGEST]) else _SHORTEST
    question = " ".join(folded_question.split())
    if len(gold.strip()) < shortest or (phrase := _plain(gold)) not in question or _CATCH_ALL.fullmatch(phrase):
        return ""
    is_given = _holds(question, gold) and not any(_holds(question, other) for other in others)
    return f"{gold.strip()[:CUT]!r}" if is_given else ""


def _holds(question: str, text: str) -> bool:
    """Return True if a text stands in the question as whole words; in scripts without spaces, anywhere."""
    phrase = _plain(text)
    if not phrase or len(phrase) > _LONGEST:
        return False
    at = question.find(phrase)
    while at >= 0:
        before, after = question[max(0, at - 1) : at], question[at + len(phrase) : at + len(phrase) + 1]
        if not (_joins(before, phrase[0]) or _joins(after, phrase[-1])):
            return True
        at = question.find(phrase, at + 1)
    return False


def _joins(outside: str, inside: str) -> bool:
    """Return True if two neighbouring characters belong to one word."""
    return outside.isalnum() and inside.isalnum() and not (_UNSPACED.match(outside) or _UNSPACED.match(inside))
