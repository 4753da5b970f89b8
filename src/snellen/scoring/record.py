"""Scoring of one journal record."""

from __future__ import annotations

from collections.abc import Callable

from snellen.errors import PluginError
from snellen.types import Record, Sample, Score


def score_record(sample: Sample, record: Record, score: Callable[[Sample, str], Score]) -> Score:
    """Score one record: a failed sample is worth 0 and stays in the denominator, a refusal is `invalid`.

    Raises:
        PluginError: the scorer returned something else than a Score.
    """
    if record.status == "ok" and record.response is not None:
        result: object = score(sample, record.response.text)
        if not isinstance(result, Score):
            name = getattr(score, "__qualname__", repr(score))
            raise PluginError(
                f"the scorer {name} returned {result!r}, a {type(result).__name__}, for sample {sample.id!r}",
                "Return a Score: Score(1.0, extracted, 'correct') or Score(0.0, extracted, 'wrong').",
            )
        return result
    if record.status == "refused":
        return Score(0.0, None, "invalid", "refused")
    return Score(0.0, None, "error", record.error.kind if record.error is not None else record.status)
