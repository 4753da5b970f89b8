"""Figures of questions that were asked several times: means, pass@k, pass^k, majority votes, and where the variance comes from."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, comb

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.scoring.rules.inspect_scorers import REDUCER
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics.clusters import cluster_sums_of
from snellen.scoring.statistics.intervals import cluster_word, coverage, mean_of, scored, wilson
from snellen.types import Metric

HALF_INTERVAL = "repeats_to_halve_interval"
FEW = 5.0
"""Expected questions of the rarer kind below which an interval is not narrower than that of as many single replies."""


class Spread(Struct, frozen=True):
    """Variance of scores, split by its source.

    Attributes:
        between: variance of the questions' true means; more questions lower its part of the error.
        within: variance of repeats of one question about its mean; more repeats lower its part of the error.
        questions: how many different questions.
        repeats: rows a question, on average.
    """

    between: float
    within: float
    questions: int
    repeats: float


def spread(scores: Scores) -> Spread | None:
    """Return variance between and within questions; None if no question was repeated, or there is only one question.

    Within: pooled sample variance of repeats. Between: the variance of question means less the part of it that
    repeats explain, (MSB - MSW) / n0, floored at 0; repeats may differ in number from question to question.

    Source: one-way random effects, Searle, Casella and McCulloch 1992, Variance Components, section 3.6; the two
    parts of an evaluation's error in Miller 2024, arXiv 2411.00640, section 3.
    """
    value, mask = scored(scores)
    value = value[mask]
    if not len(value):
        return None
    _, index, counts = np.unique(scores.question[mask], return_inverse=True, return_counts=True)
    rows, questions = len(value), len(counts)
    if questions < 2 or rows == questions:
        return None
    means = np.bincount(index, weights=value) / counts
    within = float(((value - means[index]) ** 2).sum()) / (rows - questions)
    grand = float(value.mean())
    msb = float((counts * (means - grand) ** 2).sum()) / (questions - 1)
    n0 = (rows - float((counts**2).sum()) / rows) / (questions - 1)
    above = msb - within
    between = above / n0 if above > 1e-12 * msb else 0.0  # equal but for rounding
    return Spread(between, within, questions, rows / questions)


def repeat_metrics(scores: Scores) -> list[Metric]:
    """Return the figures of repeated questions; empty if no question was repeated.

    With K the largest number of replies a question and k = 1, 2, 4, … K:

    - `avg@K`: the mean over questions of the mean of their replies.
    - `pass@k`: the chance that one of k replies is right, 1 - C(n - c, k) / C(n, k) for c right ones of n (Chen et al. 2021,
      arXiv 2107.03374, equation 1). Right is a score of 1.
    - `pass^k`: the chance that all of k replies are right, C(c, k) / C(n, k) (Yao et al. 2024, arXiv 2406.12045).
    - `majority@k`: the score of the answer that most of the first k replies give; of equally frequent ones the earliest.
      Replies that could not be read do not vote; a question without a vote scores 0.
    - `variance/…` and `repeats_to_halve_interval`, the number of replies a question with which the interval of the mean
      would be half as wide; without a value where no number is enough.

    Each question counts once and intervals are those of questions. A question with fewer than k scored replies is left
    out and lowers the coverage. Scores beyond 0 to 1 have neither pass@k, pass^k nor votes.
    """
    variances = spread(scores)
    if variances is None:
        return []
    value, mask = scored(scores)
    _, first, index = np.unique(scores.question, return_index=True, return_inverse=True)
    count = np.bincount(index, weights=mask).astype(np.int64)
    most, group, word = int(count.max()), scores.group[first], cluster_word(scores)
    expected = _questions(scores, most)

    def by_question(name: str, values: NDArray[np.float64], known: NDArray[np.bool_]) -> Metric:
        return _as_few(mean_of(name, values[known], group[known], expected=expected, cluster=word))

    total = np.bincount(index[mask], weights=value[mask], minlength=len(first))
    mean = by_question(f"avg@{most}", total / np.maximum(count, 1), count > 0)
    metrics = [structs.replace(mean, chance=guessing(scores))]
    if value[mask].min() >= 0.0 and value[mask].max() <= 1.0:
        right = np.bincount(index[mask & (value == 1.0)], minlength=len(first))
        steps = sorted({most, *(2**step for step in range(most.bit_length()))})
        enough = {k: count >= k for k in steps}
        metrics += [by_question(f"pass@{k}", 1.0 - _share(count - right, count, k), enough[k]) for k in steps]
        metrics += [by_question(f"pass^{k}", _share(right, count, k), enough[k]) for k in steps[1:]]
        if scores.answer is not None:
            metrics += [
                by_question(f"majority@{k}", *_majority(scores, scores.answer, value, mask, index, k))
                for k in steps[1:]
            ]
    rows = int(mask.sum())
    covered = coverage(rows, scores.expected)
    for part, amount in (("between", variances.between), ("within", variances.within)):
        metrics.append(
            Metric(f"variance/{part}_questions", amount, rows, None, "variance", covered, lower_is_better=True)
        )
    whole = cluster_sums_of(value[mask], scores.group[mask]).precision().variance
    by_chance = variances.within / rows
    shrinking = by_chance - 0.75 * whole
    needed = float(ceil(by_chance * variances.repeats / shrinking - 1e-9)) if shrinking > 0.0 else None
    metrics.append(Metric(HALF_INTERVAL, needed, rows, None, "repeats", covered, lower_is_better=True))
    return metrics


def reduced(scores: Scores, how: str) -> Scores:
    """Return one row for each question, whose score is made of those of its repeats.

    Args:
        scores: rows with scores, repeats of a question among them.
        how: `max`, `median`; `mode` (the most frequent score; of equally frequent ones the earliest), `pass_at_K` (the chance
            that one of K replies is right) or `at_least_K` (1 if K replies are right). Right is a score of 1.

    Raises:
        ValueError: it is none of these.

    Source: the reducers of inspect_ai 0.3.285; pass@k as in `repeat_metrics`.
    """
    known = REDUCER.fullmatch(how)
    if known is None:
        raise ValueError(
            f"{how!r} is no way to reduce repeats; max, mode, median, pass_at_K or at_least_K was expected"
        )
    value, mask = scored(scores)
    rows = scores.select(mask)
    _, first, index = np.unique(rows.question, return_index=True, return_inverse=True)
    counts = np.bincount(index)
    ordered = value[mask][np.lexsort((rows.repeat, index))]
    parts = np.split(ordered, np.cumsum(counts)[:-1])
    made = np.array([_of_one(own, how, int(known[1] or 1)) for own in parts])
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[first] = True
    expected = _questions(scores, int(counts.max(initial=1)))
    return replace(rows.select(chosen), value=made[np.argsort(first)], expected=expected, missing=None)


def _of_one(own: NDArray[np.float64], how: str, k: int) -> float:
    right = int((own >= 1.0).sum())
    if how == "max":
        return float(own.max())
    if how == "median":
        return float(np.median(own))
    if how == "mode":
        values = own.tolist()
        return float(max(dict.fromkeys(values), key=values.count))
    if how.startswith("at_least"):
        return float(right >= k)
    wrong = len(own) - right
    return 1.0 if wrong < k else 1.0 - comb(wrong, k) / comb(len(own), k)


def _questions(scores: Scores, most: int) -> int:
    """Return how many questions a complete run has: replies that failed or are still to come make no more of them."""
    question, planned = scores.question, max(most, 1 + int(scores.repeat.max()))
    if scores.missing is not None and len(scores.missing):
        question = np.concatenate([question, scores.missing.question])
        planned = max(planned, 1 + int(scores.missing.repeat.max()))
    return max(len(np.unique(question)), round(scores.expected / planned))


def _as_few(metric: Metric) -> Metric:
    """Widen the interval of a mean near 0 or 1 to that of right and wrong questions.

    Replies of a question that seldom differ do not show how many such questions there are. With under FEW of them
    expected, the spread that was seen is too small.
    """
    if metric.value is None or metric.ci95 is None or metric.interval is None:
        return metric
    size = metric.interval.effective or metric.n
    if size * min(metric.value, 1.0 - metric.value) >= FEW:
        return metric
    low, high = wilson(min(1.0, max(0.0, metric.value)), size)[:2]
    return structs.replace(metric, ci95=(min(low, metric.ci95[0]), max(high, metric.ci95[1])))


def _share(some: NDArray[np.int64], of: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return C(some, k) / C(of, k) for [q] counts, exact before the division; 0 where `of` is below k."""
    pairs, place = np.unique(np.stack([some, of], axis=1), axis=0, return_inverse=True)
    shares = [comb(a, k) / comb(b, k) if b >= k else 0.0 for a, b in pairs.tolist()]
    return np.array(shares)[place.reshape(-1)]


def _majority(
    scores: Scores,
    answer: NDArray[np.int64],
    value: NDArray[np.float64],
    mask: NDArray[np.bool_],
    index: NDArray[np.intp],
    k: int,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the score of each question's most frequent answer among its first k replies, [q], and where all k are scored."""
    questions = int(index.max()) + 1
    repeat = scores.repeat
    early = mask & (repeat < k)
    known = np.bincount(index[early], minlength=questions) == k
    voters = np.flatnonzero(early & ~scores.has("invalid") & ~scores.has("error"))
    voters = voters[np.lexsort((repeat[voters], answer[voters], index[voters]))]
    _, first, votes = np.unique(
        np.stack([index[voters], answer[voters]], axis=1), axis=0, return_index=True, return_counts=True
    )
    leading = voters[first]  # the earliest reply of each answer
    leading = leading[np.lexsort((repeat[leading], -votes, index[leading]))]
    _, winner = np.unique(index[leading], return_index=True)
    result = np.zeros(questions)
    result[index[leading[winner]]] = value[leading[winner]]
    return result, known
