"""CR2 variance and Satterthwaite's degrees of freedom against the matrices of their definition, and what follows from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring import statistics
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.intervals import interval_or_reason


def by_matrices(values, group):
    """CR2 variance of the mean and its degrees of freedom for independent rows: Pustejovsky and Tipton 2018, sections 2 and 3."""
    n = len(values)
    names = np.unique(group)
    residual_maker = np.eye(n) - np.full((n, n), 1 / n)
    residual = residual_maker @ values
    variance, columns = 0.0, []
    for name in names:
        rows = group == name
        size = rows.sum()
        roots, vectors = np.linalg.eigh(np.eye(size) - np.full((size, size), 1 / n))
        adjusted = vectors @ np.diag(roots**-0.5) @ vectors.T
        variance += (np.ones(size) @ adjusted @ residual[rows] / n) ** 2
        columns.append(residual_maker[rows].T @ adjusted @ np.ones(size) / n)
    g = np.stack(columns, axis=1)
    product = g.T @ g
    return variance, np.trace(product) ** 2 / (product**2).sum()


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 5)), min_size=6, max_size=40))
def test_variance_and_degrees_are_those_of_the_definition(rows):
    values, group = np.array([float(v) for v, _ in rows]), np.array([g for _, g in rows])
    sums = cluster_sums_of(values, group)
    if sums.clusters < 3 or sums.weight.max() > 0.5:
        assert sums.degrees == 0.0 or sums.clusters >= 2
        return
    variance, degrees = by_matrices(values, group)
    assert sums.total(sums.influence / (1.0 - sums.weight)) == pytest.approx(variance, abs=1e-12)
    assert sums.degrees == pytest.approx(degrees)
    assert sums.precision().variance >= variance - 1e-12


@pytest.mark.parametrize("clusters", [2, 5, 30])
def test_equal_clusters_have_one_degree_of_freedom_less_than_their_number(clusters):
    sums = cluster_sums_of(np.random.default_rng(1).random(clusters * 3), np.repeat(np.arange(clusters), 3))
    assert sums.degrees == pytest.approx(clusters - 1)
    assert sums.effective == pytest.approx(clusters)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([1] * 19 + [40], "no interval: too few clusters (effective number 2.2)"),
        ([5] * 4, "no interval: too few clusters (effective number 4.0)"),
        ([2**k for k in range(7)], "no interval: too few clusters (effective number 3.0)"),
    ],
)
def test_a_cluster_of_over_half_the_rows_or_too_few_of_them_give_no_interval_and_say_so(sizes, text):
    group = np.repeat(np.arange(len(sizes)), sizes)
    right = np.arange(len(group)) % 3 > 0
    ends, about = interval_or_reason(right.astype(float), group)
    assert ends is None and about.text == text
    comparison = statistics.compare(right.astype(float), np.zeros(len(group)), group)
    assert comparison.ci95 is None and comparison.interval.text == text


def test_a_share_that_few_clusters_decide_is_less_certain_than_its_variance_says():
    """One image of twenty was hard: 95 % right, and nothing says how many images of that kind there are."""
    right = np.ones(400)
    right[:20] = 0.0
    low, high = statistics.interval(right, np.arange(400) // 20)
    whole = statistics.wilson(0.95, 20)
    assert low < whole[0] + 0.01 and high > whole[1] - 0.01


def test_a_macro_mean_rests_on_its_smallest_group_and_says_so():
    values = np.concatenate([np.tile([1.0, 0.0], 250), [1.0, 1.0, 0.0]])
    metric = statistics.mean_of("m", values, strata=np.repeat([0, 1], [500, 3]))
    assert metric.value == pytest.approx((0.5 + 2 / 3) / 2)
    assert metric.interval.method == "MOVER, a group under 5 rows"
    assert metric.ci95[1] - metric.ci95[0] > 0.35
    whole = statistics.mean_of("m", values, strata=np.zeros(len(values)))
    assert whole.ci95 == pytest.approx(statistics.mean_of("m", values).ci95, abs=1e-3)
