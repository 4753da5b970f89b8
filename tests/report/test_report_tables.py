"""How scores become text and links."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from snellen.report import tables
from snellen.report.gather import Tally
from snellen.report.links import filters_for, metric_link
from snellen.report.plots import Series, falls, level_order
from snellen.types import Metric


def tally(**meta):
    return Tally(meta={name: dict.fromkeys(values) for name, values in meta.items()})


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.8312, "83.1 %"), (1.0, "100.0 %"), (0.9999, "> 99.9 %"), (0.0, "0.0 %"), (0.0001, "< 0.1 %")],
)
def test_percentages_never_round_to_all_or_nothing_what_is_not(share, text):
    assert tables.percent(share) == text


def test_a_metrics_name_says_which_answers_stand_behind_it():
    known = tally(kind=["short", "truth"], level=["class", "species"], colour=["red"])
    assert filters_for("accuracy/short/species", known) == {"kind": "short", "level": "species"}
    assert filters_for("accuracy/red", known) == {"colour": "red"}
    assert filters_for("accuracy/nowhere", known) == {}
    assert filters_for("accuracy/red", known, {"kind": "truth"}) == {"kind": "truth"}


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
    assert level_order(["species", "easy", "class", "genus"]) == ["class", "genus", "species", "easy"]
    metrics = [Metric(f"accuracy/{level}", 0.5, 10) for level in ("species", "class")]
    one = Series("s", "r", "p", metrics, tally(level=["species", "class"]), 1)
    assert [m.name for m in falls(one)["accuracy"]] == ["accuracy/class", "accuracy/species"]


def test_the_eye_chart_blurs_a_line_as_far_as_the_model_is_from_seeing_it():
    metrics = [
        Metric("accuracy", 0.7, 30),
        Metric("accuracy/class", 1.0, 10, chance=0.5),
        Metric("accuracy/genus", 0.75, 10, chance=0.5),
        Metric("accuracy/species", 0.4, 10, chance=0.5),
    ]
    chart = tables.eye_chart(Series("s", "r", "p", metrics, tally(level=["class", "genus", "species"]), 1))
    assert [(line["word"], line["blur"]) for line in chart] == [("CLASS", 0), ("GENUS", 4), ("SPECIES", 8)]
    assert [line["size"] for line in chart] == sorted((line["size"] for line in chart), reverse=True)
