"""Rules that choose frames of a clip, against values counted by hand and against plain definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from clips import clip, numbers
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import MediaError, UsageError
from snellen.media import MediaCache, check_settings, effective, frame_numbers, frames, frames_rule, shown_at_most
from snellen.media.sampling import Timeline, chosen
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Video

TEN_SECONDS = Timeline(range(100), 100, Fraction(1, 10), 10.0)


def picked(video: Video = Video(), **settings) -> list[int]:
    return [number for number, _ in chosen(TEN_SECONDS, video, MediaSettings(**settings), "clip.mp4")]


def test_places_in_the_middle_of_segments_are_those_of_the_authors_of_mvbench():
    for total, wanted in ((100, 8), (97, 16), (33, 4)):
        segment = float(total - 1) / wanted
        theirs = [int(segment / 2 + np.round(segment * k)) for k in range(wanted)]
        assert frame_numbers(total, wanted, "middle") == theirs


def test_places_inside_of_both_ends_are_those_of_vlmevalkit():
    for total, wanted in ((100, 8), (97, 16), (33, 4)):
        theirs = [int(total / (wanted + 1) * k) for k in range(1, wanted + 1)]
        assert frame_numbers(total, wanted, "inside") == theirs


@given(st.integers(1, 5000), st.integers(1, 200), st.sampled_from(["ends", "middle", "inside"]))
def test_every_rule_names_frames_that_are_there_once_and_rising(total, wanted, sampling):
    found = frame_numbers(total, wanted, sampling)
    assert found == sorted(set(found)) and len(found) == min(total, wanted)
    assert found[0] >= 0 and found[-1] < total


def test_frames_lie_within_the_span_of_a_question():
    assert picked(Video(start=2.0, end=4.0), frames=3) == [20, 29, 39]
    assert picked(Video(start=2.0, end=4.0), fps=1.0) == [20, 30]
    assert picked(Video(start=9.0), frames=2) == [90, 99]
    assert picked(Video(end=0.5), frames=8) == [0, 1, 2, 3, 4]
    assert picked(Video(start=8.0, end=1000.0), fps=1.0) == [80, 90], "an end behind the clip's is the clip's"


@given(st.floats(0, 9.8), st.floats(0.1, 20), st.integers(1, 40))
def test_no_frame_is_shown_outside_of_the_span(start, length, count):
    for settings in ({"frames": count}, {"fps": float(count)}):
        for number in picked(Video(start=start, end=start + length), **settings):
            assert (number + 1) / 10 > start - 0.002 and number / 10 < start + length + 0.002


def test_a_span_and_a_time_that_the_clip_does_not_have_are_named_with_its_length():
    for video in (Video(start=10.0), Video(start=12.0, end=14.0), Video(start=3.0, end=3.0), Video(start=5.0, end=2.0)):
        with pytest.raises(MediaError, match="10 seconds long"):
            picked(video)
    with pytest.raises(MediaError, match="frame at 10 seconds"):
        picked(Video(times=(0.0, 10.0)))


def test_times_in_the_data_name_the_frames_shown_then_in_their_order():
    assert picked(Video(times=(9.99, 0.0, 0.1, 0.15))) == [99, 0, 1, 1]
    with pytest.raises(MediaError, match="--frames 4 contradicts"):
        picked(Video(times=(1.0,)), frames=4)


def test_a_rate_is_bounded_from_below_and_from_above():
    assert picked(fps=1.0, max_frames=4) == [0, 30, 60, 90]
    assert picked(fps=0.1, min_frames=4) == [0, 33, 66, 99]
    assert picked(fps=1.0, min_frames=4, max_frames=20) == list(range(0, 100, 10))
    assert shown_at_most(Video(blob=BytesBlob("c", b"")), MediaSettings(fps=1.0, max_frames=4)) == 4


def test_what_a_benchmark_declares_holds_where_the_user_says_nothing():
    declared = Video(usual=MediaSettings(fps=2.0, max_frames=6, timestamps=True))
    assert picked(declared) == [0, 15, 35, 55, 75, 95]
    assert picked(declared, frames=2) == [0, 99], "the user's number takes the place of a rate"
    assert picked(declared, fps=0.1) == [0]
    assert picked(declared, max_frames=3) == picked(fps=2.0, max_frames=3)
    middle = Video(usual=MediaSettings(frames=4, frame_places="middle"))
    assert picked(middle, frames=2) == frame_numbers(100, 2, "middle"), "another number, at the declared places"
    assert picked(middle, frame_places="ends") == frame_numbers(100, 4), "typed places come first, the usual ones too"
    assert picked(middle, fps=0.1) == [0]
    assert picked(Video(usual=MediaSettings(frames=4, frame_places="middle"))) == frame_numbers(100, 4, "middle")
    shown = effective(declared, MediaSettings())
    assert frames_rule(shown) == "2 frames a second, at most 6, with their times"
    assert effective(declared, MediaSettings(frames=2)).timestamps, "they are part of the question"
    assert not effective(declared, MediaSettings(timestamps=False)).timestamps


def test_times_of_a_clip_without_a_rate_are_refused():
    still = Video(frames=tuple(Image(BytesBlob(str(n), b"")) for n in range(30)), fps=0.0)
    assert len(frames(still, MediaSettings(frames=3))) == 3
    for settings in (MediaSettings(fps=1.0), MediaSettings(timestamps=True)):
        with pytest.raises(MediaError, match="has no frame rate"):
            frames(still, settings)


def test_settings_that_contradict_each_other_are_refused():
    for settings, words in (
        (MediaSettings(frames=4, max_frames=8), "--max-frames 8 bounds"),
        (MediaSettings(fps=1.0, min_frames=9, max_frames=8), "--min-frames 9 is more"),
        (MediaSettings(fps=1.0, min_frames=1000), "--min-frames 1000 is more"),
        (MediaSettings(fps=1.0, frame_places="middle"), "no effect on --fps"),
        (MediaSettings(video="native", timestamps=True), "--timestamps would change it"),
    ):
        with pytest.raises(UsageError, match=words):
            check_settings(settings)
    with pytest.raises(MediaError, match="no rate is given"):
        picked(max_frames=4)


@pytest.mark.parametrize(("kind", "codec"), [("mp4", "libx264"), ("matroska", "mpeg4"), ("avi", "mpeg4")])
def test_spans_times_and_seconds_are_those_of_the_file(kind, codec):
    data = clip(30, kind=kind, codec=codec)
    found = frames(Video(blob=BytesBlob("c", data), start=1.0, end=2.0), MediaSettings(frames=3))
    assert numbers(found) == [10, 14, 19]
    assert [round(image.blob.seconds, 3) for image in found] == [1.0, 1.4, 1.9]
    assert numbers(frames(Video(blob=BytesBlob("c", data), times=(2.5, 0.0)), MediaSettings())) == [25, 0]


def test_a_drawn_clip_has_spans_too():
    drawn = Video(frames=tuple(Image(BytesBlob(str(n), b"")) for n in range(30)), fps=10.0, start=1.0, end=2.0)
    assert [image.blob.key for image in frames(drawn, MediaSettings(frames=3))] == ["10", "14", "19"]


def test_two_spans_of_one_file_are_two_clips_for_the_cache():
    blob = BytesBlob("c", clip(30))
    cache = MediaCache(MediaSettings(frames=1))
    early, late = (cache.frames(Video(blob=blob, start=at, end=at + 0.1)) for at in (0.0, 2.0))
    assert numbers(early) == [0] and numbers(late) == [20]
