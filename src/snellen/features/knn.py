"""k-nearest-neighbour classification: DINOv2's weighted vote, or a plain majority, in all k and temperatures at once.

Source: the k-NN evaluation of DINOv2 (facebookresearch/dinov2 @ b8931f7, eval/knn.py): similarity is the cosine, a
neighbour votes with exp(similarity / T), the nearest max(k) are sought once and every smaller k uses the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.probes.protocol import draw_rows
from snellen.features.ranking.ranks import Ties, check_ties, find_nearest, ranking_pool
from snellen.features.ranking.relevance import RowsOf, as_labels, select_rows, single_labels
from snellen.features.ranking.similarity import Measure, check_values, prepare_spaces
from snellen.features.store.labels import find_columns
from snellen.scoring.statistics import mean_of
from snellen.types import Metric

Vote: TypeAlias = Literal["weighted", "majority"]


class Shots(Struct, frozen=True):
    """Training rows of each class for a few-shot vote, drawn anew for each seed by numpy's PCG64."""

    n_per_class: int
    seeds: tuple[int, ...] = (0,)


class KnnSettings(Struct, frozen=True):
    """Settings of a k-NN result, besides features and labels.

    Attributes:
        similarity: "cosine" or "l2".
        vote: "weighted": exp(similarity / T), with -distance as similarity for l2; "majority": one each.
        temperature: the first of the list, which the metrics named without a temperature stand for.
        ties: of classes with equal votes, the true one comes last ("pessimistic") or first ("optimistic"), or the
            lower class id comes first ("index"). Classes without a neighbour tie at 0.
        neighbour_ties: which of equally similar rows is a neighbour.
        n_per_class: training rows drawn of each class; None for all.
        seeds: of the draws; values are means over them.
    """

    similarity: Measure
    vote: Vote
    temperature: float
    ties: Ties
    n_per_class: int | None
    seeds: tuple[int, ...]
    neighbour_ties: str = "lower training row first"


class Knn(Struct, frozen=True, eq=False):
    """k-NN results of every query.

    Attributes:
        settings: as declared.
        values: name to [q] float64, right (1) or wrong (0), mean over seeds: "knn@K" and "knn@K/top5"; with a second
            and further temperature also "knn@K/T=0.1" and "knn@K/top5/T=0.1".
        used: K to the number of neighbours that voted: less than K where there are fewer training rows.
        rows: [q] row numbers of the queries.
        cluster: [q] class ids.
        train: training rows (of one draw).
        classes: classes that have training rows.
        unseen: queries whose class has no training row; they count as wrong.
    """

    settings: KnnSettings
    values: dict[str, NDArray[np.float64]]
    used: dict[int, int]
    rows: NDArray[np.int64]
    cluster: NDArray[np.int64]
    train: int
    classes: int
    unseen: int

    def metrics(
        self, cluster: Literal["class", "query"] = "class", average: Literal["query", "class"] = "query"
    ) -> list[Metric]:
        """Mean over queries (or classes) with its 95 % interval; `cluster` and `average` as in `Retrieval.metrics`."""
        if cluster not in ("class", "query"):
            raise UsageError(f"there is no cluster {cluster!r}", "Choose class or query.")
        if average not in ("class", "query"):
            raise UsageError(f"there is no average {average!r}", "Choose class or query.")
        group = self.cluster if cluster == "class" else None
        strata = self.cluster if average == "class" else None
        end = "/class-mean" if average == "class" else ""
        chances = {top: min(1.0, top / self.classes) if self.classes else None for top in (1, 5)}
        return [
            mean_of(
                name + end, values, group, strata=strata, cluster=cluster, chance=chances[5 if "/top5" in name else 1]
            )
            for name, values in self.values.items()
        ]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = [
            f"knn@{k}: only {used:,} training rows exist; all of them voted."
            for k, used in self.used.items()
            if used < k
        ]
        if self.unseen:
            notes.append(f"{self.unseen:,} queries are of classes without a training row; they count as wrong.")
        return notes


def knn(
    features: Any,
    labels: Any,
    *,
    train: RowsOf = "train",
    queries: RowsOf = "test",
    split: Sequence[str] | NDArray[Any] | None = None,
    ks: Sequence[int] = (10, 20, 100, 200),
    temperatures: Sequence[float] = (0.07,),
    similarity: Measure = "cosine",
    vote: Vote = "weighted",
    ties: Ties = "pessimistic",
    shots: Shots | None = None,
    threads: int | None = None,
) -> Knn:
    """Classify queries by the votes of their nearest training rows; top-1 and top-5.

    Args:
        features: [n, d] of any real type, in memory or memory-mapped; read in blocks.
        labels: one class a row: [n] integers or texts, or Labels.
        train: training rows: numbers, a mask, or the name of a split; None for all.
        queries: rows to classify, likewise. A row may not be in both.
        split: [n] names of splits.
        ks: how many neighbours vote.
        temperatures: T of the weighted vote; the first names the plain metrics.
        similarity: "cosine" or "l2".
        vote: "weighted" or "majority".
        ties: see KnnSettings.
        shots: few-shot: training rows drawn of each class (all of a smaller one). As in DINOv2 every k above their number
            is then left out and the number itself added. None: all rows vote.
        threads: how many; None for one a core.

    Raises:
        UsageError: rows with several labels (a vote names one class; use retrieval or a probe), a row both trained on
            and asked, no training rows, or a setting that does not exist.
        DataError: features or labels of a wrong shape, or a value that is not finite (naming the row).
    """
    check_ties(ties)
    if vote not in ("weighted", "majority"):
        raise UsageError(f"there is no vote {vote!r}", "Choose weighted or majority.")
    if not ks or any(int(k) != k or k < 1 for k in ks):
        raise UsageError(f"numbers of neighbours {list(ks)}", "Give whole numbers from 1.")
    if not temperatures or not all(0.0 < t < float("inf") for t in temperatures):
        raise UsageError(f"temperatures {list(temperatures)}", "Give positive numbers.")
    n_per_class, seeds = (None, (0,)) if shots is None else (shots.n_per_class, shots.seeds)
    if n_per_class is not None and n_per_class < 1:
        raise UsageError(f"n_per_class {n_per_class}", "Draw at least one row of each class.")
    if not seeds:
        raise UsageError("no seeds", "Give at least one.")
    values = check_values(features)
    known = as_labels(labels, len(values))
    classes_of = single_labels(known)
    train_rows = select_rows(train, split, len(values), "train")
    query_rows = select_rows(queries, split, len(values), "queries")
    both = np.intersect1d(train_rows, query_rows)
    if len(both):
        raise UsageError(
            f"row {both[0]} is trained on and asked, as are {len(both) - 1:,} others; it would be its own neighbour",
            "Give disjoint rows, or use retrieval, which leaves a row out of its own ranking.",
        )
    if not len(train_rows):
        raise UsageError("there are no training rows", "Name a split that has rows.")
    if n_per_class is not None:
        ks = [*(k for k in ks if k < n_per_class), n_per_class]
    ks = sorted({int(k) for k in ks})
    temperatures = tuple(dict.fromkeys(float(t) for t in temperatures))
    draws = tuple(int(seed) for seed in seeds) if n_per_class is not None else ()
    sums: dict[str, NDArray[np.float64]] = {}
    rows = train_rows
    classes, codes = np.unique(classes_of[train_rows], return_inverse=True)
    with ranking_pool(threads) as pool:
        for seed in draws or (0,):
            if n_per_class is not None:
                rows = np.sort(train_rows[draw_rows(codes, n_per_class, seed)])
            query_space, gallery_space = prepare_spaces(values, query_rows, rows, similarity, pool)
            places, scores = find_nearest(query_space, gallery_space, max(ks), pool)
            if similarity == "l2":
                scores = -np.sqrt(np.maximum(0.0, -2.0 * scores)) / float(gallery_space.factor[0])
            voters = np.searchsorted(classes, classes_of[rows])[places]
            for name, hit in _vote(voters, scores, classes, classes_of[query_rows], ks, temperatures, vote, ties):
                sums[name] = sums.get(name, 0.0) + hit / max(1, len(draws))
    return Knn(
        settings=KnnSettings(similarity, vote, float(temperatures[0]), ties, n_per_class, draws),
        values=sums,
        used={k: min(k, len(rows)) for k in ks},
        rows=query_rows,
        cluster=classes_of[query_rows],
        train=len(rows),
        classes=len(classes),
        unseen=int((~np.isin(classes_of[query_rows], classes)).sum()),
    )


def _vote(
    voters: NDArray[np.int64],
    scores: NDArray[np.float64],
    classes: NDArray[np.int64],
    truth: NDArray[np.int64],
    ks: Sequence[int],
    temperatures: Sequence[float],
    vote: Vote,
    ties: Ties,
) -> list[tuple[str, NDArray[np.float64]]]:
    """Compute top-1 and top-5 hits of every k and temperature.

    Args:
        voters: [q, k] class places of the neighbours, nearest first.
        scores: [q, k] their similarities.
        classes: [c] class ids, ascending.
        truth: [q] class ids.
        ks, temperatures, vote, ties: as in `knn`.
    """
    hits: list[tuple[str, NDArray[np.float64]]] = []
    place = find_columns(classes, truth)
    block = max(1, 2_000_000 // len(classes))
    for number, temperature in enumerate(temperatures if vote == "weighted" else (1.0,)):
        weights = np.ones_like(scores)
        if vote == "weighted" and scores.size:
            weights = np.exp((scores - scores[:, :1]) / temperature)
        suffix = f"/T={_short(temperature)}" if number else ""
        for k in ks:
            rank = np.zeros(len(truth), dtype=np.int64)
            for start in range(0, len(truth), block):
                part = slice(start, start + block)
                rank[part] = _rank(voters[part, :k], weights[part, :k], place[part], len(classes), ties)
            for top, name in ((1, f"knn@{k}"), (5, f"knn@{k}/top5")):
                hits.append((name + suffix, ((place >= 0) & (rank <= top)).astype(np.float64)))
    return hits


def _short(number: float) -> str:
    """Format with six digits if they are exact, so that two temperatures never share a name."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def _rank(
    voters: NDArray[np.int64], weights: NDArray[np.float64], place: NDArray[np.int64], classes: int, ties: Ties
) -> NDArray[np.int64]:
    """Return [b] 1-based ranks of the true class by the sum of its votes.

    Weights of equal neighbours are equal, and each class adds its own from the nearest neighbour to the furthest. So
    classes with the same weights have equal sums, and a small weight more is never lost in a tolerance.
    """
    rows = np.arange(len(voters))
    cells = (rows[:, None] * classes + voters).reshape(-1)
    votes = np.bincount(cells, weights=weights.reshape(-1), minlength=len(voters) * classes).reshape(-1, classes)
    own_votes = votes[rows, place][:, None]
    ahead = votes > own_votes
    level = votes == own_votes
    level[rows, place] = False
    if ties == "optimistic":
        level[:] = False
    elif ties == "index":
        level &= np.arange(classes) < place[:, None]
    return np.asarray(1 + (ahead | level).sum(axis=1))
