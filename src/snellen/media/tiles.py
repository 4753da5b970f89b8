"""Tiles of an image: equal parts of a grid, cut when they are sent, so that a large image is shown in full resolution."""

from __future__ import annotations

import re

from msgspec import Struct, structs

from snellen.errors import MediaError, UsageError
from snellen.media.decode import open_image, read_header
from snellen.media.encode import compress
from snellen.types import Blob, Image, MediaSettings, Part, Prompt

MOST_TILES = 64


class ImageTile(Struct, frozen=True):
    """One part of a grid over an upright image; `read` decodes the image and gives the part as a PNG.

    Attributes:
        image: the whole image.
        column, row: which part, from 0.
        columns, rows: of the grid.
    """

    image: Blob
    column: int
    row: int
    columns: int
    rows: int

    @property
    def key(self) -> str:
        place = self.row * self.columns + self.column + 1
        return f"{self.image.key}, tile {place} of {self.columns}x{self.rows}"

    @property
    def pixels(self) -> tuple[int, int] | None:
        """Width and height; None where the image's header is not understood. Raises DataError."""
        header = read_header(self.image.read())
        if header is None:
            return None
        left, top, right, bottom = self._box(*header.upright_size)
        return right - left, bottom - top

    def _box(self, width: int, height: int) -> tuple[int, int, int, int]:
        left, right = (width * at // self.columns for at in (self.column, self.column + 1))
        top, bottom = (height * at // self.rows for at in (self.row, self.row + 1))
        return left, top, right, bottom

    def read(self) -> bytes:
        """Cut the tile. Raises MediaError for an image that cannot be decoded or has no pixel for this part; DataError."""
        whole = open_image(Image(self.image), MediaSettings())
        left, top, right, bottom = self._box(*whole.size)
        if left == right or top == bottom:
            size = f"{whole.width} x {whole.height} pixels"
            raise MediaError(f"image {self.key}: the image has {size}, too few to be cut", "Use a smaller grid.")
        return compress(whole.crop((left, top, right, bottom)), "png", 100)


def grid(text: str) -> tuple[int, int]:
    """Return columns and rows of a grid such as `2x2`. Raises UsageError for another text, or over MOST_TILES parts."""
    found = re.fullmatch(r"(\d{1,2})x(\d{1,2})", text)
    columns, rows = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 < columns * rows <= MOST_TILES:
        raise UsageError(f"tiles {text!r}: COLUMNSxROWS with 2 to {MOST_TILES} tiles was expected, such as 2x2")
    return columns, rows


def with_tiles(prompt: Prompt, columns: int, rows: int) -> Prompt:
    """Return the prompt with the tiles of each image behind it, row by row."""
    parts: list[Part] = []
    for part in prompt.parts:
        parts.append(part)
        if isinstance(part, Image):
            places = [(column, row) for row in range(rows) for column in range(columns)]
            parts += [Image(ImageTile(part.blob, *place, columns, rows)) for place in places]
    return structs.replace(prompt, parts=tuple(parts))
