"""What 32 frames of a minute of video cost, beside the fastest sequences of seeks and decodes that PyAV can be told to do.

A 60 s film of 854 x 480 at 30 frames a second is drawn and encoded (H.264, three B-frames, a key frame every 30 or every
250 frames). Each way gives the same frames, and every pixel of every way is compared with a decode of everything. The
ways by hand know by heart what Snellen has to find out and to check: that the file is whole, that frame k is shown at
k / 30 s, and where the key frames lie. Ways take turns within a round; CPU seconds of the process (all threads) and wall
seconds, best of the rounds. Usage: python bench/video_frames.py [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Collection
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from snellen.media import frame_numbers, frames
from snellen.media.encode import compress
from snellen.media.video_index import opened, scan, take
from snellen.sources import BytesBlob
from snellen.types import MediaSettings, Video

RATE, COUNT, SIZE = 30, 1800, (854, 480)
WANTED = frame_numbers(COUNT, 32)
SETTINGS = MediaSettings(frames=32)
OURS = "Snellen"
Pictures = dict[int, NDArray[np.uint8]]


def film(group: int) -> bytes:
    """A patchwork that pans under moving grain, with a square that crosses it; the same bytes at every call."""
    width, height = SIZE
    noise = np.random.default_rng(7)
    ground = np.kron(noise.integers(0, 128, (40, 60, 3)), np.ones((20, 24, 1))).astype(np.uint8)
    grain = noise.integers(0, 12, (height, width, 3)).astype(np.uint8)
    out = BytesIO()
    options = {"g": str(group), "keyint_min": str(group), "bf": "3", "sc_threshold": "0", "preset": "veryfast"}
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE, options=options | {"crf": "23", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(COUNT):
            left, top = number * 3 % (1440 - width), number * 2 % (800 - height)
            picture = ground[top : top + height, left : left + width] + np.roll(grain, number * 7, 0)
            at = number * 5 % (width - 50)
            picture[10:60, at : at + 50] = (number % 256, 255 - number % 256, 128)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()


def everything(data: bytes, threads: str) -> Pictures:
    found, wanted = {}, set(WANTED)
    with av.open(BytesIO(data)) as container:
        container.streams.video[0].thread_type = threads
        for number, frame in enumerate(container.decode(video=0)):
            if number in wanted:
                found[number] = frame.to_ndarray(format="rgb24")
    return found


def by_hand(data: bytes, group: int, threads: str, skip: str) -> Pictures:
    """Seek where a key frame lies between, else decode on; frames that no other refers to are skipped on the way.

    With `skip` at NONREF the decoder itself passes over them until the packet of the wanted frame comes.
    """
    found: Pictures = {}
    wanted = set(WANTED)
    with av.open(BytesIO(data)) as container:
        stream = container.streams.video[0]
        codec = stream.codec_context
        codec.thread_type = threads
        tick = round(1 / (stream.time_base * RATE))
        start = 0  # the first frame is shown at 0, whatever its decoding stamp

        def keep(decoded: Collection[Any]) -> None:
            for frame in decoded:
                number = (frame.pts - start) // tick
                if number in wanted:
                    found[number] = frame.to_ndarray(format="rgb24")

        for key in range(0, COUNT, group):
            inside = [number for number in WANTED if key <= number < key + group]
            if not inside:
                continue
            container.seek(start + key * tick, stream=stream)
            missing = set(inside)
            for packet in container.demux(stream):
                number = (packet.pts - start) // tick
                codec.skip_frame = "DEFAULT" if number in missing else skip
                keep(packet.decode())
                missing.discard(number)
                if not missing:
                    break
            keep(codec.decode(None))
    return found


def arrays(data: bytes) -> Pictures:
    """Snellen's way to arrays: the packets read and checked, the wanted frames taken."""
    scanned = scan(data, "film", 10**8)
    with opened(data, "film", 10**8) as container:
        return {number: frame.to_ndarray(format="rgb24") for number, frame in take(container, scanned, WANTED)}


def parts(data: bytes) -> list[bytes]:
    """Snellen's way to what a request carries: JPEG, quality 90, at the frames' own size."""
    return [image.blob.read() for image in frames(Video(blob=BytesBlob("film", data)), SETTINGS)]


def encoded(pictures: Pictures) -> list[bytes]:
    return [compress(pictures[number], "jpeg", SETTINGS.quality) for number in WANTED]


def ways(data: bytes, group: int) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {}
    for threads in ("SLICE", "AUTO"):
        found[f"everything, {threads}"] = lambda threads=threads: everything(data, threads)  # type: ignore[misc]
    for threads in ("SLICE", "FRAME", "AUTO"):
        for skip in ("DEFAULT", "NONREF"):
            found[f"by hand, {threads}, skip {skip}"] = lambda t=threads, s=skip: by_hand(data, group, t, s)  # type: ignore[misc]
    found[f"{OURS}, arrays"] = lambda: arrays(data)
    for threads in ("SLICE", "AUTO"):
        found[f"by hand, {threads}, skip NONREF, JPEG"] = lambda t=threads: encoded(by_hand(data, group, t, "NONREF"))  # type: ignore[misc]
    found[f"{OURS}, JPEG parts"] = lambda: parts(data)
    return found


def check(name: str, found: object, truth: Pictures) -> None:
    """Exit with a message where a way gives another frame or another pixel."""
    if isinstance(found, dict):
        same = sorted(found) == WANTED and all(np.array_equal(found[number], truth[number]) for number in WANTED)
    else:
        same = found == encoded(truth)
    if not same:
        raise SystemExit(f"{name}: not the frames that a decode of everything gives")


def measure(data: bytes, group: int, rounds: int) -> dict[str, list[float]]:
    """name: [CPU s, wall s], the best of each."""
    truth = everything(data, "SLICE")
    best: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, way in ways(data, group).items():
            cpu, wall = time.process_time(), time.perf_counter()
            found = way()
            spent = [time.process_time() - cpu, time.perf_counter() - wall]
            check(name, found, truth)
            best[name] = [min(pair) for pair in zip(best.get(name, spent), spent, strict=True)]
    return best


def table(group: int, size: int, best: dict[str, list[float]]) -> None:
    print(f"\n32 of {COUNT} frames, {SIZE[0]} x {SIZE[1]}, a key frame every {group}, {size / 1e6:.1f} MB")
    print(f"{'':36}{'CPU ms':>10}{'wall ms':>10}")
    for name, (cpu, wall) in best.items():
        print(f"{name:36}{cpu * 1000:10.0f}{wall * 1000:10.0f}")
    for kind, jpeg in (("arrays", False), ("JPEG parts", True)):
        peers = [spent for name, spent in best.items() if name.startswith("by hand") and ("JPEG" in name) == jpeg]
        ours = best[f"{OURS}, {kind}"]
        cpu, wall = (mine / min(peer[at] for peer in peers) for at, mine in enumerate(ours))
        print(f"{kind}: {cpu:.2f} x the CPU and {wall:.2f} x the wall of the fastest by hand, each at its best")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {"av": av.__version__}
    for group in (30, 250):
        data = film(group)
        found[f"every {group}"] = best = measure(data, group, given.rounds)
        table(group, len(data), best)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
