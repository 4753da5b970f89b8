"""A small integer rasteriser: the same pixels on every platform, since no floating point touches one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.chart.rng import Stream

Colour = tuple[int, int, int]
Pixels = NDArray[np.uint8]


class Canvas:
    """A square image in the making.

    `pixels` is [size, size, 3]; `parts` is [size, size] and says which part of what every pixel shows
    (16 x object + part, 0 is background): the chart does not need it, training on dense labels does.
    Lengths and places are given in thousandths of the image's side, so that a scene is the same at every size.
    """

    def __init__(self, size: int, background: Colour) -> None:
        self.size = size
        self.pixels: Pixels = np.empty((size, size, 3), dtype=np.uint8)
        self.pixels[:] = background
        self.parts: NDArray[np.uint8] = np.zeros((size, size), dtype=np.uint8)

    def scaled(self, thousandths: int) -> int:
        """Thousandths of the side in pixels, rounded down."""
        return thousandths * self.size // 1000

    def block(self, x0: int, y0: int, x1: int, y1: int, colour: Colour, part: int) -> None:
        """Fill the box from (x0, y0) up to and without (x1, y1), in thousandths."""
        rows = slice(max(self.scaled(y0), 0), max(self.scaled(y1), 0))
        columns = slice(max(self.scaled(x0), 0), max(self.scaled(x1), 0))
        self.pixels[rows, columns] = colour
        self.parts[rows, columns] = part

    def spans(self, cx: int, cy: int, half_widths: NDArray[np.int64], colour: Colour, part: int) -> NDArray[np.bool_]:
        """Fill a figure that is symmetric about the vertical line through cx, and return where it lies.

        Args:
            cx: centre column in thousandths; cy: centre row in thousandths.
            half_widths: [2 r + 1] half the width of each row in pixels, top to bottom, centred on cy.
            colour: what it is filled with; part: what `parts` says there.

        Returns:
            [size, size] bool mask of the pixels that were filled.
        """
        column, top = self.scaled(cx), self.scaled(cy) - len(half_widths) // 2
        widths = np.full(self.size, -1, dtype=np.int64)
        first, last = max(top, 0), min(top + len(half_widths), self.size)
        widths[first:last] = half_widths[first - top : last - top]
        mask: NDArray[np.bool_] = np.abs(np.arange(self.size) - column)[None, :] <= widths[:, None]
        self.pixels[mask] = colour
        self.parts[mask] = part
        return mask

    def finished(self, stream: Stream, brightness: int) -> Pixels:
        """Return the image with its brightness (per cent) changed and grain of up to 15 grey levels added."""
        octets = stream.octets(self.pixels.size).reshape(self.pixels.shape).astype(np.int32)
        grain = (octets & 15) + (octets >> 4) - 15
        lit: NDArray[np.int32] = self.pixels.astype(np.int32) * brightness // 100 + grain
        return np.clip(lit, 0, 255).astype(np.uint8)


def disc(radius: int) -> NDArray[np.int64]:
    """[2 radius + 1] half widths of the rows of a disc, in pixels: the largest w with w**2 + y**2 <= radius**2 + radius."""
    rows = np.arange(-radius, radius + 1, dtype=np.int64)
    columns = np.arange(radius + 1, dtype=np.int64)
    inside = columns[None, :] ** 2 + rows[:, None] ** 2 <= radius * radius + radius
    widths: NDArray[np.int64] = inside.sum(axis=1, dtype=np.int64) - 1
    return widths


def square(radius: int) -> NDArray[np.int64]:
    """[2 radius + 1] half widths of the rows of a square a little smaller than the disc's box."""
    rows = np.arange(-radius, radius + 1, dtype=np.int64)
    side = radius * 95 // 100
    return np.where(np.abs(rows) <= side, side, -1)


def triangle(radius: int) -> NDArray[np.int64]:
    """[2 radius + 1] half widths of the rows of a triangle that stands on its base."""
    rows = np.arange(2 * radius + 1, dtype=np.int64)
    return rows * 11 // 20
