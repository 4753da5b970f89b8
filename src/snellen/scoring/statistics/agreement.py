"""Agreement of annotators beyond chance: Cohen's kappa and Krippendorff's alpha for nominal labels, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.statistics.bootstrap import of_sums
from snellen.scoring.statistics.intervals import wilson
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


class Coefficient(Struct, frozen=True):
    """An agreement coefficient beyond chance with its interval.

    Attributes:
        name: `Cohen's kappa` or `Krippendorff's alpha`.
        value: -1 to 1; None where it is undefined: nothing was labelled twice, or all labels are the same one.
        ci95: 95 % interval, by the bootstrap over units; None where the value is undefined or too few units vary.
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
    """Return Cohen's kappa of two annotators with a bootstrap interval over the units that both labelled.

    Where the two never differ, or always, nothing varies between resamples; the interval is then Wilson's of the observed
    agreement, with the agreement by chance as it is.

    Raises:
        ValueError: the two are not equally long.
    """
    agreement = cohen(("first", "second"), first, second)
    if agreement.kappa is None or agreement.observed is None or agreement.expected is None:
        return Coefficient("Cohen's kappa", None, None, agreement.n, agreement.observed)
    labels = {label: number for number, label in enumerate(sorted({*first, *second}))}
    k = len(labels)
    cells = np.array([labels[a] * k + labels[b] for a, b in zip(first, second, strict=True)])
    columns = np.zeros((agreement.n, k * k))
    columns[np.arange(agreement.n), cells] = 1.0

    def kappa(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        table = sums.reshape(-1, k, k)
        n = table.sum(axis=(1, 2))
        same = np.einsum("bii->b", table) / n
        chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / n**2
        return np.asarray(np.where(chance < 1.0, (same - chance) / (1.0 - chance), np.nan))

    _, interval = of_sums(columns, np.arange(agreement.n), kappa)
    if interval is None:
        interval = _chance_fixed(agreement.observed, agreement.n, agreement.expected)
    return Coefficient("Cohen's kappa", agreement.kappa, interval.cut(-1.0, 1.0), agreement.n, agreement.observed)


def _chance_fixed(observed: float, units: int, chance: float) -> Interval:
    """Return Wilson's interval of the observed agreement as one of a coefficient, with the agreement by chance fixed."""
    about = IntervalMethod("Wilson, chance fixed", clusters=units)
    return wilson(observed, units, about=about).map(lambda end: (end - chance) / (1.0 - chance))


def krippendorff_alpha(units: Sequence[Mapping[str, str]]) -> Coefficient:
    """Return Krippendorff's alpha for nominal labels, any number of annotators and missing labels.

    Args:
        units: the labels of each unit by annotator; a unit with fewer than two counts for nothing.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C; the interval by resampling units
    (Zapf et al. 2016, BMC Medical Research Methodology 16:93).
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

    value, interval = of_sums(columns, np.arange(len(pairable)), alpha)
    defined = not np.isnan(value)
    if defined and interval is None:
        n = float(columns[:, :k].sum())
        chance = 1.0 - (n * n - float((columns[:, :k].sum(axis=0) ** 2).sum())) / (n * (n - 1.0))
        interval = _chance_fixed(same / pairs, len(pairable), chance)
    return Coefficient(
        name,
        value if defined else None,
        interval.cut(-1.0, 1.0) if interval is not None and defined else None,
        len(pairable),
        same / pairs,
        annotators,
    )
