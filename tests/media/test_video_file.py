"""A video as its file: untouched, named by its container, whole, and not too large."""

import asyncio
import hashlib
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from clips import Counted, clip
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError, MediaError
from snellen.media import MediaCache, video_file
from snellen.media.video_file import container, encode_video
from snellen.sources import BytesBlob, FileBlob
from snellen.types import Image, MediaSettings, Video

NATIVE = MediaSettings(video="native")
KINDS = [
    ("mp4", "mpeg4", "video/mp4"),
    ("mov", "mpeg4", "video/quicktime"),
    ("avi", "mpeg4", "video/x-msvideo"),
    ("webm", "libvpx", "video/webm"),
    ("matroska", "mpeg4", "video/x-matroska"),
]


@pytest.mark.parametrize(("kind", "codec", "mime"), KINDS)
def test_the_bytes_go_out_untouched_under_the_name_of_their_container(kind, codec, mime):
    data = clip(10, kind=kind, codec=codec)
    sent = encode_video(Video(blob=BytesBlob("c", data)))
    assert sent.data_uri == f"data:{mime};base64,".encode() + b64encode(data)
    assert (sent.mime, sent.data, sent.digest) == (mime, data, hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(("kind", "codec", "mime"), KINDS)
def test_a_file_that_was_cut_off_is_an_error_wherever_it_was_cut(kind, codec, mime):
    data = clip(10, kind=kind, codec=codec)
    for length in (20, 100, len(data) // 2, len(data) - 20):
        with pytest.raises(MediaError, match=r"clips/1"):
            container(data[:length], "clips/1")


def test_a_fragmented_and_a_streamed_file_are_whole_too():
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    from io import BytesIO

    out = BytesIO()
    options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    with av.open(BytesIO(clip(10))) as source, av.open(out, "w", format="mp4", options=options) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    assert b"moof" in out.getvalue()
    assert container(out.getvalue(), "c") == "video/mp4"


def test_bytes_after_a_whole_film_do_not_make_it_broken():
    assert container(clip(5) + b"\0\0\xff\xffTAIL" * 4, "c") == "video/mp4"


@pytest.mark.parametrize("data", [b"", b"no video " * 50, b"\x89PNG\r\n\x1a\n" + b"\0" * 50, b"#EXTM3U\nfile:///etc/x"])
def test_an_empty_file_and_one_of_another_kind_are_errors_that_name_it(data):
    with pytest.raises(MediaError, match=r"clips/1\.mp4"):
        container(data, "clips/1.mp4")


@given(st.binary(max_size=64), st.sampled_from([b"", b"\0\0\0\x14ftypisom", b"RIFF\0\0\0\0AVI ", b"\x1a\x45\xdf\xa3"]))
def test_any_bytes_are_a_container_or_a_media_error(tail, head):
    with suppress(MediaError):
        assert container(head + tail, "c").startswith("video/")


def test_a_drawn_clip_has_no_file_to_send():
    drawn = Video(frames=(Image(BytesBlob("1", b"")),))
    with pytest.raises(MediaError, match="--video frames"):
        asyncio.run(MediaCache(NATIVE).fetch_video(drawn))


def test_a_file_over_the_limit_is_refused_without_being_read_to_its_end(tmp_path, monkeypatch):
    assert video_file.FILE_LIMIT == 100_000_000
    monkeypatch.setattr(video_file, "FILE_LIMIT", 10_000)
    path = tmp_path / "long.mp4"
    with path.open("wb") as out:
        out.write(clip(2))
        out.truncate(1 << 40)  # a terabyte of nothing: reading it whole would not end
    for blob in (FileBlob(path), Counted(clip(2) + b"\0" * 10_000, "long.mp4")):
        with pytest.raises(MediaError, match=r"long\.mp4: more than 10,000 bytes.*\n?.*--video frames"):
            encode_video(Video(blob=blob))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.mp4"):
        encode_video(Video(blob=FileBlob(Path(tmp_path / "gone.mp4"))))


def test_sixteen_questions_at_once_on_one_video_read_it_once():
    blob, cache = Counted(clip()), MediaCache(NATIVE)

    async def ask():
        return await asyncio.gather(*(cache.fetch_video(Video(blob=blob)) for _ in range(16)))

    sent = asyncio.run(ask())
    assert blob.reads == 1 and all(one is sent[0] for one in sent)
    assert asyncio.run(cache.fetch_video(Video(blob=blob))) is sent[0]
    assert len(sent[0].data_uri) < cache.held_bytes < len(sent[0].data_uri) + 2000


def test_videos_keep_within_the_budget_of_the_pictures():
    blob = Counted(clip())
    cache = MediaCache(NATIVE, budget_bytes=1000)
    for _ in range(2):
        asyncio.run(cache.fetch_video(Video(blob=blob)))
    assert blob.reads == 2 and cache.held_bytes == 0


def test_sending_a_file_needs_no_decoder():
    script = """if True:
        import asyncio, sys
        from snellen.media import MediaCache
        from snellen.sources import BytesBlob
        from snellen.types import MediaSettings, Video
        video = Video(blob=BytesBlob("a", sys.stdin.buffer.read()))
        asyncio.run(MediaCache(MediaSettings(video="native")).fetch_video(video))
        print([name for name in ("PIL", "numpy", "simplejpeg", "av", "torch") if name in sys.modules])
    """
    run = subprocess.run([sys.executable, "-c", script], input=clip(), capture_output=True, timeout=600, check=True)
    assert run.stdout.strip() == b"[]"
