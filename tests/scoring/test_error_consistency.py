"""Error consistency, the paired t test and means of metrics, against computations that share no code with them."""

from __future__ import annotations

import random
from collections import defaultdict
from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats

from snellen.scoring.statistics.agreement import cohen, error_consistency
from snellen.scoring.statistics.averages import mean_of_independent
from snellen.scoring.statistics.paired import MCNEMAR, PAIRED_T, compare, compare_by_t


def errors(both: int, first: int, second: int, neither: int) -> tuple[list[int], list[int]]:
    """Errors of two models with these counts."""
    a = [1] * (both + first) + [0] * (second + neither)
    b = [1] * both + [0] * first + [1] * second + [0] * neither
    return a, b


def test_kappa_of_a_worked_table_equals_the_textbook():
    # Cohen's kappa of 20, 5, 10 and 15: observed 35/50, expected (25 * 30 + 25 * 20) / 2500 = 1/2, so 0.4.
    a, b = errors(20, 5, 10, 15)
    result = error_consistency(a, b, range(50))
    assert (result.both_wrong, result.only_first, result.only_second, result.both_right) == (20, 5, 10, 15)
    assert result.kappa == pytest.approx(0.4, abs=1e-15)
    assert result.phi == pytest.approx((20 * 15 - 5 * 10) / sqrt(25 * 25 * 30 * 20), abs=1e-15)
    assert result.expected_both_wrong == 25 * 30 / 50


@pytest.mark.parametrize("seed", range(5))
def test_kappa_equals_that_of_two_annotators_and_phi_the_correlation(seed):
    chance = random.Random(seed)
    a = [int(chance.random() < 0.3) for _ in range(200)]
    b = [x if chance.random() < 0.5 else int(chance.random() < 0.6) for x in a]
    result = error_consistency(a, b, range(200))
    assert result.kappa == pytest.approx(cohen(("a", "b"), list(map(str, a)), list(map(str, b))).kappa, abs=1e-12)
    assert result.phi == pytest.approx(float(np.corrcoef(a, b)[0, 1]), abs=1e-12)


def fleiss_cohen_everitt(cells: list[list[int]]) -> float:
    """Standard error of kappa by equation 13 of Fleiss, Cohen and Everitt 1969, written out from its sums."""
    n = sum(map(sum, cells))
    p = [[count / n for count in row] for row in cells]
    rows = [sum(row) for row in p]
    columns = [sum(row[j] for row in p) for j in range(2)]
    observed, by_chance = p[0][0] + p[1][1], sum(rows[i] * columns[i] for i in range(2))
    total = sum(p[i][i] * ((1 - by_chance) - (columns[i] + rows[i]) * (1 - observed)) ** 2 for i in range(2)) + (
        1 - observed
    ) ** 2 * sum(p[i][j] * (columns[i] + rows[j]) ** 2 for i in range(2) for j in range(2) if i != j)
    total -= (observed * by_chance - 2 * by_chance + observed) ** 2
    return sqrt(total / n) / (1 - by_chance) ** 2


@pytest.mark.parametrize("cells", [(200, 50, 100, 150), (30, 300, 40, 800), (900, 10, 20, 70)])
def test_the_interval_of_kappa_is_that_of_fleiss_cohen_and_everitt(cells):
    a, b = errors(*cells)
    n = len(a)
    result = error_consistency(a, b, range(n))
    both, first, second, neither = (count + 1 for count in cells)  # one sample was added to each
    error = fleiss_cohen_everitt([[both, first], [second, neither]])
    assert (result.ci95[1] - result.ci95[0]) / 2 == pytest.approx(stats.t.ppf(0.975, n - 1) * error, rel=2 / n + 1e-6)
    more = error_consistency(*errors(both, first, second, neither), range(n + 4))
    assert sum(result.ci95) / 2 == pytest.approx(more.kappa, abs=1e-6)


def test_the_interval_of_kappa_covers_the_truth():
    # Two models that share 40 % of their decisions: the true kappa is 0.4 whatever their accuracy is.
    chance, covered = np.random.default_rng(5), 0
    for _ in range(400):
        a = chance.random(300) < 0.35
        b = np.where(chance.random(300) < 0.4, a, chance.random(300) < 0.35)
        low, high = error_consistency(a.astype(float), b.astype(float), np.arange(300)).ci95
        covered += low <= 0.4 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_errors_in_clusters_widen_the_interval_of_kappa():
    a, b = errors(20, 15, 10, 55)
    single = error_consistency(a, b, range(100))
    doubled = error_consistency(a * 4, b * 4, list(range(100)) * 4, cluster="image")
    assert doubled.kappa == pytest.approx(single.kappa)
    assert doubled.ci95 == pytest.approx(single.ci95, abs=1e-3)
    assert (doubled.interval.cluster, doubled.interval.clusters) == ("image", 100)


def test_models_that_are_always_right_or_always_alike_have_no_kappa_or_one():
    assert error_consistency([0] * 9, [0] * 9, range(9)).kappa is None
    assert error_consistency([1] * 9, [1] * 9, range(9)).kappa is None
    assert error_consistency([0, 1, 1], [0, 1, 1], range(3)).kappa == 1.0
    never = error_consistency([0] * 4, [0, 1, 0, 1], range(4))
    assert (never.kappa, never.phi) == (0.0, None)
    empty = error_consistency([], [], [])
    assert (empty.n, empty.kappa, empty.ci95) == (0, None, None)


def test_errors_that_are_no_errors_are_refused():
    with pytest.raises(ValueError, match="0 and 1"):
        error_consistency([0.5], [1], [1])
    with pytest.raises(ValueError, match="equal lengths"):
        error_consistency([0, 1], [1], [1])


@pytest.mark.parametrize(("n", "size"), [(60, 1), (90, 3), (1_500, 1)])
def test_the_paired_t_test_equals_sums_written_out(n, size):
    chance = random.Random(n)
    a = [chance.random() for _ in range(n)]
    b = [0.8 * x + 0.2 * chance.random() for x in a]
    groups = [k // size for k in range(n)]
    result = compare_by_t(a, b, groups, cluster="image")
    delta = [x - y for x, y in zip(a, b, strict=True)]
    mean = sum(delta) / n
    sums: dict[int, float] = defaultdict(float)
    for value, group in zip(delta, groups, strict=True):
        sums[group] += value - mean
    count = len(sums)
    robust = count / (count - 1) * sum(total**2 for total in sums.values())
    alone = n / (n - 1) * sum((value - mean) ** 2 for value in delta)
    error = sqrt(max(robust, alone)) / n
    spread = sum((value - mean) ** 2 for value in delta) / n
    rows = spread / error**2  # as many rows as would have this error, and two of the largest difference
    square = (sum(value**2 for value in delta) / n * rows + 2 * max(map(abs, delta)) ** 2) / (rows + 2)
    middle = mean * rows / (rows + 2)
    half = stats.t.ppf(0.975, count - 1) * sqrt((square - middle**2) / (rows + 2))
    assert result.test == PAIRED_T
    assert result.difference == pytest.approx(mean, abs=1e-12)
    assert result.ci95 == pytest.approx((middle - half, middle + half), rel=1e-4 if size == 1 else 0.1)
    if size == 1:
        assert result.p_value == pytest.approx(2 * stats.t.sf(abs(mean) / error, count - 1), rel=1e-3, abs=1e-6)
    assert (result.wins, result.losses, result.clusters) == (
        sum(d > 0 for d in delta),
        sum(d < 0 for d in delta),
        count,
    )


def test_the_paired_t_test_and_drawn_flips_agree_on_many_clusters():
    chance = np.random.default_rng(3)
    a, b = chance.random(300), chance.random(300) + 0.05
    group = np.arange(300) // 2
    quick, drawn = compare_by_t(a, b, group), compare(a, b, group)
    assert quick.p_value == pytest.approx(drawn.p_value, abs=0.01)
    assert quick.ci95 == pytest.approx(drawn.ci95, abs=0.006)


def test_right_or_wrong_samples_that_stand_alone_get_the_exact_test():
    a, b = [1, 1, 1, 0, 1, 0] * 20, [1, 0, 1, 0, 0, 1] * 20
    assert compare_by_t(a, b, range(120)) == compare(a, b, range(120))
    assert compare_by_t(a, b, range(120)).test == MCNEMAR


@pytest.mark.parametrize(
    ("a", "b", "group", "p"),
    [
        ([0.5, 0.7], [0.5, 0.7], [1, 2], 1.0),
        ([0.5, 0.7, 0.9], [0.4, 0.6, 0.8], [1, 2, 3], 0.25),  # every flip of three alike: 2 of 8
        ([0.5, 0.9], [0.4, 0.1], [7, 7], 1.0),  # a single cluster decides nothing
    ],
)
def test_differences_without_spread_get_no_interval(a, b, group, p):
    result = compare_by_t(a, b, group)
    assert (result.ci95, result.p_value) == (None, p)
    assert result.p_value < inf


def test_a_mean_of_metrics_has_the_interval_of_zou_and_donner():
    mean = mean_of_independent([0.5, 0.9], [(0.4, 0.6), (0.8, 0.95)])
    assert (mean.value, mean.n, mean.of, mean.whole) == (pytest.approx(0.7), 2, 2, True)
    assert mean.ci95 == pytest.approx((0.7 - sqrt(0.1**2 + 0.1**2) / 2, 0.7 + sqrt(0.1**2 + 0.05**2) / 2))


def test_a_mean_with_a_missing_metric_says_so():
    mean = mean_of_independent([0.5, None, 0.9], [(0.4, 0.6), None, None])
    assert (mean.value, mean.n, mean.of, mean.whole, mean.ci95) == (pytest.approx(0.7), 2, 3, False, None)
    assert mean_of_independent([None], [None]).value is None


def test_intervals_of_means_of_shares_cover_the_truth():
    from snellen.scoring.statistics import wilson

    chance, truth, covered = np.random.default_rng(11), [0.9, 0.6, 0.97], 0
    for _ in range(500):
        counts = [int(chance.binomial(100, share)) for share in truth]
        low, high = mean_of_independent(
            [count / 100 for count in counts], [tuple(wilson(count / 100, 100)) for count in counts]
        ).ci95
        covered += low <= sum(truth) / 3 <= high
    assert 0.92 <= covered / 500 <= 0.985
