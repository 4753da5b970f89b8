"""Whether two pictures are copies of one: a perceptual hash of 64 bits, mirrored copies included.

The hash is the sign of the lowest 8 x 8 frequencies of a 32 x 32 grey picture against their median: a DCT hash as described
by Zauner 2010, "Implementation and Benchmarking of Perceptual Image Hash Functions", section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from snellen.errors import MediaError
from snellen.media import open_image
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

SIDE, KEPT, BITS = 32, 8, 64
NEAR = 8
"""Pictures whose hashes differ in no more than so many of 64 bits count as copies."""


def hashes(data: bytes) -> tuple[int, int]:
    """The hash of a picture and that of its mirror image. Raises MediaError where it cannot be decoded."""
    from PIL import Image as pillow

    picture = open_image(Image(BytesBlob("picture", data)), MediaSettings())
    grey = np.asarray(picture.convert("L").resize((SIDE, SIDE), pillow.Resampling.LANCZOS), dtype=np.float64)
    return _hash(grey), _hash(grey[:, ::-1])


def distance(left: tuple[int, int], right: tuple[int, int]) -> int:
    """In how many bits of 64 two pictures differ, the one as it is or mirrored, whichever is less."""
    return min((left[0] ^ right[0]).bit_count(), (left[1] ^ right[0]).bit_count())


def copies(pictures: Sequence[bytes], near: int = NEAR) -> dict[int, int]:
    """Later pictures that are copies of an earlier one: index to the index of the first of its kind."""
    found: dict[int, int] = {}
    plain = np.empty(len(pictures), dtype=np.uint64)
    for at, data in enumerate(pictures):
        try:
            own, mirrored = hashes(data)
        except MediaError as error:
            raise MediaError(f"picture {at + 1} of {len(pictures)}: {error.message}", error.hint) from error
        plain[at] = own
        before = plain[:at]
        bits = np.minimum(_bits(before ^ np.uint64(own)), _bits(before ^ np.uint64(mirrored)))
        same = np.flatnonzero(bits <= near)
        if len(same):
            first = int(same[0])
            found[at] = found.get(first, first)
    return found


def _bits(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many bits of each number are set."""
    parts = numbers[:, None] >> np.arange(BITS, dtype=np.uint64)[None, :] & np.uint64(1)
    found: NDArray[np.int64] = parts.sum(axis=1, dtype=np.int64)
    return found


def _hash(grey: NDArray[np.float64]) -> int:
    basis = _basis()
    low = (basis @ grey @ basis.T)[:KEPT, :KEPT].ravel()
    # Brightness (the first term) says nothing about the picture, and would shift the median.
    bits = low > np.median(low[1:])
    bits[0] = False
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


@cache
def _basis() -> NDArray[np.float64]:
    """The DCT-II of 32 points, up to a factor."""
    at = np.arange(SIDE)
    return np.cos(np.pi * at[:, None] * (2 * at[None, :] + 1) / (2 * SIDE))
