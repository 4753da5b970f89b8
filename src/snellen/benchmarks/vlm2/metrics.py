"""Metrics of VLM2-Bench, each under its own name and rule.

A figure is the mean over its units: pairs, questions, or videos. What is a unit, and which of them count, is where the
authors' scripts, the paper and VLMEvalKit differ (docs/vlm2.md says how, in words).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.benchmarks.vlm2.layout import BY_NAME, Subtask
from snellen.benchmarks.vlm2.scorers import normalised_count_score
from snellen.scoring.metrics import share
from snellen.scoring.scores import Column, Scores
from snellen.scoring.statistics import interval
from snellen.scoring.statistics.bootstrap import SEED, percentile_interval, resampled_sums
from snellen.types import Metric

KIT = ("vlmevalkit", "vlmevalkit-legacy")
OVERALL = ("overall_8", "overall_9")
BROKEN_DOWN_BY = ("cue", "type", "pattern")
"""Meta by which a subtask's first figure is broken down: what was changed, what is shown, and who is who (AAB)."""


@dataclass(frozen=True)
class Units:
    """The units whose mean a metric is.

    Attributes:
        value: [m] float64, 0 to 1 (an out-of-range verdict of a judge: beyond).
        group: [m] int64, the cluster of each unit.
    """

    value: NDArray[np.float64]
    group: NDArray[np.int64]

    @property
    def mean(self) -> float | None:
        """The figure; None where there is no unit."""
        return float(self.value.sum()) / len(self.value) if len(self.value) else None


def metric(name: str, units: Units, scores: Scores, chance: float | None = None) -> Metric:
    """Return the mean of units with its interval; coverage is the share of the subtask's rows that were scored."""
    answered = float((~scores.has("unscored")).sum())
    return Metric(
        name=name,
        value=units.mean,
        n=len(units.value),
        ci95=interval(units.value, units.group),
        coverage=min(1.0, answered / scores.expected) if scores.expected else 0.0,
        chance=chance,
    )


def pairs(subtask: Subtask, scores: Scores, profile: str) -> dict[str, Units]:
    """`pair_accuracy`, `positive_accuracy`, `negative_accuracy`; of VLMEvalKit the first alone.

    gc, authors: right halves are any right row of the pair with that gold answer; every q_id counts, whole or not.
    cpr, authors: of rows with one id the last counts; pairs that lack a half are left out.
    VLMEvalKit: all rows of a pair must be right, and be at least two; pairs that lack a half are wrong.
    strict: both halves must be there and all rows right; pairs that lack a half are wrong.
    """
    key, repeats = _pair_codes(scores, kit=profile in KIT)
    half, right = _strings(scores, "half"), scores.has("correct")
    known = key >= 0
    if profile in KIT:
        keys, index = np.unique(key[known], return_inverse=True)
        count = len(keys)
        rows = np.bincount(index, minlength=count)
        whole = (rows >= 2) & (np.bincount(index, weights=right[known], minlength=count) == rows)
        return {"pair_accuracy": Units(whole.astype(np.float64), keys // repeats)}
    known &= np.isin(half, ("p", "n")) if subtask.cue != "gc" else True
    if subtask.cue != "gc" and profile != "strict":
        known &= _last(key, half, scores)
    keys, index = np.unique(key[known], return_inverse=True)
    count = len(keys)
    half, right = half[known], right[known]

    def of(side: str, weights: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.bincount(index, weights=weights & (half == side), minlength=count).astype(np.float64)

    everything = np.ones(len(half), dtype=bool)
    present = {side: of(side, everything) for side in "pn"}
    good = {side: of(side, right) for side in "pn"}
    if profile == "strict":
        halves = {side: (present[side] > 0) & (good[side] == present[side]) for side in "pn"}
    else:
        halves = {side: good[side] > 0 for side in "pn"}
    selected = np.ones(count, dtype=bool)
    if subtask.cue != "gc" and profile != "strict":
        selected = (present["p"] > 0) & (present["n"] > 0)
    results = {"pair": halves["p"] & halves["n"], "positive": halves["p"], "negative": halves["n"]}
    group = keys[selected] // repeats
    return {f"{name}_accuracy": Units(values[selected].astype(np.float64), group) for name, values in results.items()}


def counts(scores: Scores, profile: str) -> dict[str, Units]:
    """`count_score_usable`, `count_score_all`, `count_exact`, `usable_rate`; of VLMEvalKit the second and third.

    usable: rows whose reply holds exactly one number from 1 to the number of images, which alone are in the authors'
    average; all: every row, what cannot be used being worth 0, as the paper's formula has it. The headline is the first.
    """
    value = np.nan_to_num(scores.value)
    right = scores.has("correct").astype(np.float64)
    without = _strings(scores, "no_gold")
    gold = ~scores.has("unscored") & ((without == "") if profile in KIT else (without != "yes"))
    if profile in KIT or profile == "strict":
        units = {
            "count_score_all": Units(value[gold], scores.group[gold]),
            "count_exact": Units(right[gold], scores.group[gold]),
        }
        if profile == "strict":
            usable = (gold & ~scores.has("invalid") & ~scores.has("error"))[gold]
            units["usable_rate"] = Units(usable.astype(np.float64), scores.group[gold])
        return units
    usable = gold & ~scores.has("invalid") & ~scores.has("error")
    units = {
        "count_score_usable": Units(value[usable], scores.group[usable]),
        "count_score_all": Units(value, scores.group),
        "count_exact": Units(right, scores.group),
        "usable_rate": Units(usable.astype(np.float64), scores.group),
    }
    if profile == "paper":
        units = {"count_score_all": units.pop("count_score_all"), **units}
    return units


def groupings(scores: Scores, profile: str) -> dict[str, Units]:
    """`grouping_accuracy`: right rows of all rows."""
    scored_rows = ~scores.has("unscored")
    return {
        "grouping_accuracy": Units(scores.has("correct").astype(np.float64)[scored_rows], scores.group[scored_rows])
    }


def videos(scores: Scores, profile: str) -> dict[str, Units]:
    """`video_ab` and `video_aba`: means over judged rows; `strict` leaves out scores beyond the rubric's range."""
    form = _strings(scores, "form")
    judged = ~np.isnan(scores.value) & ~scores.has("error")
    if profile == "strict":
        judged &= scores.value <= 1.0
    return {
        f"video_{clip_form.lower()}": Units(
            scores.value[judged & (form == clip_form)], scores.group[judged & (form == clip_form)]
        )
        for clip_form in ("AB", "ABA")
    }


def figures(subtask: Subtask, scores: Scores, profile: str) -> dict[str, Units]:
    """Return the figures of one subtask; the first is its headline, but for a video, whose headline is made of both."""
    if subtask.family == "pair":
        return pairs(subtask, scores, profile)
    if subtask.family == "count":
        return counts(scores, profile)
    if subtask.family == "group":
        return groupings(scores, profile)
    return {} if profile in KIT else videos(scores, profile)


def headline(subtask: Subtask, by_name: Mapping[str, Units]) -> list[tuple[float, Units]]:
    """Return the weighted parts of a subtask's headline; empty where there is none."""
    if subtask.family == "video":
        # An empty class counts as 0 in the authors' script; nothing judged at all is no score.
        return [(0.5, units) for units in by_name.values()] if any(len(u.value) for u in by_name.values()) else []
    first = next(iter(by_name.values()), None)
    return [] if first is None or not len(first.value) else [(1.0, first)]


def weighted(name: str, parts: Sequence[tuple[float, Units]], scores: Scores, chance: float | None = None) -> Metric:
    """A weighted sum of means over units that share no cluster, with its interval by a bootstrap within each part.

    A part without units counts as 0: so does an empty class of videos in the authors' script.
    """
    value: float | None = None
    ci95 = None
    sizes = [len(units.value) for _, units in parts]
    if parts:
        value = sum(weight * (units.mean or 0.0) for weight, units in parts)
        drawn = [weight * _redrawn(units, SEED + part) for part, (weight, units) in enumerate(parts) if sizes[part]]
        clusters = sum(len(np.unique(units.group)) for _, units in parts)
        ci95 = percentile_interval(np.sum(drawn, axis=0), clusters, sum(sizes)) if drawn else None
        # A judge's score out of range takes the mean beyond 0 to 1, and its interval with it.
        ends = np.concatenate([units.value for _, units in parts])
        low, high = min(0.0, float(ends.min(initial=0.0))), max(1.0, float(ends.max(initial=1.0)))
        ci95 = None if ci95 is None else ci95.cut(low, high)
    answered = float((~scores.has("unscored")).sum())
    coverage = min(1.0, answered / scores.expected) if scores.expected else 0.0
    return Metric(name, value, sum(sizes), ci95, coverage=coverage, chance=chance)


def _redrawn(units: Units, seed: int) -> NDArray[np.float64]:
    """[replicates] means of units whose clusters were drawn with replacement."""
    columns = np.column_stack([units.value, np.ones(len(units.value))])
    sums = np.concatenate(list(resampled_sums(columns, units.group, seed=seed)))
    return np.asarray(sums[:, 0] / sums[:, 1])


def summarize_subtask(subtask: Subtask, scores: Scores, profile: str) -> list[Metric]:
    """Return the figures of one subtask, then how many replies could not be read, and how many failed."""
    by_name = figures(subtask, scores, profile)
    guess = chances(subtask, scores)
    metrics = [metric(name, units, scores, guess.get(name)) for name, units in by_name.items()]
    if subtask.family == "video" and by_name:
        metrics.insert(0, weighted("video_score", headline(subtask, by_name), scores))
    metrics += [share(scores, "invalid", "invalid"), share(scores, "error", "error")]
    return metrics + [
        metric(f"{name}/{column}/{value}", units, part, chances(subtask, part).get(name))
        for column in BROKEN_DOWN_BY
        for value, part in _parts(scores, column)
        for name, units in [*figures(subtask, part, profile).items()][:1]
    ]


def _parts(scores: Scores, column: str) -> list[tuple[str, Scores]]:
    """Return the rows of each value of a column; none of a column with a single value."""
    parts = list(scores.by(column))
    return parts if len(parts) > 1 else []


def summarize_suite(scores: Scores, profile: str) -> list[Metric]:
    """Return `overall_8` (image subtasks) and `overall_9`, then each subtask's figures.

    No official script computes an overall figure. The paper's fourth version averages the eight image subtasks, its
    earlier versions and the README all nine. Where a subtask is missing or unjudged the mean has no value.
    """
    heads: dict[str, list[tuple[float, Units]]] = {}
    rest: list[Metric] = []
    guesses: dict[str, float] = {}
    for name, subtask in BY_NAME.items():
        part = scores.where(task=name)
        if not len(part):
            continue
        heads[name] = headline(subtask, figures(subtask, part, profile))
        own = summarize_subtask(subtask, part, profile)
        if own and own[0].chance is not None:
            guesses[name] = own[0].chance
        rest += [structs.replace(metric, name=f"{name}/{metric.name}") for metric in own]
    overall = []
    for title, wanted in zip(
        OVERALL, ([n for n, s in BY_NAME.items() if s.family != "video"], list(BY_NAME)), strict=True
    ):
        if profile in KIT and title == "overall_9":
            continue
        complete = all(heads.get(name) for name in wanted)
        parts = [(w / len(wanted), units) for name in wanted for w, units in heads.get(name, ())] if complete else []
        known = [guesses[name] for name in wanted if name in guesses]
        chance = sum(known) / len(wanted) if len(known) == len(wanted) else None
        selected = scores.among("task", set(wanted).__contains__)
        overall.append(weighted(title, parts, selected, chance))
    return overall + rest


def chances(subtask: Subtask, scores: Scores) -> dict[str, float]:
    """Return the chance level: two independent guesses for a pair, one of four groupings, a number from 1 to the images.

    For counts the truth is taken to be uniform too, as the paper does. The paper puts the comparisons at 0.5, holding
    that both halves are one decision; a model that guesses each question reaches 0.25.
    """
    if subtask.family == "pair":
        return {"pair_accuracy": 0.25, "positive_accuracy": 0.5, "negative_accuracy": 0.5}
    if subtask.family == "group":
        return {"grouping_accuracy": 0.25}
    column = scores.meta.get("images")
    if subtask.family != "count" or column is None:
        return {}
    lengths = {code: int(name) for code, name in enumerate(column.names)}
    occurrences = np.bincount(column.codes[column.codes >= 0], minlength=len(lengths))
    if not occurrences.sum() or any(length < 1 for length in lengths.values()):
        return {}
    expected = {code: _guessed(length) for code, length in lengths.items()}
    score = float(sum(occurrences[code] * expected[code] for code in lengths) / occurrences.sum())
    exact = float(sum(occurrences[code] / length for code, length in lengths.items()) / occurrences.sum())
    return {"count_score_usable": score, "count_score_all": score, "count_exact": exact}


@cache
def _guessed(images: int) -> float:
    numbers = range(1, min(images, 100) + 1)
    scores = [normalised_count_score(guess, truth, images) for guess, truth in product(numbers, numbers)]
    return sum(scores) / len(scores)


def _codes(scores: Scores, name: str) -> NDArray[np.int64]:
    column = scores.meta.get(name)
    return np.full(len(scores), -1, np.int64) if column is None else column.codes.astype(np.int64)


def _strings(scores: Scores, name: str) -> NDArray[np.str_]:
    """[n] the column's values, empty where a row has none."""
    column = scores.meta.get(name) or Column(np.full(len(scores), -1, np.int32), ())
    return np.array([*column.names, ""])[column.codes]


def _pair_codes(scores: Scores, *, kit: bool) -> tuple[NDArray[np.int64], int]:
    """[n] a number for each pair and repeat of the question (pair * repeats + repeat), -1 for rows of no pair; repeats."""
    names, known = _strings(scores, "pair"), _codes(scores, "pair") >= 0  # a pair's name may be empty: `_p`
    if kit:
        other = _codes(scores, "kit_pair") >= 0
        names, known = np.where(other, _strings(scores, "kit_pair"), names), known | other
        known &= _codes(scores, "no_kit_pair") < 0
    _, key = np.unique(names, return_inverse=True)
    repeat = _codes(scores, "repeat") + 1
    repeats = int(repeat.max(initial=0)) + 1
    return np.where(known, key.astype(np.int64) * repeats + repeat, -1), repeats


def _last(key: NDArray[np.int64], half: NDArray[np.str_], scores: Scores) -> NDArray[np.bool_]:
    """[n] whether a row is the last one of its pair and half: a later row of the same id replaces the earlier one."""
    names = _strings(scores, "turn")
    turn = np.array([int(name or 0) for name in names], dtype=np.int64) if len(names) else np.zeros(0, np.int64)
    order = np.lexsort((turn, half, key))
    newest = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        newest[:-1] = (key[order][1:] != key[order][:-1]) | (half[order][1:] != half[order][:-1])
    last = np.zeros(len(order), dtype=bool)
    last[order] = newest
    return last
