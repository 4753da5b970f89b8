"""A video as its file: untouched, named by its container, whole and not too large; and settings of media that exclude each other."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from clips import Counted, clip
from hypothesis import given
from hypothesis import strategies as st

import snellen
from snellen.benchmarks.base import Benchmark, Data
from snellen.cli.options import MediaOptions
from snellen.engine.fingerprint import digest
from snellen.errors import DataError, MediaError, UsageError
from snellen.media import MediaCache, check_settings, video_file
from snellen.media.video_file import container, encode_video
from snellen.models.api import ApiModel
from snellen.models.base import ModelOptions
from snellen.models.embedded import open_model as open_embedded
from snellen.models.local.model import open_model as open_local
from snellen.scoring.statistics import mean
from snellen.sources import BytesBlob, FileBlob
from snellen.types import Blob, Image, MediaSettings, Prompt, Sample, Score, Text, Video

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


def asked(frames: int | None = None, fps: float | None = None, video: str = "frames", **others: object):
    return MediaOptions(frames=frames, fps=fps, video=video, **others).settings()


def test_settings_that_nobody_set_leave_no_trace_in_a_fingerprint():
    assert msgspec.to_builtins(MediaSettings()) == {}
    assert msgspec.to_builtins(MediaSettings(frames=4, blank=True)) == {"frames": 4, "blank": True}
    assert digest({"media": MediaSettings(frames=4)}) == digest({"media": {"frames": 4}})


def test_a_rate_and_the_file_itself_are_other_experiments():
    digests = {digest({"media": s}) for s in (MediaSettings(), MediaSettings(fps=1.0), MediaSettings(video="native"))}
    assert len(digests) == 3


def test_settings_of_runs_made_before_are_still_read():
    old = b'{"max_long_side":100,"frames":4}'
    assert msgspec.json.decode(old, type=MediaSettings) == MediaSettings(max_long_side=100, frames=4)


def test_a_number_of_frames_and_a_rate_exclude_each_other():
    for frames in (4, 8):
        with pytest.raises(UsageError, match=f"--frames {frames} and --fps 1 exclude"):
            asked(frames=frames, fps=1.0)
    with pytest.raises(UsageError, match="--frames 4 and --fps 2 exclude"):
        check_settings(MediaSettings(frames=4, fps=2.0))


def test_what_is_given_alone_is_kept():
    assert asked() == MediaSettings()
    assert asked(frames=3) == MediaSettings(frames=3)
    assert asked(fps=0.5) == MediaSettings(fps=0.5)
    assert asked(video="native") == MediaSettings(video="native")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(UsageError, match="above 0"):
        asked(fps=rate)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        (MediaSettings(video="native", blank=True), "--blank-images"),
        (MediaSettings(video="native", max_long_side=100), "--max-long-side"),
        (MediaSettings(video="native", max_pixels=100), "--max-pixels"),
        (MediaSettings(video="native", format="png"), "--image-format"),
        (MediaSettings(video="native", frames=4), "--frames"),
    ],
)
def test_a_file_that_is_sent_as_it_is_cannot_be_changed_as_well(settings, flag):
    for refuse in (
        lambda: check_settings(settings),
        lambda: MediaCache(settings),
        lambda: ApiModel("m", ModelOptions(media=settings)),
    ):
        with pytest.raises(UsageError, match=flag):
            refuse()


def test_frames_said_aloud_beside_native_are_refused_even_when_they_are_the_default():
    with pytest.raises(UsageError, match="--frames 8"):
        asked(frames=8, video="native")


def test_models_that_are_handed_pixels_refuse_files_and_say_what_to_do():
    pytest.importorskip("torch", reason="torch (extra local) is not installed")
    options = ModelOptions(media=MediaSettings(video="native"))
    open_local("somewhere", options)  # its processor has a video path; a checkpoint without one refuses each clip
    with pytest.raises(UsageError, match="--video frames"):
        open_embedded("", options)


SETTINGS = [MediaSettings(frames=4), MediaSettings(fps=1.0), MediaSettings(video="native")]


def about(blobs: dict[str, Blob]) -> Benchmark:
    """One question a name, on the video that goes by it; A is right."""

    def samples(data: Data) -> Iterator[Sample]:
        for name, blob in blobs.items():
            yield Sample(name, Prompt((Video(blob=blob), Text(f"Question {name}: A or B?"))), "A", "choice")

    return Benchmark(
        name="films",
        version="1",
        samples=samples,
        score={
            "strict": lambda sample, reply: Score(float("A" in reply), reply, "correct" if "A" in reply else "wrong")
        },
        summarize=lambda scores, profile: [mean("accuracy", scores)],
        profiles={"strict": "the reply has an A"},
        size=lambda data: len(blobs),
        digest=lambda data: "",  # what is counted here are the run's own reads
    )


@pytest.mark.parametrize("media", SETTINGS, ids=["frames", "fps", "native"])
def test_a_broken_video_is_an_error_of_its_own_question_and_the_run_goes_on(stub, tmp_path, media):
    whole = clip(30, size=(160, 120))
    files = {"first": whole, "empty": b"", "cut": whole[: len(whole) // 2], "text": b"no video\n" * 100, "last": whole}
    for name, data in files.items():
        (tmp_path / f"{name}.mp4").write_bytes(data)
    films = about({name: FileBlob(tmp_path / f"{name}.mp4") for name in files})
    run = snellen.evaluate(films, "api:stub-vlm", out=tmp_path / "run", media=media, base_url=stub.url)
    records = {record.sample_id: record for record in run.folder.records()}
    assert {name: record.status for name, record in records.items()} == {
        "first": "ok", "empty": "error", "cut": "error", "text": "error", "last": "ok",
    }  # fmt: skip
    for name in ("empty", "cut", "text"):
        failure = records[name].error
        assert failure is not None and failure.kind == "input"
        assert f"{name}.mp4" in failure.message
        assert records[name].attempts == 1, "reading it again gives the same"
    assert stub.stats()["served"] == 2
    metric = run.metric("accuracy")
    assert (metric.n, metric.value) == (5, pytest.approx(0.4))


@pytest.mark.parametrize("media", SETTINGS, ids=["frames", "fps", "native"])
def test_a_video_that_many_questions_are_about_is_opened_once_in_a_run(stub, tmp_path, media, monkeypatch):
    import av

    opened, real = [], av.open

    def counting(*given, **options):
        if options.get("mode") == "r":
            opened.append(given)
        return real(*given, **options)

    film = Counted(clip())
    monkeypatch.setattr(av, "open", counting)
    films = about({f"q{number}": film for number in range(100)})
    run = snellen.evaluate(films, "api:stub-vlm", out=tmp_path, media=media, base_url=stub.url, concurrency=20)
    assert [record.status for record in run.folder.records()] == ["ok"] * 100
    assert film.reads == 1
    # Once through the packets, once through the frames; a file that is sent as it is meets no decoder.
    assert len(opened) == (0 if media.video == "native" else 2)


def test_a_local_model_opens_a_video_once_too_and_names_a_broken_one(tmp_path):
    pytest.importorskip("torch", reason="torch (extra local) is not installed")
    pytest.importorskip("transformers", reason="transformers (extra local) is not installed")
    film = Counted(clip())
    broken = Counted(b"", "clips/empty.mp4")
    films = about({**{f"q{number}": film for number in range(12)}, "broken": broken})
    run = snellen.evaluate(films, "embedded", out=tmp_path, media=MediaSettings(fps=1.0), device="cpu")
    records = {record.sample_id: record for record in run.folder.records()}
    failure = records.pop("broken").error
    assert failure is not None and failure.kind == "input" and "clips/empty.mp4" in failure.message
    assert {record.status for record in records.values()} == {"ok"} and film.reads == 1
    traces = b"".join(path.read_bytes() for path in (tmp_path / "traces").rglob("*") if path.is_file())
    assert traces, "the rendered prompts are kept"


def test_a_run_that_goes_on_at_another_rate_is_refused(stub, tmp_path):
    films = about({"q": Counted(clip())})
    snellen.evaluate(films, "api:stub-vlm", out=tmp_path, media=MediaSettings(fps=1.0), base_url=stub.url)
    with pytest.raises(snellen.errors.FingerprintError, match=r"media\.fps +1\.0  ->  2\.0"):
        snellen.evaluate(films, "api:stub-vlm", out=tmp_path, media=MediaSettings(fps=2.0), base_url=stub.url)
    identity = msgspec.json.decode((tmp_path / "run_meta.json").read_bytes())["identity"]
    assert identity["media"] == {"fps": 1.0}
