"""Images under check: each is read once; what is held of it is its size, format and digest."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from msgspec import Struct

from snellen.errors import MediaError, SnellenError
from snellen.media import decode
from snellen.media.encode import why_changed
from snellen.sources.blobs import FileBlob
from snellen.sources.tree import MemberBlob
from snellen.types import Blob, MediaSettings

TINY = 28
"""Pixels: Qwen's processors refuse an image with a side that is shorter than two patches of 14."""
ELONGATED = 20
HUGE_SIDE, HUGE_BYTES = 8_000, 5_000_000
"""Limits of an image at Anthropic's endpoint: pixels a side, bytes."""


class ImageFacts(Struct, frozen=True):
    """Facts about an image before it is sent.

    Attributes:
        content: 64 bits of the digest of its bytes; of its name where it cannot be read.
        format: `jpeg`, `png` …; empty where it cannot be read, or lies on the network.
        width, height: pixels as displayed; 0 where they are unknown.
        bytes: of the file.
        changed: why it is converted before it is sent; empty if it is not.
        problem: why it cannot be sent; empty if it can.
    """

    content: int
    format: str = ""
    width: int = 0
    height: int = 0
    bytes: int = 0
    changed: str = ""
    problem: str = ""


class ImageReader:
    """Facts of images by their names; each image is read once.

    Args:
        settings: how images are sent.
    """

    def __init__(self, settings: MediaSettings) -> None:
        self._settings = settings
        self._limit = decode.pixel_limit()
        self._facts: dict[int, ImageFacts] = {}
        self._contents: set[int] = set()

    @property
    def images(self) -> int:
        """Return the number of images with different content that can be sent."""
        return len(self._contents)

    @property
    def read(self) -> int:
        """Return the number of images that were read, by name."""
        return len(self._facts)

    def facts(self, blob: Blob) -> ImageFacts:
        """Return the facts of an image, reading it unless it was read before."""
        key = hash(blob.key)
        facts = self._facts.get(key)
        if facts is None:
            try:
                data = None if getattr(blob, "url", None) else blob.read()
                facts = ImageFacts(key) if data is None else self._of_bytes(blob, data)
            except SnellenError as error:
                facts = ImageFacts(key, problem=error.message)
            self._remember(key, facts)
        return facts

    def saw(self, blob: Blob, data: bytes) -> None:
        """Take the facts of an image from bytes that were read for another purpose."""
        key = hash(blob.key)
        if key not in self._facts:
            self._remember(key, self._of_bytes(blob, data))

    def _remember(self, key: int, facts: ImageFacts) -> None:
        self._facts[key] = facts
        if not facts.problem:
            self._contents.add(facts.content)

    def _of_bytes(self, blob: Blob, data: bytes) -> ImageFacts:
        content = int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
        try:
            header = decode.checked_header(data, blob.key, self._limit)
            if not header.complete:
                decode.render(data, header, blob.key, self._settings, self._limit)
        except MediaError as error:
            return ImageFacts(content, bytes=len(data), problem=error.message)
        width, height = header.upright_size
        changed = why_changed(header, self._settings)
        return ImageFacts(content, header.format, width, height, len(data), changed)


def file_name(blob: Blob) -> str:
    """Return the name of an image that is a file or a member of an archive; empty for an inline image."""
    return blob.key if isinstance(blob, (FileBlob, MemberBlob)) else ""


def image_findings(facts: ImageFacts, name: str) -> Iterator[tuple[str, str]]:
    """Yield code and detail of what is odd about an image."""
    if facts.problem:
        yield "image-unreadable", facts.problem
        return
    size = f"{name}: {facts.width:,} x {facts.height:,} pixels"
    short, long = sorted((facts.width, facts.height))
    if 0 < short < TINY:
        yield "image-tiny", size
    elif short and long > ELONGATED * short:
        yield "image-elongated", size
    if long > HUGE_SIDE or facts.bytes > HUGE_BYTES:
        yield "image-huge", f"{size}, {facts.bytes:,} bytes"
    if facts.changed:
        yield "image-converted", f"{name}: {facts.changed}"
