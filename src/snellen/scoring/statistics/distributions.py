"""Distribution functions and quantiles, from scipy.special, which is imported with the first of them: it takes a while."""

from __future__ import annotations

from functools import lru_cache
from math import inf


def t_upper_tail(t: float, df: float) -> float:
    """Return P(T > t) of Student's t with `df` degrees of freedom."""
    from scipy.special import stdtr

    return float(stdtr(df, -t))


@lru_cache(maxsize=4096)
def t_quantile(df: float, level: float = 0.975) -> float:
    """Return the `level` quantile of Student's t; infinity for `df` < 1."""
    from scipy.special import stdtrit

    return inf if df < 1 else float(stdtrit(df, level))


@lru_cache(maxsize=4096)
def t_shift(df: float, alpha: float, power: float) -> float:
    """Return the difference, in standard errors, that a two-sided t test at level `alpha` finds with this power."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(df, 1.0 - power, t_quantile(df, 1.0 - alpha / 2.0)))


@lru_cache(maxsize=65_536)
def beta_quantile(a: float, b: float, level: float) -> float:
    """Return the quantile of a beta distribution."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, level))


def coin_tail(most: int, tosses: int) -> float:
    """Return the chance of at most `most` heads in tosses of a fair coin; 0 for fewer than none."""
    from scipy.special import bdtr

    return float(bdtr(most, tosses, 0.5)) if most >= 0 else 0.0


def fair_coin_p(wins: int, losses: int) -> float:
    """Return the two-sided exact p-value of a fair coin with `wins` and `losses`: twice the smaller tail, at most 1.

    Raises:
        ValueError: if a count is negative.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"found {wins} wins and {losses} losses; counts are 0 or more")
    return min(1.0, 2.0 * coin_tail(min(wins, losses), wins + losses)) if wins + losses else 1.0


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-square variable exceeds `statistic`, with at least 1 degree of freedom."""
    from scipy.special import chdtrc

    return float(chdtrc(degrees, max(0.0, statistic)))
