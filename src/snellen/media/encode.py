"""Encoding of images for sending.

The original bytes are sent unchanged if nothing has to change: `format` is `original`, the image is within the limits,
and it is a JPEG, PNG, WebP or GIF that all servers decode alike. Other images are converted, and `Encoded.changed` says
why: an Exif orientation other than upright (servers differ in whether they apply it), an animation (first frame), 16
bits per channel, CMYK, BMP, TIFF, HEIC, AVIF, JPEG XL, DICOM. Transparency alone is no reason: such a PNG is sent unchanged.

A named `format` always re-encodes. Under `original` a changed image keeps its format (JPEG, PNG, WebP); others
become PNG. JPEG is written with 4:2:0 chroma by simplejpeg, PNG and WebP by Pillow.
"""

from __future__ import annotations

from binascii import a2b_base64
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from pybase64 import b64encode

from snellen.media import corruptions, decode
from snellen.media.decode import Header
from snellen.media.geotiff import shown_bands
from snellen.media.sample_range import described
from snellen.types import Blob, MediaSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image as PillowImage

Output: TypeAlias = Literal["jpeg", "png", "webp"]

PNG_LEVEL = 4
_KEPT: dict[str, Output] = {"jpeg": "jpeg", "png": "png", "webp": "webp"}
"""The format in which a changed image is sent; of others PNG."""
_SENT_AS_IS = frozenset({"jpeg", "png", "webp", "gif"})


class Encoded(Struct, frozen=True):
    """An image, or a video's file, as it is sent. It holds the data URI; the bytes are derived from it on demand.

    Attributes:
        data_uri: `data:image/jpeg;base64,...` in ASCII, ready for a request body.
        mime: e.g. `image/jpeg`.
        digest: SHA-256 of `data`, in hex.
        width, height: pixels as displayed; 0 for a video's file, which is not decoded.
        changed: why these are not the original bytes; empty if they are.
    """

    data_uri: bytes
    mime: str
    digest: str
    width: int
    height: int
    changed: str = ""

    @property
    def data(self) -> bytes:
        """The bytes of the sent file."""
        return a2b_base64(self.base64)

    @property
    def size(self) -> int:
        """Bytes of the sent file, without decoding it."""
        text = self.base64
        return len(text) // 4 * 3 - bytes(text[-2:]).count(b"=")

    @property
    def base64(self) -> memoryview:
        """The base64 text alone, as a view into the data URI: nothing is copied."""
        return memoryview(self.data_uri)[len(self.mime) + 13 :]


def encode(blob: Blob, settings: MediaSettings, limit: int | None = None) -> Encoded:
    """Read a blob and encode it for sending. Raises MediaError, DataError."""
    return encode_bytes(blob.read(), blob, settings, limit)


def encode_bytes(data: bytes, blob: Blob, settings: MediaSettings, limit: int | None = None) -> Encoded:
    """Encode bytes that were already read from the blob, as `encode`."""
    key, mask = blob.key, getattr(blob, "mask", None)
    header = decode.checked_header(data, key, decode.pixel_limit() if limit is None else limit)
    # A video frame was made under these very settings; encoding it again would only lose quality.
    reason = "" if getattr(blob, "made_with", None) == settings else why_changed(header, settings)
    if not reason and not header.complete:
        # The end mark is missing: this raises unless all pixels are there.
        decode.render(data, header, key, settings, limit, mask)
    if not reason:
        return _packed(data, header.format, *header.upright_size)
    image = decode.render(data, header, key, settings, limit, mask)
    kind = _KEPT.get(header.format, "png") if settings.format == "original" else settings.format
    return _packed(compress(image, kind, settings.quality), kind, *image.size, reason)


def untouched(data: bytes, blob: Blob, settings: MediaSettings, limit: int | None = None) -> Encoded | None:
    """Return the image to send if nothing has to be decoded, else None: the cheap part of `encode_bytes`."""
    header = decode.checked_header(data, blob.key, decode.pixel_limit() if limit is None else limit)
    made = getattr(blob, "made_with", None) == settings
    if header.complete and (made or not why_changed(header, settings)):
        return _packed(data, header.format, *header.upright_size)
    return None


def why_changed(header: Header, settings: MediaSettings) -> str:
    """Return why an image's original bytes cannot be sent under these settings; empty if they can."""
    if settings.blank:
        return "blank control"
    if settings.corrupt and corruptions.changes(settings.corrupt):
        return f"corrupted: {settings.corrupt}"
    size = header.upright_size
    width, height = decode.fitted(*size, settings)
    if (width, height) != size:
        shrunk = width * height < size[0] * size[1]
        return (
            f"resized to {settings.resize}" if settings.resize else f"{'over' if shrunk else 'under'} the size limits"
        )
    if settings.format != "original":
        return f"asked for {settings.format}"
    shown = f", {described(settings.window, header.window)}" if header.depth > 8 else ""
    if header.format == "tiff" and (settings.bands or header.has_bands):
        shown += f", bands {', '.join(map(str, shown_bands(settings.bands, header.samples)))} of {header.samples}"
    if header.format not in _SENT_AS_IS:
        return f"{header.format} is not accepted by model servers{shown}"
    if header.orientation != 1:
        return f"Exif orientation {header.orientation}"
    return "" if header.plain else f"animated, CMYK, or more than 8 bits a channel{shown}"


def compress(image: PillowImage | NDArray[np.uint8], kind: Output, quality: int) -> bytes:
    """Encode an RGB image, or an array of it (height x width x 3).

    `quality` (1 to 100) applies to JPEG and WebP; PNG is lossless at zlib level 4.
    """
    if kind == "jpeg":
        import numpy as np
        import simplejpeg

        written: bytes = simplejpeg.encode_jpeg(
            np.ascontiguousarray(np.asarray(image)), quality, colorspace="RGB", colorsubsampling="420"
        )
        return written
    from io import BytesIO

    from PIL import Image as pillow

    if not isinstance(image, pillow.Image):
        image = pillow.fromarray(image)
    out = BytesIO()
    if kind == "png":
        image.save(out, "PNG", compress_level=PNG_LEVEL)
    else:
        image.save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()


def _packed(data: bytes, kind: str, width: int, height: int, changed: str = "") -> Encoded:
    mime = f"image/{kind}"
    uri = b"".join((b"data:", mime.encode(), b";base64,", b64encode(data)))
    return Encoded(uri, mime, sha256(data).hexdigest(), width, height, changed)
