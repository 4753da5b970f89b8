"""Records, scores and metrics as Arrow tables, for notebooks and queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snellen.engine.final_records import final_records
from snellen.engine.folder_checks import INT64
from snellen.engine.run_folder import RunFolder
from snellen.runs.scoring import Scored
from snellen.types import Metric, Record, Score

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDS = pa.schema(
    [
        ("sample_id", pa.string()),
        ("repeat", pa.int32()),
        ("status", pa.string()),
        ("text", pa.string()),
        ("error_kind", pa.string()),
        ("error", pa.string()),
        ("attempts", pa.int32()),
        ("latency_s", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost", pa.float64()),
        ("cached_answer", pa.string()),
        ("started_at", pa.float64()),
        ("finished_at", pa.float64()),
    ]
)
SCORES = pa.schema(
    [
        ("sample_id", pa.string()),
        ("repeat", pa.int32()),
        ("profile", pa.string()),
        ("value", pa.float64()),
        ("extracted", pa.string()),
        ("verdict", pa.string()),
        ("reason", pa.string()),
    ]
)
METRICS = pa.schema(
    [
        ("profile", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("n", pa.int64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("unit", pa.string()),
        ("coverage", pa.float64()),
        ("chance", pa.float64()),
    ]
)


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
                "unit": metric.unit,
                "coverage": metric.coverage,
                "chance": metric.chance,
            }


def _table(schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)
