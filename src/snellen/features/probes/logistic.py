"""Logistic regression over frozen features: L-BFGS, preconditioned by the features' spectrum, along a path of C.

Minimised is the mean loss + (1 / (2 C n)) * sum of squared weights, which has the same minimum as scikit-learn's
C * (sum of losses) + 1/2 * (sum of squared weights); with two classes the squares count twice, see `_to_penalty`. The
intercept is not penalised.

A path over many C is cheap for two reasons:

- Coordinates are the principal axes of the centred rows, where the Hessian of the loss is bounded by a multiple of
  the eigenvalues (Böhning 1992, Annals of the Institute of Statistical Mathematics 44:197). The first guess of
  L-BFGS at the inverse Hessian is 1 / (curvature * eigenvalue + penalty), with the mean p (1 - p) as curvature, so
  features of very different scales cost no iterations. Rotating the rows leaves the penalty as it is.
- Each C starts from the one before, whose gradient and curvature pairs hold for the new penalty after a correction
  that needs no pass over the rows. A single fit goes the same way, by steps of ten in C, loosely until the last.

It stops where the objective's estimated gap to its minimum, half of the Newton decrement, is at most `tolerance`
times the objective: a bound without units, unlike one on the gradient, which means less the smaller the features are.

Why not scipy's L-BFGS-B: on bench/probe.py (12,000 x 1,024, 200 classes, one thread) it needs 1.8 times the CPU to the
same objective of one fit, 4.5 s in place of 2.5 s, although it was given the same preconditioner as a change of
variables. It starts each fit without curvature pairs, works in float64 only, and cannot adapt the preconditioner on the
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from snellen.errors import UsageError

Loss = Literal["softmax", "sigmoid"]

CS = tuple(float(c) for c in 10.0 ** np.linspace(-6, 5, 45))
"""The 45 values of DINOv2's logistic regression."""

PATH_TOLERANCE = 1e-3
SMALL_PATH_TOLERANCE = 1e-8
"""Of problems up to 5e6 products a pass, where few rows choose and ties are common: there each C is fitted out."""
TOLERANCE = {"float32": 1e-5, "float64": 1e-14}
ITERATIONS = 1_000
MEMORY = 10

_BLOCK_ROWS = 1_024
_CONVERGED = {"float32": 1e-5, "float64": 1e-10}
"""Gaps up to this are as good as none; a fit that is asked for less is told as one that did not converge above this."""
_FLOOR = {"float32": -30.0, "float64": -300.0}
_ROUNDING = {"float32": 5e-9, "float64": 1e-15}
"""By this share of itself an objective may seem to rise from one evaluation to the next."""
_DOUBLE_UP_TO = 500_000_000
_SMALL_UP_TO = 5_000_000


class Problem(Struct, frozen=True, eq=False):
    """Rows in the coordinates in which they are fitted.

    Attributes:
        rows: [n, r] the centred rows on their principal axes, float32 or float64.
        spectrum: [r] variances along the axes, descending order not needed.
        axes: [d, r] orthonormal columns: rows = (values - mean) @ axes.
        mean: [d] float64.
        targets: [n] int64 columns from 0 to c - 1 ("softmax"), or [n, c] bool ("sigmoid").
        classes: c.
        loss: "softmax": one class a row; "sigmoid": each class against the rest, all classes at once.
        fixed: None, or [all classes] float64 of "sigmoid": NaN for the c classes that are fitted; else the bias of a
            class that all rows have or none. Its loss has no minimum, and on the way there nothing else would converge.
    """

    rows: np.ndarray
    spectrum: np.ndarray
    axes: np.ndarray
    mean: np.ndarray
    targets: np.ndarray
    classes: int
    loss: Loss
    fixed: np.ndarray | None = None


class Fit(Struct, frozen=True, eq=False):
    """A fitted linear layer: logits = values @ weights + bias.

    Attributes:
        weights: [d, c] float32 or float64.
        bias: [c], likewise.
        c: the inverse penalty that it was fitted at.
        objective: mean loss + penalty.
        gap: estimated distance of the objective from its minimum, as a share of the objective.
        iterations: steps of L-BFGS, those of the way to this C included where it was fitted alone.
        evaluations: passes over the rows, likewise.
        converged: whether the gap came below the tolerance, or in float64 below 1e-10; else the last step could not go
            down any further, or the iterations ran out.
    """

    weights: np.ndarray
    bias: np.ndarray
    c: float
    objective: float
    gap: float
    iterations: int
    evaluations: int
    converged: bool


def choose_precision(rows: int, width: int, classes: int) -> str:
    """Choose float64 up to 5e8 products per pass over the rows, where it is cheap, else float32."""
    return "float64" if rows * width * classes <= _DOUBLE_UP_TO else "float32"


def prepare_problem(
    values: np.ndarray, targets: np.ndarray, classes: int, *, loss: Loss = "softmax", dtype: str | None = None
) -> Problem:
    """Centre the rows and turn them to their principal axes.

    Needs twice the memory of the rows in `dtype`. Where there are fewer rows than features the axes span the rows;
    weights outside of that span are zero at the minimum.

    Args:
        values: [n, d] finite.
        targets: [n] integers from 0 to classes - 1, or [n, classes] bool for "sigmoid".
        dtype: None takes what `precision` says.

    Raises:
        UsageError: fewer than two classes with rows ("softmax").
    """
    count, width = values.shape
    fixed = None
    if loss == "softmax":
        require_classes(targets)
    else:
        fitted = targets.any(axis=0) & ~targets.all(axis=0)
        fixed = np.where(fitted, np.nan, _odds(targets))
        targets, classes = targets[:, fitted], int(fitted.sum())
    kind = np.dtype(dtype or choose_precision(count, width, classes))
    mean = values.mean(axis=0, dtype=np.float64)
    centred = np.subtract(values, mean.astype(kind), dtype=kind)
    if count > width:
        squares, axes = np.linalg.eigh(centred.T @ centred)
        rows = centred @ axes
    else:
        # An orthonormal basis of the rows first: from their products alone a feature of small values beside one of
        # large values could not be told from rounding.
        exact = centred.astype(np.float64)
        basis, within = np.linalg.qr(exact.T)
        squares, rotation = np.linalg.eigh(within @ within.T)
        axes = (basis @ rotation).astype(kind)
        rows = (within.T @ rotation).astype(kind)
    spectrum = (np.clip(squares, 0.0, None) / count).astype(kind)
    return Problem(rows, spectrum, axes, mean, targets, classes, loss, fixed)


def require_classes(targets: np.ndarray) -> None:
    """Raise UsageError unless there are training rows, of two classes where each row has one, of any where several."""
    if targets.ndim == 2:
        if 0 in targets.shape or not targets.any():
            raise UsageError(
                f"none of {len(targets):,} training rows has a label: there is nothing to learn",
                "Choose a split whose rows have labels.",
            )
        return
    present = len(np.unique(targets))
    if present < 2:
        raise UsageError(
            f"{len(targets):,} training rows of {present} class(es): a classifier needs two classes at least",
            "Choose a split that has rows of two classes.",
        )


class _LbfgsState:
    """Current point of L-BFGS: [r + 1, c] weights with the bias as last row, and what is known there."""

    def __init__(self, problem: Problem) -> None:
        size = (problem.rows.shape[1] + 1, problem.classes)
        self.point = np.zeros(size, dtype=problem.rows.dtype)
        self.point[-1] = _bias_of_the_shares(problem)
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self.iterations = 0
        self.evaluations = 0
        self.move(problem, self.point)

    def move(self, problem: Problem, point: np.ndarray) -> None:
        self.point = point
        self.loss, self.slope, self.curvature = evaluate(problem, point)
        self.evaluations += 1


def fit_path(
    problem: Problem, cs: Sequence[float] = CS, *, tolerance: float | None = None, iterations: int = ITERATIONS
) -> Iterator[Fit]:
    """Fit at each C, ascending, each from the one before.

    Args:
        tolerance: share of the objective that may be missing to its minimum; None: 1e-3, of small problems 1e-8.

    Raises:
        UsageError: a C is not positive and finite.
    """
    check_cs(cs)
    if tolerance is None:
        small = problem.rows.size * problem.classes <= _SMALL_UP_TO and problem.rows.dtype == np.float64
        tolerance = SMALL_PATH_TOLERANCE if small else PATH_TOLERANCE
    state = _LbfgsState(problem)
    penalty = 0.0
    for c in sorted(set(cs)):
        steps, passes = state.iterations, state.evaluations
        penalty = _to_penalty(problem, state, penalty, c)
        gap, converged = _descend(problem, state, penalty, tolerance, iterations)
        yield _fitted(problem, state, c, penalty, gap, converged, steps, passes)


def fit(problem: Problem, c: float = 1.0, *, tolerance: float | None = None, iterations: int = ITERATIONS) -> Fit:
    """Fit at one C, by steps of ten in C from where the penalty rules.

    Args:
        tolerance: share of the objective that may be missing to its minimum; None: 1e-14 in float64, 1e-5 in float32.
    """
    check_cs((c,))
    if tolerance is None:
        tolerance = TOLERANCE[str(problem.rows.dtype)]
    state = _LbfgsState(problem)
    largest = float(problem.spectrum.max(initial=0.0)) * max(state.curvature, 1e-12) * len(problem.rows)
    start = 1.0 / largest if largest > 0 else c
    strengths = [float(strength) for strength in c * 10.0 ** np.arange(-20, 0) if strength >= start]
    penalty = 0.0
    for strength in strengths:
        penalty = _to_penalty(problem, state, penalty, strength)
        _descend(problem, state, penalty, 1e-2, iterations)
    penalty = _to_penalty(problem, state, penalty, c)
    gap, converged = _descend(problem, state, penalty, tolerance, iterations)
    enough = max(tolerance, _CONVERGED[str(problem.rows.dtype)])
    return _fitted(problem, state, c, penalty, gap, converged or gap <= enough, 0, 0)


def check_cs(cs: Sequence[float]) -> None:
    """Raise UsageError unless every C is positive and finite, and there is one."""
    wrong = [c for c in cs if not (np.isfinite(c) and c > 0)]
    if wrong or not len(cs):
        raise UsageError(
            f"found C = {wrong[0] if wrong else 'nothing'}; C is the inverse of a penalty, so a positive number",
            "Give --c one or more positive numbers.",
        )


def evaluate(problem: Problem, point: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Compute the mean loss without penalty, its gradient [r + 1, c], and the mean of p (1 - p) over rows and classes.

    Blocks of rows keep the probabilities in the processor's cache.
    """
    rows, targets = problem.rows, problem.targets
    weights, bias = point[:-1], point[-1]
    slope = np.zeros_like(point)
    loss = curvature = 0.0
    for start in range(0, len(rows), _BLOCK_ROWS):
        block, wanted = rows[start : start + _BLOCK_ROWS], targets[start : start + _BLOCK_ROWS]
        scores = block @ weights
        scores += bias
        lost, curved = (_softmax if problem.loss == "softmax" else _sigmoid)(scores, wanted)
        loss += lost
        curvature += curved
        slope[:-1] += block.T @ scores
        slope[-1] += scores.sum(axis=0)
    slope /= len(rows)
    return loss / len(rows), slope, max(curvature / (len(rows) * max(problem.classes, 1)), 1e-12)


def _softmax(scores: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Turn logits into probabilities minus one-hot targets in place; return the sums of the losses and of p (1 - p)."""
    each = np.arange(len(scores))
    scores -= scores.max(axis=1, keepdims=True)
    right = float(scores[each, wanted].sum(dtype=np.float64))
    # Below this a probability is nothing beside the largest, and denormal numbers would slow every product.
    np.maximum(scores, _FLOOR[str(scores.dtype)], out=scores)
    np.exp(scores, out=scores)
    total = scores.sum(axis=1, keepdims=True)
    loss = float(np.log(total).sum(dtype=np.float64)) - right
    scores /= total
    curvature = len(scores) - float(np.vdot(scores, scores))
    scores[each, wanted] -= 1.0
    return loss, curvature


def _sigmoid(scores: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Do as `_softmax` for each class against the rest."""
    tail = np.exp(np.maximum(-np.abs(scores), _FLOOR[str(scores.dtype)]))
    # How far a score lies on the wrong side, each by itself: a difference of two large sums would be mere rounding.
    wrong = np.maximum(np.where(wanted, -scores, scores), 0.0)
    loss = float((wrong + np.log1p(tail)).sum(dtype=np.float64))
    np.divide(np.where(scores >= 0.0, 1.0, tail), 1.0 + tail, out=scores)
    curvature = float(scores.sum(dtype=np.float64)) - float(np.vdot(scores, scores))
    scores -= wanted
    return loss, curvature


def _bias_of_the_shares(problem: Problem) -> np.ndarray:
    """Compute the best bias for zero weights; a class without rows counts half a row."""
    count = len(problem.rows)
    if problem.loss == "softmax":
        counts = np.bincount(problem.targets, minlength=problem.classes)
        shares = np.log(np.maximum(counts, 0.5) / count)
        return np.asarray(shares - shares.mean())
    return _odds(problem.targets)


def _odds(targets: np.ndarray) -> np.ndarray:
    """Compute [c] log odds of [n, c] bool; with half a row on the side that has none."""
    share = np.clip(targets.mean(axis=0), 0.5 / len(targets), 1.0 - 0.5 / len(targets))
    return np.asarray(np.log(share / (1.0 - share)))


def _to_penalty(problem: Problem, state: _LbfgsState, before: float, c: float) -> float:
    """Return the penalty of the mean objective at C, and correct the stored gradient differences for it.

    Of two classes, scikit-learn penalises the one vector w that tells them apart. Here they have w / 2 and - w / 2,
    whose squares are half of that, so they count twice.
    """
    penalty = (2.0 if problem.loss == "softmax" and problem.classes == 2 else 1.0) / (c * len(problem.rows))
    for step, change in state.pairs:
        change[:-1] += (penalty - before) * step[:-1]
    return penalty


def _descend(
    problem: Problem, state: _LbfgsState, penalty: float, tolerance: float, iterations: int
) -> tuple[float, bool]:
    """Run L-BFGS from the state's point; return the final gap, and True if it is within the tolerance.

    Source: Nocedal and Wright 2006, algorithm 7.4; the step is halved by a parabola until the objective falls enough
    (Armijo). A step along which the slope does not rise is not remembered.
    """
    rounding = _ROUNDING[str(problem.rows.dtype)]
    objective, slope = _penalised(state, penalty)
    gap = np.inf
    for _ in range(iterations):
        direction = _direction(problem, state, slope, penalty)
        decrement = float(np.vdot(slope, direction))
        gap = 0.5 * decrement / max(objective, 1e-300)
        if gap <= tolerance:
            return gap, True
        origin, length = state.point, 1.0
        known = state.loss, state.slope, state.curvature
        while True:
            state.move(problem, origin - problem.rows.dtype.type(length) * direction)
            reached, reached_slope = _penalised(state, penalty)
            if reached <= objective - 1e-4 * length * decrement + rounding * objective:
                break
            bend = reached - objective + length * decrement
            length *= min(0.5, max(0.1, 0.5 * length * decrement / bend)) if np.isfinite(bend) else 0.1
            if length < 1e-8:
                state.point = origin
                state.loss, state.slope, state.curvature = known
                return gap, False
        state.iterations += 1
        step, change = state.point - origin, reached_slope - slope
        if float(np.vdot(step, change)) > float(np.finfo(np.float64).tiny):
            state.pairs = [*state.pairs[1 - MEMORY :], (step, change)]
        objective, slope = reached, reached_slope
    return gap, False


def _penalised(state: _LbfgsState, penalty: float) -> tuple[float, np.ndarray]:
    weights = state.point[:-1]
    slope: np.ndarray = state.slope.copy()
    slope[:-1] += slope.dtype.type(penalty) * weights
    return state.loss + 0.5 * penalty * float(np.vdot(weights, weights)), slope


def _direction(problem: Problem, state: _LbfgsState, slope: np.ndarray, penalty: float) -> np.ndarray:
    """Multiply the estimate of the inverse Hessian with the slope: two loops over the pairs around the spectrum's guess."""
    inverse = np.empty((len(slope), 1), dtype=slope.dtype)
    inverse[:-1, 0] = 1.0 / (state.curvature * problem.spectrum + penalty)
    inverse[-1] = 1.0 / state.curvature
    direction: np.ndarray = slope.copy()
    shares: list[tuple[float, float]] = []
    for step, change in reversed(state.pairs):
        along = 1.0 / float(np.vdot(step, change))
        share = along * float(np.vdot(step, direction))
        shares.append((along, share))
        direction -= slope.dtype.type(share) * change
    direction *= inverse
    if state.pairs:
        step, change = state.pairs[-1]
        direction *= slope.dtype.type(float(np.vdot(step, change)) / float(np.vdot(change, inverse * change)))
    for (step, change), (along, share) in zip(state.pairs, reversed(shares), strict=True):
        direction += slope.dtype.type(share - along * float(np.vdot(change, direction))) * step
    return direction


def _fitted(
    problem: Problem, state: _LbfgsState, c: float, penalty: float, gap: float, converged: bool, steps: int, passes: int
) -> Fit:
    """Return the layer in the coordinates of the original features."""
    weights = problem.axes @ state.point[:-1]
    bias = state.point[-1] - problem.mean @ weights
    if problem.fixed is not None:
        learnt = np.isnan(problem.fixed)
        every, biases = np.zeros((len(weights), len(learnt)), dtype=weights.dtype), problem.fixed.copy()
        every[:, learnt], biases[learnt] = weights, bias
        weights, bias = every, biases
    objective, _ = _penalised(state, penalty)
    return Fit(
        weights=weights,
        bias=np.asarray(bias, dtype=weights.dtype) if weights.dtype == np.float64 else bias.astype(np.float32),
        c=c,
        objective=objective,
        gap=gap,
        iterations=state.iterations - steps,
        evaluations=state.evaluations - passes,
        converged=converged,
    )
