"""Scorers of inspect_ai for a reply and its gold answers, by their names in an `eval.yaml`.

Reproduced from the behaviour of inspect_ai 0.3.285 (MIT). `math` compares with Snellen's own reading of formulas, and grading by a
model is a judge's.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

from snellen.errors import DataError
from snellen.scoring.bounded_patterns import require_pattern, search
from snellen.scoring.rules import final_answers

Scored: TypeAlias = tuple[float, str | None]
"""The value of a reply, 0 to 1, and what was read from it."""
Rule: TypeAlias = Callable[[str, Sequence[str], Mapping[str, str]], Scored]
"""Scores a reply by its gold answers, and the options, letter to text."""
MOST_PATTERN, MOST_REPLY = 2_000, 100_000
"""Characters of a pattern that comes with a data set, and of the replies in which it is looked for."""
REDUCER = re.compile(r"max|mode|median|(?:pass_at|at_least)_([1-9]\d{0,5})")
"""What may be made of the scores of a question's repeats, beside their mean."""
ANSWERS = {
    "letter": r"(?is)answer\s*:\s*([a-z])(?:\W|$)(?!.*answer\s*:)",
    "word": r"(?is)answer\s*:\s*(\S+?)(?=[.,;:!?]?\s*(?:\n|$))(?!.*answer\s*:)",
    "line": r"(?i)answer\s*:\s*([^\n]+)\s*\Z",
}
LOCATIONS = ("begin", "end", "any", "exact")
_EDGES = string.whitespace + string.punctuation
_AROUND_NUMBERS = "!?:;()[]{}'\"`"
_LINE = re.compile(r"^answer\s*:\s*([a-z\d ,]+)\s*(?:$|\n|\.)", re.IGNORECASE | re.MULTILINE)
_ANYWHERE = re.compile(r"answer\s*:\s*([a-z\d ,]+)(?:\W|$)", re.IGNORECASE)
_WRAPPED = tuple(re.compile(mark + r"\s*([A-Za-z\d][A-Za-z\d ,]{0,200}?)\s*" + mark) for mark in (r"\$", r"\*\*"))
_BRACKETED = re.compile(r"(^|[:,])(\s*)\(([A-Za-z\d])\)(?=\s*(?:,|\.|\n|\Z))")
KNOWN_ARGS: Mapping[str, tuple[str, ...]] = {
    "includes": ("ignore_case",),
    "match": ("location", "ignore_case", "numeric"),
    "pattern": ("pattern", "ignore_case", "match_all"),
    "answer": ("pattern",),
    "exact": (),
    "f1": ("stop_words",),
    "choice": (),
    "math": ("timeout",),
}


def rule_of(name: str, args: Mapping[str, Any]) -> Rule:
    """Return a scorer by its name.

    Raises:
        DataError: it has no such scorer or argument, or a value of another kind.
    """
    if name not in KNOWN_ARGS:
        raise DataError(f"there is no scorer {name!r}", f"Known are {', '.join(KNOWN_ARGS)}.")
    if unknown := sorted(set(args) - set(KNOWN_ARGS[name])):
        raise DataError(f"the scorer {name} has no argument {unknown[0]!r}", "Remove it from the file.")
    for key, kind in (("ignore_case", bool), ("numeric", bool), ("match_all", bool), ("pattern", str)):
        if key in args and not isinstance(args[key], kind):
            raise DataError(f"the scorer {name} has {key} = {args[key]!r}; {kind.__name__} was expected")
    folded = bool(args.get("ignore_case", True))
    if name == "includes":
        return lambda reply, golds, options: _includes(reply, golds, folded=folded)
    if name == "match":
        location = str(args.get("location", "end"))
        if location not in LOCATIONS:
            raise DataError(f"match has location {location!r}; one of {', '.join(LOCATIONS)} was expected")
        numeric = bool(args.get("numeric", False))
        return lambda reply, golds, options: _match(reply, golds, location, folded=folded, numeric=numeric)
    if name in ("pattern", "answer"):
        text = ANSWERS.get(str(args.get("pattern"))) if name == "answer" else args.get("pattern")
        if text is None:
            raise DataError(f"the scorer {name} has no pattern that is known", "Add `pattern` to its args.")
        return _by_pattern(str(text), folded=folded, every=bool(args.get("match_all", False)))
    if name == "exact":
        return lambda reply, golds, options: (
            float(_words(reply) in [_words(gold) for gold in golds if _words(gold)]),
            reply,
        )
    if name == "f1":
        stops = args.get("stop_words") or ()
        if not isinstance(stops, (list, tuple)) or not all(isinstance(word, str) for word in stops):
            raise DataError("f1 has stop_words that are no list of words")
        return lambda reply, golds, options: (_f1(reply, golds, stops), reply)
    return _choice if name == "choice" else _math


def _includes(reply: str, golds: Sequence[str], *, folded: bool) -> Scored:
    said = reply.casefold() if folded else reply
    return float(any((gold.casefold() if folded else gold) in said for gold in golds)), reply


def _match(reply: str, golds: Sequence[str], location: str, *, folded: bool, numeric: bool) -> Scored:
    read: str | None = None
    for gold in golds:
        right, read = _matches(reply.strip(), gold.strip(), location, folded=folded, numeric=numeric)
        if right:
            return 1.0, read
    return 0.0, read


def _matches(reply: str, gold: str, location: str, *, folded: bool, numeric: bool) -> tuple[bool, str]:
    said, wanted = (reply.casefold(), gold.casefold()) if folded else (reply, gold)
    if numeric:
        wanted = _plain_number(wanted)
        if (number := _number(wanted)) is not None:
            return _matches_number(_plain_number(said), f"{number:.5g}", location, reply)
    said, wanted = said.strip(_EDGES), wanted.strip(_EDGES)
    tests: Mapping[str, Callable[[str], bool]] = {
        "begin": said.startswith,
        "end": said.endswith,
        "exact": said.__eq__,
        "any": said.__contains__,
    }
    return bool(tests[location](wanted)), reply


def _matches_number(said: str, wanted: str, location: str, reply: str) -> tuple[bool, str]:
    if location == "exact":
        number = _number(said, around="")
        read = said if number is None else f"{number:.5g}"
        return read == wanted, read
    numbers = [f"{number:.5g}" for word in said.split() if (number := _number(word)) is not None]
    if location == "any":
        return (True, wanted) if wanted in numbers else (False, reply)
    read = numbers[0 if location == "begin" else -1] if numbers else ""
    return read == wanted, read


def _plain_number(text: str) -> str:
    """Return a text without signs of currency, separators of thousands, and marks of emphasis."""
    text = re.sub(r"\\(?=[$£€,*_])", "", text)
    return re.sub(r"\.(?=\s|$|\D)", "", re.sub(r"[$£€,*_]", "", text))


def _number(text: str, around: str = _AROUND_NUMBERS) -> float | None:
    try:
        number = float(text.strip(around) if around else text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _by_pattern(text: str, *, folded: bool, every: bool) -> Rule:
    """Return a rule that reads by a pattern, whose groups are compared with the gold answers; it may raise OutOfTimeError.

    Raises:
        DataError: it is no pattern, or it is too long.
    """
    if len(text) > MOST_PATTERN:
        raise DataError(f"a pattern has {len(text):,} characters; at most {MOST_PATTERN:,} were expected")
    require_pattern(text)
    flags = re.IGNORECASE if folded else 0

    def rule(reply: str, golds: Sequence[str], options: Mapping[str, str]) -> Scored:
        found = search(text, reply, flags) if len(reply) <= MOST_REPLY else None
        if found is None:
            return 0.0, None
        wanted = [gold.lower() for gold in golds] if folded else list(golds)
        groups = [group for group in found.groups or (found.text,) if group is not None]
        right = [(group.lower() if folded else group) in wanted for group in groups]
        read = next((group for group, is_right in zip(groups, right, strict=True) if is_right), "".join(groups[:1]))
        return float(bool(right) and (all(right) if every else any(right))), read

    return rule


def _f1(reply: str, golds: Sequence[str], stops: Sequence[str]) -> float:
    said, best = Counter(_words(reply, stops)), 0.0
    for gold in golds:
        wanted = Counter(_words(gold, stops))
        if not wanted:
            continue
        shared = (said & wanted).total()
        precision = shared / said.total() if said else 1.0
        recall = shared / wanted.total()
        best = max(best, 2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return round(best, 2)


def _words(text: str, stops: Sequence[str] = ()) -> list[str]:
    """Return the words of a text, folded, without articles and punctuation, numbers in one form."""
    stopped = {_word(stop) for stop in stops}
    words = (_word(part) for part in re.split("[ -]", text))
    return " ".join(word for word in words if word and word not in stopped).split()


def _word(text: str) -> str:
    text = text.casefold()
    number = next((part for part in (text, text.strip(_EDGES)) if _number(part, around="") is not None), None)
    text = (
        str(float(number)) if number is not None else "".join(sign for sign in text if sign not in string.punctuation)
    )
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", text).split())


def _choice(reply: str, golds: Sequence[str], options: Mapping[str, str]) -> Scored:
    """Compare the letters behind the last `ANSWER:` with the gold ones; no letter of an option is no answer."""
    letters = chosen_letters(reply, "".join(options), several=len(golds) > 1)
    return float(bool(letters) and letters == set(golds)), ", ".join(sorted(letters)) or None


def chosen_letters(reply: str, letters: str, *, several: bool) -> set[str]:
    """Return the letters behind the last `ANSWER:` of a reply; none where it names something else, or several and one is asked."""
    for wrapped in _WRAPPED:
        reply = wrapped.sub(r"\1", reply)
    reply = _BRACKETED.sub(r"\1\2\3", reply)
    found = _LINE.findall(reply) or _ANYWHERE.findall(reply)
    if not found:
        return set()
    said = found[-1].strip().rstrip(".").upper()
    if not several:
        tokens = [token for token in said.split(",") if token]
        return {*tokens} if len(tokens) == 1 and tokens[0] in [*letters] else set()
    said = said.replace(" AND ", ",").replace(" ", "")
    for parts in ({part for part in said.split(",") if part}, {*said}):
        if parts <= {*letters}:
            return parts
    return set()


def _math(reply: str, golds: Sequence[str], options: Mapping[str, str]) -> Scored:
    read = (
        final_answers.final_answer(reply, ("box", "phrase", "behind", "number", "whole"), "", "ANSWER") or reply.strip()
    )
    return float(any(final_answers.formula_equal(read, gold, None) for gold in golds)), read
