"""Acuity against observers behind a loopback server: intervals that hold the truth, kills, and the time of the default set.

`server` goes Snellen's whole way: pictures, API client, engine, scoring. The server measures level and answer from the pixels that
it was sent (tests/observer_server.py). `attributes` and `cases` give the same PNGs to the same observer without a network
between, which costs a fifth: eight attributes at once, each seed with other pictures and other luck; then gap and vernier
(eight and two alternatives) with an observer that is odd in one way.

    python bench/acuity_observers.py attributes 50 [gap,contrast@8]
    python bench/acuity_observers.py cases 50
    python bench/acuity_observers.py server 5
    python bench/acuity_observers.py killed 10
    python bench/acuity_observers.py default
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from math import log10
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OPENAI_API_KEY", "none")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from observer_server import THRESHOLDS, ObserverServer, ObserverSettings
from snellen.benchmarks.acuity import ACUITY
from snellen.benchmarks.acuity.metrics import strict
from snellen.benchmarks.acuity.steering import grow
from snellen.benchmarks.base import Data, ScoredAnswer
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.runs.score_rows import details
from snellen.runs.scoring import Summary, summarize
from snellen.types import Record, Response

Way = Callable[[ObserverSettings, int, dict[str, str]], Summary]

EIGHT = "gap,contrast@8,colour@a+,vernier,length,orientation,number,link"
CASES: dict[str, dict[str, Any]] = {
    "lapses .25": {"lapse": 0.25},
    "letter bias 1": {"bias": 1.0},
    "lapses .25, letter bias 1": {"lapse": 0.25, "bias": 1.0},
    "refuses 90 % of what it does not see": {"refuses": 0.9},
    "normal": {"shape": "normal"},
    "weibull": {"shape": "weibull"},
    "drift of .2 decades": {"drift": 0.2},
    "resized to half": {"max_side": 128},
    "dip at 9 to 13 px of the gap": {"dip": (9.0, 13.0)},
}


def measured(folder: Path, server: ObserverServer, seed: int, concurrency: int = 16, **options: str) -> Run:
    spec = RunSpec(
        benchmark="acuity",
        model="api:observer",
        data=Data(options=options, seed=seed),
        options=ModelOptions(base_url=server.url, concurrency=concurrency),
    )
    return perform(spec, RunFolder(folder), backoff=Backoff(base_s=0.01))


def _each(jobs: list[tuple[Way, ObserverSettings, int, dict[str, str]]]) -> Iterator[Summary]:
    """Yield the summaries in order, made by two processes."""
    with ProcessPoolExecutor(min(2, len(jobs))) as pool:
        yield from pool.map(_run_job, jobs)


def _run_job(job: tuple[Way, ObserverSettings, int, dict[str, str]]) -> Summary:
    way, observer, seed, options = job
    return way(observer, seed, options)


def without_network(observer: ObserverSettings, seed: int, options: dict[str, str]) -> Summary:
    """Ask the observer as a run does, round by round, and summarize."""
    data, answers, pairs = Data(options=options, seed=seed), dict[str, ScoredAnswer](), []
    with ObserverServer(observer) as server:
        while samples := [sample for sample in grow(data, answers) if sample.id not in answers]:
            for sample in samples:
                *images, text = sample.prompt.parts
                reply = server.reply([image.blob.read() for image in images], text.text)
                score = strict(sample, reply)
                answers[sample.id] = ScoredAnswer("ok", score.verdict, score.extracted)
                pairs.append((sample, Record(sample.id, "ok", response=Response(reply))))
    return summarize(ACUITY, pairs, dict(ACUITY.score), expected=None)


def with_server(observer: ObserverSettings, seed: int, options: dict[str, str]) -> Summary:
    """Ask the observer behind its server."""
    with ObserverServer(observer) as server, tempfile.TemporaryDirectory() as place:
        return measured(Path(place) / "run", server, seed, **options).summarize(save=False)


def truth(name: str, settings: ObserverSettings, side: int) -> float:
    """Return the true threshold in px sent: twice as large where pictures are resized to half."""
    value = THRESHOLDS[name.partition("@")[0]]
    return value * side / settings.max_side if settings.max_side and name in ("gap", "vernier") else value


def seeds(title: str, count: int, attributes: str, way: Way, side: int = 256, **settings: Any) -> None:
    """Print for each condition the share of intervals with the truth, the bias and the mean number of questions."""
    inside, errors, asked = defaultdict(list), defaultdict(list), defaultdict(list)
    states: dict[str, Counter[str]] = defaultdict(Counter)
    observers = [ObserverSettings(seed=seed, **settings) for seed in range(count)]
    options = {"attributes": attributes, "sides": str(side)}
    jobs = [(way, observer, seed, options) for seed, observer in enumerate(observers)]
    for seed, (summary, observer) in enumerate(zip(_each(jobs), observers, strict=True)):
        by_name = {row["condition"].rpartition("@")[0]: row["state"] for row in summary.details["strict"]["conditions"]}
        for metric in summary.metrics["strict"]:
            if not metric.name.startswith("threshold/"):
                continue
            name = metric.name.removeprefix("threshold/")
            states[name][by_name[name]] += 1
            asked[name].append(metric.n)
            true = truth(name, observer, side)
            if metric.value is None or metric.ci95 is None:
                inside[name].append(False)
                continue
            inside[name].append(metric.ci95[0] <= true <= metric.ci95[1])
            errors[name].append(log10(metric.value / true))
        if seed % 10 == 9:
            print("  ", seed + 1, {name: sum(rows) for name, rows in inside.items()}, flush=True)
    print(f"{title}: {count} seeds", flush=True)
    for name, rows in inside.items():
        bias = sum(errors[name]) / max(1, len(errors[name]))
        mean = sum(asked[name]) / len(asked[name])
        print(
            f"  {name:12} {sum(rows):3d} of {len(rows)} inside  bias {bias:+.3f} decades  {mean:4.0f} questions  {dict(states[name])}",
            flush=True,
        )


def killed(times: int) -> None:
    """Kill a run at random moments and compare its questions with those of a run that was left alone."""
    with (
        ObserverServer(ObserverSettings(latency_s=0.05, unavailable=0.1)) as server,
        tempfile.TemporaryDirectory() as place,
    ):
        whole = measured(Path(place) / "whole", server, 0, 3, attributes="gap,contrast@8,vernier", sides="256")
        folder = Path(place) / "killed"
        command = [
            sys.executable,
            "-m",
            "snellen",
            "run",
            "acuity",
            "--model",
            "api:observer",
            "--base-url",
            server.url,
        ]
        command += [
            "-o",
            "attributes=gap,contrast@8,vernier",
            "-o",
            "sides=256",
            "-c",
            "16",
            "--out",
            str(folder),
            "--quiet",
        ]
        lines = []
        generator = random.Random(0)
        total = len(_asked(whole.path))
        for goal in sorted(generator.sample(range(1, total - 8), times)):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            while process.poll() is None and _recorded(folder) < goal:
                time.sleep(0.01)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            lines.append(_recorded(folder))
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        same = _asked(folder) == _asked(whole.path)
        once = set(_asked(folder).values()) == {1}
        print(f"killed at {lines} records: the same {total} questions {same}, each recorded once {once}", flush=True)


def _recorded(folder: Path) -> int:
    journal = folder / "results.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def _asked(folder: Path) -> Counter[str]:
    lines = (folder / "results.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["sample_id"] for line in lines if '"status":"ok"' in line)


def default() -> None:
    """Time the default set against 200 ms of latency, 64 in flight. Attributes that the server cannot read get guesses."""
    with ObserverServer(ObserverSettings(latency_s=0.2)) as server, tempfile.TemporaryDirectory() as place:
        began, cpu = time.monotonic(), time.process_time()
        run = measured(Path(place) / "run", server, 0, 64)
        wall, spent = time.monotonic() - began, time.process_time() - cpu
        total = run.meta.totals.ok
        print(f"default set: {total:,} questions, {wall:.1f} s wall, {spent:.1f} s CPU (server included)", flush=True)
        print("  ", {row["condition"]: row["state"] for row in details(run)["conditions"]}, flush=True)


if __name__ == "__main__":
    wanted, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    if wanted == "attributes":
        seeds("attributes", number, sys.argv[3] if len(sys.argv) > 3 else EIGHT, without_network)
    elif wanted == "server":
        seeds("eight attributes through the server, 10 % 503s", number, EIGHT, with_server, unavailable=0.1)
    elif wanted == "cases":
        for case, changed in CASES.items():
            seeds(case, number, "gap,vernier", without_network, **changed)
    elif wanted == "killed":
        killed(number)
    else:
        default()
