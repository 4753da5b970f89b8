"""The images of one conversation, by neutral names: `image.jpg`, and `view-1.jpg` for what a tool made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.errors import DataError, MediaError
from snellen.media import encode, open_image, read_header
from snellen.media.encode import compress
from snellen.sources import BytesBlob, within
from snellen.sources.safe_paths import regular_file
from snellen.types import Image, MediaSettings

SUFFIXES = {"jpeg": "jpg", "png": "png", "webp": "webp", "gif": "gif", "bmp": "bmp", "tiff": "tif", "dicom": "dcm"}
# Far more than a camera has, far less than what fills the memory.
MAX_PIXELS = 60_000_000
LARGEST_FILE = 100_000_000
QUALITY = 95


class ToolImages:
    """Images by name: given as bytes, lying in a folder, or made by a tool.

    Args:
        images: the images of a question in their order; they are named by content, `image.jpg` where there is one and
            `image-1.jpg`, `image-2.png` … where there are several.
        folder: in place of them, a folder whose files are named as they are. Nothing outside of it can be read.
        out: folder to write what tools make, for agents that read files; None keeps it in memory.
    """

    def __init__(self, images: Sequence[bytes] = (), folder: Path | None = None, out: Path | None = None) -> None:
        numbers = [None] if len(images) == 1 else range(1, len(images) + 1)
        self._held = {image_name(data, number): data for data, number in zip(images, numbers, strict=True)}
        self._folder = folder
        self._out = out

    def names(self) -> list[str]:
        """Return the names that can be read now."""
        names = list(self._held)
        if self._folder is not None:
            suffixes = {f".{suffix}" for suffix in (*SUFFIXES.values(), "jpeg", "tiff")}
            lying = (path.name for path in self._folder.iterdir() if path.suffix.lower() in suffixes)
            names += sorted(name for name in lying if name not in self._held)
        return names

    def read(self, name: str) -> bytes:
        """Return the bytes of an image.

        Raises:
            DataError: there is none of that name; the message lists those there are. A name that leads out of the
                folder is refused like any other that is not there.
        """
        name = name.removeprefix("./")
        if name in self._held:
            return self._held[name]
        if self._folder is not None:
            try:
                path = within(self._folder, name)
                if path.is_file() and regular_file(path).st_size <= LARGEST_FILE:
                    return path.read_bytes()
            except (DataError, OSError):
                pass  # told below, and not how the name looks from outside
        raise DataError(f"there is no picture {name[:200]!r}; there are {', '.join(self.names()) or 'none'}")

    def add(self, data: bytes) -> str:
        """Keep an image that a tool made, and name it."""
        taken = {Path(name).stem for name in self.names()}
        if self._out is not None and self._out.is_dir():
            taken |= {path.stem for path in self._out.iterdir()}
        number = 1
        while f"view-{number}" in taken:
            number += 1
        name = image_name(data, number, "view")
        self._held[name] = data
        if self._out is not None:
            self._out.mkdir(parents=True, exist_ok=True)
            (self._out / name).write_bytes(data)
        return name


def image_name(data: bytes, number: int | None, stem: str = "image") -> str:
    """Return the neutral name of an image, its suffix by its content: image.jpg without a number, else image-2.png."""
    header = read_header(data)
    return f"{stem}{'' if number is None else f'-{number}'}.{'bin' if header is None else SUFFIXES[header.format]}"


def shown(data: bytes, name: str, side: int) -> tuple[bytes, str]:
    """Return an image at the size for a model, and a line with its size. Untouched where it is within `side` pixels.

    Raises:
        MediaError: damaged, of no accepted format, or too large to decode.
    """
    encoded = encode(BytesBlob(name, data), MediaSettings(max_long_side=side), MAX_PIXELS)
    header = read_header(data)
    width, height = header.upright_size if header else (encoded.width, encoded.height)
    line = f"{name}: {width} x {height} pixels"
    if (encoded.width, encoded.height) != (width, height):
        line += f", shown at {encoded.width} x {encoded.height}"
    return encoded.data, line


def cropped(data: bytes, name: str, box: Sequence[float], scale: float, side: int) -> tuple[bytes, str]:
    """Return a part of an image, enlarged, as JPEG.

    Args:
        data: the image; turned upright first.
        name: for the line that says what was done.
        box: left, top, right, bottom: fractions of width and height where none is above 1, otherwise pixels. What lies
            outside of the image is cut off.
        scale: how much larger each side becomes, 1 to 8; less where the result would be longer than `side` pixels.

    Raises:
        MediaError: damaged, of no accepted format, or too large to decode; or the box holds nothing.
    """
    from PIL import Image as pillow

    image = open_image(Image(BytesBlob(name, data)), MediaSettings(), MAX_PIXELS)
    width, height = image.size
    unit = (width, height, width, height) if max(box) <= 1 else (1, 1, 1, 1)
    left, top, right, bottom = (round(value * size) for value, size in zip(box, unit, strict=True))
    left, right = max(0, left), min(width, right)
    top, bottom = max(0, top), min(height, bottom)
    if right - left < 2 or bottom - top < 2:
        raise MediaError(
            f"the box {list(box)} holds nothing of {name} ({width} x {height} pixels); give left, top, right, bottom"
        )
    scale = min(scale, side / max(right - left, bottom - top))
    size = (max(1, round((right - left) * scale)), max(1, round((bottom - top) * scale)))
    part = image.crop((left, top, right, bottom)).resize(size, pillow.Resampling.LANCZOS)
    line = f"pixels {left}, {top} to {right}, {bottom} of {name} ({width} x {height}), shown at {size[0]} x {size[1]}"
    return compress(part, "jpeg", QUALITY), line
