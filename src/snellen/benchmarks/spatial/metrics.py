"""Metrics of each spatial benchmark, each with its interval: `overall`, its groups, and the figures that are no plain means.

Those of EASI's payload are named as the payload names them. The rules are functions over rows (`scorers.figures`); here they
get the columns of a run. A mean over rows has the interval of a mean; other figures (means of means, F1, accuracy adjusted for
chance, groups that must be right together) that of a cluster bootstrap. MMSI-Video-Bench's rows are also tagged for four parts:
VLMEvalKit's `_subset_acc` table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from msgspec import structs

from snellen.benchmarks.spatial.scorers import base, figures
from snellen.benchmarks.spatial.scorers.base import mean
from snellen.benchmarks.spatial.scorers.figures import ScoredRow, macro, means, micro
from snellen.benchmarks.spatial.tasks import CONSTANTS, MORE, SUB_BENCHES, Task
from snellen.scoring import statistics
from snellen.scoring.metrics import share
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics.bootstrap import SEED, percentile_interval
from snellen.types import Metric

REPLICATES = 400
KIT = ("easi", "vlmevalkit")
AVERAGED_GROUPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "vsi-bench": {"object_rel_direction": base.VSI_DIRECTION},
    "vsi-debiased": {"object_rel_direction": base.VSI_DIRECTION},
    "spar-bench": {"low": base.SPAR_NUMBER, "middle": base.SPAR_MIDDLE, "high": base.SPAR_HIGH},
    "osi-bench": {
        "mcq_accuracy": base.OSI_CHOICE,
        "na_mra": base.OSI_NUMBER,
        "relative_direction_avg": base.OSI_DIRECTION,
    },
    "revsi": base.REVSI_AVERAGED,
}
"""By benchmark: groups that a figure over several of them is made of."""
NUMBERS = frozenset((*CONSTANTS["spbench"]["number"], *base.OSI_NUMBER, *base.REVSI_NUMBER))
"""Groups of the further benchmarks that numbers answer."""
Figures: TypeAlias = Callable[[Sequence[ScoredRow]], dict[str, float]]
_ROW_GROUPS = ("category", "question_type", "source", "split", "circle", "f1_predicted", "f1_gold", "repeat")


def summarize(task: Task, scores: Scores, profile: str) -> list[Metric]:
    """Return `overall`, the figures of its groups, those that are no means, and how many replies were unread or failed."""
    rows = rows_of(scores, task)
    rule, further = composite(task, profile), task.name in MORE
    values = rule(rows) if rule else {}
    intervals = bootstrap_intervals(rule, rows, scores) if rule and values else {}
    made = {
        name: figure_metric(name, value, intervals.get(figure), _members(task, figure, scores))
        for figure, value in values.items()
        for name in [figure if further else name_of(task, task.by, figure)]
    }
    # A category of SITE is adjusted for chance too, and no mean over its rows.
    group_means = {} if task.name == "site" else {metric.name: metric for metric in _parts(task, scores)}
    overall = made.pop("overall", None)
    if further:
        parts = {name: metric for name, metric in group_means.items() if name not in made} | made
    else:
        parts = {name: group_means.get(name, metric) for name, metric in made.items()} if rule else group_means
        parts = {name: parts[name] for name in (*task.keys, *parts) if name in parts}
        overall = overall or (Metric("overall", None, 0, coverage=0.0) if rule else None)
    metrics = [overall or mean_metric("overall", scores), *parts.values()]
    if task.name == "3dsrbench":
        metrics += _settings(task, scores, rows, profile)
    elif task.name == "site":
        metrics = [structs.replace(metric, chance=0.0) for metric in metrics] + [mean_metric("accuracy", scores)]
    elif task.name == "mmsi-video-bench":
        metrics += _sub_bench_metrics(scores)
    return [*metrics, share(scores, "invalid", "invalid"), share(scores, "error", "error")]


def composite(task: Task, profile: str) -> Figures | None:
    """Return the figures that are no plain means over rows; None for a benchmark that has none under this profile.

    Those of EASI's payload are under the names of their groups.
    """
    kit, lmms = profile in KIT, profile == "lmms-eval"
    unknown = CONSTANTS["site"]["options_when_unknown"] if profile == "vlmevalkit" else None
    rules: Mapping[str, Figures | None] = {
        "vsi-bench": figures.vsi,
        "vsi-debiased": figures.vsi,
        "spar-bench": partial(figures.spar, grouping=task.by, view_change_in_middle=not lmms),
        "site": lambda rows: _site(rows, unknown),
        "blink": _blink if lmms else None,
        "stare": None if lmms else partial(figures.stare, misses_count=not kit),
        "cv-bench": partial(cv_bench, halves=not lmms),
        "spbench/si": spbench,
        "spbench/mv": spbench,
        "vsi-super-count": vsi_super_count,
        "lego-puzzles": lego_puzzles,
        "osi-bench": figures.osi,
        "revsi": lambda rows: _revsi(task, rows),
    }
    return rules.get(task.name)


def _site(rows: Sequence[ScoredRow], unknown: int | None) -> dict[str, float]:
    by_category = figures.site(rows, options_when_unknown=unknown)
    return {name.removesuffix("_caa"): value for name, value in by_category.items()}


def _blink(rows: Sequence[ScoredRow]) -> dict[str, float]:
    overall = macro(rows, "category")
    return {} if overall is None else {"overall": overall, **means(rows, "category")}


def spbench(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall`, the plain mean of the question types' means."""
    overall = macro(rows, "question_type")
    return {} if overall is None else {"overall": overall}


def vsi_super_count(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall`, the plain mean of the durations' means; streaming questions count where there are no others."""
    by_type = means(rows, "question_type")
    plain = [value for name, value in by_type.items() if base.STREAMING not in name]
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
    counted = [row for part in by_repeat.values() for row in figures.circular_rows(part)]
    overall = micro(counted)
    parts = {f"{category}_accuracy": value for category, value in means(counted, "category").items()}
    return {} if overall is None else {"overall": overall, **parts}


def _revsi(task: Task, rows: Sequence[ScoredRow]) -> dict[str, float]:
    by_type = figures.revsi(rows)
    return {name if name == "overall" else name_of(task, task.by, name): value for name, value in by_type.items()}


def rows_of(scores: Scores, task: Task) -> list[ScoredRow]:
    """Return the rows that figures are made of, with all their groups, in the order of `scores`."""

    def texts(name: str) -> list[str | None]:
        column = scores.meta[name]
        return [column.names[code] if code >= 0 else None for code in column.codes]

    wanted = _ROW_GROUPS if task.name in MORE else (task.by,)
    columns = {name: texts(name) for name in (*wanted, "n", "qid") if name in scores.meta}
    options, qids = columns.pop("n", None), columns.pop("qid", None)
    rows: list[ScoredRow] = []
    for at, value in enumerate(scores.value):
        groups = {name: group for name, column in columns.items() if (group := column[at]) is not None}
        n = (options[at] if options else None) or ""
        rows.append(
            ScoredRow(
                None if np.isnan(value) else float(value),
                groups if task.name in MORE else {name: group for name, group in groups.items() if group},
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
        for column in task.broken_down_by or (task.by,)
        for group, part in scores.by(column)
    ]


def name_of(task: Task, column: str, group: str) -> str:
    """Return the name of a group's figure: the payload's key, or the group's own name with the kind of figure behind."""
    if task.name not in MORE:
        unknown = f"{group}_caa" if task.name == "site" else f"{group}_accuracy"
        return group if group == "overall" else task.groups.get(group, unknown)
    if task.name in ("refspatial", "vsi-super-count"):  # means of graded scores
        return f"step_{group}" if column == "step" else f"{group}_mra" if task.name == "vsi-super-count" else group
    of_numbers = ("spbench/si", "spbench/mv", "osi-bench", "revsi")
    averaged = task.name == "revsi" and any(number.startswith(f"{group}_") for number in base.REVSI_NUMBER)
    return f"{group}_mra" if task.name in of_numbers and (averaged or group in NUMBERS) else f"{group}_accuracy"


def _members(task: Task, figure: str, scores: Scores) -> Scores:
    """Return the rows behind a figure: those of the groups that it is made of or named after, else all."""
    column, stem = task.by, figure
    if task.name in MORE:
        column = {"cv-bench": "split", "revsi": "question_type"}.get(task.name, "category")
        stem = figure if task.name in ("cv-bench", "osi-bench") else figure.rpartition("_")[0]
    if figure in ("overall", "macro") or column not in scores.meta:
        return scores
    groups = (stem, *AVERAGED_GROUPS.get(task.name, {}).get(stem, ()))
    return scores.among(column, lambda value: (value.lower() if task.name == "cv-bench" else value) in groups)


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
    bases = {base: code for code, base in enumerate(dict.fromkeys(row.qid[: figures.BASE] for row in rows))}
    group = np.array([bases[row.qid[: figures.BASE]] for row in rows], dtype=np.int64)
    values = np.array([row.value or 0.0 for row in rows])
    answered = float((~scores.has("unscored")).sum())
    coverage = min(1.0, answered / scores.expected) if scores.expected else 0.0
    return Metric(name, value, len(rows), statistics.interval(values, group), coverage=coverage)


def _sub_bench_metrics(scores: Scores) -> list[Metric]:
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
