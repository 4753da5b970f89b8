"""What a benchmark over a taxonomy adds to its summary."""

from __future__ import annotations

from snellen.scoring.table import Scores
from snellen.types import Metric


def diagnosis(scores: Scores) -> list[Metric]:
    """Metrics that say where a model's sight gives out, from the meta columns that the rows have."""
    return []
