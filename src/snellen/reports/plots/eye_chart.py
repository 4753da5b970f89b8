"""The eye chart at the head of a report: each line of a benchmark as sharp as the model sees it."""

from __future__ import annotations

from typing import Any

from snellen.reports.escape import escape_invisible
from snellen.reports.links import FAILURES, metric_link, split_member
from snellen.reports.plots.base import Series
from snellen.reports.plots.level_curves import curves_by_level
from snellen.reports.tables import format_value
from snellen.types import Metric

_LARGEST = 66.0
_ROOM = 300.0
_LINES = 9
"""The eye chart's first line is so tall, a line so wide and lines so many at most; the chart is 400 units wide."""


def eye_chart(column: Series) -> list[dict[str, Any]]:
    """Build the lines of an eye chart: the levels from coarse to fine, or the parts of the first metric from best to worst.

    Where several kinds of question have levels and the first metric has none, the kind that is hardest on the finest
    level is drawn. Where there are no levels, and the first metric has no parts but
    the run is of a suite, the lines are the first metrics of its members.

    `blur` is 0 to 8: how far the model's sight on that line is from perfect (8: no better than guessing).
    """
    if not column.metrics or column.metrics[0].value is None:
        return []
    chart: list[dict[str, Any]] = []
    size, bottom = _LARGEST / 0.82, 0.0
    of, lines = _lines(column)
    for label, metric in lines[:_LINES]:
        value, chance = metric.value or 0.0, metric.chance or 0.0
        sight = min(1.0, max(0.0, (value - chance) / (1.0 - chance))) if chance < 1.0 else 1.0
        word = escape_invisible(label).replace("_", " ").upper()[:28]
        size = max(9.0, min(0.82 * size, _ROOM / (0.95 * max(4, len(word)))))
        bottom += 1.0 * size + 10.0
        chart.append(
            {
                "word": word,
                "value": format_value(metric.value, metric.unit),
                "size": round(size, 1),
                "y": round(bottom, 1),
                "blur": round(8 * (1.0 - sight)),
                "link": metric_link(metric.name, column.tally, column.run, column.profile),
                "of": of,
            }
        )
    return chart


def _lines(column: Series) -> tuple[str, list[tuple[str, Metric]]]:
    """Return the subject of the eye chart, and (label, metric) of each line."""
    root = column.metrics[0].name
    by_level = curves_by_level(column)
    kinds = [name for name, known in by_level.items() if len(known) >= 3]
    hardest = min(kinds, key=lambda name: by_level[name][-1][1].value or 0.0, default="")
    of = root if root in by_level else hardest
    if of:
        return of, by_level[of]
    parts = [m for m in column.metrics if m.name.startswith(root + "/") and m.name.count("/") == root.count("/") + 1]
    lines = sorted((m for m in parts if m.value is not None), key=lambda m: -(m.value or 0.0))
    if lines:
        return lines[-1].name.rpartition("/")[0], [(m.name.rpartition("/")[2], m) for m in lines]
    heads: dict[str, Metric] = {}
    for metric in column.metrics:
        task, rest = split_member(metric.name, column.tally)
        if task and rest[0] not in FAILURES:
            heads.setdefault(task, metric)
    known = [(task, m) for task, m in heads.items() if m.value is not None and m.unit == "fraction"]
    return "each subtask’s headline", sorted(known, key=lambda line: -(line[1].value or 0.0)) if len(known) > 1 else []
