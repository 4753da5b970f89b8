"""Questions to the index about samples, and its answers: a page of samples, and the table of an SQL query.

Verdict patterns: `A right and B wrong` selects samples by what became of each run's answer.

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
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from snellen.errors import UsageError

CellVerdict: TypeAlias = Literal["missing", "right", "wrong", "partial", "unparseable", "failed", "unscored", "unknown"]
VERDICTS: tuple[CellVerdict, ...] = get_args(CellVerdict)
"""`missing`: no record. `partial`: worth more than 0 and less than 1. `unparseable`: no answer could be read from the reply.
`failed`: no reply (an error or a timeout). `unscored`: no verdict of a judge yet. `unknown`: the benchmark or its data is
not available here."""
Sort: TypeAlias = Literal["id", "wrong", "disagree", "profiles", "judge", "reader", "margin", "confident", "unsure"]
SORTS: Mapping[Sort, str] = {
    "id": "order of the benchmark",
    "wrong": "most models wrong",
    "disagree": "models disagree",
    "profiles": "profiles disagree",
    "judge": "judge unsure",
    "reader": "read by a model",
    "margin": "smallest margin between the answers",
    "confident": "highest confidence",
    "unsure": "lowest confidence",
}
BY_CONFIDENCE: tuple[Sort, ...] = ("confident", "unsure")
"""Orders that only runs with option probabilities have."""
ANY_RUN: tuple[Sort, ...] = tuple(sort for sort in SORTS if sort not in BY_CONFIDENCE)
PAGE_ROWS = 50
MOST_ROWS = 1_000
"""Rows of a page at most."""


@dataclass(frozen=True)
class SampleQuery:
    """A question for samples of one benchmark, one row a sample (and repeat), one cell a run.

    Attributes:
        benchmark: name of the benchmark.
        runs: keys, in the order of the columns; A is the first, B the second in a pattern. Empty: all of the benchmark.
        profile: scoring profile of the verdicts; empty: the default one.
        pattern: verdict pattern, such as `A right and not B right`; empty: all.
        slices: field of the sample's meta to the value that it must have.
        question: text that the question must hold, without regard to case.
        reply: text that the reply of one of the runs must hold, without regard to case.
        text: text that the question or the reply of one of the runs must hold, without regard to case.
        sort: one of SORTS; ties stand in the order of the benchmark.
        descending: False turns the order around.
        start: number of the first row, from 0; `SamplePage.next` of the page before.
        limit: rows of the page, at most MOST_ROWS.
    """

    benchmark: str
    runs: tuple[str, ...] = ()
    profile: str = ""
    pattern: str = ""
    slices: tuple[tuple[str, str], ...] = ()
    question: str = ""
    reply: str = ""
    text: str = ""
    sort: Sort = "id"
    descending: bool = True
    start: int = 0
    limit: int = PAGE_ROWS


@dataclass(frozen=True)
class ImageRef:
    """An image of a question: `digest` is equal for equal images; `place` is what `ViewIndex.image` finds it by."""

    digest: str
    place: str


@dataclass(frozen=True)
class SampleCell:
    """The verdict of one run on one sample under the profile of the query.

    Attributes:
        verdict: one of VERDICTS.
        value: the score, 0 to 1; None where it is not scored.
        extracted: what was read from the reply; empty where nothing was. Untrusted text.
        reason: why nothing was read, or why the verdict is what it is.
        judge_unsure: True if a judge decided it and its verdict is doubtful.
        read_by_model: True if a reader quoted the answer that was scored.
        profiles_differ: True if the profiles disagree on this reply.
        error: error kind of a failed request; empty otherwise.
    """

    verdict: CellVerdict
    value: float | None = None
    extracted: str = ""
    reason: str = ""
    judge_unsure: bool = False
    profiles_differ: bool = False
    read_by_model: bool = False
    error: str = ""


@dataclass(frozen=True)
class SampleRow:
    """One sample (and repeat) with one cell a run. All text is untrusted.

    Attributes:
        number: its number in the filtered and sorted list, from 0.
        sample_id, repeat: as in results.jsonl.
        question: the beginning of the question; empty where the data is not available.
        images: the images of the question, at most a few.
        image_count: how many images the question has in all.
        slices: the fields of its meta that samples are filtered by.
        cells: one for each run of `SamplePage.runs`, in that order.
        margin: share of the commonest answer of the runs minus that of the second commonest, 0 to 1; None: no answer.
        kind: which family of extractors reads the reply; empty where the data is not available.
        target: the gold answer as text; None for restricted sets without `show_gold`, or where there is none.
    """

    number: int
    sample_id: str
    repeat: int
    question: str
    images: tuple[ImageRef, ...]
    image_count: int
    slices: Mapping[str, str]
    cells: tuple[SampleCell, ...]
    margin: float | None = None
    kind: str = ""
    target: str | None = None


@dataclass(frozen=True)
class SamplePage:
    """One page of samples.

    Attributes:
        query: what was asked, with `runs` and `profile` filled in.
        runs: keys of the columns; the letters of a pattern are those of `letters`.
        rows: at most `query.limit`.
        total: rows that match.
        of: rows without the filters.
        next: `start` of the next page; None on the last one.
        previous: `start` of the page before; None on the first one.
        profiles: the profiles that all these runs can be looked at by, the default one first.
        slices: field to its values with the number of samples of each, the most frequent first, over all rows.
        verdicts: for each run, the number of matching rows by verdict.
        letters: key to the letter that it has in a pattern.
        version: changes whenever the index does; for ETags and live pages.
        sorts: orders that say something about these runs.
        notes: what a reader must know: runs that are not in the index yet, unknown verdicts, other samples.
    """

    query: SampleQuery
    runs: tuple[str, ...]
    rows: tuple[SampleRow, ...]
    total: int
    of: int
    next: int | None = None
    previous: int | None = None
    profiles: tuple[str, ...] = ()
    slices: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    verdicts: tuple[Mapping[CellVerdict, int], ...] = ()
    letters: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    sorts: tuple[Sort, ...] = ANY_RUN
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlTable:
    """Result of an SQL query.

    Attributes:
        columns: their names.
        rows: at most the limit; cells are plain values of JSON, longer texts are cut.
        truncated: True if there are more rows than the limit.
        notes: what a reader must know, one line each.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False
    notes: tuple[str, ...] = ()


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
