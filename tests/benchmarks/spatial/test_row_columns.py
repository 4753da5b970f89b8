"""Which of a row's columns counts, and what is made of lists, texts and mappings in it, by the set that the row is of."""

from __future__ import annotations

from typing import Any

import pytest

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts
from snellen.benchmarks.spatial.question import ShownMedia, SpatialQuestion
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.tasks import EVERY
from snellen.errors import DataError
from snellen.types import Text

KIT: dict[str, dict[str, Any]] = {
    "vsi-bench": {"question_type": "object_rel_distance", "video": "v.mp4"},
    "site": {"category": "c"},
    "embspatial": {"data_source": "mp3d"},
    "mmsi-video-bench": {"task_type": "Planning"},
    "omnispatial": {"task_type": "t", "A": "never", "B": "shown"},
    "spar-bench": {"task": "position_matching"},
    "spatialviz": {"category": "c", "task": "t"},
    "sti-bench": {"task_type": "t", "video": "v.mp4"},
}
LISTS = [("vsi-bench", "candidates", "options"), ("embspatial", "options", "candidates")]
LISTS += [("mmsi-video-bench", "options", "candidates"), ("omnispatial", "options", "candidates")]
OMNISPATIAL = {"id": "i", "question": "Q", "task_type": "t", "options": ["x", "y"], "answer": 1}


def kit(name: str, **columns: object) -> SpatialQuestion:
    row = {"index": "0", "question": "Which?", "answer": "A", **KIT[name], **columns}
    return question_of(EVERY[name], "kit", row, 0)


@pytest.mark.parametrize(("name", "column", "other"), LISTS)
def test_options_in_words_are_shown_and_no_other_column_is_shown_instead(name: str, column: str, other: str) -> None:
    question = kit(name, **{column: "A. left\nB. right", other: "['up', 'down']"})
    assert question.options == {"A": "left\nB. right"}
    how = prompts.prompt_settings(Data(), EVERY[name])
    parts = prompts.compose(how, EVERY[name], question, ShownMedia()).parts
    asked = "\n".join(part.text for part in parts if isinstance(part, Text))
    assert ("left\nB. right" in asked) == (name != "mmsi-video-bench")  # whose options stand in its own prompts
    assert "down" not in asked


@pytest.mark.parametrize(("name", "column", "other"), LISTS)
@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("['left', None, 'right']", {"A": "left", "B": "None", "C": "right"}),
        ("['a', ['b']]", {"A": "a", "B": "['b']"}),
        ('["a", null, "b"]', {"A": '["a", null, "b"]'}),
        ("{'A': 'x', 'B': None, 'C': 'z'}", {"A": "{'A': 'x', 'B': None, 'C': 'z'}"}),
        ("[]", {}),
    ],
)
def test_no_option_of_a_table_moves_to_the_letter_of_another(
    name: str, column: str, other: str, cell: str, options: dict[str, str]
) -> None:
    if name == "omnispatial" and not options:
        options = {"A": "never", "B": "shown"}  # its columns A and B
    assert kit(name, **{column: cell, other: "['up', 'down']"}).options == options


def test_options_of_site_are_those_of_a_list_in_the_first_column_that_is_there() -> None:
    assert kit("site", options="['a', None, 'c']").options == {"A": "a", "B": "None", "C": "c"}
    assert kit("site", options="A. left\nB. right", candidates="['up', 'down']").options == {}
    assert kit("site", candidates="['up', 'down']").options == {"A": "up", "B": "down"}


def test_a_picture_that_a_table_lists_as_none_is_missed() -> None:
    assert kit("site", options="['a']", image_path="['a.png', None]").media == ("a.png", "None")
    assert kit("site", options="['a']", image_path="['a', ['b']]").media == ("a", "['b']")


def test_only_sets_whose_options_come_as_json_or_mappings_are_read_as_such() -> None:
    mapping = {"A": "x", "B": "y", "C": None}
    for written in (mapping, '{"A": "x", "B": "y"}', "{'A': 'x', 'B': 'y', 'C': None}", '["x", "y", null]'):
        assert kit("sti-bench", options=written).options == {"A": "x", "B": "y"}
        row = {**OMNISPATIAL, "gt": "A", "options": written}
        assert question_of(EVERY["omnispatial"], "official", row, 0).options == {}


@pytest.mark.parametrize(
    ("given", "gold"),
    [({"gt": ""}, "B"), ({}, "B"), ({"gt": "0"}, "0"), ({"gt": 3}, "3"), ({"gt": "A", "answer": 9}, "A")],
)
def test_only_the_answer_of_omnispatial_is_a_place(given: dict[str, object], gold: str) -> None:
    assert question_of(EVERY["omnispatial"], "official", {**OMNISPATIAL, **given}, 0).gold == gold


def test_an_answer_of_omnispatial_that_is_no_place_or_is_missing_is_said() -> None:
    with pytest.raises(DataError, match="answer is 2, the place of an option from 0; there are 2 options"):
        question_of(EVERY["omnispatial"], "official", {**OMNISPATIAL, "gt": "", "answer": 2}, 0)
    with pytest.raises(DataError, match="the row has no answer"):
        question_of(EVERY["omnispatial"], "official", {**OMNISPATIAL, "gt": "", "answer": None}, 0)


def test_options_of_spatialviz_are_those_of_its_columns_before_those_of_its_list() -> None:
    choices = ["A. m", "B. n"]
    assert kit("spatialviz", Choices=choices, A="x", B="y").options == {"A": "x", "B": "y"}
    assert kit("spatialviz", Choices=choices).options == {"A": "m", "B": "n"}


@pytest.mark.parametrize("video", [7, 2.5, " "])
def test_whatever_a_table_calls_a_video_is_what_its_questions_share(video: object) -> None:
    question = kit("vsi-bench", video=video)
    assert question.cluster == str(video) and question.media == (str(video),)


def test_ids_are_taken_without_blanks_and_from_the_next_column_where_they_are_blank() -> None:
    row = {"question": "Q", "answer": "A", "category": "c"}
    for given, expected in (({"qid": " No "}, "No"), ({"qid": " ", "pid": "p"}, "p"), ({"qid": ""}, "4")):
        assert question_of(EVERY["stare"], "official", {**row, **given}, 4).id == expected


def test_a_task_of_spar_bench_that_is_not_known_is_said_though_the_type_is() -> None:
    assert kit("spar-bench", task="", question_type="depth_prediction_oc").kind == "number"
    with pytest.raises(DataError, match="task is 'juggling'; expected one of"):
        kit("spar-bench", task="juggling", question_type="position_matching")
