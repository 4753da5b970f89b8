"""Kill runs by batches at random moments, and count what was answered and what was paid.

    python bench/batch_kills.py 30 1                 # 30 kills, seed 1: for each of the three services
    python bench/batch_kills.py 30 1 --services openai --questions 2000

A server on loopback speaks the protocol of the service. Some rows fail or expire the first time, results come out of order, and some
create calls get no reply. Each run is killed with SIGKILL until it ends by itself; a new one begins until enough were killed. Then:
each sample has one answer, and was paid once. Prints one JSON object a service, with the kills by what the run was doing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "engine")]

from batch_runs import arithmetic_answer

from servers.batches import MODEL, BatchServer, Plan
from snellen.engine.batches.log import read_log
from snellen.engine.run_folder import RunFolder

MODELS = {"openai": f"api:{MODEL}", "anthropic": f"anthropic:{MODEL}", "gemini": f"gemini:{MODEL}"}
SHARDS = 8


def plan(service: str, questions: int, seed: int) -> Plan:
    """A service with small batches, slow enough to be killed, on which every tenth row fails once."""
    chance = random.Random(seed)
    bad = {
        f"What is {i} mod 7?": chance.choice(["error500", "expired"]) for i in range(questions) if chance.random() < 0.1
    }
    return Plan(
        seconds=1.5,
        answer=arithmetic_answer,
        outcome=lambda question, before: bad.get(question, "ok") if before == 0 else "ok",
        most_rows=max(1, questions // SHARDS),
        silent_creates=tuple(chance.sample(range(1, 12), 3)),
        bare_inline=seed % 2 == 0,
        seed=seed,
    )


def doing(folder: Path) -> str:
    """Return what a run is doing, by its log: made, sent, created, polled, downloaded."""
    try:
        shards = read_log(folder).open()
    except Exception:  # noqa: BLE001 - the last line is being written
        return "made"
    if any(shard.creating_at and not shard.id for shard in shards):
        return "created"
    if any(not shard.id for shard in shards):
        return "sent"
    if any(shard.state in ("completed", "expired", "ended") or shard.state.endswith("SUCCEEDED") for shard in shards):
        return "downloaded"
    return "polled" if shards else "made"


def begun(server: BatchServer, folder: Path, questions: int, service: str) -> subprocess.Popen[bytes]:
    """Start one process of a run."""
    url = server.address(service)
    script = ROOT / "tests" / "engine" / "batch_runs.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, str(script), url, str(folder), str(questions), MODELS[service]]
    return subprocess.Popen(command, env=environment, stderr=(folder.parent / "stderr").open("ab"))


def kill_runs(service: str, kills_wanted: int, seed: int, questions: int) -> dict[str, object]:
    """Return the counts of kills, runs, batches and rows; AssertionError if a row was lost or paid twice."""
    chance = random.Random(seed)
    kills: Counter[str] = Counter()
    runs = batches = failed_once = 0
    while sum(kills.values()) < kills_wanted:
        runs += 1
        with (
            tempfile.TemporaryDirectory() as place,
            BatchServer(plan(service, questions, seed + runs), 3600.0) as server,
        ):
            folder = Path(place) / "run"
            while True:
                process = begun(server, folder, questions, service)
                target = chance.choice(["made", "created", "sent", "polled", "downloaded", "any"])
                deadline = time.monotonic() + (60.0 if sum(kills.values()) < kills_wanted else 1e9)
                while process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.003)
                    wanted = sum(kills.values()) < kills_wanted
                    if wanted and folder.exists() and (target in ("any", doing(folder))) and chance.random() < 0.05:
                        break
                if process.poll() is not None:
                    words = (Path(place) / "stderr").read_text()[-3000:]
                    assert process.returncode == 0, f"{service}, run {runs}: {words}"
                    break
                moment = doing(folder)
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills[moment] += 1
            answers = Counter(record.sample_id for record in RunFolder(folder).records() if record.status == "ok")
            assert len(answers) == questions, f"{len(answers)} of {questions} samples answered"
            assert set(answers.values()) == {1}, "a sample was answered twice"
            assert set(server.paid.values()) == {1}, f"paid twice: {[q for q, n in server.paid.items() if n > 1][:5]}"
            assert not server.faults, server.faults[:5]
            batches += len(server.batches)
            failed_once += sum(count > 1 for count in server.asked.values())
    return {
        "service": service,
        "kills": dict(kills),
        "runs": runs,
        "batches": batches,
        "rows asked again": failed_once,
        "questions": questions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--services", default="openai,anthropic,gemini")
    given = parser.parse_args()
    for service in given.services.split(","):
        print(json.dumps(kill_runs(service, given.kills, given.seed, given.questions)), flush=True)


if __name__ == "__main__":
    main()
