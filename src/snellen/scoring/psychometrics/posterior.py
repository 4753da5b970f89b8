"""What is known about a threshold after some answers: a posterior over the grid, its interval, and the next levels to ask.

Choice of levels: psi-marginal (Kontsevich & Tyler 1999; Prins 2013; a special case of QUEST+, Watson 2017). The level
with the most information about the threshold alone is asked, width, lapse and abstention rate integrated out first.
Within a batch the awaited answer is folded in softly: with the probabilities of its outcomes as weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from snellen.scoring.psychometrics.curve import AnswerModel, Array

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
