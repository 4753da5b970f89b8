"""Item response theory: the fit against known parameters, and estimates of whole scores against random subsets."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics.agreement import cohen
from snellen.scoring.statistics.item_response import (
    _NODES,
    ABILITIES,
    COPY,
    PRIOR,
    SPREADS,
    ItemFit,
    _averaged_curves,
    counted_as,
    estimate_whole,
    fit_folds,
    fit_items,
    half_width,
    item_scores,
    leave_one_out,
    likeliest,
    rest_of,
    select_items,
    variance_outside,
)
from snellen.types import Prompt, Sample, Score, Text


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "subset.py"
    spec = importlib.util.spec_from_file_location("bench_subset", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known(models: int, items: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ability = rng.normal(size=models)
    ability = (ability - ability.mean()) / ability.std() if models > 1 else ability
    a, d = np.exp(rng.normal(-0.1, 0.5, items)), rng.normal(0.3, 1.4, items)
    chance = 1.0 / (1.0 + np.exp(-(np.outer(ability, a) + d)))
    return ability, a, d, (rng.random((models, items)) < chance).astype(np.float64)


def test_the_fit_finds_known_abilities_and_the_spread_of_known_items() -> None:
    ability, a, d, answers = known(60, 1500, 1)
    fit = fit_items(answers, spread_of_log_a=0.5)
    assert np.abs(fit.ability - ability).max() < 0.25
    assert fit.center == pytest.approx([-0.1, 0.3], abs=0.1) and fit.spread == pytest.approx([0.5, 1.4], abs=0.12)
    assert np.corrcoef(fit.d, d)[0, 1] > 0.93 and np.corrcoef(fit.a, a)[0, 1] > 0.6


def test_an_ability_is_the_one_that_maximises_the_posterior_by_another_optimiser() -> None:
    _, a, d, answers = known(1, 400, 2)
    whole = estimate_whole(a, d, np.zeros(101), 401, answers[0])

    def loss(at: np.ndarray) -> float:
        chance = 1.0 / (1.0 + np.exp(-(a * at[0] + d)))
        return float(-(answers[0] * np.log(chance) + (1 - answers[0]) * np.log(1 - chance)).sum() + at[0] ** 2 / 4.5)

    assert PRIOR**2 * 2 == 4.5
    best = float(minimize(loss, [0.0]).x[0])
    rest = 1.0 / (1.0 + np.exp(-ABILITIES))  # one item that is not asked, with a = 1 and d = 0
    asked = estimate_whole(a, d, rest, 401, answers[0])
    assert whole is not None and asked is not None
    assert 401 * (asked.value - whole.value) == pytest.approx(1.0 / (1.0 + np.exp(-best)), abs=0.01)


def test_items_are_chosen_where_their_information_lies() -> None:
    fit = ItemFit(np.zeros(2), np.zeros(2), np.ones(2), np.array([2.0, 0.2, 2.0, 0.2]), np.array([0.0, 0.0, 9.0, 0.1]))
    assert select_items(fit, 1).tolist() == [0], "a sharp item of middle difficulty, not one that everybody solves"
    assert sorted(select_items(fit, 4).tolist()) == [0, 1, 2, 3], "each once"


@pytest.mark.parametrize("world", ["2PL", "guessing", "3 abilities"])
def test_the_estimate_is_nearer_than_random_items_and_its_intervals_hold(bench: ModuleType, world: str) -> None:
    """The small version of bench/subset.py: 15 fitted models, 3 worlds with 40 others each, 25, 50 and 100 items."""
    every: list[bool] = []
    for size, most in ((25, 0.85), (50, 0.9), (100, 0.97)):
        runs = [bench.measure(world, 15, size, seed) for seed in range(3)]
        error, plain = (np.mean([each[at] for each in runs]) for at in (0, 2))
        assert error < most * plain, (size, error, plain)
        every += [held for each in runs for held in each[1]]
        left = np.mean([each[3] for each in runs])
        assert 0.6 < left / error < 1.6, "the error by leaving models out is that of other models"
    assert np.mean(every) > 0.93


def test_intervals_hold_the_scores_of_models_beyond_all_fitted_ones(bench: ModuleType) -> None:
    held = [
        bench.measure("2PL", 12, size, 1, unlike=end)[1] for size in (50, 100) for end in ("far below", "far above")
    ]
    assert np.mean(held) > 0.95, "75 and 53 % of those far below without the variance of extrapolated curves"


def test_extrapolated_curves_have_a_variance_and_others_none() -> None:
    *_, answers = known(10, 120, 3)
    fit, folds = fit_folds(answers)
    variance = variance_outside(fit, folds, select_items(fit, 20))
    beyond = (fit.ability.min() > ABILITIES) | (fit.ability.max() < ABILITIES)
    assert (variance[beyond] > 0.0).all() and not variance[~beyond].any()
    none = variance_outside(fit, folds, np.arange(120))
    assert not none.any(), "where all items are asked nothing is extrapolated"
    apart = [replace(fold, d=fold.d + sign * 50) for fold, sign in zip(folds, (1, -1) * 5, strict=True)]
    assert variance_outside(fit, apart, select_items(fit, 20)).max() <= 0.25, (
        "a file of a subset holds variances of shares"
    )


def test_the_factor_is_students_quantile_and_grows_with_misfit() -> None:
    bound = (9 / 5.38005) ** 0.5  # chi-square, 9 degrees of freedom, 20 % (table)
    assert half_width(np.zeros(10)) == pytest.approx(2.262157 * bound, abs=1e-4), "t, 9 degrees of freedom (table)"
    assert half_width(np.array([2.0, -2.0] * 5)) == pytest.approx(4.524314 * bound, abs=1e-4)


def test_leaving_out_says_what_fits_without_the_model_say() -> None:
    *_, answers = known(10, 120, 3)
    left = leave_one_out(answers, 20, 0, fit_folds(answers)[1])
    others = [at for at in range(10) if at != 4]
    fit = likeliest([fit_items(answers[others], spread_of_log_a=spread) for spread in SPREADS])
    chosen = select_items(fit, 20)
    alone = estimate_whole(fit.a[chosen], fit.d[chosen], rest_of(fit, chosen), 120, answers[4, chosen])
    assert alone is not None
    assert left.error[4] == pytest.approx(alone.value - answers[4].mean(), abs=0.02), "up to the tolerance of the fit"
    assert 0 <= left.covered <= 10 and left.random > 0.0


@pytest.mark.parametrize(("seed", "spread"), [(0, 0.2), (1, 0.35), (2, 1.0)])  # drawn by 0.1, 0.5 and 0.9
def test_the_likeliest_spread_of_discriminations_is_the_nearest_to_that_of_the_items(
    bench: ModuleType, seed: int, spread: float
) -> None:
    answers = bench.simulate("2PL", 30 + bench.ESTIMATED, bench.ITEMS, seed)[:30]
    fit = likeliest([fit_items(answers, spread_of_log_a=each) for each in SPREADS])
    assert fit.spread[0] == spread


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans())
def test_a_near_copy_counts_with_its_model_and_models_that_answer_by_themselves_do_not(
    seed: int, differing: int, partial: bool
) -> None:
    *_, answers = known(12, 300, seed)
    rng = np.random.default_rng(seed)
    if partial:
        answers *= rng.choice([0.5, 1.0], 300)
    answers[rng.random(answers.shape) < 0.02] = np.nan
    near = answers[3].copy()
    flipped = rng.choice(300, differing, replace=False)
    near[flipped] = 1.0 - near[flipped]
    counted = counted_as(np.vstack([answers, near, answers[3], near]))
    assert counted == [*range(12), 3, 3, 3]


def test_concordance_of_right_and_wrong_is_cohens_kappa() -> None:
    def kappa(x: np.ndarray, y: np.ndarray) -> float:
        return cohen(("one", "other"), x.astype(str).tolist(), y.astype(str).tolist()).kappa or 0.0

    x, y = np.repeat([1.0, 1.0, 0.0, 0.0], [60, 4, 4, 32]), np.repeat([1.0, 0.0, 1.0, 0.0], [60, 4, 4, 32])
    assert COPY < kappa(x, y) < 0.85 and counted_as(np.stack([x, y])) == [0, 0]
    y[:3] = 0.0
    assert 0.75 < kappa(x, y) < COPY and counted_as(np.stack([x, y])) == [0, 1]
    assert counted_as(np.ones((2, 5))) == [0, 0] and counted_as(np.eye(2)) == [0, 1]


def test_no_two_simulated_models_count_as_one(bench: ModuleType) -> None:
    for world in bench.WORLDS:
        for seed in range(3):
            assert counted_as(bench.simulate(world, 60, bench.ITEMS, seed)) == list(range(60))


def test_the_curve_of_an_item_is_its_chance_averaged_over_what_it_may_be() -> None:
    center, spread = np.array([-0.2, 0.5]), np.array([0.4, 1.3])
    certain = np.zeros(_NODES.shape[1])
    certain[100] = 1.0
    a, d = _averaged_curves(certain[None], center, spread)
    node_a, node_d = np.exp(center[0] + spread[0] * _NODES[0, 100]), center[1] + spread[1] * _NODES[1, 100]
    assert (a[0], d[0]) == pytest.approx((node_a, node_d)), "a certain item keeps its own curve"
    uncertain = np.exp(-0.5 * (_NODES**2).sum(0))[None]
    a, d = _averaged_curves(uncertain / uncertain.sum(), center, spread)
    assert a[0] < np.exp(center[0]) and abs(d[0]) < center[1], "an uncertain one is flatter"


@given(
    st.lists(st.sampled_from([0.0, 0.25, 1.0, float("nan")]), min_size=1, max_size=30),
    st.integers(1, 10_000),
    st.integers(0, 1000),
)
def test_an_estimate_is_a_score_and_holds_what_was_observed(values: list[float], others: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = len(values)
    a, d = np.exp(rng.normal(0, 1, k)), rng.normal(0, 3, k)
    rest = np.sort(rng.random(101))
    total = k + others
    whole = estimate_whole(a, d, rest, total, np.array(values))
    if np.isnan(values).all():
        assert whole is None
        return
    assert whole is not None and np.isfinite(whole.error) and whole.error >= 0.0
    assert (
        np.nansum(values) / total - 1e-9
        <= whole.value
        <= (np.nansum(values) + others + np.isnan(values).sum()) / total + 1e-9
    )


def test_all_right_and_all_wrong_give_scores_at_the_ends_with_an_error() -> None:
    _, _, _, answers = known(12, 400, 4)
    fit = fit_items(answers)
    chosen = select_items(fit, 40)
    rest = rest_of(fit, chosen)
    best, worst = (estimate_whole(fit.a[chosen], fit.d[chosen], rest, 400, np.full(40, end)) for end in (1.0, 0.0))
    assert best is not None and worst is not None
    assert 0.8 < best.value <= 1.0 and 0.0 <= worst.value < 0.25 and min(best.error, worst.error) > 0.0


def test_items_that_all_models_solve_and_models_that_solve_all_are_fitted() -> None:
    *_, answers = known(10, 100, 5)
    answers[:, :10], answers[:, 10:20], answers[0], answers[1] = 1.0, 0.0, 1.0, 0.0
    fit = fit_items(answers)
    assert np.isfinite(fit.a).all() and np.isfinite(fit.d).all() and fit.ability[0] > 1.0 > -1.0 > fit.ability[1]
    same = fit_items(np.ones((10, 50)))
    assert np.isfinite(same.a).all() and np.isfinite(same.ability).all()


def test_few_models_leave_items_apart_and_weak_answers_do_not_break_the_selection() -> None:
    *_, answers = known(10, 300, 7)
    assert np.log(fit_items(answers).a).std() > 0.1, "items differ in how telling they are"
    with np.errstate(invalid="raise", divide="raise"):
        for weak in (answers[:, :60] * 0.5, answers[:, :30], np.full((10, 40), 0.5)):
            fit = fit_items(weak)
            assert len(set(select_items(fit, 10).tolist())) == 10


def test_partial_credit_counts_as_that_share_of_a_right_answer() -> None:
    a, d, rest = np.ones(2), np.zeros(2), 1.0 / (1.0 + np.exp(-ABILITIES))
    halves = estimate_whole(a, d, rest, 100, np.array([0.5, 0.5]))
    split = estimate_whole(a, d, rest, 100, np.array([1.0, 0.0]))
    assert halves is not None and split is not None and halves.value == pytest.approx(split.value)


def test_scores_by_item_are_means_over_repeats_without_failed_and_unscored_ones() -> None:
    builder = ScoreBuilder()

    def add(name: str, value: float | None, verdict: str, repeat: int = 0) -> None:
        builder.add(Sample(name, Prompt((Text("?"),)), 1, "count"), Score(value, None, verdict), repeat)  # type: ignore[arg-type]

    add("a", 1.0, "correct")
    add("a", 0.0, "wrong", 1)
    add("b", None, "invalid")
    add("c", 0.0, "error")
    add("d", None, "unscored")
    add("other", 1.0, "correct")
    found = item_scores(builder.build(7), ["d", "c", "b", "a", "absent"])
    assert np.isnan(found[[0, 1, 4]]).all() and found[2:4].tolist() == [0.0, 0.5], "an unread reply is wrong"


def test_a_hundred_thousand_items_are_fitted_on_some_of_them() -> None:
    ability, *_, answers = known(12, 20_000, 6)
    fit = fit_items(answers)
    assert fit.a.shape == (20_000,) and np.abs(fit.ability - ability).max() < 0.2
    chosen = select_items(fit, 50)
    assert len(set(chosen.tolist())) == 50 and rest_of(fit, chosen).min() >= 0.0
