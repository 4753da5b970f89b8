"""lmms-eval's newer sample files have no questions; what its scorers keep of each row makes up for that."""

from __future__ import annotations

import json

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.sources.lmms_eval_rows import row_of, score_of
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.runs.score import score

ASKED = "Question: which?\nOptions:\nA. left\nB. right\nC. front"
WHOLE = {"id": 7, "question_type": "object_counting", "ground_truth": "3", "question": "How many?", "options": None}
SPAR = {"id": 7, "task": "depth_prediction_oc", "answer": "3", "question": "How far?", "source": "x"}
THREE = {"index": 5, "qid": "abcdefgh-1", "category": "height_higher", "main_category": "height", "score": 1.0}
OMNI = {
    "id": "o7",
    "query": "Which?",
    "gt_content": "B",
    "task": "Dynamic_Reasoning",
    "sub_task": "omnispatial_motion_analysis",
}
LOGGED = {
    "vsi-bench": {"target": "3", "vsibench_overall": {**WHOLE, "prediction": "3", "MRA:.5:.95:.05": 1.0}},
    "vsi-debiased": {"target": "3", "vsibench_score": {**WHOLE, "prediction": "2", "MRA:.5:.95:.05": 0.4}},
    "mmsi-bench": {
        "target": "B",
        "MSR": {"question_id": 7, "l2_category": "MSR", "score": 1},
        "average": {"question_id": 7, "l2_category": "MSR", "score": 1},
    },
    "mindcube-tiny": {
        "target": "B",
        "overall_accuracy": {"score": 1.0},
        "around_accuracy": {"score": 1.0, "type": "around"},
    },
    "viewspatial": {
        "target": "B. right",
        "overall_accuracy": {"score": 0.0},
        "x_accuracy": {"score": 0.0, "question_type": "Camera perspective - Relative Direction", "target_type": "y"},
    },
    "site": {
        "target": "B",
        "accuracy": {"overall": 1.0, "counting & existence": 1.0, "mvbench": 1.0, "total": 1},
        "chance_adjusted_acc": {"overall": 2 / 3, "counting & existence": 2 / 3, "mvbench": 2 / 3, "total": 1 - 1 / 3},
    },
    "blink": {
        "target": "(B)",
        "blink_acc": {"id": "val_Jigsaw_7", "gt_content": "B", "sub_task": "Jigsaw", "is_correct": True},
    },
    "3dsrbench": {"target": "B", "vanilla_accuracy": THREE},
    "embspatial": {
        "target": "1",
        "embspatial_acc": {
            "id": "mp3d_7",
            "gt_content": "B",
            "sub_task": "above",
            "data_source": "mp3d",
            "is_correct": False,
        },
    },
    "mmsi-video-bench": {
        "target": "B",
        "overall_accuracy": {"score": 1, "total": 1},
        "cross_video_memory_update": {"score": 0, "total": 0},
        "planning": {"score": 1, "total": 1},
    },
    "omnispatial": {"target": "B", "omnispatial": {**OMNI, "is_correct": True}},
    "spar-bench": {"target": "3", "sparbench_score": {**SPAR, "prediction": "3", "MRA:.5:.95:.05": 1.0}},
}
GROUPS = {
    "vsi-bench": "object_counting",
    "vsi-debiased": "object_counting",
    "mmsi-bench": "MSR",
    "mindcube-tiny": "around",
    "viewspatial": "Camera perspective - Relative Direction",
    "site": "counting & existence",
    "blink": "Jigsaw",
    "3dsrbench": "height_higher",
    "embspatial": "mp3d",
    "mmsi-video-bench": "Planning",
    "omnispatial": "Motion_Analysis",
    "spar-bench": "depth_prediction_oc",
}


@pytest.mark.parametrize("name", TASKS)
def test_every_benchmark_s_rows_say_gold_and_group_without_the_question(name):
    logged = {"doc_id": 7, "filtered_resps": "B", "input": ASKED, **LOGGED[name]}
    question = question_of(TASKS[name], "official", row_of(name, logged), 7)
    gold = {"viewspatial": "B. right"}.get(name, "3" if question.kind == "number" else "B")
    assert question.gold == gold
    assert question.groups[TASKS[name].by] == GROUPS[name]
    assert "7" in question.id or name == "3dsrbench"


@pytest.mark.parametrize("name", ["site", "blink", "3dsrbench", "embspatial", "viewspatial", "omnispatial"])
def test_options_are_those_of_the_prompt(name):
    logged = {"doc_id": 7, "filtered_resps": "B", "input": ASKED, **LOGGED[name]}
    question = question_of(TASKS[name], "official", row_of(name, logged), 7)
    assert question.options == {"A": "left", "B": "right", "C": "front"}


def test_site_s_number_of_options_is_that_of_its_score_even_without_a_prompt():
    question = question_of(
        TASKS["site"], "official", row_of("site", {"doc_id": 7, "filtered_resps": "B", **LOGGED["site"]}), 7
    )
    assert list(question.options) == ["A", "B", "C"]


@pytest.mark.parametrize("name", TASKS)
def test_what_the_harness_gave_a_row_is_found(name):
    expected = {"vsi-debiased": 0.4, "viewspatial": 0.0, "embspatial": 0.0}.get(name, 1.0)
    assert score_of({"doc_id": 7, **LOGGED[name]}) == expected


def test_mindcube_s_rows_whose_target_is_no_letter_cannot_be_scored():
    with pytest.raises(DataError, match="Give the data"):
        row_of("mindcube-tiny", {**LOGGED["mindcube-tiny"], "doc_id": 1, "target": "a map of the room"})


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    "odd", [{}, {"target": None}, {"accuracy": 1.0, "blink_acc": []}, {"chance_adjusted_acc": {"total": 7}}]
)
def test_rows_that_say_too_little_are_refused_and_nothing_else_happens(name, odd):
    with pytest.raises(DataError):
        question_of(TASKS[name], "official", row_of(name, {"doc_id": 0, "filtered_resps": "A", **odd}), 0)


def test_such_a_file_is_scored_on_the_command_line_s_way(tmp_path):
    rows = [
        {"doc_id": at, "filtered_resps": reply, "input": ASKED, **LOGGED["embspatial"]} for at, reply in enumerate("BA")
    ]
    rows[1] = json.loads(json.dumps(rows[1]).replace("mp3d_7", "mp3d_8"))
    path = tmp_path / "20261121_120000_samples_embspatial.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary, _ = score(path, "embspatial", profile="lmms-eval")
    assert {metric.name: metric.value for metric in summary.metrics["lmms-eval"]}["overall"] == 0.5
    problems = Problems()
    results = registry.find("embspatial").results
    assert results is not None
    found = results(path, Data(), problems)
    assert found is not None and [one.id for one, _ in found] == ["mp3d_7", "mp3d_8"]
    assert problems.count == 0


@pytest.mark.parametrize(
    ("metric", "main", "sub"),
    [
        ("cross_video_multi_view", "Cross-Video", "multi view"),
        ("motion_camera", "Motion Understanding", "camera"),
        ("spatial_instance_scene", "Spatial Construction", "instance scene"),
        ("planning", "Planning", "Planning"),
        ("prediction", "Prediction", "Prediction"),
        ("", "unknown", "unknown"),
    ],
)
def test_the_type_of_a_question_about_videos_is_told_by_the_metric_that_counts_it(metric, main, sub):
    others = {name: {"score": 0, "total": 0} for name in ("motion_instance", "spatial_attribute")}
    own = {metric: {"score": 1, "total": 1}} if metric else {}
    logged = {"target": "B", "overall_accuracy": {"score": 1, "total": 1}, **others, **own, "input": ASKED}
    question = question_of(TASKS["mmsi-video-bench"], "official", row_of("mmsi-video-bench", logged), 0)
    assert (question.groups["task_type"], question.groups["sub_task_type"]) == (main, sub)
