"""Questions to the index about samples, and its answers: a page of samples, and the table of an SQL query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

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
        pattern: verdict pattern, such as `A right and not B right` (snellen.viewer.index.patterns); empty: all.
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
