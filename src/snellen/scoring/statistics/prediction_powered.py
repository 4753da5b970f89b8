"""Prediction-powered inference: the mean of true scores, from automatic scores of all rows and true ones of a random part.

The rows are divided into cells with the same automatic score and about the same sampling rate. The mean true score of each
cell is estimated from its reviewed rows, and the cells are weighted with their shares of all rows. For right-or-wrong scores
and a simple random sample this is PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453) with its power-tuned lambda,
the covariance of true and automatic scores over the variance of the automatic ones, both from the reviewed rows; in the
words of survey statistics the post-stratified estimator of a two-phase sample (Cochran 1977, Sampling Techniques, 12.9).

The interval combines a Jeffreys interval of each cell by MOVER (Zou, Huang and Zhang 2009, Computational Statistics and Data
Analysis 53:1080), because the normal interval of PPI is far too short where few automatic scores are wrong: with no
disagreement among the reviewed rows its width is that of the automatic mean, however few rows were reviewed.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.scores import cluster_index, finite
from snellen.scoring.statistics.intervals import GROUP, Z95, jeffreys
from snellen.types import Interval, IntervalMethod

BAND = 2.0
"""Strata are put together where the highest sampling rate is below this multiple of the lowest."""
AGREEMENT = 0.5
"""Share of reviewed graded scores equal to the automatic ones, from which on lambda is 1."""


@dataclass(frozen=True)
class CellPart:
    """A mean of values from 0 to 1 over the reviewed rows of a cell, which enters the cell's mean times `factor`.

    `size` is the effective number of rows behind it, 0 if there are none: then it may be anything from 0 to 1.
    """

    mean: float
    size: float
    factor: float = 1.0

    def squares(self) -> tuple[float, float]:
        """Return the squared distances of the mean to both ends of its interval, as they enter that of the cell."""
        low, high = jeffreys(self.mean * self.size, self.size) if self.size else (0.0, 1.0)
        down, up = (self.factor * (self.mean - low)) ** 2, (self.factor * (high - self.mean)) ** 2
        return (down, up) if self.factor > 0 else (up, down)


@dataclass(frozen=True)
class SampledCell:
    """Rows of about the same sampling rate with the same automatic score, or with graded ones.

    Attributes:
        rows: how many there are.
        base: the part of the mean true score that follows from the automatic scores alone.
        parts: what the reviewed rows add to it; empty where the true scores are known without a review.
        valid: share of the reviewed rows whose question counts, 0 to 1.
        reviewed: effective number of reviewed rows, those included that do not count.
        variance: of the mean beyond that of its parts, because these exclude each other.
    """

    rows: int
    base: float
    parts: tuple[CellPart, ...] = ()
    valid: float = 1.0
    reviewed: float = 0.0
    variance: float = 0.0

    @property
    def mean(self) -> float:
        return self.base + sum(part.factor * part.mean for part in self.parts)

    def scaled(self, factor: float) -> SampledCell:
        """Return the cell as it would be with `factor` times as many reviewed rows of the same scores, or all rows."""
        if self.reviewed:
            factor = min(factor, self.rows / self.reviewed)
        parts = tuple(replace(part, size=part.size * factor) for part in self.parts)
        return replace(self, parts=parts, reviewed=self.reviewed * factor, variance=self.variance / factor)

    def squares(self) -> tuple[float, float]:
        """Return the squared distances of the mean to the lower and the upper end of its interval."""
        ends = [part.squares() for part in self.parts]
        beside = Z95 * Z95 * self.variance
        return sum(low for low, _ in ends) + beside, sum(high for _, high in ends) + beside


class PredictionPowered(Struct, frozen=True):
    """An estimate of the mean true score.

    Attributes:
        value: the estimate, 0 to 1.
        ci95: interval of the mean over all questions of which the run's are a sample, as that of an accuracy.
        ci95_of_run: interval of the mean over the run's own questions: what a review of all of them would show.
        automatic: mean of the automatic scores.
        people: the mean true score from the reviewed rows alone, with `people_ci95`.
        power: lambda, the weight of the automatic scores: 1 where they are as good as true ones, 0 where worthless.
        n, reviewed: rows, and those of them that were reviewed and count.
    """

    value: float
    ci95: Interval
    ci95_of_run: Interval
    automatic: float
    people: float
    people_ci95: Interval
    power: float
    n: int
    reviewed: int


class FurtherReviews(Struct, frozen=True):
    """How many further reviews make an interval half as wide, if the rates of errors stay as they are.

    Attributes:
        to_halve: further reviews; None: even a review of all rows leaves it wider, so that more questions are needed.
        width: of the interval now, and `whole_width` after a review of all rows.
    """

    to_halve: int | None
    width: float
    whole_width: float


def prediction_powered(
    automatic: NDArray[np.float64],
    reviewed: NDArray[np.intp],
    truth: NDArray[np.float64],
    *,
    group: NDArray[np.int64] | None = None,
    probability: NDArray[np.float64] | None = None,
    certain: NDArray[np.bool_] | None = None,
    cluster: str = GROUP,
) -> PredictionPowered:
    """Estimate the mean true score of all rows from a reviewed random part of them.

    Args:
        automatic: [N] automatic scores, 0 to 1.
        reviewed: [n] different numbers of the reviewed rows, a random or a stratified sample.
        truth: [n] their true scores, 0 to 1; NaN where the question does not count. The estimate is then the mean over the
            questions that do.
        group: [N] int64, equal for rows of one cluster; None: every row is a cluster of its own.
        probability: [N] the probability of each row to be drawn, equal within a stratum; None: the same for all.
        certain: [N] True for rows that are not sampled, because their automatic score is right beyond doubt.
        cluster: what the rows of one cluster share, for the interval's description.

    Raises:
        ValueError: a score or a probability is out of range, a row is reviewed twice, or no reviewed row counts.
    """
    sample = _Sample(automatic, reviewed, truth, probability, certain)
    estimate, alone = _Estimate(sample, sample.classes()), _Estimate(sample, np.full(sample.n, ALIKE))
    widening = estimate.widening(sample, group)
    about = IntervalMethod("prediction-powered", clusters=sample.n)
    if widening.clusters < sample.n:
        about = IntervalMethod("cluster-robust prediction-powered", cluster=cluster, clusters=widening.clusters)
    alone_about = structs.replace(about, method=about.method.replace("prediction-powered", "Jeffreys"))
    low, high = estimate.ends(widening)
    return PredictionPowered(
        value=estimate.value,
        ci95=Interval(low, high, about),
        ci95_of_run=Interval(*estimate.ends(estimate.widening(sample, group, of_run=True), of_run=True), about),
        automatic=float(sample.automatic.mean()),
        people=alone.value,
        people_ci95=Interval(*alone.ends(alone.widening(sample, group)), alone_about),
        power=estimate.power(sample.automatic),
        n=sample.n,
        reviewed=sample.counted,
    )


def further_reviews(
    automatic: NDArray[np.float64],
    reviewed: NDArray[np.intp],
    truth: NDArray[np.float64],
    *,
    group: NDArray[np.int64] | None = None,
    probability: NDArray[np.float64] | None = None,
    certain: NDArray[np.bool_] | None = None,
) -> FurtherReviews:
    """Return how many further reviews make the interval half as wide. Takes what `prediction_powered` takes."""
    sample = _Sample(automatic, reviewed, truth, probability, certain)
    estimate = _Estimate(sample, sample.classes())
    widening = estimate.widening(sample, group)
    reviews, reviewable = int(sample.seen.sum()), int((~sample.certain).sum())
    width, whole = estimate.width(widening), estimate.scaled(reviewable / reviews).width(widening)
    if whole > width / 2.0:
        return FurtherReviews(None, width, whole)
    low, high = 1.0, reviewable / reviews
    while (high - low) * reviews > 0.5:
        middle = (low + high) / 2.0
        low, high = (middle, high) if estimate.scaled(middle).width(widening) > width / 2.0 else (low, middle)
    return FurtherReviews(min(reviewable - reviews, max(1, ceil(reviews * (high - 1.0)))), width, whole)


def reviewed_share(
    reviewed: NDArray[np.intp], flags: NDArray[np.bool_], probability: NDArray[np.float64] | None, rows: int
) -> tuple[float, Interval]:
    """Return the share of rows with a property that only a review shows, with its 95 % interval.

    Args:
        reviewed: [n] numbers of the reviewed rows, at least one.
        flags: [n] True for those that have the property.
        probability: [N] the probability of each row to be drawn; None: the same for all.
        rows: N.
    """
    sample = _Sample(np.zeros(rows), reviewed, flags.astype(np.float64), probability, None)
    estimate = _Estimate(sample, np.full(rows, ALIKE))
    about = IntervalMethod("Jeffreys", clusters=len(reviewed))
    return estimate.value, Interval(*estimate.ends(Widening()), about)


WRONG, RIGHT, GRADED, ALIKE, CERTAIN = range(5)
"""Classes of rows: automatic score 0, 1 or between; all alike, whatever their automatic score; known without a review."""


class _Sample:
    """The rows and the reviewed part of them, checked.

    Attributes:
        n: number of rows.
        automatic, probability: of each row.
        truth: [n] true scores, NaN where unknown.
        seen, usable, certain: [n] masks: reviewed; reviewed and counts; known without a review.
        counted: number of usable rows.
    """

    def __init__(
        self,
        automatic: NDArray[np.float64],
        reviewed: NDArray[np.intp],
        truth: NDArray[np.float64],
        probability: NDArray[np.float64] | None,
        certain: NDArray[np.bool_] | None,
    ) -> None:
        self.automatic, rows = finite(automatic), np.asarray(reviewed, dtype=np.intp)
        self.n = n = len(self.automatic)
        true = np.asarray(truth, dtype=np.float64)
        if rows.shape != true.shape or len(np.unique(rows)) != len(rows):
            raise ValueError(f"{len(rows)} reviewed rows and {len(true)} true scores; expected one for each row, once")
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise ValueError(f"reviewed rows {rows.min()} to {rows.max()}; expected 0 to {n - 1}")
        scores = np.concatenate([self.automatic, true[~np.isnan(true)]])
        if len(scores) and not 0.0 <= scores.min() <= scores.max() <= 1.0:
            raise ValueError(f"scores from {scores.min()} to {scores.max()}; expected 0 to 1")
        self.probability = np.ones(n) if probability is None else finite(probability)
        if len(self.probability) != n or (n and not self.probability.min() > 0.0):
            raise ValueError(f"{len(self.probability)} probabilities; expected {n}, each above 0")
        self.certain = np.zeros(n, dtype=bool) if certain is None else np.asarray(certain, dtype=bool)
        self.truth = np.full(n, np.nan)
        self.truth[rows] = true
        self.seen = np.zeros(n, dtype=bool)
        self.seen[rows] = True
        self.seen &= ~self.certain
        self.usable = self.seen & ~np.isnan(self.truth)
        self.counted = int(self.usable.sum())
        if not self.counted:
            raise ValueError("no reviewed row counts")

    def classes(self) -> NDArray[np.int64]:
        """Return the class of each row by its automatic score."""
        return np.select([self.automatic == 0.0, self.automatic == 1.0], [WRONG, RIGHT], GRADED)

    def bands(self) -> NDArray[np.int64]:
        """Number the bands of sampling rates, within which the highest rate is below BAND times the lowest."""
        rates, index = np.unique(self.probability, return_inverse=True)
        numbers, lowest = np.zeros(len(rates), dtype=np.int64), rates[0]
        for at, rate in enumerate(rates):
            numbers[at] = numbers[max(0, at - 1)]
            if rate >= BAND * lowest:
                lowest, numbers[at] = rate, numbers[at] + 1
        return numbers[index.reshape(-1)]


@dataclass(frozen=True)
class Widening:
    """Factor of both arms of an interval for correlation within clusters, and the number of clusters."""

    factor: float = 1.0
    clusters: int = 0


class _Estimate:
    """The weighted mean of cells.

    Attributes:
        cells: the cells.
        total: rows that count, by the shares of the cells.
        value: the mean true score.
        predicted: [n] the true score that is expected of each row.
        between: [n] influence on the estimate of each row's being in the run, and `within` of its being reviewed.
    """

    def __init__(self, sample: _Sample, classes: NDArray[np.int64]) -> None:
        code = np.where(sample.certain, CERTAIN, sample.bands() * 5 + classes + 5)
        n = sample.n
        self.cells: list[SampledCell] = []
        self.predicted, weights, valid = np.zeros(n), np.zeros(n), np.ones(n)
        for number in np.unique(code):
            rows = np.flatnonzero(code == number)
            kind = int(number) % 5 if number >= 5 else CERTAIN
            cell, self.predicted[rows], weights[rows] = _cell(sample, rows, kind)
            self.cells.append(cell)
            valid[rows] = cell.valid
        self.total = sum(cell.rows * cell.valid for cell in self.cells)
        self.value = sum(cell.rows * cell.valid * cell.mean for cell in self.cells) / self.total
        self.between = valid * (self.predicted - self.value) / self.total
        difference = np.where(sample.usable, sample.truth - self.predicted, 0.0)
        self.within = weights * difference / self.total

    def ends(self, widening: Widening, *, of_run: bool = False) -> tuple[float, float]:
        """Return both ends of the interval, within 0 to 1.

        Args:
            widening: for clusters.
            of_run: the rows are all that there are, and not a sample of more (finite-population correction).
        """
        n = len(self.between)
        beside = 0.0 if of_run or n < 2 else float(self.between @ self.between) * n / (n - 1)
        lower = upper = 0.0
        for cell in self.cells:
            open_share = max(0.0, 1.0 - cell.reviewed / cell.rows) if of_run else 1.0
            share = cell.rows / self.total
            if cell.reviewed:
                spread = cell.valid * (1.0 - cell.valid) / cell.reviewed
                beside += (share * (cell.mean - self.value)) ** 2 * spread * open_share
            weight = (share * cell.valid) ** 2 * open_share
            low, high = cell.squares()
            lower, upper = lower + weight * low, upper + weight * high
        beside *= Z95 * Z95
        low, high = widening.factor * sqrt(lower + beside), widening.factor * sqrt(upper + beside)
        return max(0.0, self.value - low), min(1.0, self.value + high)

    def width(self, widening: Widening) -> float:
        """Return the width of the interval over all questions."""
        low, high = self.ends(widening)
        return high - low

    def scaled(self, factor: float) -> _Estimate:
        """Return the estimate as it would be with `factor` times as many reviewed rows of the same scores."""
        other = copy(self)
        other.cells = [cell.scaled(factor) for cell in self.cells]
        return other

    def power(self, automatic: NDArray[np.float64]) -> float:
        """Return lambda: the slope of the expected true scores on the automatic ones; 1 if those are all equal."""
        centred = automatic - automatic.mean()
        spread = float(centred @ centred)
        return float(centred @ self.predicted) / spread if spread else 1.0

    def widening(self, sample: _Sample, group: NDArray[np.int64] | None, *, of_run: bool = False) -> Widening:
        """Return the square root of the design effect of the clusters, at least 1, times Student's t over z.

        The degrees of freedom are the clusters with a reviewed row, less one. `of_run`: only which rows were reviewed is
        random.
        """
        from snellen.scoring.statistics.distributions import t_quantile

        index, clusters = cluster_index(np.arange(sample.n) if group is None else group)
        if clusters == sample.n:
            return Widening(clusters=clusters)
        influence = self.within if of_run else self.between + self.within
        sums = np.bincount(index, weights=influence, minlength=clusters)
        alone = float(influence @ influence)
        together = float(sums @ sums) * clusters / (clusters - 1) if clusters > 1 else 0.0
        degrees = len(np.unique(index[sample.usable])) - 1
        t = t_quantile(max(1, degrees)) / Z95
        return Widening(t * sqrt(max(1.0, together / alone if alone else 1.0)), clusters)


def _cell(
    sample: _Sample, rows: NDArray[np.intp], kind: int
) -> tuple[SampledCell, NDArray[np.float64], NDArray[np.float64]]:
    """Return a cell, the true score that is expected of each of its rows, and the weight of each usable one, or 0."""
    automatic = sample.automatic[rows]
    mean = float(automatic.mean())
    if kind == CERTAIN:
        return SampledCell(len(rows), mean), automatic, np.zeros(len(rows))
    seen, usable = sample.seen[rows], sample.usable[rows]
    weights = 1.0 / sample.probability[rows]
    valid = float(weights[usable].sum() / weights[seen].sum()) if seen.any() else 1.0
    reviewed = _effective(weights[seen])
    if not usable.any():
        level = 0.5 if kind == ALIKE else mean
        cell = SampledCell(len(rows), 0.0, (CellPart(level, 0.0),), valid, reviewed)
        return cell, np.full(len(rows), level), np.zeros(len(rows))
    true, used = sample.truth[rows][usable], weights[usable]
    if kind == GRADED:
        slope, base, parts, variance = _graded(true, automatic[usable], used)
    else:
        slope, base, parts, variance = 0.0, 0.0, (_part(true, used),), 0.0
    cell = SampledCell(len(rows), base + slope * mean, parts, valid, reviewed, variance)
    share = np.where(usable, weights * (len(rows) * valid / float(used.sum())), 0.0)
    return cell, cell.mean + slope * (automatic - mean), share


def _graded(
    true: NDArray[np.float64], automatic: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float, tuple[CellPart, ...], float]:
    """Return lambda, a constant, the parts of the rectifier and the variance beside theirs, for graded scores.

    Reviewers who mostly confirm the score leave a rectifier that is mostly 0: lambda is 1, and what it adds and what it
    subtracts are two parts, each as rare as it is. Otherwise lambda is tuned, and the rectifier is one part, moved and
    scaled to 0 to 1.
    """
    shares = weights / weights.sum()
    if float(shares[true == automatic].sum()) >= AGREEMENT:
        more, less = np.maximum(true - automatic, 0.0), np.maximum(automatic - true, 0.0)
        parts = (_part(more, weights), replace(_part(less, weights), factor=-1.0))
        return 1.0, 0.0, parts, 2.0 * parts[0].mean * parts[1].mean / _effective(weights)
    centred = automatic - shares @ automatic
    spread = float(shares @ centred**2)
    slope = min(1.0, max(0.0, float(shares @ (centred * true)) / spread)) if spread else 0.0
    rectifier = (true - slope * automatic + slope) / (1.0 + slope)
    return slope, -slope, (replace(_part(rectifier, weights), factor=1.0 + slope),), 0.0


def _part(values: NDArray[np.float64], weights: NDArray[np.float64]) -> CellPart:
    """Return the weighted mean of values from 0 to 1 with its effective number of rows.

    That is Kish's for values 0 and 1; for graded ones mean * (1 - mean) / variance, where it is more.
    """
    shares = weights / weights.sum()
    mean = min(1.0, max(0.0, float(shares @ values)))
    size, n = _effective(weights), len(values)
    if n > 1 and not bool(np.isin(values, (0.0, 1.0)).all()):
        variance = float((shares**2) @ (values - mean) ** 2) * n / (n - 1)
        size = max(size, mean * (1.0 - mean) / variance) if variance else size
    return CellPart(mean, size)


def _effective(weights: NDArray[np.float64]) -> float:
    """Return Kish's effective number of rows: (sum of weights)^2 / sum of squares."""
    return float(weights.sum() ** 2 / (weights @ weights)) if len(weights) else 0.0
