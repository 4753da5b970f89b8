"""The acuity card as figures for files: the card with its curves, and the wall chart."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from snellen.benchmarks.acuity.attributes.letters import outline
from snellen.benchmarks.acuity.drawing import coverage, landolt
from snellen.reports.acuity.card import CardLane, CardLine, CardRun, card_lines
from snellen.reports.acuity.view import axis_text, curve_band, level_number, pooled_answers
from snellen.reports.acuity.wall_chart import WIDTH, WallChart, wall_chart
from snellen.reports.plots.base import Plot, file_legend, new_figure, series_colour, short_label, unique_name
from snellen.reports.plots.svg import COLOURS, inline_svg, page_style
from snellen.scoring.psychometrics.curve import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE_HEIGHT = 0.44
"""Inches of a line of the card with one run; each further run takes a bit more."""
PER_UNIT = 3
"""Pixels of the wall chart's picture a unit of the chart."""
CURVE_COLUMNS, CURVE_WIDTH, CURVE_HEIGHT = 3, 2.6, 2.0


def acuity_figures(runs: Sequence[CardRun]) -> list[Plot]:
    """Draw the card, the curves of its conditions, and a wall chart of each run that has one."""
    if not runs:
        return []
    lines, taken = card_lines(runs), set[str]()
    with page_style():
        plots = [
            _card(lines, runs, unique_name(taken, "acuity-card")),
            _curves(lines, unique_name(taken, "acuity-curves")),
        ]
        for run in runs:
            chart = wall_chart(run.view)
            if chart is not None:
                plots.append(_wall(chart, unique_name(taken, "acuity-wall-chart", run.name if len(runs) > 1 else "")))
    return plots


def _card(lines: Sequence[CardLine], runs: Sequence[CardRun], name: str) -> Plot:
    step = LINE_HEIGHT + 0.16 * (len(runs) - 1)
    figure, axes = new_figure(0.7 + step * len(lines), 8.4)
    for row, line in enumerate(lines):
        for number, lane in enumerate(line.lanes):
            deep = 0.5 if len(line.lanes) == 1 else 0.8 / len(line.lanes)
            shift = 0.0 if len(line.lanes) == 1 else ((len(line.lanes) - 1) / 2 - number) * deep
            _lane(axes, lane, -row + shift, deep * 0.9)
        if line.tick is not None:
            axes.vlines([line.tick.low, line.tick.high], -row - 0.4, -row + 0.4, colors=COLOURS["ink"], lw=1.0, ls=(0, (2, 1.5)))  # fmt: skip
        _words(axes, line, -row)
    axes.set_xlim(0, 100)
    axes.set_ylim(-len(lines) + 0.4, 0.6)
    axes.set_yticks([-row for row in range(len(lines))], [short_label(line.name, 28) for line in lines])
    axes.set_xticks([0, 100], ["hardest level", "easiest"])
    axes.spines[["left", "bottom"]].set_visible(False)
    file_legend(axes, [(run.name, run.colour) for run in runs])
    return Plot(
        "Acuity card",
        "Coloured where the model sees; dots are thresholds, thick lines 95 % intervals, dashed ticks people.",
        inline_svg(figure, name, "Acuity card: thresholds of all conditions"),
    )


def _lane(axes: Axes, lane: CardLane, at: float, deep: float) -> None:
    tint = series_colour(lane.colour)
    axes.barh(at, 100, height=deep, color=COLOURS["muted"], alpha=0.2, linewidth=0)
    axes.barh(at, 100 - lane.seen_from, left=lane.seen_from, height=deep, color=tint, alpha=0.34, linewidth=0)
    if lane.at is not None and lane.low is not None and lane.high is not None:
        axes.plot([lane.low, lane.high], [at, at], color=tint, lw=4.0, solid_capstyle="butt")
        axes.scatter([lane.at], [at], s=34, color=tint, edgecolors=COLOURS["paper"], linewidths=0.9, zorder=3)


def _words(axes: Axes, line: CardLine, row: float) -> None:
    """Write thresholds, intervals and faults at the right of a line."""
    single = len(line.lanes) == 1
    texts = [(f"{lane.text} {lane.interval}".strip(), lane) for lane in line.lanes]
    place: dict[str, Any] = {
        "xycoords": ("axes fraction", "data"),
        "textcoords": "offset points",
        "fontsize": 8.5,
        "va": "center",
    }
    deep = 0.44 if single else 0.8 / (len(texts) + bool(line.ratios))
    top = row + (0.2 if single else 0.4 - deep / 2)
    for number, (text, lane) in enumerate(texts):
        colour = COLOURS["ink"] if single else series_colour(lane.colour)
        fault = f"   {lane.fault}" if lane.fault and not single else ""
        axes.annotate(text + fault, (1.0, top - number * deep), (8, 0), color=colour, annotation_clip=False, **place)
    if single:
        lane = line.lanes[0]
        below = lane.fault or f"{lane.questions:,} questions{f', {lane.remark}' if lane.remark else ''}"
        colour = COLOURS["wrong" if lane.fault else "muted"]
        axes.annotate(
            below, (1.0, row - 0.22), (8, 0), color=colour, annotation_clip=False, **{**place, "fontsize": 7.5}
        )
    for number, ratio in enumerate(line.ratios[:1]):
        better = f": {ratio.better} sees more" if ratio.better else ": cannot tell"
        at = (1.0, top - (len(texts) + number) * deep)
        text = f"{short_label(ratio.run, 16)}: {ratio.text} {ratio.interval} times finer{better}"
        axes.annotate(text, at, (8, 0), color=COLOURS["muted"], annotation_clip=False, **{**place, "fontsize": 7.5})


def curves_figure(lines: Sequence[CardLine]) -> Figure:
    """Return the figure of the psychometric curves, a small plot for each condition."""
    from matplotlib.figure import Figure

    rows = -(-len(lines) // CURVE_COLUMNS)
    columns = min(CURVE_COLUMNS, len(lines))
    figure = Figure(figsize=(CURVE_WIDTH * columns, CURVE_HEIGHT * rows), layout="constrained")
    for number, line in enumerate(lines, 1):
        axes = figure.add_subplot(rows, columns, number)
        for lane in line.lanes:
            _curve(axes, line, lane)
        axes.set_ylim(-0.04, 1.04)
        axes.set_yticks([0.0, 0.5, 1.0], ["0", "50", "100 %"], fontsize=7)
        ends = line.attribute.levels[0], line.attribute.levels[-1]
        middle = (ends[0] + ends[1]) / 2
        labels = [level_number(line.attribute.value(end), line.attribute.unit) for end in (ends[0], middle, ends[1])]
        axes.set_xticks([ends[0], middle, ends[1]], labels, fontsize=7)
        axes.set_title(short_label(line.name, 34), fontsize=8, loc="left")
        axes.set_xlabel(axis_text(line.attribute.unit), fontsize=7)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
    return figure


def _curves(lines: Sequence[CardLine], name: str) -> Plot:
    return Plot(
        "Curves of the acuity card",
        "Right answers by level, easier to the right; bands are 95 % of posterior draws, circles pooled answers.",
        inline_svg(curves_figure(lines), name, "Psychometric curves of all conditions"),
    )


def _curve(axes: Axes, line: CardLine, lane: CardLane) -> None:
    tint, result = series_colour(lane.colour), lane.measured.result
    band = curve_band(result)
    axes.fill_between(band.levels, band.low, band.high, color=tint, alpha=0.2, linewidth=0)
    axes.plot(band.levels, band.mean, color=tint, lw=1.3)
    if line.attribute.form != "same-different":
        axes.axhline(line.attribute.guess_rate, color=COLOURS["muted"], lw=0.8, ls=(0, (1, 2)))
    points = pooled_answers(result)
    sizes = [2.2 * point.answers for point in points]
    axes.scatter([p.level for p in points], [p.share for p in points], s=sizes, color=tint, alpha=0.75, linewidths=0)
    if result.estimate.value is not None:
        axes.plot(result.estimate.interval, [-0.02, -0.02], color=tint, lw=3.0, solid_capstyle="butt")


def _wall(chart: WallChart, name: str) -> Plot:
    figure, axes = new_figure(chart.height / 72.0, WIDTH / 72.0)
    figure.set_layout_engine("none")
    axes.set_position((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    ink = np.zeros((round(chart.height * PER_UNIT), round(WIDTH * PER_UNIT), 4))
    ink[..., :3] = [int(COLOURS["ink"][at : at + 2], 16) / 255 for at in (1, 3, 5)]
    ink[..., 3] = _coverage(chart)
    axes.imshow(ink, extent=(0.0, WIDTH, chart.height, 0.0), interpolation="bilinear", aspect="auto")
    axes.set_xlim(0.0, WIDTH)
    axes.set_ylim(chart.height, 0.0)
    for line in chart.lines:
        for text, x, side in ((line.fraction, 2.0, "left"), (line.text, WIDTH - 2.0, "right")):
            axes.text(x, line.y + 3.6, text, ha=side, fontsize=8.5, color=COLOURS["muted"])
    if chart.rule is not None:
        axes.hlines([chart.rule], 0, WIDTH, colors=COLOURS["right"], lw=1.6)
        axes.hlines([chart.rule + 2.4], 0, WIDTH, colors=COLOURS["wrong"], lw=1.6)
    return Plot(
        "Wall chart", f"{chart.about}; blurred by what the model loses.", inline_svg(figure, name, "Wall chart")
    )


def _coverage(chart: WallChart) -> Array:
    """Return how much ink each pixel of the chart has, 0 to 1, blurred line by line."""
    ink = np.zeros((round(chart.height * PER_UNIT), round(WIDTH * PER_UNIT)))
    for line in chart.lines:
        layer = np.zeros_like(ink)
        for shape in line.optotypes:
            left, top, size = (PER_UNIT * each for each in (shape.x, shape.y, shape.size))
            if shape.letter:
                outlined = outline(shape.letter, left, top, size / 5)
            else:
                outlined = landolt(left + size / 2, top + size / 2, size / 5, shape.turn * pi / 180)
            box = int(left) - 1, int(top) - 1, int(left + size) + 2, int(top + size) + 2
            layer[box[1] : box[3], box[0] : box[2]] += coverage(outlined, *box)
        deviation = PER_UNIT * line.deviation
        if deviation > 0.1:
            reach = ceil(3 * deviation)
            kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
            for axis in (0, 1):
                layer = np.apply_along_axis(np.convolve, axis, layer, kernel / kernel.sum(), mode="same")
        ink = np.maximum(ink, layer)
    return np.clip(ink, 0.0, 1.0)
