"""Variance components: between questions, and between repeats of one question."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from snellen.scoring.scores import Scores
from snellen.scoring.statistics.intervals import coverage, scored
from snellen.types import Metric


class Spread(Struct, frozen=True):
    """Variance of scores, split by its source.

    Attributes:
        between: variance of the questions' true means; more questions lower its part of the error.
        within: variance of repeats of one question about its mean; more repeats lower its part of the error.
        questions: how many different questions.
        repeats: rows a question, on average.
    """

    between: float
    within: float
    questions: int
    repeats: float


def spread(scores: Scores) -> Spread | None:
    """Return variance between and within questions; None if no question was repeated, or there is only one question.

    Within: pooled sample variance of repeats. Between: the variance of question means less the part of it that
    repeats explain, (MSB - MSW) / n0, floored at 0; repeats may differ in number from question to question.

    Source: one-way random effects, Searle, Casella and McCulloch 1992, Variance Components, section 3.6; the two
    parts of an evaluation's error in Miller 2024, arXiv 2411.00640, section 3.
    """
    value, mask = scored(scores)
    value = value[mask]
    if not len(value):
        return None
    _, index, counts = np.unique(scores.question[mask], return_inverse=True, return_counts=True)
    rows, questions = len(value), len(counts)
    if questions < 2 or rows == questions:
        return None
    means = np.bincount(index, weights=value) / counts
    within = float(((value - means[index]) ** 2).sum()) / (rows - questions)
    grand = float(value.mean())
    msb = float((counts * (means - grand) ** 2).sum()) / (questions - 1)
    n0 = (rows - float((counts**2).sum()) / rows) / (questions - 1)
    return Spread(max(0.0, (msb - within) / n0), within, questions, rows / questions)


def spread_metrics(scores: Scores, name: str = "variance") -> list[Metric]:
    """Return `variance/between_questions` and `variance/within_questions`; empty if no question was repeated."""
    variances = spread(scores)
    if variances is None:
        return []
    _, mask = scored(scores)
    rows = int(mask.sum())
    covered = coverage(rows, scores.expected)
    return [
        Metric(f"{name}/between_questions", variances.between, rows, None, "variance", covered, lower_is_better=True),
        Metric(f"{name}/within_questions", variances.within, rows, None, "variance", covered, lower_is_better=True),
    ]
