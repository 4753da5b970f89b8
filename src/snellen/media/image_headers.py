"""Image headers: format, size, orientation, and whether all servers decode the image alike.

Nothing is decoded or imported: the path that sends original bytes must stay cheap, and an image that claims 50,000 x
50,000 pixels must be refused before a decoder sees it.

Sources of the layouts: ITU T.81 (JPEG), Exif 2.32 4.6, RFC 2083 and the PNG third edition, the WebP container
specification, GIF89a, the BMP DIB headers, TIFF 6.0.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

from msgspec import Struct

Format: TypeAlias = Literal["jpeg", "png", "webp", "gif", "bmp", "tiff"]

_ORIENTATION, _WIDTH, _HEIGHT = 0x0112, 0x0100, 0x0101
_MARKERS_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Header(Struct, frozen=True):
    """The properties of an image before it is decoded.

    Attributes:
        format: the container.
        width, height: pixels as stored, before any rotation.
        orientation: Exif orientation 1 to 8; 1 is upright, 5 to 8 swap width and height.
        plain: one frame, 8 bits per channel, grey or RGB with or without alpha or palette: decoded alike everywhere.
        complete: the format's end mark is present. If False, only decoding shows whether the image is complete.
    """

    format: Format
    width: int
    height: int
    orientation: int = 1
    plain: bool = True
    complete: bool = True

    @property
    def upright_size(self) -> tuple[int, int]:
        """(width, height) in pixels as displayed."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


def read_header(data: bytes) -> Header | None:
    """Read the header of an image; None if the format is not accepted or the bytes end within the header."""
    try:
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _png(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return _gif(data)
        if data[:2] == b"BM":
            return _bmp(data)
        if data[:4] in (b"II*\0", b"MM\0*"):
            tags = _ifd(data, 0)
            return Header("tiff", tags[_WIDTH], tags[_HEIGHT], _upright_or(tags.get(_ORIENTATION, 1)), plain=False)
    except (struct.error, IndexError, KeyError, ValueError):
        return None
    return None


def _jpeg(data: bytes) -> Header | None:
    at, orientation = 2, 1
    frame: tuple[int, int, int, int] | None = None
    while True:
        if data[at] != 0xFF:  # stray bytes between segments, which decoders skip
            at = data.index(b"\xff", at)
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if marker in _MARKERS_ALONE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker == 0xE1 and data[at + 4 : at + 10] == b"Exif\0\0":
            orientation = _exif_orientation(data[at + 10 : at + 2 + length])
        elif marker in _FRAME_MARKERS and frame is None:
            frame = struct.unpack_from(">BHHB", data, at + 4)
        elif marker == 0xDA:
            break
        elif marker == 0xD9:
            return None
        at += 2 + length
    if frame is None:
        return None
    depth, height, width, channels = frame
    plain = depth == 8 and height > 0 and channels in (1, 3)
    return Header("jpeg", width, height, orientation, plain, complete=data.rfind(b"\xff\xd9") > at)


def _png(data: bytes) -> Header | None:
    width, height, depth = struct.unpack_from(">IIB", data, 16)
    if data[12:16] != b"IHDR":
        return None
    at, orientation, plain, complete = 8, 1, depth <= 8, False
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        if kind == b"acTL":
            plain = False
        elif kind == b"eXIf":
            orientation = _exif_orientation(data[at + 8 : at + 8 + length])
        elif kind == b"IEND":
            complete = True
            break
        at += 12 + length
    return Header("png", width, height, orientation, plain, complete)


def _webp(data: bytes) -> Header | None:
    (riff,) = struct.unpack_from("<I", data, 4)
    complete = riff + 8 <= len(data)
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("webp", width & 0x3FFF, height & 0x3FFF, complete=complete)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Header("webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, complete=complete)
    if kind != b"VP8X":
        return None
    flags = data[20]
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    orientation = 1
    if flags & 0x08:
        at = 12
        while at + 8 <= len(data):
            (length,) = struct.unpack_from("<I", data, at + 4)
            if data[at : at + 4] == b"EXIF":
                orientation = _exif_orientation(data[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0"))
                break
            at += 8 + length + (length & 1)
    return Header("webp", width, height, orientation, plain=not flags & 0x02, complete=complete)


def _gif(data: bytes) -> Header:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    images, complete = 0, False
    while at < len(data) and images < 2:
        block = data[at]
        if block == 0x3B:
            complete = True
            break
        if block == 0x2C:
            images += 1
            local = data[at + 9] if at + 9 < len(data) else 0
            at += 11 + (3 << (local & 7) + 1 if local & 0x80 else 0)
        elif block == 0x21:
            at += 2
        else:
            break
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    return Header("gif", width, height, plain=images == 1, complete=complete)


def _bmp(data: bytes) -> Header:
    (size,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if size == 12 else "<ii", data, 18)
    return Header("bmp", abs(width), abs(height), plain=False)


def _exif_orientation(tiff: bytes) -> int:
    try:
        return _upright_or(_ifd(tiff, 0).get(_ORIENTATION, 1))
    except (struct.error, IndexError, KeyError):
        return 1


def _upright_or(orientation: int) -> int:
    """Return a valid orientation; values outside 1 to 8 mean 1, as in viewers."""
    return orientation if 1 <= orientation <= 8 else 1


def _ifd(tiff: bytes, start: int) -> dict[int, int]:
    """Read the relevant integer tags of the first image directory of a TIFF stream."""
    order = {b"II": "<", b"MM": ">"}[bytes(tiff[start : start + 2])]
    (offset,) = struct.unpack_from(order + "I", tiff, start + 4)
    (count,) = struct.unpack_from(order + "H", tiff, start + offset)
    tags: dict[int, int] = {}
    for index in range(count):
        entry = start + offset + 2 + 12 * index
        tag, kind, _ = struct.unpack_from(order + "HHI", tiff, entry)
        if tag in (_ORIENTATION, _WIDTH, _HEIGHT):
            (tags[tag],) = struct.unpack_from(order + ("H" if kind == 3 else "I"), tiff, entry + 8)
    return tags
