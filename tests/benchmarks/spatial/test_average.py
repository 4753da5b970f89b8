"""Figures over scored rows, units of 3DSRBench, and the frames that are shown."""

from __future__ import annotations

import pytest

from snellen.benchmarks.spatial.interop.export import kit_table
from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.scorers import base, figures
from snellen.benchmarks.spatial.scorers.figures import ScoredRow, macro, micro
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import DataError


def rows(grouping: str, **values: list[float | None]) -> list[ScoredRow]:
    return [ScoredRow(value, {grouping: name}) for name, some in values.items() for value in some]


def test_macro_weighs_groups_and_micro_weighs_rows() -> None:
    some = rows("category", Counting=[1.0, 1.0, 1.0], Jigsaw=[0.0, None])
    assert micro(some) == 0.75
    assert macro(some, "category") == 0.5


def test_nothing_scored_gives_no_figure() -> None:
    assert micro([ScoredRow(None)]) is None
    assert figures.vsi([]) == figures.spar([]) == figures.site([]) == figures.settings([]) == {}


def test_vsi_counts_the_three_directions_as_one_type() -> None:
    some = rows(
        "question_type",
        object_rel_direction_easy=[1.0, 1.0, 1.0],
        object_rel_direction_medium=[0.0],
        object_rel_direction_hard=[0.5],
        object_counting=[0.1],
    )
    assert figures.vsi(some) == {"overall": 0.3, "object_counting": 0.1, "object_rel_direction": 0.5}
    assert figures.vsi(some[3:])["overall"] == pytest.approx(0.2)


def test_site_pools_rows_and_adjusts_for_chance() -> None:
    some = [ScoredRow(value, {"category": "c"}, options) for value, options in ((1, 2), (0, 4), (1, 4))]
    assert figures.site([*some, *some]) == {"overall": 0.5, "c": 0.5}
    assert figures.chance_adjusted([ScoredRow(0.0, options=4)]) == pytest.approx(-1 / 3)
    assert figures.chance_adjusted([ScoredRow(1.0, options=1)]) == 0.0


def test_site_rows_without_options_are_left_out_or_taken_for_four() -> None:
    some = [ScoredRow(1.0, options=2), ScoredRow(0.0)]
    assert figures.count_options("['a', 'b']") == 2
    assert figures.count_options("a, b") is figures.count_options("nan") is figures.count_options("[]") is None
    assert figures.chance_adjusted(some) == 1.0
    assert figures.chance_adjusted(some, options_when_unknown=4) == pytest.approx(0.2)


def test_spar_difficulties_with_and_without_the_view_change() -> None:
    some = rows("task", depth_prediction_oc=[0.3], position_matching=[1.0], view_change_infer=[0.5])
    found = figures.spar(some)
    assert found["overall"] == pytest.approx(0.6)
    assert (found["low"], found["middle"]) == (0.3, 0.75)
    assert figures.spar(some, view_change_in_middle=False)["middle"] == 1.0
    assert "high" not in found
    assert (len(base.SPAR_NUMBER), len(base.SPAR_HIGH), len(base.SPAR_MIDDLE)) == (8, 9, 3)


FORMS = ["ABCDEFGH", "ABCDEFGH-1", "ABCDEFGH-flip", "ABCDEFGH-flip-1", "IJKLMNOP", "IJKLMNOP-flip"]


def forms(*values: float) -> list[ScoredRow]:
    return [ScoredRow(value, {"category": "height_higher"}, qid=qid) for value, qid in zip(values, FORMS, strict=True)]


def test_3dsrbench_asks_for_all_forms_of_a_unit() -> None:
    assert figures.settings(forms(1, 1, 1, 0, 1, 0)) == {
        "vanilla_accuracy": pytest.approx(4 / 6),
        "flip_accuracy": pytest.approx(1 / 3),
        "circular_accuracy": 0.5,
        "flip_circular_accuracy": 0.0,
    }


def test_vlmevalkits_table_is_over_rows_that_bear_the_name_of_their_unit() -> None:
    table = {row["setting"]: row for row in kit_table(TASKS["3dsrbench"], forms(1, 1, 1, 0, 1, 0))}
    assert table["circ_eval"] == {"setting": "circ_eval", "Overall": 0.5, "height_higher": 0.5}
    assert list(table) == ["vanilla", "flip_eval", "circ_eval", "flip_circ_eval"]


def test_a_unit_without_its_own_row_stops_vlmevalkits_table() -> None:
    with pytest.raises(DataError, match="the first is 'IJKLMNOP'"):
        figures.main_rows(forms(1, 1, 1, 0, 1, 0)[:4] + forms(1, 1, 1, 0, 1, 0)[5:], "flip")


def test_a_short_video_is_shown_whole_by_one_harness_and_repeated_by_the_other() -> None:
    assert frames.lmms_eval(3) == [0, 1, 2]
    assert frames.uniform(3, 5) == [0, 0, 1, 1, 2]
    assert frames.uniform_tail(3, 5) == [0, 0, 1, 1, 2]
    assert frames.uniform_tail(9, 1) == [0, 8]
    assert frames.lmms_eval(1000)[:3] == [0, 32, 64]
    assert frames.by_rate(100, 25.0, 2.0) == [0, 12, 25, 37, 50, 62, 75, 87]
    assert frames.by_rate(100, 25.0, 0.5, tail=True) == [0, 50, 99]


def test_segments_share_fifty_frames() -> None:
    kit = frames.mmsi_video_vlmevalkit([1, 500])
    assert (kit[0], kit[1][:4], kit[1][-1], len(kit[1])) == ([0], [9, 19, 29, 39], 499, 49)
    assert frames.mmsi_video_vlmevalkit([2, 3]) == frames.mmsi_video_lmms_eval([2, 3]) == [[0, 1], [0, 1, 2]]
    assert frames.mmsi_video_vlmevalkit([100, 1, 100])[1] == [] != frames.mmsi_video_lmms_eval([100, 1, 100])[1]
    assert frames.mmsi_video_lmms_eval([100])[0][-1] == 98


def test_a_video_without_frames_is_an_error() -> None:
    with pytest.raises(DataError, match="0 frames"):
        frames.uniform(0)
