"""A small fixed grid of the simulations behind docs/statistics-coverage.md: no interval falls below 92 %, power is near 80 %."""

import importlib.util
import sys
from pathlib import Path

import pytest

from snellen.scoring.statistics.distributions import fair_coin_p
from snellen.scoring.statistics.paired import mcnemar_power

SCRIPT = Path(__file__).parents[2] / "scripts" / "statistics_coverage.py"
DRAWS = 250
IN_CELLS = {"share, rows in clusters": 40, "paired difference, clusters": 50, "macro mean": 16, "calibration error": 40}


@pytest.fixture(scope="module")
def simulation():
    spec = importlib.util.spec_from_file_location("statistics_coverage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_kind_of_interval_holds_the_truth_in_92_of_100_experiments(simulation):
    families = list(dict.fromkeys(cell.family for cell in simulation.cells()))
    assert len(families) > 12
    short = []
    for family in families:
        for number in simulation.chosen([family], IN_CELLS.get(family, 12)):
            cell = simulation.measure(number, DRAWS)
            if not cell.is_power and cell.given and cell.held < 0.92 - 2 * (0.92 * 0.08 / DRAWS / cell.given) ** 0.5:
                short.append(cell)
    assert not short


@pytest.mark.parametrize(
    ("n", "discordance", "difference"), [(6, 0.9, 0.9), (20, 0.4, 0.3), (60, 0.2, 0.15), (45, 1.0, 0.3)]
)
def test_power_is_the_sum_over_every_outcome(n, discordance, difference):
    from scipy.stats import multinomial

    chances = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    total = sum(
        multinomial.pmf([wins, losses, n - wins - losses], n, chances)
        for wins in range(n + 1)
        for losses in range(n + 1 - wins)
        if fair_coin_p(wins, losses) < 0.05
    )
    assert mcnemar_power(n, discordance, difference) == pytest.approx(total, abs=1e-9)


def test_a_detectable_difference_is_detected_four_times_in_five(simulation):
    for number in simulation.chosen(["power: McNemar", "power: sign flips"], 5):
        cell = simulation.measure(number, 20)
        assert not cell.given or cell.held == pytest.approx(0.805, abs=0.05), cell
