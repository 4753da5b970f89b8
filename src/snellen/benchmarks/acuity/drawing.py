"""Exact drawing for the acuity pictures: shapes by area coverage, gratings by noisy rounding, PNG out.

A shape is a signed distance in pixels, negative inside. Pixels that its edge may cross are sampled 16 x 16 times or
more; all others are inside or outside. Positions are real numbers, so that nothing depends on the raster of pixels.

Fast exact drawing of discs, rings and polygons: each pixel row is cut into lines, each line is covered exactly.

A line holds intervals of x. The share of a pixel that an interval covers is exact; lines are 1 / LINES of a pixel apart, at
least. It takes a hundredth of the time of sampling each pixel, and pictures of many dots need that.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from math import atan2, ceil, cos, degrees, exp, floor, hypot, pi, radians, sin, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

LINES, MORE_LINES, SMALL = 16, 64, 24.0
"""Lines of a pixel row; more for figures that are lower than SMALL pixels."""


def _lines(top: float, bottom: float, height: int) -> tuple[int, int, int, Array]:
    """Return first row, number of rows, lines of a row, and y of each line, of what lies inside the picture."""
    first, last = max(floor(top), 0), min(ceil(bottom), height)
    rows = max(last - first, 0)
    each = MORE_LINES if bottom - top < SMALL else LINES
    return first, rows, each, first + (np.arange(rows * each) + 0.5) / each


def _fill(
    raster: Raster,
    first: int,
    rows: int,
    each: int,
    ends: Sequence[tuple[Array, float]],
    colour: float | Sequence[float],
) -> None:
    """Fill what lies between ends: from each end [lines] to the right the share rises by its sign."""
    if not rows:
        return
    width = raster.values.shape[1]
    row = np.repeat(np.arange(rows), each)
    steps = np.zeros(rows * (width + 2))
    left, right = width, 0
    for position, sign in ends:
        x = np.clip(position, 0.0, width)
        cell = np.floor(x).astype(np.int64)
        into = x - cell
        place = row * (width + 2) + cell
        steps += np.bincount(place, sign * (1.0 - into), len(steps)) + np.bincount(place + 1, sign * into, len(steps))
        left, right = min(left, int(cell.min())), max(right, int(cell.max()) + 1)
    right = min(right, width)
    if left >= right:
        return
    share = steps.reshape(rows, width + 2)[:, left:right].cumsum(axis=1) / each
    window = raster.values[first : first + rows, left:right]
    if window.ndim == 3:
        share = share[:, :, None]
    window += np.clip(share, 0.0, 1.0) * (np.asarray(colour, dtype=np.float64) - window)


def _half(radius: float, away: Array) -> Array:
    """Return half the chord of a circle at these distances from its centre; 0 outside."""
    return np.sqrt(np.maximum(radius * radius - away * away, 0.0))


def fill_disc(raster: Raster, cx: float, cy: float, radius: float, colour: float | Sequence[float]) -> None:
    """Fill a disc."""
    first, rows, each, y = _lines(cy - radius, cy + radius, raster.values.shape[0])
    half = _half(radius, y - cy)
    _fill(raster, first, rows, each, [(cx - half, 1.0), (cx + half, -1.0)], colour)


def fill_ring(raster: Raster, cx: float, cy: float, gap: float, angle: float, colour: float | Sequence[float]) -> None:
    """Fill a Landolt C: outer diameter 5 gaps, stroke 1 gap, opening 1 gap wide towards `angle` (radians, y downwards)."""
    first, rows, each, y = _lines(cy - 2.5 * gap, cy + 2.5 * gap, raster.values.shape[0])
    away = y - cy
    low, high = _opening(away, gap, cos(angle), sin(angle))
    ends: list[tuple[Array, float]] = []
    for radius, sign in ((2.5 * gap, 1.0), (1.5 * gap, -1.0)):
        half = _half(radius, away)
        ends += [(cx - half, sign), (cx + half, -sign)]
        start, stop = np.clip(low, -half, half), np.clip(high, -half, half)
        ends += [(cx + start, -sign), (cx + np.maximum(start, stop), sign)]
    _fill(raster, first, rows, each, ends, colour)


def _opening(away: Array, gap: float, along_x: float, along_y: float) -> tuple[Array, Array]:
    """Return from where to where, in x from the centre, each line lies in a strip of one gap towards the direction."""
    low, high = np.full(len(away), -np.inf), np.full(len(away), np.inf)
    # |dy along_x - dx along_y| <= gap / 2, and dx along_x + dy along_y >= 0
    for slope, constant in (
        (along_y, gap / 2 - away * along_x),
        (-along_y, gap / 2 + away * along_x),
        (along_x, away * along_y),
    ):
        if abs(slope) < 1e-12:
            high = np.where(constant >= 0.0, high, -np.inf)
        elif slope > 0:
            low = np.maximum(low, -constant / slope)
        else:
            high = np.minimum(high, -constant / slope)
    return low, np.maximum(low, high)


def fill_polygon(raster: Raster, corners: Array, colour: float | Sequence[float]) -> None:
    """Fill a polygon of corners [n, 2] by the even-odd rule."""
    first, rows, each, y = _lines(float(corners[:, 1].min()), float(corners[:, 1].max()), raster.values.shape[0])
    nexts = np.roll(corners, -1, axis=0)
    crossings = np.full((rows * each, len(corners) + len(corners) % 2), np.inf)
    for side, ((x0, y0), (x1, y1)) in enumerate(zip(corners, nexts, strict=True)):
        crosses = (y0 > y) != (y1 > y)
        crossings[crosses, side] = x0 + (y[crosses] - y0) * (x1 - x0) / (y1 - y0)
    crossings.sort(axis=1)
    most = int(np.isfinite(crossings).sum(axis=1).max(initial=0))
    ends = [(crossings[:, index], -1.0 if index % 2 else 1.0) for index in range(most)]
    _fill(raster, first, rows, each, ends, colour)


Array: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = Callable[[Array, Array], Array]
"""Columns and rows in pixels to signed distance in pixels, negative inside."""

SAMPLES, MORE_SAMPLES, FEW_PIXELS = 16, 24, 300
"""Samples along each side of a pixel that an edge crosses; more for small figures, whose edge crosses few pixels."""
COMPRESSION = 1
"""Level of zlib: noise of a stripe pattern cannot be compressed, and paper is small at any level."""
EDGE = 0.75
"""Pixels whose centre is farther than this from the edge are inside or outside: half a diagonal, and a little."""


class Raster:
    """A picture in the making: `values` is [height, width] or [height, width, 3], real code values of 0 to 255."""

    def __init__(self, width: int, height: int, background: float | Sequence[float]) -> None:
        colour = np.asarray(background, dtype=np.float64)
        self.values: Array = np.empty((height, width, *colour.shape))
        self.values[:] = colour

    def fill(self, shape: Shape, box: tuple[float, float, float, float], colour: float | Sequence[float]) -> None:
        """Fill a shape; `box` is (left, top, right, bottom) around it, in pixels. Pixel (i, j) covers i to i + 1."""
        height, width = self.values.shape[:2]
        left, top = max(floor(box[0]) - 1, 0), max(floor(box[1]) - 1, 0)
        right, bottom = min(ceil(box[2]) + 1, width), min(ceil(box[3]) + 1, height)
        if left >= right or top >= bottom:
            return
        share = coverage(shape, left, top, right, bottom)
        window = self.values[top:bottom, left:right]
        if window.ndim == 3:
            share = share[:, :, None]
        window += share * (np.asarray(colour, dtype=np.float64) - window)

    def bar(self, left: float, top: float, right: float, bottom: float, colour: float) -> None:
        """Fill an upright box: coverage is the product of that of its columns and rows, without sampling."""
        columns = _overlap(left, right, self.values.shape[1])
        rows = _overlap(top, bottom, self.values.shape[0])
        share = rows[:, None] * columns[None, :]
        self.values += share * (colour - self.values)

    def pixels(self) -> NDArray[np.uint8]:
        """Return code values, rounded to the nearest."""
        return np.clip(np.floor(self.values + 0.5), 0, 255).astype(np.uint8)

    def noisy_pixels(self, uniform: Array) -> NDArray[np.uint8]:
        """Return code values rounded up with the probability of their fraction, so that faint patterns keep their mean.

        Args:
            uniform: [height, width] numbers of 0 to 1. Source: noisy-bit method, Allard & Faubert 2008.
        """
        return np.clip(np.floor(self.values + uniform), 0, 255).astype(np.uint8)


def coverage(shape: Shape, left: int, top: int, right: int, bottom: int) -> Array:
    """Return the share [rows, columns] of each pixel that lies inside a shape."""
    x, y = np.meshgrid(np.arange(left, right) + 0.5, np.arange(top, bottom) + 0.5)
    distance = shape(x, y)
    share = (distance < 0).astype(np.float64)
    edge = np.abs(distance) <= EDGE
    crossed = int(edge.sum())
    if crossed:
        samples = MORE_SAMPLES if crossed <= FEW_PIXELS else SAMPLES
        steps = (np.arange(samples) + 0.5) / samples - 0.5
        dx, dy = (grid.reshape(-1) for grid in np.meshgrid(steps, steps))
        inside = shape(x[edge][:, None] + dx, y[edge][:, None] + dy) < 0
        share[edge] = inside.mean(axis=1)
    return share


def _overlap(low: float, high: float, size: int) -> Array:
    cells = np.arange(size, dtype=np.float64)
    share: Array = np.clip(np.minimum(cells + 1, high) - np.maximum(cells, low), 0.0, 1.0)
    return share


def disc(cx: float, cy: float, radius: float) -> Shape:
    """A disc."""
    return lambda x, y: np.asarray(np.hypot(x - cx, y - cy) - radius)


def landolt(cx: float, cy: float, gap: float, angle: float) -> Shape:
    """A Landolt C: outer diameter 5 gaps, stroke 1 gap, opening 1 gap wide towards `angle` (radians, y downwards)."""
    along_x, along_y = cos(angle), sin(angle)

    def distance(x: Array, y: Array) -> Array:
        dx, dy = x - cx, y - cy
        along, across = dx * along_x + dy * along_y, dy * along_x - dx * along_y
        ring = np.abs(np.hypot(dx, dy) - 2.0 * gap) - gap / 2.0
        opening = np.maximum(np.abs(across) - gap / 2.0, -along)
        return np.maximum(ring, -opening)

    return distance


def box(cx: float, cy: float, width: float, height: float, angle: float = 0.0) -> Shape:
    """A box around its centre, turned by `angle` (radians, y downwards)."""
    ux, uy = cos(angle), sin(angle)

    def distance(x: Array, y: Array) -> Array:
        dx, dy = x - cx, y - cy
        across = np.abs(dx * ux + dy * uy) - width / 2.0
        down = np.abs(dy * ux - dx * uy) - height / 2.0
        outside = np.hypot(np.maximum(across, 0.0), np.maximum(down, 0.0))
        return outside + np.minimum(np.maximum(across, down), 0.0)

    return distance


def segment(x0: float, y0: float, x1: float, y1: float, thickness: float) -> Shape:
    """A straight stroke with flat ends."""
    length = float(np.hypot(x1 - x0, y1 - y0))
    return box((x0 + x1) / 2, (y0 + y1) / 2, length, thickness, float(np.arctan2(y1 - y0, x1 - x0)))


def arc(cx: float, cy: float, radius: float, start: float, end: float, thickness: float) -> Shape:
    """A stroke along a circle from `start` to `end` (radians, rising, y downwards), with ends along the radius."""
    middle, half = (start + end) / 2, (end - start) / 2

    def distance(x: Array, y: Array) -> Array:
        dx, dy = x - cx, y - cy
        away = np.abs(np.angle(np.exp(1j * (np.arctan2(dy, dx) - middle))))
        around = np.abs(np.hypot(dx, dy) - radius) - thickness / 2.0
        if half >= pi:
            return around
        beyond = np.hypot(dx, dy) * np.sin(np.clip(away - half, -pi / 2, pi / 2))
        return np.maximum(around, np.where(away - half > pi / 2, np.hypot(dx, dy), beyond))

    return distance


def union(*shapes: Shape) -> Shape:
    """All that lies in one of the shapes."""
    return lambda x, y: np.minimum.reduce([shape(x, y) for shape in shapes])


def polygon(corners: Array) -> Shape:
    """A polygon of corners [n, 2], filled by the even-odd rule; the distance is that to its nearest side."""
    nexts = np.roll(corners, -1, axis=0)

    def distance(x: Array, y: Array) -> Array:
        nearest = np.full(x.shape, np.inf)
        inside = np.zeros(x.shape, dtype=bool)
        for (x0, y0), (x1, y1) in zip(corners, nexts, strict=True):
            dx, dy = x1 - x0, y1 - y0
            share = np.clip(((x - x0) * dx + (y - y0) * dy) / max(dx * dx + dy * dy, 1e-12), 0.0, 1.0)
            nearest = np.minimum(nearest, np.hypot(x - x0 - share * dx, y - y0 - share * dy))
            crosses = (y0 > y) != (y1 > y)
            if dy:
                inside ^= crosses & (x < x0 + (y - y0) * dx / dy)
        return np.where(inside, -nearest, nearest)

    return distance


def around(cx: float, cy: float, radius: float) -> tuple[float, float, float, float]:
    """The box around a circle."""
    return cx - radius, cy - radius, cx + radius, cy + radius


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG of [height, width] or [height, width, 3] code values.

    Its pixels are the same everywhere; its bytes are the same with one version of zlib.
    """
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw.tobytes(), COMPRESSION)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


WHITE = (0.95047, 1.0, 1.08883)
"""XYZ of D65 for the 2 degree observer."""
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_TO_RGB = np.linalg.inv(_TO_XYZ)
Lab = tuple[float, float, float]


def lab_of(rgb: tuple[float, float, float]) -> Lab:
    """Return L*, a*, b* of sRGB code values of 0 to 255. Source: IEC 61966-2-1, CIE 15:2004."""
    share = np.asarray(rgb, dtype=np.float64) / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    x, y, z = (_curve(float(value) / white) for value, white in zip(_TO_XYZ @ linear, WHITE, strict=True))
    return 116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)


def rgb_of(lab: Lab) -> NDArray[np.float64]:
    """Return sRGB code values, which lie outside 0 to 255 where sRGB has no such colour."""
    y = (lab[0] + 16.0) / 116.0
    values = (y + lab[1] / 500.0, y, y - lab[2] / 200.0)
    xyz = [white * _inverse(value) for value, white in zip(values, WHITE, strict=True)]
    linear = _TO_RGB @ np.asarray(xyz)
    magnitude = np.abs(linear)
    share = np.where(magnitude <= 0.0031308, 12.92 * magnitude, 1.055 * magnitude ** (1 / 2.4) - 0.055)
    return np.asarray(255.0 * np.sign(linear) * share)


def _curve(share: float) -> float:
    return float(share ** (1 / 3)) if share > (6 / 29) ** 3 else share / (3 * (6 / 29) ** 2) + 4 / 29


def _inverse(value: float) -> float:
    return value**3 if value > 6 / 29 else 3 * (6 / 29) ** 2 * (value - 4 / 29)


def difference(first: Lab, second: Lab) -> float:
    """Return CIEDE2000 of two colours, all weights 1.

    Source: Sharma, Wu & Dalal 2005, Color Research and Application 30:21, equations 2 to 22 and its 34 pairs.
    """
    mean_chroma = (hypot(first[1], first[2]) + hypot(second[1], second[2])) / 2
    grey = 0.5 * (1 - sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)))
    a1, a2 = (1 + grey) * first[1], (1 + grey) * second[1]
    chroma1, chroma2 = hypot(a1, first[2]), hypot(a2, second[2])
    hue1, hue2 = _hue(a1, first[2]), _hue(a2, second[2])
    turn = 0.0 if chroma1 * chroma2 == 0 else (hue2 - hue1 + 180.0) % 360.0 - 180.0
    if chroma1 * chroma2 and turn == -180.0 and hue2 > hue1:
        turn = 180.0
    lightness, chroma = second[0] - first[0], chroma2 - chroma1
    hue = 2 * sqrt(chroma1 * chroma2) * sin(radians(turn / 2))
    middle_l, middle_c = (first[0] + second[0]) / 2, (chroma1 + chroma2) / 2
    middle_h = _middle_hue(hue1, hue2, chroma1 * chroma2)
    weight = (
        1
        - 0.17 * cos(radians(middle_h - 30))
        + 0.24 * cos(radians(2 * middle_h))
        + 0.32 * cos(radians(3 * middle_h + 6))
        - 0.20 * cos(radians(4 * middle_h - 63))
    )
    scale_l = 1 + 0.015 * (middle_l - 50) ** 2 / sqrt(20 + (middle_l - 50) ** 2)
    scale_c, scale_h = 1 + 0.045 * middle_c, 1 + 0.015 * middle_c * weight
    rotation = (
        -sin(radians(60 * exp(-(((middle_h - 275) / 25) ** 2)))) * 2 * sqrt(middle_c**7 / (middle_c**7 + 25.0**7))
    )
    dl, dc, dh = lightness / scale_l, chroma / scale_c, hue / scale_h
    return sqrt(max(0.0, dl * dl + dc * dc + dh * dh + rotation * dc * dh))


def _hue(a: float, b: float) -> float:
    return 0.0 if a == 0 and b == 0 else degrees(atan2(b, a)) % 360.0


def _middle_hue(hue1: float, hue2: float, product: float) -> float:
    if product == 0:
        return hue1 + hue2
    if abs(hue1 - hue2) <= 180:
        return (hue1 + hue2) / 2
    return (hue1 + hue2 + 360) / 2 if hue1 + hue2 < 360 else (hue1 + hue2 - 360) / 2
