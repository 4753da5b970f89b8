"""Exact leave-one-out retrieval beside the plain matrix product, a naive argsort and pytorch-metric-learning.

The product of all pairs is a reference and no strict floor: in leave-one-out the matrix is symmetric, `retrieval` forms
each product once and uses it by rows and by columns, and so does half of its multiplications. It can therefore be beaten;
what is left over is spent on the ranks.

Features of N rows, 1,024 columns and N / 60 classes lie in a file that each step maps. Product and retrieval are timed
in one process, in turns, and the least of some rounds counts; peak memory, and the times of the slow ones, are those
of a process for each step. Wall and CPU seconds (imports left out) and memory are read from the operating system.
Usage: python bench/retrieval.py [N] [--peers]     (--peers: pytorch-metric-learning, too; a minute and 11 GB at 12,000)
"""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, PER_CLASS = 1024, 60


def write(folder: Path, rows: int) -> None:
    """Classes around centres, close enough to each other that positives lie deep in the ranking."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(rows) // PER_CLASS)
    centres = 0.12 * rng.standard_normal((int(labels.max()) + 1, WIDTH), dtype=np.float32)
    out = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.float32, shape=(rows, WIDTH))
    for start in range(0, rows, 4096):
        part = labels[start : start + 4096]
        out[start : start + 4096] = centres[part] + rng.standard_normal((len(part), WIDTH), dtype=np.float32)
    np.save(folder / "y.npy", labels)


def product(x: Any, y: Any) -> Callable[[], float]:
    """The whole matrix of products, a block at a time, nothing kept."""

    def go() -> float:
        out = np.empty((1024, len(x)), dtype=np.float32)
        for start in range(0, len(x), 1024):
            block = x[start : start + 1024]
            np.matmul(block, x.T, out=out[: len(block)])
        return float("nan")

    return go


def ours(x: Any, y: Any) -> Callable[[], float]:
    """Full-rank mAP and everything that comes with it."""
    from snellen.features.retrieval import retrieval

    return lambda: float(retrieval(x, y).metrics()[0].value or 0.0)


def argsort(x: Any, y: Any) -> Callable[[], float]:
    """The whole matrix of similarities, and an argsort of each of its rows."""

    def go() -> float:
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        scores = unit @ unit.T
        np.fill_diagonal(scores, -np.inf)
        total = 0.0
        for query, row in enumerate(scores):
            ranks = np.flatnonzero((y == y[query])[np.argsort(-row)[:-1]]) + 1
            total += float((np.arange(1, len(ranks) + 1) / ranks).mean())
        return total / len(x)

    return go


def metric_learning(x: Any, y: Any) -> Callable[[], float]:
    """pytorch-metric-learning's AccuracyCalculator with all neighbours, which its full mAP needs."""
    import torch
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    calculator = AccuracyCalculator(
        include=("mean_average_precision",), k=None, knn_func=CustomKNN(CosineSimilarity(), batch_size=1024)
    )
    features, labels = torch.from_numpy(np.array(x)), torch.from_numpy(np.array(y))
    return lambda: float(calculator.get_accuracy(features, labels)["mean_average_precision"])


def timed(go: Callable[[], float]) -> dict[str, float]:
    """One step, once."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = go()
    return {"map": value, "wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def rounds(steps: list[str], folder: Path, count: int) -> dict[str, dict[str, float]]:
    """Steps in turns in this process: the least of their times, and the peak memory of all."""
    x, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    every = {"product": product, "retrieval": ours, "argsort": argsort, "metric-learning": metric_learning}
    ready = {step: every[step](x, y) for step in steps}
    best: dict[str, dict[str, float]] = {}
    for _ in range(count):
        for step, go in ready.items():
            found = timed(go)
            known = best.setdefault(step, found)
            best[step] = {key: min(value, known[key]) for key, value in found.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {step: {**found, "peak_mb": peak} for step, found in best.items()}


def measure(steps: list[str], folder: Path, count: int) -> dict[str, dict[str, float]]:
    """Steps in turns in a process of their own."""
    command = [sys.executable, __file__, "--steps", ",".join(steps), str(folder), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    if "--steps" in sys.argv:
        _, _, names, folder_name, count = sys.argv
        print(json.dumps(rounds(names.split(","), Path(folder_name), int(count))))
        return
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    rows = int(numbers[0]) if numbers else 12_000
    # A product or a ranking is a matter of seconds at 12,000 rows, and of minutes at 50,000.
    turns = 9 if rows <= 15_000 else 1
    peers = []
    if rows > 15_000:
        print(f"argsort and pytorch-metric-learning are left out: {rows:,} rows need tens of gigabytes there")
    else:
        peers.append("argsort")
        if "--peers" in sys.argv and importlib.util.find_spec("pytorch_metric_learning"):
            peers.append("metric-learning")
        elif "--peers" in sys.argv:
            print("pytorch-metric-learning is not installed: pip install --no-deps pytorch-metric-learning")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, rows)
        best = measure(["product", "retrieval"], folder, turns)
        # Peak memory is that of a process; what takes minutes is not done a second time for the product's.
        for step in ("product", "retrieval") if rows <= 15_000 else ("retrieval",):
            best[step]["peak_mb"] = measure([step], folder, 1)[step]["peak_mb"]
        for step in peers:
            best.update(measure([step], folder, 1))
    print(f"{rows:,} rows, {WIDTH:,} columns, {PER_CLASS} rows a class; leave-one-out, all ranks; {turns} rounds")
    print(f"{'step':<17}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}{'wall / product':>16}{'CPU / product':>15}{'mAP':>14}")
    floor = best["product"]
    for step, row in best.items():
        print(
            f"{step:<17}{row['wall_s']:>8.2f}{row['cpu_s']:>8.2f}{row['peak_mb']:>9.0f}"
            f"{row['wall_s'] / floor['wall_s']:>16.2f}{row['cpu_s'] / floor['cpu_s']:>15.2f}{row['map']:>14.9f}"
        )


if __name__ == "__main__":
    main()
