"""Index of a video's packets, and seeking by it: only the requested frames, and those they depend on, are decoded.

H.264 packets are classified by the headers of their NAL units (ITU-T H.264, 7.3.1 and table 7-1; lengths as in ISO/IEC
14496-15, 5.3): entry points (all slices IDR) and droppable pictures (nal_ref_idc 0 in all slices). Packets that are not
understood completely disable the index. PyAV reads the bytes from memory, so no file name reaches a demuxer or a shell.

Number n is the n-th picture in the order of time stamps. Decoding begins at the latest IDR picture at or before a
requested one, continues if the next requested picture comes before another IDR, and skips droppable pictures. The
output is compared with the input, stamp by stamp: if a single picture is missing, out of order or flagged as damaged,
nothing of it is used (`Uncertain`), and the caller decodes everything instead.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from msgspec import Struct

from snellen.errors import MediaError
from snellen.media import decode, video_index

_SLICE, _IDR, _SPS, _PPS = 1, 5, 7, 8
# Supplemental information, delimiters and filler: nothing that decoding another picture needs.
_ASIDE = frozenset({6, 9, 12})


class Unit(NamedTuple):
    """One coded picture.

    Attributes:
        entry: decoding may begin here: no later picture refers to an earlier one.
        spare: no picture refers to this one.
        parameters: sequence and picture parameter sets in the packet, concatenated.
        refers: number of the picture parameter set of its first slice.
    """

    entry: bool
    spare: bool
    parameters: bytes
    refers: int


def length_size(extradata: bytes | None) -> int:
    """Return the bytes of the length before each NAL unit, 1 to 4; 0 if units have no length prefix."""
    if not extradata or len(extradata) < 7 or extradata[0] != 1:
        return 0
    return (extradata[4] & 3) + 1


def read(packet: memoryview, prefix: int) -> Unit | None:
    """Parse the picture in a packet; None if the packet is damaged, incomplete or unusual.

    Args:
        packet: bytes of the packet.
        prefix: `length_size` of its stream, above 0.
    """
    at, end = 0, len(packet)
    entry = spare = True
    refers = -1
    parameters = b""
    while at < end:
        size = int.from_bytes(packet[at : at + prefix], "big")
        at += prefix
        if size < 2 or at + size > end:
            return None
        header = packet[at]
        kind = header & 31
        if header & 128:
            return None
        if kind in (_SLICE, _IDR):
            if refers < 0:
                # Nearly always two bytes are enough, and these are often the same.
                refers = _picture_set(bytes(packet[at + 1 : at + 3]))
                if refers < 0:
                    refers = _picture_set(bytes(packet[at + 1 : at + 9]))
                if refers < 0:
                    return None
            entry = entry and kind == _IDR
            spare = spare and not header & 96
        elif kind in (_SPS, _PPS):
            parameters += packet[at : at + size]
        elif kind not in _ASIDE:
            return None
        at += size
    return Unit(entry, spare and not parameters, parameters, refers) if refers >= 0 else None


@lru_cache(maxsize=1 << 12)
def _picture_set(slice_header: bytes) -> int:
    """Return the picture parameter set of a picture's first slice (7.3.3); -1 if these bytes do not contain it.

    Three Exp-Golomb numbers: first_mb_in_slice, which is 0 there; slice_type, 0 to 9; pic_parameter_set_id.
    """
    bits = f"{int.from_bytes(slice_header, 'big'):0{8 * len(slice_header)}b}"
    numbers = []
    at = 0
    for _ in range(3):
        zeros = bits.find("1", at) - at
        if zeros < 0 or at + 2 * zeros + 1 > len(bits):
            return -1
        numbers.append(int(bits[at + zeros : at + 2 * zeros + 1], 2) - 1)
        at += 2 * zeros + 1
    first, kind, refers = numbers
    return refers if first == 0 and kind <= 9 else -1


FRAME_LIMIT = 200_000
# Demuxers of encoded video only: playlists and manifests (hls, dash, concat) point at other files and hosts. FFmpeg
# looks at these lists before a demuxer reads its first header.
OPTIONS = {"format_whitelist": "mov,matroska,avi,mpegts,mpeg,flv,ogg,asf", "protocol_whitelist": "none"}
# In these a packet is one picture with a stamp of its own, and seeking finds it.
_INDEXED = ("mov", "matroska")


class Packet(NamedTuple):
    """One packet: time stamp, position to `seek` to, and duration `lasts` (0: unknown), in ticks.

    `hidden` is decoded and not shown, by an edit list. `entry` and `spare`: as in `Unit`.
    """

    pts: int
    seek: int
    lasts: int
    entry: bool
    spare: bool
    hidden: bool


class Scan(Struct, frozen=True):
    """The packets of the first video stream; times in seconds.

    Attributes:
        packets: packets with data: one per frame in the codecs of the accepted containers.
        hidden: those that are decoded and not shown, by an edit list.
        end: end of the last frame, on the clock of the stamps; None without stamps.
        spacing: 1 / average rate; 0 if the container has no rate.
        index: each packet in decoding order, if frames can be told from packets: complete H.264 in MP4, QuickTime or
            Matroska, each packet one picture with a unique stamp. Else empty.
        display_order: frame number n is the packet at place `display_order[n]` of the index.
        tick: the stream's time base, the unit of the index.
    """

    packets: int
    hidden: int
    end: Fraction | None
    spacing: Fraction
    index: Sequence[Packet]
    display_order: Sequence[int]
    tick: Fraction

    @property
    def rate(self) -> float:
        """Average frames a second; 0 where the container does not say."""
        return float(1 / self.spacing) if self.spacing else 0.0


def scan(data: bytes, key: str, limit: int) -> Scan:
    """Read all packets once. Raises MediaError: no frames, more than 200,000, or frames of over `limit` pixels."""
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
    packets = index.whole()
    order = sorted((at for at, packet in enumerate(packets) if not packet.hidden), key=lambda at: packets[at].pts)
    return Scan(total, hidden, end, spacing, packets if order else [], order, tick)


class _Index:
    """A list of packets that is discarded at the first packet that makes its frames uncertain."""

    def __init__(self, container: Any) -> None:
        stream = container.streams.video[0]
        known = stream.codec_context.name == "h264" and container.format.name.startswith(_INDEXED)
        self._prefix = video_index.length_size(stream.codec_context.extradata) if known else 0
        self._packets: list[Packet] = []
        self._parameters: bytes | None = None
        self._refers = -1
        self._sure = self._prefix > 0
        self._decoding_order = container.format.name.startswith("mov")

    def add(self, packet: Any) -> None:
        if not self._sure:
            return
        unit = video_index.read(memoryview(packet), self._prefix)
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
        """Return all packets; empty if their frames are uncertain."""
        stamps = {packet.pts for packet in self._packets}
        return self._packets if self._sure and len(stamps) == len(self._packets) else []


@contextmanager
def opened(data: bytes, key: str, limit: int) -> Iterator[Any]:
    """Open a container in memory and check its format and frame size; closed on leaving."""
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
    entries = [at for at, packet in enumerate(index) if packet.entry]
    plan: list[DecodeRun] = []
    for position in sorted(positions):
        place = bisect_right(entries, position) - 1
        while place > 0 and index[entries[place]].pts > index[position].pts:
            place -= 1  # shown before the IDR that it is stored behind
        first = entries[place]
        if plan and first <= plan[-1].last:
            plan[-1] = DecodeRun(plan[-1].first, position, plan[-1].wanted | {position})
        else:
            plan.append(DecodeRun(first, position, frozenset({position})))
    return plan


def take(container: Any, scanned: Scan, numbers: Collection[int]) -> Iterator[tuple[int, Any]]:
    """Yield (number, decoded frame) of the requested numbers, rising within a run; one frame is alive at a time.

    Raises:
        Uncertain: only at the end of the run concerned; discard the frames yielded before.
    """
    index = scanned.index
    named = {scanned.display_order[number]: number for number in numbers}
    stream = container.streams.video[0]
    codec = stream.codec_context
    plan = runs(index, named)
    if sum(run.last - run.first for run in plan) >= LONG * len(plan):
        codec.thread_type = "AUTO"
        codec.thread_count = min(THREADS, (os.cpu_count() or 1) + 1)
    for run in plan:
        by_stamp = {index[at].pts: named[at] for at in run.wanted}
        expected: list[int] = []
        got: list[int] = []
        with closing(_frames(container, stream, index, run, expected)) as decoded:
            for frame in decoded:
                if frame.is_corrupt:
                    raise Uncertain
                got.append(frame.pts)
                if frame.pts in by_stamp:
                    yield by_stamp[frame.pts], frame
        if got != sorted(expected):
            raise Uncertain


def _frames(
    container: Any, stream: Any, index: Sequence[Packet], run: DecodeRun, fed: list[int]
) -> Generator[Any, None, None]:
    container.seek(index[run.first].seek, stream=stream)  # empties the decoder too
    at = run.first
    for packet in container.demux(stream):
        expected = index[at]
        if packet.pts != expected.pts:
            if at == run.first and packet.size:
                continue  # the container's own index is coarser than its key frames
            break
        if not expected.spare or at in run.wanted:
            if not expected.hidden:
                fed.append(expected.pts)
            yield from packet.decode()
        at += 1
        if at > run.last:
            break
    if at <= run.last:
        raise Uncertain
    yield from stream.codec_context.decode(None)
