"""Power for clustered and repeated designs, beside the share of simulated experiments that find the difference."""

import numpy as np
import pytest

from snellen.runs.power import _resampled, _Stored
from snellen.scoring.statistics.paired import compare_by_t


def experiment(rng, clusters, size, repeats, difference):
    """Return the mean scores of two models by question, the clusters, and the variance of one reply about its mean.

    Half of the questions are as hard as their cluster, and the second model's gain differs from cluster to cluster.
    """
    n, group = clusters * size, np.arange(clusters).repeat(size)
    ease = np.where(rng.random(n) < 0.5, rng.beta(1, 1, clusters)[group], rng.beta(1, 1, n))
    chance = 0.25 + 0.4 * ease
    gain = difference + 0.1 * rng.uniform(-1.0, 1.0, clusters)[group]
    one, other = rng.binomial(repeats, chance) / repeats, rng.binomial(repeats, chance + gain) / repeats
    within = (one * (1 - one) + other * (1 - other)).mean() * repeats / (repeats - 1) if repeats > 1 else 0.0
    return one, other, group, float(within)


@pytest.mark.parametrize(
    ("clusters", "size", "stored_repeats", "repeats", "difference"),
    [(40, 5, 4, 4, 0.06), (60, 2, 4, 1, 0.1), (150, 1, 2, 8, 0.05)],
)
def test_power_from_stored_runs_is_the_share_of_experiments_that_find_the_difference(
    clusters, size, stored_repeats, repeats, difference
):
    rng = np.random.default_rng(3)
    foretold = []
    for _ in range(8):
        one, other, group, chance = experiment(rng, clusters, size, stored_repeats, difference)
        stored = _Stored(other - one, group, chance, binary=False)
        foretold.append(_resampled(stored, len(group), difference, repeats, 80, 0).power)
    found = [compare_by_t(*experiment(rng, clusters, size, repeats, difference)[:3]).p_value < 0.05 for _ in range(600)]
    assert np.mean(foretold) == pytest.approx(np.mean(found), abs=0.07)
