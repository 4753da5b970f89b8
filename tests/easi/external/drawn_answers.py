"""Answers in the two harnesses' formats, few enough to be counted by hand: what they gave each row stands beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snellen.easi.external import HarnessSettings

HERE = Path(__file__).parent
Row = dict[str, Any]


def environment(folder: Path, monkeypatch: Any, plan: Mapping[str, Any]) -> Path:
    """A folder with stand-ins in bin/ and VLMEvalKit/ that follow the plan; returned is the file of their calls."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("python", "accelerate"):
        program = programs / name
        program.write_text(f"#!{sys.executable}\n" + (HERE / "stand_in_lmms.py").read_text())
        program.chmod(0o755)
    kit = folder / "VLMEvalKit"
    (kit / "vlmeval").mkdir(parents=True, exist_ok=True)
    (kit / "run.py").write_text((HERE / "stand_in_kit.py").read_text())
    (kit / "vlmeval" / "__init__.py").write_text("__version__ = '0.2rc1'\n")
    (folder / "plan.json").write_text(json.dumps(plan))
    calls = folder / "calls.jsonl"
    calls.touch()
    monkeypatch.setenv("STAND_IN_PLAN", str(folder / "plan.json"))
    monkeypatch.setenv("STAND_IN_CALLS", str(calls))
    return calls


def lmms_settings(folder: Path, **changes: Any) -> HarnessSettings:
    given: dict[str, Any] = {
        "model": "qwen3_vl",
        "model_args": "pretrained=org/model",
        "out": folder / "out",
        "python": folder / "bin" / "python",
        "accelerate": False,
    }
    return HarnessSettings(**{**given, **changes})


def kit_settings(folder: Path, **changes: Any) -> HarnessSettings:
    given: dict[str, Any] = {
        "model": "Qwen3-VL",
        "out": folder / "out",
        "home": folder / "VLMEvalKit",
        "dataset_dir": folder / "LMUData",
    }
    return HarnessSettings(**{**given, **changes})


def called(calls: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in calls.read_text().splitlines()]


def embspatial_row(at: int, reply: str, gold: int, source: str, correct: bool) -> Row:
    """One line as lmms-eval 0.7.3 writes it: no doc, the reply as a text, the scorer's object under each metric."""
    letter = "ABCD"[gold]
    kept = {
        "id": f"{source}_{at}",
        "gt_content": letter,
        "pred": reply,
        "sub_task": "above",
        "is_correct": correct,
        "data_source": source,
    }
    return {
        "doc_id": at,
        "target": str(gold),
        "filtered_resps": reply,
        "doc_hash": "0" * 64,
        "embspatial_acc": kept,
        "ai2thor_accuracy": kept,
        "input": f"Only a letter.\nWhere is cup {at}?\nA) left\nB) right\nC) front\nD) back",
    }


EMBSPATIAL = [
    embspatial_row(0, "A", 0, "ai2thor", True),
    embspatial_row(1, "B.", 1, "mp3d", True),
    embspatial_row(2, "(D)", 2, "scannet", False),
    embspatial_row(3, "The answer is D", 3, "mp3d", False),
]
"""Two of four right, as lmms-eval reads them: only a letter at the start counts."""


def embspatial(rows: list[Row] = EMBSPATIAL, *, original: int = 4, score: float = 0.5) -> Row:
    """The plan of a task that goes well."""
    figures = {"embspatial_acc,none": score, "alias": "embspatial", "embspatial_acc_stderr,none": "N/A"}
    return {
        "samples": {"embspatial": rows},
        "results": {"embspatial": figures},
        "groups": {"embspatial": []},
        "original": {"embspatial": original},
    }


def site_row(at: int, reply: str, gold: str, n: int, score: float, category: str = "counting & existence") -> Row:
    share = 1.0 / n
    letters = "ABCDEF"[:n]
    return {
        "doc_id": at,
        "target": gold,
        "filtered_resps": [reply],
        "accuracy": {"overall": score, category: score, "blink_set": score, "total": 1},
        "chance_adjusted_acc": {
            "overall": score - share,
            category: score - share,
            "blink_set": score - share,
            "total": 1 - share,
        },
        "input": "Question: how many?\nOptions:\n"
        + "\n".join(f"{letter}: {letter.lower()} of them" for letter in letters),
    }


SITE_IMAGE = [site_row(0, "A", "A", 2, 1.0), site_row(1, "B", "A", 4, 0.0)]
SITE_VIDEO = [site_row(0, "C", "C", 4, 1.0)]
"""Pooled: (1 - 1/2 + 0 - 1/4 + 1 - 1/4) / (1/2 + 3/4 + 3/4) = 1.0 / 2.0."""


def site(task: str, rows: list[Row], original: int | None = None) -> Row:
    return {
        "samples": {task: rows},
        "results": {task: {"accuracy,none": 50.0}},
        "original": {task: len(rows) if original is None else original},
    }


def vsi_rows() -> list[Row]:
    """Three questions whose whole row the scorer keeps, as VSI-Bench's does; 1, 0.9 and 0."""
    choice = {"question_type": "object_rel_distance", "options": ["A. cup", "B. box"], "ground_truth": "B"}
    number = {"question_type": "object_counting", "options": None, "ground_truth": "10"}
    route = {"question_type": "route_planning", "options": ["A. left", "B. right"], "ground_truth": "A"}
    rows = []
    for at, (doc, reply, metric, value) in enumerate(
        [(choice, "B", "accuracy", 1.0), (number, "9", "MRA:.5:.95:.05", 0.9), (route, "(A)", "accuracy", 0.0)]
    ):
        kept = {**doc, "id": at, "dataset": "scannet", "scene_name": "s0", "question": "How?", "prediction": reply}
        kept |= {metric: value}
        rows.append({"doc_id": at, "target": kept["ground_truth"], "filtered_resps": reply, "vsibench_overall": kept})
    return rows


MMSI = [("A", "A", 1.0), ("`B`", "B", 1.0), ("C", "D", 0.0), ("I cannot tell.", "A", 0.0)]


def kit_rows(answers: list[tuple[str | None, str, float]] = MMSI) -> Row:
    """The plan of MMSI-Bench in the kit's tables, tab-separated figures and all."""
    rows = [
        {
            "index": at,
            "question": f"Which way is object {at}?",
            "A": "left",
            "B": "right",
            "C": "front",
            "D": "back",
            "category": ("MSR", "Pos-Cam-Cam")[at % 2],
            "answer": gold,
            "prediction": reply,
        }
        for at, (reply, gold, _) in enumerate(answers)
    ]
    scored = [
        {**row, "pred_extracted": row["prediction"], "hit": hit} for row, (_, _, hit) in zip(rows, answers, strict=True)
    ]
    acc = {"overall": 100 * sum(hit for *_, hit in answers) / len(answers)}
    return {"rows": rows, "scored": scored, "acc": acc}


def kit_table(folder: Path, name: str, count: int) -> None:
    """The kit's table of questions, of which only the number of rows is of interest here."""
    tables = folder / "LMUData"
    tables.mkdir(exist_ok=True)
    lines = ["index\tquestion\tanswer", *(f"{at}\tHow?\tA" for at in range(count))]
    (tables / f"{name}.tsv").write_text("\n".join(lines) + "\n")
