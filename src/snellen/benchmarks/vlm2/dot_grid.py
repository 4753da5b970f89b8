"""Visual prompts: a grid of labelled dots over an image, (image, column, row) under each dot; and images cut to boxes.

Dots stand in the middle of the cells of columns x rows equal cells, so that each stands for an equal share of the
image. Dots have an outline and labels a plate of a contrasting colour, and can so be told from light ground and from
dark. The font is at least `LEAST_TEXT` pixels high; an image whose cells cannot hold that is enlarged first.

Boxes that a detector found, and images cut to them.

Which detector is the user's choice; `snellen build boxes` runs one before the run. Coordinates are pixels of the upright
image (Exif orientation applied), x0, y0 at the upper left and x1, y1 at the lower right, the latter not included.
"""

from __future__ import annotations

import difflib
import math
import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.media.decode import checked_header, pixel_limit, render
from snellen.media.encode import compress
from snellen.sources.blobs import Drawn, Unreadable
from snellen.sources.rows import numbered
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


CORNERS = ("x0", "y0", "x1", "y1")


class Box(Struct, frozen=True):
    """A rectangle in pixels of the upright image; `where` is the line or row of the file in which it stands."""

    x0: float
    y0: float
    x1: float
    y1: float
    where: str = ""


class Boxes(Struct, frozen=True):
    """One box an image, by the image's path as the questions give it; `file` is where they were read."""

    file: str
    by_image: Mapping[str, Box]

    def crop(self, blob: Blob, name: str, margin: float) -> Blob:
        """Return the part of an image that its box encloses, cut when it is read.

        Args:
            name: its path as the question's row gives it.
            margin: kept on each side, as a fraction of the box's width (left, right) and height (above, below).

        Returns:
            A blob whose `read` raises DataError where the image has no box, or its box does not lie in the image.
        """
        box = self.by_image.get(plain(name))
        if box is None:
            similar = difflib.get_close_matches(plain(name), self.by_image, 1)
            return Unreadable(
                f"{blob.key}#no-box",
                f"{self.file}: no box for the image {name}"
                + (f"; the nearest name in it is {similar[0]}" if similar else ""),
                "Add its box, under the path that the question file gives.",
            )
        corners = ",".join(f"{value!r}" for value in (box.x0, box.y0, box.x1, box.y1))
        key = f"{blob.key}#crop={corners}&margin={margin!r}"
        return Drawn(key, partial(_cut, blob, box, margin, f"{self.file}, {box.where}"))

    def notices(self, names: Iterable[str]) -> list[str]:
        """Return warnings: boxes for images that no question shows, images without a box."""
        images = {plain(name) for name in names}
        unknown, missing = sorted(self.by_image.keys() - images), sorted(images - self.by_image.keys())
        lines = []
        if unknown:
            lines.append(
                f"{self.file}: {len(unknown):,} of {len(self.by_image):,} images in it are shown by no question "
                f"(the first is {unknown[0]})"
            )
        if missing:
            lines.append(
                f"{self.file}: {len(missing):,} of {len(images):,} images have no box; their questions fail "
                f"(the first is {missing[0]})"
            )
        return lines


def plain(name: str) -> str:
    """Return an image's path in one spelling: forward slashes, no `./`."""
    return posixpath.normpath(name.strip().replace("\\", "/"))


def margin_of(options: Mapping[str, str]) -> float:
    """`-o crop-margin`. Raises UsageError."""
    text = options.get("crop-margin", "0")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 10:
        raise UsageError(
            f"crop-margin={text!r}: a fraction of the box's sides from 0 to 10 was expected",
            "0.1 keeps a tenth of the box's width on its left and right, and of its height above and below.",
        )
    return value + 0.0


def read_boxes(path: Path) -> Boxes:
    """Return the boxes of a file whose rows have `image`, and `box` (x0, y0, x1, y1) or columns of these names.

    Of several boxes for an image the one with the highest `score` counts, else the first.

    Raises:
        DataError: the file cannot be read, is empty, or a row has no image or no box; names the line of the first such
            row and how many there are.
    """
    best: dict[str, tuple[float, Box]] = {}
    faults: list[str] = []
    unit = "line" if path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv") else "row"
    for line, row in numbered(path):
        where = f"{unit} {line:,}"
        try:
            name, box, score = _row(row, where)
        except ValueError as fault:
            faults.append(f"{path}, {where}: {fault}")
            continue
        if name not in best or score > best[name][0]:
            best[name] = score, box
    if faults:
        others = f"; {len(faults) - 1:,} more rows are at fault" if len(faults) > 1 else ""
        raise DataError(
            faults[0] + others,
            "A row is {image, box: [x0, y0, x1, y1]} or has columns x0 to y1: pixels of the upright picture, "
            "x0 < x1 and y0 < y1.",
        )
    if not best:
        raise DataError(f"{path}: no boxes were found", "Give the file that the detector's boxes were written to.")
    return Boxes(str(path), {name: box for name, (_, box) in best.items()})


def _row(row: Mapping[str, Any], where: str) -> tuple[str, Box, float]:
    """(image, box, score) of a row; a row without a score has the lowest. Raises ValueError, which says what is wrong."""
    name = row.get("image")
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"image is {name!r}; the path of an image was expected")
    box = row.get("box")
    if box is None:
        missing = [corner for corner in CORNERS if row.get(corner) in (None, "")]
        if missing:
            raise ValueError(f"neither box nor {', '.join(missing)}")
        box = [row[corner] for corner in CORNERS]
    if isinstance(box, str):
        try:
            box = msgspec.json.decode(box)
        except (msgspec.DecodeError, RecursionError):
            raise ValueError(f"box is {box!r}; [x0, y0, x1, y1] was expected") from None
    if not isinstance(box, list) or len(box) != len(CORNERS):
        raise ValueError(f"box is {box!r}; four numbers, x0, y0, x1, y1, were expected")
    x0, y0, x1, y1 = (_number(value, corner) for value, corner in zip(box, CORNERS, strict=True))
    if x1 <= x0 or y1 <= y0:
        raise ValueError(
            f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} is empty; corners were expected, not width and height"
        )
    if max(map(abs, (x0, y0, x1, y1))) <= 1:
        raise ValueError(
            f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} lies in one pixel; pixels were expected, not fractions"
        )
    score = row.get("score")
    return plain(name), Box(x0, y0, x1, y1, where), -math.inf if score in (None, "") else _number(score, "score")


def _number(value: Any, label: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{label} is {value!r}; a finite number was expected")
    return number


def clipped(box: Box, margin: float, width: int, height: int) -> tuple[int, int, int, int]:
    """Return the whole pixels that a box with its margin touches, within an image of this size.

    Returns:
        (left, upper, right, lower), right and lower not included, at least one pixel each way.

    Raises:
        ValueError: less than half of the box (without margin) lies in the image: it belongs to another one, or to
            this one at another size.
    """
    wide, high = box.x1 - box.x0, box.y1 - box.y0
    inside = (
        max(0.0, min(box.x1, width) - max(box.x0, 0.0))
        / wide
        * (max(0.0, min(box.y1, height) - max(box.y0, 0.0)) / high)
    )
    if inside < 0.5:
        raise ValueError(f"{inside:.0%} of the box lies inside")
    left = max(0, math.floor(box.x0 - margin * wide))
    upper = max(0, math.floor(box.y0 - margin * high))
    right = min(width, math.ceil(box.x1 + margin * wide))
    lower = min(height, math.ceil(box.y1 + margin * high))
    return left, upper, right, lower


def _cut(blob: Blob, box: Box, margin: float, where: str) -> bytes:
    picture, jpeg = upright(blob)
    try:
        corners = clipped(box, margin, *picture.size)
    except ValueError as error:
        raise DataError(
            f"{where}: the box {box.x0:g}, {box.y0:g}, {box.x1:g}, {box.y1:g} is not one of image {blob.key}, which "
            f"is {picture.width} x {picture.height} pixels upright: {error}",
            "Give boxes in pixels of the original file with its Exif orientation applied.",
        ) from error
    return written(picture.crop(corners), jpeg)
