"""Item response theory: abilities of models, difficulties of items, and the whole score that a few items tell.

The chance that model i answers item j correctly is 1 / (1 + exp(-(a_j * ability_i + d_j))), the two-parameter logistic
model (2PL). Over items, log a and d are normal; both means and the spread of d are fitted (a hierarchical prior). Items are
many and models few, so the items are integrated out and the abilities are estimated: EM with even grids of nodes.

Sources: the estimate of the whole score is p-IRT of tinyBenchmarks (Polo et al. 2024, arXiv 2402.14992, section 4.2):
observed answers, and the model's expectation for items that were not asked. Selection by Fisher information: ATLAS
(arXiv 2511.04689) and Fluid Benchmarking (arXiv 2509.11106). A partial credit y counts as y right and 1 - y wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.scores import Scores, question_code
from snellen.scoring.statistics.distributions import t_quantile
from snellen.scoring.statistics.intervals import scored

Floats = NDArray[np.float64]

PRIOR = 1.5
"""Spread of abilities that an estimate assumes, where the fitted models have 1: a checkpoint may lie outside of them."""
ABILITIES = np.linspace(-5.0, 5.0, 101)
_NODES = np.stack([axis.ravel() for axis in np.meshgrid(np.linspace(-2.5, 2.5, 9), np.linspace(-4.0, 4.0, 33))])
"""[2, nodes] standardised log a and d."""
_LOG_PRIOR = -0.5 * (_NODES**2).sum(0) - np.log(np.exp(-0.5 * (_NODES**2).sum(0)).sum())
SPREADS = (0.2, 0.35, 0.6, 1.0)
"""Spreads of log a that are tried; the one with the greatest marginal likelihood is taken. One that is too great makes items
that look telling by chance narrow the interval, and one that is too small widens the scores (docs/subset.md)."""
_SPREAD_OF_D = (0.2, 4.0)
LOG_A = 3.0
"""Bound of the mean of log a."""
FITTED_ITEMS = 5_000
"""Abilities and spreads are fitted on as many items; all items then get their own a and d."""
STEPS, TOLERANCE, CHUNK = 100, 2e-3, 10_000
AT_ONCE = 4
"""Items that an adaptive test chooses together, so that a few requests are in flight."""
_COARSE = ABILITIES[::4]
"""Abilities over which items are selected."""


@dataclass(frozen=True)
class ItemFit:
    """A fitted 2PL.

    Attributes:
        ability: [m] of the models; mean 0 and spread 1.
        center, spread: [2] of log a and d over items.
        a, d: [n] discrimination and intercept of each item; difficulty is -d / a.
        evidence: logarithm of the marginal likelihood: items integrated out, abilities at their estimates.
    """

    ability: Floats
    center: Floats
    spread: Floats
    a: Floats
    d: Floats
    evidence: float = 0.0

    def chances(self, items: NDArray[np.intp] | slice = slice(None), abilities: Floats = ABILITIES) -> Floats:
        """Return the chance of a correct answer, [items, abilities]."""
        return _chances(self.a[items], self.d[items], abilities)

    def sum_of_chances(self) -> Floats:
        """Return the expected number of correct answers over all items at each of ABILITIES, [101]."""
        starts = range(0, len(self.a), CHUNK)
        return np.asarray(np.sum([self.chances(slice(start, start + CHUNK)).sum(0) for start in starts], axis=0))


def _chances(a: Floats, d: Floats, abilities: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(np.outer(a, abilities) + d[:, None]), dtype=np.float64)


def _node_values(center: Floats, spread: Floats) -> tuple[Floats, Floats]:
    log_a, d = center[:, None] + spread[:, None] * _NODES
    return np.exp(log_a), d


def _posterior(scores: Floats, ability: Floats, center: Floats, spread: Floats) -> Floats:
    """Return the posterior weight of each node for each item, [n, nodes]; `scores` is [m, n] with NaN for no answer."""
    weight = _joint(scores, ability, center, spread)
    weight = np.exp(weight - weight.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True), dtype=np.float64)


def _joint(scores: Floats, ability: Floats, center: Floats, spread: Floats) -> Floats:
    """Return the logarithm of likelihood times prior of each node for each item, [n, nodes]."""
    from scipy.special import log_expit

    a, d = _node_values(center, spread)
    logit = np.outer(a, ability) + d[:, None]
    answered = ~np.isnan(scores)
    right = np.where(answered, scores, 0.0)
    return np.asarray(right.T @ log_expit(logit).T + (answered - right).T @ log_expit(-logit).T + _LOG_PRIOR)


def _start(scores: Floats, spread: float) -> tuple[Floats, Floats, Floats]:
    share = np.clip(np.nanmean(scores, axis=1), 0.02, 0.98)
    logit = np.log(share / (1.0 - share))
    ability = (logit - logit.mean()) / max(float(logit.std()), 0.3)
    return ability, np.array([-0.2, np.clip(logit.mean(), -2.0, 2.0)]), np.array([spread, 1.3])


def fit_items(
    scores: Floats,
    seed: int = 0,
    near: ItemFit | None = None,
    models: Sequence[int] = (),
    *,
    spread_of_log_a: float = 0.35,
) -> ItemFit:
    """Fit the 2PL with its hierarchical prior by EM over the items.

    Args:
        scores: [m, n] 0 to 1, NaN where a model has no answer.
        seed: draws the items on which abilities are fitted, of more than 5,000.
        near, models: a fit to begin with, and which of its models these are.
        spread_of_log_a: over items; that of `near` where one is given.
    """
    from scipy.special import logsumexp

    n = scores.shape[1]
    drawn = np.sort(np.random.default_rng(seed).choice(n, min(n, FITTED_ITEMS), replace=False))
    part = scores[:, drawn]
    ability, center, spread = _start(part, spread_of_log_a)
    if near is not None:
        ability, center, spread = near.ability[list(models)], near.center, near.spread
    answered = ~np.isnan(part)
    right, asked = np.where(answered, part, 0.0), answered.astype(np.float64)
    for _ in range(STEPS):
        before = np.concatenate([ability, center, spread])
        weight = _posterior(part, ability, center, spread)
        ability = _abilities(ability, right @ weight, asked @ weight, *_node_values(center, spread))
        share = weight.mean(axis=0)
        moved = _NODES @ share
        variance = _NODES**2 @ share - moved**2
        center = center + spread * moved
        spread = np.array([spread[0], np.clip(spread[1] * np.sqrt(variance[1]), *_SPREAD_OF_D)])
        # The scale is free: abilities have mean 0 and spread 1, and the items take up the rest.
        middle, scale = float(ability.mean()), max(float(ability.std()), 1e-3)
        log_a = float(
            np.clip(center[0] + np.log(scale), -LOG_A, LOG_A)
        )  # few answers would let it drift to no information
        center = np.array([log_a, center[1] + np.exp(center[0]) * middle])
        ability = (ability - middle) / scale
        if np.abs(np.concatenate([ability, center, spread]) - before).max() < TOLERANCE:
            break
    a, d = np.zeros(n), np.zeros(n)
    for start in range(0, n, CHUNK):
        here = slice(start, start + CHUNK)
        a[here], d[here] = _averaged_curves(_posterior(scores[:, here], ability, center, spread), center, spread)
    evidence = float(logsumexp(_joint(part, ability, center, spread), axis=1).sum())
    return ItemFit(ability, center, spread, a, d, evidence)


def _averaged_curves(weight: Floats, center: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return a and d of the curve nearest to each item's chance averaged over its posterior, `weight` of [n, nodes].

    Few models leave an item uncertain. Its posterior mean alone would be too steep a curve, so that answers to items that
    only seem telling would make an ability, and thereby an interval, too sure. Nearest is by squares of the logit, over
    the abilities that an estimate assumes.
    """
    from scipy.special import logit

    share = np.exp(-0.5 * (_COARSE / PRIOR) ** 2)
    share /= share.sum()
    averaged = logit(weight @ _chances(*_node_values(center, spread), _COARSE))
    return averaged @ (share * _COARSE) / (share @ _COARSE**2), averaged @ share


def _abilities(ability: Floats, right: Floats, asked: Floats, a: Floats, d: Floats) -> Floats:
    """Return the abilities with the greatest posterior under N(0, 1), by Newton steps; `right` and `asked` are [m, nodes]."""
    for _ in range(5):
        chance = _chances(a, d, ability).T
        slope = ((right - asked * chance) @ a) - ability
        curvature = (asked * chance * (1.0 - chance)) @ a**2 + 1.0
        ability = ability + np.clip(slope / curvature, -1.0, 1.0)
    return ability


def select_items(fit: ItemFit, size: int) -> NDArray[np.intp]:
    """Return the items that make the whole score surest over the models' abilities, [size], the most telling first.

    Each in turn is the one that lowers the mean over N(0, 1) of the variance of the whole score the most. That variance is
    the squared slope of the expected score over the Fisher information a² p (1 - p), summed over the items so far.
    """
    slope = np.gradient(fit.sum_of_chances(), ABILITIES)[::4]
    weight = slope**2 * np.exp(-0.5 * _COARSE**2)
    weight /= weight.sum()
    candidates = _candidates(fit, size)
    chance = fit.chances(candidates, _COARSE)
    information = fit.a[candidates, None] ** 2 * chance * (1.0 - chance)
    total = np.full(len(_COARSE), PRIOR**-2)
    selected: list[int] = []
    for _ in range(size):
        gain = (weight / total - weight / (total + information)).sum(axis=1)
        gain[selected] = -1.0
        selected.append(int(gain.argmax()))
        total = total + information[selected[-1]]
    return candidates[selected]


def _candidates(fit: ItemFit, size: int) -> NDArray[np.intp]:
    """Return the items that are among the `size` most informative ones at some ability, in order; few of a hundred thousand."""
    n = len(fit.a)
    if n <= CHUNK:
        return np.arange(n)
    best: set[int] = set()
    for ability in _COARSE:
        chance = _chances(fit.a, fit.d, np.array([ability]))[:, 0]
        best |= set(np.argsort(-(fit.a**2) * chance * (1.0 - chance), kind="stable")[:size].tolist())
    return np.array(sorted(best), dtype=np.intp)


COPY = 0.8
"""Concordance from which two models count as one: their scores differ on a fifth of the items, or fewer, on which two models
of their accuracies would that answered independently. Landis and Koch (1977) call it almost perfect; unrelated models have
about a half, since they find the same items hard."""


def counted_as(scores: Floats) -> list[int]:
    """Return for each model the first one before it that it hardly differs from, [m]; itself where there is none.

    Concordance is 1 - E(x - y)² / E(x - y')², where y' is y of an independent item: Cohen's kappa of right and wrong, the
    error consistency of Geirhos et al. 2020 (arXiv 2006.16736), and Lin's coefficient (Biometrics 45, 1989) for partial
    credits.

    Args:
        scores: [m, n] as for `fit_items`.
    """
    counted: list[int] = []
    for one, row in enumerate(scores):
        counted.append(one)
        for other in range(one):
            if counted[other] != other:
                continue
            both = ~np.isnan(row) & ~np.isnan(scores[other])
            x, y = row[both], scores[other][both]
            expected = x.var() + y.var() + (x.mean() - y.mean()) ** 2
            if ((x - y) ** 2).mean() <= (1.0 - COPY) * expected:
                counted[one] = other
                break
    return counted


def item_scores(scores: Scores, ids: Sequence[str]) -> Floats:
    """Return a run's score on each item, [items]: the mean over repeats, NaN where no request was answered or scored."""
    value, usable = scored(scores)
    usable &= ~scores.has("error")
    codes = np.array([question_code(name) for name in ids], dtype=np.int64)
    order = np.argsort(codes)
    place = np.searchsorted(codes, scores.question, sorter=order).clip(max=len(ids) - 1)
    at = order[place]
    usable &= codes[at] == scores.question
    count = np.bincount(at, weights=usable, minlength=len(ids))
    total = np.bincount(at, weights=np.where(usable, value, 0.0), minlength=len(ids))
    mean: Floats = np.divide(total, count, out=np.full(len(ids), np.nan), where=count > 0)
    return mean


@dataclass(frozen=True)
class WholeScore:
    """An estimate of the mean score over all items, and its standard error if the model held."""

    value: float
    error: float


def estimate_whole(
    a: Floats, d: Floats, rest: Floats, total: int, scores: Floats, outside: Floats | float = 0.0
) -> WholeScore | None:
    """Estimate the mean score over all items from the answers to some; None without any.

    Args:
        a, d: [k] of the items that were asked.
        rest: [101] expected mean score over the other items, at each of ABILITIES; 0 where there are none.
        total: number of all items.
        scores: [k] 0 to 1, NaN where there is no answer.
        outside: [101] variance of `rest`, from `variance_outside`.
    """
    answered = ~np.isnan(scores)
    if not answered.any():
        return None
    chance = _chances(a, d, ABILITIES)
    weight = ability_weights(chance[answered], scores[answered])
    others = total - len(a)
    not_asked = chance[~answered]
    whole = (scores[answered].sum() + others * rest + not_asked.sum(axis=0)) / total
    value = float(weight @ whole)
    # The answers that were not asked vary by p (1 - p) each; that of their mean p is the most that it can be.
    varying = others * rest * (1.0 - rest) + (not_asked * (1.0 - not_asked)).sum(axis=0)
    variance = (whole - value) ** 2 + varying / total**2 + outside * (others / total) ** 2
    return WholeScore(value, float((weight @ variance) ** 0.5))


def ability_weights(chance: Floats, scores: Floats) -> Floats:
    """Return the posterior weight of each of ABILITIES, [101], from [k, 101] chances of the items and [k] scores."""
    safe = np.clip(chance, 1e-12, 1.0 - 1e-12)
    log_weight = scores @ np.log(safe) + (1.0 - scores) @ np.log1p(-safe) - 0.5 * (ABILITIES / PRIOR) ** 2
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def next_items(
    a: Floats,
    d: Floats,
    scores: Mapping[int, float],
    count: int,
    enough: Callable[[Floats], bool] = lambda asked: False,
) -> list[int]:
    """Return the items that an adaptive test asks now, of `count` in all; none at its end.

    Four are chosen at a time: those with the greatest Fisher information over the abilities that fit the answers before.
    They follow from the answers alone, whatever their order.

    Args:
        a, d: [k] of all items of the test.
        scores: item to score, of the answers so far; NaN for a failed request.
        count: items to ask, at most k.
        enough: ends the test earlier, by the scores after each four items, [k] with NaN for those without one.
    """
    chance = _chances(a, d, ABILITIES)
    information = a[:, None] ** 2 * chance * (1.0 - chance)
    asked: list[int] = []
    while len(asked) < count:
        known = [item for item in asked if not np.isnan(scores[item])]
        weight = ability_weights(chance[known], np.array([scores[item] for item in known]))
        gain = information @ weight
        gain[asked] = -1.0
        opened = np.argsort(-gain, kind="stable")[: min(AT_ONCE, count - len(asked))].tolist()
        asked += opened
        if pending := [item for item in opened if item not in scores]:
            return pending
        if enough(np.array([scores[item] if item in asked else np.nan for item in range(len(a))])):
            break
    return []


@dataclass(frozen=True)
class LeftOut:
    """What leaving out each model in turn says of an estimator: fitted and selected without it, then asked about it.

    Attributes:
        error: [m] estimate minus the true mean score; without models that have no answer to the items.
        standard: [m] standard errors that the estimates gave.
        random: mean absolute error of the plain mean over random items, as many.
    """

    error: Floats
    standard: Floats
    random: float

    @property
    def mean_absolute(self) -> float:
        return float(np.abs(self.error).mean())

    @property
    def factor(self) -> float:
        """Return half the width of a 95 % interval in standard errors.

        Student's quantile with m - 1 degrees of freedom, times the root mean square of error / standard error where that
        exceeds 1: the 2PL does not hold exactly, and a few models may fit it by chance. Both are multiplied by the upper
        80 % bound of a spread that m models show.
        """
        return half_width(self.error / self.standard)

    @property
    def covered(self) -> int:
        """Return how many of the models lie in an interval whose width the other models set."""
        ratio = self.error / self.standard
        return sum(bool(abs(each) <= half_width(np.delete(ratio, at))) for at, each in enumerate(ratio))


def half_width(ratio: Floats) -> float:
    """Return half the width of a 95 % interval in standard errors, from errors / standard errors."""
    from scipy.special import gammaincinv

    degrees = len(ratio) - 1
    bound = (degrees / (2.0 * float(gammaincinv(degrees / 2.0, 0.2)))) ** 0.5
    return float(t_quantile(degrees) * max(1.0, np.sqrt((ratio**2).mean())) * bound)


def fit_folds(scores: Floats, seed: int = 0) -> tuple[ItemFit, list[ItemFit]]:
    """Return the fit of all models, and for each model that of the others, each by its likeliest spread of log a."""
    fits, folds = [fit_items(scores, seed, spread_of_log_a=spread) for spread in SPREADS], []
    for left in range(len(scores)):
        others = [at for at in range(len(scores)) if at != left]
        folds.append(likeliest([fit_items(scores[others], seed, whole, others) for whole in fits]))
    return likeliest(fits), folds


def likeliest(fits: Sequence[ItemFit]) -> ItemFit:
    """Return the fit with the greatest marginal likelihood."""
    return max(fits, key=lambda fit: fit.evidence)


def leave_one_out(scores: Floats, size: int, seed: int, folds: Sequence[ItemFit], draws: int = 200) -> LeftOut:
    """Estimate each model's mean score by a fit and a selection that were made without it.

    Args:
        scores: [m, n] as for `fit_items`.
        size: items of the subset.
        seed: of the random items.
        folds: [m] fits, each without one model.
        draws: random sets of items for each model.
    """
    rng = np.random.default_rng(seed)
    errors, standards, plain = [], [], []
    for answers, fit in zip(scores, folds, strict=True):
        selected = select_items(fit, size)
        rest = rest_of(fit, selected)
        estimate = estimate_whole(fit.a[selected], fit.d[selected], rest, len(answers), answers[selected])
        truth = float(np.nanmean(answers))
        errors.append(np.nan if estimate is None else estimate.value - truth)
        standards.append(np.nan if estimate is None else estimate.error)
        answered = answers[~np.isnan(answers)]
        means = [rng.choice(answered, min(size, len(answered)), replace=False).mean() for _ in range(draws)]
        plain.append(float(np.abs(np.array(means) - truth).mean()))
    known = ~np.isnan(errors)
    return LeftOut(np.array(errors)[known], np.array(standards)[known], float(np.mean(plain)))


def rest_of(fit: ItemFit, selected: NDArray[np.intp]) -> Floats:
    """Return the expected mean score over the items that are not selected, at each of ABILITIES, [101]."""
    others = len(fit.a) - len(selected)
    if not others:
        return np.zeros(len(ABILITIES))
    return np.asarray(np.clip((fit.sum_of_chances() - fit.chances(selected).sum(axis=0)) / others, 0.0, 1.0))


def variance_outside(fit: ItemFit, folds: Sequence[ItemFit], selected: NDArray[np.intp]) -> Floats:
    """Return the jackknife variance of `rest_of` at the ABILITIES beyond those of all fitted models, [101]; else 0.

    Between them leaving out one model tells the error. Beyond them the curves are extrapolated, and depend on single models.

    Args:
        fit: of all models.
        folds: [m] fits, each without one model.
        selected: items that are asked.
    """
    variance = (len(folds) - 1) * np.var([rest_of(fold, selected) for fold in folds], axis=0)
    inside = (fit.ability.min() <= ABILITIES) & (fit.ability.max() >= ABILITIES)
    return np.where(inside, 0.0, np.minimum(variance, 0.25))  # the most that a share between 0 and 1 can have
