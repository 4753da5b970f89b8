"""Uniformity and alignment of features on the unit sphere, without a classifier.

Source: Wang and Isola 2020, arXiv 2005.10242. There positive pairs are two views of one image; here they are two images of
one class, as a store holds one view of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.probes.protocol import finite_rows
from snellen.features.ranking.relevance import RowsOf, as_labels, select_rows
from snellen.features.ranking.similarity import check_values
from snellen.types import Metric

_BLOCK = 1024


class Uniformity(Struct, frozen=True):
    """Both losses: smaller is better.

    Attributes:
        uniformity: log of the mean of exp(-t |a - b|^2) over all pairs; None with fewer than two rows.
        alignment: mean of |a - b|^alpha over pairs of one class; None without such a pair.
        pairs, positive_pairs: how many.
        rows: how many.
        zero_rows: rows of length 0, which have no direction and stay at the origin.
        t, alpha: of the formulas.
    """

    uniformity: float | None
    alignment: float | None
    pairs: int
    positive_pairs: int
    rows: int
    zero_rows: int
    t: float
    alpha: float

    def metrics(self) -> list[Metric]:
        """Return `uniformity` (log) and `class_alignment` (squared distance, for alpha 2)."""
        unit = "squared distance" if self.alpha == 2.0 else f"distance^{self.alpha:g}"
        return [
            Metric("uniformity", self.uniformity, self.rows, unit="log"),
            Metric("class_alignment", self.alignment, self.rows, unit=unit),
        ]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        return [f"{self.zero_rows:,} rows are zero and stay at the origin."] if self.zero_rows else []


def uniformity(
    features: Any,
    labels: Any,
    *,
    rows: RowsOf = None,
    split: Any = None,
    t: float = 2.0,
    alpha: float = 2.0,
) -> Uniformity:
    """Compute both losses over all pairs of rows, each divided by its length.

    Args:
        features: [n, d] of any real type.
        labels: as for `retrieval`; rows that share a label are a positive pair.
        rows: row numbers, a mask or the name of a split; None for all.
        split: [n] names of splits.
        t, alpha: positive.

    Raises:
        UsageError: t or alpha is not positive, or a split does not exist.
        DataError: a value that is not finite, naming the row.
    """
    if not (0.0 < t < np.inf and 0.0 < alpha < np.inf):
        raise UsageError(f"t {t:g} and alpha {alpha:g}: positive numbers were expected", "The usual ones are 2 and 2.")
    values = check_values(features)
    known = as_labels(labels, len(values))
    chosen = select_rows(rows, split, len(values), "rows")
    points, zero = _unit_rows(finite_rows(values, chosen).astype(np.float64))
    count = len(points)
    members = None if known.many is None else known.many[chosen].astype(np.float32)
    codes = known.columns[chosen] if members is None else np.zeros(0, dtype=np.int64)
    potential, positive, positives = 0.0, 0.0, 0
    for start in range(0, count, _BLOCK):
        block = points[start : start + _BLOCK]
        for first in range(start, count, _BLOCK):
            other = points[first : first + _BLOCK]
            squares = np.maximum((block**2).sum(1)[:, None] + (other**2).sum(1) - 2.0 * block @ other.T, 0.0)
            if members is None:
                same = codes[start : start + _BLOCK, None] == codes[first : first + _BLOCK]
            else:
                same = members[start : start + _BLOCK] @ members[first : first + _BLOCK].T > 0.5
            # Each pair once: above the diagonal of the whole matrix.
            upper = np.triu(np.ones(squares.shape, dtype=bool), 1) if first == start else np.ones_like(same)
            potential += float(np.exp(-t * squares)[upper].sum())
            near = squares[upper & same]
            positive += float((near ** (alpha / 2.0)).sum())
            positives += len(near)
    pairs = count * (count - 1) // 2
    return Uniformity(
        uniformity=float(np.log(potential / pairs)) if pairs else None,
        alignment=positive / positives if positives else None,
        pairs=pairs,
        positive_pairs=positives,
        rows=count,
        zero_rows=zero,
        t=t,
        alpha=alpha,
    )


def _unit_rows(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return rows of length 1 and how many are zero; scaled first so that no square overflows or vanishes."""
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    values = values / np.where(largest > 0.0, largest, 1.0)
    lengths = np.sqrt((values**2).sum(axis=1, keepdims=True))
    return values / np.where(lengths > 0.0, lengths, 1.0), int((lengths == 0.0).sum())
