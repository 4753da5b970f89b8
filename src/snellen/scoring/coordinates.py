"""Coordinates of boxes and points: in which space and order they are written, and where they lie in pixels of the image.

Arithmetic is exact (fractions of what was written), so that a box is the same box in every space that can write it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from msgspec import Struct

from snellen.errors import UsageError
from snellen.media.decode import fitted
from snellen.types import MediaSettings, Sample

COORDINATES, COORDINATES_BY, SENT = "coordinates", "coordinates_by", "sent_size"
"""Settings of a benchmark: the space of replies, what chose it, and what decides the size of images as sent."""
ODD_METRIC = "coordinates-odd"
MOST_ODD = 0.2
"""Name of the share of replies whose coordinates show a wrong space, and up to where it is not worth a warning."""
REPLY_SPACE = "box.reply_space"
"""Name of meta. No column of a user's table has such a name."""
SIDES: Mapping[str, int] = {"box": 4, "boxes": 4, "point": 2, "points": 2, "region": 2}
"""Kinds of answers with coordinates, and how many numbers each has."""
Numbers: TypeAlias = tuple[Fraction, ...]
SPACES: Mapping[str, str] = {
    "unit": "0 to 1 of the image's width and height",
    "percent": "0 to 100 of the image's width and height",
    "thousand": "0 to 1000 of the image's width and height",
    "pixel": "pixels of the image in the data",
    "sent-pixel": "pixels of the image as the model received it",
}
MOST: Mapping[str, int] = {"unit": 1, "percent": 100, "thousand": 1000}
"""Spaces that do not depend on the image's size, with the number that stands for its whole width and height."""
FORMS: Mapping[str, str] = {
    "xyxy": "[x1, y1, x2, y2]",
    "xywh": "[x, y, width, height]",
    "cxcywh": "[x of the centre, y of the centre, width, height]",
    "yxyx": "[y1, x1, y2, x2]",
}
"""Orders of the four numbers of a box, as a prompt asks for them."""
_WRITTEN = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,2})?", re.ASCII)
_POINT_ORDERS = {"xy": "xyxy", "yx": "yxyx"}


class Coordinates(Struct, frozen=True):
    """The space and the order of coordinates; with `yxyx`, points have y first too."""

    space: str
    order: str = "xyxy"

    def __str__(self) -> str:
        return f"{self.space}:{self.order}"

    @property
    def y_first(self) -> bool:
        """Return True if y stands before x."""
        return self.order == "yxyx"

    @property
    def box_form(self) -> str:
        """Return how the numbers of a box stand."""
        return FORMS[self.order]

    @property
    def point_form(self) -> str:
        """Return how the numbers of a point stand."""
        return "[y, x]" if self.y_first else "[x, y]"

    def corners(self, numbers: Sequence[Fraction]) -> Numbers:
        """Return left, top, right and bottom of the four numbers of a box; of other even numbers each x with its y behind it."""
        if len(numbers) != 4:
            return tuple(numbers[at ^ 1] for at in range(len(numbers))) if self.y_first else tuple(numbers)
        first, second, third, fourth = numbers
        if self.order == "yxyx":
            return second, first, fourth, third
        if self.order == "xywh":
            return first, second, first + third, second + fourth
        if self.order == "cxcywh":
            return first - third / 2, second - fourth / 2, first + third / 2, second + fourth / 2
        return first, second, third, fourth

    def extent(self, size: tuple[int, int], sent: tuple[int, int] | None = None) -> tuple[int, int]:
        """Return the coordinates of the image's right and bottom edge.

        Args:
            size: width and height of the image in pixels.
            sent: those of the image as the model received it, for `sent-pixel`.
        """
        if self.space in MOST:
            return MOST[self.space], MOST[self.space]
        return size if self.space == "pixel" or sent is None else sent

    def pixels(
        self, numbers: Sequence[Fraction], size: tuple[int, int], sent: tuple[int, int] | None = None
    ) -> Numbers:
        """Return the corners of a box, or a point, in pixels of the image. Arguments as for `extent`."""
        scales = [Fraction(side, most) for side, most in zip(size, self.extent(size, sent), strict=True)]
        return tuple(value * scales[at % 2] for at, value in enumerate(self.corners(numbers)))


def parse_coordinates(text: str, option: str = "--coordinates") -> Coordinates:
    """Parse `SPACE[:ORDER]`; the order of points, `xy` or `yx`, stands for that of boxes too.

    >>> str(parse_coordinates("thousand:yx")), str(parse_coordinates("unit"))
    ('thousand:yxyx', 'unit:xyxy')

    Raises:
        UsageError: there is no such space or order.
    """
    space, _, order = text.strip().lower().partition(":")
    order = _POINT_ORDERS.get(order, order) or "xyxy"
    if space not in SPACES:
        raise UsageError(
            f"{option} {text}: there is no space {space!r}; one of {', '.join(SPACES)} was expected",
            f"For example {option} thousand, or {option} pixel:xywh.",
        ).near(space, tuple(SPACES))
    if order not in FORMS:
        raise UsageError(
            f"{option} {text}: there is no order {order!r}; one of {', '.join((*FORMS, *_POINT_ORDERS))} was expected",
            f"For example {option} {space}:xyxy.",
        ).near(order, (*FORMS, *_POINT_ORDERS))
    return Coordinates(space, order)


def exact(number: object) -> Fraction | None:
    """Return a number as it is written, exactly; None for what is no finite number, such as NaN.

    >>> exact(0.1), exact("NaN")
    (Fraction(1, 10), None)
    """
    text = str(number).strip().replace("−", "-")
    return Fraction(text) if not isinstance(number, bool) and _WRITTEN.fullmatch(text) else None


class SmartResize(Struct, frozen=True, forbid_unknown_fields=True):
    """The resizing of the Qwen-VL processors: both sides a multiple of `factor`, the number of pixels within bounds.

    Source: `smart_resize` of the processors of Qwen2-VL and Qwen2.5-VL, and UI-TARS's README_coordinates.md.
    """

    factor: int
    min_pixels: int
    max_pixels: int

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height in pixels after resizing."""
        factor, pixels = self.factor, width * height
        wide, high = (max(factor, round(side / factor) * factor) for side in (width, height))
        if wide * high > self.max_pixels:
            scale = math.sqrt(pixels / self.max_pixels)
            wide, high = (max(factor, math.floor(side / scale / factor) * factor) for side in (width, height))
        elif wide * high < self.min_pixels:
            scale = math.sqrt(self.min_pixels / pixels)
            wide, high = (math.ceil(side * scale / factor) * factor for side in (width, height))
        return wide, high


class SentSize(Struct, frozen=True, omit_defaults=True):
    """What decides the size of an image as the model received it: the settings of the run, then the model's processor."""

    media: MediaSettings = MediaSettings()
    resize: SmartResize | None = None

    def of(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height in pixels as the model received an image."""
        size = fitted(width, height, self.media)
        return size if self.resize is None else self.resize.size(*size)


def is_grounded(sample: Sample) -> bool:
    """Return True for a sample whose coordinates have a declared space."""
    return sample.kind in SIDES and REPLY_SPACE in sample.meta
