"""What the index holds of one run, and the columns of its files."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from msgspec import Struct, field

from snellen.engine.run_folder import Totals
from snellen.types import Metric, Verdict
from snellen.viewer.index.journal_tail import TailState
from snellen.viewer.index.sample_page import VERDICTS, CellVerdict
from snellen.viewer.index.storage import ColumnFile

ROWS = pa.schema(
    [
        ("ordinal", pa.int32()),
        ("repeat", pa.int32()),
        ("status", pa.uint8()),
        ("at", pa.int64()),
        ("size", pa.int32()),
        ("attempts", pa.int32()),
        ("latency_s", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost", pa.float64()),
        ("started_at", pa.float64()),
        ("finished_at", pa.float64()),
        ("error_kind", pa.string()),
    ]
)
TEXTS = pa.schema([("text", pa.string()), ("error", pa.string())])
STATUSES = ("ok", "refused", "error", "timeout")
"""Statuses of records by their code in the column `status`; the first two are answers."""
OTHER_STATUS = len(STATUSES)
CODES: Mapping[CellVerdict, int] = {verdict: code for code, verdict in enumerate(VERDICTS)}
CODE_OF_VERDICT: Mapping[Verdict, int] = {
    "correct": CODES["right"],
    "wrong": CODES["wrong"],
    "partial": CODES["partial"],
    "invalid": CODES["unparseable"],
    "error": CODES["failed"],
    "unscored": CODES["unscored"],
}
JUDGE_UNSURE, PROFILES_DIFFER, READ_BY_MODEL = 1, 2, 4
"""Bits of the column `flags`."""
PARTS = (
    ("code", pa.uint8()),
    ("value", pa.float64()),
    ("extracted", pa.string()),
    ("reason", pa.string()),
    ("answer", pa.uint32()),
)

CONFIDENCE = ("confidence", pa.float32())
"""Probability of the option that was read from a reply; null without option probabilities. predictions.jsonl has none."""


def score_schema(columns: int) -> pa.Schema:
    """Return the schema of a file of scores; profiles that share a scorer share a column."""
    return pa.schema(
        [
            *((f"{column}.{name}", type_) for column in range(columns) for name, type_ in (*PARTS, CONFIDENCE)),
            ("flags", pa.uint8()),
        ]
    )


class FailureKind(Struct, frozen=True):
    """Failed samples of one kind, with the commonest message."""

    kind: str
    count: int
    message: str


class RunIndexState(Struct):
    """What the index holds of one run.

    Attributes:
        key: the run.
        results: size, time of change, device and inode of results.jsonl when it was last read.
        tail: how far results.jsonl was read.
        basis: digest of all that verdicts depend on beside the replies; other: they are computed again.
        set_name: the set of its samples.
        rows, scores, texts: files; scores and texts cover the first rows.
        predictions: one file over the first rows, from predictions.jsonl; None where that is not there or not current.
        saved_profile: the profile of `predictions`.
        profiles: profile to its number among the columns of `scores`; empty: verdicts are unknown.
        has_confidence: some reply has option probabilities.
        why_unknown: why verdicts are unknown; empty where they are known.
        metrics: computed here, by profile; empty where summary.json of the run has them.
        metrics_rows: records that `metrics` are about.
        totals: over the journal.
        failures: by kind.
        started, ended: of the first and the last record.
        requested: records that the run was to make; None where that is not known.
        counts: records by status, for the next step.
        open_failures: sample, repeat, kind and message of each failure that no answer has replaced.
    """

    key: str = ""
    results: tuple[int, int, int, int] = (0, 0, 0, 0)
    tail: TailState = field(default_factory=TailState)
    basis: str = ""
    set_name: str = ""
    rows: list[ColumnFile] = field(default_factory=list)
    scores: list[ColumnFile] = field(default_factory=list)
    texts: list[ColumnFile] = field(default_factory=list)
    predictions: ColumnFile | None = None
    saved_profile: str = ""
    profiles: dict[str, int] = field(default_factory=dict)
    has_confidence: bool = False
    why_unknown: str = ""
    metrics: dict[str, list[Metric]] = field(default_factory=dict)
    metrics_rows: int = 0
    totals: Totals = Totals()
    failures: list[FailureKind] = field(default_factory=list)
    started: float | None = None
    ended: float | None = None
    requested: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    open_failures: list[tuple[str, int, str, str]] = field(default_factory=list)

    @property
    def recorded(self) -> int:
        """Return the number of records in the index."""
        return sum(file.rows for file in self.rows)

    @property
    def scored(self) -> int:
        """Return how many of the first records have scores."""
        return sum(file.rows for file in self.scores)

    @property
    def files(self) -> list[ColumnFile]:
        """Return all files."""
        last = [] if self.predictions is None else [self.predictions]
        return [*self.rows, *self.scores, *self.texts, *last]
