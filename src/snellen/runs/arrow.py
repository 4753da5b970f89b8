"""Records, scores and metrics as Arrow tables, for notebooks and queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snellen.engine.final_records import final_records
from snellen.engine.folder_checks import INT64
from snellen.engine.run_folder import RunFolder, Totals
from snellen.runs.costs import cost_per_correct
from snellen.runs.scoring import Scored
from snellen.sources.arrow import schema_of
from snellen.types import Metric, Record, Score

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDS = schema_of(
    "sample_id VARCHAR, repeat INTEGER, status VARCHAR, text VARCHAR, error_kind VARCHAR, error VARCHAR, "
    "attempts INTEGER, latency_s DOUBLE, input_tokens BIGINT, output_tokens BIGINT, cost DOUBLE, "
    "cached_answer VARCHAR, started_at DOUBLE, finished_at DOUBLE"
)
SCORES = schema_of(
    "sample_id VARCHAR, repeat INTEGER, profile VARCHAR, value DOUBLE, extracted VARCHAR, verdict VARCHAR, "
    "reason VARCHAR"
)
METRICS = schema_of(
    "profile VARCHAR, name VARCHAR, value DOUBLE, n BIGINT, low DOUBLE, high DOUBLE, unit VARCHAR, "
    "coverage DOUBLE, chance DOUBLE"
)
OF_TOTALS = (*("ok", "error", "timeout", "refused", "input_tokens", "output_tokens", "cost", "cached", "seconds"),)


def records_table(folder: RunFolder) -> pa.Table:
    """Return the final records of a run; see RECORDS for the columns."""
    return _table(RECORDS, map(record_row, final_records(folder.results)))


def record_row(record: Record) -> dict[str, Any]:
    """Build one row of RECORDS."""
    response = record.response
    return {
        "sample_id": record.sample_id,
        "repeat": record.repeat,
        "status": record.status,
        "text": None if response is None else response.text,
        "error_kind": None if record.error is None else record.error.kind,
        "error": None if record.error is None else record.error.message,
        "attempts": record.attempts,
        "latency_s": None if response is None else response.latency_s,
        "input_tokens": None if response is None else min(response.usage.input_tokens, INT64 - 1),
        "output_tokens": None if response is None else min(response.usage.output_tokens, INT64 - 1),
        "cost": None if response is None else response.usage.cost,
        "cached_answer": None if response is None else response.cached_answer or None,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
    }


def score_rows(sample_id: str, repeat: int, scores: Mapping[str, Score]) -> Iterator[dict[str, Any]]:
    """Yield rows of SCORES, one for each profile."""
    for profile, score in scores.items():
        yield {
            "sample_id": sample_id,
            "repeat": repeat,
            "profile": profile,
            "value": score.value,
            "extracted": None if score.extracted is None else str(score.extracted),
            "verdict": score.verdict,
            "reason": score.reason,
        }


class ScoreRows:
    """Rows of SCORES, collected by `add` while `Run.summarize` scores."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def add(self, scored: Scored) -> None:
        self._rows += score_rows(scored.sample.id, scored.record.repeat, scored.scores)

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=SCORES)


def metrics_table(metrics: Mapping[str, Sequence[Metric]]) -> pa.Table:
    """Return metrics by profile; see METRICS for the columns."""
    return _table(METRICS, metric_rows(metrics))


def metric_rows(metrics: Mapping[str, Sequence[Metric]]) -> Iterator[dict[str, Any]]:
    """Yield rows of METRICS."""
    for profile, rows in metrics.items():
        for metric in rows:
            yield {
                "profile": profile,
                "name": metric.name,
                "value": metric.value,
                "n": metric.n,
                "low": None if metric.ci95 is None else metric.ci95[0],
                "high": None if metric.ci95 is None else metric.ci95[1],
                "interval": None if metric.interval is None else metric.interval.text,
                "unit": metric.unit,
                "coverage": metric.coverage,
                "chance": metric.chance,
            }


def run_figures(head: Metric | None, totals: Totals) -> dict[str, Any]:
    """Return what a row about a run says of its headline and of its answers."""
    return {
        "answered": totals.done,
        "headline": None if head is None else head.name,
        "value": None if head is None else head.value,
        "low": None if head is None or head.ci95 is None else head.ci95[0],
        "high": None if head is None or head.ci95 is None else head.ci95[1],
        "unit": None if head is None else head.unit or None,
        "interval": None if head is None or head.interval is None else head.interval.text,
        "uncounted": sum(totals.uncounted.values()),
        "cost_per_correct": cost_per_correct(totals, head),
        **{name: getattr(totals, name) for name in OF_TOTALS},
    }


def _table(schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)
