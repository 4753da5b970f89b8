"""Agreement of annotators beyond chance: Cohen's kappa and Krippendorff's alpha for nominal labels, with intervals.

Error consistency: do two models err on the same samples more often than two independent models would?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import isqrt, sqrt
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.scores import finite
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.distributions import t_quantile
from snellen.scoring.statistics.intervals import GROUP
from snellen.types import Interval, IntervalMethod


class Agreement(Struct, frozen=True):
    """Cohen's kappa of two annotators over the candidates that both have judged independently.

    Attributes:
        reviewers: their names.
        n: number of candidates that both judged.
        observed: share with equal judgements, 0 to 1; None where n is 0.
        expected: share of equal judgements by chance, from how often each gives each label.
        kappa: (observed - expected) / (1 - expected), -1 to 1; None where it is undefined: n is 0, or both always gave
            the same one label.
    """

    reviewers: tuple[str, str]
    n: int
    observed: float | None
    expected: float | None
    kappa: float | None


def cohen(reviewers: tuple[str, str], first: Sequence[str], second: Sequence[str]) -> Agreement:
    """Return the agreement of two annotators' labels of the same candidates, in the same order.

    Raises:
        ValueError: the two are not equally long.

    Source: Cohen 1960, "A Coefficient of Agreement for Nominal Scales".
    """
    pairs = list(zip(first, second, strict=True))
    n = len(pairs)
    if n == 0:
        return Agreement(reviewers, 0, None, None, None)
    same = sum(a == b for a, b in pairs)
    counts, other_counts = Counter(first), Counter(second)
    # In whole numbers, so that "always the same" is told from nearly so.
    by_chance = sum(counts[label] * other_counts[label] for label in counts)
    kappa = None if by_chance == n * n else (n * same - by_chance) / (n * n - by_chance)
    return Agreement(reviewers, n, same / n, by_chance / (n * n), kappa)


def label_pairs(units: Iterable[Mapping[str, str]]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the labels of each two annotators over the units that both labelled, by their names."""
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for unit in units:
        for first, second in combinations(sorted(unit), 2):
            pairs.setdefault((first, second), []).append((unit[first], unit[second]))
    return dict(sorted(pairs.items()))


ADDED = 4.0
"""Units that are added for the interval: half of them agree, half do not, shared out among the labels. Without them it is far
too short where labels are rare or nobody disagrees."""


class Coefficient(Struct, frozen=True):
    """An agreement coefficient beyond chance with its interval.

    Attributes:
        name: `Cohen's kappa` or `Krippendorff's alpha`.
        value: -1 to 1; None where it is undefined: nothing was labelled twice, or all labels are the same one.
        ci95: 95 % interval; None where the value is undefined or there is one unit.
        units: how many units were labelled by two annotators or more.
        observed: share of equal pairs of labels, 0 to 1; None without units.
        annotators: how many people gave the labels.
    """

    name: str
    value: float | None
    ci95: Interval | None
    units: int
    observed: float | None
    annotators: int = 2


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> Coefficient:
    """Return Cohen's kappa of two annotators with its interval over the units that both labelled.

    Raises:
        ValueError: the two are not equally long.
    """
    agreement = cohen(("first", "second"), first, second)
    if agreement.kappa is None or agreement.observed is None or agreement.expected is None:
        return Coefficient("Cohen's kappa", None, None, agreement.n, agreement.observed)
    labels = {label: number for number, label in enumerate(sorted({*first, *second}))}
    k = len(labels)
    cells = np.zeros(k * k)
    for a, b in zip(first, second, strict=True):
        cells[labels[a] * k + labels[b]] += 1.0
    about = IntervalMethod("linearised t", clusters=agreement.n)
    ends = linearised_ends(agreement.kappa, np.eye(k * k), cells, np.eye(k * k), kappas, agreement.n - 1, about)
    return Coefficient("Cohen's kappa", agreement.kappa, ends, agreement.n, agreement.observed)


def kappas(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Cohen's kappa of each table [b, k * k] of counts, row by row; NaN where it is not defined."""
    k = isqrt(counts.shape[1])
    table = counts.reshape(-1, k, k)
    n = table.sum(axis=(1, 2))
    same = np.einsum("bii->b", table) / n
    chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / n**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(chance < 1.0, (same - chance) / (1.0 - chance), np.nan))


def linearised_ends(
    value: float,
    units: NDArray[np.float64],
    times: NDArray[np.float64],
    pairs: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    degrees: float,
    about: IntervalMethod,
) -> Interval | None:
    """Return the interval of a coefficient, linearised after `ADDED` units were added; None for no degrees of freedom.

    Args:
        value: the coefficient of the units themselves; it lies in the interval.
        units: [m, c] what different units add to the sums that the coefficient depends on.
        times: [m] how many of each there are.
        pairs: [k * k, c] what a unit of each pair of labels would add.
        statistic: [b, c] sums to [b] coefficients.
        degrees: of freedom of Student's t.
    """
    if degrees < 1.0:
        return None
    labels, size = isqrt(len(pairs)), float(times.sum()) + ADDED
    added = ADDED / 2.0 / np.where(np.eye(labels, dtype=bool).ravel(), labels, max(1, labels * (labels - 1)))
    sums = times @ units + added @ pairs
    step = 1e-5 * size
    up, down = np.split(
        statistic(np.concatenate([sums + step * np.eye(len(sums)), sums - step * np.eye(len(sums))])), 2
    )
    slope = (up - down) / (2.0 * step)
    variance = float(times @ (units @ slope) ** 2 + added @ (pairs @ slope) ** 2) * size / (size - 1.0)
    centre, half = float(statistic(sums[None])[0]), t_quantile(degrees) * sqrt(variance)
    return Interval(max(-1.0, min(value, centre - half)), min(1.0, max(value, centre + half)), about)


def krippendorff_alpha(units: Sequence[Mapping[str, str]]) -> Coefficient:
    """Return Krippendorff's alpha for nominal labels, any number of annotators and missing labels.

    Args:
        units: the labels of each unit by annotator; a unit with fewer than two counts for nothing.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C.
    """
    pairable = [unit for unit in units if len(unit) > 1]
    annotators = len({name for unit in pairable for name in unit})
    name = "Krippendorff's alpha"
    if not pairable:
        return Coefficient(name, None, None, 0, None, annotators)
    labels = {label: number for number, label in enumerate(sorted({v for unit in pairable for v in unit.values()}))}
    k = len(labels)
    columns = np.zeros((len(pairable), k + 1))
    same = pairs = 0
    for row, unit in enumerate(pairable):
        counts, size = Counter(unit.values()), len(unit)
        for label, count in counts.items():
            columns[row, labels[label]] = count
        equal = sum(count * (count - 1) for count in counts.values())
        columns[row, k] = (size * (size - 1) - equal) / (size - 1)
        same, pairs = same + equal, pairs + size * (size - 1)

    def alpha(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        counts, disagreement = sums[:, :k], sums[:, k]
        n = counts.sum(axis=1)
        expected = n**2 - (counts**2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(expected > 0.0, 1.0 - (n - 1.0) * disagreement / expected, np.nan))

    value = float(alpha(columns.sum(axis=0, keepdims=True))[0])
    defined = not np.isnan(value)
    first, second = (np.repeat(np.eye(k), k, axis=0), np.tile(np.eye(k), (k, 1)))
    pair_columns = np.concatenate([first + second, 2.0 * (first != second).any(axis=1, keepdims=True)], axis=1)
    count = len(pairable)
    about = IntervalMethod("linearised t", clusters=count)
    return Coefficient(
        name,
        value if defined else None,
        linearised_ends(value, columns, np.ones(count), pair_columns, alpha, count - 1, about) if defined else None,
        len(pairable),
        same / pairs,
        annotators,
    )


class ErrorConsistency(Struct, frozen=True):
    """Errors of two models on the same samples, counted and compared with chance.

    Attributes:
        n: samples that both answered.
        both_right, only_first, only_second, both_wrong: samples; `only_first` counts those that the first alone got
            wrong. They sum to n.
        expected_both_wrong: samples that both would get wrong if their errors were independent.
        kappa: Cohen's kappa of right and wrong, -1 to 1: 1 for the same errors, 0 for independent ones; None where n is
            0, or both models are right everywhere, or wrong everywhere.
        ci95: 95 % interval of kappa; None where kappa has no standard error.
        phi: correlation of the errors, -1 to 1; None where a model is right everywhere, or wrong everywhere.
        interval: the method of `ci95`.
    """

    n: int
    both_right: int
    only_first: int
    only_second: int
    both_wrong: int
    expected_both_wrong: float
    kappa: float | None
    ci95: tuple[float, float] | None
    phi: float | None
    interval: IntervalMethod | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ci95, Interval):
            structs.force_setattr(self, "interval", self.ci95.about)
            structs.force_setattr(self, "ci95", (self.ci95[0], self.ci95[1]))


def error_consistency(first: Any, second: Any, group: Any, *, cluster: str = GROUP) -> ErrorConsistency:
    """Compare the errors of two models on the samples that both answered.

    Args:
        first: [n] 1 where the first model is wrong, 0 where it is right.
        second: [n] the same of the second model, in the same order.
        group: [n] int64, equal for rows of one cluster.
        cluster: what the rows of a cluster share, in words.

    Raises:
        ValueError: the arrays differ in length, or hold something else than 0 and 1.

    Source: Geirhos, Meding and Wichmann 2020, arXiv 2006.16736, section 2: Cohen's kappa (Cohen 1960) of two decision
    makers' correctness. Its standard error is that of Fleiss, Cohen and Everitt 1969, Psychological Bulletin 72:323, after
    one sample was added to each of the four cells; counts are divided by the design effect of the clusters first.
    """
    a, b, groups = finite(first), finite(second), np.asarray(group, dtype=np.int64)
    if not len(a) == len(b) == len(groups):
        raise ValueError(f"found {len(a)}, {len(b)} and {len(groups)} rows; expected three equal lengths")
    if not bool(np.isin([a, b], (0.0, 1.0)).all()):
        raise ValueError("found errors other than 0 and 1; mark a wrong sample with 1 and a right one with 0")
    n, both = len(a), int((a * b).sum())
    wrong, other = int(a.sum()), int(b.sum())
    counts = (n, n - wrong - other + both, wrong - both, other - both, both)
    if n == 0:
        return ErrorConsistency(*counts, 0.0, None, None, None)
    expected = wrong * other / n
    # In counts, so that "always the same" is told from nearly so.
    excess, room = 2 * (n * both - wrong * other), n * (wrong + other) - 2 * wrong * other
    spread = wrong * (n - wrong) * other * (n - other)
    phi = None if spread == 0 else (n * both - wrong * other) / sqrt(spread)
    if room == 0:
        return ErrorConsistency(*counts, expected, None, None, phi)
    kappa = excess / room
    p, q, scale = wrong / n, other / n, room / n**2
    first_slope, second_slope = 2.0 * q + kappa * (1.0 - 2.0 * q), 2.0 * p + kappa * (1.0 - 2.0 * p)
    influence = (2.0 * (a * b - both / n) - first_slope * (a - p) - second_slope * (b - q)) / scale
    sums = cluster_sums_of(influence, groups)
    robust = sums.clusters < n
    about = IntervalMethod(
        "linearised t", cluster=cluster if robust else None, clusters=sums.clusters, effective=sums.effective
    )
    ends = None
    if sums.is_enough:
        variance, degrees = sums.precision()
        widening = max(1.0, variance / sums.alone) if sums.alone > 0.0 else n / sums.effective
        cells = np.array(counts[1:], dtype=np.float64) / widening
        ends = linearised_ends(kappa, np.eye(4), cells, np.eye(4), kappas, degrees, about)
    return ErrorConsistency(*counts, expected, kappa, ends, phi)
