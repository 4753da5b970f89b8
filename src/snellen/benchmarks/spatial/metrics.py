"""Metrics of each spatial benchmark, named as EASI's payload names them, each with its interval.

The rules are functions over rows (`scorers.rows`, `three_dsr`, `vsi`, `spar`, `site`); here they get the columns of a run. A
mean over rows has the interval of a mean; a mean of means, and the accuracy adjusted for chance, that of a cluster bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import structs

from snellen.benchmarks.spatial.scorers import site, spar, three_dsr, vsi
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, macro, means, micro
from snellen.benchmarks.spatial.sub_benches import BENCHMARK, sub_bench_metrics
from snellen.benchmarks.spatial.tasks import CONSTANTS, Task
from snellen.scoring import statistics
from snellen.scoring.metrics import share
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics.bootstrap import SEED, percentile_interval
from snellen.types import Metric

REPLICATES = 400
AVERAGED_GROUPS: Mapping[str, Sequence[str]] = {
    "object_rel_direction": vsi.DIRECTION,
    "low": spar.NUMBER,
    "middle": spar.MIDDLE,
    "high": spar.HIGH,
}
"""Groups that a mean of means over some of the groups is made of; SITE's categories are groups themselves."""
Figures: TypeAlias = Callable[[Sequence[ScoredRow]], dict[str, float]]


def summarize(task: Task, scores: Scores, profile: str) -> list[Metric]:
    """Return `overall`, its sub-scores, then how many replies could not be read or failed."""
    rows = rows_of(scores, task)
    if task.name == "3dsrbench":
        metrics = [mean_metric("overall", scores), *_parts(task, scores), *_settings(task, scores, rows, profile)]
    elif figures := composite(task, profile):
        values = figures(rows)
        intervals = bootstrap_intervals(figures, rows, scores) if values else {}
        # A category of SITE is adjusted for chance too, and no mean over its rows.
        group_means = {} if task.name == "site" else {metric.name: metric for metric in _parts(task, scores)}
        by_key = {
            _key(task, name): group_means.get(_key(task, name))
            or figure_metric(_key(task, name), value, intervals.get(name), _members(scores, task, name))
            for name, value in values.items()
        }
        by_key = {name: by_key[name] for name in ("overall", *task.keys, *by_key) if name in by_key}
        metrics = [by_key.pop("overall", Metric("overall", None, 0, coverage=0.0)), *by_key.values()]
        if task.name == "site":
            metrics = [structs.replace(metric, chance=0.0) for metric in metrics] + [mean_metric("accuracy", scores)]
    else:
        metrics = [mean_metric("overall", scores), *_parts(task, scores)]
    if task.name == BENCHMARK:
        metrics += sub_bench_metrics(scores)
    return [*metrics, share(scores, "invalid", "invalid"), share(scores, "error", "error")]


def composite(task: Task, profile: str) -> Figures | None:
    """Return the figures that are no plain means over rows, under the names of their groups.

    None where all of them are.
    """
    if task.name in ("vsi-bench", "vsi-debiased"):
        return vsi.summary
    if task.name == "spar-bench":
        return lambda rows: spar.summary(rows, grouping=task.by, view_change_in_middle=profile != "lmms-eval")
    if task.name == "site":
        unknown = CONSTANTS["site"]["options_when_unknown"] if profile == "vlmevalkit" else None
        return lambda rows: _site(rows, unknown)
    if task.name == "blink" and profile == "lmms-eval":
        return lambda rows: _blink(rows)
    return None


def _site(rows: Sequence[ScoredRow], unknown: int | None) -> dict[str, float]:
    figures = site.summary(rows, options_when_unknown=unknown)
    return {name.removesuffix("_caa"): value for name, value in figures.items()}


def _blink(rows: Sequence[ScoredRow]) -> dict[str, float]:
    overall = macro(rows, "category")
    return {} if overall is None else {"overall": overall, **means(rows, "category")}


def rows_of(scores: Scores, task: Task) -> list[ScoredRow]:
    """Return the rows that figures are made of, in the order of `scores`."""

    def texts(name: str) -> list[str]:
        column = scores.meta.get(name)
        if column is None:
            return [""] * len(scores)
        return [column.names[code] if code >= 0 else "" for code in column.codes]

    values = [None if np.isnan(value) else float(value) for value in scores.value]
    options = [int(n) if n.isdecimal() else 0 for n in texts("n")]
    return [
        ScoredRow(value, {task.by: group} if group else {}, n, qid)
        for value, group, n, qid in zip(values, texts(task.by), options, texts("qid"), strict=True)
    ]


def mean_metric(name: str, scores: Scores) -> Metric:
    """Return the mean over rows, with the chance level of those rows."""
    return statistics.mean(name, scores, chance=guessing(scores))


def _parts(task: Task, scores: Scores) -> list[Metric]:
    """The mean of each group under the payload's key, in the payload's order, groups that it does not know behind."""
    by_key = {_key(task, value): mean_metric(_key(task, value), part) for value, part in scores.by(task.by)}
    first = [by_key.pop(key) for key in task.keys if key in by_key]
    return [*first, *by_key.values()]


def _key(task: Task, group: str) -> str:
    """Return the payload's key of a group.

    Of one that it does not know the group's own name with `_accuracy` or `_caa` behind.
    """
    unknown = f"{group}_caa" if task.name == "site" else f"{group}_accuracy"
    return group if group == "overall" else task.groups.get(group, unknown)


def _members(scores: Scores, task: Task, name: str) -> Scores:
    """Return the rows behind a figure that is a mean of means.

    All of them, or those of the types that it is made of.
    """
    if name == "overall" or task.by not in scores.meta:
        return scores
    types = AVERAGED_GROUPS.get(name, (name,))
    return scores.among(task.by, lambda value: value in types)


def figure_metric(name: str, value: float, ci95: tuple[float, float] | None, scores: Scores) -> Metric:
    """Return a figure that is no plain mean, with an interval that was found otherwise."""
    scored = int(np.count_nonzero(~np.isnan(scores.value)))
    return Metric(name, value, scored, ci95, coverage=min(1.0, scored / scores.expected) if scores.expected else 0.0)


def bootstrap_intervals(
    figures: Figures, rows: Sequence[ScoredRow], scores: Scores
) -> dict[str, tuple[float, float] | None]:
    """Return the interval of every figure at once, from the rows of clusters drawn with replacement.

    The seed is fixed.
    """
    clusters: dict[int, list[ScoredRow]] = {}
    for row, group in zip(rows, scores.group.tolist(), strict=True):
        clusters.setdefault(group, []).append(row)
    every = [clusters[group] for group in sorted(clusters)]
    draw = np.random.default_rng(SEED)
    drawn: dict[str, list[float]] = {}
    for _ in range(REPLICATES if len(every) > 1 else 0):
        for name, value in figures(
            [row for index in draw.integers(0, len(every), len(every)) for row in every[index]]
        ).items():
            drawn.setdefault(name, []).append(value)
    return {name: percentile_interval(np.array(values), len(every), len(rows)) for name, values in drawn.items()}


def _settings(task: Task, scores: Scores, rows: Sequence[ScoredRow], profile: str) -> list[Metric]:
    """3DSRBench where several forms of one question must be right together: rotated, flipped, both.

    Under lmms-eval's rule each key counts; VLMEvalKit looks at the rows that bear their key as a name, and has figures of
    each category; where a run was cut short it would stop, here keys without that row are left out. Repeats are apart.
    """
    by_repeat = _repeats(scores, rows)
    metrics: list[Metric] = []
    for setting, prefix in list(three_dsr.SETTINGS.items())[1:]:
        if profile in ("vlmevalkit", "easi"):
            flat = [
                row
                for part in by_repeat
                for row in three_dsr.main_rows(three_dsr.with_main_row(part, setting), setting)
            ]
            named: Mapping[str, list[ScoredRow]] = {"overall": flat} | {
                _key(task, group): [row for row in flat if row.groups.get(task.by) == group]
                for group in dict.fromkeys(row.groups.get(task.by, "") for row in flat)
                if group
            }
        else:
            units = [three_dsr.units(part, setting) for part in by_repeat]
            named = {"overall": [ScoredRow(value, qid=key) for part in units for key, value in part.items()]}
        metrics += [_unit_mean(f"{prefix}_{name}", unit_rows, scores) for name, unit_rows in named.items()]
    return metrics


def _repeats(scores: Scores, rows: Sequence[ScoredRow]) -> list[list[ScoredRow]]:
    column = scores.meta.get("repeat")
    codes = [-1] * len(rows) if column is None else column.codes.tolist()
    parts: dict[int, list[ScoredRow]] = {}
    for row, code in zip(rows, codes, strict=True):
        parts.setdefault(code, []).append(row)
    return list(parts.values())


def _unit_mean(name: str, rows: Sequence[ScoredRow], scores: Scores) -> Metric:
    value = micro(rows)
    if value is None:
        return Metric(name, None, 0, coverage=0.0)
    bases = {base: code for code, base in enumerate(dict.fromkeys(row.qid[: three_dsr.BASE] for row in rows))}
    group = np.array([bases[row.qid[: three_dsr.BASE]] for row in rows], dtype=np.int64)
    values = np.array([row.value or 0.0 for row in rows])
    answered = float((~scores.has("unscored")).sum())
    coverage = min(1.0, answered / scores.expected) if scores.expected else 0.0
    return Metric(name, value, len(rows), statistics.interval(values, group), coverage=coverage)
