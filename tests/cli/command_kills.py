"""Kill commands at random moments, call them again, and compare what they leave with that of one that nobody disturbed.

    PYTHONPATH=tests python tests/cli/command_kills.py 20 1     # 20 kills, seed 1: of each command
    PYTHONPATH=tests python tests/cli/command_kills.py 20 1 --commands judge,acuity

Judge, reader, observer and batch service are servers on loopback. Every other kill falls on a step on the disk (killed_steps.py),
the others on a moment of the clock. Then the same command is called until it ends. Each record, verdict, reading and decision must be
there once, exports byte for byte, and no file beside them; no request may be sent, and no row of a batch paid, more often than the
kills explain. Prints one JSON object a command.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pixel_observer_server import observer_server
from servers.batches import KEY, MODEL, BatchServer, Plan
from servers.oracle import OracleServer, SentQuestion

STEPS = Path(__file__).parents[1] / "killed_steps.py"
N, IN_FLIGHT = 12, 3
BIRDS = ("robin", "wren", "finch", "owl")
UNREAD = "It could be a {} or a {}. Both are common here."
LIMIT_S = 600.0
LONGEST = 0.9
"""The latest kill by the clock, in undisturbed commands."""
OF_THE_MOMENT = {
    "batch",
    "crc32",
    "finished_at",
    "imported_at",
    "latency_s",
    "request_id",
    "seconds",
    "seq",
    "started_at",
}
"""Members of JSON that say when and in which order: two undisturbed commands differ in them."""
ASKED_AGAIN = ("raw_judge_", "traces")
"""Files of what was sent: a request that a kill cut off, and its repetition, stand there both."""


NAMED_BY_CHANCE = re.compile(r"(?<=/snellen-)[0-9a-f]{10}|(?<=traces/)[0-9]{5}")
"""Parts of names: the token of a run's batches, and the number of a process's file of traces."""


class Command(NamedTuple):
    """What is killed.

    Attributes:
        words: the command, with places for the addresses of the servers.
        before: a command that comes first and is not killed.
        asks: how many requests an undisturbed command sends to the judge or the reader.
    """

    words: str
    before: str = ""
    asks: int = 0


IMPORT = "import {} --benchmark birds.csv --out results/theirs --model theirs"
EXPORTS = dict.fromkeys(("jsonl", "atif", "inspect", "eee", "hf", "lmms-eval", "lm-eval", "vlmevalkit"), "")
EXPORTS["hf"] = " --dataset a/birds --task birds"
COMMANDS = {
    "judge": Command("judge results/scenes -m api:oracle --judge-base-url ORACLE -c 3 -q", asks=N),
    "read": Command("read results/birds --reader api:oracle --base-url ORACLE -c 3 -q", asks=N // 2),
    "review": Command("reviews import results/birds decisions.json --reviewer 3=ada"),
    "import": Command(IMPORT.format("said.jsonl")),
    "import --replace": Command(IMPORT.format("said.jsonl --replace"), before=IMPORT.format("other.jsonl")),
    **{
        f"export {name}": Command(f"export results/birds --format {name} --out exported{EXPORTS[name]}")
        for name in EXPORTS
    },
    "acuity": Command(
        "acuity -m api:observer --base-url OBSERVER --attributes gap --most 16 -c 3 -q --out results/gap"
    ),
    "batch read": Command("batch read results/asked answered.jsonl"),
    "batches": Command(f"run birds.csv -m openai:{MODEL} --base-url BATCHES --batch -q --out results/batch"),
}


def answer(asked: SentQuestion) -> str:
    """A judge whose verdict goes by the question, and a reader that finds the last bird of a reply."""
    time.sleep(0.02)
    if "Copy the answer" in asked.text:
        (named,) = re.findall(r"a (\w+)\. Both", asked.text)
        return json.dumps({"quote": named, "option": asked.letter(named)})
    number = int(re.findall(r"scene (\d+)", asked.text)[0])
    return json.dumps({"verdict": ("correct", "incorrect")[number % 2], "reason": f"of scene {number}"})


def write_files(folder: Path) -> None:
    """Write two tables, replies to their questions, and the decisions of a reviewer."""
    for name, rows in {
        "birds": [(f"c{i}", f"Which bird is it? (c{i})", "|".join(BIRDS), BIRDS[i % 4]) for i in range(N)],
        "scenes": [(f"f{i}", f"What happens in scene {i}?", "", f"He feeds the birds of park {i}.") for i in range(N)],
    }.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "question", "options", "answer"), *rows])
    for name, ids, texts in (
        ("said", "c", [(UNREAD.format(BIRDS[(i + 1) % 4], BIRDS[i % 4]), BIRDS[i % 4])[i % 2] for i in range(N)]),
        ("other", "c", [BIRDS[0]] * N),
        ("described", "f", [f"Somebody feeds {i} birds." for i in range(N)]),
    ):
        lines = [json.dumps({"id": f"{ids}{i}", "reply": text}) for i, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    choice = {"from_name": "decision", "to_name": "reply", "type": "choices", "value": {"choices": ["right"]}}
    made = {"completed_by": 3, "result": [choice], "created_at": "2026-03-09T22:16:08Z"}
    tasks = [{"id": i, "data": {"sample_id": f"c{i}"}, "annotations": [{"id": i, **made}]} for i in range(N)]
    (folder / "decisions.json").write_text(json.dumps(tasks))


def lasting(value: Any) -> Any:
    """Return JSON without what differs from one undisturbed command to the next."""
    if isinstance(value, dict):
        return {name: lasting(each) for name, each in sorted(value.items()) if name not in OF_THE_MOMENT}
    return [lasting(each) for each in value] if isinstance(value, list) else value


def lines_of(path: Path) -> Counter[str]:
    """Count the intact lines of a journal, whatever their order."""
    found: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        with suppress(ValueError):  # a write that was cut off
            found[json.dumps(lasting(json.loads(line)), sort_keys=True)] += 1
    return found


def left_in(folder: Path) -> dict[str, Any]:
    """Return what lasts of each file; of batches, and of files that no reader opens, that they are there."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = NAMED_BY_CHANCE.sub("", str(path.relative_to(folder)))
        if path.is_dir():
            found[name] = "folder"
        elif name.startswith("exported"):
            found[name] = contents_of(path)
        elif "/batches" in name or path.suffix not in (".json", ".jsonl"):
            found[name] = "file"
        elif path.suffix == ".json":
            found[name] = lasting(json.loads(path.read_text()))
        else:
            found[name] = found.get(name, Counter()) + lines_of(path)
    for name in found:
        if any(word in name for word in ASKED_AGAIN) and found[name] != "folder":
            found[name] = set(found[name])
    return {name: content for name, content in found.items() if not name.endswith(".lock")}


def contents_of(path: Path) -> Any:
    """Return the bytes of an export; of a workbook those of its cells, since it has the time of its writing."""
    if path.suffix != ".xlsx":
        return path.read_bytes()
    with zipfile.ZipFile(path) as book:
        return {name: book.read(name) for name in book.namelist() if not name.startswith("docProps/")}


class Place:
    """Folders as they are before a command, and the servers that it asks."""

    def __init__(self, root: Path, oracle: OracleServer, observer: str, batches: BatchServer) -> None:
        self.prepared, self.folder, self.log = root / "prepared", root / "folder", root / "log"
        self.oracle, self.batches = oracle, batches
        self.addresses = {"ORACLE": oracle.url, "OBSERVER": observer, "BATCHES": batches.address("openai")}
        keys = dict.fromkeys(("OPENAI_API_KEY", "JUDGE_API_KEY"), KEY)
        self.performer = subprocess.Popen(
            [sys.executable, str(STEPS), str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **keys, "SNELLEN_BATCH_POLL": "0.1", "SNELLEN_DATA": str(root / "data")},
        )
        self.prepared.mkdir()
        write_files(self.prepared)
        for table, replies in (("birds", "said"), ("scenes", "described")):
            self.call(f"run {table}.csv -m replay:{replies}.jsonl -q --out results/{table}", self.prepared)
        self.call(f"batch write birds.csv -m api:{MODEL} --run results/asked --out asked.jsonl", self.prepared)
        message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": BIRDS[0]}}
        reply = {"status_code": 200, "request_id": "r", "body": {"model": MODEL, "choices": [message]}}
        rows = [json.loads(line) for line in (self.prepared / "asked.jsonl").read_text().splitlines()]
        lines = [
            json.dumps({"id": "a", "custom_id": row["custom_id"], "response": reply, "error": None}) for row in rows
        ]
        (self.prepared / "answered.jsonl").write_text("\n".join(lines) + "\n")

    def begin(self, words: str, folder: Path, step: int = 0) -> int:
        """Start a command in a folder, which is killed at a step on the disk (0: at none); return its process id."""
        typed = [self.addresses.get(word, word) for word in words.split()]
        assert self.performer.stdin is not None and self.performer.stdout is not None
        self.performer.stdin.write(json.dumps([step, str(folder), typed]).encode() + b"\n")
        return int(self.performer.stdout.readline())

    def end(self, most_s: float = LIMIT_S) -> tuple[int, int] | None:
        """Return exit status and number of steps of the command that was begun; None if it has not ended in so many seconds."""
        assert self.performer.stdout is not None
        if not select.select([self.performer.stdout], [], [], most_s)[0]:
            return None
        status, steps = self.performer.stdout.readline().split()
        return int(status), int(steps)

    def call(self, words: str, folder: Path) -> tuple[int, float]:
        """Let a command end; return its number of steps, and its seconds."""
        start = time.monotonic()
        self.begin(words, folder)
        status, steps = self.end() or (1, 0)
        assert status == 0, f"{words}: exit status {status}: {self.log.read_text()[-3000:]}"
        return steps, time.monotonic() - start

    def close(self) -> None:
        """End the process that performs commands."""
        self.performer.communicate()

    def reset(self, command: Command) -> None:
        """Make the folder, and what the servers have counted, as before the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.prepared, self.folder)
        if command.before:
            self.call(command.before, self.folder)
        self.oracle.requests.clear()
        for counted in (self.batches.paid, self.batches.asked, self.batches.calls, self.batches.batches):
            counted.clear()

    def killed(self, words: str, chance: random.Random, steps: int, seconds: float, *, by_clock: bool) -> bool:
        """Call a command and kill it; return whether it was still running."""
        child = self.begin(words, self.folder, 0 if by_clock else chance.randint(1, steps))
        ended = self.end(chance.uniform(0.0, LONGEST * seconds) if by_clock else LIMIT_S)
        if ended is None:
            os.kill(child, signal.SIGKILL)
            ended = self.end()
        return ended is not None and ended[0] == -signal.SIGKILL

    def compare(self, command: Command, expected: dict[str, Any], kills: int) -> None:
        """Raise AssertionError if something is lost, there twice, or asked more often than the kills explain."""
        left = left_in(self.folder)
        wrong = [name for name in sorted(left.keys() | expected.keys()) if left.get(name) != expected.get(name)]
        assert not wrong, "\n".join(
            f"{name}: {left.get(name)!s:.1500}\nexpected {expected.get(name)!s:.1500}" for name in wrong
        )
        asked = len(self.oracle.requests)
        assert command.asks <= asked <= command.asks + kills * IN_FLIGHT, f"asked {asked} times after {kills} kills"
        assert set(self.batches.paid.values()) <= {1}, f"paid twice: {self.batches.paid}"
        assert not self.batches.faults, self.batches.faults[:5]


def kill_command(place: Place, command: Command, kills_wanted: int, seed: int) -> dict[str, int]:
    """Kill a command so often; return the counts. Raises AssertionError as `Place.compare` does."""
    chance = random.Random(seed)
    place.reset(command)
    steps, seconds = place.call(command.words, place.folder)
    expected = left_in(place.folder)
    place.compare(command, expected, 0)
    kills: Counter[str] = Counter()
    trials = 0
    while kills.total() < kills_wanted:
        trials += 1
        place.reset(command)
        before = kills.total()
        while kills.total() < kills_wanted:
            by_clock = kills.total() % 2 == 1
            if place.killed(command.words, chance, steps, seconds, by_clock=by_clock):
                kills["by the clock" if by_clock else "at a step"] += 1
            if chance.random() < 0.7:  # the others are killed again
                break
        place.call(command.words, place.folder)
        place.compare(command, expected, kills.total() - before)
    return {**kills, "trials": trials, "steps": steps}


def kill_at_each_step(place: Place, command: Command) -> int:
    """Kill a command at each of its steps on the disk once; return their number. Raises AssertionError as `kill_command`."""
    place.reset(command)
    steps, _ = place.call(command.words, place.folder)
    expected = left_in(place.folder)
    for step in range(1, steps + 1):
        place.reset(command)
        place.begin(command.words, place.folder, step)
        place.end()
        place.call(command.words, place.folder)
        place.compare(command, expected, 1)
    return steps


@contextmanager
def prepared() -> Iterator[Place]:
    """Serve judge, reader, observer and batches, and make the runs that the commands are about."""
    plan = Plan(seconds=0.3, most_rows=N // 3, answer=lambda question: BIRDS[0])
    with (
        tempfile.TemporaryDirectory(prefix="snellen-kills-") as root,
        OracleServer(answer) as oracle,
        observer_server({"gap": 3.2}) as observer,
        BatchServer(plan, 3600.0) as batches,
    ):
        place = Place(Path(root), oracle, observer, batches)
        try:
            yield place
        finally:
            place.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--commands", default=",".join(COMMANDS))
    given = parser.parse_args()
    with prepared() as place:
        for name in given.commands.split(","):
            print(
                json.dumps({"command": name, **kill_command(place, COMMANDS[name], given.kills, given.seed)}),
                flush=True,
            )


if __name__ == "__main__":
    main()
