"""Plots over a taxonomy: what they are drawn from, that they stay small, and that a browser shows them."""

import re
from collections import defaultdict
from html import unescape
from math import comb
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opened_page import opened

from snellen.reports import AnswerView, RunView, collect, render, write_report
from snellen.reports.collect import ClassAnswers, ClassTally, QuestionGroup, RunTally
from snellen.reports.plots.base import Series
from snellen.reports.plots.class_ranking import equal_difficulty_quantiles, rank_classes, rankings
from snellen.reports.plots.icicle import SMALLEST, TALLEST, build_tree, icicles, join_small_nodes
from snellen.reports.plots.svg import page_style
from snellen.types import Metric, Score, Text
from stopwatch import is_done_within

SPECIES = QuestionGroup("", "hierarchy", "species", "truth")


def titles(page):
    return [re.search(r"<h3>(.*?)</h3>", figure).group(1) for figure in re.findall(r"<figure>.*?</figure>", page, re.S)]


def hostile_answer(text):
    meta = {"level": text, "path": f"{text} > {text}", "label": text, "dataset": text, "depth": "1"}
    return [
        AnswerView(f"q{i}", "short", (Text("?"),), {"strict": Score(0.0, "x", "wrong")}, meta={**meta, "path": path})
        for i, path in enumerate((f"{text} > {text}", f"{text} > b"))
    ]


@pytest.fixture(scope="module")
def page(make_taxonomy_run):
    return render([make_taxonomy_run(images=2)])


def test_a_run_over_a_taxonomy_has_a_level_curve_a_ranking_a_tree_and_kinship(page):
    assert titles(page)[:7] == [
        "Scores with intervals",
        "Accuracy from coarse to fine",
        "Accuracy by class: species · choice_text",
        "Accuracy by class: species · truth",
        "Taxonomy coloured by accuracy: choice_text",
        "Taxonomic distance of incorrect answers",
        "Confusion matrix: multiple choice by text, order",
    ]


def test_a_run_without_a_taxonomy_has_none_of_these_and_no_diagnosis(make_run):
    page = render([make_run()])
    assert "Accuracy by class" not in page and "Taxonomy coloured" not in page and "Taxonomic distance" not in page
    assert 'id="diagnosis"' not in page


def test_several_runs_share_level_curves_and_rankings(make_taxonomy_run):
    skill = {"order": 0.9, "genus": 0.6, "species": 0.3}
    page = render([make_taxonomy_run(images=1), make_taxonomy_run("tree-b", "other", images=1, skill=skill, seed=1)])
    found = titles(page)
    assert (
        found.count("Accuracy from coarse to fine: choice_text")
        == found.count("Accuracy from coarse to fine: truth")
        == 1
    )
    assert found.count("Accuracy by class: species · truth") == 1
    curve = next(
        f for f in re.findall(r"<figure>.*?</figure>", page, re.S) if "Accuracy from coarse to fine: truth" in f
    )
    assert "tree-a" in curve and "tree-b" in curve


def test_two_runs_stand_over_one_order_of_classes_and_those_that_change_most_are_named():
    shares = {"original": {"owl": 0.2, "jay": 0.6, "wren": 1.0}, "tuned": {"owl": 1.0, "jay": 0.6, "wren": 0.8}}
    part = QuestionGroup("cub", "bias", "species", "truth")
    runs = []
    for number, (name, by_class) in enumerate(shares.items(), 1):
        tally = ClassTally(
            {part: {label: ClassAnswers(5, 5 * share) for label, share in by_class.items()}}, {"species": {0}}
        )
        runs.append(Series(name, name, "strict", (), RunTally(classes=tally), number))
    with page_style():
        plots = {plot.title: plot for plot in rankings(runs, set())}
    together = plots["Accuracy by class in one order: cub · bias · species · truth"]
    assert "rises most: owl (20 → 100 %); falls most: wren (100 → 80 %)" in together.caption
    bins = plots["Classes by accuracy: cub · bias · species · truth"]
    assert "original: worst owl (20.0 %), best wren (100.0 %), gap 80.0 points" in bins.caption
    assert "1 of 3 without an error" in bins.caption


def test_the_diagnosis_is_a_table_of_its_own_in_points(page):
    scores, _, rest = page.partition('<section id="diagnosis"')
    table = rest.partition("</section>")[0]
    assert "drop · genus-species · truth" in table and "drop · " not in scores
    assert re.search(r"drop · genus-species · truth.*?<span class=\"value\">\d+\.\d points", table, re.S)


def test_classes_are_counted_by_their_path_under_the_first_profile(make_taxonomy_run):
    run = make_taxonomy_run(images=2)
    tally = RunTally()
    wanted = defaultdict(list)
    for answer in run.answers():
        tally.add(answer)
        wanted[answer.kind, answer.meta["path"]].append(answer.scores["strict"].value)
    found = {(asked.kind, path): seen for asked, part in tally.classes.parts.items() for path, seen in part.items()}
    assert {key: (seen.n, seen.total) for key, seen in found.items()} == {
        key: (len(values), sum(values)) for key, values in wanted.items()
    }
    assert tally.classes.levels() == ["order", "genus", "species"]


def test_more_classes_than_there_is_room_for_are_left_out_part_by_part(monkeypatch):
    tally = ClassTally(_room=5)
    for level, classes in (("genus", 3), ("species", 4)):
        for number in range(classes):
            tally.add("truth", {"level": level, "label": f"{level} {number}"}, Score(1.0, True, "correct"))
    assert [asked.level for asked, part in tally.parts.items() if part is None] == ["species"]
    assert [asked.level for asked, _ in tally.of("hierarchy")] == ["genus"]
    tally.add("short", {"level": "genus", "label": "x"}, Score(1.0, "x", "correct"))
    assert (
        len(tally.parts[QuestionGroup("", "hierarchy", "genus", "short")]) == 1
    )  # the room of what was left out is free again
    assert collect.CLASSES >= 60_000  # three kinds of iNaturalist's 10,000 species and what is above them


def test_answers_without_a_score_a_level_or_a_class_are_in_no_part():
    tally = ClassTally()
    tally.add("truth", {"label": "a"}, Score(1.0, True, "correct"))
    tally.add("truth", {"level": "genus"}, Score(1.0, True, "correct"))
    tally.add("truth", {"level": "genus", "label": "a"}, Score(None, None, "unscored"))
    tally.add("truth", {"level": "genus", "label": "a"}, None)
    assert tally.parts == {}


def test_the_worst_class_stands_first_and_of_equal_ones_that_with_more_answers():
    part = {"a": ClassAnswers(2, 1.0), "b": ClassAnswers(4, 2.0), "c": ClassAnswers(1, 0.0), "d": ClassAnswers(3, 3.0)}
    assert [name for name, _ in rank_classes(part)] == ["c", "b", "a", "d"]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.floats(0.05, 0.95), st.floats(0.01, 0.99))
def test_what_chance_makes_of_equal_classes_is_the_quantile_of_their_binomial_shares(counts, share, rank):
    mass = defaultdict(float)
    for n in counts:
        for k in range(n + 1):
            mass[round(k / n, 12)] += comb(n, k) * share**k * (1 - share) ** (n - k) / len(counts)
    (found,) = equal_difficulty_quantiles(counts, share, np.array([rank]))
    below = sum(m for value, m in mass.items() if value < round(found, 12))
    upto = sum(m for value, m in mass.items() if value <= round(found, 12))
    assert below <= rank + 1e-9 and upto >= rank - 1e-9


def big_part(orders=40, genera=25, species=10):
    return {
        f"order {o} > genus {o}.{g} > species {o}.{g}.{s}": ClassAnswers(10, float((o * g * s) % 11))
        for o in range(orders)
        for g in range(genera)
        for s in range(species)
    }


def series(parts):
    tally = RunTally(classes=ClassTally(parts=parts))
    return Series("s", "r", "strict", [Metric("accuracy", 0.5, 1)], tally, 1)


def test_the_tree_adds_up_what_is_below_every_class():
    root = build_tree(
        {
            SPECIES: {"a > b > c": ClassAnswers(2, 1.0), "a > b > d": ClassAnswers(3, 3.0)},
            SPECIES._replace(level="o"): {"a": ClassAnswers(4, 0.0)},
        }
    )
    (a,) = root.children
    (b,) = a.children
    assert (a.own.n, a.below.n, a.below.total, a.leaves) == (4, 5, 4.0, 2)
    assert (a.answers.share, b.answers.share) == (0.0, 0.8)
    assert sorted(child.name for child in b.children) == ["c", "d"]


def test_small_classes_are_drawn_together_and_none_is_lost():
    root = build_tree({SPECIES: big_part(orders=3, genera=40, species=1)})
    (order, *_) = root.children
    joined = join_small_nodes(order.children, 0.4)
    assert sum(node.members for node in joined) == 40 == sum(node.leaves for node in joined)
    assert all(node.leaves * 0.4 >= SMALLEST for node in joined[:-1])
    assert sum(node.answers.n for node in joined) == 400
    assert join_small_nodes(order.children, 2.0) == sorted(
        order.children, key=lambda node: (node.answers.share, node.name)
    )


def test_ten_thousand_species_make_a_tree_that_is_small_and_lies_within_its_frame():
    drawn = []
    assert is_done_within(5, lambda: drawn.extend(icicles(series({SPECIES: big_part()}), "", set())))
    plot = drawn[0]
    assert len(plot.svg) < 600_000
    root = ElementTree.fromstring(plot.svg)
    _, _, width, height = map(float, root.get("viewBox").split())
    boxes = [b for b in root.iter("{http://www.w3.org/2000/svg}rect") if b.find("{*}title") is not None]
    by_column = defaultdict(float)
    for box in boxes:
        x, y, w, h = (float(box.get(name)) for name in ("x", "y", "width", "height"))
        assert x >= 0 and x + w <= width + 0.1 and y + h <= height + 0.1
        by_column[x] += h
    assert len(by_column) == 3 and max(by_column.values()) <= TALLEST + 0.1
    counted = [int(n.replace(",", "")) for n in re.findall(r"% of ([\d,]+) answers", unescape(plot.svg))]
    assert sum(counted) == 100_000


def test_an_icicle_needs_a_taxonomy():
    assert icicles(series({SPECIES: {"a": ClassAnswers(1, 1.0), "b": ClassAnswers(1, 0.0)}}), "", set()) == []
    assert icicles(series({SPECIES: {"a > b": ClassAnswers(1, 1.0)}}), "", set()) == []  # one class is no tree


def test_hostile_names_of_classes_levels_and_data_sets_stay_text(hostile_text):
    answers = hostile_answer(hostile_text)
    run = RunView("r", "b", "m", {"strict": [Metric("accuracy", 0.0, 2)]}, lambda: iter(answers))
    page = render([run])
    assert "Taxonomy coloured" in page and "Accuracy by class" in page
    assert "<img src=x" not in page and hostile_text not in page
    assert page.count("<script") == 4 and page.count("</script>") == 4
    assert 'style="' not in page


def test_the_page_shows_no_table_or_reader_that_a_scorer_keeps_in_meta():
    meta = {"paths": {"a": "b > a"}, "names": object(), "row": (1, "x.jpg"), "level": "genus"}
    answer = AnswerView("q", "short", (Text("?"),), {"strict": Score(0.0, "x", "wrong")}, meta=meta)
    page = render([RunView("r", "b", "m", {"strict": []}, lambda: iter([answer]))])
    assert '"row"' in page and '"paths"' not in page and '"names"' not in page and "object at" not in page


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_a_browser_shows_the_plots_of_a_taxonomy_in_its_colours_and_a_box_leads_to_its_answers(
    browser, make_taxonomy_run, tmp_path, scheme, width
):
    address = write_report([make_taxonomy_run(images=1)], tmp_path / "report.html").as_uri()
    with opened(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme) as shown:
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        fills = [
            shown.locator(f".icicle rect.tone-{tone}").first.evaluate("e => getComputedStyle(e).fill")
            for tone in (0, 5, 10)
        ]
        assert len(set(fills)) == 3 and "rgb(0, 0, 0)" not in fills
        shown.locator("#diagnosis summary").click()
        assert shown.locator("#diagnosis table tbody tr").first.is_visible()
        box = shown.locator(".icicle a[href*='by.label=genus%200.0']").first
        shown.goto(f"{address}{box.get_attribute('href')}")
        shown.wait_for_function("() => document.querySelectorAll('.card').length === 5")
