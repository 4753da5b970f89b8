"""The two distributions that the intervals and tests need, without scipy: Student's t and the fair binomial.

Both stand on the regularised incomplete beta function, evaluated by its continued fraction (Abramowitz and Stegun
1964, 26.5.8; modified Lentz method as in Press et al., Numerical Recipes, section 6.4).
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist

NORMAL = NormalDist()
Z95 = NORMAL.inv_cdf(0.975)

_TINY = 1e-300
_TERMS = 10_000


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by the modified Lentz method."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            result *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return result


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b) for a, b > 0 and x in 0 to 1; absolute error below 1e-10."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


def t_upper_tail(t: float, df: float) -> float:
    """P(T > t) for t >= 0 under Student's t with `df` degrees of freedom (Abramowitz and Stegun 26.7.1)."""
    return 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t))


@lru_cache(maxsize=4096)
def t_quantile(df: float, level: float = 0.975) -> float:
    """The `level` quantile (0.5 to 1) of Student's t; infinity where `df` < 1, the normal one above a million.

    Source: bisection on the distribution function; 2.228 at df = 10 as every table has it.
    """
    if df < 1:
        return inf
    if df > 1e6:
        return NORMAL.inv_cdf(level)
    low, high = 0.0, 2.0
    while t_upper_tail(high, df) > 1.0 - level:
        low, high = high, high * 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        if t_upper_tail(middle, df) > 1.0 - level:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def fair_coin_p(wins: int, losses: int) -> float:
    """Two-sided exact p-value of a fair coin that came up `wins` to `losses`: twice the smaller tail, at most 1.

    Raises:
        ValueError: if a count is negative.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"found {wins} wins and {losses} losses; counts are 0 or more")
    n, few = wins + losses, min(wins, losses)
    if n == 0:
        return 1.0
    return min(1.0, 2.0 * incomplete_beta(n - few, few + 1, 0.5))


def expanded_levels(clusters: int, level: float = 0.95) -> tuple[float, float]:
    """Which two quantiles of bootstrap replicates make an interval of `level` when there are few clusters.

    The percentile interval is too narrow by about sqrt((G - 1) / G) and uses z where t with G - 1 degrees of freedom
    belongs; both are made good by taking quantiles further out. Source: Hesterberg 2015, "What Teachers Should Know
    About the Bootstrap", The American Statistician 69(4), section 5.3.
    """
    if clusters < 2:
        return 0.0, 1.0
    low = NORMAL.cdf(-sqrt(clusters / (clusters - 1)) * t_quantile(clusters - 1, 0.5 + level / 2))
    return low, 1.0 - low
