"""Goodness of fit: do counts come from equally likely categories?

Used for gold answers: a test set whose right option is mostly the first rewards a model that always says A.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from snellen.scoring.statistics.bootstrap import SEED
from snellen.scoring.statistics.distributions import chi_square_tail

FEWEST_EXPECTED = 5.0
"""Expected count below which the chi-square distribution is not used (Cochran 1954, Biometrics 10:417)."""
DRAWS = 20_000


class GoodnessOfFit(Struct, frozen=True):
    """Result of a goodness-of-fit test.

    Attributes:
        statistic: Pearson's chi-square, summed over the strata.
        degrees: its degrees of freedom.
        p_value: under "every category of a stratum is equally likely".
        test: how the p-value was made.
    """

    statistic: float
    degrees: int
    p_value: float
    test: str


def uniform_fit(strata: Sequence[Sequence[int]], *, draws: int = DRAWS, seed: int = SEED) -> GoodnessOfFit:
    """Test whether the categories of each stratum are equally likely.

    Pearson's chi-square of every stratum is summed, and so are its degrees of freedom. Where an expected count is below
    5, the p-value is simulated: the share of draws from the hypothesis whose statistic is at least as large.

    Args:
        strata: the counts of the categories, one sequence per stratum, each with at least two categories.
        draws, seed: of the simulation.

    Raises:
        ValueError: a stratum has less than two categories, or a negative count.

    Source: Pearson 1900, Philosophical Magazine 50:157; simulation with (r + 1) / (draws + 1), Davison and Hinkley 1997,
    Bootstrap Methods and their Application, 4.25.
    """
    if any(len(counts) < 2 or min(counts) < 0 for counts in strata):
        raise ValueError(
            f"found strata {[list(counts) for counts in strata]}; expected counts of two categories or more"
        )
    strata = [counts for counts in strata if sum(counts)]
    statistic = sum(_pearson(counts) for counts in strata)
    degrees = sum(len(counts) - 1 for counts in strata)
    if not strata:
        return GoodnessOfFit(0.0, 0, 1.0, "chi-square")
    if all(sum(counts) / len(counts) >= FEWEST_EXPECTED for counts in strata):
        return GoodnessOfFit(statistic, degrees, chi_square_tail(statistic, degrees), "chi-square")
    generator = np.random.default_rng(seed)
    totals = np.zeros(draws)
    for counts in strata:
        size, categories = sum(counts), len(counts)
        drawn = generator.multinomial(size, [1.0 / categories] * categories, draws)
        totals += ((drawn - size / categories) ** 2).sum(axis=1) * (categories / size)
    at_least = int((totals >= statistic - 1e-9 * max(1.0, statistic)).sum())
    return GoodnessOfFit(statistic, degrees, (at_least + 1) / (draws + 1), "chi-square, simulated")


def _pearson(counts: Sequence[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected
