"""Small runs over a CSV of three questions with images, asked of a scripted server, so that they have traces."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture

from servers.scripted import Say, ScriptedServer
from snellen.runs.evaluate import evaluate
from snellen.runs.run import Run

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
