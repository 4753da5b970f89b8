"""Ranking of several runs over the same samples: groups that cannot be told apart, with p-values adjusted after Holm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.runs.compare import same_questions
from snellen.runs.compared_runs import ComparedRun, QuestionScores, question_scores
from snellen.scoring import statistics
from snellen.scoring.scores import cluster_index, cluster_sums
from snellen.scoring.statistics import Comparison
from snellen.scoring.statistics.intervals import interval_or_reason
from snellen.scoring.statistics.multiple import flip_bound
from snellen.scoring.statistics.paired import SIGN_FLIP
from snellen.types import IntervalMethod

ALPHA = 0.05
MOST_RUNS = 50
"""Runs that are ranked at most: 1,225 pairs."""
MANY_PAIRS, MANY_CLUSTERS = 10, 2_000
"""With more pairs and clusters than this, each pair draws FEWER_FLIPS, to bound the time."""
FEWER_FLIPS = 2_000


class RankedRun(Struct, frozen=True):
    """One run of a ranking.

    Attributes:
        rank: 1 for the highest mean; equal means share a rank.
        run: its folder.
        model: its model.
        score: mean score over the samples that all runs share.
        ci95, interval: interval of that mean, and its method.
        groups: letters; two runs that share one cannot be told apart.
    """

    rank: int
    run: str
    model: str
    score: float
    ci95: tuple[float, float] | None
    interval: IntervalMethod | None
    groups: str


class RankedPair(Struct, frozen=True):
    """Two runs of a ranking; the difference is the higher one's mean minus the lower one's."""

    higher: str
    lower: str
    difference: float
    ci95: tuple[float, float] | None
    p_value: float
    p_adjusted: float
    test: str


class RankEntry(NamedTuple):
    """A run to be ranked: its folder, its model, and its scores by question."""

    run: str
    model: str
    scores: QuestionScores


class Ranking(Struct, frozen=True):
    """Runs by their mean score, every pair tested.

    Attributes:
        profile: the scoring profile.
        n: samples that all runs have a score for.
        left_out: samples that some run has and another one lacks, or has no score for.
        clusters: independent units among the n.
        alpha: level of the groups, over all pairs together.
        runs: from the highest mean to the lowest.
        pairs: every pair, in the order of the runs.
    """

    profile: str
    n: int
    left_out: int
    clusters: int
    alpha: float
    runs: Sequence[RankedRun]
    pairs: Sequence[RankedPair]


def rank_runs(sides: Sequence[ComparedRun], profile: str, *, alpha: float = ALPHA, force: bool = False) -> Ranking:
    """Rank runs by their mean score over the samples that all of them have a score for.

    Each pair is compared by `statistics.compare`. The p-values of all pairs are adjusted after Holm, so that two equal
    runs are told apart anywhere in the ranking in at most 5 % of experiments.

    Args:
        sides: two to MOST_RUNS runs.
        alpha: adjusted p-values below this tell two runs apart.
        force: rank even runs of other questions, by the ids that all share.

    Raises:
        DifferentSamplesError: other questions. DataError: no question in common.
    """
    for side in sides[1:]:
        same_questions(sides[0], side, force=force)
    entries = [
        RankEntry(str(side.folder.path), side.meta.spec.model_with_adapter, question_scores(side.scores(profile)))
        for side in sides
    ]
    return rank_entries(entries, profile, sides[0].cluster(profile), alpha=alpha)


def rank_entries(
    entries: Sequence[RankEntry],
    profile: str,
    cluster: str,
    *,
    alpha: float = ALPHA,
    test: Callable[..., Comparison] | None = None,
) -> Ranking:
    """Rank runs of the same questions, given their scores by question; as `rank_runs`.

    Args:
        entries: two to MOST_RUNS runs.
        cluster: what the rows of a cluster share, in words.
        alpha: as for `rank_runs`.
        test: the test of a pair, called with its two scores and the clusters; None: `statistics.compare`.

    Raises:
        DataError: no question in common.
    """
    scores = [entry.scores for entry in entries]
    scored_codes = [each.code[np.isfinite(each.value)] for each in scores]
    shared = reduce(np.intersect1d, scored_codes)
    if not len(shared):
        raise DataError(
            f"the {len(entries)} runs have no scored sample in common",
            "They must be runs of the same benchmark over the same data.",
        )
    every = len(np.unique(np.concatenate([each.code for each in scores])))
    values = [_values(each, shared) for each in scores]
    group = scores[0].group[np.searchsorted(scores[0].code, shared)]
    order = sorted(range(len(entries)), key=lambda place: (-float(values[place].mean()), place))
    names = [entries[place].run for place in order]
    ordered = [values[place] for place in order]
    pairs, different = _pairs(names, ordered, group, alpha, test)
    ranked: list[RankedRun] = []
    for place, (value, groups) in enumerate(zip(ordered, statistics.letters(different), strict=True)):
        score = float(value.mean())
        rank = ranked[-1].rank if ranked and ranked[-1].score == score else place + 1
        ends, about = interval_or_reason(value, group, cluster=cluster)
        model = entries[order[place]].model
        ci95 = None if ends is None else (ends[0], ends[1])
        ranked.append(RankedRun(rank, names[place], model, score, ci95, about, groups))
    _, clusters = cluster_index(group)
    return Ranking(profile, len(shared), every - len(shared), clusters, alpha, ranked, pairs)


def _values(scores: QuestionScores, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    return scores.value[np.searchsorted(scores.code, codes)]


def _pairs(
    names: Sequence[str],
    values: Sequence[NDArray[np.float64]],
    group: NDArray[np.int64],
    alpha: float,
    test: Callable[..., Comparison] | None,
) -> tuple[list[RankedPair], NDArray[np.bool_]]:
    """Compare every pair; return them, and [k, k] True where two runs were told apart."""
    index, clusters = cluster_index(group)
    places = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values))]
    draws: dict[str, Any] = {}
    if len(places) > MANY_PAIRS and clusters > MANY_CLUSTERS:
        draws = {"flips": FEWER_FLIPS}
    comparisons, p_values = [], []
    for i, j in places:
        comparison = (
            statistics.compare(values[i], values[j], group, **draws)
            if test is None
            else test(values[i], values[j], group)
        )
        p_value = comparison.p_value
        if comparison.test == SIGN_FLIP:  # drawn flips give 1 / 10,001 at least, too much for many pairs
            p_value = min(p_value, flip_bound(cluster_sums((values[i] - values[j])[:, None], index, clusters)[:, 0]))
        comparisons.append(comparison)
        p_values.append(p_value)
    adjusted = statistics.holm(p_values)
    different = np.zeros((len(values), len(values)), dtype=bool)
    pairs = []
    for (i, j), comparison, p_value, p_adjusted in zip(places, comparisons, p_values, adjusted, strict=True):
        different[i, j] = different[j, i] = p_adjusted < alpha
        pairs.append(
            RankedPair(names[i], names[j], comparison.difference, comparison.ci95, p_value, p_adjusted, comparison.test)
        )
    return pairs, different
