"""Runs the twelve benchmarks by the command, each in a process of its own that is killed half way, and once more.

What costs seconds, importing torch and transformers, is done once: the runs are forks of this process, which itself computes
nothing. Called with a folder and names; prints one JSON line a benchmark.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

EACH = {"vsi-bench": 2, "mindcube-tiny": 4, "viewspatial": 4, "embspatial": 6, "mmsi-video-bench": 3, "vsi-debiased": 4}
LIMIT_S = 600


def asked(data: Path, name: str, out: Path) -> list[str]:
    """The command's words. The embedded model reads 1,024 tokens: few of the frames that the harnesses show."""
    words = ["run", name, "--data", data, "--out", out, "--model", "embedded", "--batch-size", 1, "--concurrency", 1]
    return [*map(str, words), "--json", "-o", "sample-frames=8"]


def begun(words: list[str], log: Path) -> int:
    """The process id of a fork that performs the command."""
    if (pid := os.fork()) != 0:
        return pid
    code = 70
    try:
        told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(told, 1)
        os.dup2(told, 2)
        sys.argv = ["snellen", *words]
        from snellen.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 71
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int, results: Path, lines: int) -> int | None:
    """The exit code; None where the results had so many lines before, and the process was killed."""
    until = time.monotonic() + LIMIT_S
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        late = time.monotonic() > until
        if late or (lines and results.exists() and results.read_bytes().count(b"\n") >= lines):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if late:
                raise TimeoutError(f"{results.parent}: still running after {LIMIT_S} s")
            return None
        time.sleep(0.002)


def main() -> None:
    from benchmarks.spatial import official_drawn as drawn

    root, names = Path(sys.argv[1]), sys.argv[2:]
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: F401 - it imports parts as they are named

    import snellen.models.local.generate  # noqa: F401

    torch.set_num_threads(1)
    for name in names:
        each = EACH.get(name, 1)
        data, out, log = drawn.draw(name, root / "data", each=each), root / "runs" / name, root / f"{name}.log"
        total = drawn.count(name, each)
        first = ended(begun(asked(data, name, out), log), out / "results.jsonl", total // 3)
        before = (out / "results.jsonl").read_bytes().count(b"\n")
        second = ended(begun(asked(data, name, out), log), out / "results.jsonl", 0)
        told = {"name": name, "total": total, "killed": first is None, "before": before, "code": second}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
