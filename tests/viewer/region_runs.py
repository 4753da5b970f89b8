"""Runs of questions with coordinates: a small box in a large image, a turned photograph, twenty boxes, points, a polygon and a mask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import snellen
from snellen.runs.run import Run

SMALL, TURNED = (3000, 2200, 3006, 2206), (440, 500, 540, 700)
TWENTY = [(20 + 230 * (at % 5), 20 + 190 * (at // 5), 180 + 230 * (at % 5), 150 + 190 * (at // 5)) for at in range(20)]
POLYGON = [[100, 80], [300, 60], [340, 260], [120, 300]]
BOXES = {"small": ("big.jpg", SMALL), "turned": ("turned.jpg", TURNED), "none": ("plain.png", (40, 40, 200, 160))}
REPLIES = {"small": (3003, 2201, 3010, 2207), "turned": (440, 500, 540, 680)}


def photograph(path: Path, width: int, height: int, **saved: Any) -> None:
    down, across = np.mgrid[0:height, 0:width]
    waves = [
        120 + 80 * np.sin(across / width * 7),
        110 + 70 * np.cos(down / height * 5),
        90 + 60 * np.sin(down / height * 9),
    ]
    Image.fromarray(np.stack(waves, -1).clip(0, 255).astype(np.uint8)).save(path, **saved)


def write_images(folder: Path) -> Path:
    folder.mkdir(parents=True)
    turned = Image.Exif()
    turned[0x112] = 6  # the camera was held upright: 800 x 600 is shown as 600 x 800
    photograph(folder / "big.jpg", 4000, 3000)
    photograph(folder / "turned.jpg", 800, 600, exif=turned)
    photograph(folder / "twenty.png", 1200, 800)
    photograph(folder / "plain.png", 640, 480)
    down, across = np.mgrid[0:480, 0:640]
    ring = (np.hypot(across - 320, down - 240) < 150) & (np.hypot(across - 320, down - 240) > 70)
    Image.fromarray(255 * ring.astype(np.uint8)).save(folder / "ring.png")
    return folder


def asked(root: Path, name: str, rows: list[dict[str, Any]], replies: dict[str, Any], **options: str) -> Run:
    """Write a table and the run of these replies to it."""
    table = root / f"{name}.jsonl"
    table.write_text("\n".join(json.dumps({"question": "Where is it?", **row}) for row in rows))
    lines = [
        {"id": id_, "reply": reply if isinstance(reply, str) else json.dumps(reply)} for id_, reply in replies.items()
    ]
    (root / f"{name}-replies.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = {"coordinates": "pixel", "gold-space": "pixel:xyxy", **options}
    return snellen.evaluate(
        str(table),
        f"replay:{root / f'{name}-replies.jsonl'}",
        images=root / "images",
        out=root / "results" / name,
        benchmark_options=options,
    )


def box_run(root: Path) -> Run:
    rows = [{"id": id_, "image": image, "answer": list(box)} for id_, (image, box) in BOXES.items()]
    return asked(
        root,
        "box",
        rows,
        {id_: {"bbox_2d": REPLIES[id_], "label": "dog"} if id_ in REPLIES else "I see none." for id_ in BOXES},
    )


def twenty_run(root: Path) -> Run:
    rows = [{"id": "twenty", "image": "twenty.png", "answer": [list(box) for box in TWENTY]}]
    moved = [[x + 25 * (at % 4), y + 10, z + 25 * (at % 4), w + 10] for at, (x, y, z, w) in enumerate(TWENTY)]
    return asked(
        root, "twenty", rows, {"twenty": [{"bbox_2d": box, "label": "<b>dog</b>"} for box in moved]}, kind="boxes"
    )


def point_run(root: Path) -> Run:
    golds = {"point": [320, 240], "polygon": POLYGON, "mask": "ring.png", "corner": [0, 0]}
    rows = [
        {"id": id_, "image": "plain.png", "answer": gold if isinstance(gold, str) else json.dumps(gold)}
        for id_, gold in golds.items()
    ]
    replies = {
        "point": {"point": [330, 300]},
        "polygon": {"point": [200, 150]},
        "mask": {"point": [320, 240]},
        "corner": {"point": [638, 2]},
    }
    return asked(root, "point", rows, replies, kind="point")
