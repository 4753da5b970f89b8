"""Ranks over data sets, by a published example and by scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare

from snellen.scoring.statistics.multiple import critical_distance, rank_test

DEMSAR = """
0.763 0.768 0.771 0.798   0.599 0.591 0.590 0.569   0.954 0.971 0.968 0.967   0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898   0.936 0.931 0.916 0.931   0.661 0.668 0.609 0.685   0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875   1.000 1.000 1.000 1.000   0.940 0.962 0.965 0.962   0.619 0.666 0.614 0.669
0.972 0.981 0.9751 0.975  0.957 0.978 0.946 0.970
"""
"""AUC of C4.5, with m, with cf, with both, over 14 data sets (Demšar 2006, table 6; the 13th row is ranked 4, 1, 2, 3)."""


def test_the_ranks_and_the_critical_distance_are_those_that_were_published() -> None:
    values = np.array(DEMSAR.split(), dtype=float).reshape(14, 4)
    found = rank_test(values)
    assert found.ranks == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=5e-4)
    assert found.distance == pytest.approx(1.25, abs=5e-3)
    assert critical_distance(4, 14, 0.1) == pytest.approx(1.12, abs=5e-3)
    ranks = np.array(found.ranks)
    assert 12 * 14 / (4 * 5) * ((ranks**2).sum() - 4 * 25 / 4) == pytest.approx(9.28, abs=5e-3)  # without ties
    assert found.groups == ("a", "a", "a", "a")  # as the paper finds at 0.05: 3.143 - 1.964 < 1.25


@pytest.mark.parametrize(("models", "quantile"), [(3, 2.343), (5, 2.728), (7, 2.949), (10, 3.164)])
def test_quantiles_are_those_of_the_printed_table(models: int, quantile: float) -> None:
    assert critical_distance(models, 20) == pytest.approx(quantile * (models * (models + 1) / 120) ** 0.5, rel=1e-3)


@settings(max_examples=20, deadline=None)
@given(arrays(float, (8, 4), elements=st.integers(0, 9).map(lambda tenth: tenth / 10)))
def test_chi_square_and_p_are_those_of_scipy(values: np.ndarray) -> None:
    if (values == values[:, :1]).all():
        return
    found = rank_test(values)
    wanted = friedmanchisquare(*values.T)
    assert (found.chi2, found.p_value) == (wanted.statistic, wanted.pvalue)
    assert sum(found.ranks) == pytest.approx(10)


def test_models_beyond_the_distance_are_told_apart() -> None:
    found = rank_test(np.tile([0.9, 0.8, 0.2], (12, 1)) + np.linspace(0, 0.05, 12)[:, None])
    assert found.ranks == (1.0, 2.0, 3.0) and found.groups == ("a", "b", "c")


@pytest.mark.parametrize(
    ("sets", "models", "says"),
    [(9, 2, "three models or more"), (1, 3, "3 or more can"), (0, 3, "0 data sets"), (2, 3, "3 or more can")],
)
def test_too_little_data_is_refused_with_what_is_needed(sets: int, models: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rank_test(np.arange(float(sets * models)).reshape(sets, models))
    with pytest.raises(ValueError, match="equal on every data set"):
        rank_test(np.full((5, 3), 0.5))


@pytest.mark.parametrize("models", [3, 5, 12, 30])
def test_the_number_that_a_refusal_asks_for_is_enough_and_one_less_is_not(models: int) -> None:
    with pytest.raises(ValueError, match="or more can") as error:
        rank_test(np.zeros((1, models)))
    needed = int(str(error.value).rpartition("; ")[2].split()[0])
    assert critical_distance(models, needed) < models - 1
    assert needed == 3 or critical_distance(models, needed - 1) >= models - 1
