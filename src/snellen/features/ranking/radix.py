"""Counting scores above limits by sorting 16-bit levels, with exact comparison within one level.

Scores are put on a grid that is fine where the few lie. Sorting 16-bit numbers takes two passes over the row and no
comparison, on any machine, where sorting floats takes a dozen; and since a score is never put on a lower level than a
smaller one, all on higher levels are greater. Those on the same levels are compared as the floats they are.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Low: TypeAlias = NDArray[np.float32]
Places: TypeAlias = NDArray[np.int64]

_OUT, _LOWEST, _HIGHEST, _DUMMY = 0, 1, 65_534, 65_535
"""Levels: of what is left out; of all below the grid; of all above it; of limits that there are not."""

_MARGIN = 16.0
"""Levels between the ends of the grid and the limits next to them."""

_LIMITS = 0.125
"""Limits of a row, as a share of its scores, up to which sorting them along is cheap."""

_ROWS = 16
"""Rows sorted at once, so that their scores and their order stay in the cache."""


class Between(Struct, frozen=True, eq=False):
    """Scores above and between two limits.

    Attributes:
        over: [k] how many scores are greater than the upper limit.
        pair: [m] ascending, [m] item: scores from the lower limit to the upper one, both included.
        item: [m] their places in the row.
    """

    over: Places
    pair: Places
    item: Places


def between_by_levels(scores: Low, row: Places, limits: Low, out: tuple[Places, Places], budget: int) -> Between | None:
    """Count scores above limits, and list those between them.

    Args:
        scores: [b, n] finite.
        row: [k] ascending; which row of `scores` a pair of limits is about.
        limits: [k, 2] lower and upper, finite.
        out: (rows, items) of scores that are neither counted nor listed.
        budget: maximum number of comparisons of floats.

    Returns:
        None where sorting floats is the better way: a row has limits for more than an eighth of its scores, or more
        than `budget` scores lie on the levels of limits, because these lie far apart and the grid is coarse.
    """
    count = scores.shape[1]
    ends = np.searchsorted(row, np.arange(len(scores) + 1))
    width = 2 * int(np.diff(ends).max(initial=0))
    if width > _LIMITS * count:
        return None
    bottom, scale = _grid(ends, limits)
    # Limits are sorted along with the scores. The sort is stable, and so a limit comes after all scores of its level.
    levels = np.empty((len(scores), count + width), dtype=np.uint16)
    levels[:, count:] = _DUMMY
    column = 2 * (np.arange(len(row)) - ends[row])
    of_limits = _levels(limits, bottom[row], scale[row])
    levels[row, count + column] = of_limits[:, 0] - 1
    levels[row, count + column + 1] = of_limits[:, 1]
    for first in range(0, len(scores), _ROWS):
        some = slice(first, first + _ROWS)
        levels[some, :count] = _levels(scores[some], bottom[some], scale[some])
    levels[out] = _OUT
    over = np.empty(len(row), dtype=np.int64)
    pairs, items = [], []
    for first in range(0, len(scores), _ROWS):
        # 16-bit numbers are sorted stably by radix.
        order = np.argsort(levels[first : first + _ROWS], axis=1, kind="stable")
        at, before = _limit_positions(order, count)
        part = slice(ends[first], ends[min(first + _ROWS, len(scores))])
        cells = row[part] - first, column[part]
        low, size = at[cells], at[:, 1:][cells] - at[cells] - 1
        over[part] = count - before[:, 1:][cells]
        budget -= int(size.sum())
        if budget < 0:
            return None
        pair = np.repeat(np.arange(part.start, part.stop), size)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(size) - size, size)
        item = order.reshape(-1)[np.repeat(low + 1, size) + within]
        pairs.append(pair[item < count])
        items.append(item[item < count])
    pair, item = np.concatenate(pairs), np.concatenate(items)
    score = scores[row[pair], item]
    over += np.bincount(pair[score > limits[pair, 1]], minlength=len(row))
    between = (score >= limits[pair, 0]) & (score <= limits[pair, 1])
    return Between(over, pair[between], item[between])


def _limit_positions(order: Places, count: int) -> tuple[Places, Places]:
    """Return the sorted positions of limits (places from `count` on): [b, width] in the flat order; [b, width] scores before."""
    flat, (rows, columns) = order.reshape(-1), order.shape
    flat_places = np.flatnonzero(flat >= count).reshape(rows, columns - count)
    row = np.arange(rows)[:, None]
    at, before = np.empty((2, *flat_places.shape), dtype=np.int64)
    at[row, flat[flat_places] - count] = flat_places
    before[row, flat[flat_places] - count] = flat_places - row * columns - np.arange(columns - count)
    return at, before


def _grid(ends: Places, limits: Low) -> tuple[Low, Low]:
    """Return [b, 1] lower end of each row's grid and levels per unit of score; what they are decides speed alone."""
    low, high = np.zeros(len(ends) - 1), np.zeros(len(ends) - 1)
    some = np.flatnonzero(np.diff(ends))
    low[some] = np.minimum.reduceat(limits[:, 0], ends[some])
    high[some] = np.maximum.reduceat(limits[:, 1], ends[some])
    scale = np.minimum((_HIGHEST - 2.0 * _MARGIN) / np.maximum(high - low, 1e-30), 1e30)
    return (low - _MARGIN / scale).astype(np.float32)[:, None], scale.astype(np.float32)[:, None]


def _levels(scores: Low, bottom: Low, scale: Low) -> NDArray[np.uint16]:
    """Compute the levels of scores; each step rounds, and none puts a greater score below a smaller one."""
    with np.errstate(over="ignore"):
        # Infinity is above or below the grid like any other.
        grid = scores - bottom
        grid *= scale
    np.clip(grid, _LOWEST, _HIGHEST, out=grid)
    return grid.astype(np.uint16)


def limits_around(scores: NDArray[Any], width: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return [k, 2] scores - width and scores + width in the type of the scores, rounded outwards."""
    infinity = kind.type(np.inf)
    limits = np.empty((len(scores), 2), dtype=kind)
    limits[:, 0] = np.nextafter((scores - width).astype(kind), -infinity)
    limits[:, 1] = np.nextafter((scores + width).astype(kind), infinity)
    return limits


def between_by_values(
    scores: NDArray[Any], row: Places, limits: NDArray[Any], out: tuple[Places, Places], budget: int
) -> Between | None:
    """Do as `between_by_levels` by sorting the scores themselves; None if more than `budget` lie between limits."""
    over, about, others = count_above(scores, row, limits, out)
    size = about - over
    if int(size.sum()) > budget:
        return None
    items = [np.zeros(0, dtype=np.int64)]
    for k in np.flatnonzero(size):
        row_scores = others[row[k]]
        items.append(np.flatnonzero((row_scores >= limits[k, 0]) & (row_scores <= limits[k, 1])))
    return Between(over, np.repeat(np.arange(len(row)), size), np.concatenate(items))


def count_above(
    scores: NDArray[Any], row: Places, limits: NDArray[Any], out: tuple[Places, Places]
) -> tuple[Places, Places, NDArray[Any]]:
    """Return [k] scores above the upper limit; [k] from the lower limit upwards; [b, n] scores, -inf where they are out."""
    others = scores.copy()
    others[out] = -np.inf
    ordered = np.sort(others, axis=1)
    ends = np.searchsorted(row, np.arange(len(scores) + 1))
    count = scores.shape[1]
    over, about = np.empty(len(row), dtype=np.int64), np.empty(len(row), dtype=np.int64)
    for b in range(len(scores)):
        part = slice(ends[b], ends[b + 1])
        over[part] = count - ordered[b].searchsorted(limits[part, 1], side="right")
        about[part] = count - ordered[b].searchsorted(limits[part, 0], side="left")
    return over, about, others
