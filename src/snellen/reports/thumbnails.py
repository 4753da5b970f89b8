"""Thumbnails of images as sent and, if changed, of the originals: each image once, within a byte budget.

What was sent is made again by the code and the settings that made it for the model (snellen.media).
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b

import msgspec
from msgspec import structs

from snellen.errors import MissingExtraError, SnellenError
from snellen.media import encode, fitted, frames, open_image, original_pixels, read_header
from snellen.media.decode import Header
from snellen.media.encode import compress
from snellen.reports.escape import escape_invisible
from snellen.reports.overlay import Area
from snellen.reports.views import PageLimits
from snellen.sources.blobs import BytesBlob
from snellen.types import Blob, Image, MediaSettings, Part, Video

TINY = 160
"""Side in pixels up to which images stay lossless if that is cheap: icons, digits, drawings."""

_KEPT = 4_000
"""Size in bytes up to which a file is embedded unchanged."""

_UNCHANGED = MediaSettings()

_SHOWN = ("png", "jpeg", "webp")


class ThumbnailAlbum:
    """Collects thumbnails as data URIs under short names, until the budget is used up: from then on none is drawn.

    `note` on an image that is not there says why: an image that cannot be read never stops a report.
    """

    def __init__(self, limits: PageLimits) -> None:
        self.uris: dict[str, str] = {}
        self.left_out = 0
        self._limits = limits
        self._bytes = 0
        self._by_key: dict[str, str] = {}
        self._full = False

    def add(self, part: Part, media: MediaSettings = _UNCHANGED) -> list[dict[str, str]]:
        """Return what the page shows for one image or clip.

        Args:
            media: what the run did to images on their way to the model.

        Returns:
            For each image {"p": name of the thumbnail of what was sent}, where the run changed it with "o", the name of
            that of the original, and "w", how it was changed; {"note": text} for what has no thumbnail.
        """
        if isinstance(part, Image):
            return [self._sent(part, media)]
        if not isinstance(part, Video):
            return []
        try:
            return self._clip(part, media)
        except (SnellenError, OSError, ValueError) as error:
            return [{"note": f"video not shown: {unreadable_reason(error, part.blob)}"}]

    def _clip(self, video: Video, media: MediaSettings) -> list[dict[str, str]]:
        """Return the frames sent, evenly sampled if there are too many; for a video sent as a file, some frames of it."""
        if media.video == "native":
            return [*self._clip(video, _UNCHANGED), {"note": "the video was sent as a file; these are frames of it"}]
        plain = original_pixels(media)
        small = structs.replace(plain, max_long_side=self._limits.long_side)
        originals = frames(video, small)
        sent = originals if media == plain else frames(video, media)
        room = self._limits.pictures
        places = list(range(len(sent)))
        if len(sent) > room:
            places = sorted({round(at * (len(sent) - 1) / max(1, room - 1)) for at in range(room)})
        if video.blob is None:  # frames that are images: they are changed one by one, as images are
            parts = [self._sent(sent[at], media) for at in places]
        elif sent is originals:
            parts = [self._one(sent[at]) for at in places]
        else:
            parts = [self._pair(sent[at], originals[at], _changes(media)) for at in places]
        if len(sent) > room:
            parts.append({"note": f"{len(parts):,} of the {len(sent):,} frames sent"})
        return parts

    def _sent(self, image: Image, media: MediaSettings) -> dict[str, str]:
        """Return an image as sent, with the original if the run's settings changed it."""
        plain = original_pixels(media)
        if media == plain:
            return self._one(image)
        try:
            sent = encode(image.blob, media)
            if not sent.changed or sent.changed == encode(image.blob, plain).changed:
                return self._one(image)
            made = Image(BytesBlob(f"{image.blob.key}&{msgspec.json.encode(media).decode()}", sent.data))
            return self._pair(made, image, f"{sent.changed}; {sent.width} × {sent.height} pixels")
        except (SnellenError, OSError, ValueError) as error:
            return {"note": f"image not shown: {unreadable_reason(error, image.blob)}"}

    def _pair(self, sent: Image, original: Image, changes: str) -> dict[str, str]:
        # JPEG would smooth the very specks that were added: an image that the run changed is kept up to a larger size
        entry, before = self._one(sent, self._limits.lossless_bytes), self._one(original)
        return {**entry, "w": changes, **({"o": before["p"]} if "p" in before else {})} if "p" in entry else entry

    def add_part(self, image: Image, area: Area) -> str | None:
        """Return the name of a part of an image, given by left, top, width and height; None where it is not shown."""
        return self._one(image, 0, area).get("p")

    def _one(self, image: Image, keep_bytes: int = _KEPT, area: Area | None = None) -> dict[str, str]:
        key = image.blob.key if area is None else f"{image.blob.key}&{area}"
        if key not in self._by_key and not self._full:
            try:
                thumbnail, mime = draw_thumbnail(image, self._limits.long_side, keep_bytes, area=area)
            except (SnellenError, OSError, ValueError) as error:
                return {"note": f"image not shown: {unreadable_reason(error, image.blob)}"}
            name = blake2b(thumbnail, digest_size=8).hexdigest()
            if name not in self.uris and self._bytes + len(thumbnail) > self._limits.picture_bytes:
                self._full = True  # reading and drawing the next one could take seconds and would rarely fit
            else:
                if name not in self.uris:
                    self._bytes += len(thumbnail)
                    self.uris[name] = f"data:{mime};base64,{b64encode(thumbnail).decode()}"
                self._by_key[key] = name
        if key not in self._by_key:
            self.left_out += 1
            return {"note": "image omitted to limit the page size"}
        return {"p": self._by_key[key]}


def _changes(media: MediaSettings) -> str:
    """Describe the changes that the settings make to a frame of a video."""
    return "; ".join(
        text
        for text in (
            "blank control" if media.blank else "",
            f"corrupted: {media.corrupt}" if media.corrupt else "",
            f"at most {media.max_long_side:,} pixels a side" if media.max_long_side is not None else "",
            f"at most {media.max_pixels:,} pixels" if media.max_pixels is not None else "",
            f"at least {media.min_pixels:,} pixels" if media.min_pixels is not None else "",
            f"resized to {media.resize}" if media.resize else "",
            f"as {media.format}, quality {media.quality}" if media.format != "original" else "",
        )
        if text
    )


def unreadable_reason(error: Exception, blob: Blob | None) -> str:
    """Return the first line of the error without the blob's key: a key may be a path of the machine that ran."""
    if isinstance(error, MissingExtraError):
        return error.hint or error.message
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return escape_invisible(line.replace(f" {blob.key}", "") if blob is not None else line)[:200]


def draw_thumbnail(
    image: Image, long_side: int, keep_bytes: int = _KEPT, limit: int | None = None, area: Area | None = None
) -> tuple[bytes, str]:
    """Return a small copy and its media type: PNG for small, plain images, JPEG at quality 85 for others.

    Decoded under the limits of snellen.media. Animated, turned and unusual files are always drawn anew.

    Args:
        long_side: its longest side in pixels; smaller images keep their size.
        keep_bytes: size up to which a plain file is returned unchanged; 0: every image is drawn anew, so that nothing of
            an untrusted file but its pixels is left.
        limit: pixels decoded at most; None: `pixel_limit()`.
        area: the part that is drawn, by left, top, width and height; None: the whole.

    Raises:
        MediaError, DataError: the image cannot be read or decoded, or is over the limit.
    """
    from PIL.Image import Resampling  # a page without images does without Pillow

    data = image.blob.read()
    header = read_header(data)
    if header is not None and len(data) <= keep_bytes and _as_it_is(header, long_side):
        return data, f"image/{header.format}"
    picture = open_image(Image(BytesBlob(image.blob.key, data)), _UNCHANGED, limit)
    if area is not None:
        picture = picture.crop((*area[:2], area[0] + area[2], area[1] + area[3]))
    size = fitted(*picture.size, MediaSettings(max_long_side=long_side))
    if size != picture.size:  # in two steps, which takes a tenth of the time for pictures of 8,192 pixels a side
        picture = picture.resize(size, Resampling.BICUBIC, reducing_gap=3.0).convert("RGB")
    if max(picture.size) <= TINY:
        picture.info = {}  # colour profiles and comments of the file
        drawn = compress(picture, "png", 100)
        if len(drawn) <= _KEPT:
            return drawn, "image/png"
    return compress(picture, "jpeg", 85), "image/jpeg"


def _as_it_is(header: Header, long_side: int) -> bool:
    usual = header.plain and header.complete and header.orientation == 1 and header.format in _SHOWN
    return usual and max(header.width, header.height) <= long_side
