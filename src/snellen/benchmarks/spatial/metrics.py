"""Metrics of each spatial benchmark, each with its interval: `overall`, its groups, and the figures that are no plain means.

Those of EASI's payload are named as the payload names them. The rules are functions over rows (`scorers.figures`); here they
get the columns of a run. A mean over rows has the interval of a mean; other figures (means of means, F1, accuracy adjusted for
chance, groups that must be right together) that of a cluster bootstrap. MMSI-Video-Bench's rows are also tagged for four parts:
VLMEvalKit's `_subset_acc` table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import structs

from snellen.benchmarks.spatial.scorers import figures
from snellen.benchmarks.spatial.scorers.figures import ScoredRow, micro
from snellen.benchmarks.spatial.tasks import SUB_BENCHES, Task, averaged
from snellen.scoring import statistics
from snellen.scoring.metrics import share
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics.bootstrap import SEED, percentile_interval
from snellen.types import Metric

REPLICATES = 400
Figures: TypeAlias = Callable[[Sequence[ScoredRow]], dict[str, float]]
_ROW_GROUPS = ("category", "question_type", "source", "split", "circle", "f1_predicted", "f1_gold", "repeat")


def summarize(task: Task, scores: Scores, profile: str) -> list[Metric]:
    """Return `overall`, the figures of its groups, those that are no means, and how many replies were unread or failed."""
    rows = rows_of(scores, task)
    rule, further = composite(task, profile), not task.in_payload
    values = rule(rows) if rule else {}
    intervals = bootstrap_intervals(rule, rows, scores) if rule and values else {}
    made = {
        name: figure_metric(name, value, intervals.get(figure), _members(task, figure, scores))
        for figure, value in values.items()
        for name in [figure if further else name_of(task, task.by, figure)]
    }
    # A category of SITE is adjusted for chance too, and no mean over its rows.
    declared = task.declared.summary
    group_means = {} if declared.adjusted else {metric.name: metric for metric in _parts(task, scores)}
    overall = made.pop("overall", None)
    if further:
        parts = {name: metric for name, metric in group_means.items() if name not in made} | made
    else:
        parts = {name: group_means.get(name, metric) for name, metric in made.items()} if rule else group_means
        parts = {name: parts[name] for name in (*task.keys, *parts) if name in parts}
        overall = overall or (Metric("overall", None, 0, coverage=0.0) if rule else None)
    metrics = [overall or mean_metric("overall", scores), *parts.values()]
    if declared.adjusted:
        metrics = [structs.replace(metric, chance=0.0) for metric in metrics] + [mean_metric("accuracy", scores)]
    if extra := declared.extra:
        metrics += EXTRA[extra](task, scores, rows, profile)
    return [*metrics, share(scores, "invalid", "invalid"), share(scores, "error", "error")]


def composite(task: Task, profile: str) -> Figures | None:
    """Return the figures that are no plain means over rows; None for a benchmark that has none under this profile.

    Those of EASI's payload are under the names of their groups.
    """
    declared = task.declared.summary.composite
    name = declared.get(profile, declared.get("*", ""))
    return figures.COMPOSITES[name] if name else None


def rows_of(scores: Scores, task: Task) -> list[ScoredRow]:
    """Return the rows that figures are made of, with all their groups, in the order of `scores`."""

    def texts(name: str) -> list[str | None]:
        column = scores.meta[name]
        return [column.names[code] if code >= 0 else None for code in column.codes]

    wanted = (task.by, "repeat") if task.in_payload else dict.fromkeys((*_ROW_GROUPS, task.by))
    columns = {name: texts(name) for name in (*wanted, "n", "qid") if name in scores.meta}
    options, qids = columns.pop("n", None), columns.pop("qid", None)
    rows: list[ScoredRow] = []
    for at, value in enumerate(scores.value):
        groups = {name: group for name, column in columns.items() if (group := column[at]) is not None}
        n = (options[at] if options else None) or ""
        rows.append(
            ScoredRow(
                None if np.isnan(value) else float(value),
                {name: group for name, group in groups.items() if group} if task.in_payload else groups,
                int(n) if n.isdecimal() else 0,
                (qids[at] if qids else None) or "",
            )
        )
    return rows


def mean_metric(name: str, scores: Scores) -> Metric:
    """Return the mean over rows, with the chance level of those rows."""
    return statistics.mean(name, scores, chance=guessing(scores))


def _parts(task: Task, scores: Scores) -> list[Metric]:
    """Return the mean of each group: of the payload's, in its order, groups that it does not know behind."""
    return [
        mean_metric(name_of(task, column, group), part)
        for column in task.declared.summary.columns or (task.by,)
        for group, part in scores.by(column)
    ]


def name_of(task: Task, column: str, group: str) -> str:
    """Return the name of a group's figure: the payload's key, or the name that the declaration makes of the group's own."""
    declared = task.declared.summary
    if task.in_payload and (group == "overall" or group in task.groups):
        return task.groups.get(group, group)
    numbers = task.declared.types.get("number", ())
    of_numbers = group in numbers or any(part in numbers for part in averaged(task).get(group, ()))
    form = declared.figures.get(column, declared.figures.get("*", "{group}_accuracy"))
    return (declared.numbers if declared.numbers and of_numbers else form).replace("{group}", group)


def _members(task: Task, figure: str, scores: Scores) -> Scores:
    """Return the rows behind a figure: those of the groups that it is made of or named after, else all."""
    column = task.by if task.in_payload else task.declared.summary.composite_by
    if figure in ("overall", "macro") or column not in scores.meta:
        return scores
    parts = averaged(task)
    for stem in (figure,) if task.in_payload or figure in parts else (figure, figure.rpartition("_")[0]):
        groups = {stem, *parts.get(stem, ())}
        members = scores.among(column, groups.__contains__)
        if len(members.value):
            break
    return members


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


Extra: TypeAlias = Callable[[Task, Scores, Sequence[ScoredRow], str], list[Metric]]


def _settings(task: Task, scores: Scores, rows: Sequence[ScoredRow], profile: str) -> list[Metric]:
    """Return 3DSRBench's figures where several forms of one question must be right together: rotated, flipped, both.

    Under lmms-eval's rule each key counts; VLMEvalKit looks at the rows that bear their key as a name, and has figures of
    each category; where a run was cut short it would stop, here keys without that row are left out. Repeats are apart.
    """
    by_repeat = figures.by_repeat(rows)
    metrics: list[Metric] = []
    for setting, prefix in list(figures.SETTINGS.items())[1:]:
        if profile in ("vlmevalkit", "easi"):
            flat = [
                row for part in by_repeat for row in figures.main_rows(figures.with_main_row(part, setting), setting)
            ]
            named: Mapping[str, list[ScoredRow]] = {"overall": flat} | {
                name_of(task, task.by, group): [row for row in flat if row.groups.get(task.by) == group]
                for group in dict.fromkeys(row.groups.get(task.by, "") for row in flat)
                if group
            }
        else:
            units = [figures.units(part, setting) for part in by_repeat]
            named = {"overall": [ScoredRow(value, qid=key) for part in units for key, value in part.items()]}
        metrics += [_unit_mean(f"{prefix}_{name}", unit_rows, scores) for name, unit_rows in named.items()]
    return metrics


def _unit_mean(name: str, rows: Sequence[ScoredRow], scores: Scores) -> Metric:
    value = micro(rows)
    if value is None:
        return Metric(name, None, 0, coverage=0.0)
    bases = {base: code for code, base in enumerate(dict.fromkeys(row.qid[: figures.BASE] for row in rows))}
    group = np.array([bases[row.qid[: figures.BASE]] for row in rows], dtype=np.int64)
    values = np.array([row.value or 0.0 for row in rows])
    answered = float((~scores.has("unscored")).sum())
    coverage = min(1.0, answered / scores.expected) if scores.expected else 0.0
    return Metric(name, value, len(rows), statistics.interval(values, group), coverage=coverage)


def _sub_benches(task: Task, scores: Scores, rows: Sequence[ScoredRow], profile: str) -> list[Metric]:
    """Return `subset/<part>` and `subset/<part>/<tag>` for the parts and tags that rows have."""
    metrics: list[Metric] = []
    for name in SUB_BENCHES:
        column = scores.meta.get(name)
        if column is None or not (column.codes >= 0).any():
            continue
        metrics.append(statistics.mean(f"subset/{name}", scores.among(name, lambda _: True)))
        metrics += [
            statistics.mean(f"subset/{name}/{tag}", part)
            for tag, part in sorted(scores.by(name), key=lambda item: item[0])
            if tag and len(part)
        ]
    return metrics


EXTRA: Mapping[str, Extra] = {"settings": _settings, "sub_benches": _sub_benches}
"""By the name that `extra` of [summary] has: each returns metrics beside those that every set has."""
