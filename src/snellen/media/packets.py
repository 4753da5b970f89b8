"""What the packets of a video say, read without decoding: how many, when, and where decoding may begin.

PyAV reads the bytes from memory, so no name of a file ever reaches a demuxer or a shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from io import BytesIO
from typing import Any, NamedTuple

from msgspec import Struct

from snellen.errors import MediaError
from snellen.media import decode, h264

FRAME_LIMIT = 200_000
# Demuxers of encoded video only: playlists and manifests (hls, dash, concat) point at other files and hosts. FFmpeg
# looks at these lists before a demuxer reads its first header.
OPTIONS = {"format_whitelist": "mov,matroska,avi,mpegts,mpeg,flv,ogg,asf", "protocol_whitelist": "none"}
# In these a packet is one picture with a stamp of its own, and seeking finds it.
_INDEXED = ("mov", "matroska")


class Packet(NamedTuple):
    """One packet: stamp, where to `seek` for it and how long it `lasts` (0: not said), in ticks.

    `hidden` is decoded and not shown, as an edit list says. The other two: `snellen.media.h264.Unit`.
    """

    pts: int
    seek: int
    lasts: int
    entry: bool
    spare: bool
    hidden: bool


class Scan(Struct, frozen=True):
    """What the packets of the first video stream say, in seconds.

    Attributes:
        packets: those with data: one a frame in the codecs of the accepted containers.
        hidden: those of them that are decoded and not shown, as an edit list says.
        end: when the last frame ceases to be shown, on the clock of the stamps; None where there are no stamps.
        spacing: 1 / average rate; 0 where the container does not say.
        index: each packet in the order of decoding, where frames can be told from packets: H.264 in MP4, QuickTime or
            Matroska, whole, each packet one picture with a stamp that no other has. Else empty.
        shown: frame number n is the packet at place `shown[n]` of the index.
        tick: the stream's time base, in which the index counts.
    """

    packets: int
    hidden: int
    end: Fraction | None
    spacing: Fraction
    index: Sequence[Packet]
    shown: Sequence[int]
    tick: Fraction

    @property
    def rate(self) -> float:
        """Average frames a second; 0 where the container does not say."""
        return float(1 / self.spacing) if self.spacing else 0.0


def scan(data: bytes, key: str, limit: int) -> Scan:
    """Read all packets once. Raises MediaError: no frames, or more than 200,000; frames of over `limit` pixels."""
    total = hidden = 0
    last: tuple[int, int] | None = None
    with opened(data, key, limit) as container:
        stream = container.streams.video[0]
        rate = stream.average_rate or stream.guessed_rate
        spacing = 1 / Fraction(rate) if rate else Fraction(0)
        tick = Fraction(stream.time_base or 0)
        # AVI knows the order of decoding only: what is read as a stamp there is wrong where frames are reordered.
        stamped = container.format.name != "avi"
        index = _Index(container)
        for packet in container.demux(video=0):
            if not packet.size:
                continue
            total += 1
            hidden += packet.is_discard
            if total > FRAME_LIMIT:
                raise MediaError(
                    f"video {key}: more than {FRAME_LIMIT:,} frames",
                    "Cut the video into parts, or lower its frame rate.",
                )
            index.add(packet)
            if stamped and packet.pts is not None and not packet.is_discard:
                stamp = packet.pts, packet.duration or 0
                if last is None or stamp > last:
                    last = stamp
    if total == 0:
        raise MediaError(f"video {key}: it holds no frames", "The file is damaged or cut off; fetch it again.")
    end = None
    if last is not None:
        end = last[0] * tick + (last[1] * tick if last[1] else spacing)
    whole = index.whole()
    shown = sorted((at for at, one in enumerate(whole) if not one.hidden), key=lambda at: whole[at].pts)
    return Scan(total, hidden, end, spacing, whole if shown else [], shown, tick)


class _Index:
    """Packets as they come, given up at the first that makes their frames uncertain."""

    def __init__(self, container: Any) -> None:
        stream = container.streams.video[0]
        known = stream.codec_context.name == "h264" and container.format.name.startswith(_INDEXED)
        self._prefix = h264.length_size(stream.codec_context.extradata) if known else 0
        self._packets: list[Packet] = []
        self._parameters: bytes | None = None
        self._refers = -1
        self._sure = self._prefix > 0
        self._decoding_order = container.format.name.startswith("mov")

    def add(self, packet: Any) -> None:
        if not self._sure:
            return
        unit = h264.read(memoryview(packet), self._prefix)
        # MP4 is sought by the order of decoding, Matroska by that of showing.
        seek = packet.dts if self._decoding_order else packet.pts
        if unit is None or packet.is_corrupt or packet.pts is None or seek is None:
            self._sure = False
            return
        if unit.entry:
            if self._parameters is None:
                self._parameters = unit.parameters
            # Passing over a change of parameter sets would decode the rest by the wrong ones.
            self._sure = unit.parameters == self._parameters
        else:
            self._sure = bool(self._packets) and not unit.parameters
        # One set for all pictures is the rule; another number is rather damage than a second set.
        self._refers = unit.refers if self._refers < 0 else self._refers
        self._sure = self._sure and unit.refers == self._refers
        self._packets.append(Packet(packet.pts, seek, packet.duration or 0, unit.entry, unit.spare, packet.is_discard))

    def whole(self) -> list[Packet]:
        """All packets; none where what they show is uncertain."""
        stamps = {one.pts for one in self._packets}
        return self._packets if self._sure and len(stamps) == len(self._packets) else []


@contextmanager
def opened(data: bytes, key: str, limit: int) -> Iterator[Any]:
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
