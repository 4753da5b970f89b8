"""Frames of videos, by number and by time: picture k of the latter is what a player shows at k / fps seconds."""

from __future__ import annotations

import asyncio
import builtins
import struct
from contextlib import suppress
from fractions import Fraction
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from clips import Counted, clip, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.errors import MediaError, MissingExtraError
from snellen.media import MediaCache, encode, frame_numbers, frames, open_image, read_header, shown_at_most
from snellen.media.sampling import TIMES, frame_times
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Video


def turned_clip(degrees: int = 90, codec: str = "mpeg4") -> bytes:
    """As a telephone writes it: stored lying, left half white, to be turned clockwise by `degrees` (ISO 14496-12, 6.2.2)."""
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    out = BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 32, "yuv420p"
        half = np.zeros((32, 64, 3), np.uint8)
        half[:, :32] = 255
        container.mux(stream.encode(av.VideoFrame.from_ndarray(half, format="rgb24")))
        container.mux(stream.encode())
    upright = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    cos, sin = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    turned = [number * 0x10000 for number in (cos, sin, 0, -sin, cos, 0, 0, 0)]
    lying = struct.pack(">9i", *turned, 0x40000000)
    data = out.getvalue()
    at = data.index(upright, data.index(b"tkhd"))
    return data[:at] + lying + data[at + len(lying) :]


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 200))
def test_frames_are_spread_evenly_from_the_first_to_the_last(total, wanted):
    picked = frame_numbers(total, wanted)
    assert picked == sorted(set(picked)) and len(picked) == min(total, wanted)
    assert picked[0] >= 0 and picked[-1] <= total - 1
    if len(picked) > 1:
        assert picked[0] == 0 and picked[-1] == total - 1
        steps = [b - a for a, b in pairwise(picked)]
        assert max(steps) - min(steps) <= 1


def test_the_documented_numbers_of_frames():
    assert frame_numbers(30, 8) == [0, 4, 8, 12, 16, 20, 24, 29]
    assert frame_numbers(30, 1) == [14]
    assert frame_numbers(3, 8) == [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "codec"), [("mp4", "mpeg4"), ("matroska", "mpeg4"), ("avi", "mpeg4"), ("webm", "libvpx")]
)
def test_the_right_frames_come_out_of_every_container(kind, codec):
    video = Video(blob=BytesBlob("clips/1", clip(30, kind=kind, codec=codec)))
    assert numbers(frames(video, MediaSettings(frames=8))) == [0, 4, 8, 12, 16, 20, 24, 29]


@pytest.mark.parametrize("codec", ["mpeg4", "libx264"])
@pytest.mark.parametrize(
    ("degrees", "size", "white", "black"),
    [
        (0, (64, 32), (8, 16), (56, 16)), (90, (32, 64), (16, 8), (16, 56)),
        (180, (64, 32), (56, 16), (8, 16)), (270, (32, 64), (16, 56), (16, 8)),
    ],
)  # fmt: skip
def test_a_video_is_turned_as_players_turn_it(degrees, size, white, black, codec):
    (only,) = frames(Video(blob=BytesBlob("c", turned_clip(degrees, codec))), MediaSettings())
    shown = open_image(only, MediaSettings())
    assert shown.size == size
    assert shown.getpixel(white)[0] > 200 and shown.getpixel(black)[0] < 50


def test_frames_are_fitted_and_encoded_once_and_sent_as_they_are():
    settings = MediaSettings(frames=3, max_long_side=32, quality=80)
    first, *_ = frames(Video(blob=BytesBlob("c", clip())), settings)
    header = read_header(first.blob.read())
    assert header is not None and (header.format, header.width, header.height) == ("jpeg", 32, 24)
    assert encode(first.blob, settings).data == first.blob.read()
    png = MediaSettings(frames=3, format="png")
    other = frames(Video(blob=BytesBlob("c", clip())), png)[0]
    assert encode(other.blob, png).mime == "image/png" and other.blob.key != first.blob.key


def test_the_blind_control_greys_the_frames_of_a_video_too():
    for image in frames(Video(blob=BytesBlob("c", clip())), MediaSettings(frames=2, blank=True)):
        assert open_image(image, MediaSettings()).getextrema() == ((128, 128),) * 3


def test_a_drawn_clip_is_thinned_by_the_same_rule_and_drawn_only_when_read():
    def never():
        raise AssertionError("drawn")

    from snellen.sources import Drawn

    drawn = tuple(Image(Drawn(f"f{number}", never)) for number in range(30))
    picked = frames(Video(frames=drawn), MediaSettings(frames=8))
    assert [image.blob.key for image in picked] == [f"f{n}" for n in (0, 4, 8, 12, 16, 20, 24, 29)]


def test_a_video_is_decoded_once_however_many_ask():
    blob = Counted(clip())
    cache = MediaCache(MediaSettings(frames=4))

    async def ask():
        return await asyncio.gather(*(cache.fetch_frames(Video(blob=blob)) for _ in range(16)))

    clips = asyncio.run(ask())
    assert blob.reads == 1 and all(one is clips[0] for one in clips)
    assert cache.frames(Video(blob=blob)) is clips[0] and cache.held_bytes > 0


@pytest.mark.parametrize("settings", [MediaSettings(), MediaSettings(fps=1)], ids=["by number", "by time"])
def test_an_empty_a_broken_and_a_cut_off_video_and_a_picture_are_errors_that_name_it(settings):
    whole, picture = clip(60, size=(160, 120)), BytesIO()
    pillow.new("RGB", (8, 8)).save(picture, "PNG")
    for data in (b"", b"not a video at all" * 50, whole[:200], whole[: len(whole) // 2], picture.getvalue()):
        with pytest.raises(MediaError, match=r"clips/1\.mp4"):
            frames(Video(blob=BytesBlob("clips/1.mp4", data)), settings)


@pytest.mark.parametrize(
    "playlist",
    [
        b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile /etc/hostname\n",
    ],
)
def test_a_playlist_that_points_at_other_files_is_refused(playlist):
    with pytest.raises(MediaError, match="Invalid"):
        frames(Video(blob=BytesBlob("clips/1.mp4", playlist)), MediaSettings())


def test_frames_over_the_pixel_limit_are_refused_before_they_are_decoded():
    with pytest.raises(MediaError, match="64 x 48"):
        frames(Video(blob=BytesBlob("c", clip())), MediaSettings(), limit=1000)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_video_gives_frames_or_a_media_error(data):
    whole = bytearray(clip(6, size=(32, 32)))
    for _ in range(data.draw(st.integers(1, 10))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for media, most in ((MediaSettings(frames=3), 3), (MediaSettings(fps=3.0), TIMES)):
        with suppress(MediaError):
            assert 1 <= len(frames(Video(blob=BytesBlob("c", bytes(whole))), media, limit=1_000_000)) <= most


def test_without_pyav_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "av":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install -e \S+\[video\]"):
        frames(Video(blob=BytesBlob("c", b"x")), MediaSettings())


def shown(data: bytes, fps: float, **settings: int) -> list[int]:
    return numbers(frames(Video(blob=BytesBlob("c", data)), MediaSettings(fps=fps, **settings)))


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("mp4", "mpeg4"), ("mp4", "libx264"), ("mov", "mpeg4"), ("matroska", "libx264"), ("webm", "libvpx"),
        ("avi", "mpeg4"), ("avi", "libx264"), ("mpegts", "mpeg2video"), ("flv", "flv1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("fps", "expected"),
    [(1, [0, 10, 20]), (2, [0, 5, 10, 15, 20, 25]), (0.5, [0, 20]), (0.1, [0]), (10, list(range(30)))],
)
def test_frames_stand_at_whole_steps_of_the_videos_own_time_in_every_container(kind, codec, fps, expected):
    assert shown(clip(30, kind=kind, codec=codec), fps) == expected


def test_a_rate_that_does_not_divide_the_videos_takes_what_is_on_the_screen():
    assert shown(clip(30), 3) == [k * 10 // 3 for k in range(9)]
    assert shown(clip(30, rate=30, kind="matroska"), 30) == list(range(30)), "stamps in whole milliseconds"


def test_a_frame_that_stays_is_sent_for_every_moment_at_which_it_is_shown():
    data = clip(at=(0.0, 0.25, 3.25, 3.5, 6.0))
    # 0 s: 0; 1 to 3 s: 1; 4 and 5 s: 3; the last from 6 s on.
    assert shown(data, 1)[:7] == [0, 1, 1, 1, 3, 3, 4]
    assert shown(clip(3), 20) == [0, 0, 1, 1, 2, 2]


def test_time_runs_from_the_first_frame_and_not_from_zero():
    late = clip(at=[5 + k / 10 for k in range(20)], kind="matroska")
    assert shown(late, 2) == [0, 5, 10, 15]


def test_a_clip_of_one_frame_gives_one():
    assert shown(clip(1), 1) == [0]
    assert shown(clip(1), 0.001) == [0]


def test_more_than_the_cap_is_thinned_evenly_from_the_first_to_the_last():
    picked = frames(Video(blob=BytesBlob("c", clip(20, size=(32, 32)))), MediaSettings(fps=1000))
    assert len(picked) == TIMES == 768
    assert [one.blob.key for one in picked] == sorted(
        (one.blob.key for one in picked), key=lambda key: int(key.split("=")[1].split("&")[0])
    )
    assert numbers([picked[0], picked[-1]]) == [0, 19]
    assert len({one.blob.key for one in picked}) == 20, "every frame of the clip is among them"


@given(st.fractions(min_value=0, max_value=10**5), st.floats(min_value=1e-3, max_value=1e6))
def test_times_rise_begin_at_zero_and_end_before_the_end(end, fps):
    times = frame_times(end, fps)
    assert times[0] == 0 and times == sorted(set(times)) and len(times) <= TIMES
    assert all(time < end for time in times[1:])
    if len(times) < TIMES:
        assert times[-1] + 1 / Fraction(repr(fps)) >= end, "none is left out at the end"


def test_a_drawn_clip_is_read_at_its_own_rate_exactly():
    def clip_of(total, rate):
        return Video(frames=tuple(Image(BytesBlob(str(n), b"")) for n in range(total)), fps=rate)

    def picked(video, fps):
        images = frames(video, MediaSettings(fps=fps))
        assert len(images) == shown_at_most(video, MediaSettings(fps=fps))
        return [int(image.blob.key) for image in images]

    assert picked(clip_of(4, 1.0), 1) == [0, 1, 2, 3]
    assert picked(clip_of(30, 10.0), 1) == [0, 10, 20]
    assert picked(clip_of(31, 10.0), 1) == [0, 10, 20, 30]
    assert picked(clip_of(3, 0.1), 0.1) == [0, 1, 2]
    assert picked(clip_of(2, 1.0), 2) == [0, 0, 1, 1]
    with pytest.raises(MediaError, match="0"):
        picked(clip_of(2, 0.0), 2)


def test_a_clip_with_neither_file_nor_frames_is_an_error_and_not_an_empty_prompt():
    for media in (MediaSettings(), MediaSettings(fps=1.0)):
        with pytest.raises(MediaError, match="neither"):
            frames(Video(), media)


def test_frames_by_time_keep_within_the_pixel_budget_and_are_grey_in_the_blind_control():
    data = clip(30)
    picked = frames(Video(blob=BytesBlob("c", data)), MediaSettings(fps=1, max_pixels=32 * 24))
    headers = [read_header(image.blob.read()) for image in picked]
    assert [(one.width, one.height) for one in headers if one] == [(32, 24)] * 3
    assert shown(data, 1, blank=True) == [16, 16, 16]


def test_a_frame_that_stands_for_many_moments_is_counted_once_against_the_budget():
    cache = MediaCache(MediaSettings(fps=100))
    picked = cache.frames(Video(blob=Counted(clip(3))))
    assert len(picked) == 30
    assert cache.held_bytes < 40 * 1024 + 3 * max(len(image.blob.read()) for image in picked)


def test_a_video_without_sound_or_with_it_gives_the_same_frames():
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    import numpy as np

    out = BytesIO()
    with av.open(BytesIO(clip(30))) as silent, av.open(out, "w", format="mp4") as loud:
        picture = loud.add_stream_from_template(silent.streams.video[0])
        sound = loud.add_stream("aac", rate=16000)
        for packet in silent.demux(video=0):
            if packet.size:
                packet.stream = picture
                loud.mux(packet)
        tone = av.AudioFrame.from_ndarray(np.zeros((1, 80000), np.float32), format="fltp", layout="mono")
        tone.sample_rate = 16000
        loud.mux(sound.encode(tone))
        loud.mux(sound.encode())
    assert shown(out.getvalue(), 1) == [0, 10, 20], "five seconds of sound do not make the picture longer"


def test_a_film_that_was_trimmed_begins_where_players_begin_it():
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    out = BytesIO()
    with av.open(BytesIO(clip(30, codec="libx264"))) as whole, av.open(out, "w", format="mp4") as trimmed:
        stream = trimmed.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.size:
                early = int(Fraction(1, 2) / packet.time_base)  # the first five frames come to lie before the start
                packet.pts, packet.dts, packet.stream = packet.pts - early, packet.dts - early, stream
                trimmed.mux(packet)
    assert shown(out.getvalue(), 2) == [5, 10, 15, 20, 25]


def test_frames_that_are_missing_at_the_end_are_not_made_up():
    whole = clip(30, codec="libx264", kind="mpegts")
    assert shown(whole, 2) == [0, 5, 10, 15, 20, 25]
    cut = shown(whole[: len(whole) * 2 // 3], 2)
    assert 1 <= len(cut) < 6 and cut == [0, 5, 10, 15, 20, 25][: len(cut)]
