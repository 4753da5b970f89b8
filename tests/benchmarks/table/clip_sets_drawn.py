"""Small drawn sets of videos in their official layout: rows, replies that every profile takes as right, clips in archives.

Repositories lie as on the hub: a folder for each configuration, and the clips in an archive beside them. A clip lasts two
seconds; it is of one grey before its event, which is at one second, and of a lighter one from then on.
"""

from __future__ import annotations

import io
import json
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

Row = dict[str, Any]
EVENT, LENGTH, RATE = 1.0, 2.0, 10
DARK = 12
"""Steps of grey between the clips: a frame's grey says of which row it is, through any codec."""


@lru_cache(maxsize=64)
def event_clip(number: int) -> bytes:
    """Return the clip of a row: its grey is DARK * number, and 120 lighter from EVENT on."""
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for at in range(int(LENGTH * RATE)):
            grey = DARK * number + (120 if at / RATE >= EVENT else 0)
            frame = av.VideoFrame.from_ndarray(np.full((32, 48, 3), grey, np.uint8), format="rgb24")
            frame.pts = at
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()


@lru_cache(maxsize=64)
def question_picture(number: int) -> bytes:
    """Return the picture of a question, of a colour that no clip has."""
    out = io.BytesIO()
    Picture.new("RGB", (24, 24), (200, 10 * number, 0)).save(out, "PNG")
    return out.getvalue()


def lecture(track: str, number: int, answer: str, options: list[str], subject: str = "Art_Theory") -> Row:
    return {
        "id": f"dev_{subject}_{number}", "question": f"What is taught in {track} {number}? <image 1>", "options": options, "answer": answer,
        "question_type": "multiple-choice" if options else "open",
        "image": {"bytes": question_picture(number), "path": None} if track == "Adaptation" else None,
    }  # fmt: skip


FOUR = ["a mast", "a hull", "a sail", "a deck"]
ADAPTATION = [
    (lecture("Adaptation", 0, "B", FOUR), "B"),
    (lecture("Adaptation", 1, "C", [f"{letter}. {text}" for letter, text in zip("ABCD", FOUR, strict=True)]), "C"),
    (lecture("Adaptation", 2, "12.5", [], "Computer_Science"), "12.5"),
]


def expert(number: int, answer: str, choices: Row) -> Row:
    subject = ("Computer_Science", "Art")[number % 2]
    return {
        "id": f"validation_{number}", "video": f"https://huggingface.co/datasets/yale-nlp/MMVU/resolve/main/videos/{subject}/{number}.mp4",
        "question": f"What is computed in {number}?", "choices": choices, "answer": answer, "metadata": {"subject": subject},
        "question_type": "multiple-choice" if choices["A"] else "open-ended",
    }  # fmt: skip


FIVE = dict(zip("ABCDE", ("binary search", "merge sort", "quick sort", "heap sort", "bubble sort"), strict=True))
NONE = dict.fromkeys("ABCDE", "")


def timed(number: int, question: str, answer: str) -> Row:
    return {
        "video_id": f"10{number}",
        "question": question,
        "answer": answer,
        "dim": ("action", "direction", "order")[number % 3],
    }


DIRECTIONS = [f"Which way does {number} turn?\nA. clockwise\nB. counter-clockwise\nC. upwards" for number in range(3)]
CAPTIONS = (
    "Which caption matches the video better?\nCaption A: The light goes on.\nCaption B: The light goes off.",
    "Which one is closer to the video content?\nOption 1: A man sits down.\nOption 2: A man stands up.",
    "Which sentence fits best?\nSentence A: The dog runs.\nSentence B: The dog rests.",
)


def filmed(number: int) -> Row:
    return {
        "video_name": f"video_{number}", "question_id": number % 2, "question": f"What was hidden in {number}?", "options": ["cup", "ball", "key"],
        "answer_id": str(number % 3), "area": ("memory", "physics")[number % 2], "reasoning": "descriptive", "tag": ["hidden"],
    }  # fmt: skip


def first_person(number: int) -> Row:
    options = [f"{letter}. C does task {letter.lower()}." for letter in "ABCDE"]
    return {
        "question_idx": str(number),
        "question": f"What does C do in {number}?",
        "video_idx": f"uid-{number}",
        "option": options,
        "answer": str(number % 5),
    }


CLIP_SETS: dict[str, list[tuple[Row, str]]] = {
    "videommmu": [
        (lecture("Perception", 0, "A", FOUR), "A"), (lecture("Perception", 1, "D", FOUR), "D"),
        (lecture("Comprehension", 0, "B", FOUR), "B"), *ADAPTATION,
    ],
    "videommmu-knowledge": ADAPTATION,
    "mmvu": [
        (expert(0, "D", FIVE), "D"), (expert(1, "A", FIVE), "A"), (expert(2, "E", FIVE), "E"), (expert(3, "Depth-first search", NONE), "Depth-first search"),
    ],
    "tempcompass-mc": [
        (timed(0, DIRECTIONS[0], "B. counter-clockwise"), "B"), (timed(1, DIRECTIONS[1], "A. clockwise"), "A. clockwise"), (timed(2, DIRECTIONS[2], "C. upwards"), "C) upwards"),
    ],
    "tempcompass-yn": [
        (timed(0, "Is the light going on?", "yes"), "yes"), (timed(1, "Is it turning?", "no"), "No."), (timed(2, "Is it rising?", "yes"), "Yes, it is."),
    ],
    "tempcompass-cm": [
        (timed(0, CAPTIONS[0], "Caption A: The light goes on."), "Caption A: The light goes on."),
        (timed(1, CAPTIONS[1], "Option 2: A man stands up."), "Option 2: A man stands up."), (timed(2, CAPTIONS[2], "Sentence B: The dog rests."), "B"),
    ],
    "perception-test": [(filmed(number), "ABC"[number % 3]) for number in range(4)],
    "egoschema": [(first_person(number), "ABCDE"[number % 5]) for number in range(4)],
}  # fmt: skip
"""Set to rows with replies; the first row of a set is answered wrongly where all are run."""
CLIP_HEADLINES = {
    "videommmu": 5 / 6,
    "videommmu-knowledge": 2 / 3,
    **dict.fromkeys(("mmvu", "perception-test", "egoschema"), 3 / 4),
    **dict.fromkeys(("tempcompass-mc", "tempcompass-yn", "tempcompass-cm"), 2 / 3),
}
CONFIGS = {
    "videommmu-knowledge": "Adaptation",
    "tempcompass-mc": "multi-choice",
    "tempcompass-yn": "yes_no",
    "tempcompass-cm": "caption_matching",
    "egoschema": "Subset",
    "perception-test": "data",
}
ARCHIVES = {"perception-test": "videos", "egoschema": "videos"}


def video_name(name: str, row: Row) -> str:
    """Return the clip's name in its archive, as the set has it."""
    column = {"perception-test": "video_name", "egoschema": "video_idx"}.get(name)
    if name.startswith("videommmu"):
        return f"Art/{row['id']}.mp4"
    clip = row[column] if column else row["video_id"]
    return f"{ARCHIVES.get(name, 'videos')}/{clip.removesuffix('.mp4')}.mp4"


def draw_clip_set(name: str, folder: Path) -> Path:
    """Write a set as its repository on the hub has it, and return the folder."""
    rows = [row for row, _ in CLIP_SETS[name]]
    if name == "mmvu":
        (folder / "validation.json").write_text(json.dumps(rows))
        for number, row in enumerate(rows):
            place = folder / row["video"].partition("/main/")[2]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(event_clip(number))
        return folder
    parts = {CONFIGS.get(name, ""): rows}
    if name == "videommmu":
        parts = {"Perception": rows[:2], "Comprehension": rows[2:3], "Adaptation": rows[3:]}
    for config, part in parts.items():
        split = "validation" if name == "perception-test" else "test"
        (folder / config).mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(part), folder / config / f"{split}-00000-of-00001.parquet")
    with zipfile.ZipFile(folder / "videos_chunked_01.zip", "w") as archive:
        names = [video_name(name, row) for row in rows]
        clips = {member: event_clip(int(member.removesuffix(".mp4")[-1])) for member in names}
        for member, content in clips.items():
            archive.writestr(member, content)
    return folder
