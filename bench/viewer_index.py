"""The viewer's index at scale: many runs, one long run, and many long runs side by side.

Folders are drawn under a folder that is kept, so that a second run measures alone. Each measurement runs in a process of its
own; peak memory is that of the process, wall and CPU seconds are printed both, since other work on the machine stretches the
first. The runs side by side are drawn straight into an index, since twenty million replies would take hours to score.

    python bench/viewer_index.py FOLDER [--runs 200] [--records 10000] [--long 1000000] [--columns 20] [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BIRDS = ("Jay", "Wren", "Robin", "Crow")
ENDINGS = ("{}", "{}.", "The answer is {}.", "I think it is {}.", "I cannot tell.")


def write_table(path: Path, rows: int) -> Path:
    """Write a table of multiple-choice questions."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            for number in range(rows):
                row = {
                    "id": f"q{number:07d}",
                    "question": f"Which of these birds is shown in picture number {number}?",
                    "options": dict(zip("ABCD", BIRDS, strict=True)),
                    "answer": "ABCD"[number % 4],
                    "habitat": ("wood", "lake", "sea")[number % 3],
                    "level": str(number % 5),
                }
                file.write(json.dumps(row) + "\n")
    return path


def replies(rows: int, seed: int) -> Iterator[Any]:
    """Yield one record a question, in nearly the order of the questions."""
    from snellen.types import Failure, Record, Response, Usage

    draw = random.Random(seed)
    for number in range(rows):
        at = 1_700_000_000.0 + number
        if draw.random() < 0.01:
            error = Failure("server", "HTTP 500: overloaded")
            yield Record(f"q{number:07d}", "error", error=error, started_at=at, finished_at=at + 1)
            continue
        letter = "ABCD"[number % 4] if draw.random() < 0.7 else draw.choice("ABCD")
        text = draw.choice(ENDINGS[:2] if draw.random() < 0.8 else ENDINGS).format(letter)
        response = Response(text, Usage(800, 3), 0.7)
        yield Record(f"q{number:07d}", "ok", response=response, started_at=at, finished_at=at + 1)


def write_run(path: Path, table: Path, rows: int, seed: int) -> None:
    """Write a complete run folder with its summary, as a run leaves it."""
    import msgspec

    from snellen.benchmarks import registry
    from snellen.benchmarks.base import Data
    from snellen.engine.fingerprint import digest
    from snellen.engine.run_folder import Coverage, RunFolder, RunMeta, RunSpec, Totals
    from snellen.sources.journal_lines import seal
    from snellen.types import Metric

    if (path / "summary.json").exists():
        return
    path.mkdir(parents=True, exist_ok=True)
    benchmark = registry.find(str(table.absolute()))
    encode = msgspec.json.Encoder().encode
    ok = 0
    with (path / "results.jsonl").open("wb") as file, (path / "predictions.jsonl").open("wb") as saved:
        for number, record in enumerate(replies(rows, seed), 1):
            line = bytearray(encode(record))
            seal(line, number)
            file.write(line)
            saved.write(encode(prediction(record, "ABCD"[(number - 1) % 4])) + b"\n")
            ok += record.status == "ok"
    identity = {
        "benchmark": benchmark.name,
        "benchmark_version": benchmark.version,
        "data": DIGESTS.setdefault(table, benchmark.digest(Data())),
        "model": {"name": f"model-{seed % 7}"},
        "seed": seed,
        "repeats": 1,
    }
    meta = RunMeta(
        fingerprint=digest(identity),
        identity={**identity, "seed": 0},
        coverage=Coverage(None, rows),
        spec=RunSpec(benchmark=str(table.absolute()), model=f"openai:model-{seed % 7}"),
        totals=Totals(ok=ok, error=rows - ok, input_tokens=800 * ok, output_tokens=3 * ok, cost=1.5, seconds=600.0),
        state="complete",
    )
    folder = RunFolder(path)
    folder.write_meta(meta)
    metrics = [Metric("accuracy", 0.7, rows, (0.69, 0.71), chance=0.25)]
    profiles = [{"profile": name, "metrics": metrics} for name in benchmark.score]
    folder.write(folder.summary, msgspec.json.encode({"benchmark": benchmark.name, "profiles": profiles}))


def prediction(record: Any, target: str) -> dict[str, Any]:
    """Return the line of predictions.jsonl for a record, as a run writes it."""
    if record.response is None:
        return {"id": record.sample_id, "extracted": None, "verdict": "error", "reason": "server"}
    read = next((letter for letter in "ABCD" if record.response.text.rstrip(".").endswith(letter)), None)
    verdict = "invalid" if read is None else "correct" if read == target else "wrong"
    return {"id": record.sample_id, "extracted": read, "verdict": verdict, "reason": None}


DIGESTS: dict[Path, str] = {}


class Clock:
    """Wall and CPU seconds since the last call."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __call__(self, text: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        print(f"  {text:<58} {wall - self._wall:8.3f} s  {cpu - self._cpu:8.3f} s CPU", flush=True)
        self._wall, self._cpu = time.perf_counter(), time.process_time()


def peak_mb() -> float:
    """Return the megabytes that this process has held at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def own_mb() -> float:
    """Return the megabytes of this process that are no pages of files, which the system may drop at any time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon"))) / 1024


def open_pages(index: Any, clock: Clock, query: Any) -> None:
    """Ask for pages as a reader would."""
    from dataclasses import replace

    page = index.samples(query)
    clock(f"first page of {page.total:,} rows x {len(page.runs)} runs")
    for text, asked in (
        ("next page", replace(query, start=50)),
        ("page in the middle", replace(query, start=page.total // 2)),
        ("most models wrong", replace(query, sort="wrong")),
        ("models disagree", replace(query, sort="disagree")),
        ("profiles disagree", replace(query, sort="profiles")),
        ("smallest margin", replace(query, sort="margin")),
        ("the same order, page 400", replace(query, sort="margin", start=20_000)),
        ("pattern A wrong", replace(query, pattern="A wrong")),
        ("pattern not all right, most wrong first", replace(query, pattern="not all right", sort="wrong")),
        ("slice level=3", replace(query, slices=(("level", "3"),))),
        ("text in questions", replace(query, question="number 4711")),
    ):
        index.samples(asked)
        clock(text)


def measure_many(root: Path) -> None:
    """200 run folders: the first page, then the index, then pages."""
    from snellen.viewer.index import SampleQuery, open_index

    clock = Clock()
    index = open_index(root)
    index.refresh(samples=False)
    entries = index.runs()
    clock(f"catalogue of {len(entries):,} runs, from nothing")
    index.refresh(samples=False)
    clock("catalogue again")
    index.refresh(verdicts=False)
    clock("records and saved verdicts of all runs")
    print(f"  peak memory {peak_mb():.0f} MB, of it not files {own_mb():.0f} MB now")
    query = SampleQuery(entries[0].benchmark, tuple(entry.key for entry in entries[:20]))
    clock = Clock()
    index.samples(query)
    clock("samples page of 20 runs")
    index.refresh()
    clock("questions and verdicts of all profiles of all runs")
    print(f"  peak memory {peak_mb():.0f} MB, of it not files {own_mb():.0f} MB now")
    clock = Clock()
    index.refresh()
    clock("refresh without a change")
    open_pages(index, clock, query)


def measure_pages(root: Path) -> None:
    """Pages of a new server over HTTP, as a reader opens them; an answer 202 is a page that waits for its data."""
    import re
    import urllib.request
    from urllib.parse import quote

    command = [sys.executable, "-m", "snellen", "view", str(root), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = ""
            while not address:
                line = server.stderr.readline()
                assert line, "the server ended"
                match = re.search(r"http://[^\s/]+", line)
                address = "" if match is None else match.group()

            def request(text: str, path: str) -> str:
                waits = 0
                while True:
                    begin = time.perf_counter()
                    with urllib.request.urlopen(address + path, timeout=600) as reply:
                        body = reply.read().decode()
                    seconds = time.perf_counter() - begin
                    if reply.status != 202:
                        break
                    waits += 1
                    print(f"  {text:<58} {seconds:8.3f} s  waits", flush=True)
                    time.sleep(1.0)
                print(f"  {text:<58} {seconds:8.3f} s", flush=True)
                return body

            request("first page", "/")
            body = request("runs again", "/")
            benchmark = quote(re.search(r"/samples\?benchmark=([^&\"#]+)", body).group(1), safe="%")
            for name in ("samples", "matrix", "compare", "case"):
                request(f"{name}, the first time", f"/{name}?benchmark={benchmark}")
            for sample in ("q0000007", "q0005000", "q0009999", "q0005001", "q0000003"):
                request(f"case {sample}", f"/case?benchmark={benchmark}&sample={sample}")
            for name in ("samples", "matrix", "compare"):
                request(f"{name}, again", f"/{name}?benchmark={benchmark}")
        finally:
            server.terminate()


def measure_long(root: Path) -> None:
    """One run of a million records: index, memory, pages."""
    import shutil

    from snellen.viewer.index import SampleQuery, open_index

    shutil.rmtree(root / ".snellen-index", ignore_errors=True)
    clock = Clock()
    index = open_index(root)
    index.refresh(samples=False)
    clock("catalogue")
    index.refresh(verdicts=False)
    clock("records and saved verdicts in the index")
    print(f"  peak memory {peak_mb():.0f} MB, of it not files {own_mb():.0f} MB now")
    entry = index.runs()[0]
    clock = Clock()
    index.samples(SampleQuery(entry.benchmark, (entry.key,)))
    clock("samples page")
    index.refresh()
    clock("questions and verdicts of all profiles")
    print(f"  peak memory {peak_mb():.0f} MB, of it not files {own_mb():.0f} MB now")
    clock = Clock()
    open_pages(index, clock, SampleQuery(entry.benchmark, (entry.key,)))
    reader = open_index(root)
    reader.refresh(samples=False)
    clock("another viewer opens it")
    reader.samples(SampleQuery(entry.benchmark, (entry.key,)))
    clock("its first page")


def main() -> None:
    """Draw the folders, then measure each in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--only", choices=("many", "long", "wide"))
    parser.add_argument("--measure", choices=("many", "long", "wide", "pages"))
    options = parser.parse_args()
    folder: Path = options.folder
    if options.measure == "many":
        measure_many(folder / "many")
    elif options.measure == "pages":
        measure_pages(folder / "many")
    elif options.measure == "long":
        measure_long(folder / "long")
    elif options.measure == "wide":
        measure_wide(folder / "wide", options.long, options.columns)
    else:
        for name in ("many", "long", "wide") if options.only is None else (options.only,):
            if name == "many":
                table = write_table(folder / "data" / "many.jsonl", options.records)
                for number in range(options.runs):
                    write_run(
                        folder / "many" / f"group-{number % 4}" / f"run-{number:03d}", table, options.records, number
                    )
            elif name == "long":
                table = write_table(folder / "data" / "long.jsonl", options.long)
                write_run(folder / "long" / "run", table, options.long, 0)
            print(name, flush=True)
            for step in (name, "pages") if name == "many" else (name,):
                subprocess.run([sys.executable, __file__, *sys.argv[1:], "--measure", step], check=True)


def measure_wide(root: Path, rows: int, columns: int) -> None:
    """A million samples x 20 runs: pages."""
    import shutil

    from snellen.viewer.index import SampleQuery, open_index

    table = write_table(root.parent / "data" / "wide.jsonl", 100)
    for number in range(columns):
        write_run(root / f"run-{number:02d}", table, 100, number)
    shutil.rmtree(root / ".snellen-index", ignore_errors=True)
    index = open_index(root)
    index.refresh()
    print(f"  {columns} runs of 100 records indexed; drawing {rows:,} verdicts for each", flush=True)
    draw_verdicts(index.database, rows)
    index = open_index(root)
    index.refresh(samples=False)
    clock = Clock()
    open_pages(index, clock, SampleQuery(index.runs()[0].benchmark))
    print(f"  peak memory {peak_mb():.0f} MB, of it not files {own_mb():.0f} MB now")


def draw_verdicts(database: Any, rows: int) -> None:
    """Replace the samples and the records of every run in the index by as many drawn ones."""
    from snellen.viewer.index.database import put_run, put_set, read_states

    with database.writing(), database.change() as connection:
        runs, sets = read_states(connection)
        for table in ("sample_rows", "record_rows", "score_rows", "reply_rows"):
            connection.execute(f"DELETE FROM {table}")
        for state in sets.values():
            state.described, state.values = rows, {"level": {str(level): rows // 5 for level in range(5)}}
            connection.execute(
                "INSERT INTO sample_rows BY NAME SELECT ? AS set_no, i AS place, hash(i)::INT128 - 9223372036854775808 AS code, "
                "'q' || i AS sample_id, 'Which of these birds is shown in picture number ' || i AS question, 'choice' AS kind, "
                "[md5((i % 5000)::VARCHAR)] AS images, 1 AS image_count, MAP {'level': (i % 5)::VARCHAR} AS meta, 'A' AS target, "
                "i AS cluster FROM range(?) t(i)",
                [state.set_no, rows],
            )
            put_set(connection, state)
        for state in runs.values():
            state.recorded = state.covered = state.scored = state.requested = rows
            connection.execute(
                "INSERT INTO record_rows BY NAME SELECT ? AS run, place AS number, code, sample_id, 0 AS repeat, true AS counts, "
                "'ok' AS status, place, 1 AS size FROM sample_rows",
                [state.run],
            )
            connection.execute(
                "INSERT INTO score_rows BY NAME SELECT ? AS run, place AS number, code, 0 AS repeat, true AS counts, 0 AS col, "
                "[1, 1, 1, 1, 1, 1, 2, 2, 2, 4][1 + (random() * 9.99)::INT % 10] AS verdict, "
                "1 + (random() * 3.99)::INT AS answer, (random() * 3.99)::INT AS flags, 'A' AS extracted FROM sample_rows",
                [state.run],
            )
            put_run(connection, state)


if __name__ == "__main__":
    main()
