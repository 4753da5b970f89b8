"""Frames of a video: their selection, and their extraction from an untrusted file.

Selection by number (`MediaSettings.frames`): of T frames at most N are sent. T <= N: all of them. Otherwise frame k (0 to
N - 1) is number k * (T - 1) // (N - 1): evenly spaced, the first and the last always among them; N = 1 takes the
middle, (T - 1) // 2. The same rule holds for drawn clips.

Selection by time (`MediaSettings.fps`): the frame shown at time k / fps for k = 0, 1, 2 ... while k / fps lies before the
end; at least k = 0. Time runs from the first frame that decodes. A frame is shown from its presentation time stamp
until that of the next, the last one for the duration that the container gives it, else for 1 / average rate. A frame
without a stamp, and every frame of an AVI, comes 1 / average rate after the one before. Containers round stamps
(Matroska: to milliseconds), so a frame counts as shown, and the end as reached, 1 ms early. A frame that is shown at
several of the times is sent as often: image k always stands for k / fps. More than 768 times are thinned to 768 by
the rule of numbers above, applied to k. A drawn clip of T frames at r a second shows number floor(r * k / fps) at k /
fps and ends at T / r, exactly. A rate is the decimal number that was written: 0.1 is a tenth.

Selection by the question (`Video.pick`): a rule of the benchmark names the frames, given T (and the average rate, if it
requests that), in its order and with its repeats.

How: T is the number of frames that decode. Where the packets of a file tell them apart (`snellen.media.video_index`),
only the wanted frames are decoded and what they are made from; else all of them, counted.
Frames are fitted and encoded as they are met: one decoded frame is held at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

from msgspec import Struct, json

from snellen.errors import MediaError, MissingExtraError
from snellen.installation import install_hint
from snellen.media import corruptions, decode
from snellen.media.encode import compress
from snellen.media.video_file import VideoData, digest_of, video_data
from snellen.media.video_index import Scan, Uncertain, opened, scan, take
from snellen.types import Blob, Image, MediaSettings, Pick, Video

TIMES = 768  # frames that are sent by time at most
EARLY = Fraction(1, 1000)  # seconds


class Frame(Struct, frozen=True):
    """One frame, encoded under `made_with`; the encoder passes it on unchanged under the same settings."""

    key: str
    data: bytes
    made_with: MediaSettings
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        return self.data


def frame_numbers(total: int, wanted: int) -> list[int]:
    """Return the numbers of the frames that are sent, rising, from 0; the rule is at the top of this file.

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
    """Return the times, in seconds from the first frame, at which a clip that ends at `end` is sampled; see the top of
    the file.

    Raises:
        ValueError: `fps` is not above 0.
    """
    if not fps > 0:
        raise ValueError(f"{fps} frames a second were asked for; more than 0 are needed")
    rate = _decimal(fps)
    return [k / rate for k in frame_numbers(max(1, ceil(end * rate)), TIMES)]


def shown_at_most(video: Video, settings: MediaSettings) -> int:
    """Return the maximum number of frames that are sent of a clip, without reading anything."""
    if video.pick is not None:
        return video.pick.most
    if video.blob is None and (settings.fps is None or video.fps > 0):
        return len(_drawn_numbers(video, settings))
    return settings.frames if settings.fps is None else TIMES


def drawn_frames(video: Video, settings: MediaSettings) -> tuple[Image, ...]:
    """Return the frames of a drawn clip (`Video.frames`) that are sent; nothing is drawn yet.

    Raises:
        MediaError: the clip is empty, or has no frame rate.
    """
    if not video.frames:
        raise MediaError(
            "a clip holds neither a file nor frames", "Correct the benchmark: each Video needs one of them."
        )
    return tuple(video.frames[number] for number in _drawn_numbers(video, settings))


def _drawn_numbers(video: Video, settings: MediaSettings) -> list[int]:
    total = len(video.frames)
    if video.pick is not None:
        check_pick(video.pick, settings)
        return _numbers(total, f"of {total} drawn frames", video.pick, settings, video.fps)
    if settings.fps is None or not total:
        return frame_numbers(total, settings.frames)
    if not video.fps > 0:
        raise MediaError(f"a drawn clip of {total} frames has a rate of {video.fps} frames per second")
    rate = _decimal(video.fps)
    return [int(time * rate) for time in frame_times(total / rate, settings.fps)]


def frames(video: Video, settings: MediaSettings, limit: int | None = None) -> list[Image]:
    """Return the frames of a video that are sent, in order: at most `settings.frames`, or `settings.fps` per second, or
    those of the video's own `pick`, in its order and with its repeats.

    Frames of a file are fitted and encoded here (`format`; `original` means JPEG for video), each once.

    Args:
        limit: maximum pixels of a frame; None: `pixel_limit()`.

    Raises:
        MediaError: no video stream, damaged, cut off, too many frames, or frames over the limit; a pick of a missing
            frame, or combined with settings that select frames too.
        MissingExtraError: PyAV is not installed.
    """
    if video.blob is None:
        return list(drawn_frames(video, settings))
    check_pyav(video.blob.key)
    with video_data(video.blob) as data:
        extracted = extract(data, video.blob.key, video.pick, settings, limit)
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


def as_images(key: str, settings: MediaSettings, extracted: Iterable[tuple[int, bytes]]) -> list[Image]:
    """Return extracted frames, (number, encoded bytes), as images of a prompt."""
    tag = json.encode(settings).decode()
    return [Image(Frame(f"{key}#frame={number}&{tag}", encoded, settings)) for number, encoded in extracted]


def extract(
    data: VideoData, key: str, pick: Pick | None, settings: MediaSettings, limit: int | None = None
) -> list[tuple[int, bytes]]:
    """Return (number, encoded bytes) of the frames of a file that `frames` sends; a repeated frame is repeated here.

    Raises:
        MediaError: as `frames`.
    """
    if not data:
        raise MediaError(f"video {key}: the file is empty", "Fetch it again.")
    if pick is not None:
        check_pick(pick, settings)
    try:
        pixels = decode.pixel_limit() if limit is None else limit
        scanned = scan(data, key, pixels)
        return _by_index(data, key, pick, settings, pixels, scanned) or (
            _by_number(data, key, pick, settings, pixels, scanned)
            if settings.fps is None
            else _by_time(data, key, settings, pixels, settings.fps, scanned)
        )
    except MediaError:
        raise
    except Exception as error:
        # FFmpeg's errors, and whatever PyAV stumbles over where a damaged file leaves it without a codec or a size.
        raise _cannot_decode(key, data, error) from error


def _cannot_decode(key: str, data: VideoData, error: Exception) -> MediaError:
    return MediaError(
        f"video {key}: {len(data):,} bytes cannot be decoded: {error}",
        "The file is damaged, cut off, or of a container that is not read; fetch it again or convert it to MP4.",
    )


def _by_index(
    data: VideoData, key: str, pick: Pick | None, settings: MediaSettings, limit: int, scanned: Scan
) -> list[tuple[int, bytes]]:
    """Decode the requested frames by the packets' index; empty if the index is not reliable."""
    from av import FFmpegError

    if not scanned.index:
        return []
    if settings.fps is None:
        wanted = _numbers(len(scanned.display_order), key, pick, settings, scanned.rate)
    else:
        wanted = _numbers_by_time(scanned, settings.fps)
    encoded: dict[int, bytes] = {}
    try:
        with opened(data, key, limit) as container:
            for number, frame in take(container, scanned, set(wanted)):
                encoded[number] = _rendered(frame, key, limit, settings, data, number)
    except (Uncertain, FFmpegError):  # whoever decodes everything will say what it is
        return []
    return [(number, encoded[number]) for number in wanted]


def _by_number(
    data: VideoData, key: str, pick: Pick | None, settings: MediaSettings, limit: int, scanned: Scan
) -> list[tuple[int, bytes]]:
    """Decode all frames and keep the requested ones; the total is known only after the last one."""
    total, encoded = scanned.packets - scanned.hidden, dict[int, bytes]()
    for _ in range(3):
        wanted = _numbers(max(total, 1), key, pick, settings, scanned.rate)
        count = 0
        with opened(data, key, limit) as container:
            for frame in container.decode(video=0):
                if count in wanted and count not in encoded:
                    encoded[count] = _rendered(frame, key, limit, settings, data, count)
                count += 1
        if count == 0:
            raise _nothing_decodes(key, scanned.packets)
        if count == total:
            return [(number, encoded[number]) for number in wanted]
        total = count  # the container counts packets that show nothing
    raise MediaError(f"video {key}: the number of decodable frames is not stable", "Fetch it again.")


def _numbers(total: int, key: str, pick: Pick | None, settings: MediaSettings, rate: float) -> list[int]:
    if pick is None:
        return frame_numbers(total, settings.frames)
    if pick.by_rate and not rate > 0:
        raise MediaError(
            f"video {key}: it has no frame rate, and {pick.name!r} takes frames by it",
            "Convert it to MP4, or ask for a number of frames.",
        )
    picked = pick.numbers(total, rate) if pick.by_rate else pick.numbers(total)
    wanted = [int(number) for number in picked]
    if len(wanted) > pick.most:
        raise MediaError(
            f"video {key}: of its {total:,} frames, {pick.name!r} picks {len(wanted):,}; {pick.most:,} may be sent at most",
            "Ask for fewer frames.",
        )
    outside = [number for number in wanted if not 0 <= number < total]
    if outside or not wanted:
        raise MediaError(
            f"video {key}: of its {total:,} frames, {pick.name!r} picks {f'number {outside[0]}' if outside else 'none'}",
            "Check that this is the file of these questions.",
        )
    return wanted


def check_pick(pick: Pick, settings: MediaSettings) -> None:
    """Raise MediaError if the settings select frames although the question picks them itself."""
    if settings.fps is not None or settings.frames != MediaSettings().frames:
        option = f"--fps {settings.fps:g}" if settings.fps is not None else f"--frames {settings.frames}"
        raise MediaError(
            f"the benchmark selects the frames of each video ({pick.name}), which {option} contradicts",
            f"Omit {option}; their number is an option of the benchmark: `snellen run NAME --help`.",
        )


def _by_time(
    data: VideoData, key: str, settings: MediaSettings, limit: int, fps: float, scanned: Scan
) -> list[tuple[int, bytes]]:
    if scanned.end is None and not scanned.spacing:
        raise MediaError(f"video {key}: it has neither time stamps nor a frame rate", "Use --frames instead of --fps.")
    picked: list[tuple[int, bytes]] = []
    times: deque[Fraction] = deque()
    current: tuple[int, Any] | None = None  # the frame on the screen, until the next one comes
    start = now = Fraction(0)

    def shown_until(moment: Fraction) -> None:
        due = _due(times, moment)
        if due and current is not None:
            picked.extend([(current[0], _rendered(current[1], key, limit, settings, data, current[0]))] * due)

    with opened(data, key, limit) as container:
        for number, frame in enumerate(container.decode(video=0)):
            stamp = None if scanned.end is None or frame.pts is None else frame.pts * frame.time_base
            if current is None:
                start = now = stamp or Fraction(0)
                end = scanned.packets * scanned.spacing if scanned.end is None else scanned.end - start
                times.extend(frame_times(end - EARLY, fps))
            else:
                now = now + scanned.spacing if stamp is None else max(now, stamp)
                shown_until(now - start - EARLY)
            if not times:
                return picked
            current = number, frame
    if current is None:
        raise _nothing_decodes(key, scanned.packets)
    # Packets after the last frame may show nothing; a frame that stands still is not made up for them.
    last = current[1]
    lasts = last.duration * last.time_base if last.duration and scanned.end is not None else scanned.spacing
    shown_until(max(now - start + lasts - EARLY, EARLY))
    return picked


def _numbers_by_time(scanned: Scan, fps: float) -> list[int]:
    """Return frame numbers as `_by_time`, from the packets' time stamps, without decoding."""
    packets = [scanned.index[at] for at in scanned.display_order]
    start = packets[0].pts
    seconds = [(packet.pts - start) * scanned.tick for packet in packets]
    end = seconds[-1] + (packets[-1].lasts * scanned.tick or scanned.spacing)
    times = deque(frame_times(end - EARLY, fps))
    wanted: list[int] = []
    for number, moment in enumerate((*seconds[1:], max(end, 2 * EARLY))):
        wanted += [number] * _due(times, moment - EARLY)
    return wanted


def _due(times: deque[Fraction], moment: Fraction) -> int:
    """Remove the times before the moment; return their number."""
    due = 0
    while times and times[0] < moment:
        times.popleft()
        due += 1
    return due


def _rendered(frame: Any, key: str, limit: int, settings: MediaSettings, data: VideoData, number: int) -> bytes:
    """Return a frame upright, corrupted if requested, fitted and encoded for sending."""
    from PIL import Image as pillow

    decode.check_size(frame.width, frame.height, key, limit)
    kind = "jpeg" if settings.format == "original" else settings.format
    pixels = frame.to_ndarray(format="rgb24")
    rotation = int(getattr(frame, "rotation", 0) or 0)
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


def _nothing_decodes(key: str, packets: int) -> MediaError:
    return MediaError(f"video {key}: no frame of its {packets} can be decoded", "Fetch it again.")


def _decimal(rate: float) -> Fraction:
    """Return a rate as the decimal that was written: 29.97 is 2997/100, not the nearest binary fraction."""
    return Fraction(repr(float(rate)))
