"""Checksums of a table's images tell images apart and are remembered."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from snellen.benchmarks.table.image_checks import ImageChecks
from snellen.sources.blobs import BytesBlob, FileBlob
from snellen.types import Blob


def flat_png(number: int) -> bytes:
    """Return a PNG of one pixel whose bytes differ from those of other numbers only within its data and checksum."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0" + number.to_bytes(3, "big"), 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def test_pngs_of_one_length_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path))
    checks = ImageChecks("table")
    codes = {checks.check(BytesBlob(f"image {number}", flat_png(number))) for number in range(3_000)}
    assert len(codes) == checks.images == 3_000


def test_images_are_read_once_and_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path))
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for number, path in enumerate(paths):
        path.write_bytes(flat_png(number))
    reads: list[tuple[str, bytes]] = []

    def on_read(blob: Blob, content: bytes) -> None:
        reads.append((blob.key, content))

    checks = ImageChecks("table", on_read)
    first = [checks.check(FileBlob(path)) for path in paths * 2]
    assert reads == [(str(path), path.read_bytes()) for path in paths]
    assert first[:2] == first[2:] and len(set(first)) == 2
