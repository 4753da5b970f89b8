"""Retrieval: ranks of items of the query's own class in a gallery sorted by similarity.

Definitions stand in docs/features-retrieval.md; each measure has a name of its own, because the usual names mean
different things in different code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.ranking.ranks import RelevantRanks, Ties, check_ties, rank_relevant, ranking_pool
from snellen.features.ranking.relevance import Junk, RowsOf, as_labels, find_relevant, select_rows
from snellen.features.ranking.similarity import Measure, check_values, prepare_spaces
from snellen.features.store.labels import Labels
from snellen.scoring.statistics import mean_of
from snellen.types import Metric

Precision: TypeAlias = Literal["step", "trapezoid"]
Denominator: TypeAlias = Literal["R", "min(R,k)", "retrieved", "hits"]


class RetrievalSettings(Struct, frozen=True):
    """Settings of a retrieval result, besides features and labels.

    Attributes:
        similarity: "cosine" (a zero row has 0 with everything) or "l2".
        ties: which comes first among items of equal similarity: see `ranks.rank_relevant`.
        ap: "step": precision at each relevant item; "trapezoid": the mean of the precisions before and at it.
        map_k_denominator: what AP@k is divided by.
        protocol: "leave-one-out" or "query/gallery".
        self: what happens to a query that is in the gallery.
        relevant: when an item is relevant to a query.
        average: over what the values are averaged.
        precision_k_denominator: what precision@k is divided by.
        junk: pairs of a query and an item that was removed from its ranking.
    """

    similarity: Measure
    ties: Ties
    ap: Precision
    map_k_denominator: Denominator
    protocol: str
    relevant: str
    self: str = "left out by index"
    average: str = "queries with at least one relevant item"
    precision_k_denominator: str = "k"
    junk: int = 0


class Retrieval(Struct, frozen=True, eq=False):
    """Values of every query, and what they were computed under.

    Attributes:
        settings: as declared.
        values: name to [q] float64; NaN for a query without relevant items. "map" (over the full ranking), "map_at_r",
            "r_precision", "recall@k" (a relevant item among the first k), "precision@k", "map@k", "mrr" and "r_recall@k"
            (share of the relevant items that are among the first k).
        chance: name to [q] expected values of a random order, where there is a formula.
        rows: [q] row numbers of the queries.
        relevant: [q] relevant items in the gallery, R.
        cluster: [q] equal for queries of one class (or one set of labels).
        class_shares: [q] weight of each query in a mean over classes; the weights of one class's scored queries are equal
            and sum to 1 / classes. A query with several labels adds to each.
        gallery: items in the gallery.
        skipped: queries without a relevant item.
        skipped_classes: classes (or sets of labels) all of whose queries were skipped.
    """

    settings: RetrievalSettings
    values: dict[str, NDArray[np.float64]]
    chance: dict[str, NDArray[np.float64]]
    rows: NDArray[np.int64]
    relevant: NDArray[np.int64]
    cluster: NDArray[np.int64]
    class_shares: NDArray[np.float64]
    gallery: int
    skipped: int
    skipped_classes: int

    def metrics(
        self, cluster: Literal["class", "query"] = "class", average: Literal["query", "class"] = "query"
    ) -> list[Metric]:
        """Each value's mean over scored queries, with its 95 % interval.

        Args:
            cluster: "class": queries of one class rise and fall together, and other classes might have been drawn;
                "query": these classes, other images of them.
            average: "query": over queries; "class": the mean over classes of the means over their queries, named
                NAME/class-mean.

        Raises:
            UsageError: another cluster or average.
        """
        if cluster not in ("class", "query"):
            raise UsageError(f"there is no cluster {cluster!r}", "Choose class or query.")
        if average not in ("class", "query"):
            raise UsageError(f"there is no average {average!r}", "Choose class or query.")
        scored = self.relevant > 0
        group = self.cluster[scored] if cluster == "class" else np.flatnonzero(scored).astype(np.int64)
        weights = self.class_shares[scored] if average == "class" else None
        end = "/class-mean" if average == "class" else ""
        metrics = []
        for name, values in self.values.items():
            expected = self.chance.get(name)
            chance = None
            if expected is not None and scored.any():
                chance = float(np.average(expected[scored], weights=weights))
            metrics.append(
                mean_of(
                    name + end,
                    values[scored],
                    group,
                    weights=weights,
                    expected=len(self.rows),
                    cluster=cluster,
                    chance=chance,
                )
            )
        return metrics

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = []
        if self.skipped:
            notes.append(
                f"{self.skipped:,} of {len(self.rows):,} queries have no relevant item in the gallery and are not "
                f"scored; {self.skipped_classes:,} classes are excluded with them."
            )
        if self.settings.junk:
            notes.append(f"{self.settings.junk:,} junk items were removed from the rankings of single queries.")
        if self.settings.map_k_denominator == "hits":
            notes.append("map@k is averaged over the hits: a better ranking can lower it. Do not report it alone.")
        return notes


def retrieval(
    features: Any,
    labels: Any,
    *,
    queries: RowsOf = None,
    gallery: RowsOf = None,
    split: Sequence[str] | NDArray[Any] | None = None,
    similarity: Measure = "cosine",
    ties: Ties = "pessimistic",
    ks: Sequence[int] = (1, 5, 10),
    ap: Precision = "step",
    denominator: Denominator = "min(R,k)",
    junk: Junk | None = None,
    threads: int | None = None,
) -> Retrieval:
    """Compute exact retrieval metrics over the whole gallery.

    Args:
        features: [n, d] of any real type, in memory or memory-mapped; it is read in blocks and never copied whole.
        labels: [n] integers or texts, [n, c] of 0 and 1, n sets of ids, or Labels. With several labels a row, an
            item is relevant that shares at least one.
        queries: which rows ask: row numbers, a mask, or the name of a split; None for all.
        gallery: which rows are searched, likewise. With None for both each row asks all others (leave-one-out).
            A query that is in the gallery is left out of its own ranking, by its index.
        split: [n] names of splits.
        similarity: "cosine" or "l2".
        ties: "pessimistic", "optimistic" or "index".
        ks: depths of recall@k, precision@k, map@k and r_recall@k.
        ap: "step" or "trapezoid" (as in revisited Oxford and Paris) for the full ranking.
        denominator: of map@k: "R", "min(R,k)", "retrieved" (k, or the items of the ranking where
            those are fewer), "hits".
        junk: row number of a query to the row numbers that are removed from its ranking, relevant or not.
        threads: how many; None for one a core.

    Raises:
        DataError: features or labels of a wrong shape, or a value that is not finite (naming the row).
        UsageError: a setting or a split that does not exist.

    Sources: AP over the full ranking, as in information retrieval; MAP@R and R-precision, Musgrave, Belongie and Lim
    2020, arXiv 2003.08505; trapezoid, Radenovic et al. 2018, arXiv 1803.11285.
    """
    check_ties(ties)
    if ap not in get_args(Precision):
        raise UsageError(f"there is no average precision {ap!r}", "Choose step or trapezoid.")
    if denominator not in get_args(Denominator):
        raise UsageError(f"there is no denominator {denominator!r}", f"Choose one of {get_args(Denominator)}.")
    if any(int(k) != k or k < 1 for k in ks):
        raise UsageError(f"depths {list(ks)}; whole numbers from 1 were expected", "As in --k 1,5,10.")
    ks = tuple(sorted({int(k) for k in ks}))
    values = check_values(features)
    known = as_labels(labels, len(values))
    query_rows = select_rows(queries, split, len(values), "queries")
    gallery_rows = select_rows(gallery, split, len(values), "gallery")
    pairs = find_relevant(known, query_rows, gallery_rows, junk)
    items_of = len(gallery_rows) - (pairs.selves >= 0) - np.bincount(pairs.junk[0], minlength=len(query_rows))
    measured = _Measured(items_of, ks, ap, denominator)
    with ranking_pool(threads) as pool:
        query_space, gallery_space = prepare_spaces(values, query_rows, gallery_rows, similarity, pool)
        for block in rank_relevant(query_space, gallery_space, pairs, ties, pool):
            measured.add(block)
    counts = pairs.counts
    skipped = counts == 0
    lost = len(np.unique(pairs.cluster)) - len(np.unique(pairs.cluster[~skipped]))
    return Retrieval(
        settings=RetrievalSettings(
            similarity,
            ties,
            ap,
            denominator,
            "leave-one-out" if query_space is gallery_space else "query/gallery",
            "same class" if known.single is not None else "at least one label in common",
            junk=len(pairs.junk[0]),
        ),
        values=measured.values,
        chance=expected_values(counts, items_of, ks, ap, denominator),
        rows=query_rows,
        relevant=counts,
        cluster=pairs.cluster,
        class_shares=class_shares(known, query_rows, ~skipped),
        gallery=len(gallery_rows),
        skipped=int(skipped.sum()),
        skipped_classes=lost,
    )


class _Measured:
    """Values of every query, filled block by block as rankings come."""

    def __init__(self, items: NDArray[np.int64], ks: tuple[int, ...], ap: Precision, denominator: Denominator) -> None:
        """`items`: [q] how many are in each query's ranking, itself not counted."""
        self._items, self._ks, self._ap, self._denominator = items, ks, ap, denominator
        names = ["map", "map_at_r", "r_precision"]
        names += [f"{kind}@{k}" for kind in ("recall", "precision", "map") for k in ks]
        names += ["mrr", *(f"r_recall@{k}" for k in ks)]
        self.values = {name: np.full(len(items), np.nan) for name in names}

    def add(self, block: RelevantRanks) -> None:
        """Measure the queries of one block."""
        rank, count = block.ranks.astype(np.float64), block.counts
        first = np.cumsum(count) - count
        place = np.arange(1, len(rank) + 1) - np.repeat(first, count)
        relevant = np.repeat(count, count)
        precision = place / rank

        def put(name: str, values: NDArray[Any]) -> None:
            self.values[name][block.queries] = values

        def total(terms: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(np.add.reduceat(terms, first))

        if self._ap == "step":
            put("map", total(precision) / count)
        else:
            before = np.where(rank > 1, (place - 1) / np.maximum(rank - 1, 1), 1.0)
            put("map", total(before + precision) / (2 * count))
        within = rank <= relevant
        items = self._items[block.queries]
        put("map_at_r", total(precision * within) / count)
        put("r_precision", total(within.astype(np.float64)) / count)
        put("mrr", 1.0 / rank[first])
        for k in self._ks:
            within = rank <= k
            hits = total(within.astype(np.float64))
            put(f"recall@{k}", hits > 0)
            put(f"precision@{k}", hits / k)
            put(f"r_recall@{k}", hits / count)
            put(f"map@{k}", total(precision * within) / divisor(self._denominator, count, k, items, hits))


def divisor(
    denominator: Denominator, relevant: NDArray[Any], k: int, items: NDArray[Any], hits: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the [q] divisor of the sum of precisions at the hits among the first k; never 0."""
    by: dict[str, Any] = {
        "R": relevant,
        "min(R,k)": np.minimum(relevant, k),
        "retrieved": np.minimum(items, k),
        "hits": hits,
    }
    return np.asarray(np.maximum(by[denominator], 1), dtype=np.float64)


def class_shares(labels: Labels, rows: NDArray[np.int64], scored: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return [q] weights of a mean over classes of the means over their scored queries; 0 for those not scored."""
    shares = np.zeros(len(rows))
    if labels.many is not None:
        members = labels.many[rows] & scored[:, None]
        counts = members.sum(axis=0)
        some = counts > 0
        return np.asarray((members[:, some] / counts[some]).sum(axis=1) / max(int(some.sum()), 1))
    if scored.any():
        _, codes, counts = np.unique(labels.columns[rows[scored]], return_inverse=True, return_counts=True)
        shares[scored] = 1.0 / (len(counts) * counts[codes])
    return shares


def _expected_reciprocal(relevant: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute [q] expected 1 / rank of the first relevant item in a random order.

    The first j - 1 places are all irrelevant with C(n - R, j - 1) / C(n, j - 1), and the next is then relevant with
    R / (n - j + 1). Terms are summed until the rest is below 1e-17.
    """
    pairs, place = np.unique(np.stack([items, relevant], axis=1), axis=0, return_inverse=True)
    values = np.zeros(len(pairs))
    for number, (n, r) in enumerate(pairs.tolist()):
        if r == 0:
            continue
        last = min(n - r + 1, 1 + 40 * (n // r + 1))
        j = np.arange(1, last + 1, dtype=np.float64)
        at_place = r / (n - j + 1)
        missed = np.concatenate(([1.0], np.cumprod(1.0 - at_place[:-1])))
        values[number] = float((missed * at_place / j).sum())
    return np.asarray(values[place.reshape(-1)])


def expected_values(
    relevant: NDArray[np.int64], items: NDArray[np.int64], ks: tuple[int, ...], ap: Precision, denominator: Denominator
) -> dict[str, NDArray[np.float64]]:
    """Compute [q] expected values for a gallery in random order.

    An item at rank k is relevant with R / n; given that, each of the k - 1 before it is with (R - 1) / (n - 1).
    recall@k: 1 - C(n - R, k) / C(n, k). The precision just before rank k is then (R - 1) / (n - 1), and 1 for k = 1, so
    that half of the trapezoids is R / n on average.
    """
    n, r = items.astype(np.float64), relevant.astype(np.float64)
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, int(items.max(initial=0)) + 1))))
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, int(items.max(initial=0)) + 1)))))

    def precisions(depth: NDArray[np.int64]) -> NDArray[np.float64]:
        """[q] expected sum of the precisions at relevant items among the first `depth`."""
        sums = harmonic[depth]
        return np.asarray(r / np.maximum(n, 1) * (sums + (r - 1) / np.maximum(n - 1, 1) * (depth - sums)))

    some = np.maximum(r, 1)
    expected = {"map_at_r": precisions(relevant) / some, "r_precision": r / np.maximum(n, 1)}
    expected["map"] = precisions(items) / some
    if ap == "trapezoid":
        expected["map"] = (expected["map"] + r / np.maximum(n, 1)) / 2
    expected["mrr"] = _expected_reciprocal(relevant, items)
    for k in ks:
        depth = np.minimum(items, k)
        irrelevant = items - relevant
        miss = logs[irrelevant] - logs[np.maximum(irrelevant - depth, 0)] - logs[items] + logs[items - depth]
        expected[f"recall@{k}"] = np.where(irrelevant < depth, 1.0, 1.0 - np.exp(miss))
        expected[f"precision@{k}"] = depth * r / np.maximum(n, 1) / k
        expected[f"r_recall@{k}"] = depth / np.maximum(n, 1)
        if denominator != "hits":
            by = divisor(denominator, relevant, k, items, np.ones(len(items)))
            expected[f"map@{k}"] = precisions(depth) / by
    return {name: np.where(relevant > 0, value, np.nan) for name, value in expected.items()}
