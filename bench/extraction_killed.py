"""A whole extraction of 10,000 JPEGs, killed twice and gone on with, beside one that nobody disturbed.

Pictures as in extraction_images.py, the encoder that comes with Snellen. The second extraction runs in a process of its
own that gets SIGKILL after a third and after two thirds of the rows, and is started again each time. What must hold:
every row is there once and in its place, and the files of both stores are equal byte for byte, but for the times and
paths in store.json. Prints CPU seconds of the undisturbed one, and fails with status 1 if anything differs.

Usage: python bench/extraction_killed.py [--images 10000] [--pictures FOLDER]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as parquet
from extraction_images import make

from snellen.features import open_store

EXTRACTING = """
import sys
import torch
from snellen.features.encoders import open_encoder
from snellen.features.extract import extract
folder, out = sys.argv[1:]
torch.set_num_threads(1)
extract(
    open_encoder("embedded", ["patch_mean"]), [folder + "/train.csv"], folder + "/images", out,
    progress=lambda done, total: print(done, flush=True),
)
"""


def extracting(folder: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", EXTRACTING, str(folder), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], rows: int) -> tuple[int, int]:
    """The first and the last number of rows done that the process told of, until it said `rows` or ended."""
    assert process.stdout is not None
    first = last = -1
    for line in process.stdout:
        last = int(line)
        first = last if first < 0 else first
        if last >= rows:
            break
    return first, last


def end(process: subprocess.Popen[str], number: int = 0) -> int:
    assert process.stdout is not None
    if number:
        os.kill(process.pid, number)
    process.stdout.close()
    return process.wait(120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000, choices=range(1_000, 100_001), metavar="1000..100000")
    parser.add_argument("--pictures", type=Path, help="a folder that was made before; it is made where it is not there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.pictures or Path(temporary) / "set"
        files = sorted((folder / "images").iterdir()) if folder.is_dir() else make(folder, given.images)
        if len(files) != given.images:
            parser.error(f"{folder} holds {len(files):,} pictures, not {given.images:,}")
        whole, killed = Path(temporary) / "whole", Path(temporary) / "killed"
        before = os.times()
        begin = time.perf_counter()
        process = extracting(folder, whole)
        until(process, given.images)
        if end(process):
            raise SystemExit("the undisturbed extraction failed")
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        wall = time.perf_counter() - begin
        print(f"undisturbed: {given.images:,} rows in {cpu:.1f} CPU s, {wall:.1f} s of wall")
        for share in (1 / 3, 2 / 3):
            process = extracting(folder, killed)
            first, last = until(process, int(share * given.images))
            code = end(process, signal.SIGKILL)
            print(f"told of {first:,} to {last:,} rows, then SIGKILL (status {code})")
        process = extracting(folder, killed)
        first, last = until(process, given.images)
        print(f"told of {first:,} to {last:,} rows, status {end(process)}")
        return differences(whole, killed, [file.name for file in files])


def differences(whole: Path, killed: Path, ids: list[str]) -> int:
    """Print what differs; 1 if anything does."""
    faults = 0
    for store in (whole, killed):
        found = parquet.read_table(store / "rows.parquet").column("id").to_pylist()
        lost, doubled = len(set(ids) - set(found)), len(found) - len(set(found))
        rows = len(open_store(store).values)
        print(f"{store.name}: {rows:,} rows of values, {len(found):,} ids, {lost} lost, {doubled} doubled")
        faults += found != ids or rows != len(ids)
    names = sorted({path.name for store in (whole, killed) for path in store.iterdir()})
    for name in names:
        one, other = whole / name, killed / name
        if name == "store.json":
            continue
        same = one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()
        print(f"{name}: {one.stat().st_size if one.is_file() else 0:,} bytes, {'equal' if same else 'NOT EQUAL'}")
        faults += not same
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
