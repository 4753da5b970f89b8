"""Small drawn sets of clips in the official layout: what a judge decides, and questions in lists by their video."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from authors_files_drawn import MLVU, write
from video_sets_drawn import event_clip

OPTIONS = "A. growing\nB. turning\nC. falling"
CAPTION = "You will be presented with a video and several pieces of information.\nInformation A: {'action': 'turning'}\nGenerated Caption:"


def draw_captions(folder: Path) -> Path:
    """Write four captions of TempCompass in the hub's layout, whose gold options are A, B, C and A."""
    rows = [
        {
            "video_id": f"clip_{number}", "question": f"{number}. {CAPTION}", "answer": "B. turning", "dim": ("action", "order")[number % 2],
            "mc_question": f"What is shown in {number}?\n{OPTIONS}", "mc_answer": OPTIONS.split("\n")["ABC".index(letter)],
        }
        for number, letter in enumerate("ABCA")
    ]  # fmt: skip
    (folder / "captioning").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "captioning/test-00000-of-00001.parquet")
    with zipfile.ZipFile(folder / "tempcompass_videos.zip", "w") as archive:
        for number in range(4):
            archive.writestr(f"videos/clip_{number}.mp4", event_clip(number))
    return folder


def draw_generation(folder: Path) -> Path:
    """Write two scenes and a summary of MLVU dev as its files lie on the hub."""
    scene = {"duration": 9.0, "answer": "It turns white.", "question_type": "subPlot"}
    scenes = [
        scene | {"question": f"Describe scene {n}.", "scoring_points": [f"point {n}a", f"point {n}b"]} for n in (0, 1)
    ]
    summary: dict[str, Any] = {
        "duration": 9.0,
        "question": "Summarize 2.",
        "answer": "All of it.",
        "question_type": "summary",
    }
    files = {"8_sub_scene": scenes, "9_summary": [summary]}
    (folder / "MLVU/json").mkdir(parents=True)
    for name, rows in files.items():
        (folder / f"MLVU/video/{name}").mkdir(parents=True)
        for number, row in enumerate(rows):
            row["video"] = f"clip_{number}.mp4"
            (folder / f"MLVU/video/{name}/clip_{number}.mp4").write_bytes(event_clip(number))
        (folder / f"MLVU/json/{name}.json").write_text(json.dumps(rows))
    return folder


def draw_lists(folder: Path) -> Path:
    """Write two videos of LVBench as the authors' file has them, with their questions, and the clips in a folder."""

    def asked(uid: int, answer: str, kinds: list[str]) -> dict[str, Any]:
        question = f"What comes after {uid}?\n(A) a man\n(B) a dog\n(C) a car\n(D) rain"
        return {
            "uid": str(uid),
            "question": question,
            "answer": answer,
            "question_type": kinds,
            "time_reference": "00:15-00:19",
        }

    lists = {
        "Cm73ma6Ibcs": [asked(0, "A", ["entity recognition"]), asked(1, "B", ["reasoning", "event understanding"])],
        "b7VQ": [asked(2, "C", ["reasoning"])],
    }
    rows = [
        {"key": key, "type": "cartoon", "video_info": {"fps": 25.0}, "qa": several} for key, several in lists.items()
    ]
    (folder / "videos").mkdir(parents=True)
    (folder / "video_info.meta.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for number, key in enumerate(lists):
        (folder / f"videos/{key}.mp4").write_bytes(event_clip(number))
    return folder


FURTHER_VIDEO_SETS = {
    "tempcompass-captioning": (draw_captions, 4),
    "mlvu-dev-generation": (draw_generation, 3),
    "mlvu-test-generation": (lambda folder: write(folder, MLVU), 3),
    "lvbench-authors": (draw_lists, 3),
}
"""What draws each set into a folder, and how many rows it has."""
