"""Figures of a table without declared reports: accuracy, its slices, position bias and circular evaluation.

Chance is the mean of 1 / options, in each slice too. Failed requests and refusals are worth 0 and stay in the denominator.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec import structs

from snellen.scoring import grounding, metrics, scorers, statistics
from snellen.scoring.areas import by_content
from snellen.scoring.areas import coco_figures as figures_of
from snellen.scoring.coordinates import MOST_ODD, ODD_METRIC
from snellen.scoring.scores import Column, Scores
from snellen.scoring.statistics.intervals import cluster_word
from snellen.types import Metric, Sample, Score

TARGET, REPLY, CHANCE, FORM, QUESTION, ROTATION, ROTATIONS = (
    *("target", "reply", "chance", "form", "circular", "rotation", "rotations"),
)
RESERVED = frozenset(
    (
        *(TARGET, REPLY, CHANCE, FORM, QUESTION, ROTATION, ROTATIONS, "kind", "repeat", "unit", "aliases", "paths"),
        *("names", "decimal", "day_first", "tolerance", "rubric", "stage", "judge_source", scorers.TEXT_LEVEL),
        *grounding.META,
    )
)
"""Names of meta with a meaning of their own; a column of that name gets an underscore."""
AT_HALF = {"box": "accuracy@0.5", "region": "accuracy@0.5", "moment": "r1@0.5"}
"""Name of the headline of a table of one such kind: the share of replies that overlap the gold answer by half."""
POSITIONAL = ("choice", "truth")


def strict(sample: Sample, reply: str) -> Score:
    """Score a reply by the kind of its question; detail `reply` holds the letter, yes or no that it names."""
    score = scorers.by_kind(sample, reply)
    if sample.kind not in POSITIONAL or score.extracted is None:
        return score
    named = {True: "yes", False: "no"}.get(score.extracted, str(score.extracted))
    return Score(score.value, score.extracted, score.verdict, score.reason, {REPLY: named})


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Return accuracy first, then its slices, position bias, and the shares of unparseable and failed replies."""
    figures: list[Metric] = []
    first = scores
    if ROTATION in scores.meta:
        figures.append(circular_accuracy(scores))
        first = _first_rotation(scores)
    boxes = list(region_figures(first))
    named = first.meta["kind"].names if grounding.IOU in first.meta else ()
    figures.append(metrics.accuracy(first, AT_HALF.get(named[0], "accuracy") if len(named) == 1 else "accuracy"))
    figures += boxes
    kinds = scores.meta.get("kind")
    if kinds is not None and len(kinds.names) > 1:
        figures += [metrics.accuracy(rows, f"accuracy/kind/{kind}") for kind, rows in first.by("kind")]
    for name in sorted(set(scores.meta) - RESERVED):
        figures += [metrics.accuracy(rows, f"accuracy/{name}/{value}") for value, rows in first.by(name)]
    figures += position_bias(scores)
    figures += odd_share(scores)
    figures += [metrics.share(scores, "invalid", "invalid"), metrics.share(scores, "error", "error")]
    return figures


def region_figures(scores: Scores) -> Iterator[Metric]:
    """Yield the figures of questions for boxes, points and moments: mean overlap, accuracy by overlap, distances.

    A reply without a box has an overlap of 0. Distances are those of replies with a point.
    """
    for kind, rows in scores.by("kind") if scores.meta.keys() & set(grounding.META) else ():
        rows = rows.select(~np.isnan(rows.value))
        if kind in AT_HALF and grounding.IOU in rows.meta:
            shares = _numbers(rows, grounding.IOU, 0.0)
            yield _mean("iou", shares, rows)
            mixed = len(scores.meta["kind"].names) > 1
            name, *steps = ("r1", 0.3, 0.7) if kind == "moment" else ("accuracy", 0.25, 0.75, 0.9)
            for least in sorted({*steps, *((0.5,) if mixed else ())}):
                yield _mean(f"{name}@{least:g}", (shares >= least).astype(np.float64), rows)
            if kind == "box":
                yield _mean("centre_in_box", _numbers(rows, grounding.CENTRE, 0.0), rows)
        elif kind == "boxes" and grounding.PRECISION in rows.meta:
            yield metrics.accuracy(rows, "f1@0.5")
            yield _mean("precision@0.5", _numbers(rows, grounding.PRECISION, 0.0), rows)
            yield _mean("recall@0.5", _numbers(rows, grounding.RECALL, 0.0), rows)
            yield from coco_figures(rows)
        elif kind == "point" and grounding.DISTANCE in rows.meta:
            read = rows.select(rows.meta[grounding.DISTANCE].codes >= 0)
            for name, unit in ((grounding.DISTANCE, "px"), (grounding.DISTANCE_SHARE, "of the diagonal")):
                figure = _mean(name.removeprefix("box."), _numbers(read, name, 0.0), read, unit)
                yield structs.replace(figure, lower_is_better=True)


def coco_figures(rows: Scores) -> Iterator[Metric]:
    """Yield COCO's average precision, without an interval; nothing without pycocotools."""
    column = rows.column(grounding.BOXES)
    images = [msgspec.json.decode(column.names[code]) for code in column.codes if code >= 0]
    names = ("coco_map", "coco_ap50", "coco_ap75", "coco_ap_small", "coco_ap_medium", "coco_ap_large")
    has_areas = any(len(box) > 7 and box[7] is not None for _, gold in images for box in gold)
    for name, value in zip(names if has_areas else names[:2], figures_of(by_content(images)) or (), strict=False):
        yield Metric(name, value, len(rows), None, coverage=len(rows) / max(rows.expected, 1))


def odd_share(scores: Scores) -> Iterator[Metric]:
    """Yield the share of replies whose coordinates show a wrong space, where it is above `MOST_ODD`: `coordinates-odd`."""
    column = scores.meta.get(grounding.ODD)
    if column is None or not (column.codes >= 0).any():
        return
    read = scores.select(column.codes >= 0)
    odd = 1.0 - _equal(read.meta[grounding.ODD], grounding.NOT_ODD, np.ones(len(read), dtype=bool))
    if odd.mean() > MOST_ODD:
        yield structs.replace(_mean(ODD_METRIC, odd, read), lower_is_better=True)


def _mean(
    name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]], rows: Scores, unit: str = "fraction"
) -> Metric:
    return statistics.mean_of(name, values, rows.group, expected=rows.expected, cluster=cluster_word(rows), unit=unit)


def _numbers(rows: Scores, name: str, missing: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a column of numbers, with a value for rows that have none."""
    column = rows.column(name)
    return np.array([*map(float, column.names), missing])[column.codes]


def position_bias(scores: Scores) -> Iterator[Metric]:
    """Yield accuracy by gold letter, and the share of replies that name each letter among those of its kind.

    The chance of a share of replies is the share of the gold answers with that letter.
    """
    targets, replies = scores.meta.get(TARGET), scores.meta.get(REPLY)
    if targets is None or not len(scores):
        return
    positional = targets.codes >= 0
    rows = scores.among(TARGET, lambda _: True)
    for letter, part in rows.by(TARGET):
        yield metrics.accuracy(part, f"accuracy/gold/{letter}")
    for letter in sorted({*targets.names, *(replies.names if replies is not None else ())}):
        named = _equal(replies, letter, positional)
        gold = _equal(targets, letter, positional)
        yield statistics.mean_of(
            f"replies/{letter}",
            named,
            rows.group,
            expected=rows.expected,
            cluster=cluster_word(rows),
            chance=float(gold.mean()) if len(gold) else None,
        )


def circular_accuracy(scores: Scores) -> Metric:
    """Return the share of questions that are answered correctly in every rotation of their options.

    A question some of whose rotations are missing is not counted and lowers the coverage.
    """
    questions, rotations = scores.meta[QUESTION], scores.meta[ROTATIONS].numbers()
    codes = questions.codes
    if not len(scores) or rotations is None:
        return Metric("circular_accuracy", None, 0, None, coverage=0.0)
    right = np.bincount(codes, weights=np.nan_to_num(scores.value) == 1.0, minlength=len(questions.names))
    answered = np.bincount(codes, minlength=len(questions.names))
    _, at = np.unique(codes, return_index=True)
    repeats = _repeats(scores)
    whole = answered[codes[at]] >= rotations[at] * repeats
    at = at[whole]
    value = (right[codes[at]] == answered[codes[at]]).astype(np.float64)
    chance = scores.meta[CHANCE].numbers() if CHANCE in scores.meta else None
    question_names = {questions.names[code] for code in np.unique(codes).tolist()}
    known = len(scores)
    if scores.missing is not None:
        column = scores.missing.column(QUESTION)
        question_names.update(column.names[code] for code in np.unique(column.codes).tolist() if code >= 0)
        known += len(scores.missing)
    expected = scores.expected * len(question_names) / known
    return statistics.mean_of(
        "circular_accuracy",
        value,
        scores.group[at],
        expected=max(len(value), round(expected)),
        cluster="group",
        chance=None if chance is None or not len(at) else float((chance[at] ** rotations[at]).mean()),
    )


def _first_rotation(scores: Scores) -> Scores:
    if "0" not in scores.meta[ROTATION].names:
        return scores
    return scores.among(ROTATION, lambda rotation: rotation == "0", without=True)


def _repeats(scores: Scores) -> int:
    column = scores.meta.get("repeat")
    return 1 if column is None else len(column.names) + 1


def _equal(
    column: Column | None, name: str, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return 1.0 for each of the chosen rows with that value, else 0.0."""
    if column is None or name not in column.names:
        return np.zeros(int(rows.sum()))
    return np.asarray(column.codes[rows] == column.names.index(name), dtype=np.float64)
