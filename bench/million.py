"""A million questions: what the engine itself costs when the model answers at once, and what a check of their table costs.

Each step runs in a process of its own, and its CPU seconds, wall seconds and peak memory are read from the operating
system. The floor is a bare loop that encodes a record and writes one line a question; that of the check, `rows`, is one that
reads the rows of the table. Usage: python bench/million.py [N]
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Benchmark, Data
from snellen.models.base import Model
from snellen.scoring.extract import correct, read
from snellen.scoring.statistics import mean
from snellen.types import Prompt, Record, Response, Sample, Score, Text, Usage

OPTIONS = {"A": "a robin", "B": "a wren", "C": "a heron", "D": "a kite"}
REPLIES = [Response(f"{letter}. {name}", usage=Usage(300, 6)) for letter, name in OPTIONS.items()]


def samples(data: Data) -> Iterator[Sample]:
    for i in range(int(data.options["n"])):
        prompt = Prompt((Text(f"Photo {i}: which bird is this? A. a robin B. a wren C. a heron D. a kite"),))
        yield Sample(
            f"birds/{i:07}",
            prompt,
            "ABCD"[i % 4],
            "choice",
            OPTIONS,
            group=f"photo{i // 10}",
            meta={"level": "species"},
        )


def strict(sample: Sample, reply: str) -> Score:
    reading = read("choice", reply, options=sample.options)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = correct("choice", reading.value, sample.target)
    return Score(float(right), reading.value, "correct" if right else "wrong")


BIRDS = Benchmark(
    name="birds",
    version="1",
    samples=samples,
    score={"strict": strict},
    summarize=lambda scores, profile: [mean("accuracy", scores, chance=0.25)],
    profiles={"strict": "one option only"},
    size=lambda data: int(data.options["n"]),
    options={"n": "how many questions"},
)


class Instant(Model):
    """Answers at once, right for three of four."""

    name = "instant"

    def __init__(self) -> None:
        self._turn = 0

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        self._turn += 1
        return REPLIES[self._turn % 4]

    async def close(self) -> None: ...


def floor(n: int, folder: Path) -> dict[str, Any]:
    """Encode and write n records in a bare loop."""
    import msgspec

    encode = msgspec.json.Encoder().encode
    with (folder / "floor.jsonl").open("wb", buffering=0) as file:
        for i in range(n):
            file.write(
                encode(Record(f"birds/{i:07}", "ok", 0, REPLIES[i % 4], None, 1, time.time(), time.time())) + b"\n"
            )
    return {}


def run(n: int, folder: Path) -> dict[str, Any]:
    """Ask, journal and score as they come (the run itself, without the summary at its end)."""
    import asyncio

    from snellen.engine.progress import LiveScores
    from snellen.engine.run import run as go
    from snellen.engine.run_folder import RunFolder, RunSpec
    from snellen.models.base import ModelOptions
    from snellen.runs.scoring import live_builder

    spec = RunSpec(
        benchmark="birds", model="instant", data=Data(options={"n": str(n)}), options=ModelOptions(concurrency=64)
    )
    meta = asyncio.run(go(spec, BIRDS, Instant(), RunFolder(folder / "run"), scores=LiveScores(live_builder(BIRDS))))
    return {"answered": meta.totals.ok}


def resume(n: int, folder: Path) -> dict[str, Any]:
    """Open the finished run and find nothing to do."""
    return run(n, folder)


def score(n: int, folder: Path) -> dict[str, Any]:
    """Score every record again and write summary.json."""
    from snellen import load_run

    summary = load_run(folder / "run", benchmark=BIRDS).summarize("all")
    return {"rows": summary.rows, "accuracy": summary.metrics["strict"][0].value}


def write_table(n: int, path: Path) -> None:
    """Write n questions with four options as CSV."""
    birds = ("robin", "wren", "heron", "kite", "stork", "crane", "finch")
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "question", *OPTIONS, "answer", "topic"))
        for i in range(n):
            options = [birds[(i + at) % 7] for at in range(4)]
            table.writerow(
                (f"q{i}", f"Photo {i}: which bird is this, beside the pond?", *options, "ABCD"[i % 4], "xyz"[i % 3])
            )


def rows(n: int, folder: Path) -> dict[str, Any]:
    """Read the rows of the table in a bare loop."""
    with (folder / "birds.csv").open(newline="") as file:
        return {"rows": sum(1 for _ in csv.reader(file)) - 1}


def check(n: int, folder: Path) -> dict[str, Any]:
    """Check the table."""
    from snellen.benchmarks import registry
    from snellen.runs.check.check import CheckSettings, check_benchmark

    return {"rows": check_benchmark(registry.find(str(folder / "birds.csv")), Data(), CheckSettings()).rows}


STEPS = {"floor": floor, "run": run, "resume": resume, "score": score, "rows": rows, "check": check}


def measure(step: str, n: int, folder: Path) -> dict[str, Any]:
    """One step in a process of its own."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, step, str(n), str(folder)], check=True, capture_output=True, text=True
    )
    return {"wall_s": time.perf_counter() - started, **json.loads(done.stdout)}


def main() -> None:
    if len(sys.argv) == 4:
        result = STEPS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
        use = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({**result, "cpu_s": use.ru_utime + use.ru_stime, "peak_mb": use.ru_maxrss / 1024}))
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        write_table(n, Path(folder) / "birds.csv")
        print(f"{n:,} questions, model in process, concurrency 64")
        print(f"{'step':<8}{'wall s':>9}{'CPU s':>9}{'questions/s':>13}{'peak MB':>9}")
        cpu_s = {}
        for step in STEPS:
            row = measure(step, n, Path(folder))
            cpu_s[step] = row["cpu_s"]
            print(
                f"{step:<8}{row['wall_s']:>9.2f}{row['cpu_s']:>9.2f}{n / row['wall_s']:>13,.0f}{row['peak_mb']:>9.0f}"
            )
        print(f"CPU of the check / of a bare csv.reader loop: {cpu_s['check'] / cpu_s['rows']:.1f}")


if __name__ == "__main__":
    main()
