"""Verdict patterns: `A right and B wrong` selects samples by what became of each run's answer.

    pattern := conjunction ("or" conjunction)*
    conjunction := term ("and" term)*            a comma means "and"
    term := "not" term | "(" pattern ")" | claim
    claim := run ["is"] ["not"] verdict ("/" verdict)*
    run := A, B, ... (the run's column) | "name" | all | any | none | most
    verdict := right | wrong | partial | unparseable | failed | missing | unscored | unknown

A column's letter counts before a run's name. `none wrong` is `not any wrong`; `most` is more than half of the runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from snellen.errors import UsageError
from snellen.viewer.index.sample_page import VERDICTS

PATTERN_CHARACTERS = 2_000
PATTERN_DEPTH = 40
"""Nesting of brackets and `not`; deeper patterns are refused before Python's own recursion limit is near."""

_SYNONYMS: Mapping[str, str] = {
    **{verdict: verdict for verdict in VERDICTS},
    "correct": "right",
    "incorrect": "wrong",
    "unparsed": "unparseable",
    "invalid": "unparseable",
    "error": "failed",
    "absent": "missing",
    "unjudged": "unscored",
}
_QUANTIFIERS = ("all", "any", "none", "most")
_TOKEN = re.compile(r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<mark>[(),/])|(?P<word>[^\s(),/"']+))""")


@dataclass(frozen=True)
class Claim:
    """One statement: the runs it is about, how many of them it must hold for, and the accepted verdicts.

    Attributes:
        runs: places of the runs among the columns.
        at_least: the number of these runs that must have one of the verdicts.
        verdicts: the accepted verdicts.
    """

    runs: tuple[int, ...]
    at_least: int
    verdicts: frozenset[str]


@dataclass(frozen=True)
class Combination:
    """Patterns joined by `and` or `or`, or one pattern negated by `not`."""

    joined_by: Literal["and", "or", "not"]
    parts: tuple[VerdictPattern, ...]


VerdictPattern: TypeAlias = Claim | Combination


class RunColumn(NamedTuple):
    """A run's column: its letter, and the other names that a pattern may call it by."""

    letter: str
    names: tuple[str, ...] = ()


def column_letter(place: int) -> str:
    """Return A to Z for 0 to 25, then AA, AB and so on, as a spreadsheet names its columns."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def parse_pattern(text: str, columns: Sequence[RunColumn]) -> VerdictPattern | None:
    """Parse a pattern over these columns; None for an empty text.

    >>> pattern = parse_pattern("A right and B wrong", [RunColumn("A"), RunColumn("B")])
    >>> matches(pattern, ["right", "wrong"]), matches(pattern, ["right", "right"])
    (True, False)

    Raises:
        UsageError: what was read, what was expected there, and an example.
    """
    if not text.strip():
        return None
    if len(text) > PATTERN_CHARACTERS:
        raise UsageError(
            f"the verdict pattern has {len(text):,} characters; at most {PATTERN_CHARACTERS:,} are read", "Shorten it."
        )
    return _PatternParser(text, columns).parse()


def matches(pattern: VerdictPattern, verdicts: Sequence[str]) -> bool:
    """Return True if a sample with these verdicts, one for each column, fits the pattern."""
    if isinstance(pattern, Claim):
        return sum(verdicts[run] in pattern.verdicts for run in pattern.runs) >= pattern.at_least
    results = (matches(part, verdicts) for part in pattern.parts)
    if pattern.joined_by == "and":
        return all(results)
    return any(results) if pattern.joined_by == "or" else not next(results)


def pattern_sql(pattern: VerdictPattern, has_verdict: Callable[[int, Sequence[str]], str]) -> str:
    """Translate a pattern to an SQL condition.

    Args:
        pattern: as parsed; it holds no text of the user, only places and known verdicts.
        has_verdict: the condition that the run in one column has one of these verdicts; it must never be NULL.
    """
    if isinstance(pattern, Claim):
        verdicts = sorted(pattern.verdicts)
        conditions = [f"({has_verdict(run, verdicts)})" for run in pattern.runs]
        if pattern.at_least <= 0:
            return "TRUE"
        if pattern.at_least > len(conditions):
            return "FALSE"
        if pattern.at_least == len(conditions):
            return "(" + " AND ".join(conditions) + ")"
        if pattern.at_least == 1:
            return "(" + " OR ".join(conditions) + ")"
        return "(" + " + ".join(f"{condition}::INT" for condition in conditions) + f") >= {pattern.at_least}"
    parts = [pattern_sql(part, has_verdict) for part in pattern.parts]
    if pattern.joined_by == "not":
        return f"(NOT {parts[0]})"
    return "(" + f" {pattern.joined_by.upper()} ".join(parts) + ")"


class _Token(NamedTuple):
    """A word, a mark or a quoted name, and where it begins."""

    text: str
    quoted: bool
    at: int

    def is_word(self, *words: str) -> bool:
        return not self.quoted and self.text.lower() in words


class _PatternParser:
    """Recursive descent over one pattern."""

    def __init__(self, text: str, columns: Sequence[RunColumn]) -> None:
        self._text, self._columns = text, columns
        self._tokens = self._split()
        self._place = self._depth = 0

    def _split(self) -> list[_Token]:
        tokens, at, end = [], 0, len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._refusal(
                    f"a quotation mark without its partner at character {at + 1}", "Close the quoted name."
                )
            kind = str(match.lastgroup)
            tokens.append(_Token(match[kind], kind in ("double", "single"), match.start(kind)))
            at = match.end()
        return tokens

    def _refusal(self, problem: str, hint: str) -> UsageError:
        letters = " or ".join(column.letter for column in self._columns[:2]) or "all"
        example = "A right and B wrong" if len(self._columns) > 1 else f"{letters} wrong"
        return UsageError(f"verdict pattern {self._text[:120]!r}: {problem}", f"{hint} Example: {example}.")

    def _next(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self, *words: str) -> bool:
        token = self._next()
        if token is None or not token.is_word(*words):
            return False
        self._place += 1
        return True

    def parse(self) -> VerdictPattern:
        pattern = self._alternatives()
        rest = self._next()
        if rest is not None:
            raise self._refusal(
                f"{rest.text!r} at character {rest.at + 1}; 'and', 'or' or the end was expected", "Join statements."
            )
        return pattern

    def _alternatives(self) -> VerdictPattern:
        parts = [self._conjunction()]
        while self._take("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Combination("or", tuple(parts))

    def _conjunction(self) -> VerdictPattern:
        parts = [self._term()]
        while self._take("and", ","):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else Combination("and", tuple(parts))

    def _term(self) -> VerdictPattern:
        self._depth += 1
        if self._depth > PATTERN_DEPTH:
            raise self._refusal(f"more than {PATTERN_DEPTH} brackets within each other", "Simplify it.")
        try:
            if self._take("not"):
                return Combination("not", (self._term(),))
            if self._take("("):
                pattern = self._alternatives()
                if not self._take(")"):
                    raise self._refusal("an opening bracket is not closed", "Close it.")
                return pattern
            return self._claim()
        finally:
            self._depth -= 1

    def _claim(self) -> VerdictPattern:
        subject = self._next()
        if subject is None:
            raise self._refusal("it ends where a run was expected", "Name a column, or all, any, none or most.")
        self._place += 1
        runs, at_least = self._subject(subject)
        self._take("is", "are", "was", "were")
        negated = self._take("not")
        verdicts: set[str] = {self._verdict(subject)}
        while self._take("/"):
            verdicts.add(self._verdict(subject))
        if negated:
            verdicts = set[str](VERDICTS) - verdicts
        claim = Claim(runs, at_least, frozenset(verdicts))
        return Combination("not", (claim,)) if subject.is_word("none") else claim

    def _verdict(self, subject: _Token) -> str:
        token = self._next()
        if token is None or token.quoted or token.text.lower() not in _SYNONYMS:
            written = "the end" if token is None else repr(token.text)
            raise self._refusal(
                f"{written} after {subject.text!r}; a verdict was expected", f"Verdicts: {', '.join(VERDICTS)}."
            )
        self._place += 1
        return _SYNONYMS[token.text.lower()]

    def _subject(self, token: _Token) -> tuple[tuple[int, ...], int]:
        """Return the runs that a word names, and how many of them the verdict must hold for."""
        everyone = tuple(range(len(self._columns)))
        if token.is_word(*_QUANTIFIERS):
            at_least = {"all": len(everyone), "most": len(everyone) // 2 + 1}.get(token.text.lower(), 1)
            return everyone, at_least
        by_letter = [place for place, column in enumerate(self._columns) if column.letter == token.text]
        if by_letter and not token.quoted:
            return (by_letter[0],), 1
        by_name = [place for place, column in enumerate(self._columns) if token.text in column.names]
        if not by_name and not token.quoted:
            by_name = [place for place, column in enumerate(self._columns) if column.letter == token.text.upper()]
        if len(by_name) == 1:
            return (by_name[0],), 1
        letters = ", ".join(column.letter for column in self._columns[:30])
        if by_name:
            same = ", ".join(self._columns[place].letter for place in by_name)
            raise self._refusal(f"several runs are called {token.text!r}", f"Use their letters: {same}.")
        raise self._refusal(
            f"no run is called {token.text!r} (character {token.at + 1})",
            f"Columns: {letters or 'none'}; or all, any, none, most.",
        )
