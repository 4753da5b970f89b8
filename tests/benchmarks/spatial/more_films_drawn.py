"""The further benchmarks about videos, drawn small: see `more_drawn`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from benchmarks.spatial.kit_drawn import tsv
from benchmarks.spatial.more_parts import DIRECT, FEW, LETTERED, LINES, TEXT, Drawn, Frames, Row, options
from benchmarks.spatial.official_drawn import SIDES, TEXTS, film, packed, parquet


def recall(where: Path, kit: bool) -> Drawn:
    """A parquet file, or a table, and an archive for each duration."""
    drawn = Drawn(where, options=FEW)
    for at, duration in enumerate(("10mins", "240mins")):
        asked = " In which order did they come? "
        packed(where / f"{duration}.zip", {f"{duration}/{at:08}.mp4": film(22 + at)})
        if kit:
            own = {"index": 0, "video": f"{duration}/{at:08}.mp4", "question": asked, "options": LETTERED}
            tsv(where / f"VsiSuperRecall_{duration}.tsv", [{**own, "answer": "C", "question_type": duration}])
        else:
            own = {"video_path": f"{duration}/{at:08}.mp4", "question": asked, "options": LETTERED, "answer": "C"}
            schema = {column: TEXTS if column == "options" else TEXT for column in own}
            parquet(where / f"test_{duration}.parquet", [{**own, "type": duration}], {**schema, "type": TEXT})
        frames = Frames(((0, 7, 14, 21), (0, 7, 14, 22))[at])
        words = f"In which order did they come?\nOptions:\n{LINES}\n{DIRECT}"
        drawn.shown[f"{duration}_0" if kit or not at else f"{duration}_1"] = (frames, words)
    return drawn


def count(where: Path, kit: bool) -> Drawn:
    """One parquet file of all durations, streamed rows among them; a table for each duration, with its streamed rows."""
    drawn = Drawn(where, options=FEW)
    rows: list[Row] = []
    for at, duration in enumerate(("10mins", "30mins")):
        name, asked = f"{duration}/{at:08}.mp4", f"How many different chairs, {at}?"
        packed(where / f"{duration}_part1.zip", {name: film(22)})
        if kit:
            own = {"index": 0, "video": name, "question": asked, "answer": 14}
            more = {"index": 1, "video": name, "question": asked, "answer": 0, "question_type": f"{duration}_streaming"}
            kinds = {"answers": None, "query_times": None}
            streamed = {"answers": [2, 3], "query_times": [60, 120]}
            tsv(
                where / f"VsiSuperCount_{duration}.tsv",
                [{**own, "question_type": duration, **kinds}, {**more, **streamed}],
            )
        else:
            own = {"video_path": name, "question": asked, "answer": 14.0, "answers": None, "query_times": None}
            rows.append({**own, "split": duration})
            rows.append(
                {**own, "answer": None, "answers": [2, 3], "query_times": [60, 120], "split": f"{duration}_streaming"}
            )
        words = f"These are frames of a video.\n{asked}\nPlease answer the question using a single word or phrase."
        drawn.shown[f"{duration}_0" if kit or not at else f"{duration}_2"] = (Frames((0, 7, 14, 21)), words)
    if not kit:
        lists = pa.list_(pa.float64())
        kinds = {"answer": pa.float64(), "answers": lists, "query_times": lists}
        parquet(where / "test.parquet", rows, {column: kinds.get(column, TEXT) for column in rows[0]})
    return drawn


def sti(where: Path, kit: bool) -> Drawn:
    """The prompt says how many frames come on a second of the clip: 4 of 22 at 10 a second."""
    drawn = Drawn(where, options=FEW)
    packed(where / "video.zip", {"video/a.mp4": film(22)})
    asked = "How far did it go?"
    if kit:
        own = {"index": 0, "video": "video/a.mp4", "question": asked, "options": list(SIDES), "answer": "D"}
        rows = [{**own, "task_type": "Displacement & Path Length", "time_start": 0.5, "time_end": 2}]
        tsv(where / "STI-Bench.tsv", rows)
    else:
        own = {"ID": 7, "Video": "a.mp4", "Question": asked, "Candidates": json.dumps(options()), "Answer": "D"}
        row = {**own, "Task": "Displacement & Path Length", "time_start": "0.5", "time_end": "2"}
        parquet(where / "qa.parquet", [row], {column: pa.int64() if column == "ID" else TEXT for column in row})
    words = (
        "Answer the question below based on the frames provided, which are sampled at about 1.82 FPS.\n"
        f"Question: From 0.5 seconds to 2 seconds. {asked}\nA left\nB right\nC front\nD back\n"
        "Please output only the option you choose!"
    )
    drawn.shown["0" if kit else "7"] = (Frames((0, 7, 14, 21)), words)
    return drawn


def dsr(where: Path, kit: bool) -> Drawn:
    """One frame a second: of 22 frames at 10 a second the first and the eleventh."""
    drawn = Drawn(where)
    packed(where / "raw_data.zip" if kit else where / "dsr-bench.zip", {"dsr-bench/a.mp4": film(22)})
    asked = "Which way does it turn?"
    if kit:
        own = {"index": 0, "video": "raw_data/dsr-bench/a.mp4", "question": asked, "options": json.dumps(LETTERED)}
        tsv(where / "DSRBench.tsv", [{**own, "answer": "A", "task_type": "rel_dir"}])
    else:
        row = {"id": "a_0", "video": "a.mp4", "question": asked, "options": LETTERED, "answer": "A", "type": "rel_dir"}
        parquet(where / "benchmark.parquet", [row], {name: TEXTS if name == "options" else TEXT for name in row})
    first = (
        "\nThese are the frames of a video. Select the best answer to the following multiple-choice question based on the "
        "video. Respond with only the letter (A, B, C, or D) of the correct option.\n"
    )
    words = f"Question: {asked}\n{LINES}\nAnswer: "
    drawn.shown["0" if kit else "a_0"] = (first, Frames((0, 10)), words)
    return drawn


def osi(where: Path, kit: bool) -> Drawn:
    """Videos by number, in numbered archives; a clip without a length has no line about it."""
    drawn = Drawn(where, options=FEW)
    packed(where / "videos_part1.zip", {"part1/0003.mp4": film(22)})
    packed(where / "videos_part2.zip", {"part2/0012.mp4": film(22)})
    rows: list[Row] = [
        {"index": 0, "question": "How far?", "category": "absolute_distance", "question_type": "numerical"},
        {"index": 1, "question": "Which is near?", "category": "relative_distance", "question_type": "mcq"},
        {"index": 2, "question": "Which way?", "category": "trajectory_description", "question_type": "mcq"},
    ]
    for at, row in enumerate(rows):
        number = 12 if at else 3
        row |= {
            "options": LETTERED if at else None,
            "answer": "B" if at else "3.5",
            "video_length": None if at == 2 else 27.0667,
        }
        row |= {"video": f"{number:04}.mp4" if kit else number, "file_name": f"{number:04}.mp4"}
    if kit:
        tsv(where / "OSI-Bench.tsv", rows)
    else:
        kinds = {"index": pa.int64(), "video": pa.int64(), "options": TEXTS, "video_length": pa.float64()}
        parquet(where / "data.parquet", rows, {name: kinds.get(name, TEXT) for name in rows[0]})
    opening = (
        "These are frames of a video.\nIn the video, objects are identified by numeric tags shown nearby.\n"
        "With that in mind, please answer the following question based on the video.\n"
    )
    length = (
        "The video is 27.07 seconds long. The following 4 frames are uniformly sampled from it in chronological order:"
    )
    number_end = "Your answer must be only the final numeric value, without units or any other text.\nThe answer is:"
    end = "Your answer must be only the single letter (e.g., A, B, C, or D) of the correct option.The answer is:"
    frames = Frames((0, 7, 14, 21))
    drawn.shown["0"] = (f"{opening}Question: How far?\n\n{number_end}", length, frames)
    drawn.shown["1"] = (f"{opening}Question: Which is near?\n{LINES}\n\n{end}", length, frames)
    drawn.shown["2"] = (f"Question: Which way?\n{LINES}\n\n{end}", frames)
    return drawn


def revsi(where: Path, kit: bool) -> Drawn:
    """A folder of questions and clips for each budget of frames; the frames lie inside of the clip."""
    drawn = Drawn(where)
    rows: list[Row] = []
    for at, kind in enumerate(("object_counting_single", "route_planning")):
        own = {"question": f"What of it, {at}?", "question_type": kind, "options": LETTERED if at else None}
        gold = "B" if at else "3"
        if kit:
            rows.append({"index": at, "video": "32_frame/s0.mp4", **own, "ground_truth": gold, "answer": gold})
        else:
            rows.append(
                {"id": at, "dataset": "scannet", "scene_id": "s0", "num_frames": "32", **own, "ground_truth": gold}
            )
        words = f"These are frames of a video.\nWhat of it, {at}?\n"
        words += (
            f"Options:\n{LINES}\n{DIRECT}" if at else "Answer the question using a single integer or decimal number."
        )
        drawn.shown[str(at)] = (Frames(tuple(range(32))), words)
    packed(where / "video.zip", {"32_frame/s0.mp4": film(32), "16_frame/s0.mp4": film(16)})
    if kit:
        tsv(where / "revsi_32_frame.tsv", rows)
        return drawn
    kinds: Row = {"id": pa.int64(), "options": TEXTS}
    for budget in ("16_frame", "32_frame"):
        schema = {name: kinds.get(name, TEXT) for name in rows[0]}
        parquet(where / budget / "test-00000-of-00001.parquet", rows, schema)
    return drawn
