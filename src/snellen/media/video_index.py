"""Index of a video's packets, and seeking by it: only the requested frames, and those they depend on, are decoded.

PyAV reads the bytes from memory or an open file, so no file name reaches a demuxer or a shell. Frame number n is the n-th packet in the
order of time stamps. Decoding begins at the latest key frame that is shown at or before a requested frame, and skips frames that no
other refers to. If a requested frame does not come out, or any frame is damaged, out of order or interlaced (its fields may
be packets of their own), nothing of the output is used (`Uncertain`), and the caller decodes everything instead.

No library keeps this, as measured in 2026: torchcodec 0.17 and decord 0.6 give a damaged MPEG-4 frame and those made from it unmarked,
and show another file where `clip.mp4` holds a playlist; torchcodec needs torch, and PyAV itself has no numbers of frames.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from itertools import pairwise
from typing import Any

from msgspec import Struct

from snellen.errors import MediaError
from snellen.media import decode
from snellen.media.sampling import Timeline
from snellen.media.video_file import VideoData, opened_data

MAX_FRAMES = 2_000_000  # four hours are 864,000 at 60 a second
# Demuxers of encoded video only: playlists and manifests (hls, dash, concat) point at other files and hosts. FFmpeg
# looks at these lists before a demuxer reads its first header.
OPTIONS = {"format_whitelist": "mov,matroska,avi,mpegts,mpeg,flv,ogg,asf", "protocol_whitelist": "none"}
# In these a packet is one frame with a stamp of its own, and seeking finds it.
_INDEXED = ("mov", "matroska")


class Scan(Struct, frozen=True):
    """The packets of the first video stream; times in seconds.

    Attributes:
        packets: packets with data: one per frame in the codecs of the accepted containers.
        hidden: those that are decoded and not shown, by an edit list.
        stamped: packets have time stamps.
        spacing: 1 / average rate; 0 if the container has no rate.
        index: the time stamp of each frame that is shown, in order and in ticks, if frames can be told from packets: whole
            H.264 in MP4, QuickTime or Matroska, each packet with a unique stamp. Else empty.
        keys: time stamps of the packets at which decoding may begin, rising.
        places: of each key, the position to seek to.
        timeline: when the frames are shown, as far as the packets tell.
    """

    packets: int
    hidden: int
    stamped: bool
    spacing: Fraction
    index: Sequence[int]
    keys: Sequence[int]
    places: Sequence[int]
    timeline: Timeline

    @property
    def rate(self) -> float:
        """Average frames a second; 0 where the container does not say."""
        return float(1 / self.spacing) if self.spacing else 0.0


def scan(data: VideoData, key: str, limit: int) -> Scan:
    """Read all packets once. Raises MediaError: no frames, more than `MAX_FRAMES`, or frames of over `limit` pixels."""
    total = hidden = 0
    last: tuple[int, int] | None = None
    # A few bytes a packet: a video of hours has hundreds of thousands.
    stamps, unseen, keys, places = array("q"), array("q"), array("q"), array("q")
    with opened(data, key, limit) as container:
        stream = moving_pictures(container)
        average = stream.average_rate or stream.guessed_rate
        spacing = 1 / Fraction(average) if average else Fraction(0)
        tick = Fraction(stream.time_base or 0)
        # AVI knows the order of decoding only: what is read as a stamp there is wrong where frames are reordered.
        stamped = container.format.name != "avi"
        # MP4 is sought by the order of decoding, Matroska by that of showing.
        by_decoding = container.format.name.startswith("mov")
        sure = stream.codec_context.name == "h264" and container.format.name.startswith(_INDEXED)
        for packet in container.demux(stream):
            if not packet.size:
                continue
            total += 1
            hidden += packet.is_discard
            if total > MAX_FRAMES:
                raise MediaError(
                    f"video {key}: more than {MAX_FRAMES:,} frames",
                    "Cut the video into parts, or lower its frame rate.",
                )
            place = packet.dts if by_decoding else packet.pts
            sure = sure and packet.pts is not None and place is not None and not packet.is_corrupt
            if sure and packet.is_keyframe:
                sure = not keys or packet.pts > keys[-1]
                keys.append(packet.pts)
                places.append(place)
            sure = sure and bool(keys)
            if stamped and packet.pts is not None:
                (unseen if packet.is_discard else stamps).append(packet.pts)
                if not packet.is_discard:
                    last = max(last or (packet.pts, 0), (packet.pts, packet.duration or 0))
    if total == 0:
        raise MediaError(f"video {key}: it holds no frames", "The file is damaged or cut off; fetch it again.")
    stamps = array("q", sorted(stamps))
    twice = sure and any(stamp == after for stamp, after in pairwise(sorted((*stamps, *unseen)) if unseen else stamps))
    shown = max(total - hidden, 1)
    rate = float(1 / spacing) if spacing else 0.0
    timeline = Timeline(range(shown), shown, spacing, rate)
    if last is not None and len(stamps) == shown and tick:
        first = stamps[0]
        lasts = last[1] or round(spacing / tick)
        timeline = Timeline(array("q", (at - first for at in stamps)), last[0] - first + lasts, tick, rate)
    index = stamps if sure and not twice else array("q")
    return Scan(total, hidden, last is not None, spacing, index, keys, places, timeline)


@contextmanager
def opened(data: VideoData, key: str, limit: int) -> Iterator[Any]:
    """Open a container and check its format and frame size; closed on leaving."""
    import av

    with (
        opened_data(data) as stream_of_bytes,
        av.open(stream_of_bytes, mode="r", metadata_errors="ignore", options=OPTIONS) as container,
    ):
        stream = moving_pictures(container)
        if stream is None or stream.codec_context is None:
            found = "sound and no moving pictures" if container.streams.audio else "no video stream that can be decoded"
            raise MediaError(f"video {key}: it holds {found}", "Check that the right file was given.")
        if stream.width and stream.height:
            decode.check_size(stream.width, stream.height, key, limit)
        yield container


def moving_pictures(container: Any) -> Any:
    """Return the first video stream that is no cover picture of a sound file; None if there is none."""
    from av.stream import Disposition

    streams = container.streams.video
    return next((stream for stream in streams if not stream.disposition & Disposition.attached_pic), None)


# Threads of one decoder. Several videos are decoded at once (MediaCache), and each thread holds frames.
THREADS = 4
# Packets from one key frame to the next from which on more than one thread saves time: each seek fills and empties them anew.
LONG = 48


class Uncertain(Exception):
    """The decoder's output differs from the packets' index."""


def take(container: Any, scanned: Scan, numbers: Collection[int]) -> Iterator[tuple[int, Any]]:
    """Yield (number, decoded frame) of the requested numbers, rising from one key frame on; one frame is alive at a time.

    Raises:
        Uncertain: only where the frames from one key frame on end; discard the frames yielded before.
    """
    stream = moving_pictures(container)
    if scanned.packets >= LONG * len(scanned.keys):
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.thread_count = min(THREADS, (os.cpu_count() or 1) + 1)
    runs: dict[int, dict[int, int]] = {}
    for number in sorted(numbers):
        stamp = scanned.index[number]
        # One that is stored behind the next key frame and shown before it is made from this one.
        runs.setdefault(max(bisect_right(scanned.keys, stamp) - 1, 0), {})[stamp] = number
    for at, missing in runs.items():
        before: int | None = None
        with closing(_frames(container, stream, scanned.keys[at], scanned.places[at], frozenset(missing))) as decoded:
            for frame in decoded:
                in_order = before is None or frame.pts > before
                if frame.is_corrupt or frame.interlaced_frame or not in_order:
                    raise Uncertain
                before = frame.pts
                if before in missing:
                    yield missing.pop(before), frame
        if missing:
            raise Uncertain


def _frames(container: Any, stream: Any, key: int, place: int, wanted: frozenset[int]) -> Generator[Any, None, None]:
    """Decode from a key frame on until the wanted stamps have come, without frames that no other refers to."""
    codec = stream.codec_context
    container.seek(place, stream=stream)  # empties the decoder too
    begun, due = False, set(wanted)
    for packet in container.demux(stream):
        begun = begun or packet.pts == key  # the container's own index may be coarser than its key frames
        if begun and packet.size:
            codec.skip_frame = "DEFAULT" if packet.pts in wanted else "NONREF"
            yield from packet.decode()
            due.discard(packet.pts)
            if not due:
                yield from codec.decode(None)
                return
    raise Uncertain
