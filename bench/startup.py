"""What a user waits for: help, the first request of a run, a run of one question, and a second look at a complete run.

CPU seconds are user + system of the whole process, read from the operating system; best and median of several tries,
beside the floor of an interpreter that does nothing. The first request is seen by the server, and the client's CPU is
read from /proc at that moment. Usage: python bench/startup.py [TRIES]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from servers import fast

SNELLEN = [sys.executable, "-m", "snellen"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE), "OPENAI_API_KEY": "none"}
TICK = os.sysconf("SC_CLK_TCK")


def whole(command: list[str]) -> float:
    """CPU seconds of a command from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_command(url: str, out: Path) -> list[str]:
    run = [*SNELLEN, "run", "million:BIRDS", "-o", "n=2000", "--model", f"api:{fast.MODEL}", "--base-url", url]
    return [*run, "-c", "64", "--out", str(out)]


def first_request(folder: Path) -> float:
    """CPU seconds of `snellen run` until its first question arrives at the server."""
    with fast.running(latency_s=1.0) as server:
        process = subprocess.Popen(
            run_command(server.url, folder / f"first{time.monotonic_ns()}"),
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not server.stats()["in_flight"]:
                time.sleep(0.002)
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        finally:
            process.kill()
            process.wait()
    return (int(fields[11]) + int(fields[12])) / TICK


def one_question(url: str, folder: Path) -> float:
    """CPU seconds of a whole `snellen run` of one question, with its table."""
    return whole([*run_command(url, folder / f"one{time.monotonic_ns()}"), "--limit", "1", "--quiet"])


def main() -> None:
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name, fast.running() as server:
        folder = Path(name)
        again = run_command(server.url, folder / "complete")
        whole(again)
        rows: list[tuple[str, Callable[[], float]]] = [
            ("floor: python -c pass", lambda: whole([sys.executable, "-c", "pass"])),
            ("floor: import aiohttp", lambda: whole([sys.executable, "-c", "import aiohttp"])),
            ("snellen --help", lambda: whole([*SNELLEN, "--help"])),
            ("run: until the first request", lambda: first_request(folder)),
            ("run: one question, all of it", lambda: one_question(server.url, folder)),
            ("run: 2,000 answered already", lambda: whole(again)),
        ]
        print(f"{'':32}{'CPU s, best':>12}{'median':>9}{'wall s, best':>14}")
        for label, step in rows:
            spent, waited = [], []
            for _ in range(tries):
                started = time.perf_counter()
                spent.append(step())
                waited.append(time.perf_counter() - started)
            wall = f"{min(waited):14.2f}" if "first request" not in label else f"{'':>14}"
            print(f"{label:32}{min(spent):12.2f}{statistics.median(spent):9.2f}{wall}")
        served = server.stats()["served"]
        whole(again)
        print(f"requests sent by a run that was complete: {server.stats()['served'] - served}")


if __name__ == "__main__":
    main()
