"""Real random numbers from the words of a Stream: the same on every platform and in every version of numpy."""

from __future__ import annotations

from math import cos, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.chart.rng import Stream


def uniform(stream: Stream, low: float = 0.0, high: float = 1.0) -> float:
    """Return a number from low up to and without high, of 53 random bits."""
    return low + (high - low) * (stream.below(1 << 53) / (1 << 53))


def log_uniform(stream: Stream, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(low * (high / low) ** uniform(stream))


def normal(stream: Stream) -> float:
    """Return a standard normal number. Source: Box & Muller 1958."""
    return sqrt(-2.0 * log(1.0 - uniform(stream))) * cos(2.0 * pi * uniform(stream))


def uniforms(stream: Stream, rows: int, columns: int) -> NDArray[np.float64]:
    """Return [rows, columns] numbers of 0 to 1, of 32 random bits each."""
    words = stream.octets(4 * rows * columns).view("<u4").astype(np.float64)
    return (words / 2.0**32).reshape(rows, columns)


def normals(stream: Stream, rows: int, columns: int) -> NDArray[np.float64]:
    """Return [rows, columns] standard normal numbers. Source: Box & Muller 1958."""
    radius = np.sqrt(-2.0 * np.log1p(-uniforms(stream, rows, columns)))
    return radius * np.cos(2.0 * pi * uniforms(stream, rows, columns))
