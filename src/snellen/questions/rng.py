"""Counter-based random numbers: number i of a key is always the same, in any order and any process.

That is what makes a set's bytes independent of how the work is shared out. The mixing function is SplitMix64's (Steele,
Lea and Flood 2014), integer arithmetic alone, so that every platform and every version of numpy gives the same numbers.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def words(counters: NDArray[np.integer] | int, *key: str | int) -> NDArray[np.uint64]:
    """Return 64-bit words [n], one for each counter, determined by key and counter alone.

    Args:
        counters: [n] integers from 0, or a number n for 0 to n - 1.
        key: what the numbers are for. Two keys that differ anywhere give unrelated numbers.
    """
    at = np.arange(counters, dtype=np.uint64) if isinstance(counters, int) else counters.astype(np.uint64)
    text = "\x1f".join(map(str, key)).encode()
    start = np.uint64(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))
    with np.errstate(over="ignore"):
        mixed = (at + np.uint64(1)) * _STEP + start
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


def permutation(n: int, *key: str | int) -> NDArray[np.int64]:
    """Return a permutation [n] of 0 to n - 1, determined by the key."""
    return np.argsort(words(n, *key), kind="stable").astype(np.int64)


def turns(groups: NDArray[np.integer], *key: str | int) -> NDArray[np.int64]:
    """Return each row's position [n] within its group, groups lined up one after the other in random order.

    Modulo m it deals out m values so that each is as often as the others, to one, over all rows and in each group.
    """
    order = np.lexsort((words(len(groups), *key), groups))
    place = np.empty(len(groups), dtype=np.int64)
    place[order] = np.arange(len(groups))
    return place
