"""What a condition reports: its threshold with interval, and whether it is settled, out of budget, or not measurable."""

from __future__ import annotations

from math import comb
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
"""Catch trials after which a task may count as not understood, if a smaller share of them is right."""
CATCH_LAPSES, CATCH_DOUBT = 0.3, 0.05
"""The greatest lapse rate of an observer who understands, and the probability of such a share below which it counts.

Without this, one in nine observers with a lapse rate of .25 would miss four of eight and have no threshold.
"""


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
        """True after enough of them, if too few were right, and fewer than an observer who often slips has by chance."""
        few = self.answered >= CATCH_LEAST and self.right < CATCH_SHARE * self.answered
        return few and _chance_of_at_most(self.right, self.answered, 1 - CATCH_LAPSES) < CATCH_DOUBT


def estimate(
    posterior: Posterior,
    *,
    answered: int,
    asked: int,
    catch: CatchTrials = CatchTrials(),
    width: float = WIDTH,
    most: int = MOST,
    least: int = LEAST,
    fixed: bool = False,
) -> ThresholdEstimate:
    """Return the threshold and the state of a condition between two rounds.

    A condition stops when its interval is no wider than `width` after `least` questions, when `most` were asked, or when
    the task is not understood. `floor`: the threshold is more probably above the easiest level than among the levels;
    `ceiling`: more probably below the hardest. An interval may reach beyond the levels where the median does not.
    A `fixed` design asks `most` questions whatever the answers.
    """
    low, middle, high = posterior.quantiles()
    levels = posterior.model.levels[posterior.model.first_asked :]
    narrow = high - low <= width and answered >= least
    if asked < most and (fixed or not (narrow or catch.failed)):
        state: State = "open"
    elif catch.failed:
        state = "task not understood"
    elif middle > levels[-1]:
        state = "floor"
    elif middle < levels[0]:
        state = "ceiling"
    else:
        state = "settled" if narrow else "budget"
    measured = state in ("open", "settled", "budget")
    return ThresholdEstimate(state, middle if measured else None, (low, high), answered, asked)


def _chance_of_at_most(right: int, answered: int, share: float) -> float:
    """Return the lower tail of the binomial distribution."""
    return sum(comb(answered, count) * share**count * (1 - share) ** (answered - count) for count in range(right + 1))


def catch_slots(slots: int = BATCH, every: int = CATCH_EVERY) -> tuple[int, ...]:
    """Return the slots of a batch that hold a catch trial: the last of every `every`."""
    return tuple(slot for slot in range(slots) if slot % every == every - 1)
