"""The curve of a condition over its range: mean and band of the posterior, pooled answers, and where it fails to fit."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.scoring.psychometrics.curve import EQUAL_PAIR, RIGHT, Array
from snellen.scoring.psychometrics.estimate import pool, rising_shares
from snellen.scoring.psychometrics.posterior import MASS, Posterior

POINTS = 81
DRAWS, SEED = 400, 0
LEVELS_AT_ONCE = 8
"""The grid is evaluated at so many levels at once, about 10 MB."""
SIGNIFICANT = 0.01
"""A check fails below this p: 15 conditions have 30 checks, and .05 would fail one of a sound run."""


class CurveBand(Struct, frozen=True):
    """The share of right answers over the range; of same-or-different questions the share of "different".

    Attributes:
        levels: [POINTS] decades, rising.
        mean, low, high: [POINTS] posterior mean, and the ends of 95 % of posterior draws.
    """

    levels: Array
    mean: Array
    low: Array
    high: Array


class PooledAnswers(Struct, frozen=True):
    """Answers of neighbouring levels: mean level in decades, how many, and how many right (or "different")."""

    level: float
    answers: int
    right: int

    @property
    def share(self) -> float:
        """Return the share of right answers."""
        return self.right / self.answers


class CurveFault(Struct, frozen=True):
    """A check that failed: `dip`, or `misfit`; and the level in decades where the answers differ most."""

    kind: str
    level: float


def shares_at(posterior: Posterior, levels: Array) -> Array:
    """Return the posterior mean [n] of the share of right answers at some levels."""
    parts = [np.tensordot(posterior.weights, table, 2) for table in _tables(posterior, levels)]
    return np.concatenate(parts)


def curve_band(result: ConditionResult) -> CurveBand:
    """Evaluate the curve over the range of a condition's levels; draws are seeded, so equal answers give equal bands."""
    posterior, candidates = result.posterior, result.condition.attribute.levels
    levels = np.linspace(candidates[0], candidates[-1], POINTS)
    rows, columns = posterior.draws(DRAWS, np.random.Generator(np.random.Philox(SEED)))
    tail = (1.0 - MASS) / 2
    means, ends = [], []
    for table in _tables(posterior, levels):
        means.append(np.tensordot(posterior.weights, table, 2))
        ends.append(np.quantile(table[rows, columns], (tail, 1.0 - tail), axis=0))
    low, high = np.concatenate(ends, axis=1)
    return CurveBand(levels, np.concatenate(means), low, high)


def _tables(posterior: Posterior, levels: Array) -> list[Array]:
    """Return the share of right answers over the grid, [M, N, n] for each few levels."""
    likelihood = posterior.model.likelihood
    return [
        likelihood(levels[start : start + LEVELS_AT_ONCE])[RIGHT] for start in range(0, len(levels), LEVELS_AT_ONCE)
    ]


def pooled_answers(result: ConditionResult) -> list[PooledAnswers]:
    """Pool answers by level in bins of 0.1 decades; equal pairs have no level."""
    answers = [(level, outcome) for level, outcome in result.answers if level != EQUAL_PAIR]
    if not answers:
        return []
    pooled = pool(answers)
    counts = zip(pooled.level, pooled.answered, pooled.right, strict=True)
    return [PooledAnswers(float(level), int(number), int(right)) for level, number, right in counts]


def false_alarms(result: ConditionResult) -> tuple[int, int] | None:
    """Return how many equal pairs were called different, and how many there were; None where there are none."""
    outcomes = [outcome for level, outcome in result.answers if level == EQUAL_PAIR]
    return (sum(outcome == RIGHT for outcome in outcomes), len(outcomes)) if outcomes else None


def curve_fault(result: ConditionResult) -> CurveFault | None:
    """Return the check of the curve that failed, a dip before a misfit; None if both hold or there was none."""
    points = pooled_answers(result)
    if not points or result.fit_p is None or result.monotone_p is None:
        return None
    right = np.array([point.right for point in points], dtype=np.float64)
    number = np.array([point.answers for point in points], dtype=np.float64)
    if result.monotone_p < SIGNIFICANT:
        surprise = _surprise(right, number, rising_shares(right.astype(int), number.astype(int)))
        return CurveFault("dip", points[int(surprise.argmin())].level)
    if result.fit_p < SIGNIFICANT:
        expected = shares_at(result.posterior, np.array([point.level for point in points]))
        return CurveFault("misfit", points[int(np.abs(_surprise(right, number, expected)).argmax())].level)
    return None


def _surprise(right: Array, number: Array, share: Array) -> Array:
    """Return how many standard deviations the counts lie above the expected ones."""
    spread = np.sqrt(np.maximum(number * share * (1.0 - share), 0.05))
    return np.asarray((right - number * share) / spread)
