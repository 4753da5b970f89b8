"""Decoding of untrusted bytes to an upright RGB image of the requested size.

Rules, part of every run's record (`describe`):

- JPEG of one or three channels is decoded by simplejpeg (its own libjpeg-turbo), in full: scaled DCT decoding is faster
  and changes pixels by up to 36 of 255. Everything else, and a JPEG that libjpeg-turbo warns about, goes through
  Pillow, limited to JPEG, PNG, WebP, GIF, BMP and TIFF.
- Only the first frame of an animation is used. Colour profiles are not applied.
- Transparency is laid over white. 16-bit channels keep their high byte. 32-bit integer and float pixels have no agreed
  white: they are stretched from their own lowest to their own highest value. CMYK is converted as Pillow does.
- Exif orientation is applied, then `corrupt` (snellen.media.corruptions). Images are made smaller (Pillow, bicubic with
  antialiasing), never larger.
"""

from __future__ import annotations

import os
from math import isqrt
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.errors import MediaError
from snellen.media import corruptions
from snellen.media.image_headers import Header, read_header
from snellen.text import GIT_LFS_START
from snellen.types import Image, MediaSettings

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

PIXEL_LIMIT = 200_000_000
PIXEL_LIMIT_VARIABLE = "SNELLEN_MAX_IMAGE_PIXELS"
MAX_SCANS, MAX_SCANNED_PIXELS = 100, 4_000_000_000
"""Maximum scans of a JPEG, and scans times pixels. A scan of a few bytes visits all pixels; encoders write up to 20."""
GREY = (128, 128, 128)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")


def pixel_limit() -> int:
    """Return the maximum pixels (width x height) of an image: 200 million, or the environment's value."""
    text = os.environ.get(PIXEL_LIMIT_VARIABLE, "")
    if not text:
        return PIXEL_LIMIT
    if not text.isdecimal() or int(text) < 1:
        raise MediaError(
            f"{PIXEL_LIMIT_VARIABLE} is {text!r}; a whole number of pixels above 0 was expected",
            f"Unset it for the default of {PIXEL_LIMIT:,}.",
        )
    return int(text)


def fitted(width: int, height: int, settings: MediaSettings) -> tuple[int, int]:
    """Return (width, height) in pixels after the limits of `settings`; integer arithmetic, equal on every platform.

    The long side becomes `max_long_side` exactly and the short side is rounded half up. Then, where the area is still
    over `max_pixels`, width = floor(sqrt(max_pixels * width / height)), height likewise, so the area never exceeds it.
    No side falls under 1 pixel and none grows.
    """
    long = settings.max_long_side
    if long is not None and max(width, height) > long:
        if width >= height:
            width, height = long, max(1, (2 * height * long + width) // (2 * width))
        else:
            width, height = max(1, (2 * width * long + height) // (2 * height)), long
    area = settings.max_pixels
    if area is not None and width * height > area:
        wide, high = max(1, isqrt(area * width // height)), max(1, isqrt(area * height // width))
        width, height = min(wide, max(1, area // high)), min(high, max(1, area // wide))
    return width, height


def checked_header(data: bytes, key: str, limit: int) -> Header:
    """Read and check the header of an image before decoding.

    Raises:
        MediaError: the bytes are no image of an accepted format, break off in the header, or claim more than `limit`
            pixels.
    """
    if not data:
        raise MediaError(f"image {key}: the file is empty", "Fetch it again.")
    header = read_header(data)
    if header is None and data.startswith(GIT_LFS_START):
        raise MediaError(
            f"image {key}: a pointer of Git LFS, the image was not fetched", "Fetch it in its repository: git lfs pull."
        )
    if header is None:
        raise MediaError(
            f"image {key}: the first bytes are {data[:8]!r}; JPEG, PNG, WebP, GIF, BMP or TIFF was expected",
            "The file is damaged, cut off, or of another format; fetch it again or convert it.",
        )
    check_size(header.width, header.height, key, limit)
    return header


def check_size(width: int, height: int, key: str, limit: int) -> None:
    """Raise MediaError for an image without area or with more than `limit` pixels."""
    if width < 1 or height < 1:
        raise MediaError(f"image {key}: its header says {width} x {height} pixels", "Fetch it again.")
    if width * height > limit:
        raise MediaError(
            f"image {key}: its header says {width} x {height} pixels; at most {limit:,} in all are decoded",
            f"If the image is meant to be that large, set {PIXEL_LIMIT_VARIABLE}.",
        )


def _check_scans(data: bytes, header: Header, key: str) -> None:
    """Raise MediaError for a JPEG with more scans than any encoder writes."""
    scans = data.count(b"\xff\xda")
    if scans > MAX_SCANS or (scans > 1 and scans * header.width * header.height > MAX_SCANNED_PIXELS):
        raise MediaError(
            f"image {key}: a JPEG of {header.width} x {header.height} pixels in {scans:,} scans; at most {MAX_SCANS} scans "
            f"and {MAX_SCANNED_PIXELS:,} pixels in all scans are decoded",
            "Save the image again as a JPEG that is not progressive.",
        )


def open_image(image: Image, settings: MediaSettings, limit: int | None = None) -> PillowImage:
    """Return the image as a model sees it: RGB, upright, within the limits of `settings`, never enlarged.

    Args:
        image: the image to read.
        settings: limits; `blank` gives flat grey (128, 128, 128) of the image's size. A video frame that was made under
            these settings is not corrupted again.
        limit: maximum pixels to decode; None: `pixel_limit()`.

    Raises:
        MediaError: the image is damaged, of no accepted format, or over the limit; the message names its key.
        DataError: the bytes are unreadable.
    """
    key = image.blob.key
    data = image.blob.read()
    header = checked_header(data, key, pixel_limit() if limit is None else limit)
    if settings.corrupt and getattr(image.blob, "made_with", None) == settings:
        settings = structs.replace(settings, corrupt="")
    return render(data, header, key, settings, limit)


def render(data: bytes, header: Header, key: str, settings: MediaSettings, limit: int | None = None) -> PillowImage:
    """Decode, rotate upright, corrupt and fit an image whose header was checked. Raises MediaError."""
    from PIL import Image as pillow

    if settings.blank:
        return pillow.new("RGB", fitted(*header.upright_size, settings), GREY)
    image = _decoded(data, header, key, pixel_limit() if limit is None else limit)
    if settings.corrupt:
        image = corruptions.corrupted(image, settings.corrupt, corruptions.content(data))
    size = fitted(*image.size, settings)
    if size != image.size:
        image = image.resize(size, pillow.Resampling.BICUBIC)
    return image.convert("RGB") if image.mode == "RGBX" else image


def _decoded(data: bytes, header: Header, key: str, limit: int) -> PillowImage:
    from PIL import ExifTags, ImageOps

    if header.format == "jpeg":
        _check_scans(data, header, key)
    if header.format == "jpeg" and header.plain:
        image = _by_simplejpeg(data)
        if image is not None:
            if header.orientation == 1:
                return image
            image.getexif()[ExifTags.Base.Orientation] = header.orientation
            return ImageOps.exif_transpose(image)
    try:
        image = _by_pillow(data, key, limit)
        return to_rgb(ImageOps.exif_transpose(image))
    except MediaError:
        raise
    except Exception as error:
        # Pillow's parsers raise whatever they stumble over (struct.error, KeyError, zlib.error, SyntaxError, ...).
        reason = str(error) or type(error).__name__
        raise MediaError(
            f"image {key}: {header.format} of {len(data):,} bytes cannot be decoded: {reason}",
            "The file is damaged or cut off; fetch it again.",
        ) from error


def _by_simplejpeg(data: bytes) -> PillowImage | None:
    """Decode to RGBX; None if libjpeg-turbo warns about the file, which then goes to Pillow."""
    import simplejpeg
    from PIL import Image as pillow

    try:
        pixels = simplejpeg.decode_jpeg(data, "RGBX", strict=True)
    except ValueError:
        return None
    # Pillow keeps four bytes a pixel: RGBX it takes as it is, RGB it would copy (a tenth of the whole cost).
    height, width, _ = pixels.shape
    return pillow.frombuffer("RGBX", (width, height), pixels, "raw", "RGBX", 0, 1)


def _by_pillow(data: bytes, key: str, limit: int) -> PillowImage:
    from io import BytesIO

    from PIL import Image as pillow

    # Pillow refuses at twice its own limit; it must not be stricter than ours, and it is never switched off.
    if pillow.MAX_IMAGE_PIXELS is not None:
        pillow.MAX_IMAGE_PIXELS = max(pillow.MAX_IMAGE_PIXELS, limit)
    image = pillow.open(BytesIO(data), formats=FORMATS)
    check_size(*image.size, key, limit)
    image.load()
    return image


def to_rgb(image: PillowImage) -> PillowImage:
    """Convert any Pillow mode to RGB by the rules at the top of this file."""
    from PIL import Image as pillow

    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return image
    if mode.startswith("I;16") or mode in ("I", "F"):
        return _from_wide(image)
    if mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        over = image.convert("RGBA")
        ground = pillow.new("RGBA", over.size, (255, 255, 255, 255))
        return pillow.alpha_composite(ground, over).convert("RGB")
    return image.convert("RGB")


def _from_wide(image: PillowImage) -> PillowImage:
    import numpy as np
    from PIL import Image as pillow

    values: Any = np.asarray(image)
    if image.mode.startswith("I;16"):
        grey = (values.astype(np.uint16) >> 8).astype(np.uint8)
    elif not np.isfinite(values).all():
        raise ValueError("its float pixels are not all finite")
    else:
        low, high = float(values.min()), float(values.max())
        span = high - low or 1.0
        grey = np.floor((values.astype(np.float64) - low) / span * 255.0 + 0.5).astype(np.uint8)
    return pillow.fromarray(grey).convert("RGB")
