"""Goodness-of-fit tests against scipy and against cases by hand."""

import pytest

from snellen.scoring.statistics.distributions import chi_square_tail
from snellen.scoring.statistics.goodness_of_fit import uniform_fit

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 10, 25, 120])
@pytest.mark.parametrize("statistic", [0.0, 0.01, 0.5, 3.0, 11.07, 60.0, 400.0])
def test_the_tail_equals_scipy(statistic, degrees):
    assert chi_square_tail(statistic, degrees) == pytest.approx(stats.chi2.sf(statistic, degrees), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("counts", [(30, 20, 25, 25), (90, 4, 3, 3), (51, 49), (7, 9, 5, 6, 8)])
def test_one_stratum_equals_the_chi_square_test(counts):
    fit, expected = uniform_fit([counts]), stats.chisquare(counts)
    assert (fit.statistic, fit.p_value) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert (fit.degrees, fit.test) == (len(counts) - 1, "chi-square")


def test_strata_add_up():
    fit = uniform_fit([(30, 20, 25, 25), (40, 20)])
    assert fit.statistic == pytest.approx(2.0 + 20 / 3)
    assert fit.degrees == 4
    assert fit.p_value == pytest.approx(stats.chi2.sf(2.0 + 20 / 3, 4))


def test_few_counts_are_simulated_and_meet_the_exact_probability():
    fit = uniform_fit([(6, 0)])
    assert fit.test == "chi-square, simulated"
    assert fit.p_value == pytest.approx(2 / 64, abs=0.004)
    assert uniform_fit([(6, 0)]) == fit


def test_no_counts_are_no_evidence():
    assert uniform_fit([]).p_value == uniform_fit([(0, 0, 0)]).p_value == 1.0


@pytest.mark.parametrize("strata", [[(3,)], [(3, -1)]])
def test_a_stratum_that_cannot_be_tested_is_refused(strata):
    with pytest.raises(ValueError, match="two categories"):
        uniform_fit(strata)
