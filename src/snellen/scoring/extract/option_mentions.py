"""Mentions of options in a sentence: where they are, and whether each is asserted, denied or only considered.

Also replies that discuss the options line by line: `A: too dark`, `B: forked tail, matches`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.numerals import UNITS
from snellen.scoring.extract.tokenize import BREAKS, NEGATORS, WEAK, Sentence, tokenize
from snellen.scoring.name_match import stem
from snellen.text import terms

_ARTICLES = terms("a an the this that these those its his her their one of")
_ORDINALS = {
    word: place
    for words in (
        "first second third fourth fifth sixth seventh eighth ninth tenth",
        "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th",
    )
    for place, word in enumerate(words.split())
}
_CALLED = terms("option choice answer letter answers options choices alternative candidate")
_ALSO_CALLED = terms("description statement sentence caption possibility entry item proposal")
_LETTER_BEFORE = (
    _CALLED
    | terms(
        "is : ( [ = -> be or and / , pick select choose with say to for as > \" ' only either both neither nor not "
        "than of are as therefore so thus hence"
    )
    | {"选", "是", "案", "项", "为", "：", "択", "选项", "和", "或", "非"}
)
_LETTER_AFTER = terms(". ) : , ; ] - / = \" ' ! ? ( > |")
_VERBS = terms(
    "is isn't was has seems looks matches fits appears because since as can can't cannot could does doesn't "
    "would and or shows describes best for correctly wrong correct incorrect right only most"
)
_NOT_OPTION = terms("vitamin plan hepatitis grade blood appendix exhibit type")


class Options(NamedTuple):
    """Options indexed for searching.

    Attributes:
        texts: letter to text.
        phrases: first stem to (all stems, letter), longest first.
        unique: stem to the only letter whose text has it (no stop words).
        order: letters in the order shown.
        lines: all stems of a line that only repeats an option, with its letter before it or not, to the letter.
    """

    texts: Mapping[str, str]
    phrases: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
    unique: Mapping[str, str]
    order: tuple[str, ...]
    lines: Mapping[tuple[str, ...], str]


def stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words, without signs and without a leading article."""
    stemmed_words = [stem(w) for w in tokenize(text).words if w[0].isalnum()]
    if len(stemmed_words) > 1 and stemmed_words[0] in ("a", "an", "the"):
        del stemmed_words[0]
    return tuple(stemmed_words)


STOP = terms(
    "a an the of in on at to and or is are with by for it its this that from not no be as has have was were there"
)


@lru_cache(maxsize=2_048)
def prepare(pairs: tuple[tuple[str, str], ...]) -> Options:
    """Index options for searching; cached by their texts."""
    phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    owners: dict[str, set[str]] = {}
    lines: dict[tuple[str, ...], str] = {}
    for letter, text in dict(pairs).items():
        stemmed = stems(text)
        lines.setdefault(stemmed, letter)
        lines.setdefault((letter.lower(), *stemmed), letter)
    for letter, text in pairs:
        stemmed = stems(text)
        if not stemmed:
            continue
        phrases.setdefault(stemmed[0], []).append((stemmed, letter))
        for word in stemmed:
            if word not in STOP:
                owners.setdefault(word, set()).add(letter)
    for same in phrases.values():
        same.sort(key=lambda pair: -len(pair[0]))
    return Options(
        dict(pairs),
        {first: tuple(same) for first, same in phrases.items()},
        {word: next(iter(letters)) for word, letters in owners.items() if len(letters) == 1},
        tuple(letter for letter, _ in pairs),
        lines,
    )


class Mention(NamedTuple):
    """Words start to end (exclusive) name option `letter`; `how` is letter, text or ordinal."""

    start: int
    end: int
    letter: str
    how: str


def find(sentence: Sentence, options: Options, announced: bool) -> list[Mention]:
    """Return all mentions, in order, none overlapping. A letter outside the options is returned as that letter."""
    words = sentence.words
    stemmed = [stem(w) if len(w) > 2 else w for w in words]
    mentions: list[Mention] = []
    i, n = 0, len(words)
    while i < n:
        word = words[i]
        hit = _phrase(stemmed, i, options) if stemmed[i] in options.phrases else None
        if hit is not None and (len(word) > 1 or not _is_letter(sentence, i, options, announced)):
            mentions.append(Mention(i, hit[0], hit[1], "text"))
            i = hit[0]
            continue
        if len(word) == 1 and word.isalpha() and word.isascii() and _is_letter(sentence, i, options, announced):
            mentions.append(Mention(i, i + 1, word.upper(), "letter"))
        elif word in _ORDINALS or word == "last" or word in _CALLED or word == "第":
            ordinal = _ordinal(words, i, options)
            if ordinal is not None:
                mentions.append(Mention(i, ordinal[0], ordinal[1], "ordinal"))
                i = ordinal[0]
                continue
        i += 1
    return mentions


def _phrase(stemmed: list[str], at: int, options: Options) -> tuple[int, str] | None:
    """Return (end, letter) of the longest option text at word `at`; signs between its words are ignored."""
    n = len(stemmed)
    for phrase, letter in options.phrases[stemmed[at]]:
        i = at
        for wanted in phrase:
            while i < n and i > at and stemmed[i] in ("-", "'", "/", ",", "(", ")", "."):
                i += 1
            if i >= n or stemmed[i] != wanted:
                break
            i += 1
        else:
            return i, letter
    return None


def _is_letter(sentence: Sentence, i: int, options: Options, announced: bool) -> bool:
    words = sentence.words
    n = len(words)
    letter = words[i].upper()
    raw = sentence.raw(i)
    before = words[i - 1] if i else ""
    after = words[i + 1] if i + 1 < n else ""
    if letter not in options.texts and (letter > "J" or letter == "I" or options.order[-1:] > ("J",)):
        return False
    if before in _NOT_OPTION or (before == "'" and i > 1):
        return False
    if (
        after == "."
        and i + 2 < n
        and len(words[i + 2]) == 1
        and words[i + 2].isalpha()
        and sentence.spans[i + 2][0] - sentence.spans[i][1] == 1
    ):
        return False  # U.S.A.
    if (after == "&" or before == "&") or (after == "'" and i + 2 < n):
        return False
    bracketed = after == ")" or (before in ("(", "[", '"', "'") and after in (")", "]", '"', "'"))
    if raw.islower():
        if n == 1 or (n == 2 and not (before + after).isalpha()) or (bracketed and before not in ("'",)):
            return True
        if before in _CALLED:
            return not (letter == "A" and after and after not in _LETTER_AFTER and after not in _VERBS)
        if i == 0 and after in (".", ":", ")"):
            return True
        return announced and i == 0 and (not after or after in _LETTER_AFTER)
    if letter == "A":
        if "\u3040" <= after[:1] <= "\u9fff" or "\u3040" <= before[:1] <= "\u9fff":
            return True
        if not after or after in _LETTER_AFTER or bracketed:
            return True
        if before in _CALLED or after in _VERBS:
            return True
        return i > 0 and before in ("is", ":", "select", "choose", "pick", "with", "and", "or") and not after.isalpha()
    if letter == "I":
        return (n <= 2 or bracketed or before in _CALLED) and "I" in options.texts
    if letter in options.texts:
        return True
    return n <= 2 or bracketed or before in _CALLED or (announced and i == 0)


def _ordinal(words: list[str], i: int, options: Options) -> tuple[int, str] | None:
    """Return (end, letter) of an ordinal: `second option`, `option 2`, `the last one`, `第二个`."""
    n = len(options.order)
    word = words[i]
    if word == "第" and i + 1 < len(words):
        at = "一二三四五六七八九".find(words[i + 1])
        at = int(words[i + 1]) - 1 if at < 0 and words[i + 1].isdigit() and len(words[i + 1]) < 3 else at
        return (i + 2, options.order[at]) if 0 <= at < n else None
    if word in _CALLED:
        j = i + 1
        while j < len(words) and words[j] in ("#", "number", "no", "."):
            j += 1
        if j < len(words):
            value = UNITS.get(words[j], int(words[j]) if words[j].isdigit() and len(words[j]) < 3 else 0)
            if 1 <= value <= n and word in ("option", "choice", "alternative", "candidate"):
                return j + 1, options.order[value - 1]
        return None
    after = words[i + 1] if i + 1 < len(words) else ""
    if after in _CALLED or after in ("one", "listed", "of", *_ALSO_CALLED) or (not after and i <= 2):
        at = n - 1 if word == "last" else _ORDINALS[word]
        if after == "one" and i + 2 < len(words) and words[i + 2] in ("is", "has", "shows") and i > 1:
            return None
        if 0 <= at < n:
            return i + 1 + (after in _CALLED or after == "one" or after in _ALSO_CALLED), options.order[at]
    return None


_CONFIRM = terms("yes correct ✓ right true match matches fits")
_REFUTE = terms("no incorrect wrong false ✗ not doesn't isn't unlikely eliminated excluded ruled too lacks lack fails")
_DENYING = terms(
    "incorrect wrong false untrue out eliminated excluded ruled unlikely ✗ lacks lack fails fail rejected "
    "inconsistent implausible absent different impossible"
)


_TENTATIVE = terms(
    "could might may would possible plausible similar close seemed unsure tempting attractive alternative"
)


def status(words: list[str], mention: Mention, group: tuple[int, int]) -> str:
    """Return the stance (`yes`, `no` or `weak`) on a mention of the clause around words group[0] to group[1]."""
    start, end = group
    negations = 0
    weak = False
    for steps, i in enumerate(range(start - 1, max(-1, start - 15), -1)):
        word = words[i]
        if word in ("instead", "rather") and i + 1 < len(words) and words[i + 1] in ("of", "than"):
            return "no"
        if word in BREAKS and not (steps == 0 and word in ("(", "[", ":", ",")):
            break
        before = words[i - 1] if i else ""
        if (
            word in NEGATORS
            or word.endswith("n't")
            or word in ("rule", "ruled", "ruling")
            or (word == "no" and steps < 2 and words[i + 1] != ",")
            or (before, word) in (("other", "than"), ("different", "from"), ("distinct", "from"))
        ):
            negations += 1
        elif word in WEAK or (
            word in ("than", "over", "versus", "vs", "like")
            and (steps == 0 or (steps == 1 and words[i + 1] in ("the", "a", "an", "option")))
        ):
            weak = True
    i = end
    n = len(words)
    while i < n and i - end < 3 and words[i] in (":", "-", "(", ",", ")", '"', "'", ".", "|"):
        i += 1
    if i > end and i < n:
        if (
            words[i] in _REFUTE
            and not (words[i] == "not" and i + 1 < n and words[i - 1] == ",")
            and words[i - 1] != ")"
        ):
            after = words[i + 1] if i + 1 < n else ""
            if (
                words[i] not in ("no", "not", "too")
                or (words[i] == "no" and after in ("", ",", ".", "-", ":", "|", "the", "it"))
                or words[i] == "too"
                or (words[i] == "not" and words[i - 1] in (":", "-", "("))
            ):
                return "no"
        elif words[i] in _CONFIRM:
            return "yes"
    for i in range(end, min(n, end + 9)):
        word = words[i]
        if word in BREAKS and not (i == end and word in (")", "]")) and word != "as":
            break
        if word in NEGATORS or word.endswith("n't"):
            if word == "not" and i + 1 < n and words[i + 1] in ("only", "just"):
                break
            negations += 1
        elif word in _DENYING:
            negations += 1
        elif word in _TENTATIVE:
            weak = True
    if negations % 2:
        return "no"
    return "weak" if weak or negations else "yes"


_LINE = re.compile(
    r"^\W{0,4}(?:option|choice)?\s?\(?(?P<letter>[A-Za-z])\)?\s*(?:[:.)\-|=]|->|is\b)\s*(?P<said>\S.*)$", re.IGNORECASE
)
_FOR = re.compile(
    r"✓|\byes\b|(?<!in)\bcorrect\b|\bmatch(?:es|ing)?\b|\btrue\b|\bfits?\b|\bthis is (?:it|the)\b|\bconsistent\b|\bright\b(?! (?:side|wing|hand|of))|\bsupported\b|\bagrees\b|"
    r"\bmost likely\b|\bbest\b|\bthe answer\b|\bplausible\b|正确|符合",
    re.IGNORECASE,
)
_AGAINST = re.compile(
    r"✗|\bno\b(?! (?:doubt|other))|\bnot\b|n't\b|\bincorrect\b|\bwrong\b|\bfalse\b|\btoo\b|\black(?:s|ing)?\b|\bunlikely\b|\binconsistent\b|\beliminated?\b|\bruled out\b|\bmismatch\b|"
    r"\bdiffers?\b|\bwould (?:be|have|need)\b|\bfails?\b|不符|错误|不正确|不是",
    re.IGNORECASE,
)


def take_listed(text: str, options: Options) -> tuple[str, dict[str, str]]:
    """Split a text into the text outside a list of options, and `yes`, `no` or `open` for each listed option.

    The list is empty, and the text unchanged, unless at least two options head a line of their own.
    """
    if "\n" not in text:
        return text, {}
    outside: list[str] = []
    judged: dict[str, str] = {}
    for line in text.split("\n"):
        letter, judgement = _head(line, options)
        if letter is None:
            outside.append(line)
            continue
        against = len(_AGAINST.findall(judgement))
        fits = _FOR.search(judgement) is not None
        judged[letter] = "yes" if fits and not against else "no" if against else "open"
    if len(judged) < 2:
        return text, {}
    return "\n".join(outside).strip(), judged


def _head(line: str, options: Options) -> tuple[str | None, str]:
    match = _LINE.match(line[:400])
    if match is not None:
        letter = match.group("letter").upper()
        return (letter, match.group("said")) if letter in options.texts else (None, "")
    name, colon, judgement = line[:400].partition(":")
    if not colon:
        name, colon, judgement = line[:400].partition(" - ")
    if not colon:
        name, colon, judgement = line[:400].partition("|")[2].partition("|") if line.startswith("|") else ("", "", "")
    if colon and len(name) < 80:
        head_stems = stems(name)
        for letter in options.texts:
            if head_stems == (letter.lower(),) or options.lines.get(head_stems) == letter:
                return letter, judgement
    return None, ""


def verdict(judged: dict[str, str], options: Options) -> Reading | None:
    """Return the one option that the list confirms, or the only one that it does not exclude."""
    fits = [letter for letter, judgement in judged.items() if judgement == "yes"]
    if len(fits) == 1:
        return Reading(fits[0], None)
    if len(fits) > 1:
        return Reading(None, "two answers: " + ", ".join(fits))
    remaining = [letter for letter in options.order if judged.get(letter) != "no"]
    return Reading(remaining[0], None) if len(remaining) == 1 and len(options.order) > 1 else None
