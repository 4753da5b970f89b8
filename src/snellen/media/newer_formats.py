"""HEIC, AVIF and JPEG XL: their headers, and their decoders, of which HEIC's and JPEG XL's are the extra `images`.

Orientation is applied once. libheif turns a HEIC itself (irot, imir) and says so in Exif; Pillow notes that of an AVIF in
Exif; that of a JPEG XL stands in its codestream, and libjxl applies it: the Exif of such a file is not obeyed (ISO/IEC
18181-1, ImageMetadata). More than 8 bits a channel become 8 by the decoder.
"""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from snellen.errors import MissingExtraError
from snellen.installation import install_hint

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

NewerFormat: TypeAlias = Literal["heic", "avif", "jxl"]

_JXL_BOX = b"\0\0\0\x0cJXL \r\n\x87\n"
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx")
_RATIOS = (None, (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
"""Width to height in a JPEG XL size header; None: the width follows."""


def newer_format(data: bytes) -> NewerFormat | None:
    """Return which of the three formats the first bytes are."""
    if data.startswith((b"\xff\x0a", _JXL_BOX)):
        return "jxl"
    if data[4:8] != b"ftyp":
        return None
    size = int.from_bytes(data[:4], "big")
    brands = [data[8:12], *(data[at : at + 4] for at in range(16, min(size, 256, len(data)), 4))]
    if any(brand in (b"avif", b"avis") for brand in brands):
        return "avif"
    return "heic" if any(brand in _HEIC for brand in brands) else None


def newer_layout(data: bytes, kind: NewerFormat) -> tuple[int, int, int]:
    """Return width and height as stored, and the Exif orientation still to be applied. No pixel is decoded.

    Raises:
        MissingExtraError: the decoder is not installed.
        ValueError, IndexError: the header is damaged.
    """
    if kind == "jxl":
        return _jxl_layout(data)
    try:
        with open_newer(data, kind) as image:
            return (*image.size, int(image.getexif().get(0x0112, 1)))
    except (OSError, RuntimeError, EOFError, SyntaxError) as error:
        raise ValueError(str(error)) from error


def open_newer(data: bytes, kind: NewerFormat) -> PillowImage:
    """Open an image by its decoder. Raises MissingExtraError, and what the decoder raises for a damaged file."""
    from PIL import Image as pillow
    from PIL import features

    if kind == "avif":
        if not features.check("avif"):
            raise MissingExtraError("AVIF needs a Pillow with libavif: 11.3 or newer", "pip install -U pillow")
        return pillow.open(BytesIO(data), formats=("AVIF",))
    package = "pillow_heif" if kind == "heic" else "pillow_jxl"
    try:
        library = import_module(package)
    except ImportError as error:
        name = {"heic": "HEIC", "jxl": "JPEG XL"}[kind]
        raise MissingExtraError(f"{name} needs {package}, which is not installed", install_hint("images")) from error
    if kind == "heic":
        library.register_heif_opener(thumbnails=False)
        return pillow.open(BytesIO(data), formats=("HEIF",))
    image = cast("PillowImage", pillow.open(BytesIO(data), formats=("JXL",)))
    if not getattr(image, "jpeg", False):  # a transcoded JPEG comes as it was, with the Exif that turns it
        image.info.pop("exif", None)
    return image


class _Bits:
    """Bits of a JPEG XL codestream, the lowest of a byte first."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def take(self, count: int) -> int:
        if count > self._left:
            raise IndexError(count)
        taken = self._value & ((1 << count) - 1)
        self._value >>= count
        self._left -= count
        return taken

    def size(self) -> int:
        """Read a side: a selector of 9, 13, 18 or 30 bits, and the side less 1."""
        return 1 + self.take((9, 13, 18, 30)[self.take(2)])


def _jxl_layout(data: bytes) -> tuple[int, int, int]:
    """Read the size and orientation of a JPEG XL file (ISO/IEC 18181-1, SizeHeader and ImageMetadata)."""
    bits = _Bits(_codestream(data)[2:34])
    small = bits.take(1)
    height = 8 * (1 + bits.take(5)) if small else bits.size()
    ratio = _RATIOS[bits.take(3)]
    if ratio is not None:
        width = height * ratio[0] // ratio[1]
    else:
        width = 8 * (1 + bits.take(5)) if small else bits.size()
    is_default = bits.take(1)
    has_more = 0 if is_default else bits.take(1)
    return width, height, 1 + bits.take(3) if has_more else 1


def _codestream(data: bytes) -> bytes:
    """Return the beginning of the codestream: the file, or its first box jxlc or jxlp."""
    at = 0
    while data.startswith(_JXL_BOX):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        head = 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        if kind in (b"jxlc", b"jxlp"):
            start = at + head + (4 if kind == b"jxlp" else 0)
            return data[start : start + 64]
        if size < head or not kind:
            raise ValueError("its boxes are damaged")
        at += size
    return data[:64]
