"""Bands of TIFF files that Pillow does not read as they are: two or more than four, and several of more than 8 bits (tifffile)."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

from snellen.errors import MediaError, MissingExtraError
from snellen.installation import install_hint
from snellen.media.sample_range import chosen_bands, to_8_bits, window_range

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

NO_DATA = 42113
"""The tag in which GDAL writes the value that stands for no data, as text."""
_BYTES_A_PIXEL = 16
_DEFLATE = (8, 32946)
_BOUNDED = (1, 5, 32773, *_DEFLATE)
"""Compressions that are decoded: none, LZW, PackBits, Deflate. Deflate is unpacked here first, up to the size of a segment."""


def shown_bands(bands: str, samples: int) -> tuple[int, ...]:
    """Return the numbers of the bands that are shown, from 1: those asked for, else 1, 2, 3 of three or more, else 1."""
    return chosen_bands(bands) or ((1, 2, 3) if samples >= 3 else (1,))


def no_data_of(text: Any) -> float | None:
    """Return the value that stands for no data, from the text of its tag; None where it is no number."""
    try:
        return float(str(text).strip(" \0"))
    except ValueError:
        return None


def band_image(data: bytes, key: str, bands: str, window: str, limit: int) -> PillowImage:
    """Return the shown bands of the first image of a TIFF whose size in pixels was checked, in grey or RGB.

    Raises:
        MissingExtraError: tifffile is not installed.
        MediaError: a band that is asked for is not there, or all bands together are too large to be decoded.
        Exception: whatever tifffile stumbles over in a damaged file.
    """
    try:
        from tifffile import TiffFile
    except ImportError as error:
        raise MissingExtraError(
            f"image {key}: TIFF of such bands needs tifffile, which is not installed", install_hint("geotiff")
        ) from error
    import numpy as np
    from PIL import Image as pillow

    with TiffFile(BytesIO(data)) as file:
        page: Any = file.pages[0]
        numbers = shown_bands(bands, page.samplesperpixel)
        if max(numbers) > page.samplesperpixel:
            raise MediaError(
                f"image {key}: it has {page.samplesperpixel} bands; band {max(numbers)} is not among them",
                "Name others in --bands.",
            )
        if page.nbytes > _BYTES_A_PIXEL * limit:
            raise MediaError(
                f"image {key}: its {page.samplesperpixel} bands have {page.nbytes:,} bytes; at most "
                f"{_BYTES_A_PIXEL * limit:,} are decoded",
                "Write the bands that are asked about into a file of their own.",
            )
        _check_segments(page, data, key)
        pixels = page.asarray(maxworkers=1)
        absent = no_data_of(page.tags.valueof(NO_DATA)) if NO_DATA in page.tags else None
        if page.samplesperpixel > 1:
            at = [number - 1 for number in numbers]
            pixels = np.moveaxis(pixels[at], 0, -1) if page.axes == "SYX" else pixels[..., at]
    pixels = pixels.reshape(page.imagelength, page.imagewidth, -1)
    pixels = pixels[..., 0] if len(numbers) == 1 else pixels
    is_shown = pixels.dtype == np.uint8
    return pillow.fromarray(
        np.ascontiguousarray(pixels) if is_shown else to_8_bits(pixels, window_range(window), absent)
    )


def _check_segments(page: Any, data: bytes, key: str) -> None:
    """Raise MediaError for a compression without a bound, and for a segment that unpacks to more than it may hold."""
    if page.compression not in _BOUNDED:
        raise MediaError(
            f"image {key}: a TIFF of {page.samplesperpixel} bands compressed as {page.compression.name}; none, LZW, PackBits "
            "or Deflate was expected",
            "Write it anew: gdal_translate -co COMPRESS=DEFLATE FILE NEW.",
        )
    if page.compression not in _DEFLATE:
        return
    rows, width = (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, page.imagewidth)
    most = min(rows, 1 << 24) * width * page.samplesperpixel * page.dtype.itemsize
    for start, size in zip(page.dataoffsets, page.databytecounts, strict=True):
        if len(zlib.decompressobj().decompress(data[start : start + size], most + 1)) > most:
            raise MediaError(f"image {key}: a part of it unpacks to more than its {most:,} bytes", "Fetch it again.")
