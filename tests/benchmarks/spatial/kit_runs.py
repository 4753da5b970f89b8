"""Runs benchmarks from VLMEvalKit's tables by the command, each killed half way and once more; see `killed_runs`.

Called with a folder and names; prints one JSON line a benchmark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    from benchmarks.spatial import killed_runs, kit_drawn

    root, names = Path(sys.argv[1]), sys.argv[2:]
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: F401 - it imports parts as they are named

    import snellen.models.local.generate  # noqa: F401

    torch.set_num_threads(1)
    for name in names:
        data, out, log = kit_drawn.draw(name, root / "data"), root / "runs" / name, root / f"{name}.log"
        words, total = killed_runs.asked(data, name, out), kit_drawn.COUNTS[name]
        first = killed_runs.ended(killed_runs.begun(words, log), out / "results.jsonl", max(1, total // 3))
        before = (out / "results.jsonl").read_bytes().count(b"\n")
        second = killed_runs.ended(killed_runs.begun(words, log), out / "results.jsonl", 0)
        told = {"name": name, "total": total, "killed": first is None, "before": before, "code": second}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
