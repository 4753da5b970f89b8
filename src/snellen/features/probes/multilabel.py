"""Scores of several labels a row: area under the ROC curve and average precision, per class, macro and micro.

A class that some fit could not learn (no training row of it, or none without it) is skipped in every figure, the pooled
ones too, and counted. What such a layer puts its rows in order by is the rest of what other classes' rows look like:
neither 0.5 nor anything else that an area could be taken for.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from snellen.scoring.statistics.bootstrap import percentile_interval
from snellen.types import Metric

REPLICATES = 500
SEED = 20_260_401


class ScoreRanking(Struct, frozen=True, eq=False):
    """[n] scores of one class in descending order of score, ties together."""

    order: np.ndarray
    positive: np.ndarray
    last: np.ndarray


def rank_scores(scores: np.ndarray, positive: np.ndarray) -> ScoreRanking:
    """Sort once, so that resamples of the rows are sums over a fixed order."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], [True] * (len(ordered) > 0)))
    return ScoreRanking(order, positive[order].astype(np.float64), last)


def auroc(ranking: ScoreRanking, weight: np.ndarray | None = None) -> float:
    """Compute the area under the ROC curve, ties counting half; NaN without a positive or a negative row.

    Args:
        weight: [n] how often each row counts, in the order of the rows; None for once.
    """
    share = np.ones(len(ranking.order)) if weight is None else weight[ranking.order]
    hits, misses = _cumulative(ranking, share)
    if not len(hits) or not hits[-1] or not misses[-1]:
        return float("nan")
    above = np.concatenate(([0.0], hits[:-1]))
    fresh = np.diff(misses, prepend=0.0)
    return float((fresh * (above + hits)).sum() / (2.0 * hits[-1] * misses[-1]))


def average_precision(ranking: ScoreRanking, weight: np.ndarray | None = None) -> float:
    """Compute the mean over positives of the precision at their score; equal scores are one step. NaN without a positive."""
    share = np.ones(len(ranking.order)) if weight is None else weight[ranking.order]
    hits, misses = _cumulative(ranking, share)
    if not len(hits) or not hits[-1]:
        return float("nan")
    fresh = np.diff(hits, prepend=0.0)
    retrieved = hits + misses
    return float((fresh * hits / np.where(retrieved > 0.0, retrieved, 1.0)).sum() / hits[-1])


def _cumulative(ranking: ScoreRanking, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count positives and negatives down to the end of each group of equal scores."""
    hits = np.cumsum(share * ranking.positive)[ranking.last]
    every = np.cumsum(share)[ranking.last]
    return hits, every - hits


class MultiLabel(Struct, frozen=True, eq=False):
    """Per class values and the classes left out.

    Attributes:
        auroc: [c], NaN where a class has no positive or no negative test row, or was not learnt.
        average_precision: [c], NaN where it has no positive one, or was not learnt.
        positives: [c] test rows of each class.
        metrics: `auroc` and `map` (means over classes), `auroc/micro` and `map/micro` (all rows and learnt classes as
            one list), each with a percentile interval over resampled rows; their coverage is the share of classes.
        skipped: classes without a positive test row, in no mean.
        learnt: [c] bool, see above; classes that are not are in no metric.
    """

    auroc: np.ndarray
    average_precision: np.ndarray
    positives: np.ndarray
    metrics: tuple[Metric, ...]
    skipped: int
    learnt: np.ndarray


def score(
    scores: np.ndarray,
    positive: np.ndarray,
    *,
    learnt: np.ndarray | None = None,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> MultiLabel:
    """Score [m, c] logits against [m, c] bool; micro figures compare logits across classes as they are.

    Args:
        learnt: [c] bool, which classes could be learnt; None for all.
    """
    rows, every = positive.shape
    counts = positive.sum(axis=0)
    taught = np.ones(every, dtype=bool) if learnt is None else np.asarray(learnt, dtype=bool)
    scores, positive = scores[:, taught], positive[:, taught]
    classes = positive.shape[1]
    columns = [rank_scores(scores[:, j], positive[:, j]) for j in range(classes)]
    pooled = rank_scores(scores.ravel(), positive.ravel())
    rocs = np.array([auroc(column) for column in columns])
    precisions = np.array([average_precision(column) for column in columns])
    chance = positive.mean(axis=0)
    values = {
        "auroc": (_mean(rocs), 0.5),
        "auroc/micro": (auroc(pooled), 0.5),
        "map": (_mean(precisions), float(chance[chance > 0].mean()) if (chance > 0).any() else None),
        "map/micro": (average_precision(pooled), float(positive.mean()) if positive.size else None),
    }
    drawn: dict[str, list[float]] = {name: [] for name in values}
    rng = np.random.default_rng(seed)
    for _ in range(replicates if rows > 1 and classes else 0):
        weight = rng.multinomial(rows, np.full(rows, 1.0 / rows)).astype(np.float64)
        spread = np.repeat(weight, classes)
        drawn["auroc"].append(_mean(np.array([auroc(column, weight) for column in columns])))
        drawn["map"].append(_mean(np.array([average_precision(column, weight) for column in columns])))
        drawn["auroc/micro"].append(auroc(pooled, spread))
        drawn["map/micro"].append(average_precision(pooled, spread))
    scored = {"auroc": np.isfinite(rocs), "map": np.isfinite(precisions)}
    metrics = []
    for name, (value, guess) in values.items():
        known = np.array([draw for draw in drawn[name] if np.isfinite(draw)])
        low_high = percentile_interval(known, rows, rows)
        counted = classes if name.endswith("micro") else int(scored[name].sum())
        metrics.append(
            Metric(
                name,
                value if np.isfinite(value) else None,
                rows,
                low_high,
                coverage=counted / every if every else 1.0,
                chance=guess,
            )
        )
    return MultiLabel(
        _spread(rocs, taught), _spread(precisions, taught), counts, tuple(metrics), int((counts == 0).sum()), taught
    )


def _spread(values: np.ndarray, taught: np.ndarray) -> np.ndarray:
    """Expand to [c], NaN for the classes without training rows."""
    spread = np.full(len(taught), np.nan)
    spread[taught] = values
    return spread


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
