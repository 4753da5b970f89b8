"""Scoring of one journal record."""

from __future__ import annotations

from collections.abc import Callable

from snellen.types import Record, Sample, Score


def score_record(sample: Sample, record: Record, score: Callable[[Sample, str], Score]) -> Score:
    """Score one record: a failed sample is worth 0 and stays in the denominator, a refusal is `invalid`."""
    if record.status == "ok" and record.response is not None:
        return score(sample, record.response.text)
    if record.status == "refused":
        return Score(0.0, None, "invalid", "refused")
    return Score(0.0, None, "error", record.error.kind if record.error is not None else record.status)
