"""What 64 frames of a film of two hours cost, beside torchcodec, decord and plain seeking with PyAV.

The film has 1920 x 1080 pixels, 25 frames a second, H.264 with a key frame every 250 (`--group`). Two minutes are drawn and encoded,
and their packets are repeated: 180,000 frames. Squares in the corner of each frame tell its number, by which every reader
is checked. Each reader has a process of its own; seconds are those of wall and CPU after the imports, memory is what the
process grows by. decord (0.6.0, of 2021) and torchcodec (needs FFmpeg's libraries) are left out where they cannot be imported.
Usage: python bench/video.py [--minutes 120] [--group 250] [--rounds 3] [--film FILE]     (--film: keep the film there, or read it)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np

from snellen.media import frame_numbers, frames, open_image
from snellen.media.video_index import scan
from snellen.sources import FileBlob
from snellen.types import MediaSettings, Video

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from peak_memory import peak_kb

RATE, SIZE, SEGMENT, WANTED = 25, (1920, 1080), 3000, 64
SQUARE, BITS = 48, 12


def draw(path: Path, minutes: int, group: int) -> None:
    """Write the film: a scene under moving grain, a block that crosses it, and the number of the frame in black and white squares."""
    width, height = SIZE
    noise = np.random.default_rng(7)
    scene = np.kron(noise.integers(40, 200, (54, 96)), np.ones((20, 20))).astype(np.uint8)
    grain = noise.integers(0, 28, (height, width)).astype(np.uint8)
    part = Path(f"{path}.segment.mp4")
    options = {
        "g": str(group),
        "keyint_min": str(group),
        "bf": "3",
        "sc_threshold": "0",
        "preset": "veryfast",
        "crf": "28",
    }
    with av.open(str(part), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        planes = np.full((height * 3 // 2, width), 128, np.uint8)
        for number in range(SEGMENT):
            planes[:height] = scene + np.roll(grain, number * 7, 0)
            left = number * 7 % (width - 200)
            planes[500:700, left : left + 200] = np.roll(scene[:200, :200], number, 1)
            for bit in range(BITS):
                planes[:SQUARE, bit * SQUARE : (bit + 1) * SQUARE] = 235 if number >> bit & 1 else 16
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode())
    with av.open(str(path), "w", format="mp4") as film:
        copy = None
        for turn in range(minutes * 60 * RATE // SEGMENT):
            with av.open(str(part)) as container:
                source = container.streams.video[0]
                copy = copy or film.add_stream_from_template(source)
                later = turn * round(SEGMENT / RATE / source.time_base)
                for packet in container.demux(source):
                    if packet.size:
                        packet.pts, packet.dts, packet.stream = packet.pts + later, packet.dts + later, copy
                        film.mux(packet)
    part.unlink()


def number_of(picture: Any) -> int:
    """The number that the squares of an RGB picture say."""
    middle = SQUARE // 2
    return sum(1 << bit for bit in range(BITS) if picture[middle, bit * SQUARE + middle, 0] > 128)


def ours(path: Path, wanted: list[int]) -> list[Any]:
    """JPEG frames, as they are sent."""
    return list(frames(Video(FileBlob(path)), MediaSettings(frames=len(wanted))))


def packets(path: Path, wanted: list[int]) -> list[Any]:
    """Snellen's reading of all packets alone, which `ours` begins with."""
    from snellen.media.video_file import VideoFile

    scan(VideoFile(path, path.stat().st_size), "film", 10**8)
    return []


def seeking(path: Path, wanted: list[int]) -> list[Any]:
    """PyAV told that frame k is shown at k / 25 s: seek before it and decode up to it. Nothing is checked."""
    found = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        tick = round(1 / (stream.time_base * RATE))
        for number in wanted:
            container.seek(number * tick, stream=stream)
            frame = next(frame for frame in container.decode(stream) if frame.pts >= number * tick)
            found.append(frame.to_ndarray(format="rgb24"))
    return found


def torchcodec(mode: str) -> Callable[[Path, list[int]], list[Any]]:
    from torchcodec.decoders import VideoDecoder

    def read(path: Path, wanted: list[int]) -> list[Any]:
        decoder = VideoDecoder(path, seek_mode=mode, dimension_order="NHWC")
        return list(decoder.get_frames_at(wanted).data.numpy())

    return read


def decord() -> Callable[[Path, list[int]], list[Any]]:
    from decord import VideoReader

    return lambda path, wanted: list(VideoReader(str(path)).get_batch(wanted).asnumpy())


READERS: dict[str, Callable[[], Callable[[Path, list[int]], list[Any]]]] = {
    "Snellen": lambda: ours,
    "Snellen, packets alone": lambda: packets,
    "PyAV, seeking": lambda: seeking,
    "torchcodec, exact": lambda: torchcodec("exact"),
    "torchcodec, approximate": lambda: torchcodec("approximate"),
    "decord": decord,
}


def measured(name: str, path: Path) -> dict[str, float]:
    """Seconds and memory of one reader in this process."""
    read = READERS[name]()
    with av.open(str(path)) as container:
        total = container.streams.video[0].frames
    wanted = frame_numbers(total, WANTED)
    before, wall, cpu = peak_kb(), time.perf_counter(), time.process_time()
    found = read(path, wanted)
    spent = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "mb": (peak_kb() - before) / 1024,
    }
    if name == "Snellen":
        found = [np.asarray(open_image(image, MediaSettings())) for image in found]
    if found and [number_of(picture) for picture in found] != [number % SEGMENT for number in wanted]:
        raise SystemExit(f"{name}: other frames than the ones that were asked for")
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--group", type=int, default=250, help="frames from one key frame to the next")
    parser.add_argument("--film", type=Path)
    parser.add_argument("--reader", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reader:
        print(json.dumps(measured(given.reader, given.film)))
        return
    with tempfile.TemporaryDirectory() as folder:
        film = given.film or Path(folder) / "film.mp4"
        if not film.exists():
            draw(film, given.minutes, given.group)
        print(f"{WANTED} frames of {film.stat().st_size / 1e6:,.0f} MB; least of {given.rounds} rounds")
        print(f"{'':26}{'wall s':>8}{'CPU s':>8}{'MB':>8}")
        for name in READERS:
            runs = []
            for _ in range(given.rounds):
                command = [sys.executable, __file__, "--reader", name, "--film", str(film)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    print(f"{name:26}{(done.stderr.strip().splitlines() or ['failed'])[-1]}")
                    break
                runs.append(json.loads(done.stdout))
            else:
                print(f"{name:26}" + "".join(f"{min(run[part] for run in runs):8.1f}" for part in runs[0]))


if __name__ == "__main__":
    main()
