"""Chance that a comparison of two models on a benchmark shows a difference of their accuracies, before any run.

One reply a question, every question alone: the exact power of the exact McNemar test. Clusters, partial credit or repeats:
paired t tests of resampled differences of two stored runs, moved to the wanted difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.engine.run_folder import RunSpec
from snellen.errors import DataError, UsageError
from snellen.runs import scoring
from snellen.runs.compare import same_questions
from snellen.runs.compared_runs import ComparedRun, open_runs, pair_scores, question_scores
from snellen.runs.settings import find_benchmark
from snellen.scoring.scores import cluster_index
from snellen.scoring.statistics import spread
from snellen.scoring.statistics.bootstrap import SEED
from snellen.scoring.statistics.distributions import t_shift
from snellen.scoring.statistics.paired import (
    LEVEL,
    MCNEMAR,
    PAIRED_T,
    POWER,
    Differences,
    compare_by_t,
    mcnemar_power,
    smallest_detectable,
)

DISCORDANCE, CHANCE = 0.2, 0.5
"""Assumed without stored runs: the share of questions on which exactly one of two models is right, and the part of it that
is chance, so that it shrinks with repeats."""
DRAWS = 1_000


class Power(Struct, frozen=True):
    """What a comparison of two models can show.

    Attributes:
        n: questions, in `clusters` independent ones.
        repeats: replies a question of either model.
        difference: of the two mean scores.
        power: chance that the test finds it at two-sided 5 %.
        smallest_detectable: the difference found with 80 % power; None if there is none.
        test: the test.
        assumed: what the figures rest on, in words.
        curve: pairs of a difference and its power.
    """

    n: int
    clusters: int
    repeats: int
    difference: float
    power: float
    smallest_detectable: float | None
    test: str
    assumed: str
    curve: Sequence[tuple[float, float]]


class _Stored(Struct, frozen=True):
    """Differences of two stored runs, by question, and their variance by chance for one reply of each."""

    delta: NDArray[np.float64]
    group: NDArray[np.int64]
    chance: float
    binary: bool


def power(
    benchmark: str | None = None,
    *,
    difference: float,
    repeats: int = 1,
    runs: Sequence[str | Path] = (),
    samples: int | None = None,
    discordance: float | None = None,
    profile: str | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Power:
    """Return the chance of finding a difference between two models on a benchmark.

    Args:
        benchmark: its name or file, for the number of questions.
        difference: of the two mean scores, above 0 and below 1.
        repeats: replies a question of either model, averaged.
        runs: two stored runs of the benchmark, whose differences stand for those of the two models.
        samples: number of questions; None: those of the benchmark, or of the stored runs.
        discordance: share of questions on which exactly one of the two is right; None: as stored, or 0.2.
        profile: as for `compare`.
        draws, seed: of the simulation.

    Raises:
        UsageError: no number of questions is given, a number is out of range, one run alone.
        DataError: the runs have no sample in common. DifferentSamplesError: they are of other questions.
    """
    if not 0.0 < difference < 1.0 or repeats < 1 or (discordance is not None and not difference <= discordance <= 1.0):
        raise UsageError(
            f"difference {difference}, discordance {discordance}, {repeats} repeats",
            "A difference lies between 0 and 1 (2 points: 0.02), a discordance between it and 1, and repeats are 1 or more.",
        )
    stored = _stored(runs, profile) if runs else None
    n = samples or (_size(benchmark) if benchmark is not None else None if stored is None else len(stored.delta))
    if n is None or n < 2:
        found = "is not known" if n is None else f"is {n}, and a comparison needs 2"
        raise UsageError(
            f"the number of questions {found}", "Name a benchmark, or pass --samples N or --from RUN twice."
        )
    if stored is not None and (repeats > 1 or not stored.binary or cluster_index(stored.group)[1] < len(stored.delta)):
        return _resampled(stored, n, difference, repeats, draws, seed)
    if stored is not None and discordance is None:
        discordance = max(float((stored.delta != 0.0).mean()), difference)
        assumed = f"as many differing answers as the stored runs have ({100 * discordance:.1f} %)"
    else:
        said = "assumed" if discordance is None else "given"
        discordance = max(DISCORDANCE if discordance is None else discordance, difference)
        assumed = f"one model right and the other wrong on {100 * discordance:.1f} % of the questions, {said}"
    if repeats == 1:
        return Power(
            *(n, n, 1, difference, mcnemar_power(n, discordance, difference), smallest_detectable(n, discordance)),
            *(MCNEMAR, assumed, [(x, mcnemar_power(n, max(discordance, x), x)) for x in _steps(difference)]),
        )
    error = (discordance * (1.0 - CHANCE + CHANCE / repeats) / n) ** 0.5
    assumed += f", {100 * CHANCE:.0f} % of them by chance"
    return Power(
        *(n, n, repeats, difference, _t_power(difference / error, n - 1.0), t_shift(n - 1.0, LEVEL, POWER) * error),
        *(PAIRED_T, assumed, [(x, _t_power(x / error, n - 1.0)) for x in _steps(difference)]),
    )


def _size(benchmark: str) -> int:
    spec = RunSpec(benchmark=benchmark, model="")
    return scoring.count(find_benchmark(spec, trust=True), spec.data)


def _steps(difference: float) -> list[float]:
    return list(dict.fromkeys(round(min(0.999, difference * step / 4), 6) for step in range(1, 13)))


def _t_power(shift: float, degrees: float) -> float:
    """Return the power of a two-sided t test for a difference of so many standard errors."""
    from scipy.special import nctdtr, stdtrit

    least = stdtrit(degrees, 1.0 - LEVEL / 2.0)
    missed, wrong_side = np.nan_to_num(
        [nctdtr(degrees, shift, least), nctdtr(degrees, shift, -least)]
    )  # NaN: below 1e-13
    return float(1.0 - missed + wrong_side)


def _stored(runs: Sequence[str | Path], profile: str | None) -> _Stored:
    """Return the differences of two runs, and the part of their variance that repeats of a question show."""
    if len(runs) != 2:
        raise UsageError(
            f"--from names {len(runs)} run{'s' * (len(runs) != 1)}; two were expected",
            "Pass --from RUN --from RUN, two runs of the benchmark.",
        )
    opened, name = open_runs(runs, profile)
    scores = [ComparedRun(run).scores(name) for run in opened]
    same_questions(ComparedRun(opened[0]), ComparedRun(opened[1]), force=False)
    pair = pair_scores(*map(question_scores, scores))
    if not len(pair):
        raise DataError("the two runs have no scored sample in common", "Pass two runs of the same benchmark.")
    if not (pair.other != pair.baseline).any():
        raise DataError(
            f"the two runs have the same score on each of {len(pair):,} questions, so that they do not show how much two "
            "models differ",
            "Pass runs of models that differ, or omit --from and pass --discordance SHARE.",
        )
    within = [spread(each) for each in scores]
    chance = sum(each.within for each in within if each is not None)
    values = np.concatenate([pair.baseline, pair.other])
    return _Stored(
        pair.other - pair.baseline, pair.group, chance, bool(np.isin(values, (0.0, 1.0)).all()) and not chance
    )


def _resampled(stored: _Stored, n: int, difference: float, repeats: int, draws: int, seed: int) -> Power:
    """Return the power of the paired t test over clusters drawn from those of two stored runs."""
    if repeats > 1 and not stored.chance:
        raise UsageError(
            "the stored runs have one reply a question, so that what repeats would change is not known",
            "Pass runs made with --repeats, or omit --from.",
        )
    index, clusters = cluster_index(stored.group)
    rows = np.split(np.argsort(index, kind="stable"), np.cumsum(np.bincount(index))[:-1])
    spread_now = float(stored.delta.var())
    wanted = max(0.0, spread_now - stored.chance) + stored.chance / repeats if stored.chance else spread_now
    delta = (stored.delta - stored.delta.mean()) * (wanted / spread_now if spread_now else 0.0) ** 0.5
    count = max(2, round(clusters * n / len(delta)))
    rng = np.random.default_rng(seed)
    steps = _steps(difference)
    found = np.zeros(len(steps))
    for _ in range(draws):
        drawn = [rows[at] for at in rng.integers(0, clusters, count)]
        values, groups = delta[np.concatenate(drawn)], np.repeat(np.arange(count), [len(each) for each in drawn])
        zero = np.zeros(len(values))
        found += [compare_by_t(values + step, zero, groups).p_value < LEVEL for step in steps]
    whole = Differences(delta, stored.group)
    error = whole.error * (clusters / count) ** 0.5
    degrees = whole.sums.degrees * count / clusters
    at = dict(zip(steps, (found / draws).tolist(), strict=True))
    return Power(
        *(n, count, repeats, difference, at[round(difference, 6)], t_shift(degrees, LEVEL, POWER) * error, PAIRED_T),
        *(f"differences of the stored runs, resampled {draws:,} times in whole clusters", list(at.items())),
    )


def draw(result: Power, file: Path) -> None:
    """Write a plot of the power against the difference (.svg, .png or .pdf by the file's suffix).

    Raises:
        UsageError: another suffix, or a folder that is not there or cannot be written to.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.0, 3.2))
    axes.plot([100 * x for x, _ in result.curve], [100 * y for _, y in result.curve], "-", color="#1f5f8b")
    axes.plot([100 * result.difference], [100 * result.power], "o", color="#1f5f8b")
    axes.axhline(100 * POWER, color="#888", lw=0.8, ls="--")
    axes.set_ylim(0, 101)
    axes.set_xlabel("difference of the two models, points")
    axes.set_ylabel("chance of finding it, %")
    axes.set_title(f"{result.n:,} questions, {result.repeats} replies each", fontsize=9)
    try:
        figure.savefig(file, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} cannot be written: {error}", "Name a .svg, .png or .pdf in a folder that exists."
        ) from error
    finally:
        pyplot.close(figure)
