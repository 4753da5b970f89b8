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
NEGLIGIBLE = 1e-12
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
        return np.asarray(shares.reshape(len(shares), -1) @ self.weights.reshape(-1))

    def draws(self, number: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return indices [number] into thresholds and into nuisance parameters, drawn by weight."""
        total = self.weights.reshape(-1).cumsum()
        cells = np.searchsorted(total, generator.random(number) * total[-1], side="right")
        cells = np.minimum(cells, len(total) - 1)
        return cells // self.log_weights.shape[1], cells % self.log_weights.shape[1]


def information(posterior: Posterior) -> Array:
    """Return the mutual information in nats [X] between the threshold and the answer at each candidate level."""
    weights = posterior.weights
    mass = weights.sum(axis=1)
    some = np.flatnonzero(mass > NEGLIGIBLE)
    rows = slice(some[0], some[-1] + 1)  # a slice, because a selection would copy the table
    weights, mass = weights[rows], np.maximum(mass[rows], 1e-300)
    tables = posterior.model.table[:, rows]
    # Joint probability [M, X] of each threshold and outcome; those of an outcome sum to the threshold's own.
    joint = [np.matmul(weights[:, None, :], table)[:, 0, :] for table in tables[:-1]]
    joint.append(np.maximum(mass[:, None] - sum(joint), 0.0))
    total = np.zeros(len(posterior.model.levels))
    for outcome in joint:
        total += _entropy_terms(outcome.sum(axis=0))
        total -= mass @ _entropy_terms(outcome / mass[:, None])
    return np.asarray(total)


def choose_levels(posterior: Posterior, number: int, *, fixed: dict[int, float] | None = None) -> list[float]:
    """Return the levels of the next batch.

    Args:
        number: how many questions the batch has.
        fixed: slot to the level that it must have: catch trials, and slots that are asked already.
    """
    current = posterior.without_abstentions()
    model = current.model
    chosen: list[float] = []
    for slot in range(number):
        if fixed is not None and slot in fixed:
            level = fixed[slot]
        else:
            gains = np.round(information(current), DIGITS)[model.first_asked :]
            level = float(model.levels[model.first_asked + int(gains.argmax())])
        chosen.append(level)
        if slot + 1 < number:
            current = _softly(current, level)
    return chosen


def _softly(posterior: Posterior, level: float) -> Posterior:
    """Fold an awaited answer in: the expected log likelihood of its outcomes."""
    log_weights, logs = posterior.log_weights, posterior.model.column(level)[1]
    for outcome, share in enumerate(posterior.predicted(level)):
        log_weights = log_weights + share * logs[outcome]
    return Posterior(posterior.model, _normalised(log_weights))


def _normalised(log_weights: Array) -> Array:
    shifted = log_weights - log_weights.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _entropy_terms(share: Array) -> Array:
    clipped = np.clip(share, 1e-12, 1.0)
    return np.asarray(-clipped * np.log(clipped))
