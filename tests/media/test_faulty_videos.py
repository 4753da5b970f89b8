"""Files of videos that are not as they should be: the frames are right, or the message says what is wrong."""

from __future__ import annotations

import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from clips import clip, numbers

from peak_memory import PEAK_KB
from snellen.errors import MediaError
from snellen.media import frames
from snellen.media import video_file as files
from snellen.sources import BytesBlob, FileBlob
from snellen.types import MediaSettings, Video

av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")

EIGHT = [0, 4, 8, 12, 16, 20, 24, 29]


def shown(data: bytes, **settings: float) -> list[int]:
    return numbers(frames(Video(BytesBlob("clips/1.mp4", data)), MediaSettings(**settings)))


def copied(data: bytes, path: Path, without: frozenset[int] = frozenset(), kind: str = "mp4", **muxer: str) -> bytes:
    """The film with its packets copied, without some of them."""
    with av.open(BytesIO(data)) as whole, av.open(str(path), "w", format=kind, options=muxer) as copy:
        stream = copy.add_stream_from_template(whole.streams.video[0])
        for number, packet in enumerate(whole.demux(video=0)):
            if packet.size and number not in without:
                packet.stream = stream
                copy.mux(packet)
    return path.read_bytes()


def sound(cover: bool) -> bytes:
    """Five seconds of silence, with a picture of its cover on request."""
    out = BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=16000)
        if cover:
            picture = container.add_stream("mjpeg")
            picture.width, picture.height, picture.pix_fmt = 64, 48, "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            grey = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 90, np.uint8), format="rgb24")
            container.mux(picture.encode(grey.reformat(format="yuvj420p")))
        tone = av.AudioFrame.from_ndarray(np.zeros((1, 80000), np.float32), format="fltp", layout="mono")
        tone.sample_rate = 16000
        container.mux(stream.encode(tone))
        container.mux(stream.encode())
    return out.getvalue()


@pytest.mark.parametrize("cover", [False, True], ids=["plain", "with a cover"])
def test_a_file_of_sound_is_called_one(cover):
    with av.open(BytesIO(sound(cover))) as container:
        assert len(container.streams.video) == cover
    with pytest.raises(MediaError, match=r"clips/1\.mp4: it holds sound and no moving pictures"):
        shown(sound(cover))


@pytest.mark.parametrize("codec", ["mpeg4", "libx264"])
@pytest.mark.parametrize("large", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_a_file_that_was_cut_off_is_called_cut_off_wherever_its_index_lies(codec, large, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGE", 100 if large else 1 << 20)
    behind = clip(30, codec=codec)
    path = tmp_path / "1.mp4"
    for whole in (behind, copied(behind, path, movflags="faststart"), copied(behind, path, kind="matroska")):
        path.write_bytes(whole[: int(len(whole) * kept)])
        with pytest.raises(MediaError, match=r"1\.mp4: of [\d,]+ bytes, .*\nThe file is cut off"):
            frames(Video(FileBlob(path)), MediaSettings(fps=1.0))


def test_a_damaged_file_says_how_far_it_can_be_decoded():
    whole = clip(30, codec="libx264")
    with av.open(BytesIO(whole)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    places = [packet.pos for packet in packets]
    damaged = bytearray(whole)
    damaged[places[20] : places[20] + 64] = b"\xff" * 64
    with pytest.raises(
        MediaError, match=r"clips/1\.mp4: after \d+ of its 30 frames, nothing can be decoded: Invalid"
    ) as caught:
        shown(bytes(damaged))
    assert "The file is damaged" in str(caught.value)


def test_a_frame_is_not_sent_if_it_is_damaged_or_made_from_one_that_is():
    whole = clip(30, size=(320, 240), options={"g": "12", "sc_threshold": "1000000000"})
    with av.open(BytesIO(whole)) as container:
        packets = [(packet.pos, packet.size, packet.is_keyframe) for packet in container.demux(video=0) if packet.size]
    at, size, key = packets[15]
    assert not key and [number for number, packet in enumerate(packets) if packet[2]] == [0, 12, 24]
    damaged = bytearray(whole)
    damaged[at + size // 2 : at + size] = b"\x55" * (size - size // 2)
    truth = [frame.is_corrupt for frame in av.open(BytesIO(bytes(damaged))).decode(video=0)]
    assert [number for number, corrupt in enumerate(truth) if corrupt] == [15]
    blob = BytesBlob("clips/1.mp4", bytes(damaged))
    for time in (1.5, 2.3):
        with pytest.raises(MediaError, match=rf"the frame at {time:g} seconds is damaged"):
            frames(Video(blob, times=(time,)), MediaSettings())
    assert numbers(frames(Video(blob, times=(0.0, 1.4, 2.4, 2.9)), MediaSettings())) == [0, 14, 24, 29]


@pytest.mark.parametrize("kind", ["mp4", "matroska"])
@pytest.mark.parametrize("codec", ["mpeg4", "libx264"])
@pytest.mark.parametrize("factor", [0.2, 7])
def test_a_wrong_duration_in_the_header_changes_nothing(kind, codec, factor):
    whole = bytearray(clip(30, codec=codec, kind=kind))
    if kind == "mp4":  # ISO 14496-12: version 0 of mvhd and mdhd has times, time scale and duration behind each other
        for box in (b"mvhd", b"mdhd"):
            at = whole.index(box) + 4 + 16
            struct.pack_into(">I", whole, at, int(struct.unpack_from(">I", whole, at)[0] * factor))
    else:  # RFC 9559: Duration, a float of 8 bytes in units of the time stamps
        at = whole.index(b"\x44\x89\x88") + 3
        struct.pack_into(">d", whole, at, struct.unpack_from(">d", whole, at)[0] * factor)
    assert shown(bytes(whole)) == EIGHT
    assert shown(bytes(whole), fps=2.0) == [0, 5, 10, 15, 20, 25]


def test_a_rate_that_varies_gives_what_is_on_the_screen_and_no_message():
    times = [k / 10 for k in range(15)] + [1.5 + k / 2 for k in range(6)]
    data = clip(codec="libx264", at=times)
    assert shown(data, fps=2.0) == [0, 5, 10, 15, 16, 17, 18, 19, 20]
    assert shown(data, frames=3) == [0, 10, 20]


def test_a_film_whose_first_frame_alone_is_a_key_frame_gives_each_frame():
    data = clip(120, codec="libx264", options={"g": "250", "sc_threshold": "0"})
    with av.open(BytesIO(data)) as container:
        assert [packet.is_keyframe for packet in container.demux(video=0) if packet.size].count(True) == 1
    found = frames(Video(BytesBlob("c", data), times=(0.0, 3.0, 11.9)), MediaSettings())
    assert numbers(found) == [0, 30, 119 % 32]


def test_a_film_without_any_key_frame_says_that_nothing_can_be_decoded(tmp_path):
    data = copied(
        clip(30, codec="libx264", options={"sc_threshold": "0", "bf": "0"}), tmp_path / "1.mp4", without=frozenset({0})
    )
    with pytest.raises(MediaError, match=r"no frame of its 29 can be decoded\nThe file is damaged"):
        shown(data)


def test_three_thousand_frames_are_held_as_they_are_sent_and_not_as_pixels(tmp_path):
    path = tmp_path / "lecture.mp4"
    path.write_bytes(clip(3000, rate=2, codec="libx264", size=(320, 240)))
    code = (
        "import sys; from pathlib import Path; from snellen.media.cache import MediaCache;"
        "from snellen.sources import FileBlob; from snellen.types import MediaSettings, Video; import av;"
        f"before = {PEAK_KB};"
        "cache = MediaCache(MediaSettings(fps=2.0, max_frames=3000), 64 << 20);"
        "shown = cache.frames(Video(FileBlob(Path(sys.argv[1]))));"
        "sent = [len(cache.get(image).data_uri) for image in shown];"
        f"print(len(shown), sum(sent) // 1024, {PEAK_KB} - before)"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    count, sent, grown = map(int, done.stdout.split())
    assert count == 3000
    assert grown < sent + 64 * 1024 + 60_000, "kB; the pixels are 690,000"
