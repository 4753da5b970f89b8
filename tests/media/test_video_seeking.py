"""Frames taken by seeking are those that a decode of everything gives: the same numbers, the same pixels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clips import clip
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from snellen.benchmarks.spatial.prompts import frames as formulas
from snellen.errors import MediaError
from snellen.media import MediaCache, frame_numbers, frames, open_image, shown_at_most
from snellen.media import video as rules
from snellen.media.video_index import Uncertain, opened, scan, take
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Pick, Video

LIMIT = 10**8


def film(
    count: int = 90,
    *,
    kind: str = "mp4",
    gop: int = 12,
    options: dict[str, str] | None = None,
    muxer: dict[str, str] | None = None,
    at: Callable[[int], int] = lambda number: number * 100,
    codec: str = "libx264",
) -> bytes:
    """Textured frames of 64 x 48, each unlike all others; frame k is shown at tick `at(k)` of 1 / 1000 s."""
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    texture = np.random.default_rng(3).integers(0, 200, (6, 8, 3)).astype(np.uint8).repeat(16, 0).repeat(16, 1)
    out = BytesIO()
    with av.open(out, "w", format=kind, options=muxer or {}) as container:
        chosen = {"g": str(gop), "bf": "3", "threads": "1", **(options or {})}
        stream = container.add_stream(codec, rate=10, options=chosen)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(count):
            picture = np.roll(texture, (number, 2 * number), (0, 1))[:48, :64] // 2 + number % 100
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture.astype(np.uint8)), format="rgb24")
            frame.pts, frame.time_base = at(number), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()


def golomb(*numbers: int) -> str:
    return "".join(f"{number + 1:b}".rjust(2 * (number + 1).bit_length() - 1, "0") for number in numbers)


def unit(header: int, bits: str, opening: str = "", blocks: Sequence[bytes] = ()) -> bytes:
    """A unit of H.264: bits, and macroblocks of raw samples, each behind an opening."""
    for block in blocks:
        bits += opening
        bits += "0" * (-len(bits) % 8) + "".join(f"{value:08b}" for value in block)
    bits += "1"
    bits += "0" * (-len(bits) % 8)
    body = int(bits, 2).to_bytes(len(bits) // 8, "big")
    return b"\0\0\0\1" + bytes([header]) + re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", body)


def broadcast(kind: str) -> bytes:
    """Eight frames of 16 x 32 in H.264, as broadcasts have them: the second is two fields, which are packets of their own."""
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    sequence = f"{77:08b}{0:08b}{10:08b}" + golomb(0, 0, 2, 1) + "0" + golomb(0, 0) + "00100"
    picture = golomb(0, 0) + "00" + golomb(0, 0, 0) + "000" + golomb(0, 0, 0) + "000"
    units = [unit(0x67, sequence), unit(0x68, picture)]
    for number in range(8):
        block = bytes([40 + 20 * number]) * 256 + bytes([128]) * 128
        for field in ("10", "11") if number == 1 else ("0",):
            begin = golomb(0, 5 if number else 7, 0) + f"{number:04b}" + field
            begin += ("000" if number else golomb(0) + "00") + golomb(0)
            opening = golomb(0, 30) if number else golomb(25)
            units.append(unit(0x61 if number else 0x65, begin, opening, [block] * (2 if field == "0" else 1)))
    out = BytesIO()
    with av.open(BytesIO(b"".join(units)), format="h264") as raw, av.open(out, "w", format=kind) as container:
        stream = container.add_stream_from_template(raw.streams.video[0])
        for number, packet in enumerate(packet for packet in raw.demux(video=0) if packet.size):
            packet.pts = packet.dts = 20 * number
            packet.time_base, packet.stream = Fraction(1, 1000), stream
            container.mux(packet)
    return out.getvalue()


def edited(data: bytes, early_s: Fraction, place: Path | None = None, muxer: dict[str, str] | None = None) -> bytes:
    """The film with its first frames before the start: decoded and not shown, by an edit list."""
    import av

    out = BytesIO()
    with av.open(BytesIO(data)) as whole, av.open(place or out, "w", format="mp4", options=muxer or {}) as trimmed:
        stream = trimmed.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.size:
                early = int(early_s / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts - early, packet.dts - early, stream
                trimmed.mux(packet)
    return out.getvalue()


def everything(data: bytes) -> list[np.ndarray[Any, Any]]:
    """All frames as PyAV gives them, by the usual conversion."""
    import av

    with av.open(BytesIO(data)) as container:
        return [np.asarray(frame.to_image()) for frame in container.decode(video=0)]


def pixels(images: Sequence[Image]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(open_image(image, MediaSettings())) for image in images]


def same(found: Sequence[Any], truth: Sequence[Any]) -> bool:
    return len(found) == len(truth) and all(np.array_equal(a, b) for a, b in zip(found, truth, strict=True))


def picked(data: bytes, pick: Pick) -> list[Image]:
    return frames(Video(blob=BytesBlob("c", data), pick=pick), MediaSettings(format="png"))


def listed(*numbers: int) -> Pick:
    return Pick(str(numbers), partial(_constant, numbers), len(numbers))


def _constant(numbers: tuple[int, ...], total: int) -> tuple[int, ...]:
    return numbers


FILMS = {
    "key frames at steps": partial(film),
    "one key frame": partial(film, gop=250),
    "B-frames that others refer to": partial(film, gop=30, options={"b-pyramid": "normal", "bf": "7", "b-adapt": "0"}),
    "no B-frames": partial(film, options={"bf": "0"}),
    "open groups": partial(film, options={"x264-params": "open-gop=1"}),
    "intra refresh": partial(film, options={"intra-refresh": "1"}),
    "four slices": partial(film, options={"slices": "4"}),
    "interlaced": partial(film, options={"flags": "+ildct+ilme", "x264-params": "interlaced=1"}),
    "fields in MP4": partial(broadcast, "mp4"),
    "fields in Matroska": partial(broadcast, "matroska"),
    "variable frame rate": partial(film, at=lambda number: number * 40 + number * number * 7 % 31 + (number > 50) * 2000),
    "parameter sets in the stream": partial(film, options={"x264-params": "repeat-headers=1"}),
    "matroska, no frame count": partial(film, kind="matroska"),
    "fragments, no frame count": partial(film, muxer={"movflags": "frag_keyframe+empty_moov"}),
    "negative start": partial(film, at=lambda number: number * 100 - 900, kind="mp4"),
    "edit list": lambda: edited(film(), Fraction(17, 10)),
    "transport stream": partial(film, kind="mpegts"),
    "AVI": partial(film, kind="avi"),
    "MPEG-4": partial(film, codec="mpeg4", options={"bf": "0"}),
    "MPEG-4, edit list": lambda: edited(film(codec="mpeg4", options={"bf": "0"}), Fraction(3, 2)),
    "one frame": partial(film, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FILMS)
def test_every_frame_asked_for_is_the_one_that_a_decode_of_everything_gives(name):
    data = FILMS[name]()
    truth = everything(data)
    for wanted in (1, 5, 8, 200):
        found = frames(Video(blob=BytesBlob("c", data)), MediaSettings(frames=wanted, format="png"))
        assert same(pixels(found), [truth[number] for number in frame_numbers(len(truth), wanted)]), wanted
    for number in {0, 1, len(truth) // 2, len(truth) - 1} & set(range(len(truth))):
        assert same(pixels(picked(data, listed(number))), [truth[number]]), number


@pytest.mark.parametrize("name", ["key frames at steps", "variable frame rate", "edit list", "matroska, no frame count", "negative start"])  # fmt: skip
def test_by_time_the_packets_tell_the_same_frames_as_the_decoded_ones(name, monkeypatch):
    data = FILMS[name]()
    assert scan(data, "c", LIMIT).index, "seeking is what is tried here"
    for fps in (0.3, 1.0, 2.5, 10.0, 40.0):
        chosen = MediaSettings(fps=fps)
        quick = [image.blob.key for image in frames(Video(blob=BytesBlob("c", data)), chosen)]
        with monkeypatch.context() as patched:
            patched.setattr(rules, "_by_index", lambda *_: [])
            slow = [image.blob.key for image in frames(Video(blob=BytesBlob("c", data)), chosen)]
        assert quick == slow


def fed(data: bytes, pick: Pick, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many frames come out of the decoder for what is picked."""
    from snellen.media import video_index

    counted, real = [], video_index._frames

    def counting(*given: Any) -> Any:
        for frame in real(*given):
            counted.append(frame.pts)
            yield frame

    monkeypatch.setattr(video_index, "_frames", counting)
    picked(data, pick)
    return len(counted)


def test_what_a_wanted_frame_is_not_made_from_is_not_decoded(monkeypatch):
    data = film(90, gop=30, options={"keyint_min": "30", "sc_threshold": "0"})
    assert fed(data, listed(60), monkeypatch) == 1, "a key frame stands for itself"
    assert fed(data, listed(0, 30, 60), monkeypatch) == 3
    assert 1 < fed(data, listed(89), monkeypatch) < 30, "from the last key frame on, without what nothing refers to"


def test_frames_that_are_asked_for_twice_are_decoded_and_encoded_once(monkeypatch):
    data = film(20)
    rendered, real = [], rules._rendered

    def counting(*given):
        rendered.append(given[-1])
        return real(*given)

    monkeypatch.setattr(rules, "_rendered", counting)
    repeated = Pick("uniform 32", formulas.uniform, 32)
    found = picked(data, repeated)
    numbers = formulas.uniform(20)
    assert len(found) == 32 > len(set(numbers))
    assert sorted(rendered) == sorted(set(numbers))
    truth = everything(data)
    assert same(pixels(found), [truth[number] for number in numbers])
    cache = MediaCache(MediaSettings())
    sent = [cache.get(image) for image in cache.frames(Video(blob=BytesBlob("c", data), pick=repeated))]
    assert len(sent) == 32 and cache.made == len(set(numbers))


@pytest.mark.parametrize(
    "rule",
    [formulas.lmms_eval, formulas.uniform, formulas.uniform_tail, partial(formulas.by_rate, video_fps=10, fps=1, tail=True)],
    ids=["lmms-eval", "uniform", "uniform_tail", "by_rate"],
)  # fmt: skip
@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
@pytest.mark.parametrize("count", [7, 33, 90])
def test_the_index_formulas_of_both_harnesses_get_the_frames_that_they_name(rule, codec, count):
    data = film(count, codec=codec, options={} if codec == "libx264" else {"bf": "0"})
    truth = everything(data)
    assert same(pixels(picked(data, Pick("rule", rule, 33))), [truth[number] for number in rule(count)])


def test_frames_come_in_the_order_in_which_they_are_named():
    data = film(40)
    truth = everything(data)
    assert same(pixels(picked(data, listed(39, 3, 39, 0))), [truth[number] for number in (39, 3, 39, 0)])


def test_a_drawn_clip_is_picked_from_by_the_same_rule():
    drawn = tuple(Image(BytesBlob(str(number), b"")) for number in range(5))
    video = Video(frames=drawn, pick=listed(4, 0, 4))
    assert [image.blob.key for image in frames(video, MediaSettings())] == ["4", "0", "4"]
    assert shown_at_most(video, MediaSettings()) == 3


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
@pytest.mark.parametrize("numbers", [(90,), (-1,), ()])
def test_a_pick_of_a_frame_that_there_is_not_is_an_error_that_names_both(numbers, codec):
    data = film(codec=codec, options={} if codec == "libx264" else {"bf": "0"})
    with pytest.raises(MediaError, match=r"video c: of its 90 frames, '\(.*\)' picks (number (90|-1)|none)"):
        picked(data, listed(*numbers))


@pytest.mark.parametrize("asked", [MediaSettings(fps=1.0), MediaSettings(frames=4)])
def test_questions_that_pick_their_frames_and_a_run_that_asks_for_others_exclude_each_other(asked):
    drawn = (Image(BytesBlob("0", b"")),)
    for video in (Video(blob=BytesBlob("c", film(3)), pick=listed(0)), Video(frames=drawn, pick=listed(0))):
        with pytest.raises(MediaError, match="--f"):
            frames(video, asked)


def test_a_damaged_tail_is_numbered_as_a_decode_of_everything_numbers_it(tmp_path):
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    place = tmp_path / "index_in_front.mp4"
    edited(film(), Fraction(0), place, {"movflags": "faststart"})
    whole = place.read_bytes()
    for kept in (0.95, 0.9, 0.7, 0.5):
        cut = whole[: int(len(whole) * kept)]
        damaged = cut + bytes(len(whole) - len(cut))
        with pytest.raises(MediaError, match="cut off"):
            frames(Video(blob=BytesBlob("c", cut)), MediaSettings())
        try:
            truth = everything(damaged)
        except av.FFmpegError:
            with pytest.raises(MediaError, match="damaged"):
                frames(Video(blob=BytesBlob("c", damaged)), MediaSettings())
            continue
        found = frames(Video(blob=BytesBlob("c", damaged)), MediaSettings(frames=8, format="png"))
        assert same(pixels(found), [truth[number] for number in frame_numbers(len(truth), 8)])


def test_a_matroska_film_without_a_length_that_ends_early_is_numbered_as_far_as_it_goes():
    whole = film(kind="matroska", muxer={"live": "1"})
    data = whole[: len(whole) * 3 // 4]
    truth = everything(data)
    assert 8 < len(truth) < 90
    found = frames(Video(blob=BytesBlob("c", data)), MediaSettings(frames=8, format="png"))
    assert same(pixels(found), [truth[number] for number in frame_numbers(len(truth), 8)])


@cache
def film_and_truth(name: str) -> tuple[bytes, list[np.ndarray[Any, Any]]]:
    data = FILMS[name]()
    return data, everything(data)


SOUGHT = (
    "B-frames that others refer to",
    "open groups",
    "edit list",
    "variable frame rate",
    "matroska, no frame count",
)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(SOUGHT), st.lists(st.integers(0, 72), min_size=1, max_size=12))
def test_any_frames_in_any_order_are_found_from_their_key_frames_and_none_comes_out_twice(name, numbers):
    data, truth = film_and_truth(name)
    assert same(pixels(picked(data, listed(*numbers))), [truth[number] for number in numbers])
    scanned = scan(data, "c", LIMIT)
    assert list(scanned.keys) == sorted(set(scanned.keys)) and list(scanned.index) == sorted(set(scanned.index))
    with opened(data, "c", LIMIT) as container:
        came = [number for number, _ in take(container, scanned, set(numbers))]
    assert sorted(came) == sorted(set(numbers))


@pytest.mark.parametrize("name", ["edit list", "open groups"])
def test_a_seek_that_ends_elsewhere_is_not_taken_for_the_frame_that_was_asked_for(name):
    data = FILMS[name]()
    scanned = scan(data, "c", LIMIT)
    beyond = structs.replace(scanned, places=[place + 10**6 for place in scanned.places])
    with opened(data, "c", LIMIT) as container, pytest.raises(Uncertain):
        list(take(container, beyond, {0}))
    other = structs.replace(scanned, index=[stamp + 1 for stamp in scanned.index])
    with opened(data, "c", LIMIT) as container, pytest.raises(Uncertain):
        list(take(container, other, {5}))


def test_h264_in_mp4_and_matroska_is_what_is_read_by_seeking():
    for name in ("key frames at steps", "B-frames that others refer to", "four slices", "matroska, no frame count",
                 "fragments, no frame count", "edit list", "variable frame rate"):  # fmt: skip
        assert scan(FILMS[name](), "c", LIMIT).index, name
    for name in ("transport stream", "AVI", "MPEG-4"):
        assert not scan(FILMS[name](), "c", LIMIT).index, name
    with opened(clip(3), "c", LIMIT) as container:
        assert container.streams.video[0].codec_context.name == "mpeg4"
