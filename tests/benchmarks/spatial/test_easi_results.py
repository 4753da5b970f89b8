"""Figures that lmms-eval and VLMEvalKit made: read as they stand, whatever the table looks like, and nothing is made up."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.benchmarks.spatial.interop.harness_metrics import read_all_lmms_results, read_kit_acc, read_lmms_results
from snellen.errors import DataError
from snellen.formats import Problems


def kit(tmp_path, text: str, name: str = "m_X_acc.csv"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return read_kit_acc(path)


def test_a_metrics_name_ends_at_its_first_comma_and_an_object_gives_each_number_in_it(tmp_path):
    path = tmp_path / "20260101_000000_results.json"
    path.write_text(
        '{"results": {"blink": {"blink_acc,none": 0.5, "blink_acc_stderr,none": "N/A", "alias": "blink", " x": true, "y": NaN},'
        ' "vsibench": {"vsibench_score,none": {"overall": 0.25, "route_planning_accuracy": 1, "z": null}}},'
        ' "groups": {"blink": {"blink_acc,none": 0.9}, "mmsi_bench": {"average,none": 1e400}}}'
    )
    assert read_lmms_results(path) == {
        "blink": {"blink_acc": 0.5},
        "vsibench": {"vsibench_score.overall": 0.25, "vsibench_score.route_planning_accuracy": 1.0},
        "mmsi_bench": {},
    }


def test_of_several_files_the_last_by_name_has_a_task_and_one_that_is_torn_is_told(tmp_path):
    for day, figure in (("02", 0.2), ("01", 0.1)):
        body = {"results": {"a": {"acc,none": figure}, f"only{day}": {"acc,none": 1}}}
        (tmp_path / f"202601{day}_results.json").write_text(json.dumps(body))
    (tmp_path / "20260103_results.json").write_text('{"results": {"a": {"acc')
    problems = Problems()
    found = read_all_lmms_results(tmp_path.glob("*_results.json"), problems)
    assert found == {"a": {"acc": 0.2}, "only01": {"acc": 1.0}, "only02": {"acc": 1.0}}
    assert problems.count == 1 and "20260103" in problems.first[0] and "not JSON" in problems.first[0]


@pytest.mark.parametrize("mark", ["\t", ",", ";"])
def test_a_wide_table_is_read_whatever_parts_its_cells(tmp_path, mark):
    header, row = ["", "overall", "MSR_accuracy", "model"], ["0", "41.5", "", "m"]
    assert kit(tmp_path, mark.join(header) + "\n" + mark.join(row) + "\n") == {"overall": 41.5}


def test_a_figure_that_the_first_row_leaves_empty_is_taken_from_the_next(tmp_path):
    text = "overall\tLow\tposition_matching_accuracy\n0.4\t0.3\t\n0.4\t0.3\t0.25\n"
    assert kit(tmp_path, text) == {"overall": 0.4, "Low": 0.3, "position_matching_accuracy": 0.25}


def test_rows_of_a_setting_stand_under_its_name_and_the_vanilla_row_under_plain_names(tmp_path):
    text = "setting,Overall,height_higher\ncirc_eval,0.2,\nvanilla,0.6,0.5\n"
    found = kit(tmp_path, text)
    assert found["Overall"] == 0.6 and found["height_higher"] == 0.5
    assert found["circ_eval.Overall"] == 0.2 and "circ_eval.height_higher" not in found


def test_rows_of_two_splits_are_not_mixed(tmp_path):
    found = kit(tmp_path, "split,Overall,Jigsaw\nval,0.6,\ntest,0.1,0.9\n")
    assert found == {"Overall": 0.6, "val.Overall": 0.6, "test.Overall": 0.1, "test.Jigsaw": 0.9}


def test_metric_and_value_columns_are_read_in_either_order(tmp_path):
    assert kit(tmp_path, "value\tMetric\n0.5\toverall\n\tx\nnan\ty\n") == {"overall": 0.5}


@pytest.mark.parametrize("text", ["", "\n\n", "overall\n", "\x00\x00", '"' + "x" * 200_000])
def test_what_is_no_table_is_refused_with_the_files_name(tmp_path, text):
    with pytest.raises(DataError, match="m_X_acc"):
        kit(tmp_path, text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"results": []}', "[" * 100_000, "9" * 5000, "\x00", '{"results"'])
def test_what_is_no_result_file_is_refused_with_the_files_name(tmp_path, text):
    path = tmp_path / "r_results.json"
    path.write_text(text)
    with pytest.raises(DataError, match="r_results"):
        read_lmms_results(path)


figures = st.floats(allow_nan=True, allow_infinity=True)
names = st.text(st.characters(exclude_characters="\t\r\n,;\"'", exclude_categories=("Z", "C")), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(names.filter(lambda one: one.lower() not in ("setting", "split", "metric", "value")), figures))
def test_every_finite_figure_of_any_wide_table_comes_back(tmp_path_factory, table):
    table = {"overall": 1.0, **table}
    path = tmp_path_factory.mktemp("acc") / "m_acc.csv"
    path.write_text("\t".join(table) + "\n" + "\t".join(map(repr, table.values())) + "\n", "utf-8")
    assert read_kit_acc(path) == {name: value for name, value in table.items() if math.isfinite(value)}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_do_more_than_be_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "x_acc.csv"
    path.write_bytes(data)
    for read in (read_kit_acc, read_lmms_results):
        try:
            found = read(path)
        except DataError:
            continue
        for value in found.values():
            assert isinstance(value, dict) or math.isfinite(value)


values = st.recursive(
    st.none() | st.booleans() | figures | st.text(max_size=5), lambda inner: st.dictionaries(names, inner)
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(names, st.dictionaries(names, values) | st.none()))
def test_results_of_any_shape_give_finite_numbers_by_task(tmp_path_factory, results):
    path = tmp_path_factory.mktemp("lmms") / "x_results.json"
    path.write_text(json.dumps({"results": results}))
    found = read_lmms_results(path)
    assert set(found) == {task for task, table in results.items() if table is not None}
    assert all(math.isfinite(value) for table in found.values() for value in table.values())
