"""What a comparison could have shown: the smallest difference that n questions detect."""

from __future__ import annotations

from math import sqrt

from snellen.scoring.statistics.distributions import NORMAL, Z95


def smallest_detectable(n: int, discordance: float, *, power: float = 0.8) -> float | None:
    """The smallest difference of two accuracies that a paired test finds at two-sided 5 % with this power.

    Solves n = (z * sqrt(d) + z_power * sqrt(d - x ** 2)) ** 2 / x ** 2 for x, with d the discordance; where x would
    exceed d, discordance is taken to grow with it (every differing answer a win).

    Args:
        n: questions that both runs answered.
        discordance: share of questions on which exactly one of the two is right, 0 to 1.
        power: chance of finding a difference of that size, 0 to 1.

    Returns:
        0 to 1; None where n is too small for any difference.

    Raises:
        ValueError: if n is negative or a share lies outside 0 to 1.

    Source: Connor 1987, Biometrics 43:207, equation 3 (the sample size of McNemar's test).
    """
    if n < 0 or not 0.0 <= discordance <= 1.0 or not 0.0 < power < 1.0:
        raise ValueError(
            f"found n = {n}, discordance {discordance}, power {power}; expected n >= 0 and shares from 0 to 1"
        )
    z_power = NORMAL.inv_cdf(power)

    def missing(x: float) -> float:
        d = max(discordance, x)
        return Z95 * sqrt(d) + z_power * sqrt(max(0.0, d - x * x)) - x * sqrt(n)

    if missing(1.0) > 0.0:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if missing(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high


def smallest_detectable_mean(standard_error: float, *, power: float = 0.8) -> float:
    """The same for mean scores with a known standard error of the paired difference, in the scores' unit.

    Source: (z + z_power) * standard error, as in Miller 2024, arXiv 2411.00640, section 5.
    """
    return (Z95 + NORMAL.inv_cdf(power)) * standard_error
