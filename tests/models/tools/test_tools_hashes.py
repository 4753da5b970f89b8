"""The search among hashes gives what comparing every pair, bit by bit, gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.models.tools import perceptual_hash
from snellen.models.tools.perceptual_hash import BITS, CROPS, QUERIED, WORDS, HashIndex


def one_by_one(words: np.ndarray, asked: np.ndarray, k: int, farthest: int) -> list[tuple[int, int]]:
    """The same rule in whole numbers of Python, a pair at a time."""
    found = []
    for number in range(words.shape[2]):
        held = [[int(word) for word in words[crop, :, number]] for crop in range(len(CROPS))]
        pairs = [(held[crop], turned[0]) for turned in asked for crop in range(len(CROPS))]
        pairs += [(held[0], turned[crop]) for turned in asked for crop in range(1, QUERIED)]
        distances = []
        for left, right in pairs:
            bits = [(a ^ int(b)).bit_count() for a, b in zip(left, right, strict=True)]
            if bits[0] <= HashIndex.FIRST and sum(bits) <= farthest:
                distances.append(sum(bits))
        if distances:
            found.append((min(distances), number))
    return [(number, distance) for distance, number in sorted(found)[:k]]


def near_ones(rng: np.random.Generator, size: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of `size` pictures and of one that is asked for: each crop of each is some bits away from the one asked."""
    asked = rng.integers(0, 2**64, (2, len(CROPS), WORDS), dtype=np.uint64)
    words = np.empty((len(CROPS), WORDS, size), dtype=np.uint64)
    for crop in range(len(CROPS)):
        for number in range(size):
            flipped = np.packbits(rng.random(BITS) < share * rng.random()).view(np.uint64)
            of = asked[rng.integers(2), (0, rng.integers(QUERIED))[crop == 0]]
            words[crop, :, number] = of ^ flipped
    return words, asked


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(0, 40),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    k=st.integers(1, 50),
    farthest=st.integers(0, BITS),
    block=st.sampled_from([1, 7, 16, 64]),
)
def test_the_search_is_that_of_comparing_one_by_one(seed, size, share, k, farthest, block):
    words, asked = near_ones(np.random.default_rng(seed), size, share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perceptual_hash, "BLOCK", block)
        assert HashIndex(words).nearest(asked, k, farthest) == one_by_one(words, asked, k, farthest)


def test_what_lies_beyond_the_first_block_is_found_by_its_number():
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**64, (len(CROPS), WORDS, 2 * perceptual_hash.BLOCK + 17), dtype=np.uint64)
    asked = rng.integers(0, 2**64, (2, len(CROPS), WORDS), dtype=np.uint64)
    last = words.shape[2] - 1
    words[4, :, last] = asked[1, 0] ^ np.array([1, 0, 0, 3], dtype=np.uint64)
    words[0, :, perceptual_hash.BLOCK] = asked[0, 2]
    assert HashIndex(words).nearest(asked, 5) == [(perceptual_hash.BLOCK, 0), (last, 3)]
