"""Means of several metrics, such as one model's accuracies on several benchmarks, with an interval."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.scoring.statistics.intervals import mover


class MetricMean(Struct, frozen=True):
    """Unweighted mean of several metrics.

    Attributes:
        value: the mean of those that have a value; None where none has.
        n: how many have a value.
        of: how many there should be; the mean covers all of them only where `n` equals it.
        ci95: 95 % interval; None where one of the n has none.
    """

    value: float | None
    n: int
    of: int
    ci95: tuple[float, float] | None

    @property
    def whole(self) -> bool:
        """Return True if every metric has a value."""
        return self.n == self.of


def mean_of_independent(values: Sequence[float | None], intervals: Sequence[tuple[float, float] | None]) -> MetricMean:
    """Return the unweighted mean of independent estimates, with an interval from theirs.

    The distance of each end from the mean is the root of the summed squares of the estimates' own distances, divided by
    their number. The interval is as skewed as theirs, and holds for different samples only: metrics of the same samples
    are not independent.

    Args:
        values: the estimates; None for one that is missing. It is omitted, and lowers `n`.
        intervals: their 95 % intervals, as many. An end on the wrong side of its estimate counts as distance 0.

    Source: Zou and Donner 2008, Statistics in Medicine 27:1693 (MOVER, for sums); 0.5 (0.4 to 0.6) and 0.9 (0.8 to
    0.95) give 0.7 (0.629 to 0.756).
    """
    pairs = [(v, ends) for v, ends in zip(values, intervals, strict=True) if v is not None]
    if not pairs:
        return MetricMean(None, 0, len(values), None)
    count = len(pairs)
    mean = sum(value for value, _ in pairs) / count
    known = [(value, ends) for value, ends in pairs if ends is not None]
    if len(known) < count:
        return MetricMean(mean, count, len(values), None)
    ends = mover([value for value, _ in known], [each for _, each in known], [1.0 / count] * count)
    return MetricMean(mean, count, len(values), ends)
