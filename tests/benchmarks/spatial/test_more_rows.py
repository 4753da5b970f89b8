"""Rows of the further benchmarks of any content."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.spatial import more_drawn as drawn
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts
from snellen.benchmarks.spatial.prompts.words import forms
from snellen.benchmarks.spatial.question import ShownMedia
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.tasks import MORE
from snellen.benchmarks.table.declaration import LAYOUTS
from snellen.errors import DataError
from snellen.sources import BytesBlob

ODD: list[object] = [
    None,
    "",
    -3,
    2.5,
    float("nan"),
    float("inf"),
    True,
    b"\xff",
    "A",
    "[",
    "['a','b']",
    "{'A':'x'}",
    '{"A":1}',
]
ODD += [
    "{",
    [],
    ["A. x", None],
    [1, 2],
    {"A": "x", "B": None},
    [{"path": "b.png"}],
    [["x"]],
    "../../etc/passwd",
    "\ud800",
]
ODD += [
    "<image 9> <image>",
    "object_rel_distance",
    "10mins_streaming",
    "route_planning",
    "position_matching",
    "yes",
    "9" * 5000,
    "1e999",
    "nan",
]
COLUMNS = [
    "index",
    "id",
    "qid",
    "question",
    "Question",
    "question_raw",
    "prompt",
    "answer",
    "Answer",
    "ground_truth",
    "category",
    "category_agg",
    "Category",
    "Task",
    "task",
    "Choices",
    "options",
    "candidates",
    "Candidates",
    "question_type",
    "type",
    "split",
    "step",
    "image_path",
    "images",
    "mask_path",
    "video",
    "video_path",
    "video_id",
    "file_name",
    "video_length",
    "time_start",
    "time_end",
    "visual_indices",
    "answers",
    "query_times",
    "g_index",
    "A",
    "B",
    "scene_name",
    "scene_id",
    "task_type",
    "image_filename",
    "question_index",
]


@pytest.mark.parametrize("name", drawn.DRAWN)
def test_a_row_of_any_content_is_a_question_or_says_why_it_is_none(name: str) -> None:
    chance = Random(name)
    hows = [prompts.prompt_settings(Data(options={"prompting": form}), MORE[name]) for form in forms(MORE[name])]
    questions = 0
    for at in range(1500):
        row = {column: chance.choice(ODD) for column in chance.sample(COLUMNS, chance.randint(10, len(COLUMNS)))}
        for layout in LAYOUTS:
            try:
                question = question_of(MORE[name], layout, row, at)
            except DataError:
                continue
            questions += 1
            media = ShownMedia(images=(BytesBlob("a.png", b""),) * chance.randint(0, 2))
            for how in hows:
                assert prompts.compose(how, MORE[name], question, media).parts
    assert questions


@pytest.mark.parametrize("name", ["stare", "erqa", "spbench/si", "vsi-super-count", "cv-bench", "revsi"])
def test_an_archive_that_is_damaged_is_named_as_that(tmp_path, capsys, name):
    from snellen.cli import main

    (tmp_path / "questions.zip").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 4)
    command = ["run", name, "--data", str(tmp_path / "questions.zip"), "-m", "embedded", "--out", str(tmp_path / "run")]
    assert main(command) == 3
    assert "questions.zip: cannot be opened as a zip file" in capsys.readouterr().err
