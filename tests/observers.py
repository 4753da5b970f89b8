"""Simulated observers with known thresholds, for the tests and the benchmark of adaptive measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log

import numpy as np

from snellen.scoring.psychometrics.curve import (
    ABSTAINED,
    RIGHT,
    WRONG,
    AnswerModel,
    Array,
    Posterior,
    Shape,
    choose_levels,
    forced_choice,
    seen,
)
from snellen.scoring.psychometrics.estimate import (
    BATCH,
    CatchTrials,
    ThresholdEstimate,
    catch_slots,
    estimate,
)

LEVELS = tuple(round(float(level), 4) for level in np.linspace(0.0, 2.0, 41))


@dataclass(frozen=True)
class Observer:
    """An observer of known threshold, width and lapse rate; `abstains` is its rate of abstentions where it does not see."""

    threshold: float
    width: float
    lapse: float
    guess: float
    shape: Shape = "logistic"
    abstains: float = 0.0

    def answer(self, level: float, generator: np.random.Generator) -> int:
        sees = (1 - self.lapse / (1 - self.guess)) * float(
            seen(self.shape, np.array((level - self.threshold) / self.width))
        )
        draw = generator.random()
        if draw < sees:
            return RIGHT
        if generator.random() < self.abstains:
            return ABSTAINED
        return RIGHT if generator.random() < self.guess else WRONG


def typical(number: int, guess: float, seed: int, **changes: object) -> Iterator[Observer]:
    """Observers inside the range: threshold uniform, width log-uniform in 0.15 to 0.8 decades, lapse 0 to 0.08."""
    generator = np.random.default_rng(seed)
    for _ in range(number):
        threshold = generator.uniform(LEVELS[0] + 0.2, LEVELS[-1] - 0.2)
        width = float(np.exp(generator.uniform(log(0.15), log(0.8))))
        settings = {"threshold": threshold, "width": width, "lapse": generator.uniform(0.0, 0.08), "guess": guess}
        yield Observer(**{**settings, **changes})  # type: ignore[arg-type]


def drawn_from_prior(number: int, model: AnswerModel, guess: float, seed: int) -> Iterator[Observer]:
    """Observers whose parameters are grid values, drawn from the prior of the model itself."""
    rows, columns = Posterior.start(model).draws(number, np.random.Generator(np.random.Philox(seed)))
    for row, column in zip(rows, columns, strict=True):
        width, lapse = model.nuisance["width"][column], model.nuisance["lapse"][column]
        yield Observer(float(model.thresholds[row]), float(width), float(lapse), guess)


def measure(
    observer: Observer,
    generator: np.random.Generator,
    *,
    model: AnswerModel | None = None,
    width: float = 0.2,
    most: int = 256,
    catch: bool = True,
    choose: Callable[[Posterior, int], list[float]] | None = None,
) -> ThresholdEstimate:
    """Measure an observer as a run does: rounds of eight, catch trials, abstentions as a third outcome."""
    model = model or forced_choice(LEVELS, observer.guess)
    answers: list[tuple[float, int]] = []
    trials = CatchTrials()
    posterior = Posterior.start(model)
    easiest = float(model.levels[-1])
    while True:
        fixed = dict.fromkeys(catch_slots(), easiest) if catch else {}
        levels = choose(posterior, len(answers)) if choose else choose_levels(posterior, BATCH, fixed=fixed)
        batch = [(level, observer.answer(level, generator)) for level in levels]
        answers += batch
        if any(outcome == ABSTAINED for _, outcome in batch) and posterior.model.outcomes == 2:
            model = forced_choice(tuple(model.levels.tolist()), observer.guess, abstentions=True)
            posterior = Posterior.start(model).fold(answers)
        else:
            posterior = posterior.fold(batch)
        right = sum(batch[slot][1] == RIGHT for slot in fixed)
        trials = CatchTrials(trials.right + right, trials.answered + len(fixed))
        state = estimate(posterior, answered=len(answers), asked=len(answers), catch=trials, width=width, most=most)
        if state.state != "open":
            return state


def interpolated(levels: Array, shares: Array, guess: float) -> float | None:
    """Return the level at which the share crosses halfway between guessing and 1, by straight lines: the field's way."""
    target = (1.0 + guess) / 2.0
    for index in range(len(levels) - 1, 0, -1):
        low, high = shares[index - 1], shares[index]
        if low < target <= high:
            return float(levels[index - 1] + (target - low) / (high - low) * (levels[index] - levels[index - 1]))
    return None
