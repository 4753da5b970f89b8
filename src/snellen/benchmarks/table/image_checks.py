"""Check of a table's images: each is read once, and its checksum is remembered in the user's cache.

The checksum serves three purposes: unreadable images are known before the first request, questions about equal images form a
cluster, and the run's fingerprint covers the images.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TypeAlias

import msgspec

from snellen.atomic_write import replacing
from snellen.errors import DataError, MediaError
from snellen.media.decode import FORMATS as DECODED
from snellen.media.decode import open_image, pixel_limit, read_header
from snellen.media.dicom_frames import DicomFrame
from snellen.media.pdf import PdfPage
from snellen.sources.blobs import BytesBlob, FileBlob, stream
from snellen.sources.digests import SETTLED_NS, KnownChecksum, cache_folder
from snellen.sources.tree import MemberBlob
from snellen.types import Blob, Image, MediaSettings, Video

MOST_BYTES = 1 << 29
"""Bytes of an image; a larger one is no image of a question."""
ENDS = 1 << 20
"""Bytes at the beginning and at the end of a clip that its checksum covers."""
FORMATS = "JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG XL or DICOM"


OnRead: TypeAlias = Callable[[Blob, bytes], None]
"""Receives the bytes of each image that is read."""


class ImageChecks:
    """Checks of the images of one table; `save` keeps the checksums for the next start.

    Args:
        table: the name of the table.
        on_read: receives the images that are read; those whose checksum is remembered are not.
    """

    def __init__(self, table: str, on_read: OnRead | None = None) -> None:
        self._on_read = on_read
        name = sha256(table.encode(errors="surrogateescape")).hexdigest()
        self._place = cache_folder() / "table-image-digests" / f"{name}.json"
        try:
            self._known = msgspec.json.decode(self._place.read_bytes(), type=dict[str, KnownChecksum])
        except (OSError, msgspec.DecodeError, RecursionError):
            self._known = {}
        self._codes: dict[str, int | str] = {}
        self._containers: dict[Path, os.stat_result] = {}
        self._changed = False

    @property
    def images(self) -> int:
        """Return the number of different images among those that can be read."""
        return len({code for code in self._codes.values() if isinstance(code, int)})

    def check(self, blob: Blob, *, is_clip: bool = False) -> int | str:
        """Return the checksum of an image or clip, or the reason why it cannot be used; a frame stands for its stack."""
        if is_clip and isinstance(blob, DicomFrame):
            blob = blob.file
        key = blob.key
        result = self._codes.get(key)
        if result is None:
            try:
                result = self._checked(blob, key, is_clip=is_clip)
            except DataError as error:
                result = f"image unreadable: {error.message}"
            except OSError as error:
                result = f"image unreadable: {key}: {error.strerror or error}"
            self._codes[key] = result
        return result

    def check_clip(self, video: Video) -> int | str:
        """Return the checksum of a clip as `check`; of a folder of frames that of the first with the names of all."""
        code = self.check(video.blob or video.frames[0].blob, is_clip=True)
        names = [frame.blob.key.rpartition("/")[2] for frame in video.frames if not isinstance(frame.blob, DicomFrame)]
        return content_code("\n".join([str(code), *names]).encode()) if names and isinstance(code, int) else code

    def _checked(self, blob: Blob, key: str, *, is_clip: bool) -> int | str:
        container = _container(blob)
        status = None if container is None else self._status(container, blob)
        known = self._known.get(key)
        if (
            status is not None
            and known is not None
            and _times(known) == (status.st_size, status.st_mtime_ns, status.st_ino)
        ):
            return known.crc
        code = _clip_code(blob) if is_clip else _image_code(blob, self._on_read)
        if isinstance(code, int) and status is not None:
            self._known[key] = KnownChecksum(status.st_size, status.st_mtime_ns, status.st_ino, code)
            self._changed = True
        return code

    def _status(self, container: Path, blob: Blob) -> os.stat_result:
        if isinstance(blob, FileBlob):
            return container.stat()
        if container not in self._containers:
            self._containers[container] = container.stat()
        return self._containers[container]

    def save(self) -> None:
        """Write the checksums of images that did not change within the last seconds; forget those of other images."""
        if not self._changed:
            return
        now = time.time_ns()
        settled = {
            key: known for key, known in self._known.items() if key in self._codes and now - known.mtime_ns > SETTLED_NS
        }
        with suppress(OSError, UnicodeEncodeError):
            self._place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._place) as part:
                part.write_bytes(msgspec.json.encode(settled))


def _times(known: KnownChecksum) -> tuple[int, int, int]:
    return known.size, known.mtime_ns, known.inode


def _container(blob: Blob) -> Path | None:
    """Return the file that holds an image: its own, the table's of a cell, or the archive's."""
    return getattr(blob.tree if isinstance(blob, MemberBlob) else blob, "path", None)


def _image_code(blob: Blob, on_read: OnRead | None) -> int | str:
    if isinstance(blob, PdfPage):  # its document was measured; rendering all pages before a run would take long
        return content_code(f"{blob.content} {blob.number} {blob.dpi}".encode())
    if isinstance(blob, FileBlob) and (size := blob.path.stat().st_size) > MOST_BYTES:
        return f"image unreadable: {blob.path.name} has {size:,} bytes; at most {MOST_BYTES:,} are read"
    data = blob.read()
    if on_read is not None:
        on_read(blob, data)
    if not data:
        return f"image unreadable: {_name(blob)} is empty"
    header = read_header(data)
    if header is None:
        return f"image unreadable: {_name(blob)} is no {FORMATS}, or is cut off"
    if header.width * header.height > pixel_limit():
        return (
            f"image unreadable: {_name(blob)} claims {header.width:,} x {header.height:,} pixels, more than is decoded"
        )
    if header.format == "dicom":
        try:
            open_image(Image(BytesBlob(_name(blob), data)), MediaSettings())
        except MediaError as error:
            return f"image unreadable: {error.message}"
    if not header.complete and (reason := _undecodable(data)):
        return f"image unreadable: {_name(blob)} is cut off ({reason})"
    return content_code(data)


def _undecodable(data: bytes) -> str:
    """Return why an image without an end mark cannot be decoded; empty if it can."""
    from io import BytesIO

    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    try:
        with Pillow.open(BytesIO(data), formats=DECODED) as image:
            image.load()
    except UnidentifiedImageError:  # its text names an address in memory, which differs from run to run
        return "its header is not whole"
    except Exception as error:  # noqa: BLE001 - Pillow raises whatever its decoders stumble over
        return str(error)[:80]
    return ""


def _clip_code(blob: Blob) -> int | str:
    """Return a checksum of a clip's size and ends: clips are too large to be read before a run."""
    if not isinstance(blob, FileBlob):
        with stream(blob) as data:
            head = data.read(ENDS)
        return content_code(head) if head else f"clip unreadable: {_name(blob)} is empty"
    size = blob.path.stat().st_size
    if not size:
        return f"clip unreadable: {_name(blob)} is empty"
    with blob.path.open("rb") as file:
        head = file.read(ENDS)
        file.seek(max(0, size - ENDS))
        return content_code(size.to_bytes(8, "little") + head + file.read(ENDS))


def content_code(data: bytes) -> int:
    """Return 56 bits of a digest. CRC-32 would not do: of PNG files of one length it takes only 65,536 values.

    A PNG chunk ends with its own CRC-32, so that the file's depends on 16 bits of the chunk alone.
    """
    return int.from_bytes(blake2b(data, digest_size=7).digest(), "little")


def _name(blob: Blob) -> str:
    return blob.path.name if isinstance(blob, FileBlob) else blob.key
