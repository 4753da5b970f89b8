"""Random numbers that are the same on every platform and in every version, as the chart is drawn from them.

Only raw 64-bit words of numpy's PCG64 are used: NumPy's compatibility policy (NEP 19) fixes the bit stream of a bit
generator and of SeedSequence, while the distributions of `Generator` and of Python's `random` may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import pi
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Stream:
    """Numbers that follow from a key alone. Two keys that differ anywhere give unrelated streams."""

    def __init__(self, *key: str | int) -> None:
        text = "\x1f".join(map(str, key))
        self._bits = np.random.PCG64(int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little"))

    def below(self, n: int) -> int:
        """Return an integer from 0 to n - 1. The bias of the modulo is under n / 2**64."""
        return int(self._bits.random_raw()) % n

    def between(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order (Fisher and Yates)."""
        out = list(items)
        for last in range(len(out) - 1, 0, -1):
            other = self.below(last + 1)
            out[last], out[other] = out[other], out[last]
        return out

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """k different items."""
        return self.shuffled(items)[:k]

    def octets(self, n: int) -> NDArray[np.uint8]:
        """[n] bytes, little-endian on every machine."""
        words = np.asarray(self._bits.random_raw((n + 7) // 8), dtype="<u8")
        return words.view(np.uint8)[:n]


def uniform(stream: Stream, low: float = 0.0, high: float = 1.0) -> float:
    """Return a number from low up to and without high, of 53 random bits."""
    return low + (high - low) * (stream.below(1 << 53) / (1 << 53))


def uniforms(stream: Stream, rows: int, columns: int) -> NDArray[np.float64]:
    """Return [rows, columns] numbers of 0 to 1, of 32 random bits each."""
    words = stream.octets(4 * rows * columns).view("<u4").astype(np.float64)
    return (words / 2.0**32).reshape(rows, columns)


def normals(stream: Stream, rows: int, columns: int) -> NDArray[np.float64]:
    """Return [rows, columns] standard normal numbers. Source: Box & Muller 1958."""
    radius = np.sqrt(-2.0 * np.log1p(-uniforms(stream, rows, columns)))
    return radius * np.cos(2.0 * pi * uniforms(stream, rows, columns))
