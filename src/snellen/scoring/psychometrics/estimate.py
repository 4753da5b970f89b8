"""What a condition reports: its threshold with interval, and whether it is settled, out of budget, or not measurable."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from snellen.scoring.psychometrics.posterior import Posterior

State: TypeAlias = Literal["open", "settled", "budget", "floor", "ceiling", "task not understood"]

WIDTH = 0.2
"""Decades between the ends of the 95 % interval at which a condition stops."""
LEAST, MOST = 24, 96
"""Questions that a condition asks at least and at most."""
BATCH = 8
CATCH_EVERY = 8
"""One slot in so many is a catch trial: the easiest level."""
CATCH_LEAST, CATCH_SHARE = 8, 0.6
"""Catch trials after which a task counts as not understood, if a smaller share of them is right."""


class ThresholdEstimate(Struct, frozen=True):
    """A threshold in decades.

    Attributes:
        state: why the condition stopped; `open` if it goes on.
        value: median of the posterior; None where the state allows no threshold.
        interval: both ends of the 95 % interval (equal tails), told in any state.
        answered: questions with an outcome.
        asked: those, and the failed ones.
    """

    state: State
    value: float | None
    interval: tuple[float, float]
    answered: int
    asked: int


class CatchTrials(Struct, frozen=True):
    """Catch trials of a condition: how many were answered, and how many of them right."""

    right: int = 0
    answered: int = 0

    @property
    def failed(self) -> bool:
        """True after enough of them, if too few were right."""
        return self.answered >= CATCH_LEAST and self.right < CATCH_SHARE * self.answered


def estimate(
    posterior: Posterior,
    *,
    answered: int,
    asked: int,
    catch: CatchTrials = CatchTrials(),
    width: float = WIDTH,
    most: int = MOST,
    least: int = LEAST,
) -> ThresholdEstimate:
    """Return the threshold and the state of a condition between two rounds.

    A condition stops when its interval is no wider than `width` after `least` questions, when `most` were asked, or when
    the task is not understood. `floor`: the interval reaches above the easiest level; `ceiling`: below the hardest.
    """
    low, middle, high = posterior.quantiles()
    levels = posterior.model.levels[posterior.model.first_asked :]
    if catch.failed:
        state: State = "task not understood"
    elif not (narrow := high - low <= width and answered >= least) and asked < most:
        state = "open"
    elif high > levels[-1]:
        state = "floor"
    elif low < levels[0]:
        state = "ceiling"
    else:
        state = "settled" if narrow else "budget"
    measured = state in ("open", "settled", "budget")
    return ThresholdEstimate(state, middle if measured else None, (low, high), answered, asked)


def catch_slots(slots: int = BATCH, every: int = CATCH_EVERY) -> tuple[int, ...]:
    """Return the slots of a batch that hold a catch trial: the last of every `every`."""
    return tuple(slot for slot in range(slots) if slot % every == every - 1)
