"""Metrics of the further spatial benchmarks of EASI: the references' figures as fractions, each with its interval.

A mean over rows has the interval of a mean; other figures (F1, means of means, groups that must be right together) that of a
cluster bootstrap. `OVERALL` says what `overall` is where it is no mean over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from snellen.benchmarks.spatial.metrics import Figures, bootstrap_intervals, figure_metric, mean_metric
from snellen.benchmarks.spatial.scorers import lego, osi, revsi, stare, vsi_super
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, macro, mean, means, micro
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.scoring.metrics import share
from snellen.scoring.scores import Scores
from snellen.types import Metric

KIT = ("easi", "vlmevalkit")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "stare": ("category",),
    "spatialviz": ("category", "task"),
    "erqa": ("question_type",),
    "refspatial": ("category", "step"),
    "robospatial-home": ("category",),
    "spbench/si": ("question_type",),
    "spbench/mv": ("question_type",),
    "vsi-super-recall": ("question_type",),
    "vsi-super-count": ("question_type",),
    "sti-bench": ("task_type",),
    "cv-bench": ("category", "source"),
    "lego-puzzles": ("category",),
    "spatial457": ("category",),
    "dsr-bench": ("task_type",),
    "eriq": ("task_type",),
    "osi-bench": ("category",),
    "revsi": ("question_type",),
}
"""Meta columns that each benchmark is broken down by."""
_ROW_GROUPS = ("category", "question_type", "source", "split", "circle", "f1_predicted", "f1_gold", "repeat")
_NUMBERS = frozenset((*CONSTANTS["spbench"]["number"], *osi.NUMBER, *revsi.NUMBER))
_GRADED = ("vsi-super-count", "refspatial")
"""Whose groups are means of graded scores, and called by their own names."""


def summarize(name: str, scores: Scores, profile: str) -> list[Metric]:
    """Return `overall`, the figures of its groups, those that are no means, and how many replies were unread or failed."""
    rows = rows_of(scores)
    composite = composites(name, profile)
    values = composite(rows) if composite is not None else {}
    intervals = bootstrap_intervals(composite, rows, scores) if composite is not None and values else {}
    metrics = {
        figure: figure_metric(figure, value, intervals.get(figure), _members(name, figure, scores))
        for figure, value in values.items()
    }
    by_group = {
        metric.name: metric
        for column in GROUPS[name]
        for metric in _group_means(name, column, scores)
        if metric.name not in metrics
    }
    overall = metrics.pop("overall", None) or mean_metric("overall", scores)
    return [
        overall,
        *by_group.values(),
        *metrics.values(),
        share(scores, "invalid", "invalid"),
        share(scores, "error", "error"),
    ]


def rows_of(scores: Scores) -> list[ScoredRow]:
    """Return the rows with all their groups, in the order of `scores`."""
    columns = {name: scores.meta[name] for name in _ROW_GROUPS if name in scores.meta}
    values = [None if np.isnan(value) else float(value) for value in scores.value]
    groups: list[dict[str, str]] = [{} for _ in values]
    for name, column in columns.items():
        for group, code in zip(groups, column.codes.tolist(), strict=True):
            if code >= 0:
                group[name] = column.names[code]
    return [ScoredRow(value, group) for value, group in zip(values, groups, strict=True)]


def composites(name: str, profile: str) -> Figures | None:
    """Return the figures that are no means over rows; None for a benchmark that has none under this profile."""
    if name == "stare":
        return None if profile == "lmms-eval" else lambda rows: stare.summary(rows, misses_count=profile not in KIT)
    if name == "cv-bench":
        return lambda rows: cv_bench(rows, halves=profile != "lmms-eval")
    return _COMPOSITES.get(name)


def spbench(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall`, the plain mean of the question types' means."""
    overall = macro(rows, "question_type")
    return {} if overall is None else {"overall": overall}


def vsi_super_count(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall`, the plain mean of the durations' means; streaming questions count where there are no others."""
    by_type = means(rows, "question_type")
    plain = [value for name, value in by_type.items() if vsi_super.STREAMING not in name]
    values = plain or list(by_type.values())
    return {"overall": mean(values)} if values else {}


def cv_bench(rows: Sequence[ScoredRow], *, halves: bool) -> dict[str, float]:
    """Return `2d`, `3d` and `overall`.

    Args:
        rows: with the groups `split` and `source`.
        halves: True as in the paper and VLMEvalKit: `2d` is the mean of its two sources' means, `overall` the mean of both
            halves. False as in lmms-eval: all three are means over rows.
    """
    flat = [row for row in rows if row.groups.get("split", "").upper() == "2D"]
    deep = [row for row in rows if row.groups.get("split", "").upper() == "3D"]
    figures = {"2d": macro(flat, "source") if halves else micro(flat), "3d": micro(deep)}
    known = {name: value for name, value in figures.items() if value is not None}
    overall = (mean(list(known.values())) if known else None) if halves else micro(rows)
    return {} if overall is None else {"overall": overall, **known}


def lego_puzzles(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall` and each category's figure, rotated forms of one question counting as one; none without such forms."""
    if not any("circle" in row.groups for row in rows):
        return {}
    by_repeat: dict[str, list[ScoredRow]] = {}
    for row in rows:
        by_repeat.setdefault(row.groups.get("repeat", ""), []).append(row)
    counted = [row for part in by_repeat.values() for row in lego.circular_rows(part)]
    overall = micro(counted)
    parts = {f"{category}_accuracy": value for category, value in means(counted, "category").items()}
    return {} if overall is None else {"overall": overall, **parts}


def _revsi(rows: Sequence[ScoredRow]) -> dict[str, float]:
    figures = revsi.summary(rows)
    return {name if name == "overall" else f"{name}_{_ending('revsi', name)}": value for name, value in figures.items()}


_COMPOSITES: Mapping[str, Callable[[Sequence[ScoredRow]], dict[str, float]]] = {
    "spbench/si": spbench,
    "spbench/mv": spbench,
    "vsi-super-count": vsi_super_count,
    "lego-puzzles": lego_puzzles,
    "osi-bench": osi.summary,
    "revsi": _revsi,
}


def _group_means(name: str, column: str, scores: Scores) -> list[Metric]:
    return [
        mean_metric(f"{_group_name(column, group)}{_suffix(name, column, group)}", part)
        for group, part in scores.by(column)
    ]


def _group_name(column: str, group: str) -> str:
    return f"step_{group}" if column == "step" else group


def _suffix(name: str, column: str, group: str) -> str:
    if name in _GRADED:
        return "_mra" if name == "vsi-super-count" else ""
    return f"_{_ending(name, group)}"


def _ending(name: str, group: str) -> str:
    """Return `mra` for a group of numbers, else `accuracy`."""
    numbers = group in _NUMBERS or (name == "revsi" and any(number.startswith(f"{group}_") for number in revsi.NUMBER))
    return "mra" if numbers and name in ("spbench/si", "spbench/mv", "osi-bench", "revsi") else "accuracy"


def _members(name: str, figure: str, scores: Scores) -> Scores:
    """Return the rows behind a figure: those of the groups that its name begins with, else all."""
    if name == "osi-bench":
        chosen = {"mcq_accuracy": osi.CHOICE, "na_mra": osi.NUMBER, "relative_direction_avg": osi.DIRECTION}.get(
            figure, ()
        )
        return _where(scores, "category", lambda group: group in chosen)
    if figure == "overall" or figure == "macro":
        return scores
    if name == "cv-bench":
        return _where(scores, "split", lambda group: group.lower() == figure)
    stem = figure.rpartition("_")[0]
    if name == "revsi":
        return _where(scores, "question_type", lambda group: group == stem or group in revsi.AVERAGED.get(stem, ()))
    return _where(scores, "category", lambda group: group == stem)


def _where(scores: Scores, column: str, wanted: Callable[[str], bool]) -> Scores:
    return scores.among(column, wanted) if column in scores.meta else scores
