"""Rows that nobody would write on purpose: counted as the authors' scripts count them, or named by their line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snellen.runs.score import score
from snellen.runs.scoring import Scored
from snellen.types import Metric


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def metrics(
    path: Path, task: str, data: Path | None = None, judge_replies: Path | None = None
) -> tuple[dict[str, dict[str, Metric]], list[Scored], list[str]]:
    rows: list[Scored] = []
    summary, notes = score(
        path, f"vlm2/{task}", data=data, profile="all", each=rows.append, judge_replies=judge_replies
    )
    return {name: {m.name: m for m in found} for name, found in summary.metrics.items()}, rows, notes


def answered(name: object, reply: object, gold: object) -> dict[str, object]:
    return {"q_id": name, "model_answer": reply, "gt_answer": gold}


def test_a_comparison_whose_id_is_the_half_alone_is_a_pair_too(tmp_path: Path) -> None:
    rows = [answered("_p", "T", "T"), answered("_n", "F", "F"), answered("1_p", "T", "T"), answered("1_n", "T", "F")]
    found, _, _ = metrics(write(tmp_path / "m.jsonl", rows), "oc-cpr")
    for profile in ("official", "vlmevalkit"):
        assert (found[profile]["pair_accuracy"].value, found[profile]["pair_accuracy"].n) == (0.5, 2)


def test_a_number_and_the_same_number_as_text_are_two_ids_to_the_authors_and_so_is_none(tmp_path: Path) -> None:
    rows = [answered(1, "T", "T"), answered("1", "F", "F"), answered(None, "T", "T"), answered(None, "F", "F")]
    found, _, notes = metrics(write(tmp_path / "m.jsonl", rows), "gc-mat")
    pairs = found["official"]["pair_accuracy"]
    assert (pairs.value, pairs.n) == (1 / 3, 3)
    assert found["vlmevalkit"]["pair_accuracy"].n == 2  # its index is text
    assert any("line 3: there is no q_id" in note for note in notes)


def test_the_number_of_images_is_looked_up_by_the_very_id_where_both_files_are_json(tmp_path: Path) -> None:
    questions = write(tmp_path / "q.jsonl", [{"q_id": 1, "image_seq_len": 4}, {"q_id": "2", "image_seq_len": 4}])
    rows = [answered("1", "3", 3), answered(1, "3", 3), answered(1.0, "3", 3), answered("2", "3", 3)]
    found, scored, notes = metrics(write(tmp_path / "m.jsonl", rows), "oc-cnt", questions)
    assert [one.scores["official"].value for one in scored] == [0.0, 1.0, 1.0, 1.0]
    assert found["official"]["usable_rate"].value == 0.75
    assert any("1 q_ids of the answers are not in it" in note for note in notes)
    table = tmp_path / "m.csv"
    table.write_text("q_id,model_answer,gt_answer\n1,3,3\n2,3,3\n", "utf-8")
    assert metrics(table, "oc-cnt", questions)[0]["official"]["usable_rate"].value == 1.0  # a table has no types


@pytest.mark.parametrize(
    ("gold", "official", "kit"),
    [
        (2.5, 0.09640468, 0.1040415),  # |2 - 2.5| / 1.5, and int(2.5) is 2 for VLMEvalKit
        (True, 1 - (1 / 3) ** 0.1, 1 - (1 / 3) ** 0.1),
        ("3.0", 1 - 0.5**0.1, None),
        ("two", None, None),
        ([3], None, None),
    ],
)
def test_gold_counts_that_are_no_integers_are_taken_as_each_harness_takes_them(
    gold: object, official: float | None, kit: float | None, tmp_path: Path
) -> None:
    questions = write(tmp_path / "q.jsonl", [{"q_id": "a", "image_seq_len": 4}])
    path = write(tmp_path / "m.jsonl", [answered("a", "2", gold), answered("a", None, gold)])
    found, scored, notes = metrics(path, "oc-cnt", questions)
    assert any("line 1: gt_answer" in note for note in notes)
    want = official if gold != 2.5 else 1 - (0.5 / 1.5) ** 0.1
    assert scored[0].scores["official"].value == (None if want is None else pytest.approx(want, abs=1e-12))
    usable = found["official"]["count_score_usable"]
    assert (usable.n, found["official"]["count_score_all"].n) == (0 if want is None else 1, 2)
    assert found["vlmevalkit"]["count_score_all"].n == (2 if kit is not None else 0)
    if gold == 2.5:
        assert scored[0].scores["vlmevalkit"].value == 1.0


def test_a_question_of_no_images_costs_its_own_row_alone(tmp_path: Path) -> None:
    questions = write(tmp_path / "q.jsonl", [{"q_id": "a", "image_seq_len": 0}, {"q_id": "b", "image_seq_len": 4}])
    path = write(tmp_path / "m.jsonl", [answered("a", "2", 1), answered("b", "2", 2)])
    _, scored, _ = metrics(path, "oc-cnt", questions)
    assert [one.scores["vlmevalkit"].value for one in scored] == [0.0, 1.0]


def test_a_list_is_no_t_to_the_authors_comparison_and_is_named_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", [answered("1", ["T"], "T"), answered("1", "F", "F")])
    found, _, notes = metrics(path, "gc-trk")
    assert found["official"]["positive_accuracy"].value == 0.0
    assert any("line 1: the reply is" in note for note in notes)


def test_two_descriptions_of_one_video_take_their_own_replies_in_order_or_share_a_single_one(tmp_path: Path) -> None:
    vids = ("a_AB", "a_AB", "b_ABA", "b_ABA", None)
    rows = [{"vid": vid, "question": "Describe.", "model_answer": "Two people."} for vid in vids]
    rows[3]["model_answer"] = None
    path = write(tmp_path / "vid_m_1.jsonl", rows)
    said = (("a_AB", "Score: 1"), ("a_AB", "Score: 0"), ("b_ABA", "Score: 1"))
    replies = write(tmp_path / "said.jsonl", [{"vid": vid, "reply": text} for vid, text in said])
    found, scored, notes = metrics(path, "pc-vid", judge_replies=replies)
    assert [one.scores["official"].value for one in scored] == [1.0, 0.0, 0.5, 0.5, None]
    assert (found["official"]["video_ab"].value, found["official"]["video_aba"].n) == (0.5, 2)
    for line in ("line 4: the reply is null", "line 5: there is no vid", "1 of 5 have no verdict"):
        assert any(line in note for note in notes), line


def test_a_mean_beyond_its_range_lies_in_its_interval(tmp_path: Path) -> None:
    vids = [f"{number}_{form}" for number in range(6) for form in ("AB", "ABA")]
    path = write(tmp_path / "vid_m_1.jsonl", [{"vid": vid, "question": "?", "model_answer": "x"} for vid in vids])
    said = [{"vid": vid, "reply": f"Score: {3 + place % 3}"} for place, vid in enumerate(vids)]
    found, _, _ = metrics(path, "pc-vid", judge_replies=write(tmp_path / "said.jsonl", said))
    score = found["official"]["video_score"]
    assert score.value is not None and score.ci95 is not None
    assert score.ci95[0] <= score.value <= score.ci95[1]
