"""The k nearest rows, exact: float32 finds candidates, float64 sorts them; equals come in the order of their rows."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from snellen.features.ranking.ranks import SMALL
from snellen.features.ranking.similarity import (
    Space,
    exact_block,
    exact_pairs,
    float32_error,
    tie_width,
    uses_differences,
)

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
        pool: threads.

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
