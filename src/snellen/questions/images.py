"""Images of a set: check that they exist and are images, and write anonymous copies."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from snellen.errors import DataError, MediaError
from snellen.media import Header, open_image, read_header
from snellen.questions.image_rows import Images
from snellen.sources import BytesBlob, Tree
from snellen.types import Image, MediaSettings

HEAD_BYTES = 1 << 16
ENDINGS = {"jpeg": ".jpg", "png": ".png"}
# JPEG segments that are kept: those that decoding needs, JFIF (APP0), ICC profiles (APP2) and Adobe's colours (APP14).
_DROPPED_JPEG = frozenset({0xE1, *range(0xE3, 0xEE), 0xEF, 0xFE})
_KEPT_PNG = frozenset(
    {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD"}
)


def check_images(images: Images, tree: Tree) -> list[str]:
    """Return the format of each image by its first bytes; nothing is decoded.

    Raises:
        DataError: one is missing or is no image; with file and row.
    """
    return [_kind(images, at, tree) for at in range(len(images.names))]


def _kind(images: Images, at: int, tree: Tree) -> str:
    name, where = images.names[at], images.where(at)
    if not tree.exists(name):
        raise DataError(f"{where}: there is no image {name!r} in {tree.path}", "Check --images, or remove the row.")
    with tree.open(name) as stream:
        data = stream.read(HEAD_BYTES)
        header = read_header(data)
        if header is None and len(data) == HEAD_BYTES:  # a long Exif block stands before the size
            header = read_header(data + stream.read())
    if header is None:
        raise DataError(f"{where}: {name!r} is not an image ({len(data):,} bytes were looked at)", "Remove the row.")
    return header.format


def neutral_names(order: Sequence[int], images: Images, kinds: Sequence[str] | None, copied: bool) -> list[str]:
    """Build neutral file names in image order: a zero-padded number (six digits or more) and a suffix."""
    width = max(6, len(str(len(order))))
    names = []
    for number, at in enumerate(order, 1):
        if copied and kinds is not None:
            ending = ENDINGS.get(kinds[at], ".png")
        else:
            ending = PurePosixPath(images.names[at]).suffix.lower() or ".jpg"
        names.append(f"{number:0{width}d}{ending}")
    return names


def copy_images(images: Images, order: Sequence[int], names: Sequence[str], tree: Tree, to: Path) -> None:
    """Write stripped copies under neutral names.

    Raises:
        DataError: an image cannot be decoded; with file and row.
    """
    to.mkdir()
    for at, name in zip(order, names, strict=True):
        try:
            data = strip_metadata(tree.read(images.names[at]), images.names[at])
        except MediaError as error:
            raise DataError(f"{images.where(at)}: {error.message}", error.hint) from error
        (to / name).write_bytes(data)


def strip_metadata(data: bytes, name: str) -> bytes:
    """Return an image without Exif, XMP, IPTC, comments, texts and trailing bytes.

    JPEG and PNG that stand upright keep their very pixels. Others (WebP, GIF, BMP, TIFF; an image that Exif turns) are
    decoded, turned and written as PNG, or JPEG of quality 95 where they were JPEG.
    """
    header = read_header(data)
    if header is None:
        raise MediaError(f"{name!r} is not an image", "Remove it.")
    if header.orientation == 1 and header.complete and header.format in ("jpeg", "png"):
        try:
            return b"".join(_jpeg(data) if header.format == "jpeg" else _png(data))
        except (IndexError, ValueError, struct.error):
            return _reencode(data, header, name)  # segments that contradict each other: a decoder has to show
    return _reencode(data, header, name)


def _jpeg(data: bytes) -> Iterator[bytes]:
    yield data[:2]
    at = 2
    while True:
        if data[at] != 0xFF:
            at = data.index(b"\xff", at)
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            yield data[at : at + 2]
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker not in _DROPPED_JPEG and not (marker == 0xE2 and data[at + 4 : at + 15] != b"ICC_PROFILE"):
            if marker == 0xDA:
                yield data[at : _end_of_jpeg(data, at)]
                return
            yield data[at : at + 2 + length]
        at += 2 + length


def _end_of_jpeg(data: bytes, scan: int) -> int:
    """Return the offset just after the end marker of the image whose first scan begins at `scan`."""
    at = scan
    while True:
        at = data.index(b"\xff", at)
        marker = data[at + 1]
        if marker == 0xD9:
            return at + 2
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD7:
            at += 1 if marker == 0xFF else 2
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + length


def _png(data: bytes) -> Iterator[bytes]:
    yield data[:8]
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        if kind in _KEPT_PNG:
            yield data[at : at + 12 + length]
        at += 12 + length
        if kind == b"IEND":
            return


def _reencode(data: bytes, header: Header, name: str) -> bytes:
    from PIL import Image as pillow

    picture = open_image(Image(BytesBlob(name, data)), MediaSettings())
    out = BytesIO()
    clean = pillow.frombytes(picture.mode, picture.size, picture.tobytes())  # pixels alone
    if header.format == "jpeg":
        clean.save(out, "JPEG", quality=95, subsampling=0)
    else:
        clean.save(out, "PNG")
    return out.getvalue()


def has_metadata(data: bytes) -> bool:
    """Return True if a JPEG or PNG carries Exif, XMP, a comment or a text."""
    header = read_header(data)
    if header is None or header.format not in ("jpeg", "png"):
        return False
    stripped_bytes = b"".join(_jpeg(data) if header.format == "jpeg" else _png(data))
    return len(stripped_bytes) < len(data)
