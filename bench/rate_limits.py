"""What does a run lose when a server refuses, goes away or is overloaded?

    python bench/rate_limits.py [--only NAME] [--json FILE]

A real server in a process of its own on loopback, the whole of `snellen.evaluate` against it. The server's clock and
counts tell, for each case: samples without an answer, the share of requests that was refused, the rate that was reached
(from the first to the last request that it took) as a share of the allowed one, and how many answers it gave more than
once. The cases take from 20 s to 3 min each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(ROOT), str(ROOT / "engine")]

from simulated_limits import Bucket, FixedWindow, SlidingWindow, Slots, Spaced

import snellen
from servers.limited import (
    LimitedServer,
    by_chance,
    no_headers,
    openai_reset,
    refuses_for,
    retry_after,
    retry_after_date,
    retry_after_ms,
    retry_after_seconds,
)
from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import SnellenError
from snellen.types import Generation, Metric, Prompt, Sample, Score, Text

MODEL = "stub-vlm"


class Case(NamedTuple):
    """One server, and how it is asked. `rate`: requests a second that it allows."""

    name: str
    make: Callable[[], LimitedServer]
    questions: int
    rate: float | None = None
    concurrency: int = 64
    timeout_s: float = 60.0
    down: tuple[float, int] | None = None


def questions(number: int) -> Benchmark:
    """A benchmark of so many short questions."""

    def samples(data: Data) -> Iterator[Sample]:
        for index in range(number):
            yield Sample(
                f"q{index}", Prompt((Text(f"Number {index}?"),), generation=Generation(max_tokens=16)), "A", "choice"
            )

    return Benchmark(
        name="bench/limits",
        version="1",
        samples=samples,
        score={"strict": lambda sample, reply: Score(1.0, reply, "correct")},
        summarize=lambda scores, profile: [Metric("accuracy", float(scores.value.mean()), len(scores))],
        profiles={"strict": "any reply"},
        size=lambda data: number,
    )


def limited(make: Callable[[], Any], latency_s: float = 0.05, **options: Any) -> Callable[[], LimitedServer]:
    return lambda: LimitedServer(make().take, latency_s=latency_s, **options)


CASES = (
    Case("server down for 20 s", lambda: LimitedServer(latency_s=0.05), 1000, down=(20.0, 300)),
    Case("429 for 45 s", lambda: LimitedServer(refuses_for(45.0, 100), latency_s=0.05), 500),
    Case(
        "429 for 45 s, Retry-After",
        lambda: LimitedServer(refuses_for(45.0, 100), latency_s=0.05, headers=retry_after_seconds),
        500,
    ),
    Case(
        "429 for 20 s, Retry-After: 0",
        lambda: LimitedServer(refuses_for(20.0, 100), latency_s=0.05, headers=retry_after("0")),
        500,
    ),
    Case(
        "429 for 20 s, Retry-After: -1",
        lambda: LimitedServer(refuses_for(20.0, 100), latency_s=0.05, headers=retry_after("-1")),
        500,
    ),
    Case(
        "429 for 20 s, Retry-After: 9999999999999",
        lambda: LimitedServer(refuses_for(20.0, 100), latency_s=0.05, headers=retry_after("9999999999999")),
        500,
    ),
    Case("503 for 30 s", lambda: LimitedServer(refuses_for(30.0, 100), latency_s=0.05, status=503), 500),
    Case("529 for 30 s", lambda: LimitedServer(refuses_for(30.0, 100), latency_s=0.05, status=529), 500),
    Case("503 to one in 10", lambda: LimitedServer(by_chance(0.1), latency_s=0.4, status=503), 2000, 160.0),
    Case("reset of one in 20", lambda: LimitedServer(resets=0.05, latency_s=0.4), 2000, 160.0),
    Case("bucket 3/s, burst 3, 400 ms", limited(lambda: Bucket(3, 3), 0.4), 300, 3.0),
    Case("3 in each second, 700 ms", limited(lambda: FixedWindow(3, 1), 0.7), 300, 3.0),
    Case("bucket 20/s, burst 20", limited(lambda: Bucket(20, 20)), 600, 20.0),
    Case("bucket 20/s, Retry-After", limited(lambda: Bucket(20, 20), headers=retry_after_seconds), 600, 20.0),
    Case("bucket 20/s, burst 1", limited(lambda: Bucket(20, 1)), 600, 20.0),
    Case("20 in each second", limited(lambda: FixedWindow(20, 1)), 600, 20.0),
    Case("20 in each second, dates", limited(lambda: FixedWindow(20, 1), headers=retry_after_date), 600, 20.0),
    Case("20 in any second", limited(lambda: SlidingWindow(20, 1), 0.3), 600, 20.0),
    Case("20 in any second, resets", limited(lambda: SlidingWindow(20, 1), 0.3, headers=openai_reset), 600, 20.0),
    Case("50/s, 20 ms apart", limited(lambda: Spaced(50)), 1200, 50.0),
    Case("50/s, 20 ms apart, Retry-After", limited(lambda: Spaced(50), headers=retry_after_seconds), 1200, 50.0),
    Case("bucket 50/s, burst 3", limited(lambda: Bucket(50, 3)), 1200, 50.0),
    Case("bucket 30/s, burst 1", limited(lambda: Bucket(30, 1)), 900, 30.0),
    Case("20 in each second, Retry-After", limited(lambda: FixedWindow(20, 1), headers=retry_after_seconds), 600, 20.0),
    Case("50 in any second", limited(lambda: SlidingWindow(50, 1)), 1200, 50.0),
    Case("100/s, 10 ms apart, retry-after-ms", limited(lambda: Spaced(100), headers=retry_after_ms), 2000, 100.0),
    Case("bucket 200/s, burst 10", limited(lambda: Bucket(200, 10)), 2000, 200.0),
    Case("300 in each minute", limited(lambda: FixedWindow(300, 60)), 900, 5.0),
    Case(
        "300 in each minute, Retry-After", limited(lambda: FixedWindow(300, 60), headers=retry_after_seconds), 900, 5.0
    ),
    Case("8 at once", limited(lambda: Slots(8, 0.4), 0.4, headers=no_headers), 600, 20.0),
    Case("overloaded: 8 slots of 1 s, timeout 5 s", lambda: LimitedServer(latency_s=1.0, slots=8), 600, 8.0, 64, 5.0),
)


@contextlib.contextmanager
def server_process(case: Case, report: Path) -> Iterator[str]:
    """The address of the case's server; its counts are in `report` after the end."""
    command = [sys.executable, __file__, "--serve", case.name, "--json", str(report)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def serve(case: Case, report: Path) -> None:
    """Be the server of a case until standard input ends, then write what it counted."""
    with case.make() as server:
        if case.down is not None:
            server.go_down(*case.down)
        print(server.url, flush=True)
        sys.stdin.read()
    taken = [at for at, was_taken in zip(server.arrivals, server.taken, strict=True) if was_taken]
    counts = {
        "requests": server.received,
        "refused": server.refused,
        "twice": sum(server.answered.values()) - len(server.answered),
        "span_s": taken[-1] - taken[0] if taken else 0.0,
        "refused_at": [
            round(at - server.arrivals[0], 3)
            for at, was_taken in zip(server.arrivals, server.taken, strict=True)
            if not was_taken
        ],
    }
    report.write_text(json.dumps(counts))


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Figures of one case."""
    os.environ["OPENAI_API_KEY"] = "none"
    report = folder / "server.json"
    failure = ""
    with server_process(case, report) as url:
        began = time.perf_counter()
        try:
            snellen.evaluate(
                questions(case.questions),
                f"api:{MODEL}",
                out=folder / "run",
                base_url=url,
                concurrency=case.concurrency,
                timeout_s=case.timeout_s,
            )
        except SnellenError as error:  # the figures are those of the answers up to then
            failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
    counts = json.loads(report.read_text())
    journal = folder / "run" / "results.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    ok = {record["sample_id"] for record in records if record["status"] == "ok"}
    return {
        "questions": case.questions,
        "lost": case.questions - len(ok),
        "requests": counts["requests"],
        "refused": counts["refused"] / max(1, counts["requests"]),
        "twice": counts["twice"],
        "reached": None if case.rate is None else len(ok) / max(1e-9, counts["span_s"]) / case.rate,
        "seconds": seconds,
        "failure": failure,
        "refused_at": counts["refused_at"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="Cases whose name contains this.")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(next(case for case in CASES if case.name == arguments.serve), arguments.json)
        return
    figures = {}
    print(f"{'case':42}{'lost':>6}{'requests':>10}{'refused':>9}{'reached':>9}{'twice':>7}{'seconds':>9}")
    for case in CASES:
        if arguments.only not in case.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = figures[case.name] = measure(case, Path(folder))
        reached = "" if row["reached"] is None else f"{row['reached']:.1%}"
        print(
            f"{case.name:42}{row['lost']:6}{row['requests']:10}{row['refused']:9.1%}{reached:>9}{row['twice']:7}"
            f"{row['seconds']:9.1f}  {row['failure'][:90]}",
            flush=True,
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
