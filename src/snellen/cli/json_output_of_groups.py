"""Shapes of what groups of commands print with --json: reviews, batch, build, features, agents, prompts, submit; and easi.

No `from __future__ import annotations` here, as in `json_output.py`.
"""

from typing import Any, NotRequired, TypedDict

from snellen.runs.reviews.audit_sample import AuditSample
from snellen.runs.reviews.judge_card import JudgeCard
from snellen.runs.reviews.status import AuditProgress
from snellen.types import Metric

LinkingCounts = dict[str, int]
ReportSummary = dict[str, Any]


class PairFacts(TypedDict):
    reviewers: list[str]
    kappa: dict[str, Any]
    decisions: list[list[Any]]


class AnswerId(TypedDict):
    sample_id: str
    repeat: int


class ReviewFacts(TypedDict):
    run: str
    lines: int
    cases: int
    decisions: dict[str, int]
    reviewers: dict[str, int]
    alpha: dict[str, Any]
    pairs: list[PairFacts]
    disputed: list[AnswerId]
    adjudicated: int
    audit: AuditProgress | None
    faults: list[str]


class ReviewsOutput(TypedDict):
    runs: list[ReviewFacts]


class DrawnSample(AuditSample, frozen=True, kw_only=True):
    written: bool


class ImportedDecisions(TypedDict):
    imported: int
    skipped: dict[str, int]
    problems: list[str]


class ExportedTasks(TypedDict):
    tasks: int
    files: list[str]


class CardsOutput(TypedDict):
    cards: list[JudgeCard]


class BatchesOutput(TypedDict):
    run: str
    batches: list[dict[str, Any]]


class WrittenBatch(TypedDict):
    run: str
    file: str | None
    requests: int
    waiting: int


class ReadBatches(TypedDict):
    run: str
    answered: int
    failed: int
    again: int
    missing: int
    strange: int
    state: str
    ok: int


class MeasureOutput(TypedDict):
    """A measure of features; `conditions` are those of `snellen features acuity`, which has no store."""

    store: NotRequired[str]
    measure: str
    settings: dict[str, Any]
    metrics: list[Metric]
    conditions: NotRequired[list[dict[str, Any]]]
    notes: list[str]
    published: NotRequired[list[Any]]


class StoredArray(TypedDict):
    width: int
    dtype: str


class StoredTokens(TypedDict):
    tokens: int
    width: int
    dtype: str


class StoreOutput(TypedDict):
    store: str
    rows: int
    missing: int
    splits: dict[str, int] | list[str]
    classes: int
    several_labels: bool
    outputs: dict[str, StoredArray]
    patch_tokens: NotRequired[StoredTokens]
    fingerprint: str
    notes: list[str]


class AgentFacts(TypedDict):
    """An agent; `folder` and `digest` where it is installed, `verified` of `agents list`."""

    name: str
    version: str
    installed: bool
    folder: NotRequired[str]
    digest: NotRequired[str]
    verified: NotRequired[bool]


class AgentsOutput(TypedDict):
    agents: list[AgentFacts]


class AgentImage(TypedDict):
    image: str
    digest: str


class ServedPages(TypedDict):
    address: str


class ExportedPages(TypedDict):
    index: str
    pages: int
    images: int
    bytes: int
    seconds: float
    problems: list[str]


class VersionOutput(TypedDict):
    version: str


class ImportedPrompts(TypedDict):
    files: list[str]
    benchmarks: list[str]
    notes: list[str]


class MeanScore(TypedDict):
    value: float | None
    of: int
    benchmarks: NotRequired[int]
    evaluated: NotRequired[int]


class EasiOutput(TypedDict):
    model: str
    folder: str
    benchmarks: dict[str, dict[str, Any]]
    average: MeanScore
    log: str
    easi_results: dict[str, Any] | None
    exit_code: int
    go_on: NotRequired[str]
    submission: NotRequired[dict[str, Any]]


class SubmitOutput(TypedDict):
    folder: str
    endpoint: str
    payload: dict[str, Any]
    request_bytes: int | None
    upload: str
    zip_bytes: int
    reply_characters: int | None
    average: MeanScore
    incomplete: Any
    sent: bool
    reply: dict[str, Any] | None


class BuildCheck(TypedDict):
    name: str
    questions: int
    parts: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    holds: bool


class CurateOutput(TypedDict):
    work: str
    stages: dict[str, Any]
    pack: dict[str, Any] | None
