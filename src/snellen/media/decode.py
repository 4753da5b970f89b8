"""Image headers, and decoding of untrusted bytes to an upright RGB image of the requested size.

A header tells format, size, orientation, and whether all servers decode the image alike. It is read first, without a
decoder: the path that sends original bytes must stay cheap, and an image that claims 50,000 x 50,000 pixels must be
refused before a decoder sees it. Sources of the layouts: ITU T.81 (JPEG), Exif 2.32 4.6, RFC 2083 and the PNG third
edition, the WebP container specification, GIF89a, the BMP DIB headers, TIFF 6.0.

Rules of decoding, part of every run's record (`describe`):

- JPEG of one or three channels is decoded by simplejpeg (its own libjpeg-turbo), in full: scaled DCT decoding is faster
  and changes pixels by up to 36 of 255. Everything else, and a JPEG that libjpeg-turbo warns about, goes through
  Pillow, limited to JPEG, PNG, WebP, GIF, BMP and TIFF, and to HEIC, AVIF and JPEG XL. DICOM goes to pydicom, and bands that Pillow does not read to tifffile.
- Only the first frame of an animation is used. Colour profiles are not applied.
- Transparency is laid over white. Greyscale of more than 8 bits has no agreed white, and is shown by the rule of
  `snellen.media.sample_range`; colour PNGs of 16 bits keep their high byte. CMYK is converted as Pillow does.
- Exif orientation is applied, then `corrupt` (snellen.media.corruptions). Images are made smaller (Pillow, bicubic with
  antialiasing), never larger.

Masks of the shown objects (`--mask`): pictures, light where the object is, that a table names (`MaskedImage`) or that lie in a folder.
There a mask bears the path of its image, or the end of it: `segmentations/017.Cardinal/Cardinal_1.png` belongs to
`CUB_200_2011/images/017.Cardinal/Cardinal_1.jpg` under `--mask segmentations`, as CUB-200-2011's own masks do. The longest end
that is there counts. Pixels of 128 and more are the object: CUB's masks count the annotators who marked a pixel.
"""

from __future__ import annotations

import os
import re
import struct
from io import BytesIO
from math import ceil, isqrt, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, structs

from snellen.errors import MediaError, MissingExtraError
from snellen.media import corruptions
from snellen.media.geotiff import NO_DATA, band_image, no_data_of
from snellen.media.sample_range import to_8_bits, window_range
from snellen.text import GIT_LFS_START
from snellen.types import Blob, Image, MediaSettings

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Format: TypeAlias = Literal["jpeg", "png", "webp", "gif", "bmp", "tiff", "dicom", "heic", "avif", "jxl"]

PIXEL_LIMIT = 200_000_000
PIXEL_LIMIT_VARIABLE = "SNELLEN_MAX_IMAGE_PIXELS"
MAX_SCANS, MAX_SCANNED_PIXELS = 100, 4_000_000_000
"""Maximum scans of a JPEG, and scans times pixels. A scan of a few bytes visits all pixels; encoders write up to 20."""
GREY = (128, 128, 128)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_ORIENTATION, _WIDTH, _HEIGHT, _BITS, _SAMPLES = 0x0112, 0x0100, 0x0101, 0x0102, 0x0115
_COLOUR, _EXTRA = 0x0106, 0x0152
_READ = frozenset({_ORIENTATION, _WIDTH, _HEIGHT, _BITS, _SAMPLES, _COLOUR, _EXTRA})
_MARKERS_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def is_dicom(data: bytes) -> bool:
    """Return True for a file with the preamble of DICOM Part 10."""
    return data[128:132] == b"DICM"


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


def first_bytes(blob: Blob, most: int) -> bytes:
    """Return at most this many bytes of a blob; of a stream no more are read."""
    opener = getattr(blob, "open", None)
    if opener is None:
        return blob.read()[:most]
    with opener() as opened:
        data: bytes = opened.read(most)
        return data


def fitted(width: int, height: int, settings: MediaSettings) -> tuple[int, int]:
    """Return (width, height) in pixels after the limits of `settings`; integer arithmetic, equal on every platform.

    The long side becomes `max_long_side` exactly and the short side is rounded half up. Then, where the area is still
    over `max_pixels`, width = floor(sqrt(max_pixels * width / height)), height likewise, so the area never exceeds it.
    No side falls under 1 pixel. An image within these limits grows where both sides, rounded to multiples of 28, have an area
    under `min_pixels`: to the ceiling of its sides times sqrt(min_pixels / area) in such multiples. `resize` is the size itself.

    Source of the growth: `smart_resize` of Qwen2.5-VL's processor, whose merged patch has 28 pixels a side.
    """
    if settings.resize:
        exact = settings.resize.split("x")
        return int(exact[0]), int(exact[1])
    before = (width, height)
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
    least = settings.min_pixels
    if least is not None and before == (width, height) and _in_patches(width) * _in_patches(height) < least:
        growth = sqrt(least / (width * height))
        width, height = (ceil(side * growth / PATCH) * PATCH for side in before)
    return width, height


PATCH = 28
"""Side of a merged patch of Qwen2.5-VL, in pixels."""


def _in_patches(side: int) -> int:
    return max(PATCH, round(side / PATCH) * PATCH)


def checked_header(data: bytes, key: str, limit: int) -> Header:
    """Read and check the header of an image before decoding.

    Raises:
        MediaError: the bytes are no image of an accepted format, break off in the header, or claim more than `limit`
            pixels.
    """
    if not data:
        raise MediaError(f"image {key}: the file is empty", "Fetch it again.")
    try:
        header = read_header(data)
    except MissingExtraError as error:
        raise MissingExtraError(f"image {key}: {error.message}", error.hint) from error
    if header is None and data.startswith(GIT_LFS_START):
        raise MediaError(
            f"image {key}: a pointer of Git LFS, the image was not fetched", "Fetch it in its repository: git lfs pull."
        )
    if header is None and is_dicom(data):
        raise MediaError(
            f"image {key}: a DICOM file without an image, or whose elements are deflated or damaged",
            "Write its image with another transfer syntax, or into a PNG of 16 bits.",
        )
    if header is None:
        raise MediaError(
            f"image {key}: the first bytes are {data[:8]!r}; JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG XL or DICOM was expected",
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
    """Return the image as a model sees it: RGB, upright, of the size that `settings` ask for.

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
    return render(data, header, key, settings, limit, getattr(image.blob, "mask", None))


class MaskedImage(Struct, frozen=True):
    """An image with the mask of its object, for operations of `corrupt` with a region."""

    image: Blob
    mask: Blob

    @property
    def key(self) -> str:
        return f"{self.image.key}, mask {self.mask.key}"

    @property
    def quick(self) -> bool:
        return getattr(self.image, "quick", False)

    def read(self) -> bytes:
        return self.image.read()


def open_alpha(data: bytes) -> PillowImage | None:
    """Return an image that `open_image` accepted, upright, as RGBA; None where all of it is opaque."""
    from PIL import ImageOps

    with _opened(data) as image:
        if not image.has_transparency_data:
            return None
        found = ImageOps.exif_transpose(image).convert("RGBA")
    return None if found.getchannel("A").getextrema() == (255, 255) else found


def render(
    data: bytes,
    header: Header,
    key: str,
    settings: MediaSettings,
    limit: int | None = None,
    mask: Blob | None = None,
) -> PillowImage:
    """Decode, rotate upright, corrupt and fit an image whose header was checked. Raises MediaError.

    `mask` is that of its object; None: looked for in the folder of the settings.
    """
    from PIL import Image as pillow

    if settings.blank:
        return pillow.new("RGB", fitted(*header.upright_size, settings), GREY)
    image = _decoded(data, header, key, settings, pixel_limit() if limit is None else limit)
    if settings.corrupt:
        region = _region(image.size, key, settings, limit, mask) if corruptions.masked(settings.corrupt) else None
        image = corruptions.corrupted(image, settings.corrupt, corruptions.content(data), region)
    size = fitted(*image.size, settings)
    if size != image.size:
        image = image.resize(size, pillow.Resampling.BICUBIC)
    return image.convert("RGB") if image.mode == "RGBX" else image


def _region(
    size: tuple[int, int], key: str, settings: MediaSettings, limit: int | None, given: Blob | None
) -> PillowImage:
    """Return the mask of an image, 255 where the object is and 0 elsewhere.

    Raises:
        MediaError: there is none, it has another size, or no pixel of it is the object.
    """
    if given is not None:
        data, place = given.read(), given.key
    elif (path := mask_file(Path(settings.mask), key)) is not None:
        data, place = path.read_bytes(), str(path)
    else:
        raise MediaError(
            f"image {key}: there is no mask for it in --mask {settings.mask}",
            "A mask bears the path of its image, or its end, with an ending of its own: birds/7.png for birds/7.jpg.",
        )
    name = f"{place}, the mask of {key}"
    header = checked_header(data, name, pixel_limit() if limit is None else limit)
    mask = render(data, header, name, MediaSettings(), limit).convert("L")
    if mask.size != size:
        raise MediaError(
            f"image {key}: its mask {place} has {mask.width} x {mask.height} pixels, and the upright image "
            f"{size[0]} x {size[1]}",
            "Give masks of the size of their images.",
        )
    mask = mask.point([255 * (value >= OBJECT_FROM) for value in range(256)])
    if mask.getextrema() == (0, 0):
        raise MediaError(
            f"image {key}: no pixel of its mask {place} is the object",
            f"Pixels of {OBJECT_FROM} and more of 255 are; multiply a mask of 0 and 1 by 255.",
        )
    return mask


def _decoded(data: bytes, header: Header, key: str, settings: MediaSettings, limit: int) -> PillowImage:
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
        if header.format == "dicom":
            from snellen.media.dicom import dicom_image

            return dicom_image(data, key, settings.window).convert("RGB")
        if header.format == "tiff" and (settings.bands or header.has_bands):
            image = band_image(data, key, settings.bands, settings.window, limit)
            image.getexif()[ExifTags.Base.Orientation] = header.orientation
        else:
            image = _by_pillow(data, key, limit)
        absent = no_data_of(getattr(image, "tag_v2", {}).get(NO_DATA))
        return to_rgb(ImageOps.exif_transpose(image), settings.window, absent)
    except (MediaError, MissingExtraError):
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
    from PIL import Image as pillow

    # Pillow refuses at twice its own limit; it must not be stricter than ours, and it is never switched off.
    if pillow.MAX_IMAGE_PIXELS is not None:
        pillow.MAX_IMAGE_PIXELS = max(pillow.MAX_IMAGE_PIXELS, limit)
    image = _opened(data)
    check_size(*image.size, key, limit)
    image.load()
    return image


def _opened(data: bytes) -> PillowImage:
    """Open an image by Pillow or a plug-in of it, limited to the formats that are accepted."""
    from PIL import Image as pillow

    if _may_be_newer(data):
        from snellen.media.newer_formats import newer_format, open_newer

        if (newer := newer_format(data)) is not None:
            return open_newer(data, newer)
    return pillow.open(BytesIO(data), formats=FORMATS)


def _may_be_newer(data: bytes) -> bool:
    """Return True for the first bytes of a HEIC, AVIF or JPEG XL, and of other files in boxes."""
    return data[4:8] in (b"ftyp", b"JXL ") or data[:2] == b"\xff\x0a"


def to_rgb(image: PillowImage, window: str = "file", absent: float | None = None) -> PillowImage:
    """Convert any Pillow mode to RGB by the rules at the top of this file; `absent` stands for no data."""
    import numpy as np
    from PIL import Image as pillow

    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return image
    if mode.startswith("I;16") or mode in ("I", "F"):
        return pillow.fromarray(to_8_bits(np.asarray(image), window_range(window), absent)).convert("RGB")
    if mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        over = image.convert("RGBA")
        ground = pillow.new("RGBA", over.size, (255, 255, 255, 255))
        return pillow.alpha_composite(ground, over).convert("RGB")
    return image.convert("RGB")


class Header(Struct, frozen=True):
    """The properties of an image before it is decoded.

    Attributes:
        format: the container.
        width, height: pixels as stored, before any rotation.
        orientation: Exif orientation 1 to 8; 1 is upright, 5 to 8 swap width and height.
        plain: one frame, 8 bits per channel, grey or RGB with or without alpha or palette: decoded alike everywhere.
        complete: the format's end mark is present. If False, only decoding shows whether the image is complete.
        depth: bits of a sample, where `snellen.media.sample_range` decides how they are shown; else 8.
        samples: bands of a TIFF; of other formats 1.
        has_bands: Pillow does not read it as it is: more than four bands, several of more than 8 bits, or several of grey.
        window: that which a DICOM file names, as `WIDTH/CENTRE`.
    """

    format: Format
    width: int
    height: int
    orientation: int = 1
    plain: bool = True
    complete: bool = True
    depth: int = 8
    samples: int = 1
    has_bands: bool = False
    window: str = ""

    @property
    def upright_size(self) -> tuple[int, int]:
        """(width, height) in pixels as displayed."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


def read_header(data: bytes) -> Header | None:
    """Read the header of an image; None if the format is not accepted or the bytes end within the header."""
    try:
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _png(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return _gif(data)
        if _may_be_newer(data):
            from snellen.media.newer_formats import newer_format, newer_layout  # few runs have such images

            if (newer := newer_format(data)) is not None:
                width, height, turn = newer_layout(data, newer)
                return Header(newer, width, height, _upright_or(turn), plain=False)
        if data[:2] == b"BM":
            return _bmp(data)
        if is_dicom(data):
            from snellen.media.dicom import read_layout

            columns, rows, window = read_layout(data)
            return Header("dicom", columns, rows, plain=False, depth=16, window=window)
        if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            return _tiff(_ifd(data, 0))
    except (struct.error, IndexError, KeyError, ValueError, AttributeError, TypeError):
        return None
    return None


def _jpeg(data: bytes) -> Header | None:
    at, orientation = 2, 1
    frame: tuple[int, int, int, int] | None = None
    while True:
        if data[at] != 0xFF:  # stray bytes between segments, which decoders skip
            at = data.index(b"\xff", at)
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if marker in _MARKERS_ALONE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker == 0xE1 and data[at + 4 : at + 10] == b"Exif\0\0":
            orientation = _exif_orientation(data[at + 10 : at + 2 + length])
        elif marker in _FRAME_MARKERS and frame is None:
            frame = struct.unpack_from(">BHHB", data, at + 4)
        elif marker == 0xDA:
            break
        elif marker == 0xD9:
            return None
        at += 2 + length
    if frame is None:
        return None
    depth, height, width, channels = frame
    plain = depth == 8 and height > 0 and channels in (1, 3)
    return Header("jpeg", width, height, orientation, plain, complete=data.rfind(b"\xff\xd9") > at)


def _png(data: bytes) -> Header | None:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    if data[12:16] != b"IHDR":
        return None
    at, orientation, plain, complete = 8, 1, depth <= 8, False
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        if kind == b"acTL":
            plain = False
        elif kind == b"eXIf":
            orientation = _exif_orientation(data[at + 8 : at + 8 + length])
        elif kind == b"IEND":
            complete = True
            break
        at += 12 + length
    return Header("png", width, height, orientation, plain, complete, depth=8 if colour else depth)


def _webp(data: bytes) -> Header | None:
    (riff,) = struct.unpack_from("<I", data, 4)
    complete = riff + 8 <= len(data)
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("webp", width & 0x3FFF, height & 0x3FFF, complete=complete)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Header("webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, complete=complete)
    if kind != b"VP8X":
        return None
    flags = data[20]
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    orientation = 1
    if flags & 0x08:
        at = 12
        while at + 8 <= len(data):
            (length,) = struct.unpack_from("<I", data, at + 4)
            if data[at : at + 4] == b"EXIF":
                orientation = _exif_orientation(data[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0"))
                break
            at += 8 + length + (length & 1)
    return Header("webp", width, height, orientation, plain=not flags & 0x02, complete=complete)


def _gif(data: bytes) -> Header:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    images, complete = 0, False
    while at < len(data) and images < 2:
        block = data[at]
        if block == 0x3B:
            complete = True
            break
        if block == 0x2C:
            images += 1
            local = data[at + 9] if at + 9 < len(data) else 0
            at += 11 + (3 << (local & 7) + 1 if local & 0x80 else 0)
        elif block == 0x21:
            at += 2
        else:
            break
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    return Header("gif", width, height, plain=images == 1, complete=complete)


def _bmp(data: bytes) -> Header:
    (size,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if size == 12 else "<ii", data, 18)
    return Header("bmp", abs(width), abs(height), plain=False)


def _tiff(tags: dict[int, int]) -> Header:
    depth, samples, colour = tags.get(_BITS, 1), tags.get(_SAMPLES, 1), tags.get(_COLOUR, 1)
    is_grey_pair = samples == 2 and _EXTRA in tags
    bands = samples > 1 and colour <= 2 and (depth > 8 or samples > 4 or (colour <= 1 and not is_grey_pair))
    turn = _upright_or(tags.get(_ORIENTATION, 1))
    return Header("tiff", tags[_WIDTH], tags[_HEIGHT], turn, plain=False, depth=depth, samples=samples, has_bands=bands)


def _exif_orientation(tiff: bytes) -> int:
    try:
        return _upright_or(_ifd(tiff, 0).get(_ORIENTATION, 1))
    except (struct.error, IndexError, KeyError):
        return 1


def _upright_or(orientation: int) -> int:
    """Return a valid orientation; values outside 1 to 8 mean 1, as in viewers."""
    return orientation if 1 <= orientation <= 8 else 1


def _ifd(tiff: bytes, start: int) -> dict[int, int]:
    """Read the relevant integer tags of the first image directory of a TIFF or BigTIFF stream; of several values the first."""
    order = {b"II": "<", b"MM": ">"}[bytes(tiff[start : start + 2])]
    is_big = tiff[start + 2 : start + 4] in (b"+\0", b"\0+")
    offset_form, count_form, entry_form, inline = ("Q", "Q", "HHQ", 8) if is_big else ("I", "H", "HHI", 4)

    def read(form: str, at: int) -> Any:
        if at > len(tiff):
            raise IndexError(at)
        return struct.unpack_from(order + form, tiff, at)

    (offset,) = read(offset_form, start + inline)
    (count,) = read(count_form, start + offset)
    first = start + offset + struct.calcsize(order + count_form)
    tags: dict[int, int] = {}
    for index in range(count):
        entry = first + (4 + 2 * inline) * index
        tag, kind, several = read(entry_form, entry)
        if tag in _READ:
            form, place = {3: "H", 16: "Q"}.get(kind, "I"), entry + 4 + inline
            if several * struct.calcsize(order + form) > inline:
                place = start + read(offset_form, place)[0]
            (tags[tag],) = read(form, place)
    return tags


ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
OBJECT_FROM = 128
_SEPARATORS = re.compile(r"[/\\!]+")
_LONGEST_NAME = 200


def mask_file(folder: Path, key: str) -> Path | None:
    """Return the mask of the image with this key; None where there is none."""
    parts = [part for part in _SEPARATORS.split(key) if part not in ("", ".", "..")]
    if not parts or max(map(len, parts)) > _LONGEST_NAME:
        return None
    for start in range(len(parts)):
        place = folder.joinpath(*parts[start:])
        for ending in ENDINGS:
            if (path := place.with_suffix(ending)).is_file():
                return path
    return None
