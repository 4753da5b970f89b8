"""`fgbmk-legacy`: the class-rank figure that FG-BMK's published code calls "map". It is not a retrieval mAP.

Source: SEU-VIPGroup/FG-BMK @ 7765a10, demo/machine_evaluation (the scoring of eval_retrieval.py). Each query looks at
its 10 nearest gallery images by Euclidean distance. A class scores as its nearest image among them, so that images
equally far give their classes one score; all other classes score the same. "map" is the AP of the query's class in that
list of classes, which for one class a query is 1 / rank. It is far above a mAP over images (0.60 for a true 0.20 in a
simulation) and comparable to nothing else. The authors score learned 512-d projections; here any features can be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.ranking.ranks import Ties, check_ties, find_nearest, ranking_pool
from snellen.features.ranking.relevance import RowsOf, as_labels, select_rows, single_labels
from snellen.features.ranking.similarity import check_values, prepare_spaces
from snellen.features.store.labels import Labels
from snellen.scoring.statistics import interval
from snellen.types import Metric

NEIGHBOURS = 10


class ClassRank(Struct, frozen=True, eq=False):
    """The authors' figures of every query, with ties declared.

    Attributes:
        values: "fgbmk_legacy_map" [q].
        recalls: "fgbmk_legacy_recall@1" and "@10": value and number of classes (a mean over classes). A class that no
            query has counts in recall@1, with 0, where it ranks first for a query: so does the macro recall that the
            authors' code takes from torchmetrics, whose recall@10 counts only classes that a query has.
        ties: classes score the same where their nearest images are equally far, and where none of the 10 neighbours
            has them. The authors leave their order to the sort; here other classes come first ("pessimistic"), last
            ("optimistic"), or in the order of ids ("index"). Where the tenth and the eleventh image are equally far,
            the one of the lower row is a neighbour.
        classes: length of the class list: all classes of queries and gallery.
        rows: [q] row numbers of the queries.
        cluster: [q] equal for queries of one class.
        gallery: items in the gallery.
        neighbours: how many of them were looked at.
    """

    values: dict[str, NDArray[np.float64]]
    recalls: dict[str, tuple[float | None, int]]
    ties: Ties
    classes: int
    rows: NDArray[np.int64]
    cluster: NDArray[np.int64]
    gallery: int
    neighbours: int

    def metrics(self, cluster: Literal["class", "query"] = "class") -> list[Metric]:
        """ "map" with an interval; the recalls are means over classes, without one."""
        if cluster not in ("class", "query"):
            raise UsageError(f"there is no cluster {cluster!r}", "Choose class or query.")
        count = len(self.rows)
        group = self.cluster if cluster == "class" else np.arange(count, dtype=np.int64)
        metrics = [
            Metric(name, float(values.mean()) if count else None, count, interval(values, group, cluster=cluster))
            for name, values in self.values.items()
        ]
        return metrics + [Metric(name, value, n, None) for name, (value, n) in self.recalls.items()]


def class_rank(
    features: Any,
    labels: Any,
    *,
    gallery: RowsOf = "train",
    queries: RowsOf = "test",
    split: Sequence[str] | NDArray[Any] | None = None,
    ties: Ties = "pessimistic",
    threads: int | None = None,
) -> ClassRank:
    """Compute FG-BMK's class-rank metric over given features; see the module.

    Args:
        features: [n, d].
        labels: one or several classes a row, as in `retrieval`.
        gallery, queries: row numbers, a mask, or the name of a split. A row may not be in both. The authors cut the
            gallery to 20,000 shuffled images; give such rows to do the same.
        split: [n] names of splits.
        ties: see ClassRank.
        threads: how many; None for one a core.

    Raises:
        UsageError: a row in both, an empty gallery, a query without a class, or an unknown tie rule or split.
        DataError: features or labels of a wrong shape, or a value that is not finite.
    """
    check_ties(ties)
    values = check_values(features)
    known = as_labels(labels, len(values))
    gallery_rows = select_rows(gallery, split, len(values), "gallery")
    query_rows = select_rows(queries, split, len(values), "queries")
    if len(np.intersect1d(gallery_rows, query_rows)):
        raise UsageError("a row is both query and gallery", "Give disjoint rows.")
    if not len(gallery_rows):
        raise UsageError("the gallery is empty", "Name a split that has rows.")
    classes_of_rows = _matrix(known, np.concatenate((gallery_rows, query_rows)))
    belongs, truth = classes_of_rows[: len(gallery_rows)], classes_of_rows[len(gallery_rows) :]
    without = np.flatnonzero(~truth.any(axis=1))
    if len(without):
        raise UsageError(
            f"row {query_rows[without[0]]} has no class to look for", "Exclude such rows from the queries."
        )
    with ranking_pool(threads) as pool:
        query_space, gallery_space = prepare_spaces(values, query_rows, gallery_rows, "l2", pool)
        places, scores = find_nearest(query_space, gallery_space, NEIGHBOURS, pool)
    classes = classes_of_rows.shape[1]
    # Neighbours that are equally far have the same level: 0 for the nearest ones, and at most 9.
    levels = np.cumsum(np.diff(scores, axis=1, prepend=scores[:, :1]) != 0, axis=1)
    reciprocal = np.zeros(len(query_rows))
    within = {depth: np.zeros((2, classes)) for depth in (1, 10)}
    ranks_first = np.zeros(classes, dtype=bool)
    for q in range(len(query_rows)):
        # A class scores as its nearest image, so its score is the level of its first neighbour; absent ones share one.
        neighbour_classes = belongs[places[q]]
        first = np.where(neighbour_classes.any(axis=0), levels[q][neighbour_classes.argmax(axis=0)], NEIGHBOURS)
        last = {"pessimistic": truth[q], "optimistic": ~truth[q], "index": np.arange(classes)}[ties]
        rank = np.empty(classes, dtype=np.int64)
        rank[np.lexsort((last, first))] = np.arange(1, classes + 1)
        ranks_first |= rank == 1
        true_ranks = np.sort(rank[truth[q]])
        reciprocal[q] = float((np.arange(1, len(true_ranks) + 1) / true_ranks).mean())
        for depth, counted in within.items():
            counted[0] += truth[q] & (rank <= depth)
            counted[1] += truth[q]
    _, cluster = np.unique(truth, axis=0, return_inverse=True)
    recalls: dict[str, tuple[float | None, int]] = {}
    for depth, (hits, total) in within.items():
        counted_classes = (total > 0) | ranks_first if depth == 1 else total > 0
        rates = hits[counted_classes] / np.maximum(total[counted_classes], 1)
        recalls[f"fgbmk_legacy_recall@{depth}"] = (float(rates.mean()) if len(rates) else None, len(rates))
    return ClassRank(
        {"fgbmk_legacy_map": reciprocal},
        recalls,
        ties,
        classes,
        query_rows,
        cluster.reshape(-1).astype(np.int64),
        len(gallery_rows),
        places.shape[1],
    )


def _matrix(labels: Labels, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return [k, c] bool, the classes of each row, in columns of classes that one of the rows has."""
    if labels.many is not None:
        many = np.asarray(labels.many[rows], dtype=bool)
        return many[:, many.any(axis=0)]
    classes, codes = np.unique(single_labels(labels)[rows], return_inverse=True)
    return np.asarray(codes[:, None] == np.arange(len(classes)))
