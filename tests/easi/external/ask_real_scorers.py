"""Runs under an interpreter that has lmms-eval: its own scorers over questions and replies, written as it logs samples.

    python ask_real_scorers.py CASES OUT

CASES is JSON: benchmark to [[row of the authors' file, reply] …]; OUT gets `samples_<benchmark>.jsonl`. A benchmark whose
scorer cannot be loaded (OmniSpatial's wants the hub) or that does not take a row is told on standard output.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import lmms_eval  # type: ignore[import-not-found]

SCORERS = {
    "vsi-bench": ("vsibench", "vsibench_process_results", "ground_truth"),
    "mmsi-bench": ("mmsi_bench", "msr_process_results", "answer"),
    "mindcube-tiny": ("mindcube", "mindcube_process_results", "gt_answer"),
    "viewspatial": ("viewspatial", "viewspatial_process_results", "answer"),
    "site": ("sitebench", "spatial_process_results", "answer"),
    "blink": ("blink", "blink_process_results", "answer"),
    "3dsrbench": ("3dsrbench", "process_results", "answer"),
    "embspatial": ("embspatial", "embspatial_process_results", "answer"),
    "mmsi-video-bench": ("mmsi_video", "process_results", "ground_truth"),
    "omnispatial": ("omnispatial", "omnispatial_process_results", "gt"),
    "spar-bench": ("sparbench", "sparbench_process_results", "answer"),
    "vsi-debiased": ("vsibench", "vsibench_process_results", "ground_truth"),
}
"""Benchmark to the folder of its task, its scorer, and the column that the sample's target is of."""


def loaded(folder: str) -> ModuleType:
    path = Path(lmms_eval.__file__).parent / "tasks" / folder / "utils.py"
    spec = importlib.util.spec_from_file_location(f"task_{folder}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(cases: Path, out: Path) -> None:
    for name, rows in json.loads(cases.read_text()).items():
        folder, scorer, target = SCORERS[name]
        try:
            score = getattr(loaded(folder), scorer)
        except Exception as error:  # noqa: BLE001 - whatever a task's module does on its way
            print(f"{name}: not loaded: {type(error).__name__}")
            continue
        with (out / f"samples_{name}.jsonl").open("w") as file:
            for at, (row, reply) in enumerate(rows):
                doc = {"grounded_output": row.get("gt_answer"), **row}
                row = {"doc_id": at, "target": str(doc[target]), "filtered_resps": reply, **score(doc, [reply])}
                file.write(json.dumps({**row, "input": str(doc.get("question"))}, default=str) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
