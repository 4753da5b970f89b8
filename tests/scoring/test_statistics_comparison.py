"""Bootstrap, paired comparison, power and variance components."""

import tracemalloc

import numpy as np
import pytest

from snellen.scoring import statistics
from snellen.scoring.scores import Column, Scores
from snellen.scoring.statistics import bootstrap, distributions, intervals, paired


def scores(value, group=None, question=None, **meta):
    n = len(value)
    columns = {}
    for name, names in meta.items():
        seen = tuple(dict.fromkeys(names))
        columns[name] = Column(np.array([seen.index(v) for v in names], dtype=np.int32), seen)
    return Scores(
        value=np.asarray(value, dtype=np.float64),
        verdict=np.zeros(n, dtype=np.uint8),
        group=np.arange(n) if group is None else np.asarray(group, dtype=np.int64),
        question=np.arange(n) if question is None else np.asarray(question, dtype=np.int64),
        meta=columns,
        expected=n,
    )


def ratio(sums):
    return sums[:, 0] / sums[:, 1]


def pairs(both, first, second, neither):
    """Verdicts of two runs from the four counts of a paired table."""
    a = [1.0] * (both + first) + [0.0] * (second + neither)
    b = [1.0] * both + [0.0] * first + [1.0] * second + [0.0] * neither
    return np.array(a), np.array(b), np.arange(len(a))


def test_the_bootstrap_of_a_mean_agrees_with_its_wilson_interval():
    rng = np.random.default_rng(3)
    value = (rng.random(500) < 0.6).astype(float)
    whole, found = statistics.of_sums(np.stack([value, np.ones(500)], axis=1), np.arange(500), ratio)
    assert whole == pytest.approx(value.mean())
    assert found == pytest.approx(statistics.mean("a", scores(value)).ci95, abs=6e-3)


def test_the_bootstrap_is_the_same_for_the_same_seed_and_differs_for_another():
    value = np.random.default_rng(0).random(200)
    columns, group = np.stack([value, np.ones(200)], axis=1), np.arange(200) // 2
    one = statistics.of_sums(columns, group, ratio, seed=1)
    assert one == statistics.of_sums(columns, group, ratio, seed=1)
    assert one != statistics.of_sums(columns, group, ratio, seed=2)


def test_both_ways_into_the_bootstrap_agree():
    rng = np.random.default_rng(8)
    group = np.arange(120).repeat(3)
    value = (rng.random(360) < rng.random(120)[group]).astype(float)
    _, by_sums = statistics.of_sums(np.stack([value, np.ones(360)], axis=1), group, ratio)
    _, by_rows = statistics.of_scores(scores(value, group), lambda s: float(s.value.mean()))
    assert by_sums == pytest.approx(by_rows, abs=0.012)


def test_few_clusters_get_quantiles_further_out():
    low_few, high_few = intervals.expanded_levels(5)
    low_many, high_many = intervals.expanded_levels(100_000)
    assert low_few < 0.002 and high_few > 0.998
    assert (low_many, high_many) == pytest.approx((0.025, 0.975), abs=1e-4)


def test_a_cluster_bootstrap_holds_the_truth_about_95_times_in_100():
    rng, hits, rounds = np.random.default_rng(4), 0, 250
    group = np.arange(30).repeat(3)
    for _ in range(rounds):
        value = (rng.random(90) < rng.beta(4, 2, 30)[group]).astype(float)
        _, found = statistics.of_sums(np.stack([value, np.ones(90)], axis=1), group, ratio, replicates=400)
        hits += found[0] <= 2 / 3 <= found[1]
    assert 0.91 <= hits / rounds <= 0.99


def test_a_composite_that_never_varies_has_no_interval():
    metric = statistics.composite("best", scores(np.ones(50)), lambda s: float(s.value.mean()))
    assert (metric.value, metric.ci95) == (1.0, None)


def test_a_composite_keeps_repeats_of_a_question_together():
    question = np.arange(20).repeat(4)
    seen = []
    statistics.composite(
        "c",
        scores(np.ones(80), question, question),
        lambda s: seen.append(np.unique(s.question, return_counts=True)[1].tolist()) or 0.0,
        replicates=5,
    )
    assert all(counts == [4] * 20 for counts in seen)


def test_a_large_composite_draws_fewer_clusters_and_keeps_the_width(monkeypatch):
    value = (np.random.default_rng(6).random(4_000) < 0.7).astype(float)
    monkeypatch.setattr(bootstrap, "_DRAWN_ROWS", 200 * 400)
    drawn = []
    _, found = statistics.of_scores(scores(value), lambda s: drawn.append(len(s)) or float(s.value.mean()))
    assert set(drawn[1:]) == {400} and len(drawn) == 201
    plain = statistics.mean("a", scores(value)).ci95
    assert found[1] - found[0] == pytest.approx(plain[1] - plain[0], rel=0.15)


def test_resampling_a_million_clusters_holds_a_bounded_number_of_them():
    value = np.random.default_rng(7).random(1_000_000)
    columns = np.stack([value, np.ones(len(value))], axis=1)
    tracemalloc.start()
    batches = list(bootstrap.resampled_sums(columns, np.arange(len(value)), replicates=1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 160e6
    assert sum(len(b) for b in batches) == 1000
    means = np.concatenate([ratio(b) for b in batches])
    assert means.std() == pytest.approx(value.std() / 1000, rel=0.1)


def test_random_groups_of_clusters_keep_the_sums_and_the_variance():
    rows = np.random.default_rng(9).normal(size=(40_000, 1))
    folded = bootstrap.fold(rows, np.random.default_rng(0))
    assert len(folded) == bootstrap.FOLDED
    assert folded.sum() == pytest.approx(rows.sum())
    assert folded.var() * len(folded) == pytest.approx(rows.var() * len(rows), rel=0.08)


def test_mcnemar_gives_the_published_p_value():
    # airway hyper-responsiveness before and after transplantation: Fagerland, Lydersen, Laake 2013, BMC Medical
    # Research Methodology 13:91, table 1 (1, 1, 7, 12) and its exact conditional p-value 0.070
    result = statistics.compare(*pairs(1, 1, 7, 12))
    assert result.test == paired.MCNEMAR
    assert result.p_value == pytest.approx(0.0703, abs=5e-5)
    assert (result.n, result.wins, result.losses) == (21, 1, 7)
    assert result.difference == pytest.approx(-6 / 21)
    assert result.ci95[0] < -6 / 21 < result.ci95[1]


def test_swapping_the_two_runs_turns_the_comparison_round():
    a, b, group = pairs(40, 12, 5, 20)
    one, two = statistics.compare(a, b, group), statistics.compare(b, a, group)
    assert (one.difference, one.wins, one.p_value) == (-two.difference, two.losses, two.p_value)
    assert one.ci95 == pytest.approx((-two.ci95[1], -two.ci95[0]))


def test_identical_runs_differ_by_nothing_and_say_what_could_have_been_seen():
    a, _, group = pairs(60, 0, 0, 40)
    result = statistics.compare(a, a, group)
    assert (result.difference, result.p_value, result.wins) == (0.0, 1.0, 0)
    assert 0.05 < result.smallest_detectable < 0.1


def test_clustered_verdicts_are_not_tested_as_if_they_were_independent():
    a, b, _ = pairs(20, 12, 2, 6)
    alone = statistics.compare(a, b, np.arange(40))
    copied = statistics.compare(a.repeat(5), b.repeat(5), np.arange(40).repeat(5))
    assert copied.test == paired.SIGN_FLIP and copied.clusters == 40
    assert copied.p_value == pytest.approx(alone.p_value, abs=0.01)
    assert statistics.compare(a.repeat(5), b.repeat(5), np.arange(200)).p_value < alone.p_value / 100


def test_two_equal_models_are_told_apart_no_more_than_5_times_in_100():
    rng, found, held, rounds = np.random.default_rng(10), 0, 0, 300
    group = np.arange(25).repeat(2)
    for _ in range(rounds):
        ease = rng.beta(3, 2, 25)[group]
        a, b = ((rng.random(50) < ease).astype(float) for _ in range(2))
        result = statistics.compare(a, b, group, flips=600)
        found += result.p_value < 0.05
        held += result.ci95 is not None and result.ci95[0] <= 0 <= result.ci95[1]
    assert found / rounds <= 0.08
    assert held / rounds >= 0.91


def test_sign_flips_agree_with_the_exact_test_where_both_apply():
    sums = np.array([1.0] * 14 + [-1.0] * 4 + [0.0] * 9)
    assert paired.sign_flip_p(sums) == pytest.approx(distributions.fair_coin_p(14, 4), abs=0.005)


def test_unequal_or_unscored_rows_are_refused_with_what_was_found():
    with pytest.raises(ValueError, match="found 2, 3 and 3 rows"):
        statistics.compare([1, 0], [1, 0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="1 values that are not finite"):
        statistics.compare([1, float("nan")], [1, 0], [0, 1])


def test_the_smallest_detectable_difference_is_a_little_more_than_connors_equation_has():
    # Connor 1987: with z of 1.96 and 0.8416, d = 0.3 and x = 0.1 need 234 pairs; the exact test is less powerful.
    assert 0.1 < statistics.smallest_detectable(234, 0.3) < 0.104
    assert statistics.smallest_detectable(3, 0.3) is None
    assert 0.05 < statistics.smallest_detectable(4 * 234, 0.3) < 0.0515


def test_a_difference_of_the_smallest_detectable_size_is_found_about_8_times_in_10():
    n, discordance = 400, 0.2
    x = statistics.smallest_detectable(n, discordance)
    rng, rounds, found = np.random.default_rng(12), 800, 0
    for _ in range(rounds):
        wins, losses, _ = rng.multinomial(n, [(discordance + x) / 2, (discordance - x) / 2, 1 - discordance])
        found += distributions.fair_coin_p(int(wins), int(losses)) < 0.05
    assert 0.77 <= found / rounds <= 0.83


def test_variance_between_and_within_questions_are_told_apart():
    rng = np.random.default_rng(13)
    ease = rng.normal(0.5, 0.3, 4_000)
    question = np.arange(4_000).repeat(3)
    value = ease[question] + rng.normal(0.0, 0.2, 12_000)
    found = statistics.spread(scores(value, question, question))
    assert found.between == pytest.approx(0.09, rel=0.06)
    assert found.within == pytest.approx(0.04, rel=0.06)
    assert (found.questions, found.repeats) == (4_000, 3.0)
    metrics = {m.name: m.value for m in statistics.repeat_metrics(scores(value, question, question))}
    assert metrics["variance/between_questions"] == found.between
    assert metrics["variance/within_questions"] == found.within


def test_without_repeats_no_variance_is_made_up():
    assert statistics.spread(scores([1, 0, 1])) is None
    assert statistics.repeat_metrics(scores([1, 0, 1])) == []


def test_so_few_clusters_that_no_p_value_falls_below_5_percent_could_show_nothing():
    rng = np.random.default_rng(4)
    for count, shown in ((3, False), (5, False), (6, True)):
        group = np.repeat(np.arange(count), 10)
        result = statistics.compare(rng.random(len(group)), rng.random(len(group)), group)
        assert (result.smallest_detectable is not None) == shown


def test_clusters_that_all_differ_by_the_same_have_no_smallest_difference_made_of_rounding():
    group = np.repeat(np.arange(7), 3)
    result = statistics.compare(np.full(21, 0.7), np.full(21, 0.1), group)
    assert result.smallest_detectable is None
