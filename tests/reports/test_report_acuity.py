"""The acuity card of a report: lines, states, faults, ratios, curves and the wall chart, from runs of known observers."""

import re
import shutil

import numpy as np
import pytest
from msgspec import structs

from keyed_observers import KeyedObserver, observed_run
from snellen.benchmarks.acuity.attributes import ATTRIBUTES, EVERY_ATTRIBUTE
from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.base import Data
from snellen.reports.acuity.card import CardRun, card_lines
from snellen.reports.acuity.figures import curves_figure
from snellen.reports.acuity.page import EffectiveSize, curve_panel, run_advice, threshold_table
from snellen.reports.acuity.view import (
    acuity_facts,
    acuity_view,
    curve_band,
    curve_fault,
    fault_text,
    letter_counts,
    level_text,
    threshold_text,
)
from snellen.reports.acuity.wall_chart import wall_chart
from snellen.reports.plots.svg import page_style
from snellen.reports.render import render
from snellen.reports.runs import report
from snellen.reports.views import PageLimits
from snellen.runs.acuity_results import compare_thresholds, measured_run
from snellen.runs.run import load_run
from snellen.runs.score_rows import details

ATTRIBUTE_NAMES = "gap,letter,contrast@8,orientation,count,link,length"


@pytest.fixture(scope="module")
def sharp_run(tmp_path_factory):
    data = Data(options={"attributes": ATTRIBUTE_NAMES}, seed=3)
    observer = KeyedObserver(data, {"gap": 0.6, "orientation": 0.5, "length": 2.0}, bias=0.9, reasons=True)
    return observed_run(tmp_path_factory.mktemp("runs") / "sharp", observer)


@pytest.fixture(scope="module")
def dull_run(tmp_path_factory):
    data = Data(options={"attributes": ATTRIBUTE_NAMES}, seed=4)
    observer = KeyedObserver(data, {"gap": 0.3, "orientation": 0.5, "length": -0.05, "count": -2.0})
    return observed_run(tmp_path_factory.mktemp("runs") / "dull", observer)


@pytest.fixture(scope="module")
def lines(sharp_run, dull_run):
    views = [acuity_view(sharp_run), acuity_view(dull_run)]
    return {
        line.label: line
        for line in card_lines([CardRun(name, view, n) for n, (name, view) in enumerate(zip("ab", views, strict=True), 1)])
    }  # fmt: skip


def test_a_line_has_the_threshold_of_the_metric_where_the_seen_part_begins(sharp_run):
    (metric,) = [metric for metric in sharp_run.figures()["strict"] if metric.name == "threshold/gap"]
    lane = next(line for line in card_lines([CardRun("a", acuity_view(sharp_run), 1)]) if line.label == "gap").lanes[0]
    assert lane.text == f"{number_text(metric.value)} px"
    assert lane.questions == metric.n
    gap = ATTRIBUTES["gap"]
    whole = gap.level(gap.easy) - gap.level(gap.hard)
    assert lane.at == pytest.approx(100 * (gap.level(metric.value) - gap.level(gap.hard)) / whole, abs=0.02)
    assert lane.low < lane.at < lane.high
    assert lane.seen_from == lane.at


def test_lines_are_ordered_as_an_eye_chart(sharp_run):
    seen_from = [line.lanes[0].seen_from for line in card_lines([CardRun("a", acuity_view(sharp_run), 1)])]
    assert seen_from == sorted(seen_from)
    assert len(set(seen_from)) > 4


def test_states_without_a_threshold_say_why(lines):
    sharp, dull = lines["length"].lanes
    assert (sharp.text, sharp.at, sharp.seen_from, sharp.remark) == (
        "< 0.50 % longer",
        None,
        0.0,
        "seen at every level",
    )
    assert (dull.at, dull.seen_from) == (None, 100.0)
    assert dull.fault in ("not seen at any level", "task not understood")
    assert lines["count"].lanes[1].fault == "task not understood"
    assert lines["length"].ratios == ()


def test_the_ratio_of_two_runs_excludes_one_where_they_differ_and_holds_it_where_they_do_not(lines):
    (ratio,) = lines["gap"].ratios
    low, high = (float(end) for end in re.findall(r"[\d.]+", ratio.interval))
    true = 10 ** (-0.3 * (np.log10(32) - np.log10(0.5)))  # the second run sees less
    assert low < true < high
    assert high < 1
    assert ratio.better == "a"
    (same,) = lines["orientation"].ratios
    low, high = (float(end) for end in re.findall(r"[\d.]+", same.interval))
    assert low < 1 < high
    assert same.better == ""


def test_people_are_a_tick_only_where_their_unit_is_the_attributes(lines):
    assert lines["orientation"].tick.text == "0.35 to 0.57 degrees"
    assert lines["gap"].tick is None
    for value in acuity_facts().people:
        assert value.comparable is (value.low is not None)
        assert value.basis in ("cited", "textbook")
        assert set(value.attributes) <= set(ATTRIBUTES)


def test_a_dip_is_named_with_its_level(tmp_path):
    data = Data(options={"attributes": "gap", "design": "constant"})
    steady = observed_run(tmp_path / "steady", KeyedObserver(data, {"gap": 0.7}))
    dipped = observed_run(tmp_path / "dipped", KeyedObserver(data, {"gap": 0.7}, dip=("gap", 10.0)))
    (steady_result,), (dipped_result,) = (
        [each.result for each in acuity_view(run).conditions] for run in (steady, dipped)
    )
    assert curve_fault(steady_result) is None
    assert fault_text(steady_result) == ""
    level = float(re.fullmatch(r"fit fails: a dip at ([\d.]+) px", fault_text(dipped_result)).group(1))
    assert level == pytest.approx(10.0, rel=0.15)


def test_the_curve_rises_within_its_band_and_is_the_same_each_time(sharp_run):
    for measured in acuity_view(sharp_run).conditions:
        band, again = curve_band(measured.result), curve_band(measured.result)
        assert np.all(np.diff(band.mean) >= -1e-9)
        assert np.all(band.low <= band.high)
        middle = len(band.mean) // 2
        assert band.low[middle] <= band.mean[middle] <= band.high[middle]
        assert np.array_equal(band.low, again.low)


def test_the_points_of_a_curve_have_all_answers(lines):
    for line in lines.values():
        panel = curve_panel(line, 1, 1)
        for lane, curve in zip(line.lanes, panel.curves, strict=True):
            pooled = sum(int(re.search(r"of ([\d,]+) ", point.text).group(1)) for point in curve.points)
            equal = sum(level == -np.inf for level, _ in lane.measured.result.answers)
            assert pooled + equal == lane.questions


def test_wrong_replies_by_option_show_the_bias_of_an_observer(sharp_run, dull_run):
    (biased,) = [each.letters for each in acuity_view(sharp_run).conditions if each.label == "gap"]
    (fair,) = [each.letters for each in acuity_view(dull_run).conditions if each.label == "gap"]
    assert biased.p < 0.01
    assert max(biased.wrong, key=biased.wrong.get) == "A"
    assert fair.p > 0.01
    assert sum(fair.expected.values()) == pytest.approx(sum(fair.wrong.values()))


def test_wrong_replies_by_option_without_a_bias_have_even_p_values():
    generator = np.random.default_rng(1)
    letters = tuple("ABCD")
    small = 0
    for _ in range(200):
        replies = []
        for _ in range(40):
            right, wrong = generator.choice(letters, 2, replace=False)
            replies.append((str(right), str(wrong), letters))
        small += letter_counts(replies).p < 0.1
    assert 8 <= small <= 34  # 20 awaited, six standard deviations are 25
    assert letter_counts([("A", "B", ("A", "B"))]) is None
    assert letter_counts([]) is None


def test_reasoning_tokens_by_level_are_means(sharp_run, dull_run):
    measured = {each.label: each for each in acuity_view(sharp_run).conditions}
    points = measured["gap"].tokens
    assert sum(point.answers for point in points) == measured["gap"].result.estimate.asked
    assert points[-1].tokens < max(point.tokens for point in points)
    assert all(each.tokens == () for each in acuity_view(dull_run).conditions)


def test_the_wall_chart_blurs_what_is_lost_and_draws_its_rule_at_the_threshold(sharp_run):
    chart = wall_chart(acuity_view(sharp_run))
    (result,) = [each.result for each in acuity_view(sharp_run).conditions if each.label == "gap"]
    assert chart.about.startswith(f"gap {threshold_text(result)}")
    gaps = [line.gap for line in chart.lines]
    assert gaps == sorted(gaps, reverse=True)
    assert [line.size for line in chart.lines] == pytest.approx(
        [chart.lines[0].size * g / gaps[0] for g in gaps], abs=0.1
    )
    blur_in_gaps = [line.deviation / line.size for line in chart.lines]
    assert blur_in_gaps == sorted(blur_in_gaps)
    assert chart.lines[0].share > 0.9
    assert chart.lines[-1].share < 0.1
    above = [line for line in chart.lines if line.y < chart.rule]
    assert all((line.share > 0.5) == (line in above) for line in chart.lines)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.21, "px", "3.2 px"),
        (3.0, "px", "3.0 px"),
        (0.0212, "contrast", "0.021 contrast"),
        (0.0821, "share longer", "8.2 % longer"),
        (12.34, "px", "12 px"),
        (0.0999, "ΔE00", "0.10 ΔE00"),
        (1980.0, "px", "1,980 px"),
    ],
)
def test_levels_have_two_or_three_digits(value, unit, text):
    assert level_text(value, unit) == text


def test_the_page_shows_the_card_of_one_run_and_of_two(sharp_run, dull_run, tmp_path):
    page = report(sharp_run, tmp_path / "one.html", max_answers=5).read_text("utf-8")
    assert page.count('type="radio" name="acuity-line"') == 7
    assert page.count(" checked>") == 1
    assert "20/" in page
    assert "times finer" not in page
    both = report([sharp_run, dull_run], tmp_path / "two.html", max_answers=5).read_text("utf-8")
    assert both.count('type="radio" name="acuity-line"') == 7
    assert "times finer" in both
    assert 'style="' not in both


def test_the_card_is_saved_as_svg_and_pdf(sharp_run, dull_run, tmp_path):
    report([sharp_run, dull_run], tmp_path / "two.html", max_answers=2, figures=tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").glob("acuity-*")}
    stems = ("acuity-card", "acuity-curves", "acuity-wall-chart-dull", "acuity-wall-chart-sharp")
    assert names == {f"{stem}.{ending}" for stem in stems for ending in ("svg", "pdf")}
    assert (tmp_path / "figures" / "acuity-card.pdf").read_bytes().startswith(b"%PDF")


def test_no_title_of_the_curves_leaves_the_figure(lines):
    """Every condition that there is, by its name and unit, in each column: the curves themselves do not matter here."""
    (line,) = [line for name, line in lines.items() if name == "gap"]
    bare = [structs.replace(line, label=each.name, attribute=each, lanes=()) for each in EVERY_ATTRIBUTE.values()]
    long = structs.replace(bare[-1], label="chart/offset-horizontal@1024 through a processor of many words")
    for first in range(3):
        with page_style():
            figure = curves_figure([long, *bare[first:]])
            figure.draw_without_rendering()
        for axes in figure.axes:
            for text in (axes.title, axes._left_title, axes.xaxis.label):
                box = text.get_window_extent()
                assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, text


def test_the_page_gives_prescription_and_effective_pixels(sharp_run, tmp_path):
    page = report(sharp_run, tmp_path / "one.html", max_answers=2).read_text("utf-8")
    assert "<h3>Prescription</h3>" in page
    assert "Crop and enlarge what is smaller" in page
    assert "Pictures of 512 px: their size after the model&#39;s processor is not known" in page
    assert "px after the processor</th>" not in page  # dashes alone


def test_effective_pixels_are_those_of_the_details_and_edited_ones_are_left_out(sharp_run):
    view = acuity_view(sharp_run)
    row = {"condition": "gap@512", "state": "settled", "unit": "px", "sent": 3.2, "sent_ci95": [2.7, 3.7]}
    row |= {"after": 0.3, "after_ci95": [0.25, 0.35], "patches": 0.02, "patches_ci95": [0.018, 0.025]}
    (size,) = run_advice(
        CardRun("a", structs.replace(view, details={"conditions": [row, {**row, "after": None}]}), 1)
    ).sizes
    assert size == EffectiveSize("gap@512", "3.2 [2.7, 3.7]", "0.30 [0.25, 0.35]", "0.020 [0.018, 0.025]")
    edited = {"conditions": [{**row, "after": "<b>"}], "prescription": 7, "pictures": [{"side": "x"}]}
    assert run_advice(CardRun("a", structs.replace(view, details=edited), 1)) is None


def test_a_ratio_is_that_of_the_comparison(sharp_run, dull_run, lines):
    (row,) = [
        each
        for each in compare_thresholds(measured_run(sharp_run), measured_run(dull_run))[0]
        if each.name == "gap@512"
    ]
    (ratio,) = lines["gap"].ratios
    assert (ratio.text, ratio.smallest) == (f"{row.ratio:.2f}", f"{row.smallest_ratio:.2f}")
    assert ratio.interval == f"[{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"


def test_numbers_of_the_card_are_those_of_the_score(sharp_run):
    words = {each["name"]: each["words"] for each in details(sharp_run)["conditions"]}
    for line in card_lines([CardRun("a", acuity_view(sharp_run), 1)]):
        (lane,) = line.lanes
        if lane.at is not None and line.attribute.unit == "px":
            assert words[line.label].startswith(f"{lane.text} {lane.interval} at")


def test_four_runs_have_a_table_of_thresholds_and_the_link_to_it(sharp_run, dull_run, tmp_path):
    """A page of many runs has no card; its link leads to the table, and every link within the page has its target."""
    runs = [sharp_run, dull_run]
    for name in ("c", "d"):
        shutil.copytree(sharp_run.path, tmp_path / name)
        runs.append(load_run(tmp_path / name))
    page = report(runs, tmp_path / "four.html", max_answers=4).read_text("utf-8")
    assert 'type="radio" name="acuity-line"' not in page
    table = re.search(r'<table class="thresholds">.*?</table>', page, re.S).group(0)
    assert table.count("<tr>") == 8
    assert table.count('scope="col" class="series-') == 4
    (gap,) = [each.result for each in acuity_view(sharp_run).conditions if each.label == "gap"]
    assert table.count(f"<b>{threshold_text(gap)}</b>") >= 3
    for wanted in ("task not understood", "seen at every level"):
        assert wanted in table
    check_fragments(page)
    assert '<a href="#acuity">' in page


@pytest.mark.parametrize("count", [1, 2])
def test_every_link_within_the_page_has_its_target(sharp_run, dull_run, tmp_path, count):
    check_fragments(report([sharp_run, dull_run][:count], tmp_path / "page.html", max_answers=4).read_text("utf-8"))


def test_pages_without_acuity_have_no_link_to_it(make_run):
    for count in (1, 4):
        page = render([make_run(f"run-{number}") for number in range(count)], limits=PageLimits(answers=4))
        assert "#acuity" not in page
        check_fragments(page)


def check_fragments(page):
    """Fail on a link to a part of the page that is not there; links with `=` are states of the gallery."""
    targets = set(re.findall(r'href="#([^"=]+)"', page))
    assert targets, "no link was found"
    assert targets <= set(re.findall(r' id="([^"]+)"', page))


def test_a_condition_that_one_run_did_not_measure_is_an_empty_cell(sharp_run):
    view = acuity_view(sharp_run)
    less = structs.replace(view, conditions=view.conditions[1:])
    table = threshold_table([CardRun("a", view, 1), CardRun("b", less, 2)])
    (row,) = [row for row in table.rows if row.name == view.conditions[0].label]
    assert row.lanes[0] is not None
    assert row.lanes[1] is None
    assert threshold_table([]) is None
