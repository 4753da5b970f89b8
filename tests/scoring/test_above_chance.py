"""Accuracy against chance: exact tails, and clusters that are right together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from snellen.scoring.statistics.guessing import above_chance, guesses_tail


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0]), min_size=1, max_size=8), st.integers(0, 8))
def test_the_tail_of_guesses_is_the_sum_over_all_outcomes(chance, right):
    total = sum(
        np.prod([p if hit else 1 - p for p, hit in zip(chance, outcome, strict=True)])
        for outcome in product((0, 1), repeat=len(chance))
        if sum(outcome) >= right
    )
    assert guesses_tail(right, np.array(chance)) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize(("right", "n"), [(30, 80), (20, 80), (5, 12)])
def test_equal_chances_are_the_binomial_test(right, n):
    values, chance = np.repeat([1.0, 0.0], [right, n - right]), np.full(n, 0.25)
    found = above_chance(values, chance, np.arange(n))
    assert found.test == "exact"
    assert found.p_value == pytest.approx(binomtest(right, n, 0.25, alternative="greater").pvalue)


def test_copies_of_one_answer_are_one_answer():
    values, chance = np.tile([1.0, 0.0, 0.0, 1.0, 0.0, 0.0], 20), np.full(120, 0.25)
    alone = above_chance(values, chance, np.arange(120))
    together = above_chance(values, chance, np.tile(np.arange(6), 20))
    assert alone.p_value < 0.05 < 0.2 < together.p_value and "sign flips" in together.test


def test_partial_credit_is_tested_without_an_exact_tail():
    values = np.full(40, 0.5)
    assert above_chance(values, np.full(40, 0.25), np.arange(40)).p_value < 0.001
    assert above_chance(values, np.full(40, 0.75), np.arange(40)).p_value > 0.9
