"""Shapes of what commands print with --json, for `snellen schema`: objects that no Struct of a lower package describes whole.

Those of groups of commands stand in `json_output_of_groups.py`.

No `from __future__ import annotations` here: `NotRequired` of a TypedDict has to be known when the class is made.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from snellen.benchmarks.acuity.comparison import ThresholdComparison
from snellen.benchmarks.table.entries import EntryFacts
from snellen.engine.run_folder import Coverage, Totals
from snellen.runs.acuity_margin import BlankControl, MarginResult
from snellen.runs.costs import Estimate
from snellen.runs.drop_check import DropCheck
from snellen.runs.failures.labels import LabelledAnswer
from snellen.runs.leakage.panel import Panel
from snellen.runs.merge import MergedPart
from snellen.runs.ranking import Ranking
from snellen.runs.recipes import Recipe
from snellen.runs.reproduce import ProtocolSetting, ReproducedFigure
from snellen.runs.threshold_check import ThresholdCheck
from snellen.scoring.extract.batch import Tally
from snellen.types import Metric

OPEN = frozenset({"ProfileScores", "Comparison", "PairedPart"})
"""Objects to which a benchmark or a kind of comparison adds fields of its own."""


class ErrorFacts(TypedDict):
    message: str
    hint: str
    exit_code: int


class ErrorText(TypedDict):
    kind: str
    message: str
    count: int
    hint: str


class Unanswered(TypedDict):
    answered: int
    failed: int
    errors: list[ErrorText]


class ProfileScores(TypedDict):
    profile: str
    metrics: list[Metric]


Profiles = list[ProfileScores]


class RunRow(TypedDict):
    """A run, or one that failed: then `state` is `failed`, `error` says why, and what the folder holds is there."""

    path: str
    benchmark: str | None
    model: str | None
    state: str
    fingerprint: NotRequired[str]
    coverage: NotRequired[Coverage]
    truncated: NotRequired[list[int]]
    totals: NotRequired[Totals]
    failures: NotRequired[Unanswered | None]
    empty: NotRequired[str | None]
    imported: NotRequired[dict[str, Any]]
    profiles: NotRequired[Profiles]
    report: NotRequired[str]
    error: NotRequired[ErrorFacts]


class SuiteRow(TypedDict):
    benchmark: str
    model: str
    profile: str
    runs: list[str]
    metrics: list[Metric]


class PairedPart(TypedDict):
    """One slice of a comparison: its scores, and what `snellen --help compare` says of their difference."""

    name: str
    baseline: float
    other: float
    difference: float
    p_value: float
    n: int


class Comparison(TypedDict):
    baseline: str
    other: str
    n: int
    parts: list[PairedPart]


class RunsOutput(TypedDict):
    runs: list[RunRow]
    suites: NotRequired[list[SuiteRow]]
    checks: NotRequired[list[ThresholdCheck]]
    paired: NotRequired[list[Comparison]]


class DryRun(TypedDict):
    dry_run: bool
    runs: list[Estimate]
    cost: float | None
    batch_cost: float | None


class PlanCell(TypedDict):
    benchmark: str
    model: str
    setting: str | None
    path: str
    state: str | None
    metric: Metric | None
    totals: Totals | None
    empty: str | None
    profiles: list[ProfileScores]
    error: ErrorFacts | None


class PlanOutput(TypedDict):
    plan: str
    interrupted: bool
    cells: list[PlanCell]


class PlannedCell(TypedDict):
    benchmark: str
    model: str
    setting: NotRequired[str | None]
    endpoint: str
    path: str
    requests: int
    estimate: Estimate


class PlanDryRun(TypedDict):
    dry_run: bool
    cells: list[PlannedCell]
    requests: int
    cost: float | None


class ScoreCost(TypedDict):
    dollars: float
    answers: int
    without_usage: int
    uncounted: NotRequired[int]


class ScoreOutput(TypedDict):
    benchmark: str
    reading_version: int
    profiles: Profiles
    failures: NotRequired[Unanswered | None]
    checks: NotRequired[list[ThresholdCheck]]
    cost: NotRequired[ScoreCost]
    cost_per_correct: NotRequired[float | None]


class RunCost(TypedDict):
    run: str
    cost: float
    cost_per_correct: float | None
    text: str


class CompareChecks(TypedDict):
    worse: list[DropCheck]
    thresholds: list[ThresholdCheck]


class CompareOutput(TypedDict):
    profile: str
    comparisons: list[Comparison]
    ranking: NotRequired[Ranking]
    costs: NotRequired[list[RunCost]]
    checks: NotRequired[CompareChecks]


class QueryOutput(TypedDict):
    columns: list[str]
    rows: list[list[Any]]


class BenchmarkFacts(TypedDict):
    """A benchmark; `files` and `notes` are there with --data."""

    name: str
    version: str
    size: int | None
    profiles: dict[str, str]
    options: dict[str, str]
    exports: list[str]
    restricted: bool
    about: dict[str, str]
    members: list[str]
    files: NotRequired[list[dict[str, Any]]]
    notes: NotRequired[list[str]]


class RunFacts(TypedDict):
    path: str
    benchmark: str
    model: str
    state: str
    fingerprint: str
    coverage: Coverage
    not_there: int
    totals: Totals
    answered: int
    questions: int | None
    recorded_share: float | None
    groups: dict[str, Any] | None
    date: str | None
    settings: str
    headline: Metric | None
    cost_per_correct: float | None
    other_judge: NotRequired[str]
    failures: Unanswered | None


class CardFacts(TypedDict):
    name: str
    title: str
    count: int
    vendors: dict[str, Any]


class PublishedRow(TypedDict):
    name: str
    kind: str
    values: list[float | None]


class PublishedFacts(TypedDict):
    benchmark: str
    title: str
    source: str
    profile: str
    columns: list[str]
    metrics: list[Any]
    numbers: list[Any]
    notes: list[str]
    rows: list[PublishedRow]


class ListedBenchmarks(TypedDict):
    benchmarks: list[BenchmarkFacts]
    models: NotRequired[dict[str, str]]


class ListedCatalogue(TypedDict):
    catalogue: list[EntryFacts]


class ListedCards(TypedDict):
    cards: list[CardFacts]


class ListedRuns(TypedDict):
    runs: list[RunFacts]


class ListedTables(TypedDict):
    published: list[PublishedFacts]


class RecipesOutput(TypedDict):
    recipes: list[Recipe]


class MergeOutput(TypedDict):
    run: str
    fingerprint: str
    state: str
    records: int
    answered: int
    failed: int
    missing: list[str]
    parts: list[MergedPart]
    profiles: NotRequired[Profiles]
    not_scored: NotRequired[str]


class FilesOutput(TypedDict):
    files: list[str]


class FormatsOutput(TypedDict):
    formats: dict[str, str]


class TableOutput(TypedDict):
    """The table itself, of `snellen export --format TABLE` without --out."""

    columns: list[Any]
    rows: list[Any]
    notes: list[str]
    rule_of_best: str


class TalliesOutput(TypedDict):
    kinds: list[Tally]


class RuleOutput(TypedDict):
    rule: str
    rows: int
    raises: int
    compared: int
    agree: int


class LabelledRunFacts(TypedDict):
    path: str
    model: str
    counts: dict[str, dict[str, int]]
    agreement: list[dict[str, Any]]
    review: int
    notes: list[str]
    answers: list[LabelledAnswer]


class FailuresOutput(TypedDict):
    runs: list[LabelledRunFacts]
    pages: NotRequired[str]


class LeakageOutput(Panel, frozen=True, kw_only=True):
    found: list[str]  # type: ignore[assignment]  # the names of the tests, where the panel has the tests
    page: str | None


class ReproducedTable(TypedDict):
    title: str
    source: str
    by: str
    profile: str
    own: list[Metric]
    figures: list[ReproducedFigure]
    settings: list[ProtocolSetting]
    settings_source: str | None
    part: str


class ReproducedRun(TypedDict):
    run: str
    benchmark: str
    model: str
    is_part: bool
    part: str
    published: list[ReproducedTable]


class ReproduceOutput(TypedDict):
    reproductions: list[ReproducedRun]
    failures: list[RunRow]


class WatchPoint(TypedDict):
    checkpoint: str
    step: int
    benchmark: str
    state: str
    run: str | None
    metrics: list[Metric]
    unanswered: int
    error: str
    exit_code: int
    conditions: NotRequired[str]


class WatchOutput(TypedDict):
    checkpoints: str
    out: str
    page: str | None
    points: list[WatchPoint]
    incomplete: dict[str, str]


class ComparedSide(TypedDict):
    name: str
    path: str
    model: str


class ThresholdPair(TypedDict):
    first: ComparedSide
    second: ComparedSide
    conditions: list[ThresholdComparison]
    notes: list[str]


class ThresholdsOutput(TypedDict):
    comparisons: list[ThresholdPair]


class MarginsOutput(MarginResult, frozen=True, kw_only=True):
    run: str
    acuity: str
    models: Mapping[str, str]
    profile: str
    geometry: str


class BlankOutput(BlankControl, frozen=True, kw_only=True):
    blank: str
    run: str | None


class DoctorOutput(TypedDict):
    faults: int
    findings: list[dict[str, Any]]


class ReferenceOutput(TypedDict):
    reference: str
    rule: dict[str, Any]
    models: list[Any]
    leaderboard: dict[str, Any] | None
