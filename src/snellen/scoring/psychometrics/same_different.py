"""The model of same-or-different questions: sensitivity and criterion estimated together.

Who is asked whether two pictures differ may say so often or seldom, whatever is seen: this criterion alone moves the
threshold of a plain curve several times over. Equal pairs are asked too, so that both are known:

    P("different" | x) = (1 - l) Phi(d'(x) - c) + l / 2, d'(x) = (10 ** x / alpha) ** beta, and d' = 0 for an equal pair

The threshold is alpha, where d' = 1. Source: Lesmes et al. 2015, Frontiers in Psychology 6:1070 (quick yes-no).
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from statistics import NormalDist

import numpy as np

from snellen.scoring.psychometrics.curve import (
    AnswerModel,
    Array,
    Kernel,
    check_levels,
    normal_cdf,
    threshold_grid,
)

EQUAL_PAIR = -inf
"""The level of a pair of equal pictures."""
SLOPES = (0.7, 1.0, 1.5, 2.0, 3.0)
TYPICAL_SLOPE, SLOPE_SPREAD = 1.5, 0.5
"""Centre and standard deviation (of the natural logarithm) of the prior of beta."""
FALSE_ALARMS = (0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.7, 0.9)
SLIPS = (0.0, 0.02, 0.06)
EQUAL_SLOTS = (1, 4, 6)
"""Slots of a batch of eight that hold an equal pair: at least a third of them, whatever tells most."""
MOST_DPRIME = 30.0


@lru_cache(maxsize=16)
def same_different(levels: tuple[float, ...]) -> AnswerModel:
    """Return the model of questions whether two pictures differ.

    Args:
        levels: sizes of the difference in decades, rising; equal pairs are a candidate of their own before them.

    Raises:
        UsageError: there are fewer than two levels, or they do not rise.
    """
    sizes = np.asarray(levels, dtype=np.float64)
    check_levels(sizes)
    thresholds = threshold_grid(sizes)
    candidates = np.concatenate([[EQUAL_PAIR], sizes])
    slope, alarm, slip = (
        grid.reshape(-1) for grid in np.meshgrid(SLOPES, FALSE_ALARMS, SLIPS, indexing="ij")
    )  # fmt: skip
    weight = np.exp(-0.5 * (np.log(slope / TYPICAL_SLOPE) / SLOPE_SPREAD) ** 2)

    slopes, alarms = (grid.reshape(-1) for grid in np.meshgrid(SLOPES, FALSE_ALARMS, indexing="ij"))
    criteria = -np.array([NormalDist().inv_cdf(rate) for rate in alarms])
    curve_of = np.arange(len(slip)) // len(SLIPS)

    def hits(at: Array) -> Array:
        distance = at[None, None, :] - thresholds[:, None, None]
        with np.errstate(over="ignore"):
            dprime = np.minimum(np.power(10.0, slopes[None, :, None] * distance), MOST_DPRIME)
        return normal_cdf(dprime - criteria[None, :, None])

    @lru_cache(maxsize=1)
    def candidate_hits() -> Array:
        return hits(candidates)  # the error function is not vectorised, so that each call of it counts

    def likelihood(at: Array) -> Array:
        places = np.searchsorted(candidates, at)
        known = np.array_equal(candidates[np.minimum(places, len(candidates) - 1)], at)
        curves = candidate_hits()[:, :, places] if known else hits(at)
        different = (1.0 - slip)[None, :, None] * curves[:, curve_of] + (slip / 2)[None, :, None]
        return np.stack([different, 1.0 - different])

    def kernel(at: Array) -> Kernel:
        curves = candidate_hits() if at is candidates else hits(at)
        return Kernel(curves, 1.0 - np.array(SLIPS), np.array(SLIPS) / 2)

    prior = np.tile(weight / weight.sum() / len(thresholds), (len(thresholds), 1))
    nuisance = {"slope": slope, "false_alarms": alarm, "lapse": slip}
    return AnswerModel(thresholds, nuisance, prior, candidates, 2, likelihood, first_asked=1, kernel=kernel)
