"""Thumbnails: each different picture once, small, within a budget of bytes."""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from io import BytesIO

from snellen.errors import MissingExtraError, SnellenError
from snellen.media import frames, open_image
from snellen.report.text import visible
from snellen.report.view import Limits
from snellen.types import Blob, Image, MediaSettings, Part, Video

_TINY = 160
"""Pictures up to so many pixels a side are kept without loss: icons, digits, drawings."""


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
    """PNG for small pictures, WebP at quality 72 for the rest; decoded under the limits of snellen.media."""
    picture = open_image(image, MediaSettings(max_long_side=long_side))
    out = BytesIO()
    if max(picture.size) <= _TINY:
        picture.save(out, "PNG", optimize=True)
        return out.getvalue(), "image/png"
    picture.save(out, "WEBP", quality=72, method=4)
    return out.getvalue(), "image/webp"
