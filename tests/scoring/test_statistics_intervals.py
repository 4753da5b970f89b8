"""Intervals against published figures, against scipy, and by simulation with fixed seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring import metrics, statistics
from snellen.scoring.scores import VERDICTS, Column, ScoreBuilder, Scores
from snellen.scoring.statistics import distributions, intervals
from snellen.types import Prompt, Sample, Score


def scores(value, group=None, question=None, verdict=None, expected=None, **meta):
    n = len(value)
    columns = {}
    for name, names in meta.items():
        seen = tuple(dict.fromkeys(names))
        columns[name] = Column(np.array([seen.index(v) for v in names], dtype=np.int32), seen)
    return Scores(
        value=np.asarray(value, dtype=np.float64),
        verdict=np.array([VERDICTS.index(v) for v in verdict or ["correct"] * n], dtype=np.uint8),
        group=np.arange(n) if group is None else np.asarray(group, dtype=np.int64),
        question=np.arange(n) if question is None else np.asarray(question, dtype=np.int64),
        meta=columns,
        expected=n if expected is None else expected,
    )


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, Statistics in Medicine 17:857, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(right, n, low, high):
    assert statistics.wilson(right / n, n) == pytest.approx((low, high), abs=5e-5)


def test_the_mean_of_independent_right_and_wrong_answers_has_the_wilson_interval():
    metric = statistics.mean("accuracy", scores([1] * 81 + [0] * 182), chance=0.25)
    assert metric.value == pytest.approx(81 / 263)
    assert (metric.n, metric.coverage, metric.chance, metric.unit) == (263, 1.0, 0.25, "fraction")
    assert metric.ci95 == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_failed_and_unreadable_answers_count_as_wrong_and_unscored_ones_lower_the_coverage():
    metric = statistics.mean(
        "accuracy",
        scores(
            [1, np.nan, np.nan, np.nan, 0], verdict=["correct", "error", "invalid", "unscored", "wrong"], expected=10
        ),
    )
    assert (metric.value, metric.n, metric.coverage) == (0.25, 4, 0.4)


def test_nothing_scored_is_no_number_rather_than_zero():
    metric = statistics.mean("accuracy", scores([np.nan] * 3, verdict=["unscored"] * 3))
    assert (metric.value, metric.n, metric.ci95, metric.coverage) == (None, 0, None, 0.0)
    assert statistics.mean("accuracy", scores([], expected=0)).coverage == 0.0


def test_answers_that_agree_within_each_cluster_are_worth_one_answer_a_cluster():
    right = np.array([1, 0] * 20)
    alone = statistics.mean("a", scores(right))
    repeated = statistics.mean("a", scores(right.repeat(5), group=np.arange(40).repeat(5)))
    assert repeated.n == 200
    low, high = distributions.t_quantile(39), intervals.Z95
    expected = statistics.wilson(0.5, 40 * 39 / 40, low)
    assert repeated.ci95 == pytest.approx(expected)
    assert repeated.ci95[0] < alone.ci95[0] and low > high


def test_repeats_of_one_question_are_clustered_like_any_group():
    sample = [Sample(id=f"q{i}", prompt=Prompt(()), target=True, kind="truth") for i in range(20)]
    builder = ScoreBuilder()
    for _ in range(8):
        for i, one in enumerate(sample):
            builder.add(one, Score(float(i % 2), verdict="correct" if i % 2 else "wrong"))
    low, high = statistics.mean("a", builder.build()).ci95
    narrow = statistics.wilson(0.5, 160)
    assert high - low > 2.5 * (narrow[1] - narrow[0])


def test_pairs_that_a_constant_answer_gets_half_right_are_no_evidence_of_precision():
    always_yes = statistics.mean("a", scores([1, 0] * 50, group=np.arange(50).repeat(2)))
    assert always_yes.ci95[1] - always_yes.ci95[0] > 0.19


def test_all_right_in_clusters_counts_clusters_and_not_rows():
    metric = statistics.mean("a", scores(np.ones(100), group=np.arange(20).repeat(5)))
    assert metric.ci95 == pytest.approx(statistics.wilson(1.0, 20))


def test_one_cluster_of_many_rows_has_no_interval():
    assert statistics.mean("a", scores([1, 0, 1], group=[7, 7, 7])).ci95 is None


def test_scores_beyond_zero_and_one_have_the_t_interval():
    stats = pytest.importorskip("scipy.stats", reason="scipy is the independent reference")
    values = np.array([3.0, 5.0, 4.0, 8.0, 1.5, 3.0, 1.0, 2.0, -2.0, 4.5])
    values = np.concatenate([values, 6.0 - values])  # without skewness
    metric = statistics.mean("seconds", scores(values), unit="seconds")
    expected = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    assert metric.ci95 == pytest.approx(expected)


def test_skewed_scores_get_a_longer_arm_and_few_of_them_no_interval():
    values = np.array([0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.9, 1.4, 2.5, 7.0])
    metric = statistics.mean("metres", scores(values), unit="metres")
    assert metric.ci95[1] - metric.value > 1.5 * (metric.value - metric.ci95[0]) > 0
    few = statistics.mean("metres", scores(values[3:]), unit="metres")
    assert few.ci95 is None and few.interval.text == "no interval: too few rows (effective number 9.0)"


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6)), min_size=1, max_size=60),
)
def test_an_interval_of_fractions_stays_within_zero_and_one_and_around_its_mean(rows):
    value, group = np.array([v for v, _ in rows]), np.array([g for _, g in rows])
    found = statistics.interval(value, group)
    if found is not None:
        assert 0.0 <= found[0] <= value.mean() + 1e-9 and value.mean() - 1e-9 <= found[1] <= 1.0


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=2, max_size=40), st.randoms())
def test_the_order_of_rows_and_the_names_of_clusters_do_not_matter(rows, random):
    one = statistics.interval(np.array([float(v) for v, _ in rows]), np.array([g for _, g in rows]))
    random.shuffle(rows)
    two = statistics.interval(np.array([float(v) for v, _ in rows]), np.array([-1000 * g for _, g in rows]))
    assert one == (pytest.approx(two) if two is not None else None)


@pytest.mark.parametrize(
    ("clusters", "size", "share", "correlation"),
    [(20, 2, 0.9, 0.5), (10, 5, 0.8, 0.3), (50, 10, 0.7, 0.2), (40, 1, 0.9, 0)],
)
def test_cluster_intervals_hold_the_truth_about_95_times_in_100(clusters, size, share, correlation):
    rng = np.random.default_rng(11)
    group, hits, rounds = np.repeat(np.arange(clusters), size), 0, 600
    for _ in range(rounds):
        if correlation:
            strength = (1 - correlation) / correlation
            cluster_share = rng.beta(share * strength, (1 - share) * strength, clusters)
        else:
            cluster_share = np.full(clusters, share)
        value = (rng.random(clusters * size) < cluster_share[group]).astype(float)
        low, high = statistics.interval(value, group)
        hits += low <= share <= high
    assert 0.93 <= hits / rounds <= 0.995


def test_every_category_weighs_the_same_in_a_macro_mean():
    value, names = [1] * 90 + [0] * 10, ["common"] * 90 + ["rare"] * 10
    assert statistics.mean("a", scores(value)).value == 0.9
    metric = metrics.balanced_accuracy(scores(value, target=names))
    assert (metric.value, metric.chance) == (pytest.approx(0.5), 0.5)


def test_a_macro_mean_over_equal_categories_has_the_interval_of_the_plain_mean():
    rng = np.random.default_rng(5)
    value = (rng.random(300) < 0.7).astype(float)
    macro = statistics.macro_mean("a", scores(value, c=["x", "y", "z"] * 100), "c")
    assert macro.value == pytest.approx(value.mean())
    assert macro.ci95 == pytest.approx(statistics.mean("a", scores(value)).ci95, abs=3e-3)


def test_a_breakdown_names_its_parts_and_takes_chance_from_the_rows():
    table = scores(
        [1, 0, 1, 1],
        kind=["short", "short", "choice", "choice"],
        level=["a", "b", "a", "a"],
        chance=["0.1", "0.1", "0.25", "0.25"],
    )
    parts = metrics.breakdown(table, ("kind", "level"))
    assert [(m.name, m.value, m.n, m.chance) for m in parts] == [
        ("accuracy/short/a", 1.0, 1, 0.1),
        ("accuracy/short/b", 0.0, 1, 0.1),
        ("accuracy/choice/a", 1.0, 2, 0.25),
    ]
    assert metrics.accuracy(table).chance == pytest.approx(0.175)


def test_a_standard_summary_tells_unreadable_from_failed():
    table = scores([1, 0, np.nan, np.nan], verdict=["correct", "wrong", "invalid", "error"], kind=["short"] * 4)
    assert {m.name: m.value for m in metrics.standard(table)} == {
        "accuracy": 0.25,
        "accuracy/short": 0.25,
        "invalid": 0.25,
        "error": 0.25,
    }


@pytest.mark.parametrize("df", [1, 2, 3, 9, 30, 500, 12_345, 999_999])
def test_t_quantiles_agree_with_scipy(df):
    stats = pytest.importorskip("scipy.stats", reason="scipy is the independent reference")
    assert distributions.t_quantile(df) == pytest.approx(stats.t.ppf(0.975, df), abs=1e-8)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_fair_coin_p_values_agree_with_scipy(wins, losses):
    stats = pytest.importorskip("scipy.stats", reason="scipy is the independent reference")
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert distributions.fair_coin_p(wins, losses) == pytest.approx(expected, abs=1e-9)
