"""Several comparisons at once: p-values adjusted after Holm, and letters for groups that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite

import numpy as np
from numpy.typing import NDArray


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, in the same order.

    The smallest is multiplied by m, the next by m - 1, and so on; each is at least the one before it and at most 1.
    Whoever rejects adjusted values below 5 % rejects any true hypothesis at all in at most 5 % of experiments, however
    the tests depend on each other.

    Raises:
        ValueError: if a value lies outside 0 to 1.

    Source: Holm 1979, Scandinavian Journal of Statistics 6:65; (0.01, 0.04, 0.03) gives (0.03, 0.06, 0.06).
    """
    if any(not (isfinite(p) and 0.0 <= p <= 1.0) for p in p_values):
        raise ValueError(f"found p-values {list(p_values)}; expected numbers from 0 to 1")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def flip_bound(sums: NDArray[np.float64]) -> float:
    """Return an upper bound of the two-sided p-value of sign flips of cluster differences [G], 1 at most.

    Drawn flips cannot give less than 1 in their number; this bound can, and survives the adjustment for many pairs.

    Source: Hoeffding 1963, JASA 58:13, theorem 2, for a sum of values with random signs:
    P(|sum| >= t) <= 2 * exp(-t ** 2 / (2 * sum of squares)).
    """
    squares = float(sums @ sums)
    if squares == 0.0:
        return 1.0
    return min(1.0, 2.0 * exp(-(float(sums.sum()) ** 2) / (2.0 * squares)))


def letters(different: NDArray[np.bool_]) -> list[str]:
    """Return letters for items in their order: two items share a letter if and only if they are not different.

    Args:
        different: [k, k] symmetric, True where two items were told apart.

    Returns:
        One text per item, such as `ab`; after `z` follow `aa`, `ab` in brackets.

    Source: Piepho 2004, J. Computational and Graphical Statistics 13:456 (insert and absorb).
    """
    count = len(different)
    columns: list[frozenset[int]] = [frozenset(range(count))] if count else []
    for first in range(count):
        for second in range(first + 1, count):
            if not different[first, second]:
                continue
            inserted: list[frozenset[int]] = []
            for column in columns:
                inserted += [column - {first}, column - {second}] if {first, second} <= column else [column]
            columns = _absorb(inserted)
    columns.sort(key=sorted)
    return ["".join(_letter(place) for place, column in enumerate(columns) if item in column) for item in range(count)]


def _absorb(columns: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Return the columns that are no part of another one, each once."""
    unique = list(dict.fromkeys(columns))
    return [column for column in unique if column and not any(column < other for other in unique)]


def _letter(place: int) -> str:
    """Return the name of a column: a to z, then two letters in brackets."""
    if place < 26:
        return chr(97 + place)
    return f"({chr(97 + (place // 26 - 1) % 26)}{chr(97 + place % 26)})"
