"""The rank of every relevant item of every query, exact, in blocks, with the tie rule that was asked for.

Scores of a block of queries are one float32 product. Sorting them as 16-bit levels (radix.py; several times as fast
as sorting indices by floats) tells how many other items score higher than each relevant one; where others lie so close
that float32 cannot tell, those pairs alone are computed again in float64. What is equal in float64 is a tie, and the
rule decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.ranking.radix import between_by_levels, between_by_values, count_above, limits_around
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
        relevance: who is relevant.
        ties: "pessimistic": items that are not relevant come first among equals; "optimistic": they come last;
            "index": the lower place in the gallery comes first.
        pool: threads.
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
