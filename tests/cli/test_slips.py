"""Slips of a clumsy user end with one clear error, and before the first request."""

from __future__ import annotations

import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from snellen.cli import main

pytestmark = pytest.mark.installed

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
    name="late-clip", version="1", samples=samples, score={"strict": lambda sample, reply: Score(1.0, reply, "correct")},
    summarize=lambda scores, profile: [], profiles={"strict": "all is right"},
)
"""


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        (["--skip", "evidence"], "the leakage audit has nothing to search in"),
        (["--skip", "leaks"], "the evidence check has nowhere to fetch from"),
        (["--skip", "leaks", "--pages", "nowhere"], "nowhere"),
        (["--skip", "leaks", "--pages", "saved", "--version", "1/0"], "--version '1/0'"),
        (["--skip", "leaks", "--pages", "saved", "--evidence-judge", "api:x", "--rubric", "no.toml"], "rubric no.toml"),
        (["--skip", "leaks", "--pages", "saved", "--evidence-judge", "agent:openclaw"], "is no judge"),
        (["--skip", "evidence", "--collection", "saved", "--drop", "nonsense"], "nonsense"),
        (["--skip", "evidence", "--collection", "saved", "--encoder", "nonsense:x"], "nonsense"),
        (["--skip", "leaks,evidence", "-m", "apii:x"], "no model kind 'apii'"),
        (["--skip", "leaks,evidence", "--correct", "judge", "--judge", "api:x", "--judge-base-url", "foo"], "'foo'"),
    ],
)
def test_options_of_later_stages_of_a_curation_are_checked_before_the_first_asks(folder, stub, capsys, more, answer):
    (folder / "saved").mkdir()
    (folder / "saved" / "pages.jsonl").write_text("")
    (folder / "images").mkdir()
    (folder / "images" / "a.png").write_bytes(PIXEL)
    Path("candidates.jsonl").write_text(
        json.dumps({"id": "a", "image": "a.png", "question": "What is it?", "answer": "Zyx", "links": []})
    )
    curate = ["build", "curate", "candidates.jsonl", "--images", "images", "--out", "work", "-q"]
    assert main([*curate, "-m", "api:stub-vlm", "--base-url", stub.url, *more]) != 0
    assert answer in told(capsys)
    assert stub.stats()["served"] == 0


@pytest.mark.parametrize("name", ["x.xlsx", "x.csv", "x.parquet", "taken", "run/results.jsonl", "run/run_meta.json"])
def test_rows_of_samples_are_written_neither_under_another_forms_name_nor_over_a_run(folder, capsys, name):
    made(folder)
    before = (folder / "run" / "results.jsonl").read_bytes(), (folder / "run" / "run_meta.json").read_bytes()
    assert main(["score", "run", "--per-sample", name]) == 2
    assert f"--per-sample {name}" in told(capsys)
    assert ((folder / "run" / "results.jsonl").read_bytes(), (folder / "run" / "run_meta.json").read_bytes()) == before
    assert not (folder / "x.xlsx").exists()


@pytest.mark.parametrize("name", ["x.pdf", "x.json", "taken", "new/", "run/results.jsonl", "run/traces/00000.jsonl"])
def test_a_report_is_written_neither_under_another_forms_name_nor_over_a_run(folder, capsys, name):
    made(folder)
    before = (folder / "run" / "results.jsonl").read_bytes()
    assert main(["report", "run", "--out", name]) == 2
    assert f"--out {name}" in told(capsys)
    assert (folder / "run" / "results.jsonl").read_bytes() == before


def test_an_input_is_never_written_over(folder, capsys):
    for line in (["score", "in.jsonl", "--benchmark", "chart", "--per-sample"], ["extract", "in.jsonl", "--out"]):
        Path("in.jsonl").write_text('{"id": "a", "reply": "A"}\n')
        for name in ("in.jsonl", str(folder / "in.jsonl")):
            assert main([*line, name]) == 2
            assert "is also the input" in told(capsys)
            assert Path("in.jsonl").read_text() == '{"id": "a", "reply": "A"}\n'


def made(folder):
    """A finished run in run/ and a folder taken/."""
    answers = folder / "answers.jsonl"
    answers.write_text('{"id": 0, "reply": "The digit is 5."}\n')
    assert (
        main(["run", "chart/digits", "-m", f"replay:{answers}", "--id-is", "position", "--limit", "1", "--out", "run"])
        == 0
    )
    (folder / "taken").mkdir()


def test_a_temperature_out_of_range_is_refused_or_warned_of_before_the_first_request(folder, stub, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any-word")
    for url, value, most in (
        ("https://api.openai.com/v1", "3", "2"),
        ("https://api.anthropic.com/v1", "1.5", "1"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "2.1", "2"),
    ):
        assert main(["run", "chart", "-m", "api:x", "--base-url", url, "--temperature", value, "-q"]) == 2
        assert f"accepts 0 to {most}" in told(capsys)
    run = ["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "1", "-q"]
    assert main([*run, "--temperature", "3"]) == 0
    assert "warning: --temperature 3 is above 2" in told(capsys)
    assert main([*run, "--temperature", "2", "--out", "two"]) == 0
    assert "warning" not in told(capsys)


class Web(BaseHTTPRequestHandler):
    """Answers all that is HTTP as nginx answers plain HTTP on its port of TLS."""

    def do_GET(self) -> None:
        body = b"<html>400 The plain HTTP request was sent to HTTPS port</html>"
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize(("asked", "better"), [("https", "http"), ("http", "https")])
def test_https_and_http_on_the_others_port_are_answered_with_the_address_to_write(folder, capsys, asked, better):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"://127.0.0.1:{server.server_port}/v1"
        assert main(["run", "chart", "-m", "api:x", "--base-url", asked + url, "-q"]) == 4
        assert f"Write --base-url {better}{url}" in told(capsys)
    finally:
        server.shutdown()
        server.server_close()


RUBRIC = 'system = "s"\ntemplate = """\n{question} {gold} {reply}\n"""\n'


@pytest.mark.parametrize(
    ("name", "content", "answer"),
    [
        ("mine.toml", b'system = "s"\ntemplate = [', "rubric mine.toml: "),
        ("mine.toml", (RUBRIC + "max_tokens = 'many'\n").encode(), "rubric mine.toml, line 5: "),
        ("mine.toml", (RUBRIC + "nonsense = 1\n").encode(), "rubric mine.toml, line 5: "),
        ("mine.toml", b"\xff\xfe", "rubric mine.toml: cannot be read"),
        ("mine.txt", RUBRIC.encode(), "rubric mine.txt is a file that does not end in .toml"),
        ("taken", None, "rubric taken is a folder"),
    ],
)
def test_a_broken_rubric_is_named_with_its_line_before_any_request(folder, stub, capsys, name, content, answer):
    made(folder)
    if content is not None:
        Path(name).write_bytes(content)
    assert main(["judge", "run", "-m", "api:stub-vlm", "--base-url", stub.url, "--rubric", name]) == 4
    assert answer in told(capsys)
    assert stub.stats()["served"] == 0


@pytest.mark.parametrize("option", ["--prices", "--tools", "--extra-body"])
@pytest.mark.parametrize("name", ["taken", "prices.tml", "nowhere/prices.toml"])
def test_a_file_of_settings_that_is_none_is_answered_with_what_to_do(folder, stub, capsys, option, name):
    (folder / "taken").mkdir()
    (folder / "prices.toml").write_text("[x]\ninput = 1\noutput = 1\n")
    model = "tools:stub-vlm" if option == "--tools" else "api:stub-vlm"
    value = f"@{name}" if option == "--extra-body" else name
    assert main(["run", "chart", "-m", model, "--base-url", stub.url, option, value, "-q"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) > 1 and err[1].startswith("  "), err  # a second line says what to do
    assert stub.stats()["served"] == 0


def test_a_run_without_any_reply_is_not_judged_and_is_no_whole_run(folder, capsys):
    made(folder)
    Path("none.jsonl").write_text('{"id": 1, "reply": "The digit is 5."}\n{"id": 0, "reply": null}\n')
    line = ["run", "chart/digits", "-m", "replay:none.jsonl", "--id-is", "position", "--limit", "1", "--out", "lost"]
    assert main(line) != 0
    capsys.readouterr()
    assert main(["judge", "lost", "-m", "embedded"]) == 4
    said = told(capsys)
    assert "lost holds no reply to judge: none of 1 samples was answered" in said and "snellen rerun lost" in said
    assert not (folder / "lost_judged").exists()
    assert main(["query", "SELECT state, coverage, value FROM runs", "lost", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [["failed", 0.0, None]]
    (folder / "run" / "results.jsonl").unlink()
    assert main(["judge", "run", "-m", "embedded"]) == 5
    assert "run holds no answers" in told(capsys)


def test_verdicts_are_not_written_into_the_run_that_is_judged(folder, capsys):
    made(folder)
    assert main(["judge", "run", "-m", "embedded", "--out", "./run"]) == 2
    assert "Omit --out to write them to run_judged" in told(capsys)


@pytest.mark.parametrize(
    ("name", "content", "answer"),
    [
        ("a.csv", "id,reply\ndigit-0435-short,0\n".encode("utf-16"), "the text is UTF-16; UTF-8 was expected"),
        ("a.jsonl", '{"id": "digit-0435-short", "reply": "0"}\n'.encode("utf-16"), "the text is UTF-16"),
        ("a.jsonl", b'{"id": "digit-0435-short", "reply": {"text": "0"}}\n', "line 1: the reply is an object"),
        ("a.jsonl", b'[1, 2]\n"x"\n', "no row is readable: line 1: not a JSON object"),
    ],
)
def test_a_file_without_a_reply_that_can_be_used_is_refused_with_the_reason(folder, capsys, name, content, answer):
    Path(name).write_bytes(content)
    assert main(["score", name, "--benchmark", "chart/digits"]) == 3
    assert answer in told(capsys)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("./mine.py:BENCH", "PYTHONPATH=. snellen ..., with mine:BENCH"),
        ("sets/mine.py:BENCH", "PYTHONPATH=sets snellen ..., with mine:BENCH"),
        (".mine:BENCH", "mine:BENCH"),
        ("..mine:", "package.module:ATTRIBUTE"),
    ],
)
def test_a_benchmark_by_the_path_of_its_file_is_answered_with_what_to_type(folder, capsys, name, better):
    assert main(["run", name, "-m", "embedded"]) == 2
    answer = told(capsys)
    assert "is a path; the name of a module was expected" in answer and better in answer
