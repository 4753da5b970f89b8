"""One probe on one training set: its strength chosen on rows held out of train, then fitted on all of train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from snellen.features.probes import closed_form, logistic
from snellen.features.probes.head import Scale, Scaling, scaling
from snellen.features.probes.protocol import holdout

Method = Literal["logistic", "ridge", "lda"]


class StrengthTrial(Struct, frozen=True):
    """One strength on the held-out rows: `score` is accuracy (one label a row) or minus the log loss (several)."""

    strength: float
    score: float
    loss: float
    converged: bool = True


class TrainedProbe(Struct, frozen=True, eq=False):
    """A fitted probe.

    Attributes:
        weights: [d, c] of the scaled features; with bias [c].
        scaling: from all of train.
        strength: the C, or the closed form's penalty, that was chosen.
        tried: what each strength scored on the held-out rows; empty where there was one strength.
        held_out: how many rows chose; 0 where none could be held out.
        converged: of the last fit; True for closed forms.
        iterations: of the last fit; 0 for closed forms.
        gap: of the last fit, see `logistic.Fit`.
        precision: float32 or float64, of the last fit.
    """

    weights: np.ndarray
    bias: np.ndarray
    scaling: Scaling
    strength: float
    tried: tuple[StrengthTrial, ...]
    held_out: int
    converged: bool
    iterations: int
    gap: float
    precision: str


def train(
    values: np.ndarray,
    targets: np.ndarray,
    classes: int,
    *,
    method: Method = "logistic",
    standardise: Scale = "none",
    strengths: Sequence[float] | None = None,
    share: float = 0.1,
    seed: int = 0,
    tolerance: float | None = None,
) -> TrainedProbe:
    """Choose a strength and fit the probe.

    Of several strengths the one with the best held-out score is taken; of equal ones that with the smaller loss, then
    the stronger penalty. Where no row can be held out (every class has one row, or `share` of them is less than one) it is C nearest 1, or the middle of
    a closed form's grid, and `held_out` is 0.

    Args:
        values: [n, d] finite training rows.
        targets: [n] columns from 0 to classes - 1, or [n, classes] bool.
        strengths: values of C, or penalties of a closed form; None for the method's grid; one value is not chosen.
        share, seed: of the held-out rows.
        tolerance: of the last logistic fit.

    Raises:
        UsageError: fewer than two classes (of several labels a row: none), or a strength out of range.
    """
    logistic.require_classes(targets)
    grid = tuple(strengths) if strengths is not None else default_grid(method)
    held_out = holdout(targets, share=share, seed=seed) if len(grid) > 1 else np.zeros(len(targets), dtype=bool)
    tried: tuple[StrengthTrial, ...] = ()
    strength = grid[0]
    fit_part: closed_form.Moments | None = None
    if len(grid) > 1 and held_out.any() and not held_out.all():
        inner = scaling(standardise, values[~held_out])
        parts = inner.apply(values[~held_out]), inner.apply(values[held_out])
        rule = _try_logistic if method == "logistic" else _try_closed
        tried, fit_part = rule(parts, targets, held_out, classes, grid, method)
        strength = min(tried, key=lambda trial: (-trial.score, trial.loss, _weakness(method, trial.strength))).strength
    elif len(grid) > 1:
        strength = min(grid, key=lambda c: abs(np.log(c))) if method == "logistic" else grid[len(grid) // 2]
    outer = scaling(standardise, values)
    scaled = outer.apply(values)
    if method == "logistic":
        loss: logistic.Loss = "sigmoid" if targets.ndim == 2 else "softmax"
        problem = logistic.prepare_problem(scaled, targets, classes, loss=loss)
        fitted = logistic.fit(problem, strength, tolerance=tolerance)
        return TrainedProbe(
            fitted.weights,
            fitted.bias,
            outer,
            strength,
            tried,
            int(held_out.sum()) if tried else 0,
            fitted.converged,
            fitted.iterations,
            fitted.gap,
            str(problem.rows.dtype),
        )
    if fit_part is not None and standardise == "none":
        sums = closed_form.merge_moments(
            fit_part, closed_form.compute_moments(scaled[held_out], targets[held_out], classes)
        )
    else:
        sums = closed_form.compute_moments(scaled, targets, classes)
    weights, bias = closed_form.solve(sums, method, strength)
    held_count = int(held_out.sum()) if tried else 0
    return TrainedProbe(weights, bias, outer, strength, tried, held_count, True, 0, 0.0, str(sums.scatter.dtype))


Parts = tuple[np.ndarray, np.ndarray]
Attempt = tuple[tuple[StrengthTrial, ...], closed_form.Moments | None]


def _try_logistic(
    parts: Parts, targets: np.ndarray, held_out: np.ndarray, classes: int, grid: tuple[float, ...], method: Method
) -> Attempt:
    several = targets.ndim == 2
    problem = logistic.prepare_problem(parts[0], targets[~held_out], classes, loss="sigmoid" if several else "softmax")
    measure: Callable[[np.ndarray, np.ndarray], tuple[float, float]] = _log_loss if several else _accuracy
    tried = []
    for fit in logistic.fit_path(problem, grid):
        score, loss = measure(parts[1] @ fit.weights + fit.bias, targets[held_out])
        tried.append(StrengthTrial(fit.c, score, loss, fit.converged))
    return tuple(tried), None


def _try_closed(
    parts: Parts, targets: np.ndarray, held_out: np.ndarray, classes: int, grid: tuple[float, ...], method: Method
) -> Attempt:
    sums = closed_form.compute_moments(parts[0], targets[~held_out], classes)
    kind: closed_form.Kind = "lda" if method == "lda" else "ridge"
    tried = []
    for strength, scores in zip(grid, closed_form.score_path(sums, kind, grid, parts[1]), strict=True):
        right = float((scores.argmax(axis=1) == targets[held_out]).mean())
        tried.append(StrengthTrial(strength, right, 1.0 - right))
    return tuple(tried), sums


def _accuracy(scores: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Return accuracy and mean cross-entropy."""
    exact = scores.astype(np.float64)
    top = exact.max(axis=1)
    loss = np.log(np.exp(exact - top[:, None]).sum(axis=1)) + top - exact[np.arange(len(exact)), targets]
    return float((exact.argmax(axis=1) == targets).mean()), float(loss.mean())


def _log_loss(scores: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Return minus the mean log loss over rows and classes, and that loss."""
    exact = scores.astype(np.float64)
    loss = float((np.logaddexp(0.0, exact) - np.where(targets, exact, 0.0)).mean())
    return -loss, loss


def default_grid(method: Method) -> tuple[float, ...]:
    """Return the strengths that a method chooses from."""
    return logistic.CS if method == "logistic" else closed_form.STRENGTHS[method]


def _weakness(method: Method, strength: float) -> float:
    """Return a sort key that grows with a weaker penalty: C for logistic, minus the penalty for closed forms."""
    return strength if method == "logistic" else -strength
