"""The page of a watch: scores over the steps of a training with intervals, and a table of the checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.atomic_write import write_whole
from snellen.redaction import redact
from snellen.reports.escape import escape_invisible
from snellen.reports.plots.base import Plot, draw_interval, new_figure, percent_axis, series_colour
from snellen.reports.plots.svg import COLOURS, inline_svg, page_style
from snellen.reports.render import fill_template, read_asset
from snellen.reports.tables import metric_fields
from snellen.types import Metric

TICKS = 8
"""Steps that are named below a plot."""


class StepScore(Struct, frozen=True):
    """One checkpoint: its step, its metric or the error in place of one, and the conditions that the metric holds under."""

    step: int
    checkpoint: str
    metric: Metric | None
    error: str = ""
    conditions: str = ""


class StepSeries(Struct, frozen=True):
    """Scores of one benchmark and metric over the steps."""

    benchmark: str
    metric: str
    scores: Sequence[StepScore]

    @property
    def known(self) -> list[tuple[StepScore, Metric]]:
        """The checkpoints with a value."""
        return [(score, score.metric) for score in self.scores if score.metric and score.metric.value is not None]

    @property
    def shared_conditions(self) -> str | None:
        """The conditions of all checkpoints with a metric; None where they differ, and each row names its own."""
        every = dict.fromkeys(score.conditions for score in self.scores if score.metric)
        return next(iter(every), "") if len(every) < 2 else None


def write_steps(path: Path, title: str, series: Sequence[StepSeries], notes: Sequence[str] = ()) -> Path:
    """Write the page; raise StorageError if it cannot be written."""
    from markupsafe import Markup

    with page_style():
        plots = [draw_steps(each, number) for number, each in enumerate(series, 1) if each.known]
    page = fill_template(
        "steps.html.jinja",
        read_asset("report.css") + read_asset("features.css"),
        script="",
        title=escape_invisible(title),
        plots=[(plot, Markup(plot.svg)) for plot in plots],
        series=[(each, _rows(each)) for each in series],
        notes=notes,
    )
    return write_whole(path, redact(page), "Choose another folder with --out.")


def draw_steps(series: StepSeries, number: int) -> Plot:
    """Plot one metric over the steps: a line through the values, a bar for each interval, a dashed line for chance."""
    tint = series_colour(number)
    figure, axes = new_figure(3.1)
    steps = [score.step for score, _ in series.known]
    metrics = [metric for _, metric in series.known]
    axes.plot(steps, [metric.value or 0.0 for metric in metrics], color=tint, lw=1.8)
    for step, metric in zip(steps, metrics, strict=True):
        draw_interval(axes, metric.ci95, step, tint, vertical=True)
        axes.scatter([step], [metric.value or 0.0], s=26, color=tint, lw=0, zorder=3)
    chance = next((metric.chance for metric in metrics if metric.chance is not None), None)
    if chance is not None:
        axes.axhline(chance, color=COLOURS["muted"], lw=1.0, linestyle=(0, (4, 3)))
    if metrics[0].unit == "fraction":
        percent_axis(axes, "y")
    else:
        axes.set_ylabel(metrics[0].unit)
        axes.grid(axis="y")
    named = _named_steps(steps)
    axes.set_xticks(named, [f"{step:,}" for step in named])
    axes.set_xlabel("step")
    axes.spines["left"].set_visible(False)
    label = f"{series.metric} of {series.benchmark} over {len(steps)} checkpoints"
    caption = "Bars are 95 % intervals." + ("" if chance is None else " The dashed line is chance.")
    svg = inline_svg(figure, f"steps-{number}", label)
    return Plot(f"{escape_invisible(series.benchmark)}: {escape_invisible(series.metric)}", caption, svg)


def _named_steps(steps: Sequence[int]) -> list[int]:
    """Return the steps that have room for their number below the axis, the last one among them."""
    room = (steps[-1] - steps[0]) / TICKS
    named = steps[-1:]
    for step in reversed(steps[:-1]):
        if named[0] - step >= room and named[0] != step:
            named = [step, *named]
    return list(named)


def _rows(series: StepSeries) -> list[dict[str, Any]]:
    return [
        {
            "step": f"{score.step:,}",
            "checkpoint": score.checkpoint,
            "conditions": score.conditions if series.shared_conditions is None else "",
            "cell": None if score.metric is None else metric_fields(score.metric),
            "n": "" if score.metric is None else f"{score.metric.n:,}",
            "coverage": "" if score.metric is None else f"{score.metric.coverage:.1%}",
            "partial": score.metric is not None and score.metric.coverage < 1.0,
            "error": score.error,
        }
        for score in series.scores
    ]
