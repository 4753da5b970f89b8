"""Mean relative accuracy of a number: how many of ten tolerances its relative error keeps.

Source: VSI-Bench's released metric as both harnesses have it (Yang et al. 2024, arXiv 2412.14171, section 3.2). The
comparison is `<=` there, though the paper writes `<`; and there are ten tolerances, for int((0.95 - 0.5) / 0.05 + 2) is 10.
"""

from __future__ import annotations

import math

import numpy as np

from snellen.benchmarks.spatial.rules.constants import CONSTANTS
from snellen.types import Score

_LEAST = np.linspace(CONSTANTS["mra"]["first"], CONSTANTS["mra"]["last"], CONSTANTS["mra"]["points"])
TOLERANCES = [float(one) for one in 1 - _LEAST]
"""1 - theta in doubles, as the harnesses compute it: 0.5, 0.44999999999999996, 0.4, ... 0.050000000000000044."""


def mean_relative_accuracy(error: float) -> float:
    """The share of tolerances that a relative error keeps, 0 to 1 in tenths; an error that is no number keeps none."""
    return sum(error <= one for one in TOLERANCES) / len(TOLERANCES)


def relative_error(predicted: float, target: float) -> float:
    """|predicted - target| / |target|; where the target is 0, |predicted - target|."""
    miss = abs(predicted - target)
    return miss / abs(target) if target else miss


def scored(predicted: float | None, gold: str) -> Score:
    """The score of a number against a gold answer in text; 0 where none was read, unscored where the gold is no number."""
    try:
        target = float(gold)
    except ValueError:
        target = math.nan
    if not math.isfinite(target):
        return Score(None, written(predicted), "unscored", f"the gold answer {gold!r} is no number")
    if predicted is None:
        return Score(0.0, None, "invalid", "no number")
    return graded(mean_relative_accuracy(relative_error(predicted, target)), predicted)


def graded(value: float, extracted: float | str | None) -> Score:
    """A score between 0 and 1 with the verdict that goes with it."""
    return Score(value, written(extracted), "correct" if value == 1 else "partial" if value > 0 else "wrong")


def written(number: float | str | None) -> float | str | None:
    """A number as it goes into a file of scores: JSON has neither infinity nor NaN, which become text."""
    return str(number) if isinstance(number, float) and not math.isfinite(number) else number
