"""Slips of a clumsy user end with one clear error, and before the first request."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from snellen.cli import main

PLUGIN = """
from pathlib import Path
from snellen.benchmarks.base import Benchmark
from snellen.sources.blobs import FileBlob
from snellen.types import Metric, Prompt, Sample, Score, Text, Video

def samples(data):
    for number in range(40):
        clip = (Video(FileBlob(Path("clip.mp4"))),) if number == 39 else ()
        yield Sample(f"q{number}", Prompt((*clip, Text("Yes or no?"))), "yes", "open")

CLIPS = Benchmark(
    name="late-clip", version="1", samples=samples, score={"strict": lambda sample, reply: Score(1.0)},
    summarize=lambda scores, profile: [], profiles={"strict": "all is right"},
)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder without a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("JUDGE_API_KEY", "any-word")
    return tmp_path


def told(capsys) -> str:
    """What stands on stderr, in one line and without frames."""
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_missing_reader_of_videos_is_named_before_the_first_request(folder, stub, capsys, monkeypatch):
    Path("late_clip.py").write_text(PLUGIN)
    Path("clip.mp4").write_bytes(b"no real clip")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, "av", None)
    run = ["run", "late_clip:CLIPS", "-m", "api:stub-vlm", "--base-url", stub.url, "-q"]
    assert main(run) == 3
    assert "clip.mp4 needs PyAV, which is not installed" in told(capsys)
    assert stub.stats()["served"] == 0 and not list(folder.rglob("run_meta.json"))
    assert main(["run", "chart/digits", *run[1:]]) == 3  # nor is another benchmark asked first
    assert stub.stats()["served"] == 0
    assert main([*run, "--limit", "39"]) == 0  # samples without a clip need no reader


@pytest.mark.parametrize(
    ("more", "status", "answer"),
    [
        (["chart", "--data", "nofile"], 2, "--data nofile has no effect: chart draws its own samples"),
        (["chart", "chart/digits", "--images", "."], 2, "--images . has no effect: chart, chart/digits"),
        (["late_clip:CLIPS", "--data", "nofile"], 3, "--data nofile: there is no such file or folder"),
    ],
)
def test_data_that_no_benchmark_reads_is_refused_before_the_first_request(
    folder, stub, capsys, monkeypatch, more, status, answer
):
    Path("late_clip.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(folder))
    assert main(["run", *more, "-m", "api:stub-vlm", "--base-url", stub.url, "-q"]) == status
    assert answer in told(capsys)
    assert stub.stats()["served"] == 0 and not (folder / "results").exists()
