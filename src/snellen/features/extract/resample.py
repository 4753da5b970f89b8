"""Pillow's bilinear and bicubic resize of images that shrink, by products of matrices.

Pillow sums bytes times whole numbers of 22 fractional bits, first along the rows, rounds to bytes, then along the
columns, and rounds again (Resample.c of Pillow, 8 bits a channel). Here both sums are products in float32 with the same
weights, of bands of 16 pixels at a time; only what a crop keeps is formed.

Why no value is off by more than one level: a sum of n products in float32 is n * 2**-24 * 1.3 * 255 off at most (the
absolute weights of the bicubic filter add up to less than 1.3). Between the passes a sum that is further than n * 2**-15
from the middle of two bytes is rounded as Pillow rounds it; one that is nearer becomes that middle, half a level from
whatever Pillow made of it. The second sum is then at most 1.3 * 0.5 levels away, less than one, so the rounded values are
the same or neighbours.

Newer versions of Pillow sum along the columns first where an image becomes lower by more than twice the pixels that it
becomes narrower by. `rows_first` says where they do not; the rest is left to Pillow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Filter = Literal["bilinear", "bicubic"]
Floats = NDArray[np.float32]

SUPPORT = {"bilinear": 1.0, "bicubic": 2.0}
PRECISION = 1 << 22
BAND = 16
TIE = 2.0**-15
CHUNK = 1 << 19


class Axis(Struct, frozen=True, eq=False):
    """Resampling weights along one axis.

    Attributes:
        first, last: which of the source take part, from and up to.
        count: how many come out.
        bands: (which pixels out, the first of those in behind `first`, float32 [pixels in, pixels out]) of `BAND`
            pixels out at a time.
        tie: how near a sum may be to the middle of two bytes before float32 cannot say which is Pillow's, in levels.
        overshoots: whether sums may leave the levels of what is summed, as some weights are below zero. Where none is,
            the weights add up to one but for float32's rounding, and no sum of bytes rounds to less than 0 or over 255.
    """

    first: int
    last: int
    count: int
    bands: tuple[tuple[slice, int, Floats], ...]
    tie: float
    overshoots: bool


def rows_first(rows: int, columns: int, height: int, width: int) -> bool:
    """Return True if every version of Pillow sums along the rows first, or along one axis only (tested with 13.0)."""
    return columns == width or rows - height <= 2 * (columns - width)


def resample_image(
    pixels: NDArray[np.uint8],
    height: int,
    width: int,
    interpolation: Filter,
    box: tuple[int, int, int, int],
    into: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Resize as Pillow does, to one level of 255, and return a box of the result; `rows_first` must hold.

    Args:
        pixels: uint8 [rows, columns, 3].
        height, width: of the whole image after the resize; neither is larger than before.
        box: (top, left, height, width) of the part, in pixels after the resize.
        into: where the result goes, uint8 [3, height, width] of the box; None makes a new array.

    Returns:
        uint8 [3, height, width] of the box.
    """
    top, left, high, wide = box
    across = build_axis(pixels.shape[1], width, interpolation, left, wide)
    down = build_axis(pixels.shape[0], height, interpolation, top, high, 0.5)
    source = pixels[down.first : down.last, across.first : across.last]
    rows, columns = source.shape[:2]
    between = np.empty((rows, 3 * wide), dtype=np.float32)
    step = max(1, CHUNK // (3 * columns))
    levels = np.empty((min(step, rows), 3, columns), dtype=np.uint8)
    planes = np.empty((3 * len(levels), columns), dtype=np.float32)
    for start in range(0, rows, step):  # so that what is worked on stays in the processor's cache
        stop = min(start + step, rows)
        np.copyto(levels[: stop - start], source[start:stop].transpose(0, 2, 1))  # bytes first: twice as fast
        lines = planes[: 3 * (stop - start)]
        np.copyto(lines, levels[: stop - start].reshape(lines.shape))
        sums = between[start:stop].reshape(-1, wide)
        for part, begin, weights in across.bands:
            np.matmul(lines[:, begin : begin + len(weights)], weights, out=sums[:, part])
        _round(sums.ravel(), across, lines.ravel())
    out = np.empty((high, 3 * wide), dtype=np.float32)
    for part, begin, weights in down.bands:
        np.matmul(weights.T, between[begin : begin + len(weights)], out=out[part])
    if down.overshoots:
        np.clip(out, np.float32(0), np.float32(255.5), out=out)
    values = np.empty((3, high, wide), dtype=np.uint8) if into is None else into
    np.copyto(values, out.reshape(high, 3, wide).transpose(1, 0, 2), casting="unsafe")  # cut off behind the point
    return values


def _round(sums: Floats, axis: Axis, room: Floats) -> None:
    """Round in place to twice the nearest byte plus one, or to the middle of two bytes if a sum is about as near to both.

    What is added becomes, in the second sums, the half that rounds them when they are cut off.

    Args:
        room: overwritten, of the length of `sums` or more.
    """
    sums += np.float32(axis.tie)
    above = np.rint(sums, out=room[: len(sums)])
    sums -= np.float32(2 * axis.tie - 1)
    np.rint(sums, out=sums)
    sums += above
    if axis.overshoots:
        np.clip(sums, np.float32(1), np.float32(511), out=sums)


@lru_cache(maxsize=128)
def build_axis(length: int, size: int, interpolation: Filter, start: int, count: int, gain: float = 1.0) -> Axis:
    """Build the bands for pixels `start` to `start + count` of `size`, made of `length`; size is `length` or less."""
    weights, begins = coefficients(length, size, interpolation)
    weights, begins = weights[start : start + count], begins[start : start + count]
    ends = np.minimum(begins + weights.shape[1], length)
    first, last = int(begins.min()), int(ends.max())
    bands = []
    for at in range(0, count, BAND):
        low, high = int(begins[at : at + BAND].min()), int(ends[at : at + BAND].max())
        band = np.zeros((high - low, len(begins[at : at + BAND])), dtype=np.float32)
        for column, (begin, end) in enumerate(zip(begins[at : at + BAND], ends[at : at + BAND], strict=True)):
            band[begin - low : end - low, column] = weights[at + column, : end - begin] * (gain / PRECISION)
        bands.append((slice(at, at + band.shape[1]), low - first, band))
    return Axis(first, last, count, tuple(bands), TIE * weights.shape[1], bool((weights < 0).any()))


def coefficients(length: int, size: int, interpolation: Filter) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compute Pillow's weights in units of 2**-22, int64 [size, taps], and the pixel that each first one falls on, int64 [size].

    A filter spans `SUPPORT` times length / size pixels on each side of a centre; weights add up to one before they are
    rounded (precompute_coeffs and normalize_coeffs_8bpc of Pillow's Resample.c).
    """
    scale = length / size
    support = SUPPORT[interpolation] * scale
    centres = (np.arange(size) + 0.5) * scale
    begins = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    ends = np.minimum((centres + support + 0.5).astype(np.int64), length)
    taps = np.arange(int((ends - begins).max()))
    away = np.abs((taps + begins[:, None] - centres[:, None] + 0.5) * (1.0 / scale))
    values = _bicubic(away) if interpolation == "bicubic" else np.maximum(1.0 - away, 0.0)
    values[taps >= (ends - begins)[:, None]] = 0.0
    values /= values.sum(axis=1, keepdims=True)
    return np.trunc(values * PRECISION + np.copysign(0.5, values)).astype(np.int64), begins


def _bicubic(away: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the cubic convolution of Keys with a = -1/2, of distances from 0."""
    inner = (1.5 * away - 2.5) * away * away + 1.0
    outer = (((away - 5.0) * away + 8.0) * away - 4.0) * -0.5
    return np.where(away < 1.0, inner, np.where(away < 2.0, outer, 0.0))
