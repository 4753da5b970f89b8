"""Videos sent as files, for endpoints that select frames themselves.

The bytes are sent unchanged. The container is detected by its first bytes, never by a name: MP4 and QuickTime (ISO/IEC
14496-12 boxes; brand `qt  `, or none, is QuickTime), AVI (RIFF), WebM and Matroska (EBML, RFC 8794). Only the outer
structure is checked, so no decoder is needed: a file whose boxes, chunks or segment reach past its end was cut off, and
is an error. Damage further inside is left to the endpoint.

The bytes of a video: in memory, or of a large one a file that is read in pieces.

A video of hours is several gigabytes. A file is read where it lies; a member of an archive is copied to a temporary file,
since a demuxer seeks and an archive cannot.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from io import BufferedReader, BytesIO, FileIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, TypeAlias

from pybase64 import b64encode

from snellen.errors import DataError, MediaError
from snellen.media.decode import first_bytes
from snellen.media.encode import Encoded
from snellen.types import Blob, Video

LARGE = 64 << 20
"""Bytes from which on a video is not held in memory."""
_PIECE = 1 << 20


class VideoFile:
    """A file of a video that is read in pieces."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size

    def __len__(self) -> int:
        return self.size

    def open(self) -> IO[bytes]:
        return self.path.open("rb")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        digest = sha256()
        with self.open() as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        return digest.digest()


VideoData: TypeAlias = bytes | VideoFile


def opened_data(data: VideoData) -> IO[bytes]:
    """Open the bytes for a demuxer, which seeks in them."""
    return BytesIO(data) if isinstance(data, bytes) else data.open()


def digest_of(data: VideoData) -> bytes:
    """Return the SHA-256 of the bytes."""
    return sha256(data).digest() if isinstance(data, bytes) else data.digest


@contextmanager
def video_data(blob: Blob) -> Iterator[VideoData]:
    """Give the bytes of a video, for as long as the block lasts.

    Raises:
        DataError: it cannot be read, or there is no room for a copy of an archive's member.
    """
    opener = getattr(blob, "open", None)
    if opener is None:
        yield blob.read()
        return
    with opener() as stream:
        if path := _plain_file(stream):
            size = path.stat().st_size
            if size > LARGE:
                yield VideoFile(path, size)
                return
        first = stream.read(LARGE + 1)
        if len(first) <= LARGE:
            yield first
            return
        with NamedTemporaryFile(prefix="snellen-video-", suffix=".part") as copy:
            try:
                size = _copied(first, stream, copy)
            except OSError as error:
                raise DataError(
                    f"video {blob.key}: cannot be copied out of its archive: {error.strerror}",
                    "Set TMPDIR to a folder with room for it, or unpack the archive.",
                ) from error
            del first
            yield VideoFile(Path(copy.name), size)


def _plain_file(stream: Any) -> Path | None:
    """Return the path of a stream that is a file on disk."""
    raw = stream.raw if isinstance(stream, BufferedReader) else None
    return Path(stream.name) if isinstance(raw, FileIO) and isinstance(stream.name, str) else None


def _copied(first: bytes, stream: IO[bytes], copy: Any) -> int:
    copy.write(first)
    size = len(first)
    while piece := stream.read(_PIECE):
        copy.write(piece)
        size += len(piece)
    copy.flush()
    return size


FILE_LIMIT = 100_000_000
_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"pnot", b"sidx", b"mfra", b"uuid"})
_EBML, _DOCTYPE, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x42\x82", b"\x18\x53\x80\x67"


def encode_video(video: Video) -> Encoded:
    """Encode the file of a video as a data URI; `width` and `height` are 0, since nothing is decoded.

    Raises:
        MediaError: the clip is drawn and has no file; the file is empty, cut off, of an unsupported container, or
            larger than 100 MB.
        DataError: the bytes are unreadable.
    """
    if video.blob is None:
        raise MediaError(
            f"a clip of {len(video.frames)} drawn frames has no file, which --video native needs",
            "Pass --video frames.",
        )
    key = video.blob.key
    data = _read(video.blob)
    mime = container(data, key)
    uri = b"".join((b"data:", mime.encode(), b";base64,", b64encode(data)))
    return Encoded(uri, mime, sha256(data).hexdigest(), 0, 0)


def container(data: bytes, key: str) -> str:
    """Return the MIME type of a complete video file. Raises MediaError: empty, unsupported, or cut off."""
    if not data:
        raise MediaError(f"video {key}: the file is empty", "Fetch it again.")
    mime, fault = _outline(data)
    if not mime:
        raise MediaError(
            f"video {key}: the first bytes are {data[:12]!r}; MP4, QuickTime, AVI, WebM or Matroska was expected",
            "The file is damaged or of another container; convert it to MP4, or pass --video frames.",
        )
    if fault:
        raise _cut_off(key, data, fault)
    return mime


def check_whole(data: VideoData, key: str) -> None:
    """Raise MediaError if a file was cut off. Containers other than those above are not checked."""
    if isinstance(data, bytes):
        _, fault = _outline(data)
    else:
        with data.open() as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
            _, fault = _outline(mapped)
    if fault:
        raise _cut_off(key, data, fault)


def _cut_off(key: str, data: VideoData, fault: str) -> MediaError:
    return MediaError(f"video {key}: of {len(data):,} bytes, {fault}", "The file is cut off; fetch it again.")


def _outline(data: bytes | mmap) -> tuple[str, str]:
    """Return (MIME type, fault) by the outer structure; both empty for a container that is not known here."""
    if data[4:8] in _BOXES:
        mime = "video/mp4" if data[4:8] == b"ftyp" and data[8:12] != b"qt  " else "video/quicktime"
        return mime, _boxes_fault(data)
    if data[:4] == b"RIFF" and data[8:12] == b"AVI ":
        return "video/x-msvideo", _past_end(data, "RIFF chunk", 8, int.from_bytes(data[4:8], "little"))
    return _ebml(data) if data[:4] == _EBML else ("", "")


def _read(blob: Blob) -> bytes:
    """Read the bytes of a blob; a stream is not read beyond the size limit."""
    data = first_bytes(blob, FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise MediaError(
            f"video {blob.key}: more than {FILE_LIMIT:,} bytes; larger files are not sent",
            "Pass --video frames, or make the file smaller: lower its resolution, or cut it into parts.",
        )
    return data


def _boxes_fault(data: bytes | mmap) -> str:
    """Return the fault of the outermost boxes, empty if none. Unknown bytes after a complete video are ignored."""
    at = 0
    kinds: set[bytes] = set()
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if size == 1 and at + 16 <= len(data):
            (size,) = struct.unpack_from(">Q", data, at + 8)
        elif size == 0:  # to the end of the file
            size = len(data) - at
        if kind not in _BOXES and {b"moov", b"mdat"} <= kinds:
            break
        if size < 8 or (fault := _past_end(data, f"box {kind.decode('latin-1')!r}", at, size)):
            return fault if size >= 8 else f"the box at byte {at:,} says it has {size} bytes"
        kinds.add(kind)
        at += size
    if b"moov" not in kinds:
        return "there is no index (box 'moov')"
    return "" if kinds & {b"mdat", b"moof"} else "there is no picture data (box 'mdat')"


def _ebml(data: bytes | mmap) -> tuple[str, str]:
    """Return (MIME type, fault) of a WebM or Matroska file. A segment of unknown length ends with the file."""
    size, at = _number(data, 4)
    head = data[at : at + (size or 0)]
    mime = "video/webm" if _DOCTYPE + b"\x84webm" in head else "video/x-matroska"
    at += size or 0
    if data[at : at + 4] != _SEGMENT:
        return mime, "no segment follows the header"
    size, at = _number(data, at + 4)
    return mime, ("" if size is None else _past_end(data, "segment", at, size))


def _number(data: bytes | mmap, at: int) -> tuple[int | None, int]:
    """Return (value, next byte) of an EBML length; None for the value that means unknown."""
    if at >= len(data) or data[at] == 0:
        return None, len(data)
    length = 9 - data[at].bit_length()
    value = int.from_bytes(data[at : at + length], "big") & ((1 << 7 * length) - 1)
    return (None if value == (1 << 7 * length) - 1 else value), at + length


def _past_end(data: bytes | mmap, part: str, at: int, size: int) -> str:
    available = len(data) - at
    return f"its {part} says {size:,} from byte {at:,} on, and {available:,} are there" if size > available else ""
