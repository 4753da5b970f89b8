"""A grid of labelled dots over an image: (image, column, row) under each dot.

Dots stand in the middle of the cells of columns x rows equal cells, so that each stands for an equal share of the
image. Dots have an outline and labels a plate of a contrasting colour, and can so be told from light ground and from
dark. The font is at least `LEAST_TEXT` pixels high; an image whose cells cannot hold that is enlarged first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.media.decode import checked_header, pixel_limit, render
from snellen.media.encode import compress
from snellen.sources.blobs import Drawn
from snellen.types import Blob, MediaSettings

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Colour: TypeAlias = tuple[int, int, int]

LEAST_TEXT = 12
MAX_DOTS = 20
LONGEST_SIDE = 16_384
LEAST_CONTRAST = 3.0
JPEG_QUALITY = 95
_SIZE = re.compile(r"(\d{1,2})x(\d{1,2})", re.IGNORECASE)


class DotGrid(Struct, frozen=True):
    """Columns, rows and colours (RGB): `colour` of dots and labels, `outline` around dots and under labels."""

    columns: int = 6
    rows: int = 6
    colour: Colour = (255, 255, 255)
    outline: Colour = (0, 0, 0)

    def over(self, blob: Blob, number: int) -> Blob:
        """Return the image with this grid over it, drawn when it is read; `number` is the image's, from 1."""
        colours = "/".join("#" + bytes(colour).hex() for colour in (self.colour, self.outline))
        return Drawn(
            f"{blob.key}#grid={self.columns}x{self.rows}&image={number}&colours={colours}",
            partial(_drawn, self, blob, number),
        )


def grid_of(options: Mapping[str, str]) -> DotGrid:
    """`-o grid` and `-o grid-color`. Raises UsageError."""
    text = options.get("grid", "6x6")
    match = _SIZE.fullmatch(text.strip())
    if match is None or not all(1 <= int(number) <= MAX_DOTS for number in match.groups()):
        raise UsageError(
            f"grid={text!r}: columns x rows was expected, each from 1 to {MAX_DOTS}", "The default is 6x6."
        )
    return DotGrid(int(match[1]), int(match[2]), *_colours(options.get("grid-color", "white/black")))


def _colours(text: str) -> tuple[Colour, Colour]:
    """Colour and outline; where only one is given, the outline is black or white, whichever stands out more."""
    from PIL import ImageColor

    names = [name.strip() for name in text.split("/")]
    try:
        colours = [ImageColor.getrgb(name)[:3] for name in names]
    except ValueError as error:
        colours, why = [], str(error)
    else:
        why = f"{len(colours)} colours"
    if len(colours) not in (1, 2):
        raise UsageError(
            f"grid-color={text!r}: a colour, or colour/outline, was expected: {why}",
            "Colours are names (yellow) or #rrggbb.",
        )
    if len(colours) == 1:
        colours.append(max(((0, 0, 0), (255, 255, 255)), key=lambda outline: contrast(colours[0], outline)))
    colour, outline = colours
    if contrast(colour, outline) < LEAST_CONTRAST:
        raise UsageError(
            f"grid-color={text!r}: colour and outline have a contrast of {contrast(colour, outline):.1f} to 1; "
            f"at least {LEAST_CONTRAST:g} is needed, or the dots are lost where the picture has that colour",
            "Omit the outline: black or white is used, whichever has the higher contrast.",
        )
    return colour, outline


def contrast(first: Colour, second: Colour) -> float:
    """Contrast ratio of two colours, 1 to 21 (Web Content Accessibility Guidelines 2.2)."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Colour) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class GridLayout(Struct, frozen=True):
    """The place of a grid on an image; all in whole pixels of the image that is drawn.

    Attributes:
        width, height: of the image, enlarged where its own cells are too small for the labels.
        text: size of the font.
        radius: of a dot, without its outline.
        outline: how thick the outline of a dot is, and how far a plate reaches beyond its label.
        places: (column, row, x, y) of each dot, row by row, columns and rows from 1.
    """

    width: int
    height: int
    text: int
    radius: int
    outline: int
    places: tuple[tuple[int, int, int, int], ...]


def layout(width: int, height: int, grid: DotGrid, number: int) -> GridLayout:
    """Return the grid on an image of this size.

    The font is a 45th of the root of the image's area, at most what the cells hold, and at least `LEAST_TEXT`.

    Raises:
        ValueError: the image would have to be enlarged beyond `LONGEST_SIDE` pixels, or beyond the limit of pixels.
    """
    label = re.sub(r"\d", "8", f"({number},{grid.columns},{grid.rows})")
    wide, high = _needed(label, LEAST_TEXT)
    scale = max(1.0, wide * grid.columns / width, high * grid.rows / height)
    if scale > 1:
        width, height = math.ceil(width * scale), math.ceil(height * scale)
        if max(width, height) > LONGEST_SIDE or width * height > pixel_limit():
            raise ValueError(f"it would have to be {width} x {height} pixels large")
    room = LEAST_TEXT * min(width / grid.columns / wide, height / grid.rows / high)
    text = max(LEAST_TEXT, min(math.isqrt(width * height) // 45, math.floor(room)))
    while text > LEAST_TEXT and not _fits(_needed(label, text), width / grid.columns, height / grid.rows):
        text -= 1
    return GridLayout(
        width,
        height,
        text,
        *_strokes(text),
        tuple(
            (column, row, (2 * column - 1) * width // (2 * grid.columns), (2 * row - 1) * height // (2 * grid.rows))
            for row in range(1, grid.rows + 1)
            for column in range(1, grid.columns + 1)
        ),
    )


def _strokes(text: int) -> tuple[int, int]:
    return max(3, text // 5), max(1, text // 12)


def _fits(needed: tuple[int, int], wide: float, high: float) -> bool:
    return needed[0] <= wide and needed[1] <= high


def _needed(label: str, text: int) -> tuple[int, int]:
    """Return the width and height of a cell that holds a dot in its middle and this label below it, neighbours apart."""
    radius, outline = _strokes(text)
    left, upper, right, lower = _font(text).getbbox(label, anchor="mt")
    wide = 2 * (math.ceil(max(-left, right)) + outline + 1)
    return wide + text // 4, 2 * (radius + 3 * outline + math.ceil(lower - upper) + 2)


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _drawn(grid: DotGrid, blob: Blob, number: int) -> bytes:
    from PIL import Image as pillow
    from PIL import ImageDraw

    picture, jpeg = upright(blob)
    try:
        lies = layout(*picture.size, grid, number)
    except ValueError as error:
        raise DataError(
            f"image {blob.key}: {picture.width} x {picture.height} pixels cannot hold a grid of {grid.columns} x "
            f"{grid.rows} labelled dots: {error}",
            "Choose a coarser one with -o grid.",
        ) from error
    size = lies.width, lies.height
    picture = picture.copy() if size == picture.size else picture.resize(size, pillow.Resampling.BICUBIC)
    brush = ImageDraw.Draw(picture)
    whole = lies.radius + lies.outline
    for column, row, x, y in lies.places:
        brush.ellipse((x - whole, y - whole, x + whole, y + whole), fill=grid.outline)
        brush.ellipse((x - lies.radius, y - lies.radius, x + lies.radius, y + lies.radius), fill=grid.colour)
        _write(brush, f"({number},{column},{row})", x, y + whole, lies, grid)
    return written(picture, jpeg)


def _write(brush: Any, label: str, x: int, y: int, lies: GridLayout, grid: DotGrid) -> None:
    """A label on its plate, whose upper edge has its middle at (x, y)."""
    font = _font(lies.text)
    left, upper, right, lower = (math.floor(edge) for edge in font.getbbox(label, anchor="mt"))
    top = y + lies.outline - upper
    around = (x + left - lies.outline, y, x + right + lies.outline, top + lower + lies.outline)
    brush.rectangle(around, fill=grid.outline)
    brush.text((x, top), label, fill=grid.colour, font=font, anchor="mt")


def upright(blob: Blob) -> tuple[Picture, bool]:
    """Return an image as viewers show it, RGB and at its own size, and whether it was a JPEG.

    Raises MediaError, DataError.
    """
    data = blob.read()
    header = checked_header(data, blob.key, pixel_limit())
    return render(data, header, blob.key, MediaSettings()), header.format == "jpeg"


def written(picture: Picture, jpeg: bool) -> bytes:
    """The file of an image that was drawn on or cut: a JPEG stays one (quality 95, no chroma subsampling, which would
    blur small labels); all else becomes PNG, without loss. The same image gives the same bytes.
    """
    if not jpeg:
        return compress(picture, "png", JPEG_QUALITY)
    import numpy as np
    import simplejpeg

    data: bytes = simplejpeg.encode_jpeg(
        np.ascontiguousarray(np.asarray(picture)), JPEG_QUALITY, colorspace="RGB", colorsubsampling="444"
    )
    return data
