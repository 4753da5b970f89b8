"""Agreement of two annotators beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct


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
