"""Thresholds of simulated observers: intervals that cover, and what goes wrong when a piece of the method is left out."""

from __future__ import annotations

import numpy as np
import pytest

from observers import LEVELS, Observer, drawn_from_prior, interpolated, measure, typical
from snellen.errors import UsageError
from snellen.scoring.psychometrics.curve import (
    ABSTAINED,
    DIFFERENT,
    EQUAL_PAIR,
    EQUAL_SLOTS,
    RIGHT,
    SAME,
    WRONG,
    AnswerModel,
    Posterior,
    choose_levels,
    forced_choice,
    information,
    normal_cdf,
    same_different,
    seen,
)
from snellen.scoring.psychometrics.estimate import CatchTrials, estimate


def coverage(observers, seed: int = 3, **settings):
    """Share of the intervals that hold the true threshold, mean error in decades, and mean number of questions."""
    generator = np.random.default_rng(seed)
    inside, errors, questions = [], [], []
    for observer in observers:
        result = measure(observer, generator, **settings)
        inside.append(result.interval[0] <= observer.threshold <= result.interval[1])
        questions.append(result.asked)
        if result.value is not None:
            errors.append(result.value - observer.threshold)
    return float(np.mean(inside)), float(np.mean(errors)), float(np.mean(questions))


@pytest.mark.parametrize(("alternatives", "most"), [(8, 60), (4, 80), (2, 140)])
def test_intervals_of_typical_observers_cover_the_truth_from_few_questions(alternatives, most):
    covered, bias, questions = coverage(typical(160, 1 / alternatives, alternatives))
    # The bounds of 0.93 to 0.985, three standard errors wider for 160 observers; bench/acuity.py has 1,000.
    assert covered >= 0.93 - 3 * 0.02
    assert abs(bias) < 0.02
    assert questions <= most


@pytest.mark.parametrize("alternatives", [8, 2])
def test_intervals_of_observers_drawn_from_the_prior_are_calibrated(alternatives):
    model = forced_choice(LEVELS, 1 / alternatives)
    covered, _, _ = coverage(drawn_from_prior(250, model, 1 / alternatives, 11), most=96)
    assert 0.93 - 3 * 0.016 <= covered <= 0.97 + 3 * 0.011


@pytest.mark.parametrize("shape", ["normal", "weibull"])
def test_observers_of_another_shape_cost_nothing(shape):
    covered, bias, _ = coverage(typical(150, 1 / 8, 5, shape=shape))
    assert covered >= 0.9
    assert abs(bias) < 0.02


def test_catch_trials_cost_no_questions():
    with_trials = coverage(typical(150, 1 / 4, 6))[2]
    without = coverage(typical(150, 1 / 4, 6), catch=False)[2]
    assert with_trials < 1.1 * without


def test_a_fixed_lapse_rate_breaks_the_interval_of_an_observer_that_lapses():
    """Without the free lapse rate three in five intervals cover at most; with it nine in ten."""

    def lapsing():
        generator = np.random.default_rng(4)
        for observer in typical(120, 1 / 4, 9):
            yield Observer(observer.threshold, observer.width, generator.uniform(0.15, 0.3), 1 / 4)

    free, _, _ = coverage(lapsing(), catch=False)
    fixed, bias, _ = coverage(lapsing(), catch=False, model=forced_choice(LEVELS, 1 / 4, lapses=(0.02,)))
    assert free >= 0.87
    assert fixed <= 0.75
    assert bias > 0.05


def test_partial_knowledge_breaks_the_interval_if_it_is_taken_for_sight():
    """An observer that excludes two of four options guesses right in a half: g = .25 is wrong for it."""
    observers = typical(100, 1 / 2, 12)
    covered, bias, _ = coverage(observers, model=forced_choice(LEVELS, 1 / 4))
    assert covered <= 0.6
    assert bias < -0.08


def test_abstentions_are_a_third_outcome_and_no_wrong_answers():
    """Scored as wrong they move the threshold; as a third outcome they do not."""
    covered, bias, _ = coverage(typical(100, 1 / 4, 13, abstains=0.9))
    _, moved, _ = coverage(Wronged(observer) for observer in typical(100, 1 / 4, 13, abstains=0.9))
    assert covered >= 0.9
    assert abs(bias) < 0.02
    assert moved > bias + 0.02


class Wronged(Observer):
    """An observer whose abstentions are counted as wrong."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(**observer.__dict__)

    def answer(self, level, generator):
        outcome = super().answer(level, generator)
        return WRONG if outcome == ABSTAINED else outcome


def test_the_same_answers_give_the_same_bits_and_the_same_next_levels():
    model = forced_choice(LEVELS, 1 / 8)
    answers = [(0.6, RIGHT), (0.3, WRONG), (1.0, RIGHT), (0.45, WRONG)]
    first, second = (Posterior.start(model).fold(answers) for _ in range(2))
    assert first.log_weights.tobytes() == second.log_weights.tobytes()
    assert choose_levels(first, 8) == choose_levels(second, 8)
    stepwise = Posterior.start(model).fold(answers[:2]).fold(answers[2:])
    assert np.allclose(stepwise.weights, first.weights, atol=1e-12)


def test_a_level_between_the_candidates_is_folded_at_its_own_probability():
    model = forced_choice(LEVELS, 1 / 4)
    off_grid = Posterior.start(model).fold([(0.6181, RIGHT)] * 4 + [(0.3, WRONG)] * 4)
    weights = model.prior.copy()
    for level, outcome in [(0.6181, RIGHT)] * 4 + [(0.3, WRONG)] * 4:
        share = model.likelihood(np.array([level]))[outcome, :, :, 0]
        weights *= share
    assert np.allclose(off_grid.weights, weights / weights.sum(), atol=1e-12)


def test_the_information_is_that_of_the_threshold_alone():
    """It equals the mutual information computed cell by cell from the definition."""
    model = forced_choice(tuple(np.linspace(0, 1, 5).tolist()), 1 / 2)
    posterior = Posterior.start(model).fold([(0.5, RIGHT), (0.25, WRONG)])
    weights = posterior.weights
    for index in range(len(model.levels)):
        total = 0.0
        for outcome in range(2):
            joint = (weights * model.table[outcome, :, :, index]).sum(axis=1)
            share = joint.sum()
            mass = weights.sum(axis=1)
            total += float((joint * np.log(joint / (share * mass))).sum())
        assert information(posterior)[index] == pytest.approx(total, abs=1e-9)


def test_all_shapes_mean_the_same_threshold_and_width():
    for shape in ("logistic", "normal", "weibull"):
        middle, low, high = (float(seen(shape, np.array(z))) for z in (0.0, -0.5, 0.5))
        assert middle == pytest.approx(0.5)
        if shape == "weibull":  # it is not symmetric: its width of 5 to 95 % lies off the middle
            ends = np.linspace(-1.5, 1.5, 3001)
            curve = seen(shape, ends)
            width = ends[np.searchsorted(curve, 0.95)] - ends[np.searchsorted(curve, 0.05)]
            assert width == pytest.approx(1.0, abs=0.005)
        else:
            assert (low, high) == (pytest.approx(0.05), pytest.approx(0.95))
    assert float(normal_cdf(np.array(1.959963984540054))) == pytest.approx(0.975)


def test_states_say_why_there_is_no_threshold():
    model = forced_choice(LEVELS, 1 / 8)
    start = Posterior.start(model)
    blind = start.fold([(2.0, WRONG)] * 40)
    sharp = start.fold([(0.0, RIGHT)] * 40)
    assert estimate(blind, answered=40, asked=96).state == "floor"
    assert estimate(sharp, answered=40, asked=96).state == "ceiling"
    assert estimate(start, answered=8, asked=8).state == "open"
    assert estimate(start.fold([(1.0, RIGHT), (0.9, WRONG)] * 10), answered=20, asked=96).state in {"budget", "settled"}
    lost = estimate(start, answered=64, asked=64, catch=CatchTrials(2, 8))
    assert (lost.state, lost.value) == ("task not understood", None)
    assert estimate(blind, answered=40, asked=96).value is None


def test_an_observer_who_often_slips_still_understands():
    """A share of .5 is doubtful after eight catch trials and clear after 32; .6 and more never counts."""
    doubtful, clear = CatchTrials(4, 8), CatchTrials(16, 32)
    assert (doubtful.failed, clear.failed) == (False, True)
    assert not CatchTrials(240, 400).failed and not CatchTrials(0, 7).failed


def test_an_interval_beyond_the_levels_keeps_its_threshold():
    """Few answers near the easiest level: the threshold is among the levels, its interval reaches beyond."""
    model = forced_choice(LEVELS, 1 / 8)
    answers = [(1.9, RIGHT), (1.7, WRONG), (2.0, RIGHT), (1.8, WRONG), (2.0, WRONG)] * 5
    reached = estimate(Posterior.start(model).fold(answers), answered=25, asked=96)
    assert reached.interval[1] > LEVELS[-1] > reached.interval[0]
    assert reached.value is not None and reached.state == "budget"


def test_a_criterion_does_not_move_the_threshold_of_pairs():
    """False alarms of 2 and of 60 %: the joint fit stays, where a plain curve would move fivefold."""
    model = same_different(LEVELS)
    generator = np.random.default_rng(8)
    for false_alarms in (0.02, 0.6):
        criterion = -np.interp(false_alarms, *_normal_quantiles())
        errors, inside, rates = [], [], []
        for _ in range(25):
            alpha, beta = generator.uniform(0.4, 1.4), generator.uniform(1.0, 2.2)
            posterior, count = Posterior.start(model), 0
            while True:
                batch = []
                for level in choose_levels(posterior, 8, fixed=dict.fromkeys(EQUAL_SLOTS, EQUAL_PAIR)):
                    dprime = 0.0 if level == EQUAL_PAIR else 10 ** (beta * (level - alpha))
                    different = generator.random() < float(normal_cdf(np.array(dprime - criterion)))
                    batch.append((level, DIFFERENT if different else SAME))
                posterior, count = posterior.fold(batch), count + 8
                low, middle, high = posterior.quantiles()
                if high - low <= 0.24 or count >= 160:
                    break
            errors.append(middle - alpha)
            inside.append(low <= alpha <= high)
            rates.append(posterior.nuisance("false_alarms")[1])
        assert abs(float(np.mean(errors))) < 0.06
        assert np.mean(inside) >= 0.85
        assert float(np.mean(rates)) == pytest.approx(false_alarms, abs=0.12)


def _normal_quantiles():
    places = np.linspace(-4, 4, 4001)
    return normal_cdf(places), places


def test_the_interpolated_crossing_of_a_grid_is_the_way_of_the_field():
    levels = np.array([0.0, 1.0, 2.0])
    assert interpolated(levels, np.array([0.25, 0.5, 0.75]), 0.25) == pytest.approx(1.5)
    assert interpolated(levels, np.array([0.9, 0.95, 1.0]), 0.25) is None


@pytest.mark.parametrize("levels", [(), (1.0,), (1.0, 0.5), (0.0, float("nan"))])
def test_levels_that_do_not_rise_are_refused(levels):
    with pytest.raises(UsageError, match="do not rise"):
        forced_choice(levels, 0.25)


def test_a_guess_rate_of_one_is_refused():
    with pytest.raises(UsageError, match="guess rate"):
        forced_choice(LEVELS, 1.0)


def test_models_are_made_once():
    assert isinstance(forced_choice(LEVELS, 0.25), AnswerModel)
    assert forced_choice(LEVELS, 0.25) is forced_choice(LEVELS, 0.25)
