"""Frames of a video: which ones are sent, and how they are taken out of a file nobody vouches for.

Which: of T frames at most N are sent. T <= N: all of them. Otherwise frame k (0 to N - 1) is number k * (T - 1) // (N
- 1): evenly spaced, the first and the last always among them; N = 1 takes the middle, (T - 1) // 2. The same rule
holds for drawn clips.

How: PyAV reads the blob's bytes from memory, so no name of a file ever reaches a demuxer or a shell. T is the number of
frames that decode, counted when the container does not tell the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from snellen.errors import MediaError, MissingExtraError
from snellen.media import decode
from snellen.types import Image, MediaSettings, Video

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FRAME_LIMIT = 200_000
# Demuxers of encoded video only: playlists and manifests (hls, dash, concat) point at other files and hosts. FFmpeg
# looks at these lists before a demuxer reads its first header.
OPTIONS = {"format_whitelist": "mov,matroska,avi,mpegts,mpeg,flv,ogg,asf", "protocol_whitelist": "none"}


class Frame(Struct, frozen=True):
    """One frame, encoded already under `made_with`; the encoder passes it on as it is under the same settings."""

    key: str
    data: bytes
    made_with: MediaSettings
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        return self.data


def frame_numbers(total: int, wanted: int) -> list[int]:
    """Numbers of the frames that are sent, rising, from 0; the rule is at the top of this file.

    Raises:
        ValueError: `wanted` is below 1.
    """
    if wanted < 1:
        raise ValueError(f"{wanted} frames were asked for; at least 1 is needed")
    if total <= wanted:
        return list(range(total))
    if wanted == 1:
        return [(total - 1) // 2]
    return [k * (total - 1) // (wanted - 1) for k in range(wanted)]


def drawn_frames(video: Video, settings: MediaSettings) -> tuple[Image, ...]:
    """The frames of a drawn clip (`Video.frames`) that are sent; nothing is drawn yet."""
    return tuple(video.frames[number] for number in frame_numbers(len(video.frames), settings.frames))


def frames(video: Video, settings: MediaSettings, limit: int | None = None) -> list[Image]:
    """The frames of a video that are sent, in order; at most `settings.frames`, within the limits of `settings`.

    Frames of a file are fitted and encoded here (`format`; `original` means JPEG for video), each once.

    Args:
        limit: pixels a frame may have at most; None takes `pixel_limit()`.

    Raises:
        MediaError: no video stream, damaged, cut off, too many frames, or frames over the limit.
        MissingExtraError: PyAV is not installed.
    """
    if video.blob is None:
        return list(drawn_frames(video, settings))
    try:
        import av  # noqa: F401 - asked for here, so that a missing one is named before anything is read
    except ImportError as error:
        raise MissingExtraError(
            f"video {video.blob.key} needs PyAV, which is not installed", "pip install 'snellen[video]'"
        ) from error
    key = video.blob.key
    data = video.blob.read()
    if not data:
        raise MediaError(f"video {key}: the file is empty", "Fetch it again.")
    try:
        pictures = _pick(data, key, settings, decode.pixel_limit() if limit is None else limit)
    except MediaError:
        raise
    except Exception as error:
        # FFmpeg's errors, and whatever PyAV stumbles over where a damaged file leaves it without a codec or a size.
        raise MediaError(
            f"video {key}: {len(data):,} bytes cannot be decoded: {error}",
            "The file is damaged, cut off, or of a container that is not read; fetch it again or convert it to MP4.",
        ) from error
    return [
        Image(Frame(f"{key}#frame={number}&{_tag(settings)}", _encoded(picture, settings), settings))
        for number, picture in pictures
    ]


def _pick(data: bytes, key: str, settings: MediaSettings, limit: int) -> list[tuple[int, Picture]]:
    total = _count(data, key, limit)
    while True:
        wanted = frame_numbers(total, settings.frames)
        picked, seen = _take(data, key, set(wanted), wanted[-1], limit, settings)
        if len(picked) == len(wanted):
            return picked
        if seen == 0:
            raise MediaError(f"video {key}: no frame of its {total} can be decoded", "Fetch it again.")
        total = seen  # the container counts packets that show nothing


def _take(
    data: bytes, key: str, wanted: set[int], last: int, limit: int, settings: MediaSettings
) -> tuple[list[tuple[int, Picture]], int]:
    """The wanted frames, fitted as they are met, and how many frames were seen."""
    from PIL import Image as pillow

    picked: list[tuple[int, Picture]] = []
    seen = 0
    with _opened(data, key, limit) as container:
        for frame in container.decode(video=0):
            if seen in wanted:
                decode.check_size(frame.width, frame.height, key, limit)
                picture = _upright(frame)
                size = decode.fitted(*picture.size, settings)
                if settings.blank:
                    picture = pillow.new("RGB", size, decode.GREY)
                elif size != picture.size:
                    picture = picture.resize(size, pillow.Resampling.BICUBIC)
                picked.append((seen, picture))
            seen += 1
            if seen > last:
                break
    return picked, seen


def _count(data: bytes, key: str, limit: int) -> int:
    """Packets with data in the first video stream: one a frame in the codecs of the accepted containers."""
    total = 0
    with _opened(data, key, limit) as container:
        for packet in container.demux(video=0):
            total += packet.size > 0
            if total > FRAME_LIMIT:
                raise MediaError(
                    f"video {key}: more than {FRAME_LIMIT:,} frames",
                    "Cut the video into parts, or lower its frame rate.",
                )
    if total == 0:
        raise MediaError(f"video {key}: it holds no frames", "The file is damaged or cut off; fetch it again.")
    return total


@contextmanager
def _opened(data: bytes, key: str, limit: int) -> Iterator[Any]:
    """A container in memory, its format and the size of its first video stream checked; closed on leaving."""
    import av

    with av.open(BytesIO(data), mode="r", metadata_errors="ignore", options=OPTIONS) as container:
        if not container.streams.video or container.streams.video[0].codec_context is None:
            raise MediaError(
                f"video {key}: it holds no video stream that can be decoded", "Check that the right file was given."
            )
        stream = container.streams.video[0]
        if stream.width and stream.height:
            decode.check_size(stream.width, stream.height, key, limit)
        yield container


def _upright(frame: Any) -> Picture:
    """The frame as players show it: telephones store a rotation beside the picture, counter-clockwise in degrees."""
    picture: Picture = frame.to_image()
    turn = int(getattr(frame, "rotation", 0) or 0)
    return picture.rotate(turn, expand=True) if turn else picture


def _encoded(picture: Picture, settings: MediaSettings) -> bytes:
    from snellen.media.encode import compress

    return compress(picture, "jpeg" if settings.format == "original" else settings.format, settings.quality)


def _tag(settings: MediaSettings) -> str:
    from msgspec import json

    return json.encode(settings).decode()
