"""Frames of a video: which ones are sent, and how they are taken out of a file nobody vouches for.

Which, by number (`MediaSettings.frames`): of T frames at most N are sent. T <= N: all of them. Otherwise frame k (0 to
N - 1) is number k * (T - 1) // (N - 1): evenly spaced, the first and the last always among them; N = 1 takes the middle,
(T - 1) // 2. The same rule holds for drawn clips.

Which, by time (`MediaSettings.fps`): the frame shown at time k / fps for k = 0, 1, 2 ... while k / fps lies before the
end; at least k = 0. Time runs from the first frame that decodes. A frame is shown from its presentation time stamp until
that of the next, the last one for the duration that the container gives it, else for 1 / average rate. A frame without a
stamp, and every frame of an AVI, comes 1 / average rate after the one before. Containers round stamps (Matroska: to milliseconds), so a frame counts
as shown, and the end as reached, 1 ms early. A frame that is shown at several of the times is sent as often: picture k
always stands for k / fps. More than 768 times are thinned to 768 by the rule of numbers above, applied to k. A drawn
clip of T frames at r a second shows number floor(r * k / fps) at k / fps and ends at T / r, exactly. A rate is the decimal
number that was written: 0.1 is a tenth.

How: PyAV reads the blob's bytes from memory, so no name of a file ever reaches a demuxer or a shell. T is the number of
frames that decode, counted when the container does not tell the truth. Frames are fitted and encoded as they are met:
one decoded frame is held at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import Struct, json

from snellen.errors import MediaError, MissingExtraError
from snellen.media import corrupt, decode
from snellen.types import Image, MediaSettings, Video

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FRAME_LIMIT = 200_000
TIMES = 768  # frames that are sent by time at most
EARLY = Fraction(1, 1000)  # seconds
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


def frame_times(end: Fraction, fps: float) -> list[Fraction]:
    """Times, in seconds from the first frame, at which a clip that ends at `end` is looked at; see the top of the file.

    Raises:
        ValueError: `fps` is not above 0.
    """
    if not fps > 0:
        raise ValueError(f"{fps} frames a second were asked for; more than 0 are needed")
    rate = _decimal(fps)
    return [k / rate for k in frame_numbers(max(1, ceil(end * rate)), TIMES)]


def shown_at_most(video: Video, settings: MediaSettings) -> int:
    """How many frames of a clip are sent at most, told without reading anything."""
    if video.blob is None and (settings.fps is None or video.fps > 0):
        return len(_drawn_numbers(video, settings))
    return settings.frames if settings.fps is None else TIMES


def drawn_frames(video: Video, settings: MediaSettings) -> tuple[Image, ...]:
    """The frames of a drawn clip (`Video.frames`) that are sent; nothing is drawn yet.

    Raises:
        MediaError: the clip holds nothing, or says that it shows no frames a second.
    """
    if not video.frames:
        raise MediaError(
            "a clip holds neither a file nor frames", "The benchmark that made it has to give one of them."
        )
    return tuple(video.frames[number] for number in _drawn_numbers(video, settings))


def _drawn_numbers(video: Video, settings: MediaSettings) -> list[int]:
    total = len(video.frames)
    if settings.fps is None or not total:
        return frame_numbers(total, settings.frames)
    if not video.fps > 0:
        raise MediaError(f"a drawn clip of {total} frames says that it shows {video.fps} a second")
    rate = _decimal(video.fps)
    return [int(time * rate) for time in frame_times(total / rate, settings.fps)]


def frames(video: Video, settings: MediaSettings, limit: int | None = None) -> list[Image]:
    """The frames of a video that are sent, in order: at most `settings.frames`, or `settings.fps` a second.

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
        most = decode.pixel_limit() if limit is None else limit
        pictures = (
            _by_number(data, key, settings, most)
            if settings.fps is None
            else _by_time(data, key, settings, most, settings.fps)
        )
    except MediaError:
        raise
    except Exception as error:
        # FFmpeg's errors, and whatever PyAV stumbles over where a damaged file leaves it without a codec or a size.
        raise MediaError(
            f"video {key}: {len(data):,} bytes cannot be decoded: {error}",
            "The file is damaged, cut off, or of a container that is not read; fetch it again or convert it to MP4.",
        ) from error
    tag = json.encode(settings).decode()
    return [Image(Frame(f"{key}#frame={number}&{tag}", picture, settings)) for number, picture in pictures]


def _by_number(data: bytes, key: str, settings: MediaSettings, limit: int) -> list[tuple[int, bytes]]:
    total = _scan(data, key, limit).packets
    while True:
        wanted = frame_numbers(total, settings.frames)
        picked, seen = _take(data, key, set(wanted), wanted[-1], limit, settings)
        if len(picked) == len(wanted):
            return picked
        if seen == 0:
            raise _nothing_decodes(key, total)
        total = seen  # the container counts packets that show nothing


def _take(
    data: bytes, key: str, wanted: set[int], last: int, limit: int, settings: MediaSettings
) -> tuple[list[tuple[int, bytes]], int]:
    """The wanted frames, fitted and encoded as they are met, and how many frames were seen."""
    picked: list[tuple[int, bytes]] = []
    seen = 0
    with _opened(data, key, limit) as container:
        for frame in container.decode(video=0):
            if seen in wanted:
                picked.append((seen, _rendered(frame, key, limit, settings, data, seen)))
            seen += 1
            if seen > last:
                break
    return picked, seen


def _by_time(data: bytes, key: str, settings: MediaSettings, limit: int, fps: float) -> list[tuple[int, bytes]]:
    scan = _scan(data, key, limit)
    if scan.end is None and not scan.spacing:
        raise MediaError(f"video {key}: it has neither time stamps nor a frame rate", "Choose --frames, not --fps.")
    picked: list[tuple[int, bytes]] = []
    times: deque[Fraction] = deque()
    shown: tuple[int, Any] | None = None  # the frame on the screen, until the next one comes
    start = now = Fraction(0)

    def shown_until(moment: Fraction) -> None:
        due = 0
        while times and times[0] < moment:
            times.popleft()
            due += 1
        if due and shown is not None:
            picked.extend([(shown[0], _rendered(shown[1], key, limit, settings, data, shown[0]))] * due)

    with _opened(data, key, limit) as container:
        for number, frame in enumerate(container.decode(video=0)):
            stamp = None if scan.end is None or frame.pts is None else frame.pts * frame.time_base
            if shown is None:
                start = now = stamp or Fraction(0)
                end = scan.packets * scan.spacing if scan.end is None else scan.end - start
                times.extend(frame_times(end - EARLY, fps))
            else:
                now = now + scan.spacing if stamp is None else max(now, stamp)
                shown_until(now - start - EARLY)
            if not times:
                return picked
            shown = number, frame
    if shown is None:
        raise _nothing_decodes(key, scan.packets)
    # Packets after the last frame may show nothing; a frame that stands still is not made up for them.
    last = shown[1]
    lasts = last.duration * last.time_base if last.duration and scan.end is not None else scan.spacing
    shown_until(max(now - start + lasts - EARLY, EARLY))
    return picked


def _rendered(frame: Any, key: str, limit: int, settings: MediaSettings, data: bytes, number: int) -> bytes:
    """A frame upright, corrupted if asked for, fitted and encoded as it is sent."""
    from PIL import Image as pillow

    from snellen.media.encode import compress

    decode.check_size(frame.width, frame.height, key, limit)
    picture = _upright(frame)
    if settings.corrupt:
        picture = corrupt.corrupted(picture, settings.corrupt, corrupt.content(data, number))
    size = decode.fitted(*picture.size, settings)
    if settings.blank:
        picture = pillow.new("RGB", size, decode.GREY)
    elif size != picture.size:
        picture = picture.resize(size, pillow.Resampling.BICUBIC)
    return compress(picture, "jpeg" if settings.format == "original" else settings.format, settings.quality)


class _Scan(NamedTuple):
    """What the packets of the first video stream say, in seconds.

    Attributes:
        packets: those with data: one a frame in the codecs of the accepted containers.
        end: when the last frame ceases to be shown, on the clock of the stamps; None where there are no stamps.
        spacing: 1 / average rate; 0 where the container does not say.
    """

    packets: int
    end: Fraction | None
    spacing: Fraction


def _scan(data: bytes, key: str, limit: int) -> _Scan:
    total = 0
    last: tuple[Fraction, Fraction] | None = None
    with _opened(data, key, limit) as container:
        rate = container.streams.video[0].average_rate or container.streams.video[0].guessed_rate
        spacing = 1 / Fraction(rate) if rate else Fraction(0)
        # AVI knows the order of decoding only: what is read as a stamp there is wrong where frames are reordered.
        stamped = container.format.name != "avi"
        for packet in container.demux(video=0):
            total += packet.size > 0
            if total > FRAME_LIMIT:
                raise MediaError(
                    f"video {key}: more than {FRAME_LIMIT:,} frames",
                    "Cut the video into parts, or lower its frame rate.",
                )
            if stamped and packet.size and packet.pts is not None and not packet.is_discard:
                lasts = packet.duration * packet.time_base if packet.duration else spacing
                stamp = packet.pts * packet.time_base, lasts
                last = stamp if last is None else max(last, stamp)
    if total == 0:
        raise MediaError(f"video {key}: it holds no frames", "The file is damaged or cut off; fetch it again.")
    return _Scan(total, None if last is None else sum(last, Fraction(0)), spacing)


def _nothing_decodes(key: str, packets: int) -> MediaError:
    return MediaError(f"video {key}: no frame of its {packets} can be decoded", "Fetch it again.")


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


def _decimal(rate: float) -> Fraction:
    """A rate as it was written: 29.97 is 2997/100 and not the nearest binary fraction."""
    return Fraction(repr(float(rate)))
