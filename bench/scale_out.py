"""Answers a second with one process and with workers, of the embedded model over the chart.

    python bench/scale_out.py [--limit 600] [--nproc 2] [--json FILE]

The rate is that of the asking alone: starting Ray and loading are left out, and printed beside it. Wall time, in one run
after the other on the same machine, so that the ratio means more than the rates. The embedded model is so small that
asking, drawing and batching weigh as much as answering; workers gain most where the model is slow.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from snellen import evaluate
from snellen.engine.run_folder import RunFolder


def measured(folder: Path, limit: int, nproc: int) -> dict[str, float]:
    """{nproc, rate in answers a second, seconds before the first question and after the last}."""
    began = time.perf_counter()
    evaluate("chart", "embedded", out=folder, limit=limit, nproc=nproc)
    whole = time.perf_counter() - began
    records = list(RunFolder(folder).records())
    asking = max(r.finished_at for r in records) - min(r.started_at for r in records)
    return {"nproc": nproc, "rate": round(len(records) / asking, 1), "around_s": round(whole - asking, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(Path(folder) / str(n), asked.limit, n) for n in (1, asked.nproc)]
    found = {"cpus": os.cpu_count(), "runs": rows, "ratio": round(rows[1]["rate"] / rows[0]["rate"], 2)}
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
