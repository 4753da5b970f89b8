"""A sample of each kind of question of the further spatial benchmarks, for tests that put any reply to every rule."""

from __future__ import annotations

from benchmarks.spatial.more_samples import mask, sample
from snellen.types import Sample

DRAWN = {"w": 40, "h": 30, "rects": [[10, 5, 30, 20]], "value": 255}
CORNERS = "[(0.2, 0.2), (0.4, 0.25), (0.4, 0.6), (0.19, 0.6)]"
SIDES = {"A": "left", "B": "right", "C": "front", "D": "behind"}
NAMED: dict[str, list[Sample]] = {
    "stare": [
        sample("B", options={"A": "yes", "B": "no"}, category="folding_nets", yes_no="A:yes B:no"),
        sample("2", category="temporal"),
    ],
    "spatialviz": [sample("B", options=SIDES, category="MentalFolding", task="PaperFolding")],
    "erqa": [sample("B", question_type="Pointing")],
    "refspatial": [sample("", "open", category="location", mask=mask(DRAWN))],
    "robospatial-home": [
        sample("yes", "truth", category="compatibility"),
        sample(CORNERS, "open", category="context", width=640, height=480, mask=mask(DRAWN)),
    ],
    "spbench/si": [
        sample("B", question_type="object_rel_distance"),
        sample("2.5", "number", question_type="object_abs_distance"),
    ],
    "spbench/mv": [sample("3", "number", question_type="object_counting")],
    "vsi-super-recall": [sample("B", options=SIDES, question_type="10mins")],
    "vsi-super-count": [
        sample("14", "number", question_type="10mins"),
        sample("0", "number", question_type="10mins"),
        sample("[2, 3, 5]", "open", question_type="10mins_streaming"),
    ],
    "sti-bench": [sample("E", options={**SIDES, "E": "above"}, task_type="Pose Estimation")],
    "cv-bench": [sample("(B)", options=SIDES, split="2D", source="COCO", category="Count")],
    "lego-puzzles": [
        sample("B", options=SIDES, question_type="mcq", category="height"),
        sample("BDAC", "short", SIDES, question_type="sort", category="ordering"),
        sample("BDAC", "short", SIDES, question_type="sort", category="ordering", circle="1"),
    ],
    "spatial457": [sample("school bus", "short", category="L1_single"), sample("Yes", "short", category="L4_occ")],
    "dsr-bench": [sample("B", options=SIDES, task_type="abs_dis")],
    "eriq": [sample("B", task_type="QA_TASK_PROGRESS")],
    "osi-bench": [
        sample("B", options=SIDES, category="relative_distance", question_type="mcq"),
        sample("0", "number", category="absolute_speed", question_type="numerical"),
        sample("2.5", "number", category="absolute_distance", question_type="numerical"),
    ],
    "revsi": [
        sample("B", question_type="route_planning"),
        sample("2.5", "number", question_type="object_abs_distance"),
    ],
    "mindcube-full": [sample("B", options=SIDES, type="among")],
    "spar-bench-tiny": [
        sample("B", options=SIDES, question_type="position_matching"),
        sample("2.5", "number", question_type="depth_prediction_oc"),
        sample("move_right:1,move_up:0.5", "short", question_type="view_change_infer"),
    ],
    **{
        f"omnispatial-{name}": [sample("B", options=SIDES, sub_task_type="Localization")]
        for name in ("direct", "default", "zeroshot-cot")
    },
    "corecognition": [
        sample("B", concept="Permanence", answer_type="MC"),
        sample("NO", "truth", concept="Boundary", answer_type="TF"),
    ],
    "blink-circular": [sample("B", options=SIDES, category="Jigsaw", circle="1")],
}
"""By benchmark."""
