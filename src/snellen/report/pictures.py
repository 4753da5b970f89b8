"""Thumbnails: each different picture once, small, within a budget of bytes."""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b

from snellen.errors import MissingExtraError, SnellenError
from snellen.media import frames, open_image, read_header
from snellen.media.encode import compress
from snellen.media.headers import Header
from snellen.report.text import visible
from snellen.report.view import Limits
from snellen.sources.blobs import BytesBlob
from snellen.types import Blob, Image, MediaSettings, Part, Video

TINY = 160
"""Pictures up to so many pixels a side are kept without loss if that costs little: icons, digits, drawings."""

_KEPT = 4_000
"""A file of at most so many bytes goes into the page as it is."""

_SHOWN = ("png", "jpeg", "webp")


class Album:
    """Collects thumbnails as data URIs under short names, until the budget is used up.

    `note` on a picture that is not there says why: a picture that cannot be read never stops a report.
    """

    def __init__(self, limits: Limits) -> None:
        self.uris: dict[str, str] = {}
        self.left_out = 0
        self._limits = limits
        self._bytes = 0
        self._by_key: dict[str, str | None] = {}

    def add(self, part: Part) -> list[dict[str, str]]:
        """What the page shows for one image or clip: {"p": name} a thumbnail, {"note": text} for what has none."""
        if isinstance(part, Image):
            return [self._one(part)]
        if isinstance(part, Video):
            try:
                shown = frames(part, MediaSettings(frames=self._limits.pictures, max_long_side=self._limits.long_side))
            except (SnellenError, OSError, ValueError) as error:
                return [{"note": f"clip not shown: {_why(error, part.blob)}"}]
            return [self._one(frame) for frame in shown]
        return []

    def _one(self, image: Image) -> dict[str, str]:
        key = image.blob.key
        if key not in self._by_key:
            try:
                thumbnail, mime = _thumbnail(image, self._limits.long_side)
            except (SnellenError, OSError, ValueError) as error:
                return {"note": f"picture not shown: {_why(error, image.blob)}"}
            if self._bytes + len(thumbnail) > self._limits.picture_bytes:
                self._by_key[key] = None
            else:
                name = blake2b(thumbnail, digest_size=8).hexdigest()
                if name not in self.uris:
                    self._bytes += len(thumbnail)
                    self.uris[name] = f"data:{mime};base64,{b64encode(thumbnail).decode()}"
                self._by_key[key] = name
        found = self._by_key[key]
        if found is None:
            self.left_out += 1
            return {"note": "picture left out to keep this page small"}
        return {"p": found}


def _why(error: Exception, blob: Blob | None) -> str:
    """The first line of the error without the blob's key: a key may be a path of the machine that ran."""
    if isinstance(error, MissingExtraError):
        return error.hint or error.message
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return visible(line.replace(f" {blob.key}", "") if blob is not None else line)[:200]


def _thumbnail(image: Image, long_side: int) -> tuple[bytes, str]:
    """The original bytes where they are few already; else PNG for small, plain pictures and JPEG at quality 85.

    Decoded under the limits of snellen.media. Animated, turned and unusual files are always drawn anew.
    """
    data = image.blob.read()
    header = read_header(data)
    if header is not None and len(data) <= _KEPT and _as_it_is(header, long_side):
        return data, f"image/{header.format}"
    picture = open_image(Image(BytesBlob(image.blob.key, data)), MediaSettings(max_long_side=long_side))
    if max(picture.size) <= TINY:
        drawn = compress(picture, "png", 100)
        if len(drawn) <= _KEPT:
            return drawn, "image/png"
    return compress(picture, "jpeg", 85), "image/jpeg"


def _as_it_is(header: Header, long_side: int) -> bool:
    usual = header.plain and header.complete and header.orientation == 1 and header.format in _SHOWN
    return usual and max(header.width, header.height) <= long_side
