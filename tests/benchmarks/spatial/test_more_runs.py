"""The further benchmarks by the command, against a server that looks at each request: which images, in which order, which text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as pillow

from benchmarks.spatial import more_drawn as drawn
from benchmarks.spatial import more_parts
from media.clips import STEP
from snellen import evaluate
from snellen.runs.caveats import conditions
from snellen.runs.run import load_run


class Looking(ThreadingHTTPServer):
    """A chat endpoint that keeps the content of each request, and answers `A`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Looked)
        self.contents: list[list[dict[str, object]]] = []
        self.systems: set[str] = set()
        self.finish = "stop"
        self.pause = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Looked(BaseHTTPRequestHandler):
    server: Looking

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "seer", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "messages" not in body:  # the look at the endpoint before a run
            self.send_error(400)
            return
        content = body["messages"][-1]["content"]
        self.server.systems |= {message["content"] for message in body["messages"] if message["role"] == "system"}
        self.server.contents.append(content if isinstance(content, list) else [{"type": "text", "text": content}])
        time.sleep(self.server.pause)
        message = {"role": "assistant", "content": "A"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": self.server.finish}
        self._send({"id": "1", "object": "chat.completion", "model": "seer", "choices": [choice], "usage": usage})

    def _send(self, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def seer() -> Iterator[Looking]:
    server = Looking()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def command(name: str, data: Path, out: Path, server: Looking, *options: str) -> list[str]:
    words = ["run", name, "--data", str(data), "--out", str(out), "-m", "api:seer", "--base-url", server.url]
    words += ["--concurrency", "1", *(word for option in options for word in ("-o", option))]
    return [sys.executable, "-m", "snellen", *words]


def started(words: list[str]) -> subprocess.CompletedProcess[str]:
    key = {"OPENAI_API_KEY": "none"}
    return subprocess.run(words, env={**os.environ, **key}, capture_output=True, text=True, timeout=600, check=False)


def parts(content: list[dict[str, object]]) -> list[str | bytes]:
    """Texts, and the bytes of images."""
    sent: list[str | bytes] = []
    for part in content:
        if part["type"] == "text":
            sent.append(str(part["text"]))
        else:
            url = part["image_url"]
            assert isinstance(url, dict)
            sent.append(b64decode(str(url["url"]).partition(",")[2]))
    return sent


def frame_number(data: bytes) -> int:
    """Which frame of a drawn clip this is, by its brightness."""
    return round(float(np.asarray(pillow.open(BytesIO(data)).convert("L")).mean()) / STEP)


def check(sent: list[str | bytes], wanted: more_parts.Shown) -> None:
    left = list(sent)
    for part in wanted:
        if isinstance(part, more_parts.Frames):
            numbers = [frame_number(data) for data in left[: len(part.numbers)] if isinstance(data, bytes)]
            assert tuple(numbers) == part.numbers
            del left[: len(part.numbers)]
        elif isinstance(part, more_parts.Holds):
            text = left.pop(0)
            assert isinstance(text, str) and text
            for piece in part.pieces:
                assert piece in text
                text = text.partition(piece)[2]
        else:
            assert left.pop(0) == part
    assert not left


@pytest.mark.parametrize("name", drawn.DRAWN)
@pytest.mark.parametrize("kit", [False, True], ids=["official", "table"])
def test_a_run_sends_the_images_and_texts_of_its_questions_in_order(
    name: str, kit: bool, tmp_path: Path, seer: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEER_KEY", "none")
    made = drawn.draw(name, tmp_path / "data", kit=kit)
    options = dict(option.split("=") for option in made.options)
    out = tmp_path / "run"
    where = {"data": made.path, "out": out, "base_url": seer.url, "key_env": "SEER_KEY"}
    run = evaluate(name, "api:seer", **where, benchmark_options=options, concurrency=1)
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {record["sample_id"] for record in records} == set(made.shown)
    assert len(seer.contents) == len(records) == len(made.shown)
    for record, content in zip(records, seer.contents, strict=True):
        check(parts(content), made.shown[record["sample_id"]])
    assert "overall" in {metric.name for metric in run.figures("easi")["easi"]}
    assert run.meta.state == "complete"


@pytest.mark.parametrize("name", ["erqa", "osi-bench"])
def test_a_run_that_was_killed_asks_only_what_is_left(name: str, tmp_path: Path, seer: Looking) -> None:
    made = drawn.draw(name, tmp_path / "data", kit=False)
    words = command(name, made.path, tmp_path / "run", seer, *made.options)
    seer.pause = 1.0
    first = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OPENAI_API_KEY": "none"}
    )
    results = tmp_path / "run" / "results.jsonl"
    until = time.monotonic() + 600
    while not (results.exists() and results.read_bytes().count(b"\n")):
        assert time.monotonic() < until and first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = results.read_bytes().count(b"\n")
    seer.pause = 0.0
    seer.contents.clear()
    done = started(words)
    assert done.returncode == 0, done.stderr[-3000:]
    records = [json.loads(line) for line in results.read_text().splitlines()]
    assert 0 < before < len(records) == len(made.shown) == len({record["sample_id"] for record in records})
    assert len(seer.contents) == len(records) - before
    for record, content in zip(records[before:], seer.contents, strict=True):
        check(parts(content), made.shown[record["sample_id"]])


def sizes(server: Looking) -> set[tuple[int, int]]:
    sent = [part for content in server.contents for part in parts(content) if isinstance(part, bytes)]
    return {pillow.open(BytesIO(data)).size for data in sent}


def test_pictures_are_sent_with_the_least_pixels_or_the_size_that_was_asked_for(tmp_path: Path, seer: Looking) -> None:
    made = drawn.draw("stare", tmp_path / "data", kit=False)
    for option, value, size in (("--min-pixels", "7000", (84, 84)), ("--resize", "40x20", (40, 20))):
        seer.contents.clear()
        out = tmp_path / option
        done = started([*command("stare", made.path, out, seer, *made.options), option, value])
        assert done.returncode == 0, done.stderr[-3000:]
        assert sizes(seer) == {size}
        meta = json.loads((out / "run_meta.json").read_text())
        name = option.removeprefix("--").replace("-", "_")
        assert str(meta["identity"]["media"][name]) == str(meta["environment"]["media"]["settings"][name]) == value
    refused = started([*command("stare", made.path, tmp_path / "--resize", seer, *made.options), "--resize", "40x21"])
    assert refused.returncode and "40x20  ->  40x21" in refused.stderr


def test_the_papers_protocol_asks_with_one_system_text_and_counts_chains_that_were_cut_off_as_wrong(
    tmp_path: Path, seer: Looking
) -> None:
    made = drawn.draw("mindcube-full", tmp_path / "data", kit=True)
    words = command("mindcube-full", made.path, tmp_path / "run", seer, "protocol=easi-paper")
    refused = started(words)
    assert refused.returncode and "protocol=easi-paper asks every set with one system text" in refused.stderr
    seer.finish = "length"
    done = started([*words, "--system", "Reason first."])
    assert done.returncode == 0, done.stderr[-3000:]
    assert seer.systems == {"Reason first."}
    run = load_run(tmp_path / "run")
    metrics = {metric.name: metric.value for metric in run.figures("easi")["easi"]}
    assert (metrics["overall"], metrics["invalid"]) == (0.0, 1.0)
    assert "protocol = easi-paper" in conditions(run.meta, run.benchmark)
    shown = started([sys.executable, "-m", "snellen", "score", str(tmp_path / "run")])
    for headline in (done.stdout, shown.stdout):
        assert "mindcube-full" in headline and "protocol=easi-paper" in headline
    plain = command("mindcube-full", made.path, tmp_path / "plain", seer)
    assert started(plain).returncode == 0  # the first of three is A
    assert load_run(tmp_path / "plain").figures("easi")["easi"][0].value == pytest.approx(1 / 3)


def test_easi_asks_its_sets_by_the_papers_protocol(tmp_path: Path, seer: Looking) -> None:
    drawn.draw("mindcube-full", tmp_path / "data", kit=True).path.rename(tmp_path / "mindcube-full")
    words = [sys.executable, "-m", "snellen", "easi", "-m", "api:seer", "--base-url", seer.url, "--no-rich"]
    words += ["--benchmarks", "mindcube_full", "--dataset-dir", str(tmp_path), "--output-dir", str(tmp_path / "out")]
    words += ["-o", "protocol=easi-paper"]
    refused = started(words)
    assert refused.returncode and "asks every set with one system text" in refused.stderr and not seer.contents
    done = started([*words, "--system", "Reason first."])
    assert done.returncode == 0 and seer.systems == {"Reason first."}, done.stderr[-3000:]
    assert "protocol=easi-paper" in done.stdout
    assert load_run(tmp_path / "out" / "seer" / "mindcube-full").meta.identity["system"] == "Reason first."
