"""Agreement beyond chance: equal to published worked examples and to independent computations."""

import random
from itertools import permutations

import numpy as np
import pytest

from snellen.scoring.statistics.agreement import cohen_kappa, krippendorff_alpha

# Krippendorff 2011, section C: four observers, twelve units, nominal data with missing values.
OBSERVERS = {
    "A": "1 2 3 3 2 1 4 1 2 . . .",
    "B": "1 2 3 3 2 2 4 1 2 5 . 3",
    "C": ". 3 3 3 2 3 4 2 2 5 1 .",
    "D": "1 2 3 3 2 4 4 1 2 5 1 .",
}
KRIPPENDORFF = [
    {name: row.split()[unit] for name, row in OBSERVERS.items() if row.split()[unit] != "."} for unit in range(12)
]
# Fleiss 1981, table 13.1: two raters' diagnoses of 100 people.
FLEISS = [[75, 1, 4], [5, 4, 1], [0, 0, 10]]


def pairs_of(table):
    pairs = [("pno"[i], "pno"[j]) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def alpha_by_coincidences(units):
    """Alpha from the coincidence matrix, entry by entry as the definition has it."""
    labels = sorted({label for unit in units for label in unit.values()})
    matrix = np.zeros((len(labels), len(labels)))
    for unit in units:
        values = list(unit.values())
        for a, b in permutations(range(len(values)), 2):
            matrix[labels.index(values[a]), labels.index(values[b])] += 1 / (len(values) - 1)
    n, totals = matrix.sum(), matrix.sum(axis=0)
    observed = 1 - np.trace(matrix) / n
    expected = 1 - (totals * (totals - 1)).sum() / (n * (n - 1))
    return 1 - observed / expected


def test_alpha_equals_krippendorffs_worked_example():
    alpha = krippendorff_alpha(KRIPPENDORFF)
    assert round(alpha.value, 3) == 0.743
    assert (alpha.units, alpha.annotators) == (11, 4)
    low, high = alpha.ci95
    assert low < 0.743 < high <= 1.0


def test_kappa_equals_fleiss_worked_example_and_its_interval_that_of_the_large_sample_formula():
    kappa = cohen_kappa(*pairs_of(FLEISS))
    assert round(kappa.value, 3) == 0.676
    low, high = kappa.ci95
    # Fleiss, Cohen and Everitt 1969: standard error 0.088 of a kappa that is not 0.
    assert low == pytest.approx(0.676 - 1.96 * 0.088, abs=0.03)
    assert high == pytest.approx(0.676 + 1.96 * 0.088, abs=0.03)


@pytest.mark.parametrize("seed", range(6))
def test_both_equal_independent_computations_on_random_labels(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = random.Random(seed)
    words = ["right", "wrong", "gold-wrong", "ambiguous"][: 2 + seed % 3]
    first = [rng.choice(words) for _ in range(60)]
    second = [label if rng.random() < 0.7 else rng.choice(words) for label in first]
    kappa = cohen_kappa(first, second)
    assert kappa.value == pytest.approx(metrics.cohen_kappa_score(first, second), abs=1e-12)
    units = [{"a": a, "b": b} for a, b in zip(first, second, strict=True)]
    for unit in units[::3]:
        unit["c"] = rng.choice(words)
    for unit in units[::7]:
        del unit["a"]
    assert krippendorff_alpha(units).value == pytest.approx(alpha_by_coincidences(units), abs=1e-12)
    assert kappa.ci95[0] < kappa.value < kappa.ci95[1]


def test_intervals_of_both_cover_the_truth_in_nineteen_of_twenty_samples():
    """Two raters copy a fair coin with probability 0.6, else toss: kappa and alpha are 0.36 in the long run."""
    covered = {"kappa": 0, "alpha": 0}
    for seed in range(120):
        rng = random.Random(seed)
        first, second = [], []
        for _ in range(80):
            truth = rng.random() < 0.5
            first.append(str(truth if rng.random() < 0.6 else rng.random() < 0.5))
            second.append(str(truth if rng.random() < 0.6 else rng.random() < 0.5))
        units = [{"a": a, "b": b} for a, b in zip(first, second, strict=True)]
        for name, coefficient in (("kappa", cohen_kappa(first, second)), ("alpha", krippendorff_alpha(units))):
            covered[name] += coefficient.ci95[0] <= 0.36 <= coefficient.ci95[1]
    assert all(107 <= count <= 120 for count in covered.values()), covered


def test_perfect_agreement_has_an_interval_that_says_how_few_units_there_were():
    few, many = (cohen_kappa(["a", "b"] * n, ["a", "b"] * n) for n in (3, 100))
    assert few.value == many.value == 1.0
    assert few.ci95[0] < 0.3 < 0.95 < many.ci95[0] and few.ci95[1] == 1.0
    alpha = krippendorff_alpha([{"x": label, "y": label} for label in "abab"])
    assert alpha.value == 1.0 and alpha.ci95[0] < 0.5


def test_labels_without_any_variation_and_units_without_a_second_label_have_no_value():
    assert cohen_kappa(["a", "a"], ["a", "a"]).value is None
    assert cohen_kappa([], []).value is None
    assert krippendorff_alpha([{"x": "a", "y": "a"}, {"x": "a", "y": "a"}]).value is None
    assert krippendorff_alpha([{"x": "a"}, {}, {"y": "b"}]).units == 0
