"""The wanted frames of a video, and of all others only those that they are made from.

Number n is the n-th picture in the order of its stamp. Decoding begins at the latest IDR picture at or before a wanted
one, goes on where the next wanted picture comes before another IDR, and passes over pictures that no other refers to. What
comes out is held against what was put in, stamp by stamp: where a single picture is missing, out of turn or flagged as
damaged, nothing of it is used (`Uncertain`), and the caller decodes everything instead.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from snellen.media.packets import Packet, Scan

# Threads of one decoder. Several videos are decoded at once (MediaCache), and each thread holds frames.
THREADS = 4
# Packets in a run from which on more than one thread saves time: they are filled and emptied anew in every run.
LONG = 48


class Uncertain(Exception):
    """The decoder did not do what the packets had promised."""


class Run(NamedTuple):
    """Packets `first` to `last` of the index, decoded in one go for the sake of the `wanted` ones."""

    first: int
    last: int
    wanted: frozenset[int]


def runs(index: Sequence[Packet], positions: Collection[int]) -> list[Run]:
    """What has to be decoded for the packets at `positions`, in the order of the index."""
    entries = [at for at, one in enumerate(index) if one.entry]
    found: list[Run] = []
    for position in sorted(positions):
        place = bisect_right(entries, position) - 1
        while place > 0 and index[entries[place]].pts > index[position].pts:
            place -= 1  # shown before the IDR that it is stored behind
        first = entries[place]
        if found and first <= found[-1].last:
            found[-1] = Run(found[-1].first, position, found[-1].wanted | {position})
        else:
            found.append(Run(first, position, frozenset({position})))
    return found


def take(container: Any, scanned: Scan, numbers: Collection[int]) -> Iterator[tuple[int, Any]]:
    """(number, decoded frame) of the wanted numbers, rising within a run; one frame is alive at a time.

    Raises:
        Uncertain: only at the end of the run concerned; frames that were given before are not to be used.
    """
    index = scanned.index
    named = {scanned.shown[number]: number for number in numbers}
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
    container: Any, stream: Any, index: Sequence[Packet], run: Run, fed: list[int]
) -> Generator[Any, None, None]:
    container.seek(index[run.first].seek, stream=stream)  # empties the decoder too
    at = run.first
    for packet in container.demux(stream):
        one = index[at]
        if packet.pts != one.pts:
            if at == run.first and packet.size:
                continue  # the container's own index is coarser than its key frames
            break
        if not one.spare or at in run.wanted:
            if not one.hidden:
                fed.append(one.pts)
            yield from packet.decode()
        at += 1
        if at > run.last:
            break
    if at <= run.last:
        raise Uncertain
    yield from stream.codec_context.decode(None)
