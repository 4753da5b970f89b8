"""Stands in for an interpreter that has lmms-eval: writes what a plan says in lmms-eval's files, or fails as asked.

The plan is the JSON file that STAND_IN_PLAN names: task to {"samples": {task: rows}, "results", "groups", "original", "say",
"status", "hang", "spawn"}. What it was called with goes to STAND_IN_CALLS, one JSON line a call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(argv: list[str]) -> int:
    if argv[:1] == ["-c"]:
        if os.environ.get("STAND_IN_MISSING"):
            return 7
        print("0.7.3")
        return 0
    call = {
        "argv": argv,
        "hf_transfer": os.environ.get("HF_HUB_ENABLE_HF_TRANSFER"),
        "key": "OPENAI_API_KEY" in os.environ,
    }
    with Path(os.environ["STAND_IN_CALLS"]).open("a") as calls:
        calls.write(json.dumps(call) + "\n")
    argv = argv[argv.index("lmms_eval") + 1 :]
    given = {name: argv[at + 1] for at, name in enumerate(argv[:-1]) if name.startswith("--") and "=" not in name}
    task, folder = given["--tasks"], Path(given["--output_path"]) / "org__model"
    plan = json.loads(Path(os.environ["STAND_IN_PLAN"]).read_text())[task]
    for line in plan.get("say", []):
        print(line, flush=True)
    if plan.get("spawn"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(plan["spawn"]).write_text(f"{os.getpid()} {child.pid}")
    if plan.get("hang"):
        time.sleep(3600)
    if plan.get("samples") is not None:
        folder.mkdir(parents=True)
        for name, rows in plan["samples"].items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"20261121_120000_samples_{name}.jsonl").write_text(text)
    if plan.get("results") is not None:
        sizes = {
            name: {"original": plan["original"][name], "effective": len(rows)} for name, rows in plan["samples"].items()
        }
        whole = {"results": plan["results"], "group_subtasks": plan.get("groups", {}), "n-samples": sizes}
        (folder / "20261121_120000_results.json").write_text(json.dumps(whole))
    return int(plan.get("status", 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
