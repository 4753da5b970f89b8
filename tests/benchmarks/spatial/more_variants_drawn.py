"""Variants of the payload's sets, drawn small: the whole MindCube, the tiny SPAR-Bench, OmniSpatial's prompts, BLINK's rotations."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from benchmarks.spatial import kit_drawn, official_drawn
from benchmarks.spatial.more_parts import LETTERED, TEXT, Drawn, Holds, Part, Row
from benchmarks.spatial.official_drawn import PICTURE, SIDES, cell, parquet, picture


def _base(name: str, where: Path, kit: bool, table: str) -> Drawn:
    """The drawing of a set of the payload, its table of the kit's under this name."""
    path = (kit_drawn if kit else official_drawn).draw(name, where)
    for file in path.glob("*.tsv"):
        file.rename(path / table)
    return Drawn(path)


def mindcube(where: Path, kit: bool) -> Drawn:
    drawn = _base("mindcube-tiny", where, kit, "MindCubeBench_raw_qa.tsv")
    if kit:
        with (drawn.path / "MindCubeBench_raw_qa.tsv").open(encoding="utf-8", newline="") as file:
            rows: list[Row] = list(csv.DictReader(file, delimiter="\t"))
    else:
        lines = (drawn.path / "MindCube_raw_qa.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
    for at, row in enumerate(rows):
        first = 0 if at == 4 else at  # the fifth of the authors' rows has the pictures of the first
        parts: list[Part] = []
        for view, piece in enumerate(row["input_prompt"].split("<image>")):
            parts += [picture(first * 7 + view - 1, "JPEG")] if view else []
            parts += [piece.strip()] if piece.strip() else []
        drawn.shown[row["index"] if kit else row["id"]] = tuple(parts)
    return drawn


def spar(where: Path, kit: bool) -> Drawn:
    drawn = _base("spar-bench", where, kit, "SparBench_tiny.tsv")
    for at in range(20):
        drawn.shown[str(at)] = (*(picture(at + turn) for turn in range(1 + at % 3)), Holds((f" {at}",)))
    return drawn


def omnispatial(words: str, where: Path, kit: bool) -> Drawn:
    """`words` stand in front of the question or, as those of the direct form, behind it."""
    drawn = _base("omnispatial", where, kit, "OmniSpatialBench.tsv")
    for at in range(10):
        asked = "\n".join([f"Which part fits, {at}?", *LETTERED[: 2 + at % 3]])
        pieces = (f"{asked}\n", words) if words.startswith("Reply") else (words, f"\n\n{asked}")
        drawn.shown[str(at) if kit else f"{at}_0"] = (picture(at), Holds(pieces))
    return drawn


def blink(where: Path, kit: bool) -> Drawn:
    """The authors give plain questions; the kit's table has each in every rotation, with the picture in the first."""
    drawn = Drawn(where)
    rows: list[Row] = []
    for at, (kind, many) in enumerate((("Counting", 2), ("Jigsaw", 4))):
        for turn in range(many):
            texts = [*SIDES[turn:many], *SIDES[:turn]]
            index = turn * 1_000_000 + at
            cells: Row = {letter: texts[n] if n < many else None for n, letter in enumerate("ABCD")}
            own: Row = {"index": index, "image": str(at) if turn else kit_drawn.text(at), "question": f"Which, {at}?"}
            rows.append({**own, **cells, "category": kind, "answer": "ABCD"[-turn % many]})
            listed = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", texts, strict=False))
            drawn.shown[str(index)] = (picture(at), Holds((f"Question: Which, {at}?\nOptions:\n{listed}\n",)))
    kit_drawn.tsv(where / "BLINK_circular.tsv", rows)
    return drawn


def corecognition(where: Path, kit: bool) -> Drawn:
    """The configuration in which a clip is one picture of its frames; no kit has a table of it."""
    drawn = Drawn(where)
    rows: list[Row] = []
    asked = {"MC": "Which is behind the door? A. a cup B. a dog", "TF": "Is the cup still there? Answer YES or NO."}
    stages = ("Stage Sensorimotor", "Stage Concrete Operational", "Stage Formal Operational")
    for at, (form, concept) in enumerate(
        (("MC", "Permanence"), ("TF", "Permanence"), ("MC", "Tool Use"), ("TF", "Boundary"))
    ):
        own = {
            "id": f"a{at}",
            "type": form,
            "concept": concept,
            "stage": stages[at % 3],
            "answer": {"MC": "B", "TF": "NO"}[form],
        }
        rows.append({**own, "prompt": asked[form], "images": cell(at)})
        drawn.shown[f"a{at}"] = (picture(at), asked[form])
    columns = dict.fromkeys(("id", "type", "concept", "stage", "answer", "prompt"), TEXT)
    parquet(where / "frame-combined" / "train-00000-of-00001.parquet", rows, {**columns, "images": PICTURE})
    return drawn
