"""Few-shot probes: the same test rows, n training rows a class, drawn several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.errors import UsageError
from snellen.features.probes import probe
from snellen.features.probes.protocol import draw_rows
from snellen.features.ranking.relevance import as_labels
from snellen.scoring.statistics import interval


class FewShot(Struct, frozen=True):
    """Accuracies of the tries with n rows a class.

    Attributes:
        n: rows a class.
        accuracies: one a try; try t draws with seed + t.
        mean, sd: over the tries; sd (n - 1) is None with one try. It is the spread of the draws, not of the test rows.
        ci95: of the mean, over the test rows as they might have been drawn otherwise; None with one test row.
        classes: that the training rows have.
        short: classes with fewer than n training rows, which gave all they have.
        unseen: test rows of classes without a training row; they count as wrong.
        not_chosen: tries in which no row could be held out, so that the penalty was not chosen.
    """

    n: int
    accuracies: tuple[float, ...]
    mean: float
    sd: float | None
    short: int
    ci95: tuple[float, float] | None
    classes: int
    unseen: int
    not_chosen: int


def few_shot(
    features: Any,
    labels: Any,
    train: np.ndarray,
    test: np.ndarray,
    *,
    ns: Sequence[int],
    tries: int = 3,
    seed: int = 0,
    **settings: Any,
) -> list[FewShot]:
    """Probe with n rows a class, for each n.

    Args:
        features, labels: as `probe` takes them, one label a row.
        train, test: row numbers; rows are drawn from train.
        settings: for `probe` (method, standardise, strengths).

    Raises:
        UsageError: n or tries below 1, or several labels a row.
    """
    known = as_labels(labels, len(features))
    if known.single is None or tries < 1 or any(n < 1 for n in ns):
        raise UsageError(
            f"few-shot with n = {list(ns)}, {tries} tries: numbers from 1 and one label a row were expected",
            "Give positive numbers.",
        )
    targets = known.columns[train]
    counts = np.bincount(targets)
    results = []
    for n in ns:
        scores, right, not_chosen, unseen = [], np.zeros(len(test)), 0, 0
        for number in range(tries):
            rows = train[draw_rows(targets, n, seed + number)]
            fitted = probe(features, known, train_rows=rows, test_rows=test, seed=seed, **settings)
            scores.append(float(fitted.correct.mean()))
            right += fitted.correct / tries
            unseen = int((fitted.rank > fitted.settings.classes).sum())
            not_chosen += fitted.settings.grid > 1 and fitted.trained[0].held_out == 0
        spread = float(np.std(scores, ddof=1)) if tries > 1 else None
        short, classes = int(((counts < n) & (counts > 0)).sum()), int((counts > 0).sum())
        between = interval(right, np.arange(len(right), dtype=np.int64))
        mean = float(np.mean(scores))
        results.append(FewShot(n, tuple(scores), mean, spread, short, between, classes, unseen, not_chosen))
    return results
