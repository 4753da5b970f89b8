"""Frames of a video: their extraction from an untrusted file. Which frames are sent: `snellen.media.sampling`.

How: T is the number of frames that decode. Where the packets of a file tell them apart (`snellen.media.video_index`),
only the wanted frames are decoded and what they are made from; else all of them, counted.
Frames are fitted and encoded as they are met: one decoded frame is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct, json

from snellen.errors import MediaError, MissingExtraError
from snellen.installation import install_hint
from snellen.media import corruptions, decode
from snellen.media.encode import compress
from snellen.media.sampling import ShownFrame, Timeline, chosen, drawn_shown
from snellen.media.video_file import VideoData, check_whole, digest_of, video_data
from snellen.media.video_index import Scan, Uncertain, moving_pictures, opened, scan, take
from snellen.types import Blob, Image, MediaSettings, Video


class Frame(Struct, frozen=True):
    """One frame, encoded under `made_with`; the encoder passes it on unchanged under the same settings.

    `seconds` is when it is on the screen, from the first frame of the file: of a rate the time that is asked for.
    """

    key: str
    data: bytes
    made_with: MediaSettings
    seconds: float = 0.0
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        return self.data


class EncodedFrame(NamedTuple):
    """A frame of a file: its number, the second at which it is on the screen, and its encoded bytes."""

    number: int
    seconds: float
    data: bytes


def drawn_frames(video: Video, settings: MediaSettings) -> tuple[Image, ...]:
    """Return the frames of a drawn clip (`Video.frames`) that are sent; nothing is drawn yet.

    Raises:
        MediaError: the clip is empty, or has no frame rate.
    """
    if not video.frames:
        raise MediaError(
            "a clip holds neither a file nor frames", "Correct the benchmark: each Video needs one of them."
        )
    return tuple(video.frames[number] for number, _ in drawn_shown(video, settings))


def frames(video: Video, settings: MediaSettings, limit: int | None = None) -> list[Image]:
    """Return the frames of a video that are sent, by the rules of `snellen.media.sampling`.

    Frames of a file are fitted and encoded here (`format`; `original` means JPEG for video), each once.

    Args:
        limit: maximum pixels of a frame; None: `pixel_limit()`.

    Raises:
        MediaError: no video stream, damaged, cut off, too many frames, or frames over the limit; a span, a time or a
            pick that the clip does not have, or combined with settings that select frames too.
        MissingExtraError: PyAV is not installed.
    """
    if video.blob is None:
        return list(drawn_frames(video, settings))
    check_pyav(video.blob.key)
    with video_data(video.blob) as data:
        extracted = extract(data, video.blob.key, video, settings, limit)
    return as_images(video.blob.key, settings, extracted)


def frames_and_rate(blob: Blob) -> tuple[int, float] | None:
    """Return how many frames a video file shows, and its average frames a second; None where its container does not say.

    Raises:
        MediaError, DataError: as `frames`.
        MissingExtraError: PyAV is not installed.
    """
    check_pyav(blob.key)
    with video_data(blob) as data:
        try:
            scanned = scan(data, blob.key, decode.pixel_limit())
        except MediaError:
            raise
        except Exception as error:
            raise _cannot_decode(blob.key, data, error) from error
    total = scanned.packets - scanned.hidden
    return (total, scanned.rate) if total and scanned.rate else None


def check_pyav(key: str) -> None:
    """Raise MissingExtraError where PyAV is not installed, before anything is read."""
    try:
        import av  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"video {key} needs PyAV, which is not installed", install_hint("video")) from error


def as_images(key: str, settings: MediaSettings, extracted: Iterable[EncodedFrame]) -> list[Image]:
    """Return extracted frames as images of a prompt."""
    tag = json.encode(settings).decode()
    return [Image(Frame(f"{key}#frame={number}&{tag}", data, settings, at)) for number, at, data in extracted]


def extract(
    data: VideoData, key: str, video: Video, settings: MediaSettings, limit: int | None = None
) -> list[EncodedFrame]:
    """Return the frames of a file that `frames` sends; a repeated frame is repeated here.

    Args:
        data: the file of `video`, whose blob is not read here.
        key: what messages call it.
        video: span, times or rule of the frames.
        settings: see `frames`.
        limit: see `frames`.

    Raises:
        MediaError: as `frames`.
    """
    if not data:
        raise MediaError(f"video {key}: the file is empty", "Fetch it again.")
    try:
        check_whole(data, key)
        pixels = decode.pixel_limit() if limit is None else limit
        scanned = scan(data, key, pixels)
        return _by_index(data, key, video, settings, pixels, scanned) or _counted(
            data, key, video, settings, pixels, scanned
        )
    except MediaError:
        raise
    except Exception as error:
        # FFmpeg's errors, and whatever PyAV stumbles over where a damaged file leaves it without a codec or a size.
        raise _cannot_decode(key, data, error) from error


def _by_index(
    data: VideoData, key: str, video: Video, settings: MediaSettings, limit: int, scanned: Scan
) -> list[EncodedFrame]:
    """Decode the requested frames by the packets' index; empty if the index is not reliable."""
    from av import FFmpegError

    if not scanned.index:
        return []
    wanted = chosen(scanned.timeline, video, settings, key)
    encoded: dict[int, bytes] = {}
    try:
        with opened(data, key, limit) as container:
            for number, frame in take(container, scanned, {shown.number for shown in wanted}):
                encoded[number] = _rendered(frame, key, limit, settings, data, number)
    except (Uncertain, FFmpegError):  # whoever decodes everything will say what it is
        return []
    return _frames(wanted, encoded)


def _counted(
    data: VideoData, key: str, video: Video, settings: MediaSettings, limit: int, scanned: Scan
) -> list[EncodedFrame]:
    """Decode all frames and keep the requested ones; when each is shown is known for certain only after the last one."""
    from av import FFmpegError

    timeline, encoded, damaged = scanned.timeline, dict[int, bytes](), set[int]()
    for _ in range(3):
        needed = {shown.number for shown in chosen(timeline, video, settings, key)}
        decoded = _Clock(scanned)
        broken = False  # what refers to a damaged frame is damaged too
        try:
            with opened(data, key, limit) as container:
                for number, frame in enumerate(container.decode(moving_pictures(container))):
                    decoded.add(frame)
                    broken = frame.is_corrupt or (broken and not frame.key_frame)
                    if broken:
                        damaged.add(number)
                    elif number in needed and number not in encoded:
                        encoded[number] = _rendered(frame, key, limit, settings, data, number)
        except FFmpegError as error:
            if not decoded.moments:
                raise
            found = f"after {len(decoded.moments):,} of its {scanned.packets:,} frames, nothing can be decoded"
            raise _damaged(key, f"{found}: {error.strerror}") from error
        if not decoded.moments:
            raise _damaged(key, f"no frame of its {scanned.packets} can be decoded")
        timeline = decoded.timeline()
        wanted = chosen(timeline, video, settings, key)
        if all(shown.number in needed for shown in wanted):
            if at := sorted(damaged.intersection(shown.number for shown in wanted)):
                raise _damaged(key, f"the frame at {timeline.seconds(at[0]):g} seconds is damaged")
            return _frames(wanted, encoded)
    raise MediaError(f"video {key}: the number of decodable frames is not stable", "Fetch it again.")


def _damaged(key: str, found: str) -> MediaError:
    return MediaError(
        f"video {key}: {found}",
        "The file is damaged: fetch it again, or have FFmpeg write what is whole to a new file.",
    )


def _frames(wanted: Sequence[ShownFrame], encoded: dict[int, bytes]) -> list[EncodedFrame]:
    return [EncodedFrame(number, seconds, encoded[number]) for number, seconds in wanted]


class _Clock:
    """Times at which decoded frames are shown, in microseconds.

    A frame without a stamp, and every frame of an AVI, comes 1 / average rate after the one before.
    """

    TICK = Fraction(1, 1_000_000)

    def __init__(self, scanned: Scan) -> None:
        self.moments: list[Fraction] = []
        self._scanned = scanned
        self._lasts = Fraction(0)

    def add(self, frame: Any) -> None:
        """Add the next frame."""
        spacing, stamped = self._scanned.spacing, self._scanned.stamped
        stamp = None if not stamped or frame.pts is None else frame.pts * frame.time_base
        if not self.moments:
            self.moments.append(stamp or Fraction(0))
        else:
            before = self.moments[-1]
            self.moments.append(before + spacing if stamp is None else max(before, stamp))
        self._lasts = frame.duration * frame.time_base if stamped and frame.duration else spacing

    def timeline(self) -> Timeline:
        """Return the times of the frames so far; a last frame that stands still is not made up for packets behind it."""
        first = self.moments[0]
        stamps = [round((moment - first) / self.TICK) for moment in self.moments]
        if not self._scanned.stamped and not self._scanned.spacing:
            return Timeline(range(len(stamps)), len(stamps), Fraction(0), 0.0)
        end = stamps[-1] + round(self._lasts / self.TICK)
        return Timeline(stamps, max(end, 1), self.TICK, self._scanned.rate)


def _cannot_decode(key: str, data: VideoData, error: Exception) -> MediaError:
    return MediaError(
        f"video {key}: {len(data):,} bytes cannot be decoded: {getattr(error, 'strerror', None) or error}",
        "The file is damaged, or of a container that is not read; fetch it again or convert it to MP4.",
    )


def _rendered(frame: Any, key: str, limit: int, settings: MediaSettings, data: VideoData, number: int) -> bytes:
    """Return a frame upright, corrupted if requested, fitted and encoded for sending."""
    from PIL import Image as pillow

    decode.check_size(frame.width, frame.height, key, limit)
    kind = "jpeg" if settings.format == "original" else settings.format
    pixels = frame.to_ndarray(format="rgb24")
    rotation = int(frame.rotation)
    size = decode.fitted(frame.width, frame.height, settings)
    if not rotation and not settings.corrupt and not settings.blank and size == (frame.width, frame.height):
        return compress(pixels, kind, settings.quality)
    image = pillow.fromarray(pixels)
    if rotation:  # telephones store it beside the image, counter-clockwise in degrees
        image = image.rotate(rotation, expand=True)
    if settings.corrupt:
        image = corruptions.corrupted(image, settings.corrupt, corruptions.frame_seed(digest_of(data), number))
    size = decode.fitted(*image.size, settings)
    if settings.blank:
        image = pillow.new("RGB", size, decode.GREY)
    elif size != image.size:
        image = image.resize(size, pillow.Resampling.BICUBIC)
    return compress(image, kind, settings.quality)
