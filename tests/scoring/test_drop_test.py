"""The one-sided test of a drop, Holm's adjustment, and letters for groups that cannot be told apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from snellen.scoring import statistics
from snellen.scoring.statistics import multiple
from snellen.scoring.statistics.paired import losing_coin_p, lower_flip_p

Floats = NDArray[np.float64]


def verdicts(wins: int, losses: int, ties: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Scores of two runs: the first wins and loses this many rows, and the two agree on the rest."""
    a = np.array([1.0] * wins + [0.0] * losses + [1.0] * ties)
    b = np.array([0.0] * wins + [1.0] * losses + [1.0] * ties)
    return a, b, np.arange(len(a))


def in_clusters(rng: np.random.Generator, clusters: int, drop: float) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Scores of two runs over images with one to five questions; the first is `drop` worse in the mean.

    Rows of an image are as easy as each other, and most answers of the two runs agree.
    """
    group = np.arange(clusters).repeat(rng.integers(1, 6, clusters))
    ease = rng.beta(3, 2, clusters)[group]
    b = rng.random(len(group)) < ease
    a = np.where(rng.random(len(group)) < 0.7, b, rng.random(len(group)) < ease)
    a = a & ~(rng.random(len(group)) < drop / 0.6)
    return a.astype(float), b.astype(float), group


def share_of_alarms(rounds: int, clusters: int, drop: float, margin: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(rounds):
        result = statistics.drop_test(*in_clusters(rng, clusters, drop), margin=margin, flips=400)
        alarms += result.p_value < 0.05
    return alarms / rounds


@pytest.mark.parametrize(("wins", "losses", "ties"), [(3, 11, 86), (11, 3, 86), (0, 0, 20), (0, 5, 0), (7, 7, 1)])
def test_without_a_margin_it_is_the_one_sided_exact_test(wins, losses, ties):
    result = statistics.drop_test(*verdicts(wins, losses, ties))
    expected = stats.binomtest(losses, wins + losses, alternative="greater").pvalue if wins + losses else 1.0
    assert result.p_value == pytest.approx(expected)
    assert result.test == "one-sided exact McNemar"
    assert result.comparison.difference == pytest.approx((wins - losses) / (wins + losses + ties))


def test_with_a_margin_it_is_scipys_permutation_test_of_the_shifted_differences():
    rng = np.random.default_rng(5)
    for margin in (0.02, 0.1, 0.4):
        delta = rng.choice([-1.0, 0.0, 0.0, 1.0], size=12, p=[0.4, 0.2, 0.2, 0.2]) + margin
        # 12 clusters have 4,096 signs, so scipy goes through all of them
        exact = stats.permutation_test(
            (delta,), np.mean, permutation_type="samples", alternative="less", n_resamples=np.inf
        ).pvalue
        assert lower_flip_p(delta, flips=40_000) == pytest.approx(exact, abs=0.012)


def test_repeated_answers_of_an_image_are_no_more_evidence_than_one():
    a, b, group = verdicts(4, 12, 30)
    once = statistics.drop_test(a, b, group)
    five_times = statistics.drop_test(a.repeat(5), b.repeat(5), group.repeat(5))
    assert five_times.test == "one-sided cluster sign flips" and five_times.comparison.clusters == 46
    assert five_times.p_value == pytest.approx(once.p_value, abs=0.01)


@pytest.mark.parametrize(("clusters", "margin"), [(25, 0.0), (25, 0.05), (80, 0.02), (60, 0.1)])
def test_a_run_that_is_just_within_the_margin_passes_in_about_95_of_100_cases(clusters, margin):
    assert share_of_alarms(400, clusters, drop=margin, margin=margin, seed=clusters) <= 0.08


def test_an_equal_run_nearly_never_fails_with_a_margin_and_a_drop_beyond_it_is_detected():
    assert share_of_alarms(200, 150, drop=0.0, margin=0.05, seed=1) <= 0.01
    assert share_of_alarms(200, 150, drop=0.25, margin=0.05, seed=2) >= 0.95


def test_rare_losses_do_not_raise_more_false_alarms():
    # 2 % of the answers turn wrong and none turns right: few rows differ, and most samples of 100 have 0 to 4 of them
    rng = np.random.default_rng(3)
    losses = rng.binomial(100, 0.02, 500)
    alarms = [
        statistics.drop_test(*verdicts(0, int(k), 100 - int(k)), margin=0.02, flips=400).p_value < 0.05 for k in losses
    ]
    assert np.mean(alarms) <= 0.05


def test_partial_credit_is_tested_by_the_same_rule():
    rng = np.random.default_rng(4)
    b = rng.random(300)
    result = statistics.drop_test(np.clip(b - 0.1 + rng.normal(0, 0.05, 300), 0, 1), b, np.arange(300), margin=0.02)
    assert result.p_value < 0.001 and result.test == "one-sided cluster sign flips"


def test_a_drop_of_the_detectable_size_is_detected_about_8_times_in_10():
    a, b, group = verdicts(40, 40, 320)
    detectable = statistics.drop_test(a, b, group, margin=0.02).detectable
    assert detectable is not None
    rng, found = np.random.default_rng(6), 0
    for _ in range(300):
        wins, losses, ties = rng.multinomial(400, [0.1 - detectable / 2, 0.1 + detectable / 2, 0.8])
        result = statistics.drop_test(*verdicts(wins, losses, ties), margin=0.02, flips=400)
        found += result.p_value < 0.05
    assert 0.7 <= found / 300 <= 0.9


def test_too_few_clusters_or_equal_runs_have_no_detectable_drop():
    assert statistics.drop_test(*verdicts(1, 2, 1)).detectable is None
    assert statistics.drop_test(*verdicts(0, 0, 50)).detectable is None


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_chance_of_losses_is_that_of_the_binomial_distribution(wins, losses):
    assert losing_coin_p(wins, losses) == pytest.approx(stats.binom.sf(losses - 1, wins + losses, 0.5), abs=1e-9)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 12), st.sampled_from([0.0, 0.01, 0.1]))
@settings(max_examples=40)
def test_a_larger_margin_and_fewer_losses_never_lower_the_p_value(wins, losses, ties, margin):
    def p(losses, margin):
        return statistics.drop_test(*verdicts(wins, losses, ties), margin=margin).p_value

    noise = 0.02  # each margin draws its own flips
    assert p(losses, margin + 0.1) >= p(losses, margin) - noise
    assert p(losses + 1, margin) <= p(losses, margin) + noise


def test_a_margin_that_is_no_number_of_at_least_0_is_refused():
    for margin in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="expected a number of at least 0"):
            statistics.drop_test(*verdicts(1, 1, 1), margin=margin)


def test_holm_by_hand():
    # m = 4: 4 * 0.005, 3 * 0.01, 2 * 0.03, 1 * 0.04 and never less than the one before
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([]) == [] and statistics.holm([0.7]) == [0.7]
    with pytest.raises(ValueError, match="from 0 to 1"):
        statistics.holm([0.1, float("nan")])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms())
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, random):
    adjusted = statistics.holm(p_values)
    assert all(p <= q <= 1.0 for p, q in zip(p_values, adjusted, strict=True))
    for alpha in (0.01, 0.05, 0.3):
        rejected = set()
        for step, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if p_values[place] * (len(p_values) - step) >= alpha:
                break
            rejected.add(place)
        assert {place for place, q in enumerate(adjusted) if q < alpha} == rejected
    order = list(range(len(p_values)))
    random.shuffle(order)
    assert statistics.holm([p_values[i] for i in order]) == [adjusted[i] for i in order]


def test_among_equal_runs_holm_finds_a_difference_in_at_most_5_of_100_experiments():
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(400):
        ease = rng.beta(3, 2, 60)
        runs = [(rng.random(60) < ease).astype(float) for _ in range(5)]
        p_values = [
            statistics.compare(runs[i], runs[j], np.arange(60)).p_value for i in range(5) for j in range(i + 1, 5)
        ]
        alarms += min(statistics.holm(p_values)) < 0.05
    assert alarms / 400 <= 0.07


def graphs() -> st.SearchStrategy[NDArray[np.bool_]]:
    def build(count: int, flags: list[bool]) -> NDArray[np.bool_]:
        matrix = np.zeros((count, count), dtype=bool)
        matrix[np.triu_indices(count, 1)] = flags
        return matrix | matrix.T

    return st.integers(1, 7).flatmap(
        lambda count: st.lists(st.booleans(), min_size=count * (count - 1) // 2, max_size=count * (count - 1) // 2).map(
            lambda flags: build(count, flags)
        )
    )


@given(graphs())
def test_two_runs_share_a_letter_exactly_where_they_cannot_be_told_apart(different):
    names = statistics.letters(different)
    for i, j in product(range(len(names)), repeat=2):
        assert bool(set(names[i]) & set(names[j])) == (not different[i, j])


def test_letters_of_the_textbook_case():
    # three runs in a row: neighbours cannot be told apart, the ends can
    different = np.array([[False, False, True], [False, False, False], [True, False, False]])
    assert statistics.letters(different) == ["a", "ab", "b"]


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=10))
def test_the_bound_of_sign_flips_is_never_below_their_exact_p_value(values):
    sums = np.array(values)
    signs = np.array(list(product([-1.0, 1.0], repeat=len(sums))))
    exact = float((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean())
    assert multiple.flip_bound(sums) >= exact - 1e-9
