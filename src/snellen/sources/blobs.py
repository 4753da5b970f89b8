"""Lazy bytes: what an image in a prompt refers to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError


class FileBlob(Struct, frozen=True):
    """A file on disk, read whole when asked. The caller has confined `path` to its root."""

    path: Path

    @property
    def key(self) -> str:
        return str(self.path)

    def read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}") from error


class BytesBlob(Struct, frozen=True):
    """Bytes already at hand (a parquet cell, a base64 column); `key` names where they came from."""

    key: str
    data: bytes

    def read(self) -> bytes:
        return self.data


class Drawn(Struct, frozen=True):
    """A picture that is drawn when it is read; `key` holds every parameter of the drawing."""

    key: str
    draw: Callable[[], bytes]

    def read(self) -> bytes:
        return self.draw()
