"""Figures of the two harnesses under the keys of EASI's payload: in percent, each from the column that EASI names."""

from __future__ import annotations

import json

import pytest
from openpyxl import Workbook

from snellen.benchmarks.spatial.interop.harness_metrics import from_lmms_eval, from_vlmevalkit, pooled_site
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.formats import Problems


@pytest.mark.parametrize(
    ("task", "column", "value", "key", "wanted"),
    [
        ("vsi-bench", "object_abs_distance_MRA:.5:.95:.05", 31.25, "object_abs_distance", 31.25),
        ("vsi-bench", "route_planning_accuracy", 20.0, "route_planning_accuracy", 20.0),
        ("mmsi-bench", "Pos-Cam-Cam_accuracy", 40.0, "pos_cam_cam_accuracy", 40.0),
        ("mindcube-tiny", "among_accuracy", 12.0, "among_accuracy", 12.0),
        (
            "viewspatial",
            "Person perspective - Scene Simulation Relative Direction_accuracy",
            5.0,
            "person_perspective_scene_simulation_relative_direction_accuracy",
            5.0,
        ),
        ("blink", "Multi-view_Reasoning", 0.5, "multi_view_reasoning", 50.0),
        ("blink", "IQ_Test", 0.25, "iq_test", 25.0),
        ("3dsrbench", "circ_eval.location_above", 0.5, "circ_eval_location_above", 50.0),
        ("3dsrbench", "circ_eval.Overall", 0.125, "circ_eval_overall", 12.5),
        ("embspatial", "mp3d_accuracy", 7.0, "mp3d_accuracy", 7.0),
        ("mmsi-video-bench", "task_type.Cross-Video_accuracy", 3.0, "cross_video_accuracy", 3.0),
        ("omnispatial", "sub_task_type.Pattern_Recognition_accuracy", 9.0, "pattern_recognition_accuracy", 9.0),
        ("spar-bench", "depth_prediction_oc_mv_MRA:.5:.95:.05", 0.11111, "depth_prediction_oc_mv", 11.111),
        ("spar-bench", "view_change_infer_vci_metric", 0.5, "view_change_infer_vci_metric", 50.0),
        ("spar-bench", "High", 0.75, "high", 75.0),
    ],
)
def test_a_column_of_the_kits_is_the_payloads_key(task, column, value, key, wanted):
    found = from_vlmevalkit(TASKS[task], {column: value})
    assert found.parts[key] == wanted and found.overall is None
    assert [name for name, figure in found.parts.items() if figure is not None] == [key]


@pytest.mark.parametrize(
    ("task", "metric", "value", "wanted"),
    [
        ("vsi-bench", "vsibench_overall", 0.5, 50.0),
        ("mmsi-bench", "average", 0.3, 30.0),
        ("blink", "blink_acc", 0.4567891, 45.6789),
        ("3dsrbench", "vanilla_accuracy", 0.5, 50.0),
        ("mmsi-video-bench", "overall_accuracy", 31.25, 31.25),
        ("omnispatial", "omnispatial", 0.25, 25.0),
        ("spar-bench", "sparbench_score", 33.5, 33.5),
    ],
)
def test_an_overall_metric_of_lmms_evals_is_taken_at_its_own_scale(task, metric, value, wanted):
    found = from_lmms_eval(TASKS[task], {TASKS[task].lmms: {metric: value}})
    assert found is not None and found.overall == wanted and found.id == TASKS[task].id


def test_both_shapes_of_vsi_bench_give_the_same_figures():
    parts = {"object_rel_distance_accuracy": 0.5, "object_counting_mra": 0.25}
    newer = from_lmms_eval(TASKS["vsi-bench"], {"vsibench_multiimage": {"vsibench_overall": 0.375, **parts}})
    nested = {f"vsibench_score.{name}": value for name, value in {"overall": 0.375, **parts}.items()}
    older = from_lmms_eval(TASKS["vsi-bench"], {"vsibench": nested})
    percent = from_lmms_eval(TASKS["vsi-bench"], {"vsibench": {name: value * 100 for name, value in nested.items()}})
    assert newer == older == percent
    assert newer is not None and newer.overall == 37.5 and newer.parts["object_counting"] == 25.0
    assert newer.parts["room_size_estimation"] is None


def test_the_debiased_half_is_never_taken_for_the_whole():
    results = {"vsibench_debiased_multiimage": {"vsibench_overall": 0.1}}
    assert from_lmms_eval(TASKS["vsi-bench"], results) is None
    found = from_lmms_eval(TASKS["vsi-debiased"], results)
    assert found is not None and found.overall == 10.0


@pytest.mark.parametrize(
    ("task", "other", "metric"),
    [
        ("blink", "blink_jigsaw", "blink_acc"),
        ("spar-bench", "sparbench_tiny", "sparbench_score"),
        ("vsi-bench", "vsibench_pruned", "vsibench_overall"),
        ("mmsi-bench", "mmsi_bench2", "average"),
    ],
)
def test_a_part_or_another_set_is_never_taken_for_the_whole(task, other, metric):
    assert from_lmms_eval(TASKS[task], {other: {metric: 0.5}}) is None


def test_a_percentage_is_not_taken_times_a_hundred():
    right = from_lmms_eval(TASKS["mmsi-video-bench"], {"mmsi_video_u50": {"overall_accuracy": 31.25}})
    assert right is not None and right.overall == 31.25


def test_a_figure_beyond_a_hundred_percent_is_left_out_and_told():
    found = from_vlmevalkit(TASKS["blink"], {"Overall": 55.0, "Jigsaw": 0.5})
    assert found.overall is None and found.parts["jigsaw"] == 50.0
    assert found.notes == ("overall is 5500 %, which no score can be; it is left out",)


def lmms_line(hit: int, n: int, category: str, **row) -> str:
    scores = {"overall": hit - 1 / n, category: hit - 1 / n, "a set": hit - 1 / n, "total": 1 - 1 / n}
    return json.dumps({"doc": {"category": category}, "chance_adjusted_acc": scores, **row})


def test_both_halves_of_site_are_pooled_by_item(tmp_path):
    rows = [(1, 2, "counting & existence"), (0, 4, "counting & existence"), (1, 4, "3d information understanding")]
    lmms = []
    for name in ("x_samples_site_bench_image.jsonl", "x_samples_site_bench_video.jsonl"):
        (tmp_path / name).write_text("\n".join(lmms_line(*row) for row in rows) + "\n")
        lmms.append(tmp_path / name)
    kit = []
    for name in ("m_SiteBenchImage_extract_matching.xlsx", "m_SiteBenchVideo_32frame_extract_matching.xlsx"):
        book = Workbook()
        book.active.append(["index", "hit", "category", "options"])
        for at, (hit, n, category) in enumerate(rows):
            book.active.append([at, hit, category, repr(["it's"] * n)])
        book.save(tmp_path / name)
        kit.append(tmp_path / name)
    for paths in (lmms, kit):
        problems = Problems()
        found = pooled_site(paths, problems)
        assert (found.overall, found.rows, problems.count) == (50.0, 6, 0)
        assert found.parts["3d_information_understanding_caa"] == 100.0
        assert found.parts["counting_and_existence_caa"] == 20.0
        assert found.parts["spatial_relationship_reasoning_caa"] is None


def test_a_row_of_site_whose_options_nobody_knows_is_left_out_and_told(tmp_path):
    path = tmp_path / "m_SiteBenchImage_extract_matching.xlsx"
    book = Workbook()
    book.active.append(["index", "hit", "category", "options"])
    for at, (hit, listed) in enumerate([(1, "['a', 'b']"), (1, "a and b"), (None, "['a', 'b']"), ("x", "['a', 'b']")]):
        book.active.append([at, hit, "counting & existence", listed])
    book.save(path)
    problems = Problems()
    assert pooled_site([path], problems).rows == 1
    assert problems.count == 3 and "the options are no list" in problems.first[0]
    assert pooled_site([], problems).overall is None
