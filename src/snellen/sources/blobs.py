"""Lazy bytes: the content of an image in a prompt, which is read, decoded, or drawn as a PNG.

`quick` is True if reading costs less than a thread: bytes in memory, small local files. `open` returns a stream, for
files that are too large to hold.
"""

from __future__ import annotations

import re
import struct
import zlib
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

from msgspec import Struct

from snellen.errors import DataError
from snellen.types import Blob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUICK_BYTES = 1 << 20
PDF_MARK = b"%PDF-"
_VIDEO = re.compile(
    rb".{4}ftyp(?:iso|mp4|avc1|M4V|qt|3g|dash|f4v|MSNV)|.{4}moov|\x1a\x45\xdf\xa3|RIFF.{4}AVI ", re.DOTALL
)
"""First bytes of MP4, QuickTime, Matroska, WebM and AVI; HEIC and AVIF have other brands."""


def stream(blob: Blob) -> IO[bytes]:
    """Open the blob's bytes as a stream; a blob without `open` is read whole."""
    opener = getattr(blob, "open", None)
    return opener() if opener else BytesIO(blob.read())


def begins_as_video(data: bytes) -> bool:
    """Return True for bytes that begin as a container of video does."""
    return _VIDEO.match(data) is not None


def is_base64_pdf(text: str) -> bool:
    """Return True for base64, with or without a `data:` prefix, that begins as a PDF does."""
    return text[:80].rpartition(",")[2].lstrip().startswith("JVBERi0")


class FileBlob(Struct, frozen=True):
    """A file on disk, read on demand. The caller has confined `path` to its root."""

    path: Path

    @property
    def key(self) -> str:
        return str(self.path)

    @property
    def quick(self) -> bool:
        try:
            return self.path.stat().st_size <= QUICK_BYTES
        except OSError:
            return True  # reading fails at once, with the reason

    def read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}") from error

    def open(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}") from error


class BytesBlob(Struct, frozen=True):
    """Bytes in memory (a parquet cell); `key` names their source."""

    key: str
    data: bytes
    quick: ClassVar[bool] = True

    @property
    def is_pdf(self) -> bool:
        return self.data.startswith(PDF_MARK)

    @property
    def is_clip(self) -> bool:
        return begins_as_video(self.data[:16])

    def read(self) -> bytes:
        return self.data

    def open(self) -> IO[bytes]:
        return BytesIO(self.data)


class Base64Blob(Struct, frozen=True):
    """An image in a text column: base64, with or without a `data:` prefix, decoded on demand."""

    key: str
    text: str
    quick: ClassVar[bool] = True

    @property
    def is_pdf(self) -> bool:
        return is_base64_pdf(self.text)

    def read(self) -> bytes:
        """Decode the text. Raises DataError if it is not base64."""
        text = self.text
        if text.startswith("data:"):
            text = text[text.find(",") + 1 :]
        try:
            return a2b_base64("".join(text.split()), strict_mode=True)
        except (NotBase64, ValueError) as error:
            raise DataError(
                f"{self.key}: {self.text[:24]!r}... ({len(self.text):,} characters) is not base64: {error}",
                "Check the column: it may be cut off, or hold something else.",
            ) from error


class UrlBlob(Struct, frozen=True):
    """An image that the model's server fetches. Snellen passes `url` on and never requests it."""

    url: str

    @property
    def key(self) -> str:
        return self.url

    def read(self) -> bytes:
        raise DataError(
            f"image {self.url} is on the network; images are not fetched during a run",
            "Use a model that accepts URLs, or download the image and refer to the file.",
        )


class Unreadable(Struct, frozen=True):
    """A placeholder for an unreadable image or row: reading it raises the reason.

    A sample that holds one is recorded as failed (kind `input`) with this message, and the run continues.

    Attributes:
        key: the file and line, or the image's name.
        message: the problem and its place.
        hint: the remedy.
    """

    key: str
    message: str
    hint: str = ""
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        """Raise DataError."""
        raise DataError(self.message, self.hint)

    def open(self) -> IO[bytes]:
        """Raise DataError."""
        raise DataError(self.message, self.hint)


class Drawn(Struct, frozen=True):
    """An image drawn on demand; `key` holds every parameter of the drawing."""

    key: str
    draw: Callable[[], bytes]

    def read(self) -> bytes:
        return self.draw()


def stored_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG of [height, width, 3] or [height, width] bytes, the same on every platform.

    It holds its pixels in stored (uncompressed) deflate blocks of at most 65,535 bytes, because the output of a compressor
    differs between zlib versions and its rivals.
    """
    height, width = pixels.shape[:2]
    colour_type = 2 if pixels.ndim == 3 else 0
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    blocks = [raw[start : start + 65535] for start in range(0, len(raw), 65535)]
    stored = b"".join(
        struct.pack("<BHH", number == len(blocks) - 1, len(block), len(block) ^ 0xFFFF) + block
        for number, block in enumerate(blocks)
    )
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(raw))
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
