"""Whole runs over video files, some of them broken: each file is opened once, and a broken one costs its own question."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from clips import Counted, clip

import snellen
from snellen.benchmarks.base import Benchmark, Data
from snellen.scoring.statistics import mean
from snellen.sources import FileBlob
from snellen.types import Blob, MediaSettings, Prompt, Sample, Score, Text, Video

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
    films = about({f"q{number}": film for number in range(40)})
    run = snellen.evaluate(films, "api:stub-vlm", out=tmp_path, media=media, base_url=stub.url, concurrency=20)
    assert [record.status for record in run.folder.records()] == ["ok"] * 40
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
