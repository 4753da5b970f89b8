"""Centred kernel alignment (CKA): how similar two representations of the same images are, up to rotation and scale.

Linear CKA is 1 for features that differ by a rotation and one factor, and near 0 for unrelated ones; but of few rows it
is far above 0 even then. The debiased form has no such floor and may be below 0.

Sources: Kornblith et al. 2019, arXiv 1905.00414 (linear CKA); Song et al. 2012, JMLR 13:1393 (unbiased HSIC), as in
Nguyen, Raghu and Kornblith 2021, arXiv 2010.15327.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.probes.protocol import finite_rows
from snellen.features.ranking.similarity import check_values
from snellen.features.store import Features
from snellen.types import Metric

MIN_DEBIASED = 4
"""Rows below which the unbiased estimate does not exist."""


class CkaMatrix(Struct, frozen=True, eq=False):
    """CKA of every pair of representations.

    Attributes:
        names: [k].
        values: [k, k], symmetric; NaN where a representation does not vary.
        rows: images compared.
        debiased: whether the estimate is the debiased one.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    rows: int
    debiased: bool

    def metrics(self) -> list[Metric]:
        """Return cka/A/B of every pair, in the order of names; without a pair of one with itself."""
        prefix = "cka_debiased" if self.debiased else "cka"
        return [
            Metric(
                f"{prefix}/{self.names[i]}/{self.names[j]}",
                float(self.values[i, j]) if np.isfinite(self.values[i, j]) else None,
                self.rows,
                unit="CKA",
            )
            for i in range(len(self.names))
            for j in range(i + 1, len(self.names))
        ]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        flat = [name for name, value in zip(self.names, np.diag(self.values), strict=True) if not np.isfinite(value)]
        return [f"{', '.join(flat)}: the features do not vary, so CKA does not exist."] if flat else []


class _Rows(Struct, frozen=True, eq=False):
    """One representation: [n, d] centred, [n] squared lengths, [n] product of each row with the sum of all, and <K, K>."""

    values: NDArray[np.float64]
    squares: NDArray[np.float64]


def cka_matrix(representations: Mapping[str, Any], *, debiased: bool = False) -> CkaMatrix:
    """Compute linear CKA of every pair of representations of the same rows.

    Args:
        representations: name to [n, d] of any real type and width; row i is the same image in each.
        debiased: estimate HSIC without bias, in products of features and never as [n, n].

    Raises:
        UsageError: fewer than two representations, of different numbers of rows, or too few rows.
        DataError: a value that is not finite, naming the row.
    """
    arrays = {name: check_values(values) for name, values in representations.items()}
    counts = {name: len(values) for name, values in arrays.items()}
    least = MIN_DEBIASED if debiased else 2
    if len(arrays) < 2 or len(set(counts.values())) > 1:
        raise UsageError(
            f"CKA takes two or more representations of the same rows; found {counts or 'none'}",
            "Name two outputs or two stores.",
        )
    rows = next(iter(counts.values()))
    if rows < least:
        raise UsageError(f"{rows} rows; CKA needs {least} or more", "Compare more images.")
    prepared = [_prepare(values) for values in arrays.values()]
    size = len(prepared)
    hsic = np.zeros((size, size))
    for i in range(size):
        for j in range(i, size):
            hsic[i, j] = hsic[j, i] = (_unbiased if debiased else _biased)(prepared[i], prepared[j])
    own = np.diag(hsic).copy()
    own[own <= 0.0] = np.nan
    values = hsic / np.sqrt(np.outer(own, own))
    return CkaMatrix(tuple(arrays), values, rows, debiased)


def linear_cka(first: Any, second: Any, *, debiased: bool = False) -> float:
    """Compute the CKA of two representations; errors as `cka_matrix`."""
    return float(cka_matrix({"first": first, "second": second}, debiased=debiased).values[0, 1])


def _prepare(values: NDArray[Any]) -> _Rows:
    exact = finite_rows(values, np.arange(len(values))).astype(np.float64)
    scale = float(np.abs(exact).max(initial=0.0)) or 1.0
    exact = exact / scale  # so that no fourth power overflows; CKA does not change
    exact -= exact.mean(axis=0)
    # What rounding leaves of constant features is no spread.
    if float(np.abs(exact).max(initial=0.0)) < (1e-14 if values.dtype == np.float64 else 1e-7):
        exact[:] = 0.0
    return _Rows(exact, np.square(exact).sum(axis=1))


def _biased(x: _Rows, y: _Rows) -> float:
    return float(np.square(x.values.T @ y.values).sum())


def _unbiased(x: _Rows, y: _Rows) -> float:
    """Compute n (n - 3) HSIC_1 from features: K without its diagonal, K1 = X (X'1) - diag.

    X is centred, which the estimate does not depend on, so X'1 = 0 and K1 is minus the diagonal.
    """
    n = len(x.values)
    trace = float(np.square(x.values.T @ y.values).sum() - x.squares @ y.squares)
    total = float(x.squares.sum() * y.squares.sum()) / ((n - 1) * (n - 2))
    return trace + total - 2.0 / (n - 2) * float(x.squares @ y.squares)


def store_representations(stores: Sequence[tuple[str, Features]], *, layers: bool = False) -> dict[str, NDArray[Any]]:
    """Return the representations of some outputs by name; with `layers` each block of `NAME_lastN` on its own.

    Raises:
        DataError: an output's width is no multiple of its number of blocks.
    """
    from snellen.features.layers import layer_views

    found: dict[str, NDArray[Any]] = {}
    for name, features in stores:
        if not layers:
            found[name] = features.values
            continue
        found |= {f"{name}/{view.name}" if view.name else name: view.values for view in layer_views(features)}
    if len(found) < 2:
        raise DataError(
            f"only one representation: {', '.join(found) or 'none'}",
            "Name a second store, several --outputs, or --layers with an output such as cls_last4.",
        )
    return found
