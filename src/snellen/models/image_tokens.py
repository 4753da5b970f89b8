"""Tokens that a service counts for an image, by its published rule; the rules are data in prices.toml.

A service shrinks an image before it counts, so that the count says what the model gets too. Every rule has the day on which
it was read, and says whether the provider's own page was the source.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

PIXELS_A_TOKEN = 750
"""Pixels in a token where no rule is known: a rough middle of the known rules, which differ by a factor of about three."""
TOKENS_OF_UNKNOWN_SIZE = 1000
"""Tokens of an image whose size is unknown, and of a frame of a video."""

_TILE, _TILES_FIT, _TILES_SHORT = 512, 2048, 768
_CROP, _CROP_FREE = 768, 384


class ImageRule(Struct, frozen=True, forbid_unknown_fields=True):
    """The rule of one service for the tokens of an image.

    Attributes:
        about: the rule in words.
        form: patches (squares of `patch` pixels, times `factor`), tiles (`base` and `tile_tokens` a tile of 512 px), fixed
            (`tokens` whatever the size), crops (`tokens` a crop of up to 768 px).
        day: when it was read.
        source: where.
        confirmed: the source is the provider's own page.
        most_patches, max_side: larger images are shrunk to these; None: they are not.
        details: names of the rules for other values of `--detail`.
    """

    about: str
    form: Literal["patches", "tiles", "fixed", "crops"]
    day: dt.date
    source: str
    confirmed: bool
    patch: int = 32
    factor: float = 1.0
    most_patches: int | None = None
    max_side: int | None = None
    base: int = 0
    tile_tokens: int = 0
    tokens: int = 0
    details: Mapping[str, str] = field(default_factory=dict)

    def count(self, width: int, height: int) -> int:
        """Return the tokens of an image of this many pixels."""
        if self.form == "fixed":
            return self.tokens
        if self.form == "crops":
            if max(width, height) <= _CROP_FREE:
                return self.tokens
            return self.tokens * _cells(width, height, _CROP)
        if self.form == "tiles":
            scale = min(1.0, _TILES_FIT / max(width, height))
            scale *= min(1.0, _TILES_SHORT / (min(width, height) * scale))
            return self.base + self.tile_tokens * _cells(_whole(width * scale), _whole(height * scale), _TILE)
        return math.ceil(round(self._patches(width, height) * self.factor, 6))

    def shrinks(self, width: int, height: int) -> bool | None:
        """Return True if the service shrinks an image of this many pixels; None where the rule does not tell."""
        if self.form == "patches":
            if self.max_side is not None:
                return self._fitted(width, height) != (width, height)
            return self.most_patches is not None and _cells(width, height, self.patch) > self.most_patches
        if self.form == "tiles":
            return max(width, height) > _TILES_FIT or min(width, height) > _TILES_SHORT
        return None

    def _patches(self, width: int, height: int) -> int:
        if self.max_side is not None:
            return _cells(*self._fitted(width, height), self.patch)
        count = _cells(width, height, self.patch)
        if self.most_patches is None or count <= self.most_patches:
            return count
        # As OpenAI's guide on images shrinks: to the area of the budget, then until one side is whole patches.
        scale = math.sqrt(self.patch**2 * self.most_patches / (width * height))
        columns, rows = width * scale / self.patch, height * scale / self.patch
        scale *= min(max(1, math.floor(columns)) / columns, max(1, math.floor(rows)) / rows)
        return min(self.most_patches, _cells(_whole(width * scale), _whole(height * scale), self.patch))

    def _fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the largest size of the same shape within `max_side` and `most_patches`, as Anthropic shrinks."""
        long, short = max(width, height), min(width, height)

        def fits(side: int) -> bool:
            other = max(1, round(short * side / long))
            padded = math.ceil(side / self.patch) * self.patch
            limit = self.most_patches
            return padded <= (self.max_side or padded) and (limit is None or _cells(side, other, self.patch) <= limit)

        low, high = 1, long
        if not fits(long):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle) else (low, middle)
            long, short = low, max(1, round(short * low / long))
        return (long, short) if width >= height else (short, long)


class ImageLimit(Struct, frozen=True):
    """Size up to which a service does not scale an image down.

    Attributes:
        rule: of the model's images; None: unknown.
        side: pixels of the longest side, used where the rule does not tell.
    """

    rule: ImageRule | None
    side: int

    def exceeded(self, width: int, height: int) -> bool:
        """Return True if an image of this many pixels may be scaled down."""
        shrinks = None if self.rule is None else self.rule.shrinks(width, height)
        return max(width, height) > self.side if shrinks is None else shrinks


def rough_tokens(width: int, height: int) -> int:
    """Return the tokens of an image where no rule is known."""
    return -(-width * height // PIXELS_A_TOKEN)


def _cells(width: float, height: float, side: int) -> int:
    return math.ceil(width / side) * math.ceil(height / side)


def _whole(length: float) -> int:
    """Return a length in whole pixels; 2047.9999 is 2048."""
    return max(1, math.floor(length + 1e-6))
