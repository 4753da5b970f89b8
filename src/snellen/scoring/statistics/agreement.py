"""How far two people agree beyond what chance would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct


class Agreement(Struct, frozen=True):
    """Cohen's kappa of two reviewers over the candidates that both have judged on their own.

    Attributes:
        reviewers: their names.
        n: how many candidates both judged.
        observed: share on which they said the same, 0 to 1; None where n is 0.
        expected: share on which they would by chance, from how often each says what.
        kappa: (observed - expected) / (1 - expected), -1 to 1; None where it is not defined: n is 0, or both always
            said the same one thing.
    """

    reviewers: tuple[str, str]
    n: int
    observed: float | None
    expected: float | None
    kappa: float | None


def cohen(reviewers: tuple[str, str], left: Sequence[str], right: Sequence[str]) -> Agreement:
    """Agreement over what two reviewers said about the same candidates, in the same order.

    Raises:
        ValueError: the two are not equally long.

    Source: Cohen 1960, "A Coefficient of Agreement for Nominal Scales".
    """
    pairs = list(zip(left, right, strict=True))
    n = len(pairs)
    if n == 0:
        return Agreement(reviewers, 0, None, None, None)
    same = sum(a == b for a, b in pairs)
    first, second = Counter(left), Counter(right)
    # In whole numbers, so that "always the same" is told from nearly so.
    by_chance = sum(first[label] * second[label] for label in first)
    kappa = None if by_chance == n * n else (n * same - by_chance) / (n * n - by_chance)
    return Agreement(reviewers, n, same / n, by_chance / (n * n), kappa)
