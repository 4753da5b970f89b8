"""Perceptual hashes of 256 bits: the signs of an image's low frequencies around their median.

After Zauner 2010, "Implementation and benchmarking of perceptual image hash functions", section 3.2.1 (DCT hash), with
32 x 32 pixels and 64 bits made 64 x 64 and 256. A mirrored image is hashed without being drawn: mirroring turns the
sign of every odd column of its cosine transform (shown in the tests).

ImageHash 4.3 makes the same kind of hash. It takes 9.9 ms of CPU for an image's 18 hashes where this takes 2.6 ms, draws
every mirrored crop, and needs scipy and PyWavelets; the search among hashes would stay own code. So this module stays.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SIDE, KEPT = 64, 16
BITS, WORDS = KEPT * KEPT, KEPT * KEPT // 64
# What is cut off at the left, top, right and bottom: fractions of width and height. The first is the whole image. The
# first QUERIED are also cut from the image searched for; they are symmetrical, so that their mirrored hashes are right.
CROPS = (
    *((0.0, 0.0, 0.0, 0.0), (0.05, 0.05, 0.05, 0.05), (0.025, 0.025, 0.025, 0.025)),
    *((0.05, 0.0, 0.05, 0.0), (0.0, 0.05, 0.0, 0.05)),
    *((0.05, 0.05, 0.0, 0.0), (0.0, 0.05, 0.05, 0.0), (0.0, 0.0, 0.05, 0.05), (0.05, 0.0, 0.0, 0.05)),
)
QUERIED = 3
# Images whose first words are compared in one go: the intermediate values (8 bytes for each of 22 pairs) stay in a
# core's cache, and numpy's calls are few.
BLOCK = 1 << 14
# Standard deviation of grey levels (0 to 255) under which an image is flat: its hash would be noise.
FLAT = 1.5

Words: TypeAlias = NDArray[np.uint64]


def variants(image: Picture, mirrored: bool = False) -> Words | None:
    """Return the hashes of an image and of its crops.

    Returns:
        Shape (9, 4), or with `mirrored` (2, 9, 4), the second half mirrored; None where the image is flat.
    """
    from PIL.Image import Resampling

    grey = image.convert("L")
    grey.thumbnail((512, 512), reducing_gap=2.0)
    if float(np.asarray(grey, dtype=np.float32).std()) < FLAT:
        return None
    width, height = grey.size
    boxes = ((width * x, height * y, width * (1 - right), height * (1 - bottom)) for x, y, right, bottom in CROPS)
    cuts = [np.asarray(grey.resize((SIDE, SIDE), Resampling.BILINEAR, box), dtype=np.float32) for box in boxes]
    waves = _cosines()
    low = waves @ np.stack(cuts) @ waves.T
    if not mirrored:
        return _packed(low)
    turned = low.copy()
    turned[:, :, 1::2] *= -1
    return np.stack([_packed(low), _packed(turned)])


def _packed(low: NDArray[np.float32]) -> Words:
    values = low.reshape(len(low), -1)[:, _order()]
    # The mean of the image (the first coefficient) is no part of the median: it says how bright it is.
    bits = values > np.median(values[:, 1:], axis=1, keepdims=True)
    return np.ascontiguousarray(np.packbits(bits, axis=1)).view(np.uint64)


@cache
def _cosines() -> NDArray[np.float32]:
    """Return the first 16 rows of the cosine transform (type II, orthonormal) of 64 values, shape (16, 64)."""
    at = np.arange(SIDE)
    waves = np.sqrt(2 / SIDE) * np.cos(np.pi * (2 * at[None] + 1) * np.arange(KEPT)[:, None] / (2 * SIDE))
    return np.asarray(waves, dtype=np.float32)


@cache
def _order() -> NDArray[np.intp]:
    """Return the order of coefficients, low frequencies first: the first 64 bits are a small hash of their own."""
    row, column = np.divmod(np.arange(BITS), KEPT)
    return np.argsort(row**2 + column**2, kind="stable")


class HashIndex:
    """Near-duplicates among many images, by exhaustive comparison of their hashes.

    Args:
        words: shape (9, 4, n): crop, word, image. `stacked` makes it; it may be mapped from a file.

    An image is compared mirrored and not, its whole with the nine crops of every image held, and its crops with
    the whole of them: so a crop is found by its original, and an original by its crop.
    """

    # Of 64 bits: what differs more is not compared further. Of 256: what differs more is not a near-duplicate.
    FIRST = 22
    FARTHEST = 72

    def __init__(self, words: Words) -> None:
        self._words = np.ascontiguousarray(words)
        self._size = words.shape[2]

    def nearest(self, hashes: Words, k: int, farthest: int = FARTHEST) -> list[tuple[int, int]]:
        """Return the k nearest images as (number, distance in bits of 256), nearest first, ties by number.

        Every pair is compared: at these distances buckets of equal parts (multi-index hashing) would leave 42 % of the
        images, in no order, where one pass over the first words leaves 1 %.

        Args:
            hashes: of the image searched for, mirrored ones with them: shape (2, 9, 4).
            k: how many at most.
            farthest: images with a larger distance are left out.
        """
        uncropped = hashes[:, 0]
        queried = np.concatenate([np.tile(uncropped, (len(CROPS), 1)), hashes[:, 1:QUERIED].reshape(-1, WORDS)])
        # The first `own` are the whole searched for with each crop held; the rest its crops with the whole.
        own = 2 * len(CROPS)
        crops = np.concatenate([np.repeat(np.arange(len(CROPS)), 2), np.zeros(len(queried) - own, dtype=np.int64)])
        flat, firsts = self._words.reshape(-1), crops * (WORDS * self._size)  # where the first word of each pair begins
        numbers, distances = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int16)]
        mixed = np.empty((len(queried), 0), dtype=np.uint64)
        for start in range(0, self._size, BLOCK):
            part = self._words[:, 0, start : start + BLOCK]
            size = part.shape[1]
            if mixed.shape[1] != size:
                mixed = np.empty((len(queried), size), dtype=np.uint64)
                counts = np.empty(mixed.shape, dtype=np.uint8)
                close = np.empty(mixed.shape, dtype=np.bool_)
            np.bitwise_xor(part[:, None], uncropped[:, :1], out=mixed[:own].reshape(len(CROPS), 2, size))
            np.bitwise_xor(part[0], queried[own:, :1], out=mixed[own:])
            np.bitwise_count(mixed, out=counts)
            np.less_equal(counts, self.FIRST, out=close)
            at = np.flatnonzero(close)
            pair, row = np.divmod(at, size)
            distance = counts.reshape(-1).take(at).astype(np.int16)
            place = firsts.take(pair) + row + start
            for word in range(1, WORDS):
                place += self._size
                distance += np.bitwise_count(flat.take(place) ^ queried[:, word].take(pair))
                if word > 1:  # after two words nearly all are still near enough
                    candidates = np.flatnonzero(distance <= farthest)
                    distance, pair, place = distance[candidates], pair[candidates], place[candidates]
            numbers.append(place % self._size)
            distances.append(distance)
        return _nearest(np.concatenate(numbers), np.concatenate(distances), k)


def _nearest(numbers: NDArray[np.int64], distances: NDArray[np.int16], k: int) -> list[tuple[int, int]]:
    """Return the k smallest distances, each number once with its smallest; ties by number."""
    order = np.lexsort((distances, numbers))
    numbers, distances = numbers[order], distances[order]
    first = np.flatnonzero(np.diff(numbers, prepend=-1))
    numbers, distances = numbers[first], distances[first]
    chosen = np.argsort(distances, kind="stable")[:k]
    return [(int(number), int(distance)) for number, distance in zip(numbers[chosen], distances[chosen], strict=True)]


def stacked(hashes: list[Words]) -> Words:
    """Return the array that `HashIndex` takes, from the variants of each image."""
    if not hashes:
        return np.empty((len(CROPS), WORDS, 0), dtype=np.uint64)
    return np.ascontiguousarray(np.stack(hashes).transpose(1, 2, 0))


def similarity(distance: int) -> float:
    """Return 0 to 100 for a distance of 128 (as far as two random hashes) to 0 bits."""
    return round(max(0.0, 100 * (1 - distance / 128)), 1)
