"""What a condition reports: its threshold with interval, and whether it is settled, out of budget, or not measurable.

Checks of a fitted curve from the answers at hand: does it fit, does it rise, and are wrong letters spread evenly?

The first two compare binomial deviances over levels pooled in bins of 0.1 decades with draws: from the posterior
(posterior predictive check, Rubin 1984), and from the best monotone curve (pool adjacent violators).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import comb
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.psychometrics.curve import RIGHT, Array, Posterior

BIN = 0.1
DRAWS = 400


class PooledLevels(Struct, frozen=True):
    """Answers pooled by level.

    Attributes:
        level: [n] mean level of each bin, in decades, rising.
        right, answered: [n] counts.
        bins: [answers] index of the bin of each answer.
    """

    level: Array
    right: NDArray[np.int64]
    answered: NDArray[np.int64]
    bins: NDArray[np.intp]


def pool(answers: Sequence[tuple[float, int]], width: float = BIN) -> PooledLevels:
    """Pool answers, each a level in decades and an outcome, in bins of this width; equal pairs are left out by the caller."""
    keys = [round(level / width) for level, _ in answers]
    groups: dict[int, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        groups[key].append(place)
    order = {key: index for index, key in enumerate(sorted(groups))}
    members = [groups[key] for key in order]
    return PooledLevels(
        np.array([float(np.mean([answers[place][0] for place in places])) for places in members]),
        np.array([sum(answers[place][1] == RIGHT for place in places) for places in members], dtype=np.int64),
        np.array([len(places) for places in members], dtype=np.int64),
        np.array([order[key] for key in keys], dtype=np.intp),
    )


def fit_p(posterior: Posterior, answers: Sequence[tuple[float, int]], *, draws: int = DRAWS, seed: int = 0) -> float:
    """Return the posterior predictive p of the binomial deviance: small where no curve of the model fits the answers."""
    if not answers:
        return 1.0
    pooled = pool(answers)
    generator = np.random.Generator(np.random.Philox(seed))
    rows, columns = posterior.draws(draws, generator)
    share = np.stack([posterior.model.column(level)[0][RIGHT][rows, columns] for level, _ in answers], axis=1)
    count = len(pooled.level)
    expected, simulated = np.zeros((draws, count)), np.zeros((draws, count))
    hits = generator.random(share.shape) < share
    for index in range(count):
        members = pooled.bins == index
        expected[:, index] = share[:, members].mean(axis=1)
        simulated[:, index] = hits[:, members].sum(axis=1)
    observed = _deviance(pooled.right[None, :], pooled.answered, expected)
    return _share_at_least(_deviance(simulated, pooled.answered, expected), observed)


def monotone_p(answers: Sequence[tuple[float, int]], *, draws: int = DRAWS, seed: int = 0) -> float:
    """Return the p of a curve that never falls: small where an easier level was answered worse.

    The statistic is the deviance from the best rising curve. Draws from that curve are fitted anew.
    """
    if not answers:
        return 1.0
    pooled = pool(answers)
    rising = rising_shares(pooled.right, pooled.answered)
    observed = _deviance(pooled.right, pooled.answered, rising)
    generator = np.random.Generator(np.random.Philox(seed))
    share = rising[pooled.bins]
    statistics = []
    for _ in range(draws):
        hits = generator.random(len(share)) < share
        right = np.bincount(pooled.bins, weights=hits, minlength=len(rising)).astype(np.int64)
        statistics.append(_deviance(right, pooled.answered, rising_shares(right, pooled.answered)))
    return _share_at_least(np.array(statistics), observed)


def rising_shares(right: Iterable[int], answered: Iterable[int]) -> Array:
    """Return the shares of the most likely curve that never falls: neighbours that violate it are pooled.

    Source: Ayer et al. 1955, Annals of Mathematical Statistics 26:641 (pool adjacent violators).
    """
    blocks: list[list[float]] = []
    for hits, total in zip(right, answered, strict=True):
        blocks.append([float(hits), float(total), 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return np.concatenate([np.full(int(size), hits / total) for hits, total, size in blocks])


def _deviance(right: Array | NDArray[np.int64], answered: NDArray[np.int64], share: Array) -> Array:
    """Return twice the log likelihood ratio to the saturated model, summed over the last axis."""
    wrong = answered - right
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(right > 0, right * np.log(right / np.maximum(answered * share, 1e-12)), 0.0)
        misses = np.where(wrong > 0, wrong * np.log(wrong / np.maximum(answered * (1.0 - share), 1e-12)), 0.0)
    return np.asarray(2.0 * (hits + misses).sum(axis=-1))


def _share_at_least(draws: Array, observed: Array) -> float:
    """Return (r + 1) / (n + 1), r draws being at least as large (Davison and Hinkley 1997, 4.25)."""
    reached = int((draws >= observed - 1e-9).sum())
    return (reached + 1) / (len(draws) + 1)


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
