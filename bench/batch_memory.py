"""Measure the memory of a run by batches whose questions have images.

    python bench/batch_memory.py 2000 200000          # questions, bytes of each image

A server on loopback takes files, notes the ids of their rows, and answers all of them. It is another process than the run, whose peak
memory (ru_maxrss) is printed as one JSON object, with the bytes that were uploaded and the batches that they came in.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

from PIL import Image as Pillow

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "engine")]

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.scoring.statistics import mean
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Sample, Score, Text

KEY = "sk-batch-memory-0123456789"
ROW = re.compile(rb'\{"custom_id":"([A-Za-z0-9_-]{1,64})"')
BODY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}]}


class UploadServer(ThreadingHTTPServer):
    """Takes uploads without keeping them: `rows` are the ids in each file, `size` the bytes of all."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), UploadHandler)
        self.rows: list[list[str]] = []
        self.size = 0


class UploadHandler(BaseHTTPRequestHandler):
    """Answers the calls of OpenAI's batches."""

    protocol_version = "HTTP/1.1"
    server: UploadServer

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send({"data": [{"id": "m"}]})
        elif self.path.endswith("/content"):
            number = int(self.path.split("/")[3].removeprefix("out"))
            lines = [
                {"custom_id": row, "response": {"status_code": 200, "body": BODY}} for row in self.server.rows[number]
            ]
            self._send("\n".join(map(json.dumps, lines)).encode())
        else:
            number = int(self.path.rpartition("/")[2].removeprefix("batch"))
            self._send({"id": f"batch{number}", "status": "completed", "output_file_id": f"out{number}"})

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        if self.path == "/v1/files":
            rows, rest = [], b""
            self.server.size += left
            while left:
                chunk = self.rfile.read(min(left, 1 << 20))
                left -= len(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                rows += [match[1].decode() for line in lines if (match := ROW.match(line))]
            self.server.rows.append(rows)
            self._send({"id": f"in{len(self.server.rows) - 1}"})
            return
        body = json.loads(self.rfile.read(left))
        number = body.get("input_file_id", "in0").removeprefix("in")
        self._send({"id": f"batch{number}", "status": "validating"})

    def _send(self, reply: object) -> None:
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def picture(number: int, size: int) -> bytes:
    """Return a PNG of about `size` bytes that no other number has."""
    out = BytesIO()
    Pillow.new("RGB", (32, 32), (number % 256, 40, 90)).save(out, "PNG")
    data = out.getvalue()
    content = b"snPd" + random.Random(number).randbytes(size)
    chunk = len(content[4:]).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
    return data[:-12] + chunk + data[-12:]


class DrawnBlob:
    """An image that is drawn when it is read."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size, self.key = number, size, f"picture {number}"

    def read(self) -> bytes:
        return BytesBlob(self.key, picture(self.number, self.size)).data


def run_once(url: str, folder: Path, questions: int, size: int) -> None:
    """Run by batches in this process, and print the peak of its memory in KiB."""

    def samples(data: Data) -> Iterator[Sample]:
        for i in range(questions):
            yield Sample(f"q{i}", Prompt((Image(DrawnBlob(i, size)), Text(f"question {i}"))), 7, "count")

    benchmark = Benchmark(
        name="pictures",
        version="1",
        samples=samples,
        score={"strict": lambda sample, reply: Score(1.0, reply, "correct")},
        summarize=lambda scores, profile: [mean("accuracy", scores)],
        profiles={"strict": "any reply"},
        size=lambda data: questions,
    )
    os.environ["OPENAI_API_KEY"] = KEY
    spec = RunSpec(benchmark="pictures", model="api:m", options=ModelOptions(base_url=url), batch=True, poll_s=0.05)
    run = perform(spec, RunFolder(folder), benchmark=benchmark)
    assert run.meta.totals.ok == questions
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=int)
    parser.add_argument("bytes", type=int)
    parser.add_argument("--run", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.run:
        run_once(words.run[0], Path(words.run[1]), words.questions, words.bytes)
        return
    server = UploadServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        command = [sys.executable, __file__, str(words.questions), str(words.bytes), "--run", url, f"{place}/run"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    server.shutdown()
    assert done.returncode == 0, done.stderr[-3000:]
    figures = {
        "questions": words.questions,
        "bytes of an image": words.bytes,
        "uploaded bytes": server.size,
        "batches": len(server.rows),
        "peak MiB": int(done.stdout) // 1024,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
