"""Small copies of untrusted images: drawn anew from their pixels, under limits, kept in memory within a budget.

A file of a data set may be a decompression bomb, a script in an image's clothes, or of a format that browsers execute (SVG).
Only formats of `snellen.media` are decoded, and only what was encoded here is served.

Small copies of the images that pages show, by digest: what a page showed can be fetched, and nothing else.

A view offers the small copies that its page links to; no path and no name of a request reaches a disk. After a restart of the server
a page is loaded anew before its images are there again. Images in full are in `snellen.viewer.cases.pictures.ImageStore`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from threading import BoundedSemaphore, Event, Lock
from typing import NamedTuple

from snellen.errors import DataError, MediaError, SnellenError
from snellen.media import frames, pixel_limit
from snellen.reports.thumbnails import draw_thumbnail
from snellen.sources.blobs import BytesBlob, FileBlob, stream
from snellen.types import Blob, Image, MediaSettings, Part, Video

MOST_OFFERS = 200_000


class OfferedThumbnails:
    """Small copies that pages have linked to. Callers may be threads."""

    def __init__(self) -> None:
        self._offers: OrderedDict[str, Callable[[], Thumbnail]] = OrderedDict()
        self._copies = ThumbnailCache()
        self._lock = Lock()

    def offer(self, digest: str, draw: Callable[[], Thumbnail]) -> str:
        """Make a small copy available under a digest; it is drawn when it is first asked for."""
        with self._lock:
            self._offers[digest] = draw
            self._offers.move_to_end(digest)
            if len(self._offers) > MOST_OFFERS:
                self._offers.popitem(last=False)
        return digest

    def get(self, digest: str) -> Thumbnail | None:
        """Return a small copy; None if no page has linked to it lately.

        Raises:
            MediaError: it cannot be drawn.
        """
        with self._lock:
            draw = self._offers.get(digest)
        return None if draw is None else self._copies.get(digest, draw)


LONG_SIDE = 240
"""Pixels: twice the height of a row, for screens of double density."""
MAX_FILE_BYTES = 64 << 20
MAX_PIXELS = 64_000_000
CACHE_BYTES = 64 << 20
ENTRY_BYTES = 500
"""Memory of an entry beside its file, so that a million failures cannot outgrow the budget."""
DECODED_AT_ONCE = 2
PLACEHOLDER_SIZE = (96, 72)


class Thumbnail(NamedTuple):
    """A small copy: its file, drawn by Snellen, and its media type."""

    data: bytes
    mime: str


class Undrawable(NamedTuple):
    """Reason why an image has no small copy, and what to do."""

    message: str
    hint: str


def small_copy(part: Part, long_side: int = LONG_SIDE) -> Thumbnail:
    """Draw a small copy of an image, or of the first frame of a video.

    Raises:
        MediaError, DataError: it cannot be read or decoded, or is over MAX_FILE_BYTES or MAX_PIXELS.
    """
    limit = min(MAX_PIXELS, pixel_limit())
    if isinstance(part, Video):
        part = _first_frame(part, long_side, limit)
    if not isinstance(part, Image):
        raise DataError("a text has no small copy")
    return Thumbnail(*draw_thumbnail(Image(_limited(part.blob)), long_side, 0, limit))


def copy_or_placeholder(read: Callable[[], Part]) -> Thumbnail:
    """Draw a small copy, or a placeholder if the image cannot be read or drawn: pages show that it cannot, and go on."""
    try:
        return small_copy(read())
    except (SnellenError, OSError):
        return placeholder()


@cache
def placeholder() -> Thumbnail:
    """Draw what stands for an image that cannot be shown: a crossed frame, on either theme."""
    from PIL import Image as pillow
    from PIL import ImageDraw

    from snellen.media.encode import compress

    width, height = PLACEHOLDER_SIZE
    picture = pillow.new("RGBA", PLACEHOLDER_SIZE, (0, 0, 0, 0))
    draw = ImageDraw.Draw(picture)
    grey = (128, 128, 128, 255)
    draw.rectangle((24, 18, width - 25, height - 19), outline=grey)
    draw.line((24, 18, width - 25, height - 19), fill=grey)
    draw.line((24, height - 19, width - 25, 18), fill=grey)
    return Thumbnail(compress(picture, "png", 100), "image/png")


def _first_frame(video: Video, long_side: int, limit: int) -> Image:
    if video.frames:
        return video.frames[0]
    pictures = frames(video, MediaSettings(frames=1, max_long_side=long_side), limit)
    if not pictures:
        raise MediaError("the video has no frame")
    return pictures[0]


def _limited(blob: Blob) -> BytesBlob:
    """Read a blob, at most MAX_FILE_BYTES of it."""
    if isinstance(blob, FileBlob) and not blob.path.is_file():  # a pipe would never end
        raise DataError(f"image {blob.key} is not a regular file")
    with stream(blob) as source:
        data = source.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise MediaError(f"image {blob.key}: more than {MAX_FILE_BYTES:,} bytes; no small copy is drawn of it")
    return BytesBlob(blob.key, data)


class ThumbnailCache:
    """Small copies by digest, the least recently used dropped first. Callers may be threads.

    Each is drawn once, however many callers wait for it, and at most DECODED_AT_ONCE are decoded at a time. An image that
    cannot be drawn is remembered too, so that a broken one costs its reading once.
    """

    def __init__(self, budget_bytes: int = CACHE_BYTES) -> None:
        self._budget, self._bytes = budget_bytes, 0
        self._copies: OrderedDict[str, Thumbnail | Undrawable] = OrderedDict()
        self._drawing: dict[str, Event] = {}
        self._lock = Lock()
        self._decoders = BoundedSemaphore(DECODED_AT_ONCE)

    @property
    def held_bytes(self) -> int:
        """Return the bytes in memory, as counted against the budget."""
        return self._bytes

    def get(self, digest: str, draw: Callable[[], Thumbnail]) -> Thumbnail:
        """Return the copy with this digest, drawn by `draw` if it is not in memory.

        Raises:
            MediaError: it cannot be drawn.
        """
        while True:
            with self._lock:
                copy = self._copies.get(digest)
                if copy is not None:
                    self._copies.move_to_end(digest)
                    break
                drawn = self._drawing.get(digest)
                if drawn is None:
                    self._drawing[digest] = Event()
            if drawn is None:
                copy = self._drawn(digest, draw)
                break
            drawn.wait()
            copy = self._copies.get(digest)
            if copy is not None:
                break
        if isinstance(copy, Undrawable):
            raise MediaError(copy.message, copy.hint)
        return copy

    def _drawn(self, digest: str, draw: Callable[[], Thumbnail]) -> Thumbnail | Undrawable:
        copy: Thumbnail | Undrawable | None = None
        try:
            with self._decoders:
                copy = draw()
        except SnellenError as error:
            copy = Undrawable(error.message, error.hint)
        finally:
            with self._lock:
                if copy is not None:
                    self._copies[digest] = copy
                    self._bytes += _size(copy)
                    while self._bytes > self._budget and self._copies:
                        self._bytes -= _size(self._copies.popitem(last=False)[1])
                self._drawing.pop(digest).set()
        return copy


def _size(copy: Thumbnail | Undrawable) -> int:
    return ENTRY_BYTES + (len(copy.data) if isinstance(copy, Thumbnail) else 2 * len(copy.message))
