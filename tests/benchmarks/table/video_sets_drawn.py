"""Small drawn sets of questions about clips, in the official layout: a row, and a reply that every profile takes as right.

A clip is three seconds long and has one grey of its own; a white bar appears after one second. A question ends with its row's number.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snellen.benchmarks.table.entries import entry

Row = dict[str, Any]
CLIP = "@clip"
"""Stands for the name of the row's clip."""
EVENT = 1.0
"""The second at which the bar appears."""
SECONDS, RATE = 3, 5


def event_clip(number: int) -> bytes:
    """Return an MP4 of three seconds in one grey, with a white bar from `EVENT` on."""
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    out = BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for at in range(SECONDS * RATE):
            picture = np.full((48, 64, 3), 20 + 10 * number, np.uint8)
            if at / RATE >= EVENT:
                picture[8:24, 8:24] = 250
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return out.getvalue()


@dataclass(frozen=True)
class VideoSet:
    """A set in its official layout.

    Attributes:
        rows: each row with a reply that is right under every profile.
        file: the file of the rows, a parquet by default; `{task}` is the name of the file by row (`tasks`).
        folder: the folder of the clips in their archive; `{task}` as in `file`.
        tasks: the file of each row, where there are several.
        subtitles: text of the file of subtitles; its name is the clip's, with this ending.
        headline: the headline where every reply is right but the first.
        by_profile: that of profiles where it is another.
    """

    rows: list[tuple[Row, str]]
    file: str = ""
    folder: str = "videos"
    tasks: tuple[str, ...] = ()
    subtitles: tuple[str, str] = ("", "")
    headline: float = 3 / 4
    by_profile: Mapping[str, float] | None = None


def mme(number: int, answer: str) -> tuple[Row, str]:
    options = ["A. It grows.", "B. It turns.", "C. It falls.", "D. It stays."]
    return {
        "video_id": f"00{number}", "duration": ("short", "long")[number % 2], "domain": "Knowledge", "sub_category": "Law",
        "url": "", "videoID": CLIP, "question_id": f"00{number}-1", "task_type": "Counting Problem",
        "question": f"What happens in {number}?", "options": options, "answer": answer,
    }, answer  # fmt: skip


def chain(number: int, answer: str, kind: str, structure: str) -> tuple[Row, str]:
    options = "\n".join(f"{letter}. choice {letter}" for letter in "ABCDEFGH")
    return {
        "video_id": CLIP, "url": "", "group_type": kind, "group_structure": structure, "question_id": f"q{number}",
        "question": f"What is in {number}?", "options": options, "answer": answer, "level": None if number % 4 == 0 else "2",
        "second_head": "Time", "third_head": "Order",
    }, answer  # fmt: skip


def candidates(number: int, answer: str, **more: Any) -> tuple[Row, str]:
    texts = ["up", "down", "left"]
    return {
        "video": f"{CLIP}.mp4", "question": f"Where does it go in {number}?", "candidates": texts, "answer": texts["ABC".index(answer)],
        **more,
    }, f"({answer})"  # fmt: skip


def lv(number: int, answer: str, kinds: list[str]) -> tuple[Row, str]:
    question = f"What comes after {number}?\n(A) a man\n(B) a dog\n(C) a car\n(D) rain"
    return {"key": CLIP, "uid": str(number), "question": question, "answer": answer, "question_type": kinds}, answer


def long_row(number: int, choice: int, group: int) -> tuple[Row, str]:
    return {
        "video_path": f"{CLIP}.mp4", "subtitle_path": f"{CLIP}_en.json", "question": f"What is said in {number}?", "id": f"{CLIP}_0",
        "candidates": ["one", "two", "three", "four", "five"], "correct_choice": choice, "duration_group": group,
        "question_category": "T3E", "starting_timestamp_for_subtitles": 10.0, "topic_category": "x",
    }, "ABCDE"[choice]  # fmt: skip


def expert(number: int, answer: str) -> tuple[Row, str]:
    return {
        "id": f"validation_{number}", "video": f"https://example.org/videos/{CLIP}.mp4", "youtube_url": "", "answer": answer,
        "question_type": "multiple-choice", "metadata": {"subject": ("Art", "Law")[number % 2], "textbook": "t", "rationale": "r"},
        "question": f"What is shown in {number}?", "choices": dict(zip("ABCDE", ("wood", "tin", "iron", "wax", "ice"), strict=True)),
    }, answer  # fmt: skip


def compass(number: int, answer: str, question: str) -> tuple[Row, str]:
    return {"video_id": CLIP, "question": question, "answer": answer, "dim": ("order", "speed")[number % 2]}, answer


def both_captions(number: int, answer: str) -> tuple[Row, str]:
    texts = {"A": f"Sentence A: It rises in {number}.", "B": f"Sentence B: It falls in {number}."}
    question = f"Which sentence fits {number}?\n{texts['A']}\n{texts['B']}"
    return compass(number, texts[answer], question)[0], f"Sentence {answer}"


def lecture(number: int, answer: str, **more: Any) -> tuple[Row, str]:
    return {
        "id": f"dev_Biology_{number}", "question": f"What is taught in {number}?", "options": ["A. cells", "B. rocks", "C. tides"],
        "answer": answer, "question_type": "multiple-choice", **more,
    }, answer  # fmt: skip


VTT_OF_TEN = json.dumps(
    [
        {"start": "00:00:10.500", "end": "00:00:11.500", "line": "It turns white."},
        {"start": "00:00:20.000", "end": "00:00:21.000", "line": "Later."},
    ]
)
WORDS = "\n".join(
    json.dumps({"text": word, "start_time": at, "end_time": at + 0.2})
    for word, at in (("It", 0.5), ("turns", 0.8), ("white.", 1.1))
)
SRT = "1\n00:00:00,000 --> 00:00:00,900\nA grey field.\n\n2\n00:00:01,000 --> 00:00:02,000\nA bar.\n\n3\n00:00:30,000 --> 00:00:31,000\nNever.\n"

GROUPS = [
    *(chain(number, "ABCD"[number], "relevance", "[1, 2, 3, 4]") for number in range(4)),
    *(chain(number, "ABCD"[number - 4], "logic", "[1, [2, 3], 4]") for number in range(4, 8)),
]

UNREAD = {"authors": (4 / 16 + 1) / 2}
"""The headline by a script that takes one right answer off for the first reply, which it does not read."""

VIDEO_SETS: Mapping[str, VideoSet] = {
    "video-mme": VideoSet([mme(number, "ABCD"[number]) for number in range(4)], folder="data"),
    "video-mme-subtitles": VideoSet([mme(number, "ABCD"[number]) for number in range(4)], folder="data", subtitles=(".srt", SRT)),
    "video-mme-v2": VideoSet(GROUPS, headline=(9 / 16 + 1) / 2, by_profile=UNREAD),
    "video-mme-v2-interleaved": VideoSet(GROUPS, subtitles=(".jsonl", WORDS), headline=(9 / 16 + 1) / 2, by_profile=UNREAD),
    "video-mme-v2-subtitles": VideoSet(GROUPS, subtitles=(".jsonl", WORDS), headline=(9 / 16 + 1) / 2, by_profile=UNREAD),
    "mvbench": VideoSet(
        [candidates(number, "AB"[number % 2], start=1.0, end=2.0, fps=5.0) for number in range(4)],
        file="json/{task}.json",
        tasks=("action_count", "action_count", "state_change", "state_change"),
        headline=(1 / 2 + 1) / 2,
    ),
    "mlvu-dev": VideoSet(
        [candidates(number, "AB"[number % 2], question_type=("count", "order")[number // 2], duration=3) for number in range(4)],
        file="MLVU/json/{task}.json",
        folder="MLVU/video/{task}",
        tasks=("4_count", "4_count", "5_order", "5_order"),
        headline=(1 / 2 + 1) / 2,
    ),
    "mlvu-test": VideoSet(
        [candidates(number, "AB"[number % 2], question_type=("count", "tutorialQA")[number // 2]) for number in range(4)],
        file="test-ground-truth/test_mcq_gt.json",
        headline=(1 / 2 + 1) / 2,
    ),
    "lvbench": VideoSet([lv(number, "ABCD"[number], ["event understanding", "reasoning"][: 1 + number % 2]) for number in range(4)]),
    "longvideobench": VideoSet(
        [long_row(number, number, (15, 60)[number % 2]) for number in range(4)], file="lvb_val.json", subtitles=("_en.json", VTT_OF_TEN)
    ),
    "mmvu": VideoSet([expert(number, "ABCD"[number]) for number in range(4)], file="validation.json"),
    "charades-sta": VideoSet(
        [
            ({"video": f"{CLIP}.mp4", "caption": f"the bar appears in {number}", "timestamp": [1.0, 3.0]}, "The event happens in 1.0 - 3.0.")
            for number in range(4)
        ],
        folder="Charades_v1_480",
    ),
    "perception-test": VideoSet(
        [
            (
                {
                    "video_name": CLIP, "question_id": str(number), "question": f"What moves in {number}?", "area": "physics",
                    "options": ["a ball", "a cup", "nothing"], "answer_id": number % 3, "reasoning": "descriptive", "tag": ["motion"],
                },
                "ABC"[number % 3],
            )
            for number in range(4)
        ],
    ),
    "egoschema": VideoSet(
        [
            (
                {
                    "question_idx": str(number), "video_idx": CLIP, "question": f"What was {number} about?", "answer": str(number),
                    "option": [f"{letter}. theme {letter.lower()}" for letter in "ABCDE"],
                },
                "ABCDE"[number],
            )
            for number in range(4)
        ],
    ),
    "tempcompass-mc": VideoSet(
        [
            (
                compass(
                    number,
                    ("A. faster", "B. slower")[number % 2],
                    f"How does it move in {number}?\nA. faster\nB. slower\nC. not",
                )[0],
                "AB"[number % 2],
            )
            for number in range(4)
        ]
    ),
    "tempcompass-yn": VideoSet(
        [compass(number, ("yes", "no")[number % 2], f"Does it rise in {number}?") for number in range(4)],
    ),
    "tempcompass-cm": VideoSet([both_captions(number, "AB"[number % 2]) for number in range(4)]),
    "videommmu-perception": VideoSet([lecture(number, "ABC"[number % 3]) for number in range(4)], folder="Science"),
    "videommmu-comprehension": VideoSet([lecture(number, "ABC"[number % 3]) for number in range(4)], folder="Science"),
    "videommmu-adaptation": VideoSet([lecture(number, "ABC"[number % 3], image="@image") for number in range(4)], folder="Science"),
}  # fmt: skip


def clip_name(row: Row, number: int) -> str:
    """Return the name of a row's clip without its ending: VideoMMMU calls it as the row."""
    return str(row["id"]) if str(row.get("id", "")).startswith("dev_") else f"clip_{number}"


def draw_video_set(name: str, folder: Path, picture: bytes = b"") -> tuple[Path, Path]:
    """Write a set and the archive of its clips, and return what --data and --images name."""
    drawn = VIDEO_SETS[name]
    suffix, spoken = drawn.subtitles
    source = entry(name).source
    file = drawn.file or "/".join(filter(None, (source.config, f"{source.split or 'test'}-00000-of-00001.parquet")))
    if source.files == ("test.parquet",):
        file = "test.parquet"
    spoken_in = "subtitles" if name == "longvideobench" else "subtitle"
    rows: dict[str, list[Row]] = {}
    with zipfile.ZipFile(folder / "videos.zip", "w") as archive:
        for number, (row, _) in enumerate(drawn.rows):
            task = drawn.tasks[number] if drawn.tasks else ""
            clip = clip_name(
                row, number // 4 if drawn.rows is GROUPS else number % 2 if "{task}" in drawn.folder else number
            )
            if drawn.rows is not GROUPS or number % 4 == 0:
                archive.writestr(f"{drawn.folder.replace('{task}', task)}/{clip}.mp4", event_clip(number))
                if spoken and (number < 3 or drawn.rows is GROUPS):  # one clip has no subtitles
                    archive.writestr(f"{spoken_in}/{clip}{suffix}", spoken)
                if spoken and number == 3 and name == "longvideobench":
                    archive.writestr(f"{spoken_in}/{clip}{suffix}", "[]")
            filled = {key: value.replace(CLIP, clip) if isinstance(value, str) else value for key, value in row.items()}
            if filled.get("image") == "@image":
                filled["image"] = {"bytes": picture, "path": None}
            rows.setdefault(file.replace("{task}", task), []).append(filled)
    for place, content in rows.items():
        (folder / "set" / place).parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".json"):
            (folder / "set" / place).write_text(json.dumps(content))
        else:
            pq.write_table(pa.Table.from_pylist(content), folder / "set" / place)
    return folder / "set", folder / "videos.zip"
