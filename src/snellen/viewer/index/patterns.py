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
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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


def pattern_sql(text: str, columns: Sequence[RunColumn]) -> str:
    """Translate a pattern to a condition of SQL over the columns v0, v1 and so on, one for each run; an empty one to nothing.

    The condition holds no text of the user: only numbers of columns and codes of verdicts, their places in VERDICTS.

    >>> pattern_sql("A right and B wrong", [RunColumn("A"), RunColumn("B")])
    '((v0 IN (1)) AND (v1 IN (2)))'

    Raises:
        UsageError: what was read, what was expected there, and an example.
    """
    if not text.strip():
        return ""
    if len(text) > PATTERN_CHARACTERS:
        raise UsageError(
            f"the verdict pattern has {len(text):,} characters; at most {PATTERN_CHARACTERS:,} are read", "Shorten it."
        )
    return _PatternParser(text, columns).parse()


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

    def parse(self) -> str:
        pattern = self._alternatives()
        rest = self._next()
        if rest is not None:
            raise self._refusal(
                f"{rest.text!r} at character {rest.at + 1}; 'and', 'or' or the end was expected", "Join statements."
            )
        return pattern

    def _alternatives(self) -> str:
        parts = [self._conjunction()]
        while self._take("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _conjunction(self) -> str:
        parts = [self._term()]
        while self._take("and", ","):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _term(self) -> str:
        self._depth += 1
        if self._depth > PATTERN_DEPTH:
            raise self._refusal(f"more than {PATTERN_DEPTH} brackets within each other", "Simplify it.")
        try:
            if self._take("not"):
                return f"(NOT {self._term()})"
            if self._take("("):
                pattern = self._alternatives()
                if not self._take(")"):
                    raise self._refusal("an opening bracket is not closed", "Close it.")
                return pattern
            return self._claim()
        finally:
            self._depth -= 1

    def _claim(self) -> str:
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
        codes = ", ".join(str(code) for code, verdict in enumerate(VERDICTS) if verdict in verdicts)
        claims = [f"(v{run} IN ({codes}))" if codes else "false" for run in runs]
        if len(runs) == at_least == 1:
            return claims[0]
        claim = f"({' + '.join(f'{each}::INT' for each in claims)} >= {at_least})" if claims else "false"
        return f"(NOT {claim})" if subject.is_word("none") else claim

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
