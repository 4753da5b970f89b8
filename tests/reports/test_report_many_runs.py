"""Reports of many runs: one table of all runs, names at lines, comparable eye charts, right and wrong answers of each run."""

import itertools
import json
import re
from collections import Counter

import pytest
from msgspec import structs

from snellen.reports import render
from snellen.reports.collect import RunTally, StratifiedSample, Stratum, share_out
from snellen.reports.many_runs import describe_incomplete, headlines_of, run_rows, short_count
from snellen.reports.plots.base import Series, spread
from snellen.reports.plots.costs import headline_order
from snellen.reports.plots.eye_chart import eye_chart, shared_eye_charts
from snellen.reports.views import PageLimits, RunView
from snellen.types import Metric


def bare_run(name, **changes):
    return RunView(name, changes.pop("benchmark", "b"), "m", {}, lambda: iter(()), **changes)


def series(name, *metrics, answers=10, levels=()):
    tally = RunTally(answers=answers)
    tally.meta["level"] = dict.fromkeys(levels)
    return Series(name, name, "strict", metrics, tally, 1)


def gallery(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1))


@pytest.fixture(scope="module")
def four(make_run):
    return [make_run(f"run-{number}", n=60, skill=skill) for number, skill in enumerate((0.2, 0.5, 0.8, 0.95))]


def test_from_four_runs_on_there_is_one_table_of_runs_and_fewer_keep_the_page_of_before(four):
    page = render(four)
    assert page.count('<table class="runs"') == 1 and 'class="heads' not in page
    assert page.count('<details class="fold') == 4 and "<details open" not in page
    for few in (four[:1], four[:3]):
        page = render(few)
        assert 'table class="runs"' not in page and page.count('class="head"') == len(few) and "many-runs" not in page


def test_the_same_many_runs_give_the_same_bytes(four):
    assert render(four) == render(four)


def test_right_and_wrong_answers_of_every_run_and_slice_are_in_the_gallery_and_no_more_than_allowed(four):
    shown = gallery(render(four, limits=PageLimits(answers=64)))
    assert len(shown["answers"]) == 64
    per_run = Counter(answer["r"] for answer in shown["answers"])
    assert set(per_run) == {0, 1, 2, 3} and max(per_run.values()) - min(per_run.values()) <= 1
    for number in range(4):
        own = [answer for answer in shown["answers"] if answer["r"] == number]
        verdicts = {answer["v"][0][0] for answer in own}
        assert {"correct", "wrong"} <= verdicts
        slices = {(q["by"]["kind"], q["by"].get("level")) for q in (shown["questions"][a["q"]] for a in own)}
        assert {(kind, level) for kind in ("short", "truth") for level in ("class", "species")} <= slices


def test_the_page_says_how_many_answers_it_shows_and_by_which_seed(four):
    page = render(four, limits=PageLimits(answers=64))
    assert (
        "Showing 64 of 240 answers: of each run correct and incorrect ones of every slice, drawn with seed 0." in page
    )
    assert "Showing" not in render(four)


def test_fewer_answers_than_runs_are_no_more_than_allowed(four):
    assert len(gallery(render(four, limits=PageLimits(answers=3)))["answers"]) == 3


@pytest.mark.parametrize(
    ("sizes", "room", "shares"),
    [([5, 5], 4, [2, 2]), ([1, 9, 9], 9, [1, 4, 4]), ([3, 3], 99, [3, 3]), ([], 5, []), ([7, 0, 7], 0, [0, 0, 0])],
)
def test_room_is_shared_evenly_and_what_a_small_stratum_does_not_need_goes_to_others(sizes, room, shares):
    assert share_out(sizes, room) == shares


def test_a_stratified_draw_is_that_over_all_items_and_holds_a_bounded_number():
    keys = {number: number * 7919 % 10_007 for number in range(5_000)}
    strata = {number: Stratum(2 * (number % 10 == 0), (str(number % 3),)) for number in keys}
    sample, alive = StratifiedSample(60), 0
    for number, key in keys.items():
        sample.offer(strata[number], key, number, lambda number=number: number)
        alive = max(alive, sum(map(len, sample._strata.values())))
    drawn = list(sample.drawn())
    assert drawn == sorted(drawn) and len(drawn) == 60 and alive <= 2 * 60 + 2 * 6
    for stratum in set(strata.values()):
        best = sorted((n for n in keys if strata[n] == stratum), key=keys.__getitem__)[:10]
        assert {n for n in drawn if strata[n] == stratum} == set(best)


def test_slices_without_end_are_drawn_together():
    sample = StratifiedSample(50)
    for number in range(20_000):
        sample.offer(Stratum(0, (f"slice {number}",)), number, number, lambda number=number: number)
    assert len(list(sample.drawn())) == 50 and len(sample._strata) <= 65


@pytest.mark.parametrize("places", [[1.0] * 11, [0.0] * 5, [0.5, 0.52, 0.9, 0.1], [0.3], [1.0, 0.0, 1.0, 0.99, 0.02]])
def test_names_at_lines_keep_apart_in_order_and_within_the_plot(places):
    moved = spread(places, 0.09, 0.0, 1.02)
    order = sorted(range(len(places)), key=lambda at: (-places[at], at))
    gaps = [moved[above] - moved[below] for above, below in itertools.pairwise(order)]
    assert all(gap >= 0.09 - 1e-9 for gap in gaps)
    assert min(moved) >= -1e-9 and max(moved) <= 1.02 + 1e-9


def test_names_with_room_stay_at_their_lines():
    assert spread([0.2, 0.9, 0.5], 0.1, 0.0, 1.0) == [0.2, 0.9, 0.5]


LEVELS = ("class", "genus", "species")


def levelled(name, **shares):
    metrics = [Metric("accuracy", 0.5, 90)]
    for kind, values in shares.items():
        metrics += [Metric(f"accuracy/{kind}/{lv}", v, 30, chance=0.25) for lv, v in zip(LEVELS, values, strict=True)]
    return series(name, *metrics, levels=LEVELS)


def test_eye_charts_of_many_runs_have_the_same_lines_of_the_same_metric():
    easy_short = levelled("a", short=(1.0, 0.9, 0.9), truth=(0.9, 0.8, 0.2))
    hard_short = levelled("b", short=(0.9, 0.4, 0.1), truth=(0.9, 0.9, 0.9))
    assert {chart[0]["of"] for chart in map(eye_chart, (easy_short, hard_short))} == {
        "accuracy/truth",
        "accuracy/short",
    }
    charts = shared_eye_charts([easy_short, hard_short, levelled("c", short=(0.5, 0.5, 0.1), truth=(0.9, 0.9, 0.9))])
    assert {chart[0]["of"] for chart in charts} == {"accuracy/short"}
    assert len({tuple((line["word"], line["size"], line["y"]) for line in chart) for chart in charts}) == 1


def test_a_line_that_a_run_lacks_is_a_dash_at_its_place():
    whole = levelled("a", short=(1.0, 0.9, 0.8))
    part = series("b", *whole.metrics[:3], levels=LEVELS)
    first, second = shared_eye_charts([whole, part])
    assert [line["word"] for line in second] == [line["word"] for line in first] == ["CLASS", "GENUS", "SPECIES"]
    assert (second[2]["value"], second[2]["link"]) == ("–", "")


def test_parts_without_levels_have_one_order_in_all_charts():
    def parts(name, **shares):
        return series(name, Metric("accuracy", 0.5, 9), *(Metric(f"accuracy/d/{k}", v, 9) for k, v in shares.items()))

    charts = shared_eye_charts([parts("a", near=0.9, far=0.1), parts("b", far=0.6, near=0.5)])
    assert [[line["word"] for line in chart] for chart in charts] == [["NEAR", "FAR"], ["NEAR", "FAR"]]


def test_blur_grows_with_every_difference_in_score():
    shares = [0.25 + 0.75 * step / 200 for step in range(201)]
    blurs = [eye_chart(levelled("a", short=(share, share, share)))[0]["deviation"] for share in shares]
    assert all(a > b for a, b in itertools.pairwise(blurs))
    assert (blurs[0], blurs[-1]) == (4.0, 0.0) and max(a - b for a, b in itertools.pairwise(blurs)) < 0.05


@pytest.mark.parametrize(
    ("changes", "answers", "coverage", "words"),
    [
        ({"state": "complete", "expected": 10}, 10, 1.0, ""),
        ({"state": "complete", "expected": 1_000}, 10, 0.01, "incomplete: 10 of 1,000"),
        ({"state": "partial", "expected": 20}, 10, 0.5, "incomplete: 10 of 20"),
        ({"state": "running", "expected": 20}, 10, 0.5, "running: 10 of 20"),
        ({"state": "failed"}, 0, 0.0, "failed: coverage 0.0 %"),
        ({"state": "partial"}, 10, 1.0, "incomplete"),
        ({}, 10, 0.5, "incomplete: coverage 50.0 %"),
        ({}, 10, 1.0, ""),
    ],
)
def test_a_run_says_in_words_which_part_of_the_benchmark_it_covers(changes, answers, coverage, words):
    metric = Metric("accuracy", 0.5, 10, coverage=coverage)
    tally = RunTally(answers=answers)
    assert describe_incomplete(bare_run("r", **changes), tally, metric) == words


def test_a_perfect_part_stands_below_a_poor_whole():
    shares = {"poor": (0.2, 1.0), "perfect part": (1.0, 0.1), "good": (0.8, 1.0), "part": (0.5, 0.9)}
    runs = [bare_run(name) for name in shares]
    first = [series(name, Metric("accuracy", v, 10, coverage=c)) for name, (v, c) in shares.items()]
    wanted = ["good", "poor", "perfect part", "part"]
    assert [row.run.name for row in run_rows(runs, first)] == wanted
    assert [bool(row.incomplete) for row in run_rows(runs, first)] == [False, False, True, True]
    assert [headline.series.run for headline in headline_order(headlines_of(runs, first))] == wanted


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (20_680, "20.7k"), (999_960, "1.0M"), (140_249, "140k"), (3.2e9, "3.2G")],
)
def test_counts_of_tokens_take_four_characters_and_a_unit(number, text):
    assert short_count(int(number)) == text


def test_hostile_names_and_settings_of_many_runs_stay_text(four, hostile_text):
    hostile = [
        structs.replace(
            run, name=f"{hostile_text}{at}", model=hostile_text, settings=hostile_text, notes=[f"{hostile_text}{at}"]
        )
        for at, run in enumerate(four)
    ]
    page = render(hostile)
    assert hostile_text not in page.replace("\\u003c", "<").partition("<script type")[0] and 'onerror="w' not in page
    assert "\u202e" not in page


def test_many_figures_are_written_as_the_page_shows_them(four, tmp_path):
    from snellen.reports import write_report

    page = write_report(four, tmp_path / "page.html", figures=tmp_path / "figures").read_text("utf-8")
    on_page = set(re.findall(r'<svg[^>]* data-name="([^"]+)"', page))
    assert on_page == {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    assert {"scores", "eye-chart-run-0", "latency-run-3"} <= on_page
