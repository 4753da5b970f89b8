"""Metrics of scored rows under the names and at the scale that the two harnesses write.

`snellen.benchmarks.spatial.metrics` has the rules; the names are those that EASI looks for. `harness_metrics` is the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.benchmarks.spatial.interop.harness_metrics import IN_FRACTIONS, LMMS_OVERALL, MRA
from snellen.benchmarks.spatial.metrics import composite
from snellen.benchmarks.spatial.scorers import spar, three_dsr, vsi
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, mean, means, micro
from snellen.benchmarks.spatial.scorers.three_dsr import MAIN
from snellen.benchmarks.spatial.tasks import Task

NUMBERS = (*vsi.NUMBER, *spar.NUMBER)


def values(task: Task, rows: Sequence[ScoredRow], profile: str) -> dict[str, float]:
    """`overall` and each group's figure under the group's own name, as fractions; empty where no row has a score."""
    figures = composite(task, profile)
    if figures is not None:
        return figures(rows)
    overall = micro(rows)
    return {} if overall is None else {"overall": overall, **means(rows, task.by)}


def lmms_metrics(task: Task, rows: Sequence[ScoredRow], part: str = "") -> dict[str, dict[str, float]]:
    """Return task of lmms-eval's to metric to figure: of BLINK the group and its subtasks, of SITE the half."""
    figures = values(task, rows, "lmms-eval")
    if not figures:
        return {}
    overall = figures.pop("overall")
    if task.name == "site":
        name = task.lmms.split(", ")[part == "video"]
        right = micro(rows) or 0.0
        per = {f"{group}_caa": round(100 * value, 5) for group, value in figures.items()}
        return {name: {"accuracy": round(100 * right, 5), "chance_adjusted_acc": round(100 * overall, 5), **per}}
    if task.name == "blink":
        each = {
            f"blink_{task.groups.get(group, group.lower())}": {"blink_acc": value} for group, value in figures.items()
        }
        return {"blink": {"blink_acc": overall}, **each}
    if task.name == "3dsrbench":
        mains: dict[str, list[float]] = {}
        for row in rows:
            if row.value is not None and row.groups.get(task.by) in MAIN:
                mains.setdefault(MAIN[row.groups[task.by]], []).append(row.value)
        parts = {f"{name}_accuracy": value for name, value in figures.items()}
        return {
            task.lmms: three_dsr.settings(rows)
            | {f"{main}_accuracy": mean(value) for main, value in mains.items()}
            | parts
        }
    scale = 100.0 if task.name in ("mmsi-video-bench",) else 1.0
    overall *= 100.0 if task.name in ("mmsi-video-bench", "spar-bench") else 1.0
    digits = 2 if task.name == "mmsi-video-bench" else 6 if vsi_like(task) else 12
    named = {LMMS_OVERALL[task.name][0]: overall} | {
        _lmms_name(task, name): value * scale for name, value in figures.items()
    }
    return {task.lmms: {name: round(value, digits) for name, value in named.items()}}


def kit_table(task: Task, rows: Sequence[ScoredRow], subgroups: Sequence[str] = ()) -> list[dict[str, float | str]]:
    """Return the rows of VLMEvalKit's `*_acc.csv`: one row, four for 3DSRBench's settings, one per metric for SITE.

    Args:
        task: the benchmark.
        rows: scored by VLMEvalKit's rule.
        subgroups: the finer group of each row, for the two benchmarks that the kit breaks down twice.
    """
    figures = values(task, rows, "vlmevalkit")
    if not figures:
        return []
    if task.name == "3dsrbench":
        table: list[dict[str, float | str]] = []
        for setting, name in three_dsr.SETTINGS.items():
            some = three_dsr.main_rows(three_dsr.with_main_row(rows, setting), setting)
            if some:
                table.append(
                    {"setting": name, "Overall": micro(some) or 0.0, **dict(sorted(means(some, task.by).items()))}
                )
        return table
    overall = figures.pop("overall")
    if task.name == "site":
        named = {"overall": overall, "accuracy": micro(rows) or 0.0} | {
            f"{name}_caa": value for name, value in figures.items()
        }
        return [{"metric": name, "value": value} for name, value in named.items()]
    if task.name == "blink":
        return [{"split": "none", "Overall": overall, **dict(sorted(figures.items()))}]
    scale = 1.0 if task.name in IN_FRACTIONS else 100.0
    line: dict[str, float | str] = {"overall": overall * scale}
    prefix = f"{task.by}." if task.name in ("mmsi-video-bench", "omnispatial") else ""
    line |= {prefix + _kit_name(task, name): value * scale for name, value in figures.items()}
    if prefix:
        other = "sub_task_type" if task.by == "task_type" else "task_type"
        finer = [ScoredRow(row.value, {other: sub}) for row, sub in zip(rows, subgroups, strict=True) if sub]
        line |= {f"{other}.{name}_accuracy": value * scale for name, value in means(finer, other).items()}
    return [line]


def vsi_like(task: Task) -> bool:
    """VSI-Bench, or its debiased half."""
    return task.name in ("vsi-bench", "vsi-debiased")


def _lmms_name(task: Task, name: str) -> str:
    if task.name == "mmsi-bench":
        key = task.groups.get(name)
        return [name, *(group for group in task.groups if task.groups[group] == key)][-1]
    if name in NUMBERS:
        return f"{name}_mra"
    if name in spar.VIEW_CHANGE:
        return f"{name}_vci_metric"
    key = task.groups.get(name, f"{name}_accuracy")
    return key


def _kit_name(task: Task, name: str) -> str:
    if task.name == "mmsi-bench":
        key = task.groups.get(name)
        name = next((group for group in task.groups if task.groups[group] == key), name)
    if name in NUMBERS:
        return f"{name}_{MRA}"
    if name in spar.VIEW_CHANGE:
        return f"{name}_vci_metric"
    return name.capitalize() if name in ("low", "middle", "high") else f"{name}_accuracy"


def site_terms(hit: float, options: int) -> Mapping[str, float] | None:
    """Return the terms of a row in `site.chance_adjusted`: `overall`, hit - 1/n, and `total`, 1 - 1/n."""
    return {"overall": hit - 1 / options, "total": 1 - 1 / options} if options else None
