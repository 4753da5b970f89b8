"""A video of gigabytes: read in pieces, in an archive too, and only what the wanted frames are made of is decoded."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest

from media.clips import clip, numbers
from peak_memory import PEAK_KB
from snellen.errors import DataError
from snellen.media import video_file as module
from snellen.media.video import frames, frames_and_rate
from snellen.media.video_file import VideoFile, video_data
from snellen.media.video_index import scan
from snellen.sources import FileBlob, kept_tree
from snellen.types import MediaSettings, Pick, Video

av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")

PADDING = 400 << 20


def long_film(path: Path) -> Path:
    """A clip whose file has a hole of 400 MB behind it, in a box that says that it is free."""
    path.write_bytes(clip(60, codec="libx264") + struct.pack(">I4s", PADDING, b"free"))
    os.truncate(path, path.stat().st_size + PADDING - 8)
    return path


def test_a_large_file_is_read_where_it_lies_and_never_held(tmp_path, monkeypatch):
    path = tmp_path / "walk.mp4"
    path.write_bytes(clip(30, codec="libx264"))
    monkeypatch.setattr(module, "LARGE", 100)
    monkeypatch.setattr(FileBlob, "read", lambda blob: pytest.fail("it was read whole"))
    pick = Pick("three", lambda total: [0, total // 2, total - 1], 3)
    shown = frames(Video(FileBlob(path), pick=pick), MediaSettings())
    assert numbers(shown) == [0, 15, 29]
    assert frames_and_rate(FileBlob(path)) == (30, 10.0)


def test_a_member_of_an_archive_is_copied_aside_and_the_copy_goes(tmp_path, monkeypatch):
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    monkeypatch.setattr(module, "LARGE", 100)
    film = clip(30, codec="libx264")
    with zipfile.ZipFile(tmp_path / "10mins.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("10mins/a.mp4", film)
    blob = kept_tree(tmp_path / "10mins.zip").blob("10mins/a.mp4")
    with video_data(blob) as data:
        assert isinstance(data, VideoFile) and data.path.parent == aside
        assert data.path.read_bytes() == film
    assert list(aside.iterdir()) == []
    shown = frames(Video(blob, pick=Pick("last", lambda total: [total - 1], 1)), MediaSettings())
    assert numbers(shown) == [29] and list(aside.iterdir()) == []


def test_a_disk_without_room_for_the_copy_is_named(tmp_path, monkeypatch):
    def full(first, stream, copy):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "LARGE", 100)
    monkeypatch.setattr(module, "_copied", full)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.mp4", clip(5))
    with pytest.raises(DataError, match="No space left"), video_data(kept_tree(tmp_path / "a.zip").blob("a.mp4")):
        pass


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = long_film(tmp_path / "walk.mp4")
    code = (
        "import sys; from pathlib import Path; from snellen.media.cache import MediaCache;"
        "from snellen.sources import FileBlob; from snellen.types import MediaSettings, Pick, Video;"
        "import snellen.media.video;"
        f"before = {PEAK_KB};"
        "shown = MediaCache(MediaSettings()).frames(Video(FileBlob(Path(sys.argv[1])), pick=Pick('x', lambda n: [0, n - 1], 2)));"
        f"print(len(shown), {PEAK_KB} - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=600, check=True
    )
    shown, grown = map(int, done.stdout.split())
    assert shown == 2
    assert grown < 200_000  # kB; the file has 400,000


def test_packets_of_hours_are_kept_in_a_few_bytes_each_and_in_order():
    scanned = scan(clip(30, codec="libx264"), "clip", 1 << 30)
    assert len(scanned.index) == 30 and list(scanned.index) == sorted(scanned.index)
    for kept in (scanned.index, scanned.keys, scanned.places):
        assert sys.getsizeof(kept) < 1000


def restamped(data: bytes, path: Path, stamps: Sequence[int]) -> bytes:
    """The film again, packet k shown at stamp `stamps[k]` of its time base, whatever its place in the file is."""
    with av.open(BytesIO(data)) as film, av.open(str(path), "w") as copy:
        stream = copy.add_stream_from_template(film.streams.video[0])
        packets = [packet for packet in film.demux(video=0) if packet.size]
        step = packets[1].pts
        for number, (packet, stamp) in enumerate(zip(packets, stamps, strict=True)):
            packet.stream = stream
            packet.pts, packet.dts = stamp * step, (number - len(packets)) * step
            copy.mux(packet)
    return path.read_bytes()


@pytest.mark.parametrize(
    "stamps",
    [[*range(7), 6, *range(8, 24)], [*range(12, 24), *range(12)]],
    ids=["two of one time", "the second key frame is shown first"],
)
def test_packets_that_do_not_tell_frames_apart_are_no_index(stamps, tmp_path):
    whole = clip(24, codec="libx264", options={"bf": "0", "g": "12", "sc_threshold": "0", "keyint_min": "12"})
    plain = restamped(whole, tmp_path / "plain.mkv", range(24))
    assert len(scan(plain, "clip", 1 << 30).index) == 24 and len(scan(plain, "clip", 1 << 30).keys) == 2
    assert not scan(restamped(whole, tmp_path / "1.mkv", stamps), "clip", 1 << 30).index
