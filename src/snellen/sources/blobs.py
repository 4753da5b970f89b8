"""Lazy bytes: what an image in a prompt refers to.

`quick` is true where reading costs less than handing the work to a thread: bytes in memory, small local files.
`open` gives a stream, for files that are too large to hold.
"""

from __future__ import annotations

from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, ClassVar

from msgspec import Struct

from snellen.errors import DataError
from snellen.types import Blob

QUICK_BYTES = 1 << 20


def stream(blob: Blob) -> IO[bytes]:
    """The blob's bytes as a stream; held whole only where the blob knows no better."""
    opener = getattr(blob, "open", None)
    return opener() if opener else BytesIO(blob.read())


class FileBlob(Struct, frozen=True):
    """A file on disk, read whole when asked. The caller has confined `path` to its root."""

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
    """Bytes already at hand (a parquet cell); `key` names where they came from."""

    key: str
    data: bytes
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        return self.data

    def open(self) -> IO[bytes]:
        return BytesIO(self.data)


class Base64Blob(Struct, frozen=True):
    """A picture in a text column: base64, with or without a `data:` prefix, decoded when read."""

    key: str
    text: str
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        """Raises DataError where the text is not base64."""
        text = self.text
        if text.startswith("data:"):
            text = text[text.find(",") + 1 :]
        try:
            return a2b_base64("".join(text.split()), strict_mode=True)
        except (NotBase64, ValueError) as error:
            raise DataError(
                f"{self.key}: {self.text[:24]!r}... ({len(self.text):,} characters) is not base64: {error}",
                "The column is cut off, or holds something else.",
            ) from error


class UrlBlob(Struct, frozen=True):
    """A picture that the model's server fetches itself. Snellen passes `url` on and never follows it."""

    url: str

    @property
    def key(self) -> str:
        return self.url

    def read(self) -> bytes:
        raise DataError(
            f"image {self.url} is on the network, and pictures are not fetched while a run goes on",
            "Use a model that takes URLs, or download the picture and refer to the file.",
        )


class Unreadable(Struct, frozen=True):
    """Stands where a picture, or a whole row, cannot be had: whoever asks for its bytes learns why.

    A sample that holds one is recorded as failed (kind `input`) with this message, and the run goes on.

    Attributes:
        key: what could not be had: the file and line, or the picture's name.
        message: what was found, and where.
        hint: what to do about it.
    """

    key: str
    message: str
    hint: str = ""
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        """Raises DataError, always."""
        raise DataError(self.message, self.hint)

    def open(self) -> IO[bytes]:
        """Raises DataError, always."""
        raise DataError(self.message, self.hint)


class Drawn(Struct, frozen=True):
    """A picture that is drawn when it is read; `key` holds every parameter of the drawing."""

    key: str
    draw: Callable[[], bytes]

    def read(self) -> bytes:
        return self.draw()
