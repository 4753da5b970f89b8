"""The matrix of scores: means say their coverage, incomplete runs are marked, and rows that differ in it are not mixed."""

from __future__ import annotations

import json

import pytest
from scored_runs import entry, scores

from snellen.scoring import statistics
from snellen.scoring.statistics.averages import mean_of_independent
from snellen.types import Metric
from snellen.viewer.index.catalogue import threshold_remarks
from snellen.viewer.run_list import Rankings, RunGroup, make_row
from snellen.viewer.score_matrix import benchmark_cells, build_matrix, part_cells, score_axis, slice_means, sort_rows


def matrix(entries, profile="", *, by_settings=False, mean_over="all", sort="mean", down=True):
    cells = benchmark_cells(entries, profile, by_settings=by_settings)
    columns = sorted({name for row in cells.values() for name in row})
    return sort_rows(build_matrix(cells, columns, mean_over=mean_over), sort, down=down)


TWO_MODELS = [
    entry("a1", "ada", "birds", value=0.6),
    entry("a2", "ada", "cars", value=0.8),
    entry("a3", "ada", "dogs", value=0.7),
    entry("b1", "bert", "birds", value=0.9),
    entry("b2", "bert", "cars", value=0.9),
]


def test_a_mean_over_fewer_benchmarks_is_marked_and_stands_below_whole_ones():
    result = matrix(TWO_MODELS)
    assert [(row.name, row.mean.n, row.mean.of, row.whole) for row in result.rows] == [
        ("ada", 3, 3, True),
        ("bert", 2, 3, False),
    ]
    assert [row.mean.value for row in result.rows] == pytest.approx([0.7, 0.9])
    assert result.rows[1].missing == ("dogs",)
    assert any("different columns" in note for note in result.notes)


def test_a_mean_over_shared_benchmarks_leaves_the_others_out_for_every_model():
    result = matrix(TWO_MODELS, mean_over="shared")
    assert result.mean_over == ("birds", "cars")
    assert [(row.name, row.mean.n) for row in result.rows] == [("bert", 2), ("ada", 2)]
    assert [row.mean.value for row in result.rows] == pytest.approx([0.9, 0.7])
    assert all(row.whole for row in result.rows) and not result.notes


def test_the_interval_of_a_mean_is_that_of_its_cells():
    result = matrix(TWO_MODELS[:3])
    ends = [tuple(statistics.wilson(value, 100)) for value in (0.6, 0.8, 0.7)]
    assert result.rows[0].mean.ci95 == pytest.approx(mean_of_independent([0.6, 0.8, 0.7], ends).ci95)


def test_one_model_without_benchmarks_in_common_has_no_shared_mean():
    result = matrix([TWO_MODELS[2], TWO_MODELS[3]], mean_over="shared")
    assert result.mean_over == () and result.mean_name == ""
    assert any("no mean over shared" in note for note in result.notes)


def test_an_incomplete_run_is_marked_and_never_makes_a_row_whole():
    entries = [
        entry("a1", "ada", "birds", value=0.5),
        entry("a2", "ada", "cars", value=0.5),
        entry("b1", "bert", "birds", value=0.9, coverage=0.4),
        entry("b2", "bert", "cars", value=0.9),
    ]
    result = matrix(entries)
    assert [(row.name, row.whole, row.partial) for row in result.rows] == [
        ("ada", True, ()),
        ("bert", False, ("birds",)),
    ]
    assert result.rows[1].cells[0].partial
    by_birds = matrix(entries, sort="birds")
    assert [row.name for row in by_birds.rows] == ["ada", "bert"]


def test_of_several_runs_of_a_cell_the_complete_one_is_taken_and_the_others_are_counted():
    entries = [
        entry("partial", "ada", value=0.9, coverage=0.5, ended=9.0),
        entry("older", "ada", value=0.6, ended=1.0),
        entry("newer", "ada", value=0.7, ended=2.0),
    ]
    cell = matrix(entries).rows[0].cells[0]
    assert (cell.key, cell.metric.value, cell.others) == ("newer", 0.7, ("older", "partial"))


def test_settings_make_rows_of_their_own_where_that_is_wished():
    entries = [entry("a", "ada", settings="temperature 0"), entry("b", "ada", settings="temperature 1")]
    assert len(matrix(entries).rows) == 1
    assert [row.detail for row in matrix(entries, by_settings=True).rows] == ["temperature 0", "temperature 1"]


def test_judges_and_runs_without_the_profile_have_no_cell():
    entries = [entry("a", "ada"), entry("j", "judge", judges="a"), entry("n", "none", metrics={}, headline=None)]
    assert [row.name for row in matrix(entries).rows] == ["ada"]
    assert matrix(entries, "official").rows == ()


def test_scores_that_are_no_shares_stay_out_of_the_mean():
    seconds = Metric("threshold", 12.5, 80, (11.0, 14.0), "px")
    entries = [
        entry("a", "ada", "birds", value=0.5),
        entry("b", "ada", "cars", value=0.7),
        entry("c", "ada", "acuity", metrics={"strict": [seconds]}),
    ]
    result = matrix(entries)
    assert result.mean_over == ("birds", "cars")
    assert result.rows[0].mean.value == pytest.approx(0.6)
    assert any("acuity" in note for note in result.notes)


def test_rows_are_sorted_by_name_by_column_and_upside_down():
    assert [row.name for row in matrix(TWO_MODELS, sort="name", down=False).rows] == ["ada", "bert"]
    assert [row.name for row in matrix(TWO_MODELS, sort="name", down=True).rows] == ["bert", "ada"]
    assert [row.name for row in matrix(TWO_MODELS, sort="birds").rows] == ["bert", "ada"]
    assert [row.name for row in matrix(TWO_MODELS, sort="dogs", down=False).rows] == ["ada", "bert"]
    assert [row.name for row in matrix(TWO_MODELS, sort="no such column").rows] == ["ada", "bert"]


def test_parts_of_one_benchmark_are_its_metrics_under_the_headline():
    metrics = [Metric(name, 0.5, 10) for name in ("accuracy", "accuracy/easy", "accuracy/hard", "invalid")]
    entries = [entry("a", "ada", metrics={"strict": metrics}), entry("b", "ada", metrics={"strict": metrics[:2]})]
    cells, columns = part_cells(entries, "")
    assert columns == ("accuracy", "accuracy/easy", "accuracy/hard")
    assert part_cells(entries, "", every=True)[1] == (*columns, "invalid")
    rows = build_matrix(cells, columns, mean_columns=()).rows
    assert [(row.name, row.detail) for row in rows] == [("ada", "a"), ("ada", "b")]
    assert rows[1].cells[2] is None


def test_the_means_of_slices_are_means_of_their_samples():
    column = scores(
        {f"s{k}": float(k % 3 == 0) for k in range(90)}, level=lambda s: "even" if int(s[1:]) % 2 == 0 else "odd"
    )
    means = slice_means(column, "level")
    assert means["even"].value == pytest.approx(15 / 45)
    assert (means["odd"].n, means["odd"].ci95) == (45, pytest.approx(tuple(statistics.wilson(15 / 45, 45))))


def test_a_scale_runs_from_0_to_100_or_fits_its_column():
    low, high = Metric("m", 0.4, 10, (0.3, 0.5)), Metric("m", 0.6, 10, (0.55, 0.7))
    full = score_axis([low, high], "fraction", fitted=False)
    assert (full.fields(low)["at"], full.fields(low)["low"], full.tone(high)) == (40.0, 30.0, 6)
    fitted = score_axis([low, high], "fraction", fitted=True)
    assert fitted.ends == ("28 %", "72 %")
    assert fitted.fields(low)["low"] == pytest.approx(100 * 0.016 / 0.432, abs=0.01)
    assert fitted.fields(Metric("m", 0.4, 10, None, chance=0.1))["chance"] is None
    assert score_axis([], "fraction", fitted=True).low < score_axis([], "fraction", fitted=True).high
    assert fitted.fields(Metric("m", None, 0))["at"] is None


def test_thresholds_of_a_run_are_columns_with_their_unit_and_state_and_make_no_mean():
    gap = Metric("threshold/gap", 3.21, 48, (2.7, 3.7), "px")
    motion = Metric("threshold/motion", None, 64, None, "px a frame")
    run = entry(
        "a", "ada", "acuity", metrics={"strict": [gap, motion]}, remarks={"threshold/motion": "not seen at any level"}
    )
    cells, columns = part_cells([run], "")
    assert columns == ("threshold/gap", "threshold/motion")
    result = build_matrix(cells, columns)
    shown_gap, shown_motion = result.rows[0].cells
    assert score_axis([gap], "px", fitted=True).fields(shown_gap.metric)["text"] == "3.2 px"
    assert score_axis([gap], "px", fitted=True).fields(shown_gap.metric)["interval"] == "[2.7, 3.7]"
    assert shown_motion.remark == "not seen at any level"
    assert result.mean_over == ()


def test_the_list_of_runs_names_the_threshold_and_ranks_none():
    metrics = [Metric("threshold/gap", 3.21, 48, (2.7, 3.7), "px"), Metric("threshold/motion", None, 64, None, "px")]
    rows = [
        make_row(entry(name, name, "acuity", metrics={"strict": metrics}, remarks={"threshold/gap": "not finished"}))
        for name in ("ada", "bert")
    ]
    assert rows[0].score["text"] == "gap 3.2 px"
    assert rows[0].remarks == ("1 of 2 thresholds", "gap: not finished")
    assert rows[0].values["score"] is None
    ranked = Rankings().of(RunGroup("acuity", "", tuple(rows), ranked=True), wait=True)
    assert ranked.places == {}
    assert "ratios" in ranked.note


def test_words_on_thresholds_come_from_the_summary_whatever_it_holds():
    rows = [
        {"name": "gap", "value": 3.2, "state": "settled", "words": "3.2 px"},
        {"name": "text", "value": 9.0, "state": "budget", "words": "9.0 px"},
        {"name": "motion", "value": None, "state": "floor", "words": "not seen at any level"},
        {"name": 7, "value": None, "words": "x"},
        {"name": "count", "value": None, "words": ["x"]},
        "count",
    ]
    summary = json.dumps({"profiles": [{"profile": "strict", "conditions": rows}]}).encode()
    assert threshold_remarks(summary) == {
        "threshold/text": "interval wider than requested",
        "threshold/motion": "not seen at any level",
    }
    for other in (b"{}", b'{"profiles": 3}', b'{"profiles": [1]}', b'{"profiles": [{"conditions": "threshold/"}]}'):
        assert threshold_remarks(other) == {}
