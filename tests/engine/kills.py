"""Kill a run again and again until it is done; prints what came of it as JSON. Run as a script by test_kills.py."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

from stubs import ARITHMETIC, Calculator, samples

from snellen.benchmarks.base import Data
from snellen.engine import journal
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import ServerError
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.types import Record

N = 300
SPEC = RunSpec(
    benchmark="arithmetic",
    model="calculator",
    data=Data(options={"n": str(N)}),
    options=ModelOptions(concurrency=16),
)

LONGEST = 0.9
"""The longest wait before a kill, in undisturbed runs: what is drawn must not depend on how fast the machine is."""
MEASURED_ANEW = 10
"""After so many kills of one run an undisturbed one is measured again: a machine can get busy at any time."""


def attempt(folder: RunFolder, seed: int) -> None:
    """One process's part of a run: a slow model of which some answers fail the first time."""
    chance = random.Random(seed)
    fail: dict[int, list[Exception]] = {i: [ServerError("500")] for i in range(N) if chance.random() < 0.05}
    model = Calculator(delay_s=0.002, fail=fail)
    perform(SPEC, folder, benchmark=ARITHMETIC, model=model, backoff=Backoff(base_s=0.001))


def begun(folder: RunFolder, seed: int) -> int:
    """The process id of a child that makes one attempt and leaves."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            attempt(folder, seed)
            status = 0
        finally:
            os._exit(status)
    return child


def undisturbed_s(folder: RunFolder) -> float:
    """Seconds that a whole run takes here and now if nobody kills it."""
    start = time.monotonic()
    _, status = os.waitpid(begun(folder, 0), 0)
    spent = time.monotonic() - start
    assert os.waitstatus_to_exitcode(status) == 0, "a run that nobody kills failed"
    shutil.rmtree(folder.path)
    return spent


def main(kills_wanted: int, root: Path) -> None:
    chance = random.Random(11)
    truth = {sample.id: sample for sample in samples(SPEC.data)}
    kills = cuts = runs = torn = 0
    while kills < kills_wanted:
        runs += 1
        folder = RunFolder(root / f"run{runs}")
        seen: dict[str, str] = {}
        for survived in count():
            if survived % MEASURED_ANEW == 0:
                longest_s = LONGEST * undisturbed_s(RunFolder(root / "undisturbed"))
            child = begun(folder, kills)
            time.sleep(chance.uniform(0.0, longest_s))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0, f"run {runs} failed"
                break
            kills += 1
            results = folder.results
            if results.exists() and chance.random() < 0.3:
                cuts += 1
                size = results.stat().st_size
                os.truncate(results, chance.randint(max(0, size - 400), size))
            if results.exists():
                data = results.read_bytes()
                torn += bool(data) and not data.endswith(b"\n")
                for record in journal.read(results, Record):
                    if record.status == "ok":
                        assert seen.setdefault(record.sample_id, record.response.text) == record.response.text
        answered = Counter(r.sample_id for r in folder.records() if r.status == "ok")
        assert set(answered) == set(truth), f"{len(answered)} of {N} samples answered"
        assert set(answered.values()) == {1}, "a sample was answered more than once"
        right = sum(r.response.text == str(truth[r.sample_id].target) for r in folder.records() if r.response)
        assert right == N - len(range(0, N, 10)), "a verdict changed"
        assert json.loads(folder.summary.read_bytes())["rows"] == N
        shutil.rmtree(folder.path)
    print(json.dumps({"kills": kills, "cuts": cuts, "torn": torn, "runs": runs}))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
