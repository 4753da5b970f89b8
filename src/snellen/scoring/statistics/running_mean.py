"""Running mean of scores, with the same interval that `intervals.interval` gives for all rows at once."""

from __future__ import annotations

from array import array

import numpy as np

from snellen.scoring.statistics.intervals import GROUP, from_moments, wilson
from snellen.types import Interval


class RunningMean:
    """A mean with counts and sums by cluster: memory grows with the clusters of several rows, not with the rows."""

    def __init__(self) -> None:
        self.rows = 0
        self._total = self._squares = 0.0
        self._least, self._most = float("inf"), float("-inf")
        self._binary = True
        self._single = 0
        self._single_total = self._single_squares = 0.0
        self._place: dict[str, int] = {}
        self._sizes = array("q")
        self._sums = array("d")

    def add(self, value: float, cluster: str = "") -> None:
        """Add one score; rows of the same `cluster` are correlated, a row without one is independent."""
        self.rows += 1
        self._total += value
        self._squares += value * value
        self._least, self._most = min(self._least, value), max(self._most, value)
        self._binary = self._binary and value in (0.0, 1.0)
        if not cluster:
            self._single += 1
            self._single_total += value
            self._single_squares += value * value
            return
        place = self._place.setdefault(cluster, len(self._sizes))
        if place == len(self._sizes):
            self._sizes.append(0)
            self._sums.append(0.0)
        self._sizes[place] += 1
        self._sums[place] += value

    def change(self, before: float, after: float, cluster: str = "") -> None:
        """Replace a score that was added with the same `cluster`."""
        delta, delta_squares = after - before, after * after - before * before
        self._total += delta
        self._squares += delta_squares
        self._least, self._most = min(self._least, after), max(self._most, after)
        self._binary = self._binary and after in (0.0, 1.0)
        if cluster:
            self._sums[self._place[cluster]] += delta
        else:
            self._single_total += delta
            self._single_squares += delta_squares

    @property
    def mean(self) -> float | None:
        """The mean; None before the first score."""
        return self._total / self.rows if self.rows else None

    def interval(self, word: str = GROUP) -> Interval | None:
        """Return the 95 % interval of the mean, as `intervals.interval`; `word` names what a cluster shares."""
        n = self.rows
        if not n:
            return None
        clusters = self._single + len(self._sizes)
        mean = self._total / n
        bounded = self._least >= 0.0 and self._most <= 1.0
        if clusters == n and bounded and self._binary:
            return wilson(mean, n)
        if clusters == 1 and n > 1:
            return None
        sizes, sums = np.array(self._sizes, dtype=np.float64), np.array(self._sums, dtype=np.float64)
        deviations = sums - sizes * mean
        singles = self._single_squares - 2.0 * mean * self._single_total + self._single * mean * mean
        together = (float(deviations @ deviations) + max(0.0, singles)) / n**2
        alone = max(0.0, self._squares - n * mean * mean) / n**2 * (n / (n - 1) if n > 1 else 0.0)
        variance = alone if clusters == n else max(together * clusters / (clusters - 1), alone)
        kish = n**2 / (float(sizes @ sizes) + self._single)
        level = self._least == self._most or variance <= 0.0
        return from_moments(mean, variance, kish, clusters, n, bounded=bounded, level=level, cluster=word)
