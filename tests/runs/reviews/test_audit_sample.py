"""Audit samples: seeded, recorded with their probabilities, extended without losing a case."""

from __future__ import annotations

from collections import Counter

import pytest

from snellen.errors import RunError, UsageError
from snellen.runs.reviews.audit_sample import allocate, draw, read_audit_sample, save_audit_sample

POPULATION = {(f"q{number}", 0): ("rare" if number % 20 == 0 else "common") for number in range(400)}
PLAIN = dict.fromkeys(POPULATION, "")


def test_the_same_seed_draws_the_same_sample_in_any_order_of_the_records():
    one = draw(PLAIN, 50, seed=3)
    other = draw(dict(reversed(PLAIN.items())), 50, seed=3)
    assert one.cases == other.cases and len(one.cases) == 50
    assert draw(PLAIN, 50, seed=4).cases != one.cases
    assert {case.probability for case in one.cases} == {50 / 400}
    assert one.kind == "random"


def test_every_reply_has_the_probability_that_is_recorded():
    counts = Counter(case.sample_id for seed in range(600) for case in draw(PLAIN, 40, seed).cases)
    assert len(counts) == 400
    # 600 draws at 0.1: 60 expected, standard deviation 7.3; the most extreme of 400 lies within 4.5 of them.
    assert min(counts.values()) > 60 - 33 and max(counts.values()) < 60 + 33


def test_strata_share_the_sample_by_their_size_and_the_file_says_with_which_probability(tmp_path):
    sample = draw(POPULATION, 100, seed=1, by=("level",))
    sizes = {stratum.name: (stratum.population, stratum.size) for stratum in sample.strata}
    assert sizes == {"common": (380, 95), "rare": (20, 5)}
    save_audit_sample(tmp_path, sample)
    reread = read_audit_sample(tmp_path)
    assert reread == sample and reread.kind == "stratified"
    for case in reread.cases:
        population, size = sizes[case.stratum]
        assert case.probability == size / population
    # Horvitz-Thompson: the weights of a stratum sum to its population.
    assert sum(1 / case.probability for case in reread.cases) == pytest.approx(400)


@pytest.mark.parametrize("size", [4, 7, 23, 100, 399, 400])
def test_a_larger_sample_extends_a_smaller_one_in_every_stratum(tmp_path, size):
    small = draw(POPULATION, size, seed=1, by=("level",))
    for larger in range(size, min(size + 5, 401)):
        assert set(small.probabilities()) <= set(draw(POPULATION, larger, seed=1, by=("level",)).probabilities())
    assert sum(stratum.size for stratum in small.strata) == size == len(small.cases)
    assert all(stratum.size >= 2 for stratum in small.strata)


def test_webster_gives_each_stratum_its_share_and_no_more_than_it_has():
    assert allocate({"a": 53, "b": 24, "c": 23}, 10) == {"a": 6, "b": 2, "c": 2}  # 53 / 11 = 4.82 > 24 / 5
    assert allocate({"a": 1, "b": 3, "c": 1_000}, 12) == {"a": 1, "b": 2, "c": 9}
    with pytest.raises(UsageError, match="3 strata need at least 6 cases"):
        allocate({"a": 10, "b": 10, "c": 10}, 5)


def test_a_second_draw_keeps_extends_or_is_refused_but_never_replaces_the_first(tmp_path):
    first = draw(PLAIN, 50, seed=1)
    assert save_audit_sample(tmp_path, first) == (first, True)
    assert save_audit_sample(tmp_path, draw(PLAIN, 50, seed=1)) == (first, False)
    for other in (draw(PLAIN, 50, seed=2), draw(PLAIN, 20, seed=1), draw(POPULATION, 60, seed=1, by=("level",))):
        with pytest.raises(UsageError, match=r"another sample: 50 of 400 replies, random, seed 1(.|\n)*larger --size"):
            save_audit_sample(tmp_path, other)
    larger, written = save_audit_sample(tmp_path, draw(PLAIN, 80, seed=1))
    assert written and {case.probability for case in larger.cases} == {0.2}
    assert read_audit_sample(tmp_path) == larger


@pytest.mark.parametrize(("size", "population"), [(0, PLAIN), (401, PLAIN), (5, {})])
def test_a_size_that_cannot_be_drawn_is_refused(size, population):
    with pytest.raises(UsageError):
        draw(population, size, seed=1)


@pytest.mark.parametrize("content", ["", "[]", '{"kind": 3}', "{" * 100_000])
def test_a_file_that_is_no_audit_sample_is_named(tmp_path, content):
    (tmp_path / "audit_sample.json").write_text(content)
    with pytest.raises(RunError, match="is no audit sample"):
        read_audit_sample(tmp_path)


def test_a_probability_out_of_range_is_named(tmp_path):
    save_audit_sample(tmp_path, draw(PLAIN, 5, seed=1))
    path = tmp_path / "audit_sample.json"
    path.write_text(path.read_text().replace("0.0125", "0.0", 1))
    with pytest.raises(RunError, match=r"probability 0\.0; expected more than 0"):
        read_audit_sample(tmp_path)
