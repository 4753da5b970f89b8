"""Many data sets by many models: which are drawn, and that the reason stands where ranks are not."""

from snellen.features.published import published_tables
from snellen.reports import render
from snellen.reports.features.page import StoreView, draw_plots
from snellen.reports.plots.base import hollow, mark_of, series_colour, short_labels
from snellen.reports.plots.score_grid import ScoreGrid, grid_plots
from snellen.reports.plots.svg import page_style
from snellen.types import Metric


def drawn(scores, name="grid"):
    with page_style():
        return grid_plots(ScoreGrid(name, "accuracy", "data sets", scores), set())


def test_the_published_table_of_encoders_has_its_radar_and_its_ranks():
    (table,) = (table for table in published_tables() if table.title == "FG-BMK, linear classification")
    radar, ranks = drawn({row.name: dict(zip(table.columns, row.values, strict=True)) for row in table.rows})
    assert radar.title == "12 data sets by 7 models: accuracy" and all(name in radar.svg for name in table.columns)
    assert (
        ranks.title == "Mean ranks over 12 data sets: accuracy"
        and "chi square 49.46, 6 degrees of freedom" in ranks.caption
    )
    assert "critical distance 2.60" in ranks.svg and all(row.name in ranks.svg for row in table.rows)


def test_too_little_for_ranks_is_said_below_the_radar_and_too_little_for_both_draws_nothing():
    sets = {"a": 0.1, "b": 0.2, "c": 0.3}
    (radar,) = drawn({"one": sets, "two": sets})
    assert radar.caption.endswith("No ranks: ranks need three models or more, and there are 2.")
    assert drawn({"one": sets}) == [] and drawn({"one": {"a": 0.1, "b": 0.2}, "two": {"a": 0.1, "b": 0.3}}) == []
    gaps = {name: {**sets, name: 0.5} for name in ("one", "two", "six")}
    assert "3 data sets" in drawn(gaps)[0].title  # a set of one model is in no comparison


def test_stores_of_several_encoders_and_data_sets_share_one_radar_of_each_measure():
    stores = []
    for number, dataset in enumerate(("cub", "dogs", "cars", "food")):
        for place, encoder in enumerate(("dino", "clip", "tiny")):
            value = 0.9 - 0.2 * place + 0.01 * number
            measures = {"Linear probe": [Metric("accuracy", value, 9)], "Retrieval": [Metric("map", value, 9)]}
            stores.append(StoreView(f"{encoder}-{dataset}", {}, measures, cell=(encoder, dataset)))
    titles = [plot.title for plot in draw_plots(stores, ())[0]]
    assert "4 data sets by 3 encoders: accuracy of the linear probe" in titles
    assert "Mean ranks over 4 data sets: mean average precision of retrieval" in titles


def test_runs_of_a_suite_by_several_models_have_a_radar_of_its_subtasks(make_suite):
    page = render([make_suite(f"suite-{skill}", f"model-{skill}", skill=skill) for skill in (0.3, 0.5, 0.6)])
    assert "3 subtasks by 3 runs: score in suite" in page


def test_labels_that_would_be_cut_alike_are_told_apart_by_their_ends_or_numbers() -> None:
    long = "org-of-long-names/Model-VL-Instruct-"
    names = [f"{long}2B-step-1000", f"{long}7B-step-1000", f"{long}7B-step-1000", "short", f"{long}72B"]
    labels = short_labels(names, 20)
    assert all(len(label) <= 20 for label in labels) and labels[3] == "short"
    assert labels[1] == labels[2] and len(set(labels)) == 4, labels
    same_ends = [f"{'a' * 30}{part}{'b' * 30}" for part in "xyz"]
    assert len(set(short_labels(same_ends, 20))) == 3
    assert short_labels(["one", "one"], 20) == ["one", "one"]


def test_no_two_of_sixty_four_series_share_colour_and_marker() -> None:
    signs = {(series_colour(number), mark_of(number)) for number in range(1, 65)}
    assert len(signs) == 64
    assert [hollow(number) for number in (1, 8, 9, 16, 17)] == [False, False, True, True, False]


def test_the_ranks_of_models_with_long_names_name_each_of_them():
    scores = {
        f"organisation/model-of-many-words-{n}": {f"s{m}": 0.1 * n + 0.01 * m for m in range(6)} for n in range(9)
    }
    _, ranks = drawn(scores)
    assert all(f"y-words-{number}" in ranks.svg for number in range(9))
