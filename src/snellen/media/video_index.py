"""Index of a video's packets, and seeking by it: only the requested frames, and those they depend on, are decoded.

PyAV reads the bytes from memory or an open file, so no file name reaches a demuxer or a shell. Frame number n is the n-th packet in the
order of time stamps. Decoding begins at the latest key frame that is shown at or before a requested frame, continues if
the next requested one comes before another key frame, and skips frames that no other refers to. If a requested frame
does not come out, or any frame is damaged, out of order or interlaced (its fields may be packets of their own), nothing
of the output is used (`Uncertain`), and the caller decodes everything instead.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, overload

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


class Packet(NamedTuple):
    """One packet: time stamp, position to `seek` to, and duration `lasts` (0: unknown), in ticks.

    `key`: decoding may begin here. `hidden` is decoded and not shown, by an edit list.
    """

    pts: int
    seek: int
    lasts: int
    key: bool
    hidden: bool


class PacketTable(Sequence[Packet]):
    """Packets by column, a few bytes each: a video of hours has hundreds of thousands."""

    def __init__(self) -> None:
        self._pts, self._seek, self._lasts = array("q"), array("q"), array("q")
        self._key, self._hidden = bytearray(), bytearray()

    def append(self, pts: int, seek: int, lasts: int, key: bool, hidden: bool) -> None:
        self._pts.append(pts)
        self._seek.append(seek)
        self._lasts.append(lasts)
        self._key.append(bool(key))
        self._hidden.append(bool(hidden))

    def __len__(self) -> int:
        return len(self._pts)

    @overload
    def __getitem__(self, at: int) -> Packet: ...

    @overload
    def __getitem__(self, at: slice) -> list[Packet]: ...

    def __getitem__(self, at: int | slice) -> Packet | list[Packet]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        states = bool(self._key[at]), bool(self._hidden[at])
        return Packet(self._pts[at], self._seek[at], self._lasts[at], *states)

    def display_order(self) -> array[int]:
        """Return the places of the packets that are shown, by time stamp; empty where two have one stamp."""
        order = array("q", sorted(range(len(self)), key=self._pts.__getitem__))
        twice = any(self._pts[place] == self._pts[after] for place, after in pairwise(order))
        return array("q") if twice else array("q", (place for place in order if not self._hidden[place]))


class Scan(Struct, frozen=True):
    """The packets of the first video stream; times in seconds.

    Attributes:
        packets: packets with data: one per frame in the codecs of the accepted containers.
        hidden: those that are decoded and not shown, by an edit list.
        stamped: packets have time stamps.
        spacing: 1 / average rate; 0 if the container has no rate.
        index: each packet in decoding order, if frames can be told from packets: whole H.264 in MP4, QuickTime or
            Matroska, each packet with a unique stamp. Else empty.
        display_order: frame number n is the packet at place `display_order[n]` of the index.
        timeline: when the frames are shown, as far as the packets tell.
    """

    packets: int
    hidden: int
    stamped: bool
    spacing: Fraction
    index: Sequence[Packet]
    display_order: Sequence[int]
    timeline: Timeline

    @property
    def rate(self) -> float:
        """Average frames a second; 0 where the container does not say."""
        return float(1 / self.spacing) if self.spacing else 0.0


def scan(data: VideoData, key: str, limit: int) -> Scan:
    """Read all packets once. Raises MediaError: no frames, more than `MAX_FRAMES`, or frames of over `limit` pixels."""
    total = hidden = 0
    last: tuple[int, int] | None = None
    stamps, index = array("q"), PacketTable()
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
            seek = packet.dts if by_decoding else packet.pts
            sure = sure and packet.pts is not None and seek is not None and not packet.is_corrupt
            if sure:
                index.append(packet.pts, seek, packet.duration or 0, packet.is_keyframe, packet.is_discard)
            if stamped and packet.pts is not None and not packet.is_discard:
                stamp = packet.pts, packet.duration or 0
                stamps.append(packet.pts)
                if last is None or stamp > last:
                    last = stamp
    if total == 0:
        raise MediaError(f"video {key}: it holds no frames", "The file is damaged or cut off; fetch it again.")
    order = index.display_order() if sure and index[0].key else array("q")
    shown = max(total - hidden, 1)
    rate = float(1 / spacing) if spacing else 0.0
    timeline = Timeline(range(shown), shown, spacing, rate)
    if last is not None and len(stamps) == shown and tick:
        first = min(stamps)
        lasts = last[1] or round(spacing / tick)
        timeline = Timeline(array("q", (at - first for at in sorted(stamps))), last[0] - first + lasts, tick, rate)
    return Scan(total, hidden, last is not None, spacing, index if order else [], order, timeline)


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
# Packets in a run from which on more than one thread saves time: they are filled and emptied anew in every run.
LONG = 48


class Uncertain(Exception):
    """The decoder's output differs from the packets' index."""


class DecodeRun(NamedTuple):
    """Packets `first` to `last` of the index, decoded in one pass for the `wanted` ones."""

    first: int
    last: int
    wanted: frozenset[int]


def runs(index: Sequence[Packet], positions: Collection[int]) -> list[DecodeRun]:
    """Return the runs to decode for the packets at `positions`, in the order of the index."""
    keys = [at for at, packet in enumerate(index) if packet.key]
    plan: list[DecodeRun] = []
    for position in sorted(positions):
        place = bisect_right(keys, position) - 1
        while place > 0 and index[keys[place]].pts > index[position].pts:
            place -= 1  # shown before the key frame that it is stored behind
        run = DecodeRun(keys[place], position, frozenset({position}))
        while plan and run.first <= plan[-1].last:
            before = plan.pop()
            run = DecodeRun(min(before.first, run.first), position, before.wanted | run.wanted)
        plan.append(run)
    return plan


def take(container: Any, scanned: Scan, numbers: Collection[int]) -> Iterator[tuple[int, Any]]:
    """Yield (number, decoded frame) of the requested numbers, rising within a run; one frame is alive at a time.

    Raises:
        Uncertain: only at the end of the run concerned; discard the frames yielded before.
    """
    index = scanned.index
    named = {scanned.display_order[number]: number for number in numbers}
    stream = moving_pictures(container)
    codec = stream.codec_context
    plan = runs(index, named)
    if sum(run.last - run.first for run in plan) >= LONG * len(plan):
        codec.thread_type = "AUTO"
        codec.thread_count = min(THREADS, (os.cpu_count() or 1) + 1)
    for run in plan:
        missing = {index[at].pts: named[at] for at in run.wanted}
        before: int | None = None
        with closing(_frames(container, stream, index, run)) as decoded:
            for frame in decoded:
                in_order = before is None or frame.pts > before
                if frame.is_corrupt or frame.interlaced_frame or not in_order:
                    raise Uncertain
                before = frame.pts
                if before in missing:
                    yield missing.pop(before), frame
        if missing:
            raise Uncertain


def _frames(container: Any, stream: Any, index: Sequence[Packet], run: DecodeRun) -> Generator[Any, None, None]:
    codec = stream.codec_context
    container.seek(index[run.first].seek, stream=stream)  # empties the decoder too
    at = run.first
    for packet in container.demux(stream):
        if packet.pts != index[at].pts:
            if at == run.first and packet.size:
                continue  # the container's own index is coarser than its key frames
            raise Uncertain
        codec.skip_frame = "DEFAULT" if at in run.wanted else "NONREF"
        yield from packet.decode()
        at += 1
        if at > run.last:
            break
    if at <= run.last:
        raise Uncertain
    yield from codec.decode(None)
