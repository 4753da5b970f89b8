"""EASI's faults with figures, and the leaderboard's mean: what changes, and that nothing changes unasked."""

from __future__ import annotations

import json
import math

import pytest

from snellen.benchmarks.spatial.reference import published
from snellen.benchmarks.spatial.reference.known_bugs import FAULTS, OF_FIGURES, with_faults
from snellen.benchmarks.spatial.reference.published import Figures, points
from snellen.benchmarks.spatial.tasks import EIGHT, EVERY, TASKS
from snellen.errors import UsageError

FIGURES = {task.id: Figures(0.283, dict.fromkeys(task.keys, 0.25)) for task in TASKS.values()}
FIGURES["3dsrbench"] = Figures(0.5, {**FIGURES["3dsrbench"].parts, "overall": 0.5, "circ_eval_overall": 0.25})


def changed(harness: str, *names: str) -> dict[str, Figures]:
    """Only what is no longer what it was."""
    found = with_faults(FIGURES, harness, names)
    return {key: value for key, value in found.items() if value != FIGURES[key]}


@pytest.mark.parametrize("harness", ["vlmevalkit", "lmms-eval"])
def test_without_a_name_nothing_changes(harness):
    assert with_faults(FIGURES, harness, ()) == FIGURES


def test_mmsi_video_is_a_hundred_times_too_large_after_lmms_eval_alone():
    (found,) = changed("lmms-eval", "mmsi-video-times-100").values()
    assert points(found.overall) == 2830.0
    assert changed("vlmevalkit", "mmsi-video-times-100") == {}


def test_the_sub_scores_of_spars_tasks_are_no_numbers_and_its_levels_are():
    found = with_faults(FIGURES, "vlmevalkit", ["spar-subscores-nan"])["spar_bench"]
    assert found.overall == 0.283
    lost = {key for key, value in found.parts.items() if value is not None and math.isnan(value)}
    assert lost == set(TASKS["spar-bench"].keys) - {"low", "middle", "high"} and len(lost) == 20
    assert "NaN" in json.dumps({key: points(value) for key, value in found.parts.items()})


def test_twelve_categories_of_3dsrbench_are_null_after_lmms_eval_and_the_circular_figure_is_not():
    (found,) = changed("lmms-eval", "3dsr-subscores-null").values()
    assert {key for key, value in found.parts.items() if value is None} == set(TASKS["3dsrbench"].keys)
    assert (found.overall, found.parts["circ_eval_overall"]) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("name", "harness", "ids", "scored"),
    [
        ("mmsi-video-subscores-null", "vlmevalkit", {"mmsi_video_bench"}, True),
        ("pinned-subscores-null", "lmms-eval", {"viewspatial", "embspatial"}, True),
        ("vsi-null", "lmms-eval", {"vsi_bench", "vsi_debiased"}, False),
        ("3dsr-file-not-found", "vlmevalkit", {"3dsrbench"}, False),
        ("site-null-when-judged", "vlmevalkit", {"site"}, False),
    ],
)
def test_what_easi_does_not_find_is_null(name, harness, ids, scored):
    found = changed(harness, name)
    assert set(found) == ids
    for one in found.values():
        assert (one.overall is not None) is scored
        assert set(one.parts.values()) == {None}


def test_half_of_site_is_sites_only_where_the_fault_is_asked_for():
    half = {"site/video": Figures(0.4, {}), "blink": Figures(0.5, {})}
    assert with_faults(half, "lmms-eval", ()) == half
    assert with_faults(half, "lmms-eval", ["site-half"]) == {"site": Figures(0.4, {}), "blink": Figures(0.5, {})}
    both = {**half, "site/image": Figures(0.2, {})}
    assert with_faults(both, "vlmevalkit", ["site-half"]) == both


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_names_what_it_touches_and_is_applied_or_sent_to_where_it_is(name):
    fault = FAULTS[name]
    assert fault.text and set(fault.benchmarks) <= set(EVERY)
    if fault.of == "figures":
        half = {"site/image": Figures(0.4, {})} if name == "site-half" else FIGURES
        harness = "vlmevalkit" if fault.harness == "both" else fault.harness
        assert with_faults(half, harness, [name]) != half
        return
    with pytest.raises(UsageError, match=fault.profile or {"judging": "judge", "running": "harness"}[fault.of]) as said:
        with_faults(FIGURES, "vlmevalkit", [name])
    assert name in str(said.value)


def test_a_fault_that_easi_has_not_is_refused_with_those_that_it_has():
    with pytest.raises(UsageError, match="no fault 'rounding'") as said:
        with_faults(FIGURES, "vlmevalkit", ["rounding"])
    assert all(name in said.value.hint for name in OF_FIGURES)


def test_the_mean_is_over_what_has_a_score_and_says_what_has_none():
    found = published.mean_over({"blink": 0.5, "site": 0.0, "viewspatial": None, "spar-bench": 1.0}, EIGHT)
    assert (found.value, found.known, found.coverage) == (25.0, ("site", "blink"), "2 of 8")
    assert set(found.missing) == set(EIGHT) - {"site", "blink"}
    assert published.mean_over({}, EIGHT).value is None
    assert published.mean_over({"site": None}, ["site"]).coverage == "0 of 1"


def test_means_over_different_benchmarks_are_not_comparable():
    one, other = published.mean_over({"blink": 0.5}, EIGHT), published.mean_over({"site": 0.5}, EIGHT)
    assert one.value == other.value and not one.comparable(other)
    assert one.comparable(published.mean_over({"blink": 0.9}, EIGHT))
    assert not published.mean_over({}, EIGHT).comparable(published.mean_over({}, EIGHT))
