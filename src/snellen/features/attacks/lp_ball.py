"""Lp ball of an attack, within the bounds of pixels, and random starts in it.

A start depends on the image's id, the seed and the restart alone, never on the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from snellen.errors import SnellenError

if TYPE_CHECKING:
    import torch


Norm = Literal["linf", "l2"]


class Ball:
    """Points within eps of the images and within the bounds."""

    def __init__(self, images: torch.Tensor, eps: float, norm: Norm, bounds: tuple[float, float] | None) -> None:
        import torch

        self.images, self.eps, self.norm, self.bounds = images, eps, norm, bounds
        low, high = bounds or (-torch.inf, torch.inf)
        if norm == "linf":
            self.low, self.high = (
                _inward(images, -eps).clamp(min=low),
                _inward(images, eps).clamp(max=high),
            )
        else:
            self.low, self.high = torch.full_like(images, low), torch.full_like(images, high)

    def only(self, rows: torch.Tensor) -> Ball:
        return Ball(self.images[rows], self.eps, self.norm, self.bounds)

    def project(self, points: torch.Tensor) -> torch.Tensor:
        """Project into the ball, on the device of the points."""
        import torch

        if self.norm == "l2":
            centre = self.images.to(points.device)
            away = points - centre
            length = lengths(away)
            shrink = torch.where(length > self.eps, self.eps / length, torch.ones_like(length))
            points = centre + away * broadcast_over(shrink, away)
        return points.clamp(self.low.to(points.device), self.high.to(points.device))

    def distance(self, points: torch.Tensor) -> torch.Tensor:
        """Return the distance from the images, float64 [B]."""
        away = (points.double() - self.images.double()).flatten(1)
        return away.abs().amax(1) if self.norm == "linf" else away.norm(dim=1)

    def require(self, points: torch.Tensor, first: int) -> None:
        """Raise SnellenError unless every point lies in the ball and the bounds.

        An L-inf ball may be left by what rounding the distance itself does in float64, an L2 ball by what rounding
        each coordinate can do.
        """
        unit = 2.0**-24 if points.dtype.itemsize < 8 else 2.0**-53
        slack = 2.0**-52 if self.norm == "linf" else 100 * unit * self.eps + unit * points[0].numel() ** 0.5
        away = self.distance(points)
        low, high = self.bounds or (-float("inf"), float("inf"))
        inside = (away <= self.eps + slack) & (points.flatten(1).amin(1) >= low) & (points.flatten(1).amax(1) <= high)
        if not bool(inside.all()):
            row = int((~inside).nonzero()[0])
            raise SnellenError(
                f"image {first + row} was attacked to a distance of {float(away[row]):.9g} with values from "
                f"{float(points[row].min()):.9g} to {float(points[row].max()):.9g}; at most {self.eps:.9g} ({self.norm}) "
                f"and values from {low:g} to {high:g} were expected",
                "This is a fault of the attack, and no accuracy can be given. Please report it.",
            )


def _inward(images: torch.Tensor, away: float) -> torch.Tensor:
    """Return images + away, rounded toward the images, so that rounding never leaves the ball."""
    import torch

    exact = images.double() + away
    if images.dtype == torch.float64:
        return exact
    rounded = exact.to(images.dtype)
    beyond = rounded.double() < exact if away < 0 else rounded.double() > exact
    return torch.where(beyond, torch.nextafter(rounded, images), rounded)


def lengths(values: torch.Tensor) -> torch.Tensor:
    """Compute the Euclidean length [B] of each, scaled first so that no square underflows."""
    import torch

    flat = values.flatten(1)
    largest = flat.abs().amax(1)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    norms: torch.Tensor = largest * (flat / scale[:, None]).norm(dim=1)
    return norms


def broadcast_over(each: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return each.view(-1, *[1] * (like.ndim - 1))


def random_starts(
    ids: Sequence[str], shape: tuple[int, ...], norm: Literal["linf", "l2"], seed: int, restart: int
) -> np.ndarray:
    """Draw points of the unit ball, float64 [n, *shape].

    linf: every coordinate uniform in [-1, 1]. l2: a Gaussian direction times a uniform number from 0 to 1, as
    torchattacks draws it; points near the middle are more likely than in a uniform ball.

    Random numbers are the raw words of PCG64, seeded by the BLAKE2b of seed, restart and id. NumPy fixes that stream
    (NEP 19), so the same call gives the same points in every version of it.
    """
    size = prod(shape)
    points = np.empty((len(ids), size))
    for row, name in enumerate(ids):
        digest = blake2b(f"snellen.attack/{seed}/{restart}\0{name}".encode(errors="surrogateescape"), digest_size=16)
        words = np.random.PCG64(int.from_bytes(digest.digest(), "little"))
        if norm == "linf":
            points[row] = 2.0 * _uniform(words, size) - 1.0
        else:
            radius = float(_uniform(words, 1)[0])
            direction = _normal(words, size)
            points[row] = direction * (radius / np.linalg.norm(direction))
    return points.reshape(len(ids), *shape)


def _uniform(words: np.random.PCG64, count: int) -> np.ndarray:
    """Draw [count] numbers in the open interval from 0 to 1."""
    raw = np.asarray(words.random_raw(count), dtype=np.uint64)
    return ((raw >> np.uint64(11)).astype(np.float64) + 0.5) / float(1 << 53)


def _normal(words: np.random.PCG64, count: int) -> np.ndarray:
    """Draw [count] standard normal numbers (Box and Muller 1958, Annals of Mathematical Statistics 29:610)."""
    half = (count + 1) // 2
    radius = np.sqrt(-2.0 * np.log(_uniform(words, half)))
    angle = 2.0 * np.pi * _uniform(words, half)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
