"""Random starts of attacks: of an image's id, the seed and the restart alone, never of the batch that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import Literal

import numpy as np


def starts(
    ids: Sequence[str], shape: tuple[int, ...], norm: Literal["linf", "l2"], seed: int, restart: int
) -> np.ndarray:
    """Points of the unit ball, float64 [n, *shape].

    linf: every coordinate uniform in [-1, 1]. l2: a Gaussian direction times a uniform number from 0 to 1, as
    torchattacks draws it; points near the middle are more likely than in a uniform ball.

    Random numbers are the raw words of PCG64, seeded by the BLAKE2b of seed, restart and id. NumPy fixes that stream
    (NEP 19), so the same call gives the same points in every version of it.
    """
    size = prod(shape)
    found = np.empty((len(ids), size))
    for row, name in enumerate(ids):
        digest = blake2b(f"snellen.attack/{seed}/{restart}\0{name}".encode(errors="surrogateescape"), digest_size=16)
        words = np.random.PCG64(int.from_bytes(digest.digest(), "little"))
        if norm == "linf":
            found[row] = 2.0 * _uniform(words, size) - 1.0
        else:
            radius = float(_uniform(words, 1)[0])
            direction = _normal(words, size)
            found[row] = direction * (radius / np.linalg.norm(direction))
    return found.reshape(len(ids), *shape)


def _uniform(words: np.random.PCG64, count: int) -> np.ndarray:
    """[count] in the open interval from 0 to 1."""
    raw = np.asarray(words.random_raw(count), dtype=np.uint64)
    return ((raw >> np.uint64(11)).astype(np.float64) + 0.5) / float(1 << 53)


def _normal(words: np.random.PCG64, count: int) -> np.ndarray:
    """[count] standard normal numbers (Box and Muller 1958, Annals of Mathematical Statistics 29:610)."""
    half = (count + 1) // 2
    radius = np.sqrt(-2.0 * np.log(_uniform(words, half)))
    angle = 2.0 * np.pi * _uniform(words, half)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
