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
from snellen.reports.tables import format_percent, format_value
from snellen.scoring.metric_text import is_diagnosis
from snellen.types import Metric

_LARGEST = 66.0
_ROOM = 300.0
_LINES = 9
"""The eye chart's first line is so tall, a line so wide and lines so many at most; the chart is 400 units wide."""

_WIDTH = 400.0
_BLUR = 4.0
"""Blur of a word that is read no better than by guessing, as the standard deviation in units of the chart."""


def eye_chart(column: Series) -> list[dict[str, Any]]:
    """Build the lines of an eye chart: the levels from coarse to fine, or the parts of the first metric from best to worst.

    Where several kinds of question have levels and the first metric has none, the kind that is hardest on the finest
    level is drawn. Where there are no levels, and the first metric has no parts but
    the run is of a suite, the lines are the first metrics of its members.
    """
    if not column.metrics or column.metrics[0].value is None:
        return []
    return _chart(column, *_lines(column))


def shared_eye_charts(columns: Sequence[Series]) -> list[list[dict[str, Any]]]:
    """Build the eye charts of several runs of one benchmark: one metric, and one order of lines, in all of them.

    The metric is the one that most runs have, with levels if any has; of several kinds of question it is the one that is
    hardest on the finest level over all runs. Lines without levels are ordered from best to worst over all runs. A line
    that a run has no value of is a dash.
    """
    levels: dict[str, list[tuple[float, dict[str, Metric]]]] = {}
    for column in columns:
        root = column.metrics[0].name if column.metrics else ""
        curves = curves_by_level(column)
        for name, points in curves.items():
            if name == root or len(points) >= 3:
                rank = 2.0 if name == root else -(points[-1][1].value or 0.0)
                levels.setdefault(name, []).append((rank, dict(points)))
    subject = max(levels, key=lambda name: (len(levels[name]), sum(rank for rank, _ in levels[name])), default="")
    known: list[dict[str, Metric]]
    if subject:
        known = [dict(curves_by_level(column).get(subject, ())) for column in columns]
        order = list(dict.fromkeys(label for lines in known for label in lines))
    else:
        parts = [_lines(column) if column.metrics else ("", []) for column in columns]
        parts = [own if own[1] else _outer_parts(column) for column, own in zip(columns, parts, strict=True)]
        subject = next((of for of, lines in parts if lines), "")
        known = [dict(lines) if of == subject else {} for of, lines in parts]
        shares: dict[str, list[float]] = {}
        for lines in known:
            for label, metric in lines.items():
                shares.setdefault(label, []).append(metric.value or 0.0)
        order = sorted(shares, key=lambda label: -sum(shares[label]) / len(shares[label]))
    return [
        _chart(column, subject, [(label, lines.get(label)) for label in order]) if lines else []
        for column, lines in zip(columns, known, strict=True)
    ]


def _chart(column: Series, of: str, lines: Sequence[tuple[str, Metric | None]]) -> list[dict[str, Any]]:
    """Lay out the lines of an eye chart.

    `blur` is 0 to 8: how far the model's sight on that line is from perfect (8: no better than guessing). `deviation` is
    the blur that is drawn: it grows with every difference in score, without steps.
    """
    chart: list[dict[str, Any]] = []
    size, bottom = _LARGEST / 0.82, 0.0
    for label, metric in lines[:_LINES]:
        value, chance = (0.0, 0.0) if metric is None else (metric.value or 0.0, metric.chance or 0.0)
        sight = min(1.0, max(0.0, (value - chance) / (1.0 - chance))) if chance < 1.0 else 1.0
        word = escape_invisible(label).replace("_", " ").upper()[:28]
        size = max(9.0, min(0.82 * size, _ROOM / (0.95 * max(4, len(word)))))
        bottom += 1.0 * size + 10.0
        chart.append(
            {
                "word": word,
                "value": "–" if metric is None else format_value(metric.value, metric.unit),
                "short": "–" if metric is None else format_percent(value, 0),
                "size": round(size, 1),
                "y": round(bottom, 1),
                "blur": round(8 * (1.0 - sight), 3),
                "deviation": round(_BLUR * (1.0 - sight) ** 1.2, 3),
                "link": "" if metric is None else metric_link(metric.name, column.tally, column.run, column.profile),
                "of": of,
            }
        )
    return chart


def eye_chart_names(runs: Sequence[Series]) -> list[str]:
    """Return the names of the runs' eye charts."""
    taken: set[str] = set()
    return [unique_name(taken, "eye-chart", run_word(run, number, len(runs))) for number, run in enumerate(runs)]


def eye_chart_plot(lines: Sequence[dict[str, Any]], name: str) -> Plot | None:
    """Draw an eye chart as a figure for a file; None for one without lines."""
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
        if line["deviation"]:
            word.set_rasterized(True)
            word.set_agg_filter(partial(_blurred, points=line["deviation"]))
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


def _outer_parts(column: Series) -> tuple[str, list[tuple[str, Metric]]]:
    """Return the first metric's name, and its parts of the fewest words; none if fewer than two have a value."""
    root = column.metrics[0].name if column.metrics else ""
    parts = [
        m for m in column.metrics if m.name.startswith(f"{root}/") and m.unit == "fraction" and m.value is not None
    ]
    least = min((m.name.count("/") for m in parts), default=0)
    lines = [(m.name.rpartition("/")[2], m) for m in parts if m.name.count("/") == least and not is_diagnosis(m.name)]
    return root, lines if len(lines) > 1 and len(dict(lines)) == len(lines) else []
