"""The rank of every relevant item of every query, exact, in blocks, with the tie rule that was asked for.

Scores of a block of queries are one float32 product. Sorting them as 16-bit levels (several times as fast
as sorting indices by floats) tells how many other items score higher than each relevant one; where others lie so close
that float32 cannot tell, those pairs alone are computed again in float64. What is equal in float64 is a tie, and the
rule decides.

Counting scores above limits by sorting 16-bit levels, with exact comparison within one level.
Scores are put on a grid that is fine where the few lie. Sorting 16-bit numbers takes two passes over the row and no
comparison, on any machine, where sorting floats takes a dozen; and since a score is never put on a lower level than a
smaller one, all on higher levels are greater. Those on the same levels are compared as the floats they are.

The k nearest rows, exact: float32 finds candidates, float64 sorts them; equals come in the order of their rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.ranking.relevance import Relevance
from snellen.features.ranking.similarity import (
    ErrorBound,
    Space,
    exact_block,
    exact_pairs,
    float32_error,
    single_threaded,
    tie_width,
    uses_differences,
)

Ties: TypeAlias = Literal["pessimistic", "optimistic", "index"]
TIES: tuple[Ties, ...] = ("pessimistic", "optimistic", "index")

SMALL = 2_000_000
"""Number of pairs up to which float64 is used from the start."""

_STRIP_BYTES = 200_000_000
_KEPT_BYTES = 160_000_000
_UNIT_CELLS = 1_000_000
_CLOSE_SHARE = 0.02
"""Above this share of close pairs in a unit, its whole block is computed in float64: pairs one by one cost more."""
_COARSE_SHARE = 0.25
"""Above this share of pairs on one level, scores are sorted as floats instead."""


class RelevantRanks(Struct, frozen=True, eq=False):
    """Ranks of the relevant items of some queries.

    Attributes:
        queries: [b] places of the queries.
        counts: [b] relevant items of each.
        ranks: [sum of counts] 1-based ranks, ascending within each query, one query after the other.
    """

    queries: NDArray[np.int64]
    counts: NDArray[np.int64]
    ranks: NDArray[np.int64]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_ties(ties: str) -> None:
    """Raise UsageError for an unknown tie rule."""
    if ties not in TIES:
        raise UsageError(f"there is no tie rule {ties!r}", f"Choose one of: {', '.join(TIES)}.")


def rank_relevant(
    queries: Space, gallery: Space, relevance: Relevance, ties: Ties, pool: Executor
) -> Iterator[RelevantRanks]:
    """Rank all relevant items, for every query that has any; the query itself is left out of the gallery.

    Peak memory: one strip of scores (1,024 queries, at most 200 MB) and, where queries and gallery are one space, up
    to 160 MB of products that are used twice, once by rows and once by columns. Values are read in blocks.

    Args:
        queries: [q] rows.
        gallery: [n] rows.
        ties: "pessimistic": items that are not relevant come first among equals; "optimistic": they come last;
            "index": the lower place in the gallery comes first.
    """
    if not len(queries) or not len(gallery):
        return
    if len(queries) * len(gallery) <= SMALL:
        yield from _exact_ranks(queries, gallery, relevance, ties, np.arange(len(queries)))
        return
    error = float32_error(queries, gallery)
    step = max(1, _UNIT_CELLS // len(gallery))
    for start, scores in _strips(queries, gallery, pool):

        def unit(first: int, start: int = start, scores: NDArray[np.float32] = scores) -> list[RelevantRanks]:
            places = np.arange(start + first, min(start + first + step, start + len(scores)))
            return _unit_ranks(queries, gallery, relevance, ties, places, scores[first : first + step], error)

        for done in pool.map(unit, range(0, len(scores), step)):
            yield from done


def _strips(queries: Space, gallery: Space, pool: Executor) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield blocks of queries against the whole gallery: (first query, [b, n] ranking scores), each valid until the next.

    Where both are one space, the product of block i with a later block j is kept and used again, transposed, as
    that of j with i; near the diagonal only, where keeping all would take too much memory.
    """
    size = min(1024, max(64, _STRIP_BYTES // (4 * len(gallery))))
    blocks = -(-len(gallery) // size)
    same = queries is gallery
    band = _band(blocks, size) if same else 0
    bias = (gallery.bias - gallery.bias.mean()).astype(np.float32)
    buffer = np.empty((min(size, len(queries)), len(gallery)), dtype=np.float32)
    tiles: dict[tuple[int, int], NDArray[np.float32]] = {}
    for i, start in enumerate(range(0, len(queries), size)):
        query_block = queries.low(start, min(start + size, len(queries)))
        strip = buffer[: len(query_block)]

        def fill(
            j: int, i: int = i, query_block: NDArray[np.float32] = query_block, strip: NDArray[np.float32] = strip
        ) -> None:
            part = slice(j * size, min((j + 1) * size, len(gallery)))
            tile = tiles.pop((j, i), None)
            if tile is None:
                # numpy forms the product of an array with its own transpose in half the time.
                gallery_block = query_block if same and i == j else gallery.low(part.start, part.stop)
                np.matmul(query_block, gallery_block.T, out=strip[:, part])
                if i < j <= i + band:
                    # Wider than it need be: columns of rows that are a power of 2 apart share few places of the cache.
                    tile = np.empty((len(query_block), len(gallery_block) + 16), dtype=np.float32)[
                        :, : len(gallery_block)
                    ]
                    tile[:] = strip[:, part]
                    tiles[i, j] = tile
            else:
                # By narrow columns, so that what is written stays in the cache.
                for first in range(0, len(tile), 64):
                    strip[:, part][:, first : first + 64] = tile[first : first + 64].T
            strip[:, part] += bias[part]

        # The products come last in the order of blocks and first in time: they take longest.
        list(pool.map(fill, reversed(range(blocks))))
        yield start, strip


def _band(blocks: int, size: int) -> int:
    """Return the number of block columns right of the diagonal that fit into _KEPT_BYTES."""
    room = _KEPT_BYTES // (4 * size * size)

    def peak(width: int) -> int:
        return max(
            (
                sum(max(0, min(k + width, blocks - 1) - i) for k in range(max(0, i - width), i + 1))
                for i in range(blocks)
            ),
            default=0,
        )

    low, high = 0, blocks
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if peak(middle) <= room else (low, middle - 1)
    return low


def _unit_ranks(
    queries: Space,
    gallery: Space,
    relevance: Relevance,
    ties: Ties,
    places: NDArray[np.int64],
    scores: NDArray[np.float32],
    error: ErrorBound,
) -> list[RelevantRanks]:
    """Rank a few queries from their float32 scores; close pairs in float64."""
    row, item = relevance.of(places)
    if not len(row):
        return []
    own_scores = scores[row, item].astype(np.float64)
    out = _uncounted(relevance, places, row, item)
    limits = limits_around(own_scores, 2.0 * error.of(queries.length[places[row]], own_scores), scores.dtype)
    near = between_by_levels(scores, row, limits, out, int(_COARSE_SHARE * scores.size))
    if near is None:
        near = between_by_values(scores, row, limits, out, int(_CLOSE_SHARE * scores.size))
    if near is None or len(near.pair) > _CLOSE_SHARE * scores.size:
        return list(_exact_ranks(queries, gallery, relevance, ties, places))
    over = near.over
    if len(near.pair):
        close, pair_of = np.unique(near.pair, return_inverse=True)
        query_places, item_places, other = places[row[close]], item[close], near.item
        exact = exact_pairs(
            queries,
            gallery,
            np.concatenate((query_places, query_places[pair_of])),
            np.concatenate((item_places, other)),
        )
        true, rival = exact[: len(close)], exact[len(close) :]
        tie = tie_width(queries, gallery, query_places, item_places, true)
        first = rival > (true + tie)[pair_of]
        if ties != "optimistic":
            level = ~first & (rival >= (true - tie)[pair_of])
            first |= level & (other < item_places[pair_of]) if ties == "index" else level
        over[close] += np.bincount(pair_of[first], minlength=len(close))
    return [_ranks(places, row, over)]


def _exact_ranks(
    queries: Space, gallery: Space, relevance: Relevance, ties: Ties, places: NDArray[np.int64]
) -> Iterator[RelevantRanks]:
    """Rank some queries (consecutive places) with all scores in float64."""
    step = max(1, _UNIT_CELLS // len(gallery))
    for start in range(int(places[0]), int(places[-1]) + 1, step):
        some = np.arange(start, min(start + step, int(places[-1]) + 1))
        row, item = relevance.of(some)
        if not len(row):
            continue
        scores = exact_block(queries, gallery, start, start + len(some))
        differences = scores[row, item] if uses_differences(queries, gallery) else None
        width = tie_width(queries, gallery, some[row], item, differences)
        limits = limits_around(scores[row, item], width, scores.dtype)
        out = _uncounted(relevance, some, row, item)
        over, about, others = count_above(scores, row, limits, out)
        if ties == "pessimistic":
            over = about
        elif ties == "index":
            for k in np.flatnonzero(about > over):
                earlier = others[row[k], : item[k]]
                over[k] += np.count_nonzero((earlier >= limits[k, 0]) & (earlier <= limits[k, 1]))
        yield _ranks(some, row, over)


def _uncounted(
    relevance: Relevance, places: NDArray[np.int64], row: NDArray[np.int64], item: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs (place in `places`, place in the gallery) that no relevant item is compared with: relevant items, the
    query itself and its junk."""
    selves = relevance.selves[places]
    inside = np.flatnonzero(selves >= 0)
    junk_row, junk_item = relevance.junk_of(places)
    return np.concatenate((row, inside, junk_row)), np.concatenate((item, selves[inside], junk_item))


def _ranks(places: NDArray[np.int64], row: NDArray[np.int64], over: NDArray[np.int64]) -> RelevantRanks:
    """Compute ranks from the number of others before each relevant item: the i-th of a query comes after i - 1 relevant ones."""
    counts = np.bincount(row, minlength=len(places)).astype(np.int64)
    base = int(over.max(initial=0)) + 1
    ordered = np.sort(row * base + over) - row * base
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    some = np.flatnonzero(counts)
    return RelevantRanks(places[some], counts[some], ordered + within + 1)


@contextmanager
def ranking_pool(count: int | None = None) -> Iterator[Executor]:
    """Open a pool of `count` threads, by default one a core, in which matrix products take one core each."""
    size = max(1, count or available_cores())
    with single_threaded(), ThreadPoolExecutor(max_workers=size, thread_name_prefix="ranking") as pool:
        yield pool


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


_CELLS = 4_000_000
_SPARE = 16


def find_nearest(
    queries: Space, gallery: Space, k: int, pool: Executor
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find the k gallery items most similar to each query.

    Args:
        queries: [q] rows.
        gallery: [n] rows.
        k: 1 to n.

    Returns:
        [q, k] places in the gallery, most similar first, the lower place first among equals (see `tie_width`); and
        [q, k] float64 scores: cosine, or -|a - b|^2 / 2 in the scale of the space.
    """
    count = len(gallery)
    k = min(k, count)
    places = np.zeros((len(queries), k), dtype=np.int64)
    scores = np.zeros((len(queries), k))
    if not len(queries) or k == 0:
        return places, scores
    small = len(queries) * count <= SMALL or k + _SPARE >= count
    error = None if small else float32_error(queries, gallery)
    bias = (gallery.bias - gallery.bias.mean()).astype(np.float32)
    step = max(1, min(256, _CELLS // count))

    def one(start: int) -> None:
        part = slice(start, min(start + step, len(queries)))
        pending = np.arange(part.start, part.stop)
        if error is not None:
            low = np.empty((len(pending), count), dtype=np.float32)
            rows = queries.low(part.start, part.stop)
            for first in range(0, count, 1024):
                end = min(first + 1024, count)
                np.matmul(rows, gallery.low(first, end).T, out=low[:, first:end])
            low += bias
            candidates = np.argpartition(low, count - k - _SPARE, axis=1)[:, count - k - _SPARE :]
            value = np.take_along_axis(low, candidates, axis=1)
            value.sort(axis=1)
            length = queries.length[pending]
            width = error.of(length, value[:, _SPARE].astype(np.float64)) + error.of(
                length, value[:, 0].astype(np.float64)
            )
            # Where the last of the spare candidates may be as near as the k-th, others may be too.
            safe = value[:, _SPARE].astype(np.float64) - value[:, 0] > width
            sure = pending[safe]
            if len(sure):
                candidates = np.sort(candidates[safe], axis=1)
                exact = exact_pairs(queries, gallery, np.repeat(sure, candidates.shape[1]), candidates.reshape(-1))
                _put_nearest(
                    queries, gallery, sure, candidates, exact.reshape(candidates.shape), k, places, scores, True
                )
            pending = pending[~safe]
        for first in range(0, len(pending), max(1, _CELLS // (4 * count))):
            some = pending[first : first + max(1, _CELLS // (4 * count))]
            for run in np.split(some, np.flatnonzero(np.diff(some) != 1) + 1):
                exact = exact_block(queries, gallery, int(run[0]), int(run[-1]) + 1)
                candidates = np.broadcast_to(np.arange(count), exact.shape)
                _put_nearest(
                    queries, gallery, run, candidates, exact, k, places, scores, uses_differences(queries, gallery)
                )

    list(pool.map(one, range(0, len(queries), step)))
    return places, scores


def _put_nearest(
    queries: Space,
    gallery: Space,
    query_places: NDArray[np.int64],
    items: NDArray[np.int64],
    exact: NDArray[np.float64],
    k: int,
    places: NDArray[np.int64],
    scores: NDArray[np.float64],
    differences: bool,
) -> None:
    """Sort candidates (ascending in place) by score, runs of equal scores by place, and keep the first k.

    A run takes the score of its first, so that equal neighbours have equal votes. `differences`: scores for l2 are
    sums of squared differences.
    """
    order = np.argsort(-exact, axis=1, kind="stable")
    sorted_items = np.take_along_axis(items, order, axis=1)
    sorted_scores = np.take_along_axis(exact, order, axis=1)
    fine = sorted_scores.reshape(-1) if differences else None
    width = tie_width(queries, gallery, np.repeat(query_places, items.shape[1]), sorted_items.reshape(-1), fine)
    # Scores that differ by rounding alone are one run; within a run the lower place comes first.
    new = np.diff(sorted_scores, axis=1) < -width.reshape(sorted_scores.shape)[:, 1:]
    run = np.concatenate((np.zeros((len(query_places), 1), dtype=np.int64), np.cumsum(new, axis=1)), axis=1)
    order = np.lexsort((sorted_items, run), axis=1)[:, :k]
    places[query_places] = np.take_along_axis(sorted_items, order, axis=1)
    first = np.concatenate((np.ones((len(query_places), 1), dtype=bool), new), axis=1)
    begin = np.maximum.accumulate(np.where(first, np.arange(items.shape[1]), 0), axis=1)
    scores[query_places] = np.take_along_axis(sorted_scores, begin, axis=1)[:, :k]
