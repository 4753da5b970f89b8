"""The psychometric curve: the share of right answers as a function of a level, and the grid of parameters it is fitted on.

A level x is log10 of a physical level, turned so that more is easier. The curve is

    psi(x) = g + (1 - g - l) F((x - m) / w)

where m is the threshold (F(m) = 1/2), w the width in decades from F = .05 to F = .95, g the guess rate and l the lapse
rate. m and w mean the same for all shapes. Sources: Wichmann & Hill 2001 (lapses), Schuett et al. 2016 (threshold and
width), Prins 2013 (lapses integrated out). An abstention is a third outcome: who does not see abstains with the rate a.

The model of same-or-different questions: sensitivity and criterion estimated together.

Who is asked whether two pictures differ may say so often or seldom, whatever is seen: this criterion alone moves the
threshold of a plain curve several times over. Equal pairs are asked too, so that both are known:

    P("different" | x) = (1 - l) Phi(d'(x) - c) + l / 2, d'(x) = (10 ** x / alpha) ** beta, and d' = 0 for an equal pair

The threshold is alpha, where d' = 1. Source: Lesmes et al. 2015, Frontiers in Psychology 6:1070 (quick yes-no).

What is known about a threshold after some answers: a posterior over the grid, its interval, and the next levels to ask.

Choice of levels: psi-marginal (Kontsevich & Tyler 1999; Prins 2013; a special case of QUEST+, Watson 2017). The level
with the most information about the threshold alone is asked, width, lapse and abstention rate integrated out first.
Within a batch the awaited answer is folded in softly: with the probabilities of its outcomes as weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import erfc, inf, log, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import UsageError

Shape: TypeAlias = Literal["logistic", "normal", "weibull"]
Array: TypeAlias = NDArray[np.float64]

STEP = 0.02
"""Decades between neighbouring thresholds of the grid."""
MARGIN = 0.3
"""Decades that the grid of thresholds reaches beyond the levels."""
WIDTHS = tuple(float(width) for width in np.geomspace(0.1, 1.6, 9))
TYPICAL_WIDTH, WIDTH_FACTOR = 0.4, 2.0
"""Centre and factor (one standard deviation) of the log-normal prior of the width, in decades."""
LAPSES = (0.0, 0.01, 0.03, 0.06, 0.1, 0.18, 0.3)
LAPSE_PRIOR = 10
"""The prior of the lapse rate is Beta(1, 10), summed over the cell of each grid value."""
ABSTENTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.95)
RIGHT, WRONG, ABSTAINED = 0, 1, 2
"""Outcomes of a question, as indices."""
DIFFERENT, SAME = 0, 1
"""Outcomes of a question about a pair, as indices."""
MOST_COLUMNS = 256
"""Levels whose probabilities a model keeps."""
LEAST = 1e-9
"""Smallest probability of an outcome, so that one surprising answer does not exclude a parameter for good."""

_LN19 = log(19.0)
_Z95 = 1.6448536269514722
_WEIBULL = log(-log(0.05)) - log(-log(0.95))


def normal_cdf(values: Array) -> Array:
    """Return the standard normal distribution function."""
    scaled = np.frompyfunc(lambda value: 0.5 * erfc(-value / sqrt(2.0)), 1, 1)(values)
    return np.asarray(scaled, dtype=np.float64)


def seen(shape: Shape, z: Array) -> Array:
    """Return F of the distance z = (x - m) / w: the share seen, guesses and lapses left out.

    Raises:
        UsageError: there is no such shape.
    """
    if shape == "logistic":
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(-2.0 * _LN19 * z, -700.0, 700.0))))
    if shape == "normal":
        return normal_cdf(2.0 * _Z95 * z)
    if shape == "weibull":
        return np.asarray(-np.expm1(log(0.5) * np.exp(np.clip(_WEIBULL * z, -700.0, 700.0))))
    raise UsageError(f"there is no curve of the shape {shape!r}", "Shapes: logistic, normal, weibull.")


class Kernel(NamedTuple):
    """Probabilities of the first outcome [M, N, X] in factors, with N = K x L nuisance parameters, L of them for each curve.

    That of parameter n = k L + l is `floor[l] + mix[l] * curves[m, k, x]`: lapses are linear, so that few curves stand for
    many parameters, and choosing levels needs 1 / L of the sums.

    Attributes:
        curves: [M, K, X].
        mix: [L].
        floor: [L].
    """

    curves: Array
    mix: Array
    floor: Array


@dataclass(frozen=True, eq=False)
class AnswerModel:
    """How probable each outcome is at each level, over a grid of thresholds and of nuisance parameters.

    Attributes:
        thresholds: M values, evenly spaced, in decades.
        nuisance: name to the N values of the other parameters, in the order of the last axis of `prior`.
        prior: [M, N], its sum is 1.
        levels: X candidate levels, rising.
        outcomes: how many outcomes an answer may have: 2, or 3 with abstentions.
        likelihood: levels [n] to probabilities [outcomes, M, N, n]; NaN stands for a pair of equal pictures.
        first_asked: index of the lowest candidate that has a level: 1 where the first candidate is an equal pair.
        base: the same model without abstentions, for a model that has them. Its nuisance parameters are the first axes.
        kernel: the same probabilities of the first of two outcomes in factors, for choosing levels; None: not factored.
    """

    thresholds: Array
    nuisance: dict[str, Array]
    prior: Array
    levels: Array
    outcomes: int
    likelihood: Callable[[Array], Array]
    first_asked: int = 0
    base: AnswerModel | None = None
    kernel: Callable[[Array], Kernel] | None = None
    _columns: dict[float, tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def table(self) -> Array:
        """Probabilities [outcomes, M, N, X] at the candidate levels."""
        return np.clip(self.likelihood(self.levels), LEAST, 1.0)

    @cached_property
    def factors(self) -> Kernel | None:
        """The factors at the candidate levels."""
        return None if self.kernel is None else self.kernel(self.levels)

    def column(self, level: float) -> tuple[Array, Array]:
        """Return the probabilities [outcomes, M, N] at any level, candidate or not, and their logarithms."""
        columns = self._columns.get(level)
        if columns is None:
            share = np.clip(self.likelihood(np.array([level]))[..., 0], LEAST, 1.0)
            columns = share, np.log(share)
            if len(self._columns) < MOST_COLUMNS:
                self._columns[level] = columns
        return columns


def threshold_grid(levels: Array) -> Array:
    """Return thresholds from 0.3 decades under the lowest level to 0.3 above the highest."""
    low, high = float(levels[0]) - MARGIN, float(levels[-1]) + MARGIN
    return np.linspace(low, high, round((high - low) / STEP) + 1)


@lru_cache(maxsize=64)
def forced_choice(
    levels: tuple[float, ...],
    guess: float,
    shape: Shape = "logistic",
    *,
    abstentions: bool = False,
    lapses: tuple[float, ...] = LAPSES,
    typical_width: float = TYPICAL_WIDTH,
) -> AnswerModel:
    """Return the model of questions of which one option is right.

    Args:
        levels: candidate levels in decades, rising.
        guess: the share of right guesses: 1 / options, 0 where the answer is written.
        abstentions: an answer may be an abstention; its rate is a further parameter.
        lapses: grid of the lapse rate. A single value fixes it, which makes intervals too narrow.
        typical_width: centre of the prior of the curve's width, in decades.

    Raises:
        UsageError: there are fewer than two levels, they do not rise, or the guess rate is not in [0, 1).
    """
    sizes = np.asarray(levels, dtype=np.float64)
    check_levels(sizes)
    if not 0.0 <= guess < 1.0:
        raise UsageError(f"the guess rate is {guess:g}", "Give 1 / options, or 0 where the answer is written.")
    thresholds, widths, slips = threshold_grid(sizes), np.asarray(WIDTHS), np.asarray(lapses)
    rates = np.asarray(ABSTENTIONS if abstentions else (0.0,))
    width, lapse, rate = (grid.reshape(-1) for grid in np.meshgrid(widths, slips, rates, indexing="ij"))
    weight = (
        np.exp(-0.5 * (np.log(widths / typical_width) / log(WIDTH_FACTOR)) ** 2)[:, None, None]
        * _lapse_prior(slips)[None, :, None]
        * np.ones(len(rates))[None, None, :]
    ).reshape(-1)

    which_width = np.searchsorted(widths, width)

    def likelihood(at: Array) -> Array:
        curves = seen(shape, (at[None, None, :] - thresholds[:, None, None]) / widths[None, :, None])
        sees = (1.0 - lapse / (1.0 - guess))[None, :, None] * curves[:, which_width]
        right = sees + (1.0 - sees) * (1.0 - rate)[None, :, None] * guess
        if not abstentions:
            return np.stack([right, 1.0 - right])
        return np.stack([
            right,
            (1.0 - sees) * (1.0 - rate)[None, :, None] * (1.0 - guess),
            (1.0 - sees) * rate[None, :, None],
        ])  # fmt: skip

    prior = np.tile(weight / weight.sum() / len(thresholds), (len(thresholds), 1))
    nuisance = {"width": width, "lapse": lapse, "abstention": rate}
    if not abstentions:

        def kernel(at: Array) -> Kernel:
            curves = seen(shape, (at[None, None, :] - thresholds[:, None, None]) / widths[None, :, None])
            return Kernel(curves, 1.0 - guess - slips, np.full(len(slips), guess))

        return AnswerModel(thresholds, nuisance, prior, sizes, 2, likelihood, kernel=kernel)
    return AnswerModel(
        thresholds,
        nuisance,
        prior,
        sizes,
        3,
        likelihood,
        base=forced_choice(levels, guess, shape, lapses=lapses, typical_width=typical_width),
    )


def check_levels(levels: Array) -> None:
    """Raise a UsageError unless the levels are two or more finite numbers that rise."""
    if len(levels) < 2 or not np.all(np.isfinite(levels)) or not np.all(np.diff(levels) > 0):
        raise UsageError(
            f"{len(levels)} levels from {_ends(levels)} do not rise", "Give two or more finite levels, lowest first."
        )


def _ends(levels: Sequence[float] | Array) -> str:
    return f"{levels[0]:g} to {levels[-1]:g}" if len(levels) else "nothing"


def _lapse_prior(lapses: Array) -> Array:
    edges = np.concatenate([[0.0], (lapses[1:] + lapses[:-1]) / 2, [lapses[-1] * 1.25]])
    return np.asarray(np.diff(1.0 - (1.0 - edges) ** LAPSE_PRIOR))


EQUAL_PAIR = -inf
"""The level of a pair of equal pictures."""
SLOPES = (0.7, 1.0, 1.5, 2.0, 3.0)
TYPICAL_SLOPE, SLOPE_SPREAD = 1.5, 0.5
"""Centre and standard deviation (of the natural logarithm) of the prior of beta."""
FALSE_ALARMS = (0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.7, 0.9)
SLIPS = (0.0, 0.02, 0.06)
EQUAL_SLOTS = (1, 4, 6)
"""Slots of a batch of eight that hold an equal pair: at least a third of them, whatever tells most."""
MOST_DPRIME = 30.0


@lru_cache(maxsize=16)
def same_different(levels: tuple[float, ...]) -> AnswerModel:
    """Return the model of questions whether two pictures differ.

    Args:
        levels: sizes of the difference in decades, rising; equal pairs are a candidate of their own before them.

    Raises:
        UsageError: there are fewer than two levels, or they do not rise.
    """
    sizes = np.asarray(levels, dtype=np.float64)
    check_levels(sizes)
    thresholds = threshold_grid(sizes)
    candidates = np.concatenate([[EQUAL_PAIR], sizes])
    slope, alarm, slip = (
        grid.reshape(-1) for grid in np.meshgrid(SLOPES, FALSE_ALARMS, SLIPS, indexing="ij")
    )  # fmt: skip
    weight = np.exp(-0.5 * (np.log(slope / TYPICAL_SLOPE) / SLOPE_SPREAD) ** 2)

    slopes, alarms = (grid.reshape(-1) for grid in np.meshgrid(SLOPES, FALSE_ALARMS, indexing="ij"))
    criteria = -np.array([NormalDist().inv_cdf(rate) for rate in alarms])
    curve_of = np.arange(len(slip)) // len(SLIPS)

    def hits(at: Array) -> Array:
        distance = at[None, None, :] - thresholds[:, None, None]
        with np.errstate(over="ignore"):
            dprime = np.minimum(np.power(10.0, slopes[None, :, None] * distance), MOST_DPRIME)
        return normal_cdf(dprime - criteria[None, :, None])

    @lru_cache(maxsize=1)
    def candidate_hits() -> Array:
        return hits(candidates)  # the error function is not vectorised, so that each call of it counts

    def likelihood(at: Array) -> Array:
        places = np.searchsorted(candidates, at)
        known = np.array_equal(candidates[np.minimum(places, len(candidates) - 1)], at)
        curves = candidate_hits()[:, :, places] if known else hits(at)
        different = (1.0 - slip)[None, :, None] * curves[:, curve_of] + (slip / 2)[None, :, None]
        return np.stack([different, 1.0 - different])

    def kernel(at: Array) -> Kernel:
        curves = candidate_hits() if at is candidates else hits(at)
        return Kernel(curves, 1.0 - np.array(SLIPS), np.array(SLIPS) / 2)

    prior = np.tile(weight / weight.sum() / len(thresholds), (len(thresholds), 1))
    nuisance = {"slope": slope, "false_alarms": alarm, "lapse": slip}
    return AnswerModel(thresholds, nuisance, prior, candidates, 2, likelihood, first_asked=1, kernel=kernel)


MASS = 0.95
DIGITS = 9
"""Information is rounded to this many digits and the lowest of equal levels is taken, so that hosts agree."""
NEGLIGIBLE = 1e-8
"""Thresholds of less weight are left out when levels are compared."""


@dataclass(frozen=True)
class Posterior:
    """Log weights [M, N] over the grid of a model, normalised so that the weights sum to 1."""

    model: AnswerModel
    log_weights: Array

    @classmethod
    def start(cls, model: AnswerModel) -> Posterior:
        """Return the prior."""
        with np.errstate(divide="ignore"):
            return cls(model, np.log(model.prior))

    def fold(self, answers: Iterable[tuple[float, int]]) -> Posterior:
        """Return the posterior after further answers, each a level in decades and an outcome.

        Sums depend on the order in their last bit: pass answers in the order of their ids.
        """
        log_weights = self.log_weights
        for level, outcome in answers:
            log_weights = log_weights + self.model.column(level)[1][outcome]
        return Posterior(self.model, _normalised(log_weights))

    @property
    def weights(self) -> Array:
        """Weights [M, N] that sum to 1."""
        return np.asarray(np.exp(self.log_weights))

    def quantiles(self, shares: Sequence[float] = ((1 - MASS) / 2, 0.5, (1 + MASS) / 2)) -> tuple[float, ...]:
        """Return quantiles of the threshold in decades: by default both ends of the 95 % interval around the median.

        The mass of a grid value is spread evenly over its cell.
        """
        thresholds = self.model.thresholds
        step = float(thresholds[1] - thresholds[0])
        mass = self.weights.sum(axis=1)
        edges = np.concatenate([thresholds - step / 2, [thresholds[-1] + step / 2]])
        return tuple(float(np.interp(share, np.concatenate([[0.0], mass.cumsum()]), edges)) for share in shares)

    def nuisance(self, name: str, shares: Sequence[float] = ((1 - MASS) / 2, 0.5, (1 + MASS) / 2)) -> tuple[float, ...]:
        """Return quantiles of another parameter, each one of its grid values."""
        values, place = np.unique(self.model.nuisance[name], return_inverse=True)
        mass = np.bincount(place, weights=self.weights.sum(axis=0), minlength=len(values)).cumsum()
        return tuple(float(values[min(int(np.searchsorted(mass, share)), len(values) - 1)]) for share in shares)

    def without_abstentions(self) -> Posterior:
        """Return the posterior of threshold, width and lapse alone: that from which levels are chosen.

        A posterior is valid under any choice of levels, and the level that tells most hardly depends on abstentions.
        """
        base = self.model.base
        if base is None:
            return self
        cells = self.weights.reshape(*base.prior.shape, -1).sum(axis=2)
        return Posterior(base, _normalised(np.log(np.maximum(cells, 1e-300))))

    def predicted(self, level: float) -> Array:
        """Return the probability of each outcome at a level."""
        shares = self.model.column(level)[0]
        return np.asarray(np.einsum("omn,mn->o", shares, self.weights))

    def draws(self, number: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return indices [number] into thresholds and into nuisance parameters, drawn by weight."""
        total = self.weights.reshape(-1).cumsum()
        cells = np.searchsorted(total, generator.random(number) * total[-1], side="right")
        cells = np.minimum(cells, len(total) - 1)
        return cells // self.log_weights.shape[1], cells % self.log_weights.shape[1]


def information(posterior: Posterior) -> Array:
    """Return the mutual information in nats [X] between the threshold and the answer at each candidate level."""
    rows = _weighty(posterior)
    return _information(posterior.model, posterior.weights[rows], rows)


def choose_levels(posterior: Posterior, number: int, *, fixed: dict[int, float] | None = None) -> list[float]:
    """Return the levels of the next batch.

    Args:
        number: how many questions the batch has.
        fixed: slot to the level that it must have: catch trials, and slots that are asked already.
    """
    current = posterior.without_abstentions()
    model, rows = current.model, _weighty(current)
    weights = current.weights[rows]
    chosen: list[float] = []
    for slot in range(number):
        if fixed is not None and slot in fixed:
            level = fixed[slot]
        else:
            gains = np.round(_information(model, weights, rows), DIGITS)[model.first_asked :]
            level = float(model.levels[model.first_asked + int(gains.argmax())])
        chosen.append(level)
        if slot + 1 < number:
            weights = _softly(model, weights, rows, level)
    return chosen


def _weighty(posterior: Posterior) -> slice:
    """Return the range of thresholds that have weight; a slice, because a selection would copy the tables."""
    some = np.flatnonzero(posterior.weights.sum(axis=1) > NEGLIGIBLE)
    return slice(int(some[0]), int(some[-1]) + 1)


def _information(model: AnswerModel, weights: Array, rows: slice) -> Array:
    # einsum in place of @: BLAS would start threads for these small tables, which cost more than the sums.
    mass = np.maximum(weights.sum(axis=1), 1e-300)
    total = mass.sum()
    if model.factors is not None:
        curves, mix, floor = model.factors
        cells = (weights / mass[:, None]).reshape(len(mass), curves.shape[1], len(mix))
        first = np.matmul(np.einsum("mkl,l->mk", cells, mix)[:, None, :], curves[rows])[:, 0, :]
        first += np.einsum("mkl,l->m", cells, floor)[:, None]  # probability [M, X] of the first of two outcomes
        lost = np.einsum("m,mx->x", mass, _binary_entropy(first))
        return np.asarray(_binary_entropy(np.einsum("m,mx->x", mass, first) / total) - lost / total)
    # Joint probability [M, X] of each threshold and outcome; those of an outcome sum to the threshold's own.
    joint = [np.matmul(weights[:, None, :], table)[:, 0, :] for table in model.table[:-1, rows]]
    joint.append(np.maximum(mass[:, None] - sum(joint), 0.0))
    gains = np.zeros(len(model.levels))
    for outcome in joint:
        gains += _entropy_terms(outcome.sum(axis=0))
        gains -= np.einsum("m,mx->x", mass, _entropy_terms(outcome / mass[:, None]))
    return np.asarray(gains)


def _softly(model: AnswerModel, weights: Array, rows: slice, level: float) -> Array:
    """Fold an awaited answer in: by the expected log likelihood of its outcomes."""
    shares, logs = model.column(level)
    expected = [float((share[rows] * weights).sum()) for share in shares]
    blended = sum(share * log[rows] for share, log in zip(expected, logs, strict=True))
    folded = weights * np.exp(blended)
    return np.asarray(folded / folded.sum())


def _normalised(log_weights: Array) -> Array:
    shifted = log_weights - log_weights.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _binary_entropy(share: Array) -> Array:
    rest = 1.0 - share  # np.maximum costs a fifth of np.clip
    surprise = share * np.log(np.maximum(share, 1e-300)) + rest * np.log(np.maximum(rest, 1e-300))
    return np.asarray(-surprise)


def _entropy_terms(share: Array) -> Array:
    clipped = np.clip(share, 1e-12, 1.0)
    return np.asarray(-clipped * np.log(clipped))
