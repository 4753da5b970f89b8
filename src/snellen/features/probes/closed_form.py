"""Probes without iterations: ridge regression on one-hot targets, and linear discriminant analysis, shrunk.

Both take one product of the features with themselves and one eigendecomposition for all strengths of their penalty;
the chosen one is solved anew with the rows that chose it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from snellen.errors import UsageError

Kind = Literal["ridge", "lda"]

STRENGTHS: dict[str, tuple[float, ...]] = {
    "ridge": tuple(float(strength) for strength in 10.0 ** np.linspace(-6, 2, 9)),
    "lda": tuple(float(strength) for strength in 10.0 ** np.linspace(-4, -0.01, 9)),
}
"""ridge: penalty as a multiple of the mean squared singular value; lda: share of the identity, from 0 to 1."""

_DOUBLE_UP_TO = 2_000_000_000


class Moments(Struct, frozen=True, eq=False):
    """Sums over rows that both probes are functions of.

    Attributes:
        counts: [c] rows of each class.
        mean: [d] mean of all rows.
        sums: [c, d] sums of the centred rows of each class.
        scatter: [d, d] centred rows, transposed, times themselves.
    """

    counts: np.ndarray
    mean: np.ndarray
    sums: np.ndarray
    scatter: np.ndarray


def compute_moments(values: np.ndarray, targets: np.ndarray, classes: int) -> Moments:
    """Compute the moments in one pass over the rows; in float64 up to 2e9 products, else float32 around the mean."""
    rows, width = values.shape
    kind = np.float64 if rows * width * width <= _DOUBLE_UP_TO else np.float32
    mean = values.mean(axis=0, dtype=np.float64)
    # Of a constant feature nothing is to be left, not even rounding: alone, it would be all that there is to divide by.
    constant = values.max(axis=0) == values.min(axis=0)
    mean[constant] = values[0, constant]
    centred = np.subtract(values, mean.astype(kind), dtype=kind)
    order = np.argsort(targets, kind="stable")
    counts = np.bincount(targets, minlength=classes)
    sums = np.zeros((classes, width), dtype=kind)
    ends = np.cumsum(counts)
    # Class by class, as numpy's reduceat along the rows takes ten times as long.
    for column in np.flatnonzero(counts):
        sums[column] = centred[order[ends[column] - counts[column] : ends[column]]].sum(axis=0)
    return Moments(counts, mean, sums, centred.T @ centred)


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Merge the moments of two sets of rows (Chan, Golub and LeVeque 1983, The American Statistician 37:242)."""
    rows = first.counts.sum(), second.counts.sum()
    mean = (rows[0] * first.mean + rows[1] * second.mean) / sum(rows)
    kind = first.scatter.dtype
    shifts = [(part.mean - mean).astype(kind) for part in (first, second)]
    scatter = first.scatter + second.scatter
    sums = first.sums + second.sums
    for part, shift, count in zip((first, second), shifts, rows, strict=True):
        scatter += kind.type(count) * np.outer(shift, shift)
        sums += part.counts[:, None].astype(kind) * shift
    return Moments(first.counts + second.counts, mean, sums, scatter)


def score_path(sums: Moments, kind: Kind, strengths: tuple[float, ...], values: np.ndarray) -> list[np.ndarray]:
    """Compute scores [m, c] of other rows, `values` [m, d], at each strength."""
    _check(kind, strengths)
    base, cross = _normal(sums, kind)
    squares, axes = np.linalg.eigh(base)
    squares = np.clip(squares, 0.0, None)
    size = float(squares.mean()) or 1.0
    turned = axes.T @ cross
    rows = np.subtract(values, sums.mean.astype(base.dtype), dtype=base.dtype) @ axes
    scores = []
    for strength in strengths:
        weights = turned / _damped(squares, size, kind, strength)[:, None]
        scores.append(rows @ weights + _bias(sums, kind, weights, turned))
    return scores


def solve(sums: Moments, kind: Kind, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Solve for (weights [d, c], bias [c]) at one strength: scores = values @ weights + bias."""
    _check(kind, (strength,))
    base, cross = _normal(sums, kind)
    # Of constant features alone there is nothing to weigh, and any number will do.
    size = max(float(np.trace(base)) / len(base), 0.0) or 1.0
    if kind == "lda":
        base = (1.0 - strength) * base
    base[np.diag_indices_from(base)] += strength * size
    weights = np.linalg.solve(base, cross)
    bias = _bias(sums, kind, weights, cross)
    return weights, bias - sums.mean @ weights


def _normal(sums: Moments, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix to invert [d, d] and the right side [d, c].

    For ridge: the scatter, and rows times centred one-hot targets (the sums, as the rows are centred). For LDA: the
    covariance within classes, and the classes' means.
    """
    precision = sums.scatter.dtype
    if kind == "ridge":
        return sums.scatter.copy(), sums.sums.T.copy()
    counts = np.maximum(sums.counts, 1)[:, None].astype(precision)
    means = sums.sums / counts
    within = sums.scatter - sums.sums.T @ means
    # Where every class is one point only rounding is left of this difference; the nearest of the points then decides.
    least = float(np.finfo(precision).eps) * float(np.trace(sums.scatter))
    if float(np.trace(within)) <= 10.0 * least:
        within = np.eye(len(within), dtype=precision) * precision.type(least)
    return within / precision.type(sums.counts.sum()), means.T.copy()


def _damped(squares: np.ndarray, size: float, kind: Kind, strength: float) -> np.ndarray:
    damped = squares * (1.0 - strength) if kind == "lda" else squares
    return np.asarray(damped + squares.dtype.type(strength * size))


def _bias(sums: Moments, kind: Kind, weights: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Compute the bias for centred rows: the class's share (ridge); - m' S^-1 m / 2 + log share (LDA), in any basis."""
    share = sums.counts / sums.counts.sum()
    if kind == "ridge":
        return np.asarray(share.astype(weights.dtype))
    with np.errstate(divide="ignore"):
        prior = np.log(share)
    return np.asarray((prior - 0.5 * np.einsum("dc,dc->c", cross, weights)).astype(weights.dtype))


def _check(kind: Kind, strengths: tuple[float, ...]) -> None:
    top = 1.0 if kind == "lda" else np.inf
    if not strengths or not all(0.0 < strength <= top and np.isfinite(strength) for strength in strengths):
        raise UsageError(
            f"{kind}: strengths {list(strengths)}; positive numbers{' up to 1' if kind == 'lda' else ''} were expected",
            "Omit them to use the default grid.",
        )
