"""Small runs over a CSV of three questions with images, asked of a scripted server, so that they have traces."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture
from run_folders import append

from servers.scripted import Say, ScriptedServer
from snellen.models.trace import Step, plain
from snellen.runs.evaluate import evaluate
from snellen.runs.run import Run
from snellen.types import Record, Response

IDS = ("q1", "q/2 ö", "q3")
ANSWERS = ("A", "B", "C")


def photo(seed: int, size: tuple[int, int] = (96, 64)) -> bytes:
    """Return a PNG of coloured blocks."""
    blocks = np.random.default_rng(seed).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    out = io.BytesIO()
    Picture.fromarray(blocks).resize(size, Picture.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def write_questions(folder: Path, ids: tuple[str, ...] = IDS, name: str = "birds.csv") -> Path:
    """Write a table of multiple-choice questions with an image each; the right letters are those of `ANSWERS`, in turn."""
    (folder / "pics").mkdir(parents=True, exist_ok=True)
    table = folder / name
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "image", "question", "A", "B", "C", "answer", "topic"])
        for number, sample_id in enumerate(ids):
            (folder / "pics" / f"{number}.png").write_bytes(photo(number))
            rows.writerow(
                [sample_id, f"pics/{number}.png", f"Which bird is this, no. {number}? <r{number}>", "wren", "robin", "barn owl",
                 ANSWERS[number % 3], ("small", "large")[number % 2]]
            )  # fmt: skip
    return table


def ask(table: Path, out: Path, replies: list[str], model: str = "m", **settings: Any) -> Run:
    """Run the questions with a server that gives these replies, one a question."""
    scripts = {f"r{number}": [Say(reply)] for number, reply in enumerate(replies)}
    with ScriptedServer({model: [Say("A")], **scripts}) as server:
        return evaluate(str(table), f"api:{model}", base_url=server.url, out=out, concurrency=1, **settings)


def write_trace(run: Path, sample_id: str, steps: list[Step]) -> None:
    """Replace the traces of a run by the steps of an agent about one sample."""
    (run / "traces").mkdir(exist_ok=True)
    line = {"sample_id": sample_id, "repeat": 0, "attempt": 1, "trace": plain(steps)}
    (run / "traces" / "00000.jsonl").write_text(json.dumps(line) + "\n")


def write_judged(run: Path, sample_id: str, verdict: str, *, at: float) -> Path:
    """Write the run of a judge about one reply of a run, with its question; `at` is when it was asked."""
    judged = run.with_name(f"{run.name}_judged")
    append(judged, [Record(sample_id, "ok", response=Response(verdict), started_at=at, finished_at=at + 1)])
    meta = json.loads((run / "run_meta.json").read_text())
    meta["spec"] |= {"benchmark": "judged", "model": "api:the-judge"}
    meta["spec"]["data"] = {"path": str(run), "options": {"rubric": "match"}}
    (judged / "run_meta.json").write_text(json.dumps(meta))
    for name, text in (("raw_judge_inputs", "Is this reply right?"), ("raw_judge_outputs", verdict)):
        (judged / name).mkdir()
        line = {"sample_id": sample_id, "attempt": 1, "system": "You judge.", "text": text}
        (judged / name / "00000.jsonl").write_text(json.dumps(line) + "\n")
    return judged
