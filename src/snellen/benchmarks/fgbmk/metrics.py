"""Metrics of FG-BMK: by question and by image, beside what guessing and a constant answer reach."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.scoring.metrics import accuracy, balanced_accuracy, majority, share
from snellen.scoring.scores import Scores
from snellen.scoring.statistics import interval, macro_mean, scored
from snellen.scoring.statistics.intervals import coverage
from snellen.scoring.taxonomy import by_level, diagnosis
from snellen.types import Metric

OFFICIAL = "official"


def summarize_member(scores: Scores, profile: str) -> list[Metric]:
    """Return the metrics of one file's questions, and what a diagnosis by class, template and taxonomy finds."""
    return [*headline(scores, profile), *_attributes(scores), *diagnosis(scores)]


def summarize_all(scores: Scores, profile: str) -> list[Metric]:
    """The metrics of all questions together, by level and kind, then of each file as `<member>/<metric>`, and the
    diagnosis of each data set, which needs one taxonomy, as `<data set>/<metric>`.
    """
    metrics = headline(scores, profile)
    metrics += by_level(scores)
    for task, part in scores.by("task"):
        metrics += _named(task, [*headline(part, profile), *_attributes(part)])
    for dataset, part in scores.by("dataset"):
        metrics += _named(dataset, diagnosis(part))
    return metrics


def headline(scores: Scores, profile: str) -> list[Metric]:
    """Accuracy by question and by image (the authors' first), balanced accuracy and majority of yes/no questions, and
    the shares of replies that give no answer (`invalid`) and of questions that failed (`error`).
    """
    by_question, by_image = accuracy(scores), image_accuracy(scores)
    metrics = [by_image, by_question] if profile == OFFICIAL else [by_question, by_image]
    truth = scores.where(kind="truth")
    if len(truth):
        metrics += [balanced_accuracy(truth), majority(truth, within="task")]
    return [*metrics, share(scores, "invalid", "invalid"), share(scores, "error", "error")]


def image_accuracy(scores: Scores) -> Metric:
    """Return the share of images whose questions are all answered right, as the authors aggregate: each file by itself.

    An image counts once for each file that asks about it. Chance is the mean over images of the product of the chances
    of their questions: a constant answer to knowledge-bias questions gets every image wrong.
    """
    value, mask = scored(scores)
    codes = _codes(scores, "task")
    keys = (scores.group * np.int64(1_000_003) + codes)[mask]
    _, first, image = np.unique(keys, return_index=True, return_inverse=True)
    images = len(first)
    right = np.ones(images)
    np.minimum.at(right, image, (value[mask] >= 1.0).astype(np.float64))
    return Metric(
        name="image_accuracy",
        value=float(right.mean()) if images else None,
        n=images,
        ci95=interval(right, scores.group[mask][first]) if images else None,
        coverage=coverage(int(mask.sum()), scores.expected),
        chance=_joint_chance(scores, mask, image, images),
    )


def _joint_chance(scores: Scores, mask: NDArray[np.bool_], image: NDArray[np.intp], images: int) -> float | None:
    column = scores.meta.get("chance")
    if column is None or not images or bool((column.codes[mask] < 0).any()):
        return None
    logs = np.log(np.array([float(name) for name in column.names]))
    return float(np.exp(np.bincount(image, weights=logs[column.codes[mask]], minlength=images)).mean())


def _codes(scores: Scores, name: str) -> NDArray[np.int64]:
    column = scores.meta.get(name)
    return np.zeros(len(scores), dtype=np.int64) if column is None else column.codes.astype(np.int64)


def _attributes(scores: Scores) -> Iterator[Metric]:
    """Yield each attribute, and each group as the unweighted mean of its attributes, as the papers report them."""
    rows = scores.where(ask="attribute")
    for group, part in rows.by("attribute_group"):
        yield macro_mean(f"attributes/{group}", part, "attribute")
    for attribute, part in rows.by("attribute"):
        yield accuracy(part, f"attribute/{attribute.replace(' ', '-')}")


def _named(prefix: str, metrics: list[Metric]) -> list[Metric]:
    return [structs.replace(metric, name=f"{prefix}/{metric.name}") for metric in metrics]
