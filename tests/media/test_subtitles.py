"""Subtitles: their files, the lines at the frames, and where they stand in a prompt."""

from __future__ import annotations

import json

import pytest
from clips import clip
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError, MediaError
from snellen.media import clip_parts, frames
from snellen.media.clip_parts import file_text, in_intervals
from snellen.media.subtitles import Line, at_frames, in_span, read_subtitles, seconds_of, sentences
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Subtitles, Text, Video
from stopwatch import is_done_within

SRT = """1
00:00:00,500 --> 00:00:01,200
A <i>wren</i>
sings.

2
00:00:01,000 --> 00:00:02,500
{\\an8}It flies.

3
00:00:02,800 --> 00:00:02,900
Gone.
"""
LINES = [Line(0.5, 1.2, "A wren sings."), Line(1.0, 2.5, "It flies."), Line(2.8, 2.9, "Gone.")]


def blob(text: str | bytes) -> BytesBlob:
    return BytesBlob("s.srt", text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    "data",
    [
        SRT.encode(),
        b"\xef\xbb\xbf" + SRT.replace("\n", "\r\n").encode(),
        SRT.encode("utf-16"),
        ("WEBVTT\n\n" + SRT.replace(",", ".").replace("{\\an8}", "")).encode(),
        json.dumps([{"start": line.start, "end": line.end, "line": line.text} for line in LINES]).encode(),
        json.dumps({"segments": [{"timestamp": [line.start, line.end], "text": line.text} for line in LINES]}).encode(),
        "\n".join(
            json.dumps({"text": line.text, "start_time": f"00:00:0{line.start}", "end_time": line.end})
            for line in LINES
        ).encode(),
    ],
    ids=["srt", "srt with a mark and crlf", "utf-16", "vtt", "list", "object", "json lines"],
)
def test_every_form_gives_the_same_lines(data):
    assert read_subtitles(blob(data)) == LINES


def test_ass_is_not_taken_for_json():
    spoken = (f"0,0:00:0{line.start:.2f},0:00:0{line.end:.2f},Default,,0,0,0,,{line.text}" for line in LINES)
    form = "Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text"
    head = f"[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\n\n[Events]\nFormat: {form}\n"
    assert read_subtitles(blob(head + "".join(f"Dialogue: {line}\n" for line in spoken))) == LINES


def test_old_files_are_read_in_their_code_page():
    assert read_subtitles(blob(SRT.replace("wren", "Zaunkönig").encode("cp1252")))[0].text == "A Zaunkönig sings."


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        '[{"text": "a"}]',
        '[{"start": "soon", "end": 2, "text": "a"}]',
        "not subtitles",
        '[{"start": 1' + "0" * 400 + "}]",
    ],
)
def test_a_file_of_another_form_is_an_error_that_names_it(text):
    with pytest.raises(DataError, match=r"s\.srt"):
        read_subtitles(blob(text))


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_give_lines_or_an_error_that_names_the_file(data):
    try:
        lines = read_subtitles(blob(data))
    except DataError as error:
        assert "s.srt" in error.message
    else:
        assert all(line.text for line in lines) and lines == sorted(lines, key=lambda line: (line.start, line.end))


@pytest.mark.parametrize(
    ("value", "seconds"), [(75, 75.0), ("75.5", 75.5), ("1:15", 75.0), ("01:01:15,5", 3675.5), ("75s", 75.0), (0, 0.0)]
)
def test_times_are_read_as_people_write_them(value, seconds):
    assert seconds_of(value) == seconds


@pytest.mark.parametrize("value", [None, True, "", "soon", "-3", -1, float("nan"), float("inf"), "1:2:3:4"])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match="time"):
        seconds_of(value)


def test_lines_at_frames_are_those_spoken_then_each_once_and_a_span_keeps_what_it_touches():
    assert at_frames(LINES, [0.0, 1.1, 1.15]) == LINES[:2]
    assert at_frames(LINES, [2.6, 3.0]) == []
    assert in_span(LINES, 1.1, 2.0) == LINES[:2] and in_span(LINES, None, None) == LINES


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=8), st.lists(st.integers(0, 50), max_size=6),
    st.integers(0, 4),
)  # fmt: skip
def test_lines_at_frames_are_those_of_every_pair(spans, times, least):
    lines = [Line(start, start + long, "a") for start, long in spans]
    slack = [max(least - long, 0) / 2 for _, long in spans]
    pairs = zip(lines, slack, strict=True)
    wanted = [line for line, more in pairs if any(line.start - more <= time <= line.end + more for time in times)]
    assert at_frames(lines, times, least) == wanted


def test_many_lines_at_many_frames_are_found_in_time():
    lines, frames = [Line(at, at + 0.5, "a") for at in range(100_000)], [at * 13 for at in range(768)]
    assert len(at_frames(lines, frames)) == 768
    assert is_done_within(3, lambda: at_frames(lines, frames))


def texts(video: Video, settings: MediaSettings) -> list[str]:
    """The parts of a clip, frames as their second."""
    parts = clip_parts(video, frames(video, settings), settings)
    return [part.text if isinstance(part, Text) else f"{part.blob.seconds:.1f}" for part in parts]


def video(show: str, **words: str) -> Video:
    return Video(blob=BytesBlob("c", clip(30)), subtitles=Subtitles(blob(SRT), show, **words))


def test_subtitles_stand_behind_the_frames_or_between_them():
    one_a_second = MediaSettings(fps=1.0)
    assert texts(video("frames"), one_a_second) == ["0.0", "1.0", "2.0", "A wren sings.\nIt flies."]
    assert (
        texts(video("full", before="Said: ", after="."), one_a_second)[-1] == "Said: A wren sings.\nIt flies.\nGone.."
    )
    # The middle of the first line is 0.85 s, that of the second 1.75 s; no frame lies in the third.
    assert texts(video("between"), one_a_second) == ["0.0", "A wren sings.", "1.0", "It flies.", "2.0"]
    silent = video("frames", before="Said: ", absent="nothing")
    assert texts(silent, MediaSettings(frames=1, fps=None)) == ["1.4", "Said: It flies."]
    assert (
        texts(Video(blob=silent.blob, subtitles=Subtitles(None, absent="No subtitles.")), one_a_second)[-1]
        == "No subtitles."
    )


def test_sentences_stand_behind_the_frame_from_which_on_they_are_spoken():
    """By hand: `Up.` ends a sentence at 0.5, and 0.2 s of silence follow; `it goes` pauses for 0.6 s before `down`."""
    words = [("Up.", 0.1, 0.5), ("Then", 0.7, 0.9), ("it", 1.0, 1.1), ("goes", 1.4, 1.6), ("down", 2.2, 2.4)]
    listed = json.dumps([{"text": text, "start_time": start, "end_time": end} for text, start, end in words])
    shown = Video(blob=BytesBlob("c", clip(30)), subtitles=Subtitles(blob(listed), "intervals", before="unused"))
    assert texts(shown, MediaSettings(fps=1.0)) == [
        "0.0", "[Subtitle 0.10s - 0.50s]: Up.", "[Subtitle 0.70s - 1.60s]: Then it goes",
        "1.0", "[Subtitle 0.70s - 1.60s]: Then it goes",
        "2.0", "[Subtitle 2.20s - 2.40s]: down",
    ]  # fmt: skip
    assert texts(Video(blob=shown.blob, subtitles=Subtitles(None, "intervals")), MediaSettings(fps=1.0)) == [
        "0.0",
        "1.0",
        "2.0",
    ]


TENTHS = st.integers(0, 110).map(lambda at: at / 10)


@given(
    st.sets(TENTHS, min_size=1, max_size=6),
    st.lists(st.tuples(TENTHS, TENTHS, st.sampled_from(["a", "b."])), max_size=6),
)
def test_a_sentence_stands_behind_every_frame_in_whose_interval_it_is_spoken(moments, drawn):
    times = sorted(moments)
    lines = sorted(Line(start, start + lasts / 3, text) for start, lasts, text in drawn)
    wanted = [
        (start, f"[Subtitle {line.start:.2f}s - {line.end:.2f}s]: {line.text}")
        for start, end in zip(times, [*times[1:], float("inf")], strict=True)
        for line in sentences(lines)
        if line.end >= start and line.start < end
    ]
    assert in_intervals(lines, times) == wanted


def test_times_stand_before_their_frames():
    settings = MediaSettings(fps=1.0, timestamps=True)
    assert texts(Video(blob=BytesBlob("c", clip(20))), settings) == ["<0.0 seconds>", "0.0", "<1.0 seconds>", "1.0"]
    still = Video(blob=BytesBlob("still", clip(at=(0.0, 0.1, 3.4), codec="libx264")))
    moments = texts(still, settings)
    assert moments[:8:2] == ["<0.0 seconds>", "<1.0 seconds>", "<2.0 seconds>", "<3.0 seconds>"], (
        "also of a frame that stays"
    )
    drawn = Video(frames=tuple(Image(BytesBlob(str(n), b"")) for n in range(20)), fps=10.0)
    parts = clip_parts(drawn, frames(drawn, settings), settings)
    assert [part.text for part in parts if isinstance(part, Text)] == ["<0.0 seconds>", "<1.0 seconds>"]


def test_a_clip_that_is_sent_as_a_file_has_all_subtitles_or_none():
    assert file_text(video("full")) == "A wren sings.\nIt flies.\nGone."
    assert file_text(Video(blob=BytesBlob("c", b""))) == ""
    for refused in (video("frames"), video("between"), Video(start=1.0), Video(times=(1.0,))):
        with pytest.raises(MediaError, match=r"--video native|subtitles"):
            file_text(refused)
