"""CPU time of `--log otel` per request: a run of a model that answers at once, with and without spans and events.

    python bench/telemetry.py [REQUESTS]

The collector is a process of its own on loopback, which reads and forgets; its time is not counted.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from snellen.benchmarks.base import Benchmark
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import Model, ModelOptions
from snellen.runs.perform import perform
from snellen.runs.trackers import telemetry
from snellen.scoring.scorers import accuracy, choice
from snellen.types import Prompt, Response, Sample, Text, Usage

COLLECTOR = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
REPLY = Response("B", Usage(900, 3), 0.5, "stop", model="m-2026", request_id="r")


class AtOnce(Model):
    """Answers at once."""

    async def answer(self, prompt: Prompt) -> Response:
        return REPLY


def questions(count: int) -> Benchmark:
    """Return a benchmark of that many choice questions."""
    prompt = Prompt((Text("Which bird?"),))
    return Benchmark(
        name="birds",
        version="1",
        samples=lambda data: (Sample(str(n), prompt, "B", "choice", {"A": "robin", "B": "wren"}) for n in range(count)),
        score={"strict": choice},
        profiles={"strict": "by letter"},
        summarize=accuracy(),
        digest=lambda data: "",
    )


def cpu_us(count: int, address: str | None) -> float:
    """Return microseconds of CPU a request of one run; with an address its spans and events go there."""
    subject, spec = questions(count), RunSpec(benchmark="birds", model="api:m", options=ModelOptions(concurrency=64))
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        watching = contextlib.nullcontext() if address is None else telemetry.follow(address, spec, subject)
        with watching as observer:
            perform(spec, RunFolder(Path(folder, "run")), benchmark=subject, model=AtOnce(), observer=observer)
        return (time.process_time() - began) / count * 1e6


def main(count: int) -> None:
    """Print the figures of three runs of each, the least of them, and their difference."""
    collector = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True)
    try:
        assert collector.stdout is not None
        address = f"http://127.0.0.1:{int(collector.stdout.readline())}"
        cpu_us(500, address)
        figures = {name: [cpu_us(count, to) for _ in range(3)] for name, to in (("without", None), ("with", address))}
    finally:
        collector.kill()
        collector.wait()
    for name, values in figures.items():
        print(f"{name:8} {'  '.join(f'{value:7.1f}' for value in values)}  µs CPU a request")
    print(f"otel adds {min(figures['with']) - min(figures['without']):.0f} µs CPU a request ({count:,} requests a run)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
