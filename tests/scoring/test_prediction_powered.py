"""Prediction-powered inference: worked examples, coverage by simulation with fixed seeds, and what a caller got wrong."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import beta

from snellen.scoring.statistics import further_reviews, jeffreys, prediction_powered, reviewed_share


def audit(cells):
    """Build automatic scores, reviewed rows and truth from (automatic score, rows, reviewed, truly right of them)."""
    automatic, reviewed, truth = [], [], []
    for score, rows, number, right in cells:
        reviewed += range(len(automatic), len(automatic) + number)
        truth += [1.0] * right + [0.0] * (number - right)
        automatic += [score] * rows
    return np.array(automatic), np.array(reviewed), np.array(truth)


@pytest.mark.parametrize(("right", "n"), [(0, 20), (3, 20), (20, 20), (2.5, 7.25), (299, 300)])
def test_jeffreys_interval_is_made_of_beta_quantiles(right, n):
    low, high = beta.ppf([0.025, 0.975], right + 0.5, n - right + 0.5)
    expected = (0.0 if right == 0 else low, 1.0 if right == n else high)
    assert jeffreys(right, n) == pytest.approx(expected, abs=1e-9)


def test_a_worked_example_is_equal_to_plain_arithmetic():
    automatic, reviewed, truth = audit([(1.0, 150, 30, 27), (0.0, 50, 10, 2)])
    result = prediction_powered(automatic, reviewed, truth)

    # PPI++ with lambda = cov / var over the reviewed rows.
    scores = [automatic[row] for row in reviewed]
    mean_score, mean_truth = sum(scores) / 40, sum(truth) / 40
    covariance = sum((s - mean_score) * (t - mean_truth) for s, t in zip(scores, truth, strict=True))
    power = covariance / sum((s - mean_score) ** 2 for s in scores)
    rectifier = sum(t - power * s for s, t in zip(scores, truth, strict=True)) / 40
    value = power * sum(automatic) / 200 + rectifier
    assert (result.power, result.value) == pytest.approx((power, value))
    assert value == pytest.approx(0.725)

    # The interval: 27 of 30 right weighs 0.75, 2 of 10 weighs 0.25, and the two cells differ by 0.7.
    low_right, high_right = beta.ppf([0.025, 0.975], 27.5, 3.5)
    low_wrong, high_wrong = beta.ppf([0.025, 0.975], 2.5, 8.5)
    between = 1.959964**2 * 0.7**2 * 0.75 * 0.25 / 199
    low = 0.725 - sqrt((0.75 * (0.9 - low_right)) ** 2 + (0.25 * (0.2 - low_wrong)) ** 2 + between)
    high = 0.725 + sqrt((0.75 * (high_right - 0.9)) ** 2 + (0.25 * (high_wrong - 0.2)) ** 2 + between)
    assert result.ci95 == pytest.approx((low, high), abs=1e-6)
    assert (result.n, result.reviewed, result.automatic) == (200, 40, 0.75)
    assert result.people == pytest.approx(29 / 40)
    assert result.people_ci95 == pytest.approx(tuple(beta.ppf([0.025, 0.975], 29.5, 11.5)), abs=1e-6)
    assert result.ci95.about.text == "prediction-powered"


def simulate(rng, rows, reviewed, accuracy, error):
    truth = (rng.random(rows) < accuracy).astype(float)
    automatic = np.where(rng.random(rows) < error, 1.0 - truth, truth)
    return truth, automatic, rng.choice(rows, reviewed, replace=False)


def test_the_interval_covers_the_truth_over_a_grid_of_accuracies_errors_and_sizes_and_beats_the_people_alone():
    rng = np.random.default_rng(17)
    grid = [(a, e, n) for a in (0.5, 0.7, 0.9) for e in (0.05, 0.1, 0.2) for n in (50, 100, 300)]
    covered = covered_run = 0
    widths = {cell: [0.0, 0.0] for cell in grid}
    simulations = 1_026
    for number in range(simulations):
        accuracy, error, reviewed = cell = grid[number % len(grid)]
        truth, automatic, rows = simulate(rng, 1_000, reviewed, accuracy, error)
        result = prediction_powered(automatic, rows, truth[rows])
        covered += result.ci95[0] <= accuracy <= result.ci95[1]
        covered_run += result.ci95_of_run[0] <= truth.mean() <= result.ci95_of_run[1]
        widths[cell][0] += result.ci95[1] - result.ci95[0]
        widths[cell][1] += result.people_ci95[1] - result.people_ci95[0]
    assert 0.93 <= covered / simulations <= 0.97
    assert 0.93 <= covered_run / simulations <= 0.975
    assert all(powered < people for powered, people in widths.values())


def test_few_or_no_disagreements_still_give_an_interval_that_covers():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        truth, automatic, rows = simulate(rng, 2_000, 50, 0.9, 0.02)
        result = prediction_powered(automatic, rows, truth[rows])
        covered += result.ci95[0] <= 0.9 <= result.ci95[1]
    assert covered / 400 >= 0.95

    automatic, reviewed, truth = audit([(1.0, 1_600, 40, 40), (0.0, 400, 10, 0)])
    result = prediction_powered(automatic, reviewed, truth)
    assert result.value == pytest.approx(0.8)  # the automatic score, as nobody disagreed
    assert result.power == pytest.approx(1.0)
    assert result.ci95[0] < 0.8 - 0.03 < 0.8 + 0.03 < result.ci95[1]


@pytest.mark.parametrize("whole_clusters", [True, False])
def test_rows_that_share_a_group_widen_the_interval_until_it_covers(whole_clusters):
    rng = np.random.default_rng(23)
    covered = ignored = 0
    for _ in range(300):
        group = np.arange(200).repeat(5)
        share = rng.beta(0.8 * 1.5, 0.2 * 1.5, 200).repeat(5)
        truth = (rng.random(1_000) < share).astype(float)
        automatic = np.where(rng.random(1_000) < 0.1, 1.0 - truth, truth)
        if whole_clusters:
            rows = np.flatnonzero(np.isin(group, rng.choice(200, 20, replace=False)))
        else:
            rows = rng.choice(1_000, 100, replace=False)
        result = prediction_powered(automatic, rows, truth[rows], group=group, cluster="image")
        covered += result.ci95[0] <= 0.8 <= result.ci95[1]
        alone = prediction_powered(automatic, rows, truth[rows])
        ignored += alone.ci95[0] <= 0.8 <= alone.ci95[1]
    assert 0.93 <= covered / 300 <= 0.98
    assert ignored < covered
    assert result.ci95.about.text == "cluster-robust prediction-powered by image"


def test_a_stratified_audit_is_weighted_by_its_inclusion_probabilities():
    rng = np.random.default_rng(29)
    probability = np.array([60 / 1_600] * 1_600 + [90 / 400] * 400)
    covered, values = 0, []
    for _ in range(300):
        truth = (rng.random(2_000) < np.where(np.arange(2_000) < 1_600, 0.9, 0.4)).astype(float)
        error = np.where(np.arange(2_000) < 1_600, 0.05, 0.35)
        automatic = np.where(rng.random(2_000) < error, 1.0 - truth, truth)
        rows = np.concatenate([rng.choice(1_600, 60, replace=False), 1_600 + rng.choice(400, 90, replace=False)])
        result = prediction_powered(automatic, rows, truth[rows], probability=probability)
        covered += result.ci95[0] <= 0.8 <= result.ci95[1]
        values.append(result.value)
    assert 0.93 <= covered / 300 <= 0.98
    assert np.mean(values) == pytest.approx(0.8, abs=0.01)  # the reviewed rows alone would say 0.6
    share, interval = reviewed_share(rows, automatic[rows] != truth[rows], probability, 2_000)
    assert interval[0] <= 0.11 <= interval[1]
    assert abs(share - 0.11) < 0.06


def test_graded_scores_that_reviewers_confirm_keep_the_automatic_mean():
    automatic = np.linspace(0.1, 0.9, 500)
    rows = np.arange(0, 500, 10)
    result = prediction_powered(automatic, rows, automatic[rows])
    assert result.value == pytest.approx(0.5)
    assert result.ci95[0] < 0.49 < 0.51 < result.ci95[1]


def test_graded_scores_with_noise_are_weighted_by_a_tuned_lambda_and_cover():
    rng = np.random.default_rng(31)
    covered, powers, ratios = 0, [], []
    for _ in range(200):
        truth = rng.beta(4, 2, 1_000)
        automatic = np.clip(truth + rng.normal(0, 0.2, 1_000), 0.001, 0.999)
        rows = rng.choice(1_000, 100, replace=False)
        result = prediction_powered(automatic, rows, truth[rows])
        covered += result.ci95[0] <= 2 / 3 <= result.ci95[1]
        powers.append(result.power)
        ratios.append((result.ci95[1] - result.ci95[0]) / (result.people_ci95[1] - result.people_ci95[0]))
    assert 0.92 <= covered / 200 <= 0.985
    assert 0.2 < np.mean(powers) < 0.8
    assert np.mean(ratios) < 0.9


def test_questions_that_do_not_count_are_left_out_of_the_mean():
    automatic, reviewed, truth = audit([(1.0, 500, 50, 45), (0.0, 500, 50, 5)])
    whole = prediction_powered(automatic, reviewed, truth)
    truth[:20] = np.nan  # twenty of the fifty reviewed right ones have a wrong gold answer
    result = prediction_powered(automatic, reviewed, truth)
    right, wrong = 0.5 * 0.6, 0.5
    assert result.value == pytest.approx((right * 25 / 30 + wrong * 0.1) / (right + wrong))
    assert result.reviewed == 80
    assert result.ci95[1] - result.ci95[0] > whole.ci95[1] - whole.ci95[0]


def test_rows_without_a_reply_are_known_and_take_no_review():
    automatic, reviewed, truth = audit([(1.0, 80, 20, 18), (0.0, 20, 0, 0)])
    certain = np.arange(100) >= 80
    result = prediction_powered(automatic, reviewed, truth, certain=certain)
    assert result.value == pytest.approx(0.8 * 0.9)
    assert result.ci95[1] <= 0.8 + 0.1


def test_further_reviews_halve_the_interval_as_they_say():
    cells = [(1.0, 30_000, 75, 66), (0.0, 10_000, 25, 5)]
    automatic, reviewed, truth = audit(cells)
    plan = further_reviews(automatic, reviewed, truth)
    assert plan.to_halve is not None
    factor = (100 + plan.to_halve) / 100
    more = audit([(score, rows, round(n * factor), round(right * factor)) for score, rows, n, right in cells])
    later = prediction_powered(*more)
    assert (later.ci95[1] - later.ci95[0]) / plan.width == pytest.approx(0.5, abs=0.02)

    plan = further_reviews(*audit([(1.0, 150, 75, 66), (0.0, 50, 25, 5)]))
    assert plan.to_halve is None  # 200 questions alone leave it wider
    assert plan.whole_width > plan.width / 2


def test_an_audit_of_every_row_has_the_exact_mean_and_no_doubt_about_the_run():
    automatic, reviewed, truth = audit([(1.0, 60, 60, 50), (0.0, 40, 40, 4)])
    result = prediction_powered(automatic, reviewed, truth)
    assert result.value == pytest.approx(0.54)
    assert result.ci95_of_run == pytest.approx((0.54, 0.54))
    assert result.ci95[0] == pytest.approx(0.443, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reviewed": np.array([0, 0])}, "once"),
        ({"reviewed": np.array([0, 9])}, "expected 0 to 3"),
        ({"truth": np.array([0.0, 1.5])}, "expected 0 to 1"),
        ({"truth": np.array([np.nan, np.nan])}, "no reviewed row counts"),
        ({"probability": np.zeros(4)}, "each above 0"),
    ],
)
def test_impossible_input_is_named(change, message):
    arguments = {"automatic": np.array([0.0, 1.0, 1.0, 0.0]), "reviewed": np.array([0, 1]), "truth": np.zeros(2)}
    with pytest.raises(ValueError, match=message):
        prediction_powered(**{**arguments, **change})
