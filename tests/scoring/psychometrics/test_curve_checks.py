"""Checks of the fit and of the rise of a curve, and pooled levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observers import LEVELS, Observer
from snellen.scoring.psychometrics.curve import RIGHT, WRONG, Posterior, forced_choice
from snellen.scoring.psychometrics.estimate import fit_p, monotone_p, pool, rising_shares


def constant(shares: dict[float, float], each: int, seed: int) -> list[tuple[float, int]]:
    """Answers of a constant design: `each` questions at every level, right with its share."""
    generator = np.random.default_rng(seed)
    return [
        (level, RIGHT if generator.random() < share else WRONG) for level, share in shares.items() for _ in range(each)
    ]


def test_a_dip_fails_both_checks():
    """Digits are read at 4.8 px (.91), not at 6.3 px (.36), and again at 8.5 px (.94)."""
    shares = {0.3: 0.2, 0.5: 0.5, 0.68: 0.91, 0.8: 0.36, 0.93: 0.94, 1.2: 0.97}
    answers = constant(shares, 64, 1)
    posterior = Posterior.start(forced_choice(LEVELS, 0.1)).fold(answers)
    assert fit_p(posterior, answers) < 0.01
    assert monotone_p(answers) < 0.01


def test_observers_that_follow_the_curve_pass_both_checks_as_often_as_they_should():
    model = forced_choice(LEVELS, 0.25)
    fits, rises = [], []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        observer = Observer(0.9, 0.4, 0.03, 0.25)
        answers = [(level, observer.answer(level, generator)) for level in np.linspace(0.2, 1.8, 9) for _ in range(16)]
        fits.append(fit_p(Posterior.start(model).fold(answers), answers, draws=200))
        rises.append(monotone_p(answers, draws=200))
    assert np.mean(np.array(fits) < 0.05) <= 0.2
    assert np.mean(np.array(rises) < 0.05) <= 0.2
    assert np.mean(fits) == pytest.approx(0.5, abs=0.2)


def test_the_same_answers_give_the_same_p():
    answers = constant({0.4: 0.4, 0.8: 0.9}, 20, 3)
    posterior = Posterior.start(forced_choice(LEVELS, 0.25)).fold(answers)
    assert fit_p(posterior, answers) == fit_p(posterior, answers)
    assert monotone_p(answers, seed=4) == monotone_p(answers, seed=4)
    assert fit_p(posterior, []) == monotone_p([]) == 1.0


def test_levels_are_pooled_in_bins_of_a_tenth_of_a_decade():
    pooled = pool([(0.31, RIGHT), (0.29, WRONG), (0.5, RIGHT)])
    assert pooled.level.tolist() == [pytest.approx(0.3), 0.5]
    assert (pooled.right.tolist(), pooled.answered.tolist(), pooled.bins.tolist()) == ([1, 1], [2, 1], [0, 0, 1])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=20))
def test_the_rising_curve_rises_keeps_the_sum_and_touches_no_curve_that_rises_already(counts):
    right = [min(hits, total) for hits, total in counts]
    answered = [total for _, total in counts]
    shares = rising_shares(right, answered)
    assert np.all(np.diff(shares) >= -1e-12)
    assert float(shares @ np.array(answered)) == pytest.approx(sum(right))
    raw = np.array(right) / np.array(answered)
    if np.all(np.diff(raw) >= 0):
        assert np.allclose(shares, raw)
