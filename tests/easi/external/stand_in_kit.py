"""Stands in for VLMEvalKit's run.py: writes what a plan says in the kit's tables, or fails as asked.

The plan is the JSON file that STAND_IN_PLAN names: data set to {"rows", "scored", "acc", "acc_name", "comma", "judged",
"judged_acc", "say", "judge_says", "judge_files"}. The last two are what a judge run prints and which files it writes (`own`,
`rules`, or `result`: the table that BLINK has under a judge's name even without one). A data set that it does not have fails
as the kit's do: said in the log, and the exit status is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import openpyxl

Rows = list[dict[str, Any]]


def sheet(path: Path, rows: Rows) -> None:
    book = openpyxl.Workbook()
    columns = list(rows[0])
    book.active.append(columns)
    for row in rows:
        book.active.append([row[column] for column in columns])
    book.save(path)


def table(path: Path, figures: dict[str, float], mark: str) -> None:
    path.write_text(mark.join(figures) + "\n" + mark.join(map(str, figures.values())) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+")
    for name in ("--model", "--work-dir", "--judge"):
        parser.add_argument(name)
    parser.add_argument("--reuse", action="store_true")
    given, _ = parser.parse_known_args()
    call = {
        "argv": sys.argv[1:],
        "tables": os.environ.get("LMUData"),  # noqa: SIM112 - the kit spells it so
        "waits": os.environ.get("DIST_TIMEOUT"),
    }
    with Path(os.environ["STAND_IN_CALLS"]).open("a") as calls:
        calls.write(json.dumps(call) + "\n")
    plans = json.loads(Path(os.environ["STAND_IN_PLAN"]).read_text())
    root = Path(given.work_dir) / given.model
    run = root / "T20261121_G0123abcd"
    run.mkdir(parents=True, exist_ok=True)
    for data in given.data:
        plan = plans.get(data)
        if plan is None:
            print(
                f"[2026-11-21 12:00:00] ERROR - run.py: Model {given.model} x Dataset {data} combination failed: "
                "CUDA out of memory. Tried to allocate 2.00 GiB, skipping this combination."
            )
            continue
        for line in plan.get("say", []):
            print(line)
        stem = f"{given.model}_{data}"
        made = []
        if given.judge == "exact_matching":
            sheet(run / f"{stem}.xlsx", plan["rows"])
            sheet(run / f"{stem}_extract_matching.xlsx", plan["scored"])
            name = plan.get("acc_name", f"{stem}_extract_matching_acc.csv")
            table(run / name, plan["acc"], "," if plan.get("comma") else "\t")
            made = [f"{stem}.xlsx", f"{stem}_extract_matching.xlsx", name]
        else:
            tag = f"{stem}_llm_{given.judge}"
            for line in plan.get("judge_says", []):
                print(line)
            kind = plan.get("judge_files", "own")
            if kind == "own":
                sheet(run / f"{tag}.xlsx", plan["judged"])
                table(run / f"{tag}_acc.csv", plan["judged_acc"], "\t")
            elif kind == "result":
                sheet(run / f"{stem}_{given.judge}_result.xlsx", plan["judged"])
                table(run / f"{stem}_acc.csv", plan["judged_acc"], ",")
            else:
                sheet(run / f"{stem}_extract_matching.xlsx", plan["scored"])
                table(run / f"{stem}_extract_matching_acc.csv", plan["acc"], "\t")
        for name in made:
            link = root / name
            link.unlink(missing_ok=True)
            link.symlink_to((run / name).absolute())
    return int(plans.get("status", 0))


if __name__ == "__main__":
    sys.exit(main())
