"""Frames by time: picture k is what a player shows at k / fps seconds."""

from __future__ import annotations

from fractions import Fraction
from io import BytesIO

import pytest
from clips import Counted, clip, numbers
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import MediaError
from snellen.media import MediaCache, frames, read_header, shown_at_most
from snellen.media.video import TIMES, frame_times
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Video


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
    for settings in (MediaSettings(), MediaSettings(fps=1.0)):
        with pytest.raises(MediaError, match="neither"):
            frames(Video(), settings)


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
