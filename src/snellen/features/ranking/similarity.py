"""Similarities of features: fast in float32 with a bound on their error, and to the last digits in float64.

A ranking needs the order of scores and no more, so each score is split into a product of centred rows and a term of the
gallery item; what depends on the query alone is dropped. Centred rows are short where features lie in a narrow cone
(as those of most encoders do), and the float32 product of short rows has a small error.

    cosine   a.b           = (a - m).(b - m) + m.b + [of a alone]     a, b of length 1, m near their mean
    l2       -|a - b|^2/2  = (a - m).(b - m) - |b - m|^2 / 2 + [of a alone]

Single-threaded matrix products, so that several threads can each compute one.

OpenBLAS keeps its threads spinning for a while after a product; they then take cores from the sorting that follows.
Products in our own threads, each on one core, cost a quarter less CPU time for a ranking of 12,000 rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError

_NAMES = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
)

_lock = Lock()
_inside = 0
_before: list[int] = []


@lru_cache(maxsize=1)
def _switches() -> tuple[tuple[Any, Any], ...]:
    """Return setter and getter of the number of threads, of the OpenBLAS that came with numpy or that is mapped."""
    package = Path(np.__file__).parent
    paths = {
        str(path)
        for folder in (package.parent / "numpy.libs", package / ".dylibs")
        for path in folder.glob("*openblas*")
    }
    maps = Path("/proc/self/maps")
    if not paths and maps.is_file():
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
        paths = {line.split(maxsplit=5)[-1] for line in lines if "openblas" in line and ".so" in line}
    switches = []
    for path in sorted(paths):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            # Not a library that this process can use, so none of its products come from it.
            continue
        pair = next((pair for pair in _NAMES if hasattr(library, pair[0]) and hasattr(library, pair[1])), None)
        if pair is not None:
            switches.append((getattr(library, pair[0]), getattr(library, pair[1])))
    return tuple(switches)


@contextmanager
def single_threaded() -> Iterator[bool]:
    """Run numpy's products on one thread inside; yield True if that is possible (it is for OpenBLAS).

    The setting holds for the whole process; it is put back when the last of several users leaves.
    """
    global _inside
    switches = _switches()
    with _lock:
        if _inside == 0:
            _before[:] = [int(get()) for _, get in switches]
            for change, _ in switches:
                change(1)
        _inside += 1
    try:
        yield bool(switches)
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for (change, _), count in zip(switches, _before, strict=True):
                    change(count)


Measure: TypeAlias = Literal["cosine", "l2"]
Low: TypeAlias = NDArray[np.float32]
High: TypeAlias = NDArray[np.float64]

_ROWS = 1024
_PAIRS = 256
_DIFFERENCES = 50_000_000
_UNIT = 2.0**-24
"""Unit roundoff of float32."""

_SHORTEST = 4.0 * _UNIT
"""Least |a - m| of a cosine: a shorter one is lost in the rounding of a row of length 1 to float32."""

_TIE = 2e-15
"""Scores in float64 are equal when they differ by at most this, times sqrt(d), times the scale of the score."""


class Space(Struct, frozen=True, eq=False):
    """Rows of features made ready for one similarity; values stay where they are and are read a block at a time.

    Attributes:
        values: [n, d] features as given, memory-mapped or not.
        rows: [k] which rows of it are meant.
        metric: "cosine" or "l2".
        factor: [k] what a row is multiplied with: 1 / length (0 for a zero row) for cosine, one constant for l2.
        centre: [d] m of the formulas above, after the factor.
        bias: [k] the gallery term of the formulas above.
        length: [k] |a - m|.
    """

    values: NDArray[Any]
    rows: NDArray[np.int64]
    metric: Measure
    factor: High
    centre: High
    bias: High
    length: High

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def low(self, start: int, stop: int) -> Low:
        """Return [stop - start, d] centred rows in float32."""
        block = take_rows(self.values, self.rows[start:stop])
        factor = self.factor[start:stop, None]
        if self.metric == "cosine" and block.dtype == np.float32 and factor.max(initial=0.0) < 1e30:
            scaled = np.asarray(block * factor.astype(np.float32))
            scaled -= self.centre.astype(np.float32)
            return scaled
        return (block.astype(np.float64) * factor - self.centre).astype(np.float32)

    def unscaled(self, places: NDArray[np.int64]) -> High:
        """Return [k, d] rows in float64, not scaled."""
        return take_rows(self.values, self.rows[places]).astype(np.float64)

    def high(self, places: NDArray[np.int64] | slice) -> High:
        """Return [k, d] rows in float64: of length 1 for cosine, centred for l2."""
        scaled = take_rows(self.values, self.rows[places]).astype(np.float64) * self.factor[places, None]
        return scaled if self.metric == "cosine" else scaled - self.centre


def take_rows(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Take rows of an array: a view if they are consecutive, else a copy."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and bool((np.diff(rows) == 1).all()):
        return np.asarray(values[int(rows[0]) : int(rows[-1]) + 1])
    return np.asarray(values[rows])


def check_values(values: Any) -> NDArray[Any]:
    """Check for [n, d] real numbers without reading them.

    Raises:
        DataError: another shape, or values that are no real numbers.
    """
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise DataError(
            f"features of shape {list(array.shape)} and type {array.dtype}; [rows, width] real numbers were expected",
            "Flatten each row to one vector.",
        )
    if array.shape[1] == 0:
        raise DataError(f"features of shape {list(array.shape)}: rows have no columns", "Give at least one column.")
    return array


def _refuse_infinite(block: High, squares: High, rows: NDArray[np.int64]) -> None:
    if np.isfinite(squares).all():
        return
    wrong = int(np.flatnonzero(~np.isfinite(squares))[0])
    column = np.flatnonzero(~np.isfinite(block[wrong]))
    problem = f"column {column[0]} is {block[wrong][column[0]]}" if len(column) else "its length overflows float64"
    raise DataError(
        f"features: row {rows[wrong]}: {problem}; finite numbers were expected",
        "Extract this row again, or exclude it and report that.",
    )


def prepare_space(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    metric: Measure,
    pool: Executor,
    like: Space | None = None,
) -> Space:
    """Prepare a space in one pass over the rows: lengths, gallery terms, and a check for finite values.

    Args:
        values: [n, d] as `check_values` returned it.
        rows: which rows.
        metric: "cosine" (a zero row has similarity 0 to everything) or "l2".
        like: take centre and scale from here, so that products of the two can be formed.

    Raises:
        UsageError: another metric.
        DataError: a value that is not finite, naming the row.
    """
    if metric not in ("cosine", "l2"):
        raise UsageError(f"there is no similarity {metric!r}", "Choose cosine or l2.")
    count = len(rows)
    factor, bias, length = np.zeros(count), np.zeros(count), np.zeros(count)
    if like is not None:
        centre, constant = like.centre, float(like.factor[0]) if like.metric == "l2" and len(like) else 1.0
    else:
        centre, constant = _centre(values, rows, metric)

    def one(start: int) -> None:
        part = slice(start, min(start + _ROWS, count))
        block = take_rows(values, rows[part]).astype(np.float64)
        squares = np.einsum("ij,ij->i", block, block)
        _refuse_infinite(block, squares, rows[part])
        if metric == "cosine":
            norm = np.sqrt(squares)
            # Subnormal lengths cannot be inverted; scaling by the largest value first makes the length ordinary.
            tiny = (norm < 1e-140) & (np.abs(block).max(axis=1) > 0.0)
            if tiny.any():
                largest = np.abs(block[tiny]).max(axis=1)
                norm[tiny] = largest * np.linalg.norm(block[tiny] / largest[:, None], axis=1)
            with np.errstate(divide="ignore", over="ignore"):
                inverse = np.where(norm > 0.0, 1.0 / norm, 0.0)
            if not np.isfinite(inverse).all():
                wrong = int(np.flatnonzero(~np.isfinite(inverse))[0])
                raise DataError(
                    f"features: row {rows[part][wrong]}: it is too short for float64", "Scale the features."
                )
            factor[part] = inverse
            bias[part] = (block @ centre) * inverse
            unit = np.where(norm > 0.0, 1.0, 0.0)
            length[part] = np.sqrt(np.maximum(_SHORTEST**2, unit - 2.0 * bias[part] + centre @ centre))
        else:
            block *= constant
            block -= centre
            factor[part] = constant
            squares = np.einsum("ij,ij->i", block, block)
            bias[part], length[part] = -squares / 2.0, np.sqrt(squares)

    list(pool.map(one, range(0, count, _ROWS)))
    return Space(values, rows, metric, factor, centre, bias, length)


def prepare_spaces(
    values: NDArray[Any], queries: NDArray[np.int64], gallery: NDArray[np.int64], metric: Measure, pool: Executor
) -> tuple[Space, Space]:
    """Prepare queries and gallery as `prepare_space` does; one space for both where they are the same rows."""
    gallery_space = prepare_space(values, gallery, metric, pool)
    if np.array_equal(queries, gallery):
        return gallery_space, gallery_space
    return prepare_space(values, queries, metric, pool, like=gallery_space), gallery_space


def _centre(values: NDArray[Any], rows: NDArray[np.int64], metric: Measure) -> tuple[High, float]:
    """Compute the mean of up to 1,024 rows spread evenly (any m is right, one near the mean is good), and the scale for l2."""
    picked = rows[:: max(1, -(-len(rows) // _ROWS))]
    sample = np.asarray(values[picked]).astype(np.float64)
    if not len(sample):
        return np.zeros(values.shape[1]), 1.0
    squares = np.einsum("ij,ij->i", sample, sample)
    _refuse_infinite(sample, squares, picked)
    if metric == "cosine":
        nonzero = squares > 1e-280
        return np.asarray((sample[nonzero] / np.sqrt(squares[nonzero])[:, None]).sum(axis=0) / len(sample)), 1.0
    centre = sample.mean(axis=0)
    away = sample - centre
    # By the largest difference first: squares of differences below 1e-162 are 0.
    largest = float(np.abs(away).max())
    spread = largest * float(np.sqrt(((away / largest) ** 2).sum(axis=1).mean())) if largest > 0.0 else 0.0
    constant = 1.0 / spread if spread > 1e-300 else 1.0
    return centre * constant, constant


def exact_pairs(queries: Space, gallery: Space, a: NDArray[np.int64], b: NDArray[np.int64]) -> High:
    """Compute [k] scores of pairs (query a[i], item b[i]) in float64: cosine, or -|a - b|^2 / 2 in the space's scale.

    The sum of a pair is taken in one order whatever stands around it, so equal rows have equal scores.
    """
    scores = np.empty(len(a))
    for start in range(0, len(a), _PAIRS):
        part = slice(start, start + _PAIRS)
        if queries.metric == "cosine" and queries.values.dtype.itemsize <= 4 >= gallery.values.dtype.itemsize:
            # Products of such numbers neither overflow in float64 nor vanish, so lengths are divided out at the end.
            product = queries.unscaled(a[part])
            product *= take_rows(gallery.values, gallery.rows[b[part]])
            scores[part] = product.sum(axis=1) * queries.factor[a[part]] * gallery.factor[b[part]]
            continue
        some, at = np.unique(a[part], return_inverse=True)
        if queries.metric == "l2":
            # Of the values as given: centred ones have lost digits where one row lies far from all others.
            apart = queries.unscaled(some)[at] - gallery.unscaled(b[part])
            apart *= gallery.factor[0]
            scores[part] = np.einsum("ij,ij->i", apart, apart) / -2.0
        else:
            scores[part] = np.einsum("ij,ij->i", queries.high(some)[at], gallery.high(b[part]))
    return scores


def exact_block(queries: Space, gallery: Space, start: int, stop: int) -> High:
    """Compute [stop - start, n] scores in float64, equal to `exact_pairs` but for the last digits (see `tie_width`)."""
    scores = np.empty((stop - start, len(gallery)))
    if uses_differences(queries, gallery):
        query_rows = queries.unscaled(np.arange(start, stop))
        for first in range(0, len(gallery), _PAIRS):
            some = np.arange(first, min(first + _PAIRS, len(gallery)))
            items = gallery.unscaled(some)
            for row, query in enumerate(query_rows):
                apart = query - items
                apart *= gallery.factor[0]
                scores[row, first : first + len(some)] = np.einsum("ij,ij->i", apart, apart) / -2.0
        return scores
    query_block = queries.high(slice(start, stop))
    for first in range(0, len(gallery), _ROWS):
        part = slice(first, min(first + _ROWS, len(gallery)))
        np.matmul(query_block, gallery.high(part).T, out=scores[:, part])
    if queries.metric == "l2":
        scores += gallery.bias
        scores += queries.bias[start:stop, None]
    return scores


def uses_differences(queries: Space, gallery: Space) -> bool:
    """Return True if `exact_block` uses squared differences: for l2 and up to 5e7 of them, where that is cheap."""
    return queries.metric == "l2" and len(queries) * len(gallery) * queries.width <= _DIFFERENCES


def tie_width(
    queries: Space, gallery: Space, a: NDArray[np.int64], b: NDArray[np.int64], differences: High | None = None
) -> High:
    """Return [k] widths within which a score of query a[i] counts as equal to that of its item b[i].

    2e-15 * sqrt(d), for l2 times the squared lengths |a - m|^2 + |b - m|^2: about ten times what rounding does to a
    sum of d products, so rows that are equal in exact arithmetic tie, whatever their place in a block. For l2 scores
    that are sums of squared differences (`differences`: these scores) it is that share of the squared distance.
    """
    width = _TIE * float(np.sqrt(queries.width))
    if queries.metric == "cosine":
        return np.full(len(a), width)
    if differences is not None:
        return np.asarray(-2.0 * width * differences)
    return np.asarray(width * (queries.length[a] ** 2 + gallery.length[b] ** 2))


class ErrorBound(Struct, frozen=True):
    """Bound on the error of a float32 score.

    It is flat * |a - m| * max |b - m| + drift * (|a - m| + max |b - m|) + steep * |score|, and the tie width.

    Scores that are further apart than their bounds differ in float64 by more than their `tie_width`.

    Attributes:
        flat, steep: of the products and of their sum.
        drift: of the centred rows. Rows of length 1 are rounded before the centre is taken off: however short a row is
            then, it is off by a digit of float32.
        reach: max |b - m|.
        rounding: max of the gallery terms.
        level: the tie width where lengths are 1; `tie_width` of l2 grows with their squares.
        is_scaled: the metric is l2.
    """

    flat: float
    drift: float
    steep: float
    reach: float
    rounding: float
    level: float
    is_scaled: bool

    def of(self, length: High, score: High) -> High:
        """Return the [k] bound, from the query's length and the float32 score."""
        size = np.abs(score) + self.rounding
        level = self.level * (length**2 + self.reach**2) if self.is_scaled else self.level
        products = self.flat * length * self.reach + self.drift * (length + self.reach)
        return np.asarray(products + self.steep * size + 4.0 * _UNIT * size + level)


def float32_error(queries: Space, gallery: Space) -> ErrorBound:
    """Estimate a bound on the error of float32 products, scaled by what is measured on up to 128 x 128 pairs and on equal rows.

    The error of a sum of d products grows with sqrt(d) times the partial sums (Higham and Mary 2019, SIAM J. Sci.
    Comput. 41(5)); its constant depends on how the matrix product adds, so it is measured here. Two scores are compared
    within the sum of their bounds. The largest of 16,384 errors is about 4 standard deviations; twice as much is
    allowed for each, so that a difference has to be off by 11 of its own standard deviations to go unseen. Less is too
    little: of 810,000 errors on a processor with AVX-512 the largest was 1.6 times the largest of the sample.
    """
    gallery_sample = np.arange(0, len(gallery), max(1, -(-len(gallery) // 128)))
    query_sample = np.arange(0, len(queries), max(1, -(-len(queries) // 128)))
    low_g, low_q = _rows_low(gallery, gallery_sample), _rows_low(queries, query_sample)
    high_g = _rows_centred(gallery, gallery_sample)
    high_q = _rows_centred(queries, query_sample)
    root = float(np.sqrt(queries.width))
    is_cosine = queries.metric == "cosine"
    least, drift = (_SHORTEST, 1.0) if is_cosine else (0.0, 0.0)
    worst = 0.0
    for a, b, x, y in ((low_q, low_g, high_q, high_g), (low_g, low_g, high_g, high_g)):
        true = x @ y.T
        wrong = np.abs((a @ b.T).astype(np.float64) - true)
        long_a, long_b = (np.maximum(np.linalg.norm(rows, axis=1), least) for rows in (x, y))
        size = long_a[:, None] * long_b + drift * (long_a[:, None] + long_b)
        allowed = _UNIT * (size + root * np.abs(true))
        usable = allowed > 0.0
        worst = max(worst, float((wrong[usable] / allowed[usable]).max(initial=0.0)))
    factor = 2.0 * max(worst, 0.25)
    centred = gallery.bias - gallery.bias.mean()
    return ErrorBound(
        flat=factor * _UNIT,
        drift=factor * _UNIT * drift,
        steep=factor * _UNIT * root,
        reach=float(gallery.length.max()),
        rounding=float(np.abs(centred).max()),
        level=_TIE * root,
        is_scaled=not is_cosine,
    )


def _rows_low(space: Space, places: NDArray[np.int64]) -> Low:
    return np.concatenate([space.low(int(i), int(i) + 1) for i in places])


def _rows_centred(space: Space, places: NDArray[np.int64]) -> High:
    rows = space.high(places)
    return rows - space.centre if space.metric == "cosine" else rows
