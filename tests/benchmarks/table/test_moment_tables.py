"""Tables of moments of clips: which columns and cells are recognised, how they are asked, and which figures a run has."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import snellen
from snellen.benchmarks.base import Data
from snellen.benchmarks.table.benchmark import open_table
from snellen.errors import UsageError
from snellen.types import Text

MOMENTS = [(2, 6.5), (0, 12), (30, 44), (75, 80)]


def table(folder: Path, header, cells) -> Path:
    (folder / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(200))
    with (folder / "moments.csv").open("w", newline="") as file:
        rows = [("clip.mp4", f"When is event {at}?", *cells(*moment)) for at, moment in enumerate(MOMENTS)]
        csv.writer(file).writerows([("video", "question", *header), *rows])
    return folder / "moments.csv"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{seconds % 60:04.1f}"


@pytest.mark.parametrize(
    ("header", "cells", "options"),
    [
        (("start", "end"), lambda a, b: (a, b), {}),
        (("start_time", "end_time"), lambda a, b: (clock(a), clock(b)), {}),
        (("answer",), lambda a, b: (json.dumps([a, b]),), {"kind": "moment"}),
        (("answer", "kind"), lambda a, b: (json.dumps([a, b]), "moment"), {}),
        (("answer",), lambda a, b: (f"{clock(a)} - {clock(b)}",), {}),
        (("answer",), lambda a, b: (json.dumps([clock(a), clock(b)]),), {}),
        (("answer",), lambda a, b: (json.dumps({"start": a, "end": b}),), {}),
        (("answer",), lambda a, b: (f"from {a} to {b} s",), {}),
    ],
)
def test_moments_are_recognised_and_their_shares_are_reported(tmp_path, header, cells, options):
    path = table(tmp_path, header, cells)
    replies = ["2 to 6.5 s", "00:00 - 00:06", "[30, 35]", "no idea"]
    lines = [json.dumps({"id": str(at), "reply": reply}) for at, reply in enumerate(replies)]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    run = snellen.evaluate(
        str(path), f"replay:{tmp_path / 'replies.jsonl'}", benchmark_options=options, out=tmp_path / "run"
    )
    figures = {metric.name: metric.value for metric in run.figures()["strict"]}
    assert [*figures][:4] == ["r1@0.5", "iou", "r1@0.3", "r1@0.7"]
    assert (figures["r1@0.3"], figures["r1@0.5"], figures["r1@0.7"]) == (0.75, 0.5, 0.25)
    assert figures["iou"] == pytest.approx((1 + 0.5 + 5 / 14) / 4) and figures["invalid"] == 0.25
    sample = next(run.benchmark.samples(run.meta.spec.data))
    text = next(part.text for part in sample.prompt.parts if isinstance(part, Text))
    assert text.endswith("Answer with the start and the end as [start, end] in seconds.")


def test_frames_are_asked_for_in_frames(tmp_path):
    path = table(tmp_path, ("start_frame", "end_frame"), lambda a, b: (10 * a, 10 * b))
    sample = next(open_table(str(path)).samples(Data()))
    assert sample.kind == "moment" and str(sample.prompt.parts[-1].text).endswith("in frames.")


def test_two_numbers_about_clips_are_asked_about(tmp_path):
    path = table(tmp_path, ("answer",), lambda a, b: (json.dumps([a, b]),))
    with pytest.raises(UsageError, match="start and end of a moment, or x and y of a point"):
        open_table(str(path)).table.survey(Data())


def test_a_row_whose_moment_is_none_is_left_out_and_named(tmp_path):
    path = table(tmp_path, ("start", "end"), lambda a, b: (b, a) if a == 30 else ("", b) if a == 75 else (a, b))
    surveyed = open_table(str(path)).table.survey(Data())
    reasons = [row.reason for row in surveyed.omitted.values()]
    assert surveyed.kinds == {"moment": 2}
    assert reasons[0].endswith("the end stands before the start") and "is not a start and a later end" in reasons[1]
