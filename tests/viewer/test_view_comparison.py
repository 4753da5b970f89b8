"""The comparison of a page: pairing, adjustment, common errors and slices, by hand and against `snellen compare`."""

from __future__ import annotations

import itertools
import random
from math import comb

import numpy as np
import pytest
from scored_runs import scores, sides

from snellen.errors import DataError, UsageError
from snellen.viewer.comparison import check_sides, compare_sides, natural_key
from snellen.viewer.comparison_tables import (
    ROW,
    SlopeLine,
    difference_rows,
    error_grid,
    error_rows,
    format_p,
    pair_grid,
    scale_ticks,
    slice_tables,
    slope_chart,
    spread_labels,
)


def binary(pattern: str, **meta):
    """Scores from a text of 1 (right), 0 (wrong) and - (no such sample)."""
    return scores({f"s{k}": float(mark) for k, mark in enumerate(pattern) if mark != "-"}, **meta)


def coin(wins: int, losses: int) -> float:
    """The two-sided exact p-value of McNemar's test, from binomial coefficients."""
    n = wins + losses
    return min(1.0, 2 * sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n)


A = "1111111111" + "0000000000" + "1111100000"
B = "1111111000" + "1000000000" + "1111100000"
C = "1111111111" + "1111110000" + "1111111100"


def test_differences_are_paired_exact_and_adjusted_over_the_runs():
    comparison = compare_sides(sides(binary(A), binary(B), binary(C)), "strict")
    first, second = comparison.pairs
    assert (first.comparison.wins, first.comparison.losses) == (1, 3)
    assert (second.comparison.wins, second.comparison.losses) == (9, 0)
    assert first.comparison.difference == pytest.approx(-2 / 30)
    assert [pair.comparison.p_value for pair in comparison.pairs] == pytest.approx([coin(1, 3), coin(9, 0)])
    # Holm by hand: the smaller one doubled, the larger one at least that.
    assert [pair.p_adjusted for pair in comparison.pairs] == pytest.approx([coin(1, 3), 2 * coin(9, 0)])


def test_samples_that_one_run_lacks_are_left_out_and_counted():
    comparison = compare_sides(
        sides(
            binary("1100--"),
            binary("--0011"),
        ),
        "strict",
    )
    pair = comparison.pairs[0]
    assert (len(pair.paired), pair.paired.only_baseline, pair.paired.only_other) == (2, 2, 2)
    assert (pair.baseline_mean, pair.other_mean) == (0.0, 0.0)
    unscored = scores({"s0": 1.0, "s1": None, "s2": 0.0})
    assert compare_sides(sides(binary("111"), unscored), "strict").pairs[0].paired.unscored == 1


def test_runs_without_a_sample_in_common_are_refused():
    with pytest.raises(DataError, match="no scored sample in common"):
        compare_sides(sides(binary("11"), scores({"t1": 1.0})), "strict")


@pytest.mark.parametrize(("runs", "words"), [((), "two or more"), (("a",), "two or more"), (("a", "a"), "twice")])
def test_too_few_runs_and_a_run_named_twice_are_refused(runs, words):
    with pytest.raises(UsageError, match=words):
        check_sides(runs)
    with pytest.raises(UsageError, match="12 at most"):
        check_sides([str(number) for number in range(13)])


def test_common_errors_are_counted_without_samples_that_got_no_answer():
    first = scores({f"s{k}": float(m) for k, m in enumerate("1100110000")}, failed=["s9"])
    second = scores({f"s{k}": float(m) for k, m in enumerate("1010110010")})
    comparison = compare_sides(sides(first, second), "strict")
    result, unanswered = comparison.errors[0].consistency, comparison.errors[0].unanswered
    assert (result.n, unanswered) == (9, 1)
    assert (result.both_wrong, result.only_first, result.only_second, result.both_right) == (3, 2, 1, 3)
    assert (comparison.shared, comparison.all_wrong, comparison.all_right) == (9, 3, 3)
    (row,) = error_rows(comparison)
    observed, by_chance = 6 / 9, (5 * 4 + 4 * 5) / 81
    assert row.kappa == f"{(observed - by_chance) / (1 - by_chance):+.3f}"
    assert (row.both, row.expected, row.n) == ("3", f"{5 * 4 / 9:.1f}", "9")


def test_slices_are_adjusted_over_all_slices_of_the_page():
    chance = random.Random(5)
    left = {f"s{k}": float(chance.random() < 0.5) for k in range(240)}
    right = {key: 1.0 if int(key[1:]) % 4 == 0 else value for key, value in left.items()}
    level = {"level": lambda s: "abcd"[int(s[1:]) % 4], "half": lambda s: "first" if int(s[1:]) < 120 else "second"}
    comparison = compare_sides(sides(scores(left, **level), scores(right, **level)), "strict")
    assert comparison.fields == (("half", 2), ("level", 4))
    assert comparison.tests == 6
    slices = {(part.field, part.value): part for part in comparison.slices}
    raw = {name: part.pairs[0].comparison.p_value for name, part in slices.items()}
    order = sorted(raw.values())
    assert slices["level", "a"].pairs[0].p_adjusted == pytest.approx(6 * order[0])
    assert slices["level", "b"].pairs[0].comparison.difference == 0.0
    wins = sum(right[k] > left[k] for k in left)
    assert raw["level", "a"] == pytest.approx(coin(wins, 0))
    assert slices["level", "a"].means == pytest.approx((np.mean([left[f"s{k}"] for k in range(0, 240, 4)]), 1.0))
    only = compare_sides(comparison.sides, "strict", ["level"])
    assert {part.field for part in only.slices} == {"level"} and only.tests == 4
    assert compare_sides(comparison.sides, "strict", ["nothing"]).slices == ()


def test_clusters_reach_the_test_the_interval_and_the_errors():
    groups = {f"s{k}": f"image {k // 5}" for k in range(300)}
    chance = random.Random(2)
    left = {key: float(chance.random() < 0.5) for key in groups}
    right = {key: float(chance.random() < 0.6) for key in groups}
    comparison = compare_sides(
        sides(scores(left, groups=groups), scores(right, groups=groups)), "strict", cluster="image"
    )
    result = comparison.pairs[0].comparison
    assert (result.test, result.clusters, result.interval.cluster) == ("paired t", 60, "image")
    assert comparison.errors[0].consistency.interval.clusters == 60


def test_the_page_says_what_snellen_compare_says(tmp_path):
    from scored_runs import write_runs

    from snellen.runs.compare import compare
    from snellen.runs.compared_runs import ComparedRun
    from snellen.runs.run import load_run

    write_runs(tmp_path, {"ada": 0.9, "bert": 0.7})
    folders = [tmp_path / "birds" / name for name in ("ada", "bert")]
    (pairing,) = compare(*folders)
    columns = [ComparedRun(load_run(folder)).scores("strict") for folder in folders]
    comparison = compare_sides(sides(*columns), "strict", ["category"])
    assert comparison.pairs[0].comparison == pairing.parts[0].comparison
    parts = {part.name: part.comparison for part in pairing.parts[1:]}
    assert {f"{part.field}={part.value}": part.pairs[0].comparison for part in comparison.slices} == parts


def test_tables_of_many_runs_are_square_and_antisymmetric():
    comparison = compare_sides(sides(binary(A), binary(B), binary(C)), "strict")
    grid = pair_grid(comparison.ranking, comparison.sides)
    assert [grid[k][k] for k in range(3)] == [None] * 3
    assert (grid[1][0].text, grid[0][1].text) == ("-6.7", "+6.7")
    assert (grid[0][2].text, grid[0][2].first, grid[0][2].second) == ("-30.0", "run-0", "run-2")
    assert grid[0][2].strong and not grid[0][1].strong
    errors = error_grid(comparison)
    assert errors[0][1].text == errors[1][0].text
    rows, reach = difference_rows(comparison)
    assert [row.letter for row in rows] == ["B", "C"]
    assert reach >= 0.3 and rows[1].cell.sign == "up" and rows[0].cell.sign == "flat"
    assert rows[0].cell.low <= rows[0].cell.at <= rows[0].cell.high


@pytest.mark.parametrize(("p", "text"), [(0.0, "< 0.001"), (0.0013, "0.001"), (0.04951, "0.050"), (1.0, "1.000")])
def test_p_values_are_written_with_three_digits(p, text):
    assert format_p(p) == text


def test_a_slope_chart_has_a_line_for_each_slice_with_scores_under_every_run():
    lines = [SlopeLine("a", (0.2, 0.8), True), SlopeLine("b", (0.5, 0.5)), SlopeLine("c", (None, 0.5))]
    chart = slope_chart(["A one", "B two"], lines)
    assert (len(chart.lines), chart.omitted) == (2, 1)
    flat, rising = chart.lines
    assert (flat.direction, rising.direction) == ("flat", "up")
    assert rising.points[0][1] > rising.points[1][1]
    assert flat.points[0][1] == flat.points[1][1]
    assert slope_chart(["A", "B"], [lines[2]]) is None


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.31, 0.32), (0.5, 0.5), (0.449, 0.871), (-0.2, 3.4)])
def test_ticks_enclose_the_values_and_are_even(low, high):
    ticks = scale_ticks(low, high)
    steps = {round(b - a, 9) for a, b in itertools.pairwise(ticks)}
    assert ticks[0] <= low and high <= ticks[-1] and len(ticks) >= 2
    assert len(steps) == 1 and len(ticks) <= 6


@pytest.mark.parametrize("seed", range(6))
def test_labels_stay_in_order_apart_and_inside(seed):
    chance = random.Random(seed)
    places = [chance.choice([40.0, 41.0, chance.uniform(40, 300)]) for _ in range(12)]
    spread = spread_labels(places, 40.0, 300.0)
    order = sorted(range(12), key=lambda k: places[k])
    moved = [spread[k] for k in order]
    assert all(b - a >= ROW - 0.02 for a, b in itertools.pairwise(moved))
    assert moved[0] >= 39.99 and moved[-1] <= 300.01
    assert spread_labels([50.0, 200.0], 40.0, 300.0) == [50.0, 200.0]


def test_a_single_label_stays_where_it_is():
    assert spread_labels([77.0], 40.0, 300.0) == [77.0]


def test_values_are_sorted_as_numbers_before_words():
    assert sorted(["10", "9", "nan", "b", "-1.5"], key=natural_key) == ["-1.5", "9", "10", "b", "nan"]


def test_slices_make_a_table_and_a_chart_for_each_field():
    level = {"level": lambda s: "ab"[int(s[1:]) % 2]}
    comparison = compare_sides(sides(binary(A, **level), binary(C, **level)), "strict")
    (table,) = slice_tables(comparison)
    assert (table.field, [row.value for row in table.rows]) == ("level", ["a", "b"])
    assert len(table.chart.lines) == 2
    assert table.rows[0].cells[0].p_adjusted == format_p(comparison.slices[0].pairs[0].p_adjusted)
