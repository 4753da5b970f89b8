"""Data for the plots of a features report: curves, neighbours and a map, as plain arrays."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.features.ranking.ranks import find_nearest, rank_relevant, ranking_pool
from snellen.features.ranking.relevance import find_relevant
from snellen.features.ranking.similarity import Measure, prepare_spaces
from snellen.features.store import Features

LEVELS = 101
SHEET_QUERIES = 8
SHEET_NEIGHBOURS = 10
MAP_ROWS = 1_500
_PERPLEXITY = 30.0
_WIDE = 50
_FEWEST = 12
_FLAT = 1e-6
"""Spread of an axis, beside the largest and beside rows of length 1, that is rounding."""


class PrecisionRecallCurve(Struct, frozen=True, eq=False):
    """Precision at recall 0 to 1 in steps of 1 %, [101] each, and at what precision guessing lies."""

    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    chance: float
    queries: int


class Neighbour(Struct, frozen=True):
    """One row of the store in a sheet: its number, id and class; `right` if the class is the query's."""

    row: int
    id: str
    name: str
    right: bool


class QueryNeighbours(Struct, frozen=True):
    """One query of a sheet with its nearest items, nearest first."""

    query: Neighbour
    neighbours: tuple[Neighbour, ...]


class FeatureMap(Struct, frozen=True, eq=False):
    """Rows in the plane.

    Attributes:
        points: [n, 2].
        rows: [n] their numbers in the store.
        reducer: "t-SNE", or "PCA" where none can be made.
        explained: share of the variance that a PCA's two axes hold; None for t-SNE, whose axes mean nothing.
        of: rows that there were.
        why: of a PCA, why it is no t-SNE, as a sentence.
    """

    points: NDArray[np.float64]
    rows: NDArray[np.int64]
    reducer: Literal["t-SNE", "PCA"]
    explained: float | None
    of: int
    why: str = ""


def precision_recall_curve(
    features: Features, queries: NDArray[np.int64], gallery: NDArray[np.int64], similarity: Measure = "cosine"
) -> PrecisionRecallCurve:
    """Compute the mean interpolated precision over queries: at each recall the best precision at that recall or beyond.

    Queries without a relevant item are left out. Ties count against the relevant item, as in `retrieval`. The area
    under this curve is not mAP, which does not interpolate.

    Source: Manning, Raghavan and Schuetze 2008, Introduction to Information Retrieval, section 8.4.
    """
    levels = np.linspace(0.0, 1.0, LEVELS)
    total, count = np.zeros(LEVELS), 0
    pairs = find_relevant(features.labels, queries, gallery)
    with ranking_pool(None) as pool:
        query_space, gallery_space = prepare_spaces(features.values, queries, gallery, similarity, pool)
        for block in rank_relevant(query_space, gallery_space, pairs, "pessimistic", pool):
            for ranks in np.split(block.ranks, np.cumsum(block.counts)[:-1]):
                if not len(ranks):
                    continue
                precision = np.arange(1, len(ranks) + 1) / ranks
                best = np.maximum.accumulate(precision[::-1])[::-1]
                place = np.maximum(np.ceil(levels * len(ranks) - 1e-9).astype(np.int64), 1) - 1
                total += best[place]
                count += 1
    scored = pairs.counts > 0
    others = len(gallery) - (pairs.selves >= 0)
    chance = float((pairs.counts[scored] / np.maximum(others[scored], 1)).mean()) if scored.any() else 0.0
    return PrecisionRecallCurve(levels, total / max(count, 1), chance, count)


def neighbour_sheet(
    features: Features,
    queries: NDArray[np.int64],
    gallery: NDArray[np.int64],
    quality: NDArray[np.float64],
    similarity: Measure = "cosine",
    *,
    count: int = SHEET_QUERIES,
    neighbours: int = SHEET_NEIGHBOURS,
) -> list[QueryNeighbours]:
    """Select queries from the worst to the best, evenly spaced, each with its nearest items.

    Args:
        quality: [q] what queries are ordered by, their average precision; NaN for those that are not scored.
    """
    usable = np.flatnonzero(np.isfinite(quality))
    if not len(usable):
        return []
    order = usable[np.argsort(quality[usable], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(np.int64))]
    picked = queries[chosen]
    with ranking_pool(None) as pool:
        query_space, gallery_space = prepare_spaces(features.values, picked, gallery, similarity, pool)
        places, _ = find_nearest(query_space, gallery_space, min(neighbours + 1, len(gallery)), pool)
    sheets = []
    for query, neighbour_rows in zip(picked, gallery[places], strict=True):
        rows = [int(row) for row in neighbour_rows if row != query][:neighbours]
        sheets.append(
            QueryNeighbours(
                _neighbour(features, int(query), int(query)),
                tuple(_neighbour(features, row, int(query)) for row in rows),
            )
        )
    return sheets


def _neighbour(features: Features, row: int, query: int) -> Neighbour:
    labels = features.labels
    if labels.many is not None:
        own_classes = labels.many[row]
        name = ", ".join(labels.name(int(column)) for column in np.flatnonzero(own_classes)) or "no label"
        right = bool((own_classes & labels.many[query]).any())
    else:
        column = int(np.searchsorted(labels.classes, labels.single[row]))  # type: ignore[index]
        name, right = labels.name(column), bool(labels.single[row] == labels.single[query])  # type: ignore[index]
    return Neighbour(row, str(features.ids[row]), name, right)


def map_features(features: Features, rows: NDArray[np.int64], *, limit: int = MAP_ROWS, seed: int = 0) -> FeatureMap:
    """Project features to two dimensions: t-SNE (van der Maaten and Hinton 2008, JMLR 9:2579) of rows of length 1.

    Where scikit-learn is not installed, for fewer than 12 rows, and for features that vary in one direction at most (from
    which a t-SNE cannot begin) the two first principal axes are taken; the result says which and why. Above `limit`
    rows a sample is drawn by the seed. Distances between clusters of a t-SNE mean nothing.
    """
    count = len(rows)
    if count > limit:
        rows = np.sort(np.random.default_rng(seed).choice(rows, limit, replace=False))
    values = np.asarray(features.values[rows], dtype=np.float64)
    lengths = np.sqrt((values * values).sum(axis=1, keepdims=True))
    values = values / np.where(lengths > 0.0, lengths, 1.0)
    centred = values - values.mean(axis=0)
    basis, strength, _ = np.linalg.svd(centred, full_matrices=False)
    axes = basis * strength
    why = ""
    if find_spec("sklearn") is None:
        why = "Install scikit-learn for a t-SNE."
    elif len(rows) < _FEWEST:
        why = "Too few rows for a t-SNE."
    elif (strength > _FLAT * max(float(strength[0]), float(np.sqrt(len(rows))))).sum() < 2:
        why = "The features vary in at most one direction, too little for a t-SNE."
    if why:
        variance = float((strength**2).sum())
        flat = np.zeros((len(rows), 2))
        flat[:, : min(2, axes.shape[1])] = axes[:, :2]
        return FeatureMap(
            flat, rows, "PCA", float((strength[:2] ** 2).sum()) / variance if variance > 0 else 0.0, count, why
        )
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    reducer = TSNE(perplexity=min(_PERPLEXITY, (len(rows) - 1) / 3), init="pca", random_state=seed, n_jobs=1)
    with threadpool_limits(1):  # its threads wait for each other by spinning, and that costs more than they gain
        points = reducer.fit_transform(axes[:, :_WIDE].astype(np.float32))
    return FeatureMap(np.asarray(points, dtype=np.float64), rows, "t-SNE", None, count)
