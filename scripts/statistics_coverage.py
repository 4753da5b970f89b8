"""How often each kind of 95 % interval holds the true value, and how often a detectable difference is detected, by simulation.

Usage: python scripts/statistics_coverage.py [--draws 1000] [--jobs 2] [--family NAME ...]

Writes docs/statistics-coverage.md and docs/images/statistics-coverage.svg. A cell is a family of intervals, a design and true
values; its coverage is the share of experiments with an interval whose interval holds the truth. tests/scoring draws a small
grid of the same cells.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.scores import Column, Scores
from snellen.scoring.statistics import compare, interval, of_sums, prediction_powered, repeat_metrics
from snellen.scoring.statistics.agreement import cohen_kappa, error_consistency, krippendorff_alpha
from snellen.scoring.statistics.averages import mean_of_independent
from snellen.scoring.statistics.bootstrap import calibration_error, correlations
from snellen.scoring.statistics.distributions import fair_coin_p
from snellen.scoring.statistics.intervals import interval_or_reason, mover, wilson
from snellen.scoring.statistics.paired import sign_flip_p, smallest_by_flips, smallest_detectable
from snellen.scoring.statistics.roc import roc_area

ROOT = Path(__file__).parents[1]
LEAST, CLEAR, POWER = 0.93, 0.945, (0.79, 0.82)
Ends = tuple[float, float] | None
Experiment = Callable[[np.random.Generator], tuple[float, Ends]]
"""Draws one experiment: the true value and the interval, None without one. A power cell's truth is 0 and its interval tells
whether the difference was found."""

DESIGNS: dict[str, list[int]] = {
    "4 of 5": [5] * 4,
    "6 of 5": [5] * 6,
    "10 of 5": [5] * 10,
    "10 of 20": [20] * 10,
    "20 of 2": [2] * 20,
    "20 of 20": [20] * 20,
    "50 of 4": [4] * 50,
    "200 of 2": [2] * 200,
    "19 of 1, one of 40": [1] * 19 + [40],
    "9 of 2, one of 60": [2] * 9 + [60],
    "30 of 1, three of 30": [1] * 30 + [30] * 3,
    "100 of 1, five of 20": [1] * 100 + [20] * 5,
    "sizes 1, 2, 4 … 64": [2**k for k in range(7)],
    "sizes 1 to 20": list(range(1, 21)),
}
SHARES = (0.02, 0.05, 0.2, 0.5, 0.8, 0.95, 0.98)


@dataclass(frozen=True)
class Cell:
    """One design with its true values."""

    family: str
    design: str
    values: str
    draw: Experiment


def _cluster_shares(rng: np.random.Generator, share: float, alike: float, clusters: int) -> NDArray[np.float64]:
    """Return [clusters] true shares of mean `share`; `alike` is the correlation of two rows of a cluster."""
    if alike == 0.0:
        return np.full(clusters, share)
    if alike == 1.0:
        return (rng.random(clusters) < share).astype(np.float64)
    odds = 1.0 / alike - 1.0
    return rng.beta(share * odds, (1.0 - share) * odds, clusters)


def _single(rng: np.random.Generator, n: int, low: float, high: float) -> tuple[float, Ends]:
    share = rng.uniform(low, high)
    return share, wilson(rng.binomial(n, share) / n, n)


def _clustered(rng: np.random.Generator, sizes: Sequence[int], share: float, alike: float) -> tuple[float, Ends]:
    group = np.repeat(np.arange(len(sizes)), sizes)
    right = rng.random(len(group)) < _cluster_shares(rng, share, alike, len(sizes))[group]
    return share, interval(right.astype(np.float64), group)


def _graded(rng: np.random.Generator, n: int, a: float, b: float) -> tuple[float, Ends]:
    return a / (a + b), interval(np.round(rng.beta(a, b, n), 2), np.arange(n))


def _macro(
    rng: np.random.Generator, sizes: Sequence[int], share: float, spread: float, shared: bool
) -> tuple[float, Ends]:
    shares = np.clip(share + spread * np.linspace(-1.0, 1.0, len(sizes)), 0.01, 0.99)
    strata = np.repeat(np.arange(len(sizes)), sizes)
    values = (rng.random(len(strata)) < shares[strata]).astype(np.float64)
    group = np.arange(len(strata)) // 2 if shared else np.arange(len(strata))
    return float(shares.mean()), interval_or_reason(values, group, strata=strata)[0]


UNBOUNDED: dict[str, tuple[Callable[[np.random.Generator, int], NDArray[np.float64]], float]] = {
    "lognormal": (lambda rng, n: rng.lognormal(0.0, 1.0, n), float(np.exp(0.5))),
    "lognormal, sigma 0.5": (lambda rng, n: rng.lognormal(0.0, 0.5, n), float(np.exp(0.125))),
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 1.0),
    "normal": (lambda rng, n: rng.normal(0.0, 1.0, n), 0.0),
    "Student t, 3 degrees": (lambda rng, n: rng.standard_t(3, n), 0.0),
}


def _unbounded(rng: np.random.Generator, name: str, n: int, size: int) -> tuple[float, Ends]:
    draw, truth = UNBOUNDED[name]
    values = draw(rng, n)
    if size > 1:  # half of a row is that of its cluster
        values = 0.5 * np.repeat(draw(rng, n // size + 1), size)[:n] + 0.5 * values
    return truth, interval_or_reason(values, np.arange(n) // size, bounded=False)[0]


def _verdict_pairs(
    rng: np.random.Generator, sizes: Sequence[int], discordance: float, difference: float, alike: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Return two runs' verdicts, and clusters: in a cluster, either run is better in a drawn share of the rows."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    shares = np.array([(discordance + difference) / 2, (discordance - difference) / 2, 1.0 - discordance])
    if alike:
        drawn = rng.gamma(np.maximum(shares * (1.0 / alike - 1.0), 1e-9), size=(len(sizes), 3))
        each = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-300)
    else:
        each = np.tile(shares, (len(sizes), 1))
    at = rng.random(len(group))
    first = at < each[group, 0]
    second = (at >= each[group, 0]) & (at < each[group, 0] + each[group, 1])
    both = ~first & ~second & (rng.random(len(group)) < 0.5)
    return (first | both).astype(np.float64), (second | both).astype(np.float64), group


def _paired(
    rng: np.random.Generator, sizes: Sequence[int], discordance: float, difference: float, alike: float
) -> tuple[float, Ends]:
    a, b, group = _verdict_pairs(rng, sizes, discordance, difference, alike)
    return difference, compare(a, b, group, flips=0).ci95


def _kappa(rng: np.random.Generator, n: int, wrong: float, other: float, kappa: float, size: int) -> tuple[float, Ends]:
    room = wrong + other - 2.0 * wrong * other
    both = wrong * other + kappa * room / 2.0
    cells = np.array([both, wrong - both, other - both, 1.0 - wrong - other + both])
    drawn = rng.choice(4, n // size, p=np.clip(cells, 0.0, 1.0) / np.clip(cells, 0.0, 1.0).sum()).repeat(size)
    return kappa, error_consistency(drawn < 2, drawn % 2 == 0, np.arange(n) // size).ci95


def _reviewers(
    rng: np.random.Generator, n: int, shares: Sequence[float], kappa: float, alpha: bool
) -> tuple[float, Ends]:
    first = rng.choice(len(shares), n, p=shares)
    second = np.where(rng.random(n) < kappa, first, rng.choice(len(shares), n, p=shares))
    if alpha:
        return kappa, krippendorff_alpha([{"a": str(a), "b": str(b)} for a, b in zip(first, second, strict=True)]).ci95
    return kappa, cohen_kappa(list(map(str, first)), list(map(str, second))).ci95


def _roc(rng: np.random.Generator, right: int, wrong: int, area: float, spread: float, size: int) -> tuple[float, Ends]:
    shift = float(np.sqrt(1.0 + spread**2)) * NormalDist().inv_cdf(area)
    predictor = np.concatenate([rng.normal(shift, spread, right), rng.normal(0.0, 1.0, wrong)]).repeat(size)
    return area, roc_area(
        predictor, np.arange(right + wrong).repeat(size) < right, np.arange(right + wrong).repeat(size)
    ).ci95


def _f1(rng: np.random.Generator, clusters: int, size: int) -> tuple[float, Ends]:
    group = np.repeat(np.arange(clusters), size)
    ease = rng.beta(3.0, 2.0, clusters)[group]
    found, named = (rng.random(len(group)) < ease).astype(np.float64), (rng.random(len(group)) < 0.6).astype(np.float64)
    columns = np.stack([found * named, found, named], axis=1)
    return 0.6, of_sums(columns, group, lambda sums: 2.0 * sums[:, 0] / (sums[:, 1] + sums[:, 2]), replicates=500)[1]


def _audited(rng: np.random.Generator, reviews: int, share: float, errors: float) -> tuple[float, Ends]:
    truth = (rng.random(1_000) < share).astype(np.float64)
    automatic = np.where(rng.random(1_000) < errors, 1.0 - truth, truth)
    reviewed = rng.choice(1_000, reviews, replace=False)
    return share, prediction_powered(automatic, reviewed, truth[reviewed]).ci95


def _benchmarks(rng: np.random.Generator, sizes: Sequence[int], share: float) -> tuple[float, Ends]:
    shares = np.clip(share + 0.1 * np.linspace(-1.0, 1.0, len(sizes)), 0.02, 0.98)
    right = rng.binomial(sizes, shares)
    ends = [wilson(k / n, n) for k, n in zip(right, sizes, strict=True)]
    return float(shares.mean()), mean_of_independent([k / n for k, n in zip(right, sizes, strict=True)], ends).ci95


def _correlated(rng: np.random.Generator, n: int, r: float) -> tuple[float, Ends]:
    x = rng.normal(size=n)
    return r, correlations(x.tolist(), (r * x + np.sqrt(1 - r * r) * rng.normal(size=n)).tolist(), cluster="class")[
        0
    ].ci95


def _repeated(
    rng: np.random.Generator, figure: str, clusters: int, size: int, low: float, high: float, alike: float
) -> tuple[float, Ends]:
    """Draw 8 replies of each question, whose chance to be right is beta-distributed; three in ten share their cluster's."""
    from scipy.special import betaln
    from scipy.stats import betabinom

    k, share, odds = int(figure[-1]), rng.uniform(low, high), 1.0 / alike - 1.0
    a, b = share * odds, (1.0 - share) * odds
    truth = {
        "avg@": share,
        "pass@": 1.0 - float(np.exp(betaln(a, b + k) - betaln(a, b))),
        "pass^": float(np.exp(betaln(a + k, b) - betaln(a, b))),
        "majority@": float(
            betabinom.sf(k // 2, k, a, b) + (0.5 * betabinom.pmf(k // 2, k, a, b) if k % 2 == 0 else 0.0)
        ),
    }[figure[:-1]]
    question = np.arange(clusters * size)
    chance = np.where(
        (rng.random(clusters) < (0.3 if size > 1 else 0.0)).repeat(size),
        rng.beta(a, b, clusters).repeat(size),
        rng.beta(a, b, clusters * size),
    )
    right = (rng.random((len(question), 8)) < chance[:, None]).ravel()
    repeat = Column(np.tile(np.arange(8, dtype=np.int32), len(question)), tuple("01234567"))
    rows = Scores(
        *(right.astype(np.float64), (~right).astype(np.uint8), (question // size).repeat(8), question.repeat(8)),
        *({"repeat": repeat}, len(right)),
        answer=right.astype(np.int64),
    )
    return truth, next(metric.ci95 for metric in repeat_metrics(rows) if metric.name == figure)


def _independent(rng: np.random.Generator, sizes: tuple[int, int], shares: tuple[float, float]) -> tuple[float, Ends]:
    seen = [rng.binomial(n, share) / n for n, share in zip(sizes, shares, strict=True)]
    ends = [wilson(share, n) for n, share in zip(sizes, seen, strict=True)]
    return shares[0] - shares[1], mover(seen, ends, (1.0, -1.0))


CALIBRATED: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "calibrated": lambda confidence: confidence,
    "0.1 too sure": lambda confidence: np.maximum(confidence - 0.1, 0.0),
    "0.3 too sure": lambda confidence: np.maximum(confidence - 0.3, 0.0),
    "half as steep": lambda confidence: 0.25 + confidence / 2.0,
}


def _in_bins(confidence: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    columns = np.zeros((len(values), 10))
    columns[np.arange(len(values)), np.minimum((confidence * 10.0).astype(np.int64), 9)] = values
    return columns


def _calibration(
    rng: np.random.Generator, name: str, a: float, b: float, clusters: int, size: int
) -> tuple[float, Ends]:
    """Draw answers with beta-distributed confidence; the rows of a cluster share it, and half of them their luck."""
    sure, fine = rng.beta(a, b, clusters).repeat(size), np.linspace(0.0, 1.0, 20_001)[1:]
    luck = np.where(
        rng.random(len(sure)) < (0.5 if size > 1 else 0.0), rng.random(clusters).repeat(size), rng.random(len(sure))
    )
    weights = fine ** (a - 1.0) * (1.0 - fine) ** (b - 1.0) / (fine ** (a - 1.0) * (1.0 - fine) ** (b - 1.0)).sum()
    truth = np.abs(_in_bins(fine, weights * (CALIBRATED[name](fine) - fine)).sum(axis=0)).sum()
    place = np.minimum((sure * 10.0).astype(np.int64), 9)
    return float(truth), calibration_error(
        sure, luck < CALIBRATED[name](sure), place, 10, np.arange(clusters).repeat(size)
    )[1]


FOUND, MISSED = (-1.0, 1.0), (1.0, 2.0)


def _mcnemar(rng: np.random.Generator, n: int, discordance: float) -> tuple[float, Ends]:
    least = smallest_detectable(n, discordance)
    if least is None:
        return 0.0, None
    share = max(discordance, least)
    wins, losses, _ = rng.multinomial(n, [(share + least) / 2, (share - least) / 2, 1.0 - share])
    return 0.0, FOUND if fair_coin_p(int(wins), int(losses)) < 0.05 else MISSED


def _flips(rng: np.random.Generator, clusters: int) -> tuple[float, Ends]:
    least = smallest_by_flips(clusters, clusters - 1.0, clusters**-0.5)
    if least is None:
        return 0.0, None
    return 0.0, FOUND if sign_flip_p(
        rng.normal(least, 1.0, clusters), flips=1_000, seed=int(rng.integers(2**31))
    ) < 0.05 else MISSED


def cells() -> Iterator[Cell]:
    """Yield every cell."""

    def made(family: str, design: Any, values: Any, draw: Callable[..., tuple[float, Ends]], *given: Any) -> Cell:
        return Cell(family, str(design), str(values), lambda rng: draw(rng, *given))

    for n, (low, high) in itertools.product(
        (5, 10, 20, 50, 100, 300, 1_000), ((0.02, 0.1), (0.1, 0.3), (0.3, 0.7), (0.7, 0.9), (0.9, 0.98))
    ):
        yield made("share, every row alone", f"n = {n}", f"{low} to {high}", _single, n, low, high)
    for name, share, alike in itertools.product(DESIGNS, SHARES, (0.0, 0.1, 0.3, 0.6, 1.0)):
        yield made(
            "share, rows in clusters", name, f"{share}, correlation {alike}", _clustered, DESIGNS[name], share, alike
        )
    for n, (a, b) in itertools.product(
        (4, 8, 15, 30, 100), ((1.0, 1.0), (0.2, 0.2), (4.0, 0.5), (2.0, 0.2), (0.3, 3.0))
    ):
        yield made("graded scores", f"n = {n}", f"beta({a}, {b})", _graded, n, a, b)
    for sizes, share, spread, shared in itertools.product(
        ([500, 5], [100, 20, 3], [50] * 3, [5] * 30, [2] * 40, [1, 200], list(range(1, 31)), [4] * 60),
        (0.1, 0.5, 0.8, 0.95), (0.0, 0.04), (False, True),
    ):  # fmt: skip
        words = f"{min(sizes)} to {max(sizes)} rows in {len(sizes)} groups{', clusters of 2' if shared else ''}"
        yield made("macro mean", words, f"{share} ± {spread}", _macro, sizes, share, spread, shared)
    for name, n, size in itertools.product(UNBOUNDED, (5, 10, 12, 20, 30, 50, 100, 300), (1, 2)):
        yield made("scores without bounds", f"n = {n} in clusters of {size}", name, _unbounded, name, n, size)
    for n, discordance, part in itertools.product((5, 10, 20, 50, 100, 300), (0.03, 0.1, 0.3, 0.6), (0.0, 0.5, 0.9)):
        difference = round(discordance * part, 3)
        yield made(
            "paired difference, every row alone",
            f"n = {n}",
            f"{difference} of {discordance}",
            _paired,
            [1] * n,
            discordance,
            difference,
            0.0,
        )
    for name, discordance, part, alike in itertools.product(
        DESIGNS, (0.03, 0.1, 0.3, 0.6), (0.0, 0.5, 0.9), (0.0, 0.3, 0.9)
    ):
        difference = round(discordance * part, 3)
        yield made(
            "paired difference, clusters",
            name,
            f"{difference} of {discordance}, correlation {alike}",
            _paired,
            DESIGNS[name],
            discordance,
            difference,
            alike,
        )
    for n, (wrong, other), kappa, size in itertools.product(
        (10, 20, 50, 100, 300), ((0.5, 0.5), (0.3, 0.4), (0.1, 0.1), (0.05, 0.05)), (0.0, 0.4, 0.8), (1, 2)
    ):
        if kappa * (wrong + other - 2 * wrong * other) / 2 + wrong * other <= min(wrong, other):
            yield made(
                "error consistency (kappa)",
                f"n = {n} in clusters of {size}",
                f"{kappa}, errors {wrong} and {other}",
                _kappa,
                n,
                wrong,
                other,
                kappa,
                size,
            )
    for n, shares, kappa, alpha in itertools.product(
        (6, 10, 20, 50, 100),
        ((0.5, 0.5), (0.9, 0.1), (0.6, 0.3, 0.1), (0.5, 0.2, 0.15, 0.1, 0.05)),
        (0.0, 0.4, 0.8),
        (False, True),
    ):
        family = "reviewers' alpha" if alpha else "reviewers' kappa"
        yield made(
            family,
            f"n = {n}, {len(shares)} labels",
            f"{kappa}, first label {shares[0]}",
            _reviewers,
            n,
            shares,
            kappa,
            alpha,
        )
    for (right, wrong), area, spread, size in itertools.product(
        ((5, 5), (10, 3), (25, 5), (15, 15), (90, 10), (50, 50)), (0.5, 0.75, 0.9, 0.97), (1.0, 2.5), (1, 3)
    ):
        yield made(
            "area under the ROC curve",
            f"{right} right, {wrong} wrong, each {size} times",
            f"{area}, spread {spread}",
            _roc,
            right,
            wrong,
            area,
            spread,
            size,
        )
    for clusters, size in itertools.product((5, 10, 20, 50, 200), (1, 4)):
        yield made("composite (F1) by bootstrap", f"{clusters} clusters of {size}", 0.6, _f1, clusters, size)
    for reviews, share, errors in itertools.product((20, 50, 100, 300), (0.5, 0.7, 0.9), (0.02, 0.1, 0.3)):
        yield made(
            "audited score",
            f"{reviews} of 1,000 reviewed",
            f"{share}, {errors} wrong",
            _audited,
            reviews,
            share,
            errors,
        )
    for sizes, share in itertools.product(([100] * 3, [1_000, 50], [20] * 5, [500, 100, 30, 1_000]), (0.15, 0.5, 0.85)):
        yield made(
            "mean of benchmarks", f"{len(sizes)} of {min(sizes)} to {max(sizes)} rows", share, _benchmarks, sizes, share
        )
    for n, r in itertools.product((6, 10, 20, 50, 200), (0.0, 0.5, 0.9)):
        yield made("correlation over classes", f"{n} classes", r, _correlated, n, r)
    for sizes, shares in itertools.product(
        ((10, 10), (20, 60), (100, 100), (500, 30)), ((0.5, 0.5), (0.9, 0.6), (0.8, 0.75), (0.2, 0.05))
    ):
        yield made("difference of two samples", f"{sizes[0]} and {sizes[1]} rows", shares, _independent, sizes, shares)
    for name, (a, b), (clusters, size) in itertools.product(
        CALIBRATED,
        ((1.0, 1.0), (4.0, 2.0), (20.0, 2.0), (30.0, 1.0)),
        ((20, 1), (50, 1), (200, 1), (1_000, 1), (50, 4)),
    ):
        design = f"{clusters} clusters of {size}"
        yield made("calibration error", design, f"{name}, beta({a}, {b})", _calibration, name, a, b, clusters, size)
    for n, discordance in itertools.product((5, 10, 20, 30, 50, 100, 400, 2_000), (0.05, 0.1, 0.3, 0.6)):
        yield made("power: McNemar", f"n = {n}", f"discordance {discordance}", _mcnemar, n, discordance)
    for clusters in (5, 6, 7, 8, 10, 15, 20, 50, 200):
        yield made("power: sign flips", f"{clusters} clusters", "normal differences", _flips, clusters)
    for figure, (clusters, size), (low, high), alike in itertools.product(
        ("avg@8", "pass@2", "pass@4", "pass@8", "pass^2", "pass^8", "majority@4", "majority@8"),
        ((30, 1), (50, 1), (200, 1), (20, 5), (50, 4)), ((0.1, 0.3), (0.3, 0.7), (0.7, 0.9)), (0.2, 0.6),
    ):  # fmt: skip
        yield made(
            f"repeats: {figure[:-1]}k",
            f"{figure}, {clusters} clusters of {size}",
            f"{low} to {high}, correlation {alike}",
            *(_repeated, figure, clusters, size, low, high, alike),
        )


@dataclass(frozen=True)
class Measured:
    """What the draws of one cell showed."""

    family: str
    design: str
    values: str
    draws: int
    held: float
    given: float

    @property
    def is_power(self) -> bool:
        return self.family.startswith("power")

    @property
    def is_good(self) -> bool:
        """Return True if coverage or power is as promised, by two standard errors of the simulation."""
        slack = (
            2.0 * (0.8 * 0.2 / self.draws) ** 0.5
            if self.is_power
            else 2.0 * (LEAST * (1 - LEAST) / (self.draws * max(self.given, 1e-9))) ** 0.5
        )
        return self.given == 0.0 or (
            POWER[0] - slack <= self.held <= POWER[1] + slack if self.is_power else self.held >= LEAST - slack
        )


def measure(at: int, draws: int, more: int = 0) -> Measured:
    """Draw the experiments of a cell, by its number, and `more` of them where the first look close to what is promised."""
    cell = next(itertools.islice(cells(), at, None))
    rng = np.random.default_rng([20_261_128, at])
    held = given = done = 0
    is_power = cell.family.startswith("power")  # their goal is 3 points wide, and their experiments are short
    for part in (40 * draws,) if is_power else (draws, more):
        if done and given and held / given > CLEAR:
            break
        for _ in range(part):
            truth, ends = cell.draw(rng)
            if ends is not None:
                given += 1
                held += ends[0] - 1e-12 <= truth <= ends[1] + 1e-12
        done += part
    return Measured(cell.family, cell.design, cell.values, done, held / given if given else float("nan"), given / done)


def chosen(families: Sequence[str], one_in: int = 1) -> list[int]:
    """Return the numbers of the cells of these families, all of them for none; one in so many of each family."""
    by_family: dict[str, list[int]] = {}
    for at, cell in enumerate(cells()):
        if not families or cell.family in families:
            by_family.setdefault(cell.family, []).append(at)
    return sorted(at for group in by_family.values() for at in group[:: max(1, one_in)])


def page(measured: Sequence[Measured], draws: int) -> str:
    """Return docs/statistics-coverage.md."""
    lines = [
        "# Coverage of the intervals",
        "",
        f"`make coverage` draws {draws:,} experiments with known true values in each cell below ({5 * draws:,} where the first come close to 93 %) and counts how often the 95 % interval",
        "of Snellen's own functions holds the truth. Where too little is known there is no interval, with its reason; such experiments",
        "do not count. [Statistics](statistics.md) says which interval is used when.",
        "",
        "![Coverage of every cell](images/statistics-coverage.svg)",
        "",
        "| interval | cells | of them without any | mean coverage | lowest |",
        "|---|---:|---:|---:|---:|",
    ]
    powers = [
        "",
        "## Power",
        "",
        "| test | design | chance of detection (promised: 80 %) |",
        "|---|---|---:|",
    ]
    by_family: dict[str, list[Measured]] = {}
    for one in measured:
        by_family.setdefault(one.family, []).append(one)
    for family, every in by_family.items():
        known = [one for one in every if one.given]
        if every[0].is_power:
            designs = dict.fromkeys(one.design for one in every)
            for design in designs:
                held = [one.held for one in known if one.design == design]
                ends = dict.fromkeys(f"{100 * one:.1f}" for one in (min(held), max(held))) if held else {}
                text = f"{' to '.join(ends)} %" if ends else "none is detectable"
                powers.append(f"| {family.removeprefix('power: ')} | {design} | {text} |")
        elif known:
            low = min(one.held for one in known)
            mean = float(np.mean([one.held for one in known]))
            lines.append(
                f"| {family} | {len(every)} | {len(every) - len(known)} | {100 * mean:.1f} % | {100 * low:.1f} % |"
            )
    lines += [
        "",
        "The true share of a cell of single answers is drawn from a range. At one single share near 0 or 1 Wilson's interval holds",
        "less or more, as the counts are whole: at 0.98 of 50 answers 92.2 %.",
        f"A simulated share of 93 % has a standard error of {100 * (0.93 * 0.07 / (5 * draws)) ** 0.5:.1f} points.",
    ]
    return "\n".join([*lines, *powers, ""])


def draw_picture(measured: Sequence[Measured], file: Path) -> None:
    """Draw a point for each cell with an interval, a line for each family."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "snellen", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    families = list(dict.fromkeys(one.family for one in measured if not one.is_power))
    figure, axes = pyplot.subplots(figsize=(7.0, 0.28 * len(families) + 0.7))
    for row, family in enumerate(families):
        held = sorted(one.held for one in measured if one.family == family and one.given)
        axes.plot([100 * share for share in held], [row] * len(held), "|", color="#1f5f8b", ms=9, alpha=0.5)
    axes.set_yticks(range(len(families)), families)
    axes.invert_yaxis()
    axes.axvline(95, color="#888", lw=0.8)
    axes.axvline(100 * LEAST, color="#b03030", lw=0.8, ls="--")
    axes.set_xlabel("experiments whose 95 % interval holds the truth, per cent")
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})


def main(arguments: Sequence[str]) -> int:
    """Simulate, write the page and the picture, and name the cells that fall short; exit status 1 for any."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--family", action="append", default=[], help="only these, printed; nothing is written")
    given = parser.parse_args(arguments)
    with ProcessPoolExecutor(given.jobs) as pool:
        measured = list(
            pool.map(partial(measure, draws=given.draws, more=4 * given.draws), chosen(given.family), chunksize=4)
        )
    short = [one for one in measured if not one.is_good]
    if not given.family:
        (ROOT / "docs/statistics-coverage.md").write_text(page(measured, given.draws), encoding="utf-8")
        draw_picture(measured, ROOT / "docs/images/statistics-coverage.svg")
    else:
        print(page(measured, given.draws))
    for one in short:
        print(f"{one.family}: {one.design}; {one.values}: {one.held:.3f}")
    print(f"{len(measured)} cells, {len(short)} of them short")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
