"""Scales of the matrix: where a score lies on its column's track, and which tone its cell has on the heat map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from snellen.reports.tables import format_value, metric_fields, track_position
from snellen.types import Metric
from snellen.viewer.score_matrix import FRACTION

TONES = 10
"""Tones of the reports' style sheet, `tone-0` to `tone-10`."""
MARGIN = 0.04


@dataclass(frozen=True)
class ScoreAxis:
    """Scale of one column, from `low` to `high` in its unit."""

    low: float
    high: float
    unit: str

    @property
    def ends(self) -> tuple[str, str]:
        """Return the texts of both ends."""
        low, high = self.low, self.high
        if self.unit == FRACTION:
            digits = 0 if high - low >= 0.1 else 1
            return f"{100 * low:.{digits}f} %", f"{100 * high:.{digits}f} %"
        return format_value(low, self.unit), format_value(high, self.unit)

    def place(self, value: float | None) -> float | None:
        """Return the place of a value from 0 to 100; None for none."""
        return None if value is None else track_position((value - self.low) / (self.high - self.low))

    def fields(self, metric: Metric) -> dict[str, Any]:
        """Return what the track of a metric needs; `reports.tables.metric_fields` on this scale."""
        low, high = metric.ci95 if metric.ci95 is not None else (None, None)
        chance = metric.chance if metric.chance is not None and self.low <= metric.chance <= self.high else None
        known = metric.value is not None
        return {
            **metric_fields(metric),
            "low": self.place(low) if known else None,
            "high": self.place(high) if known else None,
            "at": self.place(metric.value),
            "chance": self.place(chance),
        }

    def tone(self, metric: Metric) -> int | None:
        """Return the tone of a cell, 0 to TONES; None without a value."""
        share = self.place(metric.value)
        return None if share is None else round(TONES * share / 100.0)


def score_axis(metrics: Iterable[Metric], unit: str, *, fitted: bool) -> ScoreAxis:
    """Build the scale of one column: 0 to 1 for fractions, otherwise and if `fitted` the range of values and intervals."""
    if unit == FRACTION and not fitted:
        return ScoreAxis(0.0, 1.0, unit)
    ends = [
        end
        for metric in metrics
        if metric.value is not None
        for end in (metric.value, *(metric.ci95 if metric.ci95 is not None else ()))
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    margin = MARGIN * (high - low) or 0.5 * abs(low) * MARGIN or MARGIN
    low, high = low - margin, high + margin
    if unit == FRACTION:
        low, high = max(0.0, low), min(1.0, high)
    return ScoreAxis(low, high, unit)
