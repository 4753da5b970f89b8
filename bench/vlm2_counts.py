"""Scores 1,000,000 result rows of VLM2-Bench's counting, on one core: seconds, rows a second, peak memory.

The floor beside it is decoding the same lines with msgspec and doing nothing. Rows are made by a seed: half right, the
rest wrong, unreadable or out of range; the question file has one row for each.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import msgspec

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
REPLIES = ("1", "2", "3", "4", "two", "There are 3 different cups.", "5", "images 1 and 2", "none", "twenty-one")


def make(folder: Path) -> tuple[Path, Path]:
    """The answers and the questions."""
    rng = random.Random(0)
    answers, questions = folder / "m_20260101_000000_answers.jsonl", folder / "oc_cnt.jsonl"
    encode = msgspec.json.encode
    with answers.open("wb") as said, questions.open("wb") as asked:
        for number in range(ROWS):
            length = rng.choice((2, 3, 4))
            gold = rng.randint(1, length)
            reply = str(gold) if rng.random() < 0.5 else rng.choice(REPLIES)
            row = {"q_id": f"cnt_{number:07d}", "type": "cup", "question": "How many different cups are there?"}
            said.write(encode({**row, "model_answer": reply, "gt_answer": gold}) + b"\n")
            images = [f"{number}_{k}.jpg" for k in range(length)]
            asked.write(encode({**row, "gt_answer": gold, "images": images, "image_seq_len": length}) + b"\n")
    return answers, questions


def floor(*paths: Path) -> float:
    """CPU seconds of decoding every line."""
    decode = msgspec.json.Decoder().decode
    start = time.process_time()
    for path in paths:
        with path.open("rb") as lines:
            for line in lines:
                decode(line)
    return time.process_time() - start


def main() -> None:
    """Print the figures."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as place:
        answers, questions = make(Path(place))
        bare = floor(answers, questions)
        from snellen.runs.score import score

        start, wall = time.process_time(), time.perf_counter()
        summary, _ = score(answers, "vlm2/oc-cnt", data=questions)
        cpu, seconds = time.process_time() - start, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {metric.name: metric.value for metric in summary.metrics["official"]}
    print(f"{ROWS:,} rows: {seconds:.1f} s wall, {cpu:.1f} s CPU ({ROWS / cpu:,.0f}/s), peak {peak:,.0f} MB")
    print(f"floor, decoding both files: {bare:.1f} s CPU; ratio {cpu / bare:.1f}")
    print(f"count_score_usable {found['count_score_usable']:.4f}, usable_rate {found['usable_rate']:.4f}")


if __name__ == "__main__":
    main()
