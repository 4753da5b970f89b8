"""Intervals of clustered scores, the names of their methods, and the fit of curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring import metrics, statistics
from snellen.scoring.metric_text import MARKS, legend, mark, span
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.distributions import chi_square_tail
from snellen.scoring.statistics.guessing import uniform_fit
from snellen.scoring.statistics.intervals import RunningMean, interval_or_reason
from snellen.types import Prompt, Sample, Score, Text


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


ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 0.3, 0.75]), st.sampled_from(["", "a", "b", "c"])), min_size=1, max_size=40
)


def built(rows, repeats=1):
    builder = ScoreBuilder()
    for number, (value, group) in enumerate(rows):
        sample = Sample(f"s{number // repeats}", Prompt((Text("?"),)), "A", "choice", group=group)
        builder.add(sample, Score(value, "A", "correct" if value == 1 else "wrong"), number % repeats)
    return builder.build()


@given(ROWS)
def test_the_interval_of_the_progress_line_is_that_of_the_table_for_the_same_rows(rows):
    running = RunningMean()
    for value, group in rows:
        running.add(value, group)
    whole = metrics.accuracy(built(rows))
    ends = running.interval()
    assert running.mean == pytest.approx(whole.value)
    assert (ends is None) == (whole.ci95 is None)
    if ends is not None:
        assert tuple(ends) == pytest.approx(whole.ci95, abs=1e-9)
        assert ends.about.method == whole.interval.method and ends.about.clusters == whole.interval.clusters


@pytest.mark.parametrize(
    ("rows", "method", "cluster"),
    [
        ([(1.0, ""), (0.0, ""), (1.0, "")], "Wilson", None),
        ([(0.4, ""), (0.0, ""), (1.0, "")] * 2, "Wilson, effective size", None),
        ([(0.4, ""), (0.0, ""), (1.0, "")], "no interval: too few rows", None),
        ([(value, group) for group in "abcde" for value in (1.0, 0.0)], "cluster-robust Wilson", "group"),
        ([(1.0, group) for group in "abcde" * 2], "Wilson over clusters", "group"),
        ([(1.0, "a"), (0.0, "a"), (1.0, "b"), (1.0, "b")], "no interval: too few clusters", "group"),
        ([(1.0, "a"), (1.0, "a"), (1.0, "b"), (1.0, "b")], "no interval: too few clusters", "group"),
    ],
)
def test_a_mean_names_the_method_of_its_interval_and_the_cluster(rows, method, cluster):
    metric = metrics.accuracy(built(rows))
    assert (metric.interval.method, metric.interval.cluster, metric.interval.level) == (method, cluster, 0.95)


def test_repeats_of_a_question_are_clusters_called_question():
    metric = metrics.accuracy(built([(1.0, ""), (0.0, ""), (1.0, ""), (1.0, "")] * 3, repeats=2))
    assert metric.interval.text == "cluster-robust Wilson by question"


def test_a_benchmark_s_own_word_stands_in_the_place_of_group():
    rows = [(value, group) for group in "abcdef" for value in (1.0, 0.0)]
    (metric,) = statistics.with_cluster([metrics.accuracy(built(rows))], "image")
    assert metric.interval.text == "cluster-robust Wilson by image"
    assert legend([metric]) == "95 % intervals: CW cluster-robust Wilson by image"


def test_bootstraps_and_paired_differences_say_so():
    scores = built([(float(k % 3 > 0), "abcdef"[k % 6]) for k in range(24)])
    composite = statistics.composite("c", scores, lambda rows: float(np.nanmean(rows.value)))
    assert composite.interval.text == "cluster bootstrap by group" and composite.interval.clusters == 6
    alone = np.arange(24)
    pair = statistics.compare(scores.value, 1 - scores.value, alone)
    assert pair.interval.method == "Bonett-Price"
    assert (
        statistics.compare(scores.value, 1 - scores.value, alone // 4).interval.method == "cluster-robust Bonett-Price"
    )


def test_a_metric_without_an_interval_says_why_and_every_method_has_a_mark():
    metric = metrics.accuracy(built([(1.0, "a"), (0.0, "a")]))
    assert metric.ci95 is None
    assert metric.interval.text == "no interval: too few clusters (effective number 1.0)"
    assert mark(metric.interval) == " –"
    assert legend([metric]) == "95 % intervals: – no interval: too few clusters (effective number 1.0)"
    assert len(set(MARKS.values())) == len(MARKS)
    assert span((0.0, 0.563)) == "0.000 – 0.563"


stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 10, 25, 120])
@pytest.mark.parametrize("statistic", [0.0, 0.01, 0.5, 3.0, 11.07, 60.0, 400.0])
def test_the_tail_equals_scipy(statistic, degrees):
    assert chi_square_tail(statistic, degrees) == pytest.approx(stats.chi2.sf(statistic, degrees), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("counts", [(30, 20, 25, 25), (90, 4, 3, 3), (51, 49), (7, 9, 5, 6, 8)])
def test_one_stratum_equals_the_chi_square_test(counts):
    fit, expected = uniform_fit([counts]), stats.chisquare(counts)
    assert (fit.statistic, fit.p_value) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert (fit.degrees, fit.test) == (len(counts) - 1, "chi-square")


def test_strata_add_up():
    fit = uniform_fit([(30, 20, 25, 25), (40, 20)])
    assert fit.statistic == pytest.approx(2.0 + 20 / 3)
    assert fit.degrees == 4
    assert fit.p_value == pytest.approx(stats.chi2.sf(2.0 + 20 / 3, 4))


def test_few_counts_are_simulated_and_meet_the_exact_probability():
    fit = uniform_fit([(6, 0)])
    assert fit.test == "chi-square, simulated"
    assert fit.p_value == pytest.approx(2 / 64, abs=0.004)
    assert uniform_fit([(6, 0)]) == fit


def test_no_counts_are_no_evidence():
    assert uniform_fit([]).p_value == uniform_fit([(0, 0, 0)]).p_value == 1.0


@pytest.mark.parametrize("strata", [[(3,)], [(3, -1)]])
def test_a_stratum_that_cannot_be_tested_is_refused(strata):
    with pytest.raises(ValueError, match="two categories"):
        uniform_fit(strata)
