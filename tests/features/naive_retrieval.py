"""Retrieval and k-NN as one would write them for ten rows: float64, whole matrices, one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def similarities(queries: NDArray[Any], gallery: NDArray[Any], metric: str) -> NDArray[np.float64]:
    """[q, n]; equal in exact arithmetic is equal: squared differences of small integers and of equal rows are so by
    themselves, and cosines are made so by rounding at the 11th digit. Rounded squares of 2e-6 would be ties that are none.
    """
    a, b = np.asarray(queries, dtype=np.float64), np.asarray(gallery, dtype=np.float64)
    if metric == "l2":
        return np.asarray(-((a[:, None] - b[None]) ** 2).sum(axis=2))
    lengths = [np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b)]
    a, b = (x / np.where(n > 0, n, 1.0) for x, n in zip((a, b), lengths, strict=True))
    return np.round(a @ b.T, 11)


def relevant(labels: Any, i: int, j: int) -> bool:
    """One class each: the same. Sets: something in common."""
    if isinstance(labels[i], (set, frozenset)):
        return bool(labels[i] & labels[j])
    return bool(labels[i] == labels[j])


def ranking(
    features: NDArray[Any],
    labels: Any,
    query: int,
    gallery: Sequence[int],
    metric: str,
    ties: str,
    junk: Sequence[int] = (),
) -> NDArray[np.bool_]:
    """Relevance of the gallery in the order of similarity, the query itself and its junk left out."""
    items = np.array([i for i in gallery if i != query and i not in set(junk)], dtype=int)
    if not len(items):
        return np.zeros(0, dtype=bool)
    score = similarities(features[[query]], features[items], metric)[0]
    hit = np.array([relevant(labels, query, i) for i in items])
    among_equals = {"pessimistic": hit, "optimistic": ~hit, "index": np.arange(len(items))}[ties]
    return hit[np.lexsort((among_equals, -score))]


def measures(hit: NDArray[np.bool_], ks: Sequence[int]) -> dict[str, float]:
    """Every measure of one ranking with the definitions written out."""
    total = int(hit.sum())
    precision = [hit[: i + 1].sum() / (i + 1) for i in range(len(hit))]
    ranks = [i for i in range(len(hit)) if hit[i]]
    found = {
        "map": sum(precision[i] for i in ranks) / total,
        "trapezoid": sum(((j / i if i else 1.0) + (j + 1) / (i + 1)) / 2 for j, i in enumerate(ranks)) / total,
        "map_at_r": sum(precision[i] for i in ranks if i < total) / total,
        "r_precision": hit[:total].sum() / total,
    }
    for k in ks:
        near = [i for i in ranks if i < k]
        found[f"recall@{k}"] = float(bool(near))
        found[f"precision@{k}"] = len(near) / k
        found[f"map@{k} sum"] = sum(precision[i] for i in near)
        found[f"hits@{k}"] = float(len(near))
        found[f"r_recall@{k}"] = len(near) / total
    found["mrr"] = 1 / (ranks[0] + 1)
    return found
