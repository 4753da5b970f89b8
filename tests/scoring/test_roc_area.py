"""The area under the ROC curve against counting of pairs, and its interval against simulated answers of known area."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.scoring.statistics.roc import mixed_roc_area, roc_area


def counted(predictor, right):
    pairs = [(a, b) for a in predictor[right] for b in predictor[~right]]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def test_four_answers_are_counted_by_hand():
    predictor = np.array([0.3, 0.1, 0.1, -0.2])
    right = np.array([True, True, False, False])
    area = roc_area(predictor, right, np.arange(4))
    assert area.value == (1 + 1 + 0.5 + 1) / 4
    assert (area.right, area.wrong, area.clusters) == (2, 2, 4)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 9)), min_size=2, max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_area_is_the_share_of_pairs_and_lies_in_its_interval(rows):
    predictor = np.array([row[0] for row in rows], dtype=float)
    right = np.array([row[1] for row in rows])
    area = roc_area(predictor, right, np.array([row[2] for row in rows]))
    if right.all() or not right.any():
        assert area.value is None
        return
    assert area.value == pytest.approx(counted(predictor, right), abs=1e-12)
    if area.ci95 is not None:
        assert 0 <= area.ci95[0] <= area.value <= area.ci95[1] <= 1


def test_single_rows_have_the_variance_of_delong():
    generator = np.random.default_rng(0)
    right = generator.random(200) < 0.6
    predictor = generator.standard_normal(200) + right
    area = roc_area(predictor, right, np.arange(200))
    x, y = predictor[right], predictor[~right]
    above = [np.mean([float(a > b) for b in y]) for a in x]
    below = [np.mean([float(a > b) for a in x]) for b in y]
    error = np.sqrt(np.var(above, ddof=1) / len(x) + np.var(below, ddof=1) / len(y))
    half = (np.log(area.ci95[1] / (1 - area.ci95[1])) - np.log(area.ci95[0] / (1 - area.ci95[0]))) / 2
    assert half * area.value * (1 - area.value) / 1.972 == pytest.approx(error, rel=0.01)


def test_separated_classes_have_an_interval_as_wide_as_the_smaller_class_allows():
    right = np.array([True] * 3 + [False] * 50)
    area = roc_area(right.astype(float), right, np.arange(53))
    assert area.value == 1.0
    assert area.ci95 == pytest.approx((0.438, 1.0), abs=0.001)
    assert not area.excludes_half


def test_repeated_rows_of_a_cluster_do_not_narrow_the_interval():
    generator = np.random.default_rng(1)
    right = generator.random(60) < 0.5
    predictor = generator.standard_normal(60) + right
    once = roc_area(predictor, right, np.arange(60))
    thrice = roc_area(np.repeat(predictor, 3), np.repeat(right, 3), np.repeat(np.arange(60), 3))
    assert thrice.value == pytest.approx(once.value)
    assert thrice.ci95 == pytest.approx(once.ci95, abs=1e-9)
    assert thrice.method.cluster == "group"


def test_an_uncertain_predictor_widens_the_interval():
    generator = np.random.default_rng(2)
    right = generator.random(100) < 0.5
    signal = generator.standard_normal(100) + right
    one = mixed_roc_area([signal], right, np.arange(100))
    several = [signal + shift * generator.standard_normal(100) for shift in np.linspace(0, 2, 30)]
    mixed = mixed_roc_area(several, right, np.arange(100))
    assert mixed.ci95[1] - mixed.ci95[0] > one.ci95[1] - one.ci95[0]
    same = mixed_roc_area([signal] * 30, right, np.arange(100))
    assert same.ci95 == pytest.approx(one.ci95, abs=0.004)


def test_intervals_hold_the_known_area_of_clustered_answers():
    """60 clusters of three answers that share a part of their margin and of what else makes them right."""
    generator = np.random.default_rng(3)
    truth = NormalDist().cdf(0.8 / np.sqrt(2))
    held = []
    for _ in range(300):
        group = np.repeat(np.arange(60), 3)
        right = np.repeat(generator.random(60) < 0.5, 3)
        noise = np.sqrt(0.5) * (generator.standard_normal(60)[group] + generator.standard_normal(180))
        area = roc_area(0.8 * right + noise, right, group)
        held.append(area.ci95[0] <= truth <= area.ci95[1])
    assert 0.92 <= np.mean(held) <= 0.98
