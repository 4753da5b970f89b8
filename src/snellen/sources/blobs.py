"""Lazy bytes: what an image in a prompt refers to.

`quick` is true where reading costs less than handing the work to a thread: bytes in memory, small local files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from snellen.errors import DataError

QUICK_BYTES = 1 << 20


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


class BytesBlob(Struct, frozen=True):
    """Bytes already at hand (a parquet cell, a base64 column); `key` names where they came from."""

    key: str
    data: bytes
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        return self.data


class Drawn(Struct, frozen=True):
    """A picture that is drawn when it is read; `key` holds every parameter of the drawing."""

    key: str
    draw: Callable[[], bytes]

    def read(self) -> bytes:
        return self.draw()
