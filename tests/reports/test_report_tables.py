"""How scores become text and links."""

from collections import Counter
from urllib.parse import parse_qs

import pytest

from snellen.reports import RunView, tables
from snellen.reports.collect import RunTally, convert_like_target
from snellen.reports.links import metric_filters, metric_link
from snellen.reports.plots import _chosen
from snellen.reports.plots.base import Series
from snellen.reports.plots.eye_chart import eye_chart
from snellen.reports.plots.level_curves import curves_by_level, level_curves, level_order
from snellen.types import Metric


def tally(**meta):
    return RunTally(meta={name: dict.fromkeys(values) for name, values in meta.items()})


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.8312, "83.1 %"), (1.0, "100.0 %"), (0.9999, "> 99.9 %"), (0.0, "0.0 %"), (0.0001, "< 0.1 %")],
)
def test_percentages_never_round_to_all_or_nothing_what_is_not(share, text):
    assert tables.format_percent(share) == text


def test_a_metrics_name_says_which_answers_stand_behind_it():
    known = tally(kind=["short", "truth"], level=["class", "species"], colour=["red"])
    assert metric_filters("accuracy/short/species", known) == {"kind": "short", "level": "species"}
    assert metric_filters("accuracy/red", known) == {"colour": "red"}
    assert metric_filters("accuracy/nowhere", known) == {}
    assert metric_filters("accuracy/red", known, {"kind": "truth"}) == {"kind": "truth"}


def test_a_metric_links_to_the_answers_that_count_against_it():
    known = tally(kind=["short"], level=["a & b"])
    link = metric_link("accuracy/short/a & b", known, "my run", "strict")
    assert parse_qs(link.removeprefix("#")) == {
        "run": ["my run"],
        "profile": ["strict"],
        "verdict": ["wrong,partial,invalid,error"],
        "by.kind": ["short"],
        "by.level": ["a & b"],
    }
    assert "verdict=invalid&" in metric_link("invalid", known, "r", "p") + "&"


def test_parts_of_a_metric_follow_their_whole():
    names = ["accuracy", "accuracy/a", "accuracy/b", "accuracy/a/x", "accuracy/b/x", "invalid", "c/d/e"]
    assert list(tables.tree_order(names)) == [
        "accuracy", "accuracy/a", "accuracy/a/x", "accuracy/b", "accuracy/b/x", "invalid", "c/d/e",
    ]  # fmt: skip


def test_levels_run_from_coarse_to_fine_whatever_order_they_came_in():
    names = ["species", "easy", "class", "genus"]
    assert level_order(Series("s", "r", "p", [], tally(level=names), 1)) == ["class", "genus", "species", "easy"]
    metrics = [Metric(f"accuracy/{level}", 0.5, 10) for level in ("species", "class")]
    one = Series("s", "r", "p", metrics, tally(level=["species", "class"]), 1)
    assert [m.name for _, m in curves_by_level(one)["accuracy"]] == ["accuracy/class", "accuracy/species"]


def test_a_level_curve_is_found_wherever_the_level_stands_in_a_name_and_no_diagnosis_is_one():
    names = [
        "image_accuracy", "accuracy/class/short", "accuracy/species/short", "birds/class/truth/accuracy",
        "birds/species/truth/accuracy", "birds/class/truth/invalid", "birds/species/truth/invalid",
        "kinship/class/short/sibling", "kinship/species/short/sibling", "consistency/class-species/short",
    ]  # fmt: skip
    metrics = [Metric(name, 0.5, 10) for name in names] + [Metric("accuracy/genus/short", None, 0)]
    known = tally(level=["species", "class", "genus"], task=["birds/class/truth", "birds/species/truth"])
    found = curves_by_level(Series("s", "r", "p", metrics, known, 1))
    assert {name: [level for level, _ in points] for name, points in found.items()} == {
        "accuracy/short": ["class", "species"],
        "birds/truth/accuracy": ["class", "species"],
    }


def test_levels_of_a_taxonomy_of_its_own_stand_by_the_depth_that_answers_tell():
    known = tally(level=["part", "family", "machine"])
    for level, depth in (("part", 2), ("family", 0), ("machine", 1)):
        known.classes.add("short", {"level": level, "depth": str(depth), "label": "x"}, None)
    assert level_order(Series("s", "r", "p", [], known, 1)) == ["family", "machine", "part"]


def test_a_diagnosis_leads_to_the_answers_of_its_data_set_and_level():
    known = tally(kind=["truth"], level=["genus", "sub-species"], dataset=["birds"], ask=["bias", "hierarchy"])
    assert metric_filters("birds/drop/genus-sub-species/truth", known) == {
        "dataset": "birds", "level": "sub-species", "kind": "truth",
    }  # fmt: skip
    assert metric_filters("consistency/genus-sub-species/truth", known) == {"level": "genus", "kind": "truth"}
    assert metric_filters("class_worst/bias/genus/truth", known) == {"ask": "bias", "level": "genus", "kind": "truth"}


def test_a_member_whose_name_has_slashes_is_found_whole():
    known = tally(task=["birds/genus/truth", "birds"], kind=["truth"], level=["genus"])
    assert metric_filters("birds/genus/truth/accuracy", known) == {"task": "birds/genus/truth"}
    names = ["accuracy", "birds/genus/truth/accuracy", "birds/genus/truth/invalid"]
    assert tables.find_parents(names, known.meta["task"]) == {
        names[0]: "", names[1]: "", names[2]: "birds/genus/truth/accuracy",
    }  # fmt: skip
    one = Series("s", "r", "p", [Metric(name, 0.5, 10) for name in names], known, 1)
    row = tables.metric_rows([one], [RunView("r", "b", "m", {}, lambda: iter(()))])[2]
    assert (row.path, row.label, row.depth) == ("birds · genus · truth · ", "invalid", 1)


def test_the_eye_chart_blurs_a_line_as_far_as_the_model_is_from_seeing_it():
    metrics = [
        Metric("accuracy", 0.7, 30),
        Metric("accuracy/class", 1.0, 10, chance=0.5),
        Metric("accuracy/genus", 0.75, 10, chance=0.5),
        Metric("accuracy/species", 0.4, 10, chance=0.5),
    ]
    chart = eye_chart(Series("s", "r", "p", metrics, tally(level=["class", "genus", "species"]), 1))
    assert [(line["word"], line["blur"]) for line in chart] == [("CLASS", 0), ("GENUS", 4), ("SPECIES", 8)]
    assert [line["size"] for line in chart] == sorted((line["size"] for line in chart), reverse=True)


def suite_series(metrics, profile="official", run="r"):
    return Series("s", run, profile, metrics, tally(task=["near", "far", "video"], kind=["truth"]), 1)


def test_a_members_metric_leads_to_the_answers_of_that_member():
    known = tally(task=["near", "far"], kind=["truth"], level=["species"])
    assert metric_filters("near/pair_accuracy", known) == {"task": "near"}
    assert metric_filters("near/accuracy/truth/species", known) == {"task": "near", "kind": "truth", "level": "species"}
    assert metric_filters("overall_8", known) == {}
    assert "verdict=invalid&by.task=near" in metric_link("near/invalid", known, "r", "p")
    assert "verdict=invalid%2Cerror&by.task=far" in metric_link("far/usable_rate", known, "r", "p")


def test_a_members_metrics_stand_together_under_its_headline():
    names = ["overall", "near/pairs", "near/right", "far/pairs", "far/invalid", "near/late", "near/late/x"]
    assert tables.tree_order(names, {"near", "far"}) == [
        "overall", "near/pairs", "near/right", "near/late", "near/late/x", "far/pairs", "far/invalid",
    ]  # fmt: skip
    assert list(tables.tree_order(names)) == names
    one = suite_series([Metric(name, 0.5, 10) for name in names])
    run = RunView("r", "b", "m", {}, lambda: iter(()))
    assert [(row.path, row.label, row.depth) for row in tables.metric_rows([one], [run])] == [
        ("", "overall", 0),
        ("", "near · pairs", 0),
        ("near · ", "right", 1),
        ("near · ", "late", 1),
        ("near · late · ", "x", 2),
        ("", "far · pairs", 0),
        ("far · ", "invalid", 1),
    ]


def test_the_eye_chart_of_a_suite_without_levels_has_a_line_for_each_members_headline():
    metrics = [
        Metric("overall_8", 0.4, 20, chance=0.25),
        Metric("near/pair_accuracy", 0.25, 10, chance=0.25),
        Metric("near/invalid", 0.9, 10),
        Metric("far/count_score", 1.0, 10),
        Metric("video/invalid", 0.0, 10),
    ]
    chart = eye_chart(suite_series(metrics))
    assert [(line["word"], line["blur"]) for line in chart] == [("FAR", 0), ("NEAR", 8)]
    assert parse_qs(chart[1]["link"].removeprefix("#"))["by.task"] == ["near"]
    assert eye_chart(suite_series(metrics[:3])) == []  # one line is no chart
    assert eye_chart(Series("s", "r", "p", [Metric("count_score", 0.5, 9)], tally(kind=["count"]), 1)) == []


def test_a_plot_with_too_many_parts_shows_each_members_headline_and_never_a_lesser_metric_in_its_place():
    own = [f"m{i}/{name}" for i in range(8) for name in ("head", "second", "third", "invalid")]
    names = [name for name in own if name != "m3/head"]  # m3's headline has no value
    assert _chosen(["overall", *names], [["overall", *own]]) == ["overall", *(f"m{i}/head" for i in range(8) if i != 3)]
    assert _chosen(names[:20], [own]) == names[:20]
    elsewhere = [name for name in own if not name.startswith("m5/")] + ["m5/invalid"]
    assert "m5/invalid" not in _chosen(["overall", *names], [["overall", *own], elsewhere])


def beside_of(published, metrics, **changes):
    run = RunView("r", "b", "my model", {"official": metrics}, lambda: iter(()), published=[published], **changes)
    return tables.published_tables([suite_series(metrics)], [run])


def test_a_run_stands_above_the_published_rows_with_its_interval_and_dashes(published_table):
    metrics = [
        Metric("near/pair_accuracy", 0.35912, 259, (0.3, 0.42)),
        Metric("far/pair_accuracy", 0.5, 110, (0.41, 0.59), coverage=0.5),
        Metric("video/video_score", None, 0),
    ]
    (table,) = beside_of(published_table, metrics, conditions=["prompting = cot"])
    mine, chance, human, small, large = table.lines
    assert [None if c is None else (c.text, c.interval, c.full) for c in mine.cells] == [
        ("35.91", "30.0 – 42.0", True),
        ("50.00", "41.0 – 59.0", False),
        None,
        None,
    ]
    assert (mine.name, mine.colour, mine.remarks) == ("my model", 1, ("coverage below 100 %", "prompting = cot"))
    assert "by.task=near" in mine.cells[0].link
    assert [c and c.text for c in human.cells] == ["95.06", "98.11", "100.00", "97.73"]
    assert [line.name for line in (chance, human, small, large)] == ["chance", "human", "Small-7B", "Large-70B"]
    assert all(line.colour == 0 and line.remarks == () for line in (chance, human, small, large))
    assert all(not isinstance(cell, tables.MetricCell) for line in table.lines[1:] for cell in line.cells)


def test_the_best_published_model_of_a_column_is_marked_and_neither_people_nor_chance_nor_runs_are(published_table):
    (table,) = beside_of(published_table, [Metric("near/pair_accuracy", 0.99, 259)])
    best = {(line.name, at) for line in table.lines[1:] for at, c in enumerate(line.cells) if c and c.best}
    assert best == {("Large-70B", 0), ("Small-7B", 1), ("Small-7B", 2), ("Large-70B", 3)}


def test_a_published_table_stands_once_for_all_runs_and_only_under_its_own_profile(published_table):
    metrics = [Metric("near/pair_accuracy", 0.5, 10)]
    runs = [
        RunView(name, "b", f"model {name}", {"official": metrics, "strict": metrics}, iter, published=[published_table])
        for name in ("a", "b")
    ]
    series = [suite_series(metrics, profile, run.name) for run in runs for profile in run.metrics]
    (table,) = tables.published_tables(series, runs)
    measured = [line for line in table.lines if line.colour]
    assert [(line.name, line.remarks) for line in measured] == [("model a", ("a",)), ("model b", ("b",))]
    assert tables.published_tables([one for one in series if one.profile == "strict"], runs) == []


def test_data_sets_of_a_suite_have_level_curves_of_their_own_and_no_mixture():
    metrics = [Metric("accuracy", 0.5, 10)]
    known = tally(level=["genus", "species"], dataset=["birds", "cars"], kind=["truth"])
    for level in ("genus", "species"):
        metrics += [Metric(f"accuracy/{level}", 0.5, 10), Metric(f"birds/{level}/truth/accuracy", 0.5, 10)]
    metrics.append(Metric("cars/species/truth/accuracy", 0.5, 10))
    one = Series("s", "r", "p", metrics, known, 1)
    assert [plot.title for plot in level_curves([one], set())] == ["Accuracy from coarse to fine: birds"]
    del known.meta["dataset"]["cars"]
    assert [plot.title for plot in level_curves([one], set())] == [
        "Accuracy from coarse to fine",
        "Accuracy from coarse to fine: birds",
    ]


@pytest.mark.parametrize(
    ("read", "shown"), [("yes", True), ("No", False), ("T", True), ("maybe", "maybe"), (True, True)]
)
def test_a_profile_that_reads_words_or_letters_stands_beside_truth_values(read, shown):
    assert convert_like_target(read, True) is shown or convert_like_target(read, True) == shown
    assert convert_like_target("yes", "yes") == "yes"


def test_a_refusal_is_neither_an_answer_nor_a_failure():
    known = RunTally(answers=20, statuses=Counter(ok=15, refused=3, timeout=2))
    assert tables.answer_facts(known) == {"answered": "15", "failed": "2"}
