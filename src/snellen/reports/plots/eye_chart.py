"""The eye chart at the head of a report: each line of a benchmark as sharp as the model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snellen.reports.escape import escape_invisible
from snellen.reports.links import FAILURES, metric_link, split_member
from snellen.reports.plots.base import Plot, Series, new_figure, run_word, unique_name
from snellen.reports.plots.level_curves import curves_by_level
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.reports.tables import format_value
from snellen.types import Metric

_LARGEST = 66.0
_ROOM = 300.0
_LINES = 9
"""The eye chart's first line is so tall, a line so wide and lines so many at most; the chart is 400 units wide."""

_WIDTH = 400.0
_BLURS = (0.0, 0.35, 0.7, 1.1, 1.6, 2.1, 2.7, 3.3, 4.0)
"""Blur of a word in points; the style sheet has `blur-1` to `blur-8`."""


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


def eye_chart_names(runs: Sequence[Series]) -> list[str]:
    """Return the names of the runs' eye charts."""
    taken: set[str] = set()
    return [unique_name(taken, "eye-chart", run_word(run, number, len(runs))) for number, run in enumerate(runs)]


def eye_chart_plot(column: Series, name: str) -> Plot | None:
    """Draw the eye chart as a figure for a file; None for a run without lines."""
    lines = eye_chart(column)
    if not lines:
        return None
    height = lines[-1]["y"] + 16.0
    figure, axes = new_figure(height / 72.0, _WIDTH / 72.0)
    figure.set_layout_engine("none")
    axes.set_position((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, _WIDTH)
    axes.set_ylim(height, 0.0)
    for line in lines:
        word = axes.text(175, line["y"], line["word"], ha="center", fontsize=0.82 * line["size"], weight="bold")
        if line["blur"]:
            word.set_rasterized(True)
            word.set_agg_filter(partial(_blurred, points=_BLURS[line["blur"]]))
        axes.text(398, line["y"], line["value"], ha="right", fontsize=10, color=COLOURS["muted"])
    return Plot(
        "Eye chart",
        f"{lines[-1]['of']}, line by line: the more blurred a word, the closer its accuracy is to chance.",
        inline_svg(figure, name, "Eye chart: accuracy on each line"),
    )


def _blurred(image: NDArray[np.float64], dpi: float, *, points: float) -> tuple[NDArray[np.float64], float, float]:
    """Blur a drawn word as CSS `blur` does: by a Gaussian of this standard deviation, the image grown by its margin."""
    deviation = points * dpi / 72.0
    margin = max(1, round(3 * deviation))
    grown = np.pad(image, ((margin, margin), (margin, margin), (0, 0)))
    grown[..., :3] *= grown[..., 3:]
    kernel = np.exp(-0.5 * (np.arange(-margin, margin + 1) / deviation) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        grown = np.apply_along_axis(np.convolve, axis, grown, kernel, mode="same")
    grown[..., :3] /= np.maximum(grown[..., 3:], 1e-6)
    return np.clip(grown, 0.0, 1.0), -margin, -margin


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
