"""Addresses of the pages: the state of each view as a frozen dataclass, from and to a query string."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, Self, get_origin, get_type_hints
from urllib.parse import parse_qs, urlencode

import msgspec
from msgspec import Meta

from snellen.errors import UsageError

MAX_FIELDS = 500
MAX_QUERY = 16 << 10
"""Characters of a query string that are read at most."""

PageNumber = Annotated[int, Meta(ge=1, le=1_000_000_000)]
PageRows = Annotated[int, Meta(ge=1, le=200)]


@dataclass(frozen=True)
class PageState:
    """State of one view. Subclasses name their page, and give every field a default."""

    page: ClassVar[str] = ""

    @classmethod
    def parse(cls, query: str) -> Self:
        """Read a state from a query string; names that it does not have are ignored.

        Raises:
            UsageError: a value is not one that the field takes.
        """
        if len(query) > MAX_QUERY:
            raise UsageError(f"the address has {len(query):,} characters; {MAX_QUERY:,} are read at most")
        try:
            values = parse_qs(query, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
        except ValueError as error:
            raise UsageError(f"the address cannot be read: {error}") from error
        kinds = get_type_hints(cls)
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            if field.name in values:
                several = get_origin(kinds[field.name]) is tuple
                fields[field.name] = values[field.name] if several else values[field.name][-1]
        try:
            return msgspec.convert(fields, cls, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"the address of this page has a value that it does not take: {error}") from error

    def pairs(self) -> list[tuple[str, str]]:
        """Return the fields that differ from their default, in their order, a tuple's values one by one."""
        pairs: list[tuple[str, str]] = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if isinstance(value, tuple):
                pairs += [(field.name, text) for text in value] or [(field.name, "")]
            else:
                pairs.append((field.name, str(int(value)) if isinstance(value, bool) else str(value)))
        return pairs

    def query(self) -> str:
        """Return the query string of `pairs`."""
        return urlencode(self.pairs(), errors="replace")

    def changed(self, **changes: Any) -> Self:
        """Return the state with other values in some fields."""
        return dataclasses.replace(self, **changes)

    def static(self) -> Self:
        """Return the state that stands for this one in an export."""
        return self

    def fragment(self) -> str:
        """Return the rest of the state, which the page's script of an export takes from the address behind `#`."""
        return ""

    def file_name(self) -> str:
        """Return the name of the state's file in an export."""
        query = self.query()
        if not query:
            return "index.html" if self.page == RunsState.page else f"{self.page}.html"
        return f"{self.page}-{blake2b(query.encode(), digest_size=8).hexdigest()}.html"


@dataclass(frozen=True)
class RunsState(PageState):
    """The list of runs: filters, order, and the axis of the history.

    Attributes:
        benchmark, model, state: show only these; empty for all.
        text: show only rows with all of these words.
        sort: a column; empty for the ranking within each benchmark.
        group: rows by benchmark, or one list.
        over: axis of a model's history; empty for no history.
    """

    page: ClassVar[str] = "runs"
    benchmark: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    text: str = ""
    sort: str = ""
    down: bool = False
    group: Literal["benchmark", "none"] = "benchmark"
    over: Literal["", "time", "step"] = ""

    def static(self) -> Self:
        """Drop filters and order: the page's script does both in an export."""
        return type(self)(over=self.over)


@dataclass(frozen=True)
class MatrixState(PageState):
    """Models by benchmarks, or the runs of one benchmark by its parts.

    Attributes:
        benchmark: one benchmark, whose runs are the rows; empty: a column for each benchmark.
        by: field of the samples' meta that gives the columns; empty: the parts that the benchmark's own metrics have.
        parts: `all` for every metric of the benchmark, not only its headline and the parts of it.
        profile: scoring profile; empty: each benchmark's own default.
        models, runs, columns: show only these; empty: all. `runs` are keys, for the matrix of one benchmark.
        rows: one row a model, or one for each of its settings.
        sort: `mean`, `name`, or a column; `up`: the lowest first.
        mean: over every column, over those that all rows have, or none.
        scale: of dots and colours: 0 to 100 %, or fitted to each column.
        every: show all rows; otherwise the best MOST_ROWS.
    """

    page: ClassVar[str] = "matrix"
    benchmark: str = ""
    by: str = ""
    parts: Literal["headline", "all"] = "headline"
    profile: str = ""
    models: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: Literal["models", "settings"] = "models"
    view: Literal["dots", "heat"] = "dots"
    sort: str = "mean"
    up: bool = False
    mean: Literal["all", "shared", "none"] = "all"
    scale: Literal["full", "fit"] = "full"
    every: bool = False

    def static(self) -> Self:
        """Keep what names the table: an export has it whole, and its script sorts."""
        return type(self)(benchmark=self.benchmark, profile=self.profile, view=self.view)


@dataclass(frozen=True)
class SamplesState(PageState):
    """Samples of one benchmark, one column a run: filters, order and page.

    Attributes:
        benchmark, runs: which journals; no run stands for all of the benchmark.
        where: filters `slice=value`; `slice_filter` writes them, `read_slice` reads them.
        pattern: a verdict pattern, `A right and B wrong`.
        text: text in the question or in a reply.
        within: where the text is searched; empty for both.
        sql: a query over the tables of `snellen query`.
        sort: one of the index's orders; empty for the samples that most models got wrong.
        number: number of the page.
        rows: rows of a page.
    """

    page: ClassVar[str] = "samples"
    benchmark: str = ""
    runs: tuple[str, ...] = ()
    profile: str = ""
    where: tuple[str, ...] = ()
    pattern: str = ""
    text: str = ""
    within: Literal["", "question", "reply"] = ""
    sql: str = ""
    sort: str = ""
    number: PageNumber = 1
    rows: PageRows = 50

    def filtered(self, **changes: Any) -> Self:
        """Return the state with other filters or another order, at the first page."""
        return dataclasses.replace(self, **{"number": 1, **changes})

    def static(self) -> Self:
        """Keep the benchmark: one exported page has all of its samples, and filters and sorts them by its script."""
        return type(self)(benchmark=self.benchmark)

    def fragment(self) -> str:
        """Return what the page's script takes from the address: all but the benchmark, the query and the page."""
        return dataclasses.replace(self, benchmark="", sql="", number=1, rows=50).query()


@dataclass(frozen=True)
class CaseState(SamplesState):
    """One sample with every model's reply, within the samples that the filter selects."""

    page: ClassVar[str] = "case"
    sample: str = ""
    repeat: int = 0

    def static(self) -> Self:
        """Keep what names the sample: its place is among all samples of its benchmark."""
        return type(self)(benchmark=self.benchmark, sample=self.sample, repeat=self.repeat)

    def fragment(self) -> str:
        """Return nothing: an exported case has no state beside its sample."""
        return ""


@dataclass(frozen=True)
class ExchangeState(PageState):
    """The raw requests and replies of one run about one sample, and what was asked of its judge."""

    page: ClassVar[str] = "exchange"
    run: str = ""
    sample: str = ""
    repeat: int = 0


@dataclass(frozen=True)
class CompareState(PageState):
    """Paired comparison of two or more runs over the samples that they share.

    Attributes:
        runs: keys; the first is the baseline.
        models, benchmark: in place of `runs`: models of the matrix, and the benchmark to compare them on.
        profile: scoring profile; empty: the benchmark's default.
        by: field of the samples' meta to slice by; empty: the first ones.
        flips: key of the run whose differences from the baseline are listed; empty: the second run.
        force: compare even runs of other samples, by the ids that they share.
    """

    page: ClassVar[str] = "compare"
    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    benchmark: str = ""
    profile: str = ""
    by: str = ""
    flips: str = ""
    force: bool = False

    def static(self) -> Self:
        """Keep the runs: a page of an export has the slices of several fields, and the differences of two runs."""
        return type(self)(runs=self.runs, profile=self.profile)


@dataclass(frozen=True)
class ReviewState(PageState):
    """A queue of verdicts to check, the agreement of reviewers, or the adjudication of those who differ.

    Attributes:
        benchmark: whose replies; empty with `run`.
        run: only this run, which then is known to the reviewer; empty: all runs of the benchmark, without their names.
        step: `queue` (doubtful first), `audit` (the audit samples), `agreement`, `adjudicate`; empty: the overview.
        reviewer: one of those that `--review` names; empty: the only one.
        profile: scoring profile of the verdicts; empty: the first.
        case: token of a case; empty: the first that is undecided.
        after: token of the case that was left last: the next one comes after it.
        sample, repeat: a sample whose case is searched; for links from other pages.
    """

    page: ClassVar[str] = "review"
    benchmark: str = ""
    run: str = ""
    step: Literal["", "queue", "audit", "agreement", "adjudicate"] = ""
    reviewer: str = ""
    profile: str = ""
    case: str = ""
    after: str = ""
    sample: str = ""
    repeat: int = 0

    def static(self) -> Self:
        """Keep what an export shows: the overview, and the agreement of a benchmark's reviewers."""
        return type(self)(benchmark=self.benchmark, step="agreement") if self.step == "agreement" else type(self)()


@dataclass(frozen=True)
class AcuityState(PageState):
    """The acuity card of one run or of several, or the table of their thresholds.

    Attributes:
        run: keys; empty: the first runs of acuity.
    """

    page: ClassVar[str] = "acuity"
    run: tuple[str, ...] = ()


_ESCAPED = (("%", "%25"), ("=", "%3D"))
"""Characters of a slice's name that would end it early in `name=value`."""


def slice_filter(name: str, value: str) -> str:
    """Return the filter `name=value` of a samples page."""
    for character, escaped in _ESCAPED:
        name = name.replace(character, escaped)
    return f"{name}={value}"


def read_slice(text: str) -> tuple[str, str]:
    """Return name and value of a filter that `slice_filter` wrote.

    Raises:
        UsageError: there is no `=` in it.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"the filter {text[:80]!r} is no slice=value", "Choose a value on the page.")
    for character, escaped in reversed(_ESCAPED):
        name = name.replace(escaped, character)
    return name, value
