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
from pathlib import Path

from stubs import ARITHMETIC, Calculator, samples

from snellen.benchmarks.base import Data
from snellen.engine import journal
from snellen.engine.folder import RunFolder
from snellen.engine.gate import Backoff
from snellen.errors import ServerError
from snellen.evaluation import RunSpec, perform
from snellen.models.base import ModelOptions
from snellen.types import Record

N = 300
SPEC = RunSpec(
    benchmark="arithmetic",
    model="calculator",
    data=Data(options={"n": str(N)}),
    options=ModelOptions(concurrency=16),
)


def attempt(folder: RunFolder, seed: int) -> None:
    """One process's part of a run: a slow model of which some answers fail the first time."""
    chance = random.Random(seed)
    fail: dict[int, list[Exception]] = {i: [ServerError("500")] for i in range(N) if chance.random() < 0.05}
    model = Calculator(delay_s=0.002, fail=fail)
    perform(SPEC, folder, benchmark=ARITHMETIC, model=model, backoff=Backoff(base_s=0.001))


def main(kills_wanted: int, root: Path) -> None:
    chance = random.Random(11)
    truth = {sample.id: sample for sample in samples(SPEC.data)}
    kills = cuts = runs = torn = 0
    while kills < kills_wanted:
        runs += 1
        folder = RunFolder(root / f"run{runs}")
        seen: dict[str, str] = {}
        while True:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    attempt(folder, kills)
                    status = 0
                finally:
                    os._exit(status)
            time.sleep(chance.uniform(0.0, 0.06))
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
                        assert record.response is not None
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
