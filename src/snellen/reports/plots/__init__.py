"""The plots of a report, as SVG that stands in the page. Every bar and cell leads to the answers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snellen.reports.collect import AnswerConfusion
from snellen.reports.links import FAILURES, gallery_link, meta_filters, metric_link
from snellen.reports.plots.bars import breakdown_plots, gain_plots
from snellen.reports.plots.base import (
    Plot,
    Series,
    draw_dots,
    file_legend,
    file_legend_height,
    new_figure,
    percent_axis,
    run_word,
    series_colour,
    short_label,
    unique_name,
)
from snellen.reports.plots.class_ranking import rankings
from snellen.reports.plots.confusions import kinship_bars
from snellen.reports.plots.costs import HeadlineScore, headline_plot
from snellen.reports.plots.icicle import icicles
from snellen.reports.plots.level_curves import level_curves
from snellen.reports.plots.reliability import reliability_plot
from snellen.reports.plots.svg import COLOURS, inline_svg, page_style
from snellen.reports.views import PairedView
from snellen.scoring.metric_text import is_diagnosis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FOREST_ROWS = 30

KIND_NAMES = {
    "choice": "multiple choice",
    "choice_text": "multiple choice by text",
    "truth": "true or false",
    "short": "short answer",
    "open": "open answer",
}
"""Kinds of question as titles of plots name them; others keep their name."""


def forest_plot(series: Sequence[Series]) -> Plot | None:
    """Plot metrics with their intervals, one colour per series, and a tick at chance."""
    metrics_of = [[m for m in column.metrics if m.unit == "fraction" and m.value is not None] for column in series]
    # A diagnosis has plots of its own, and the ends of its names say too little here.
    known = [[m.name for m in column.metrics if not is_diagnosis(m.name)] for column in series]
    valued = {metric.name for metrics in metrics_of for metric in metrics}
    names = _chosen([name for name in dict.fromkeys(n for own in known for n in own) if name in valued], known)
    if len(names) < 2:
        return None
    labels = [column.label for column in series]
    figure, axes = new_figure(0.5 + (0.14 + 0.09 * len(series)) * len(names) + file_legend_height(labels))
    place = {name: -row for row, name in enumerate(names)}
    chances: dict[str, float] = {}
    for number, (column, metrics) in enumerate(zip(series, metrics_of, strict=True)):
        shift = ((len(series) - 1) / 2 - number) * 0.72 / max(1, len(series))
        listed = [m for m in metrics if m.name in place]
        chances.update({m.name: m.chance for m in listed if m.chance is not None})
        at = [place[m.name] + shift for m in listed]
        ranges = [(y, m.ci95) for y, m in zip(at, listed, strict=True) if m.ci95 is not None]
        tint = series_colour(column.colour)
        axes.hlines(
            [y for y, _ in ranges],
            [c[0] for _, c in ranges],
            [c[1] for _, c in ranges],
            colors=tint,
            lw=2.4,
            alpha=0.45,
        )
        urls = [metric_link(m.name, column.tally, column.run, column.profile) for m in listed]
        draw_dots(axes, [m.value or 0.0 for m in listed], at, tint, urls, cycle=column.cycle)
    ticks = [(chance, place[name]) for name, chance in chances.items()]
    axes.vlines(
        [x for x, _ in ticks],
        [y - 0.42 for _, y in ticks],
        [y + 0.42 for _, y in ticks],
        colors=COLOURS["muted"],
        lw=1.2,
        linestyles="dotted",
    )
    axes.set_yticks([place[name] for name in names], [_end(name) for name in names])
    axes.set_ylim(-len(names) + 0.4, 0.6)
    axes.spines["left"].set_visible(False)
    percent_axis(axes, "x")
    file_legend(axes, [(column.label, column.number) for column in series])
    return Plot(
        "Scores with intervals",
        "Dots are scores, bars 95 % intervals, dotted ticks chance. Each dot links to its incorrect answers.",
        inline_svg(figure, "scores", "Scores with intervals, by metric"),
    )


def _chosen(names: Sequence[str], known: Sequence[Sequence[str]]) -> list[str]:
    """Select as many parts of the metrics as fit. If even one level of parts is too much, take of each member of a suite
    its first metric that is not a share of failures.

    Args:
        names: metrics that have a value.
        known: every metric of each series, in order.
    """
    for depth in (9, 3, 2, 1):
        shallow = [name for name in names if name.count("/") <= depth]
        if len(shallow) <= _FOREST_ROWS:
            return shallow
    leading: dict[str, None] = {}
    for own in known:
        heads: dict[str, str] = {}
        for name in own:
            if "/" in name and name.rpartition("/")[2] not in FAILURES:
                heads.setdefault(name.partition("/")[0], name)
        leading |= dict.fromkeys(heads.values())
    return [name for name in names if "/" not in name or name in leading][:_FOREST_ROWS]


def _end(name: str) -> str:
    """Return the last two parts of a metric's name, for the axis."""
    return short_label(" · ".join(name.split("/")[-2:]), 28)


def latency_histogram(series: Series, name: str) -> Plot | None:
    """Plot a histogram of latency."""
    seconds = np.asarray(series.tally.latencies, dtype=np.float64)
    if len(seconds) < 5 or float(seconds.max()) <= 0:
        return None
    scale, unit = (1000.0, "ms") if float(np.median(seconds)) < 0.5 else (1.0, "s")
    times = seconds * scale
    median, late, top = (float(q) for q in np.quantile(times, (0.5, 0.95, 0.995)))
    figure, axes = new_figure(2.3)
    beyond = int((times > top * 1.05).sum())
    axes.hist(times, bins=32, range=(0.0, top * 1.05 or 1.0), color=COLOURS["muted"], alpha=0.75, rwidth=0.9)
    texts = [(median, f" median {median:.3g} {unit}"), (late, f" 95th percentile {late:.3g} {unit}")]
    if late - median < 0.55 * top:  # the two would overlap
        texts = [(median, f" median {median:.3g} {unit}, 95th percentile {late:.3g} {unit} ")]
    for value in (median, late):
        axes.axvline(value, color=COLOURS["ink"], lw=1.0, ls=(0, (1, 1)))
    for value, text in texts:
        side = "right" if value > 0.6 * top else "left"
        axes.annotate(text, (value, 1.0), xycoords=("data", "axes fraction"), va="bottom", ha=side, fontsize=9)
    axes.set_xlabel(f"{unit} per reply")
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    slower = "1 slower reply lies" if beyond == 1 else f"{beyond:,} slower replies lie"
    tail = f" {slower} beyond the right edge." if beyond else ""
    return Plot("Latency", f"{len(times):,} replies.{tail}", inline_svg(figure, name, "Histogram of latency"))


def error_bars(series: Series, name: str) -> Plot | None:
    """Plot refused and failed samples by kind of error."""
    if not series.tally.errors:
        return None
    kinds = series.tally.errors.most_common(12)
    figure, axes = new_figure(0.35 + 0.28 * len(kinds))
    bars = axes.barh(
        [-i for i in range(len(kinds))], [n for _, n in kinds], height=0.56, color=COLOURS["wrong"], alpha=0.8
    )
    for bar, (kind, count) in zip(bars, kinds, strict=True):
        bar.set_url(gallery_link(run=series.run, error=kind))
        axes.annotate(f"{count:,}", (count, bar.get_y() + 0.28), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks([-i for i in range(len(kinds))], [short_label(kind, 26) for kind, _ in kinds])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xticks([])
    axes.margins(x=0.15)
    return Plot(
        "Samples without an answer",
        "Refusals and failures by kind; each bar links to its samples.",
        inline_svg(figure, name, "Errors by kind"),
    )


def confusion_plots(series: Series, run: str, taken: set[str], limit: int = 4) -> list[Plot]:
    """Plot confusion matrices of kinds with few targets; the diagonal is correct. `run` and `taken` name the plots."""
    plots = []
    usable = [(where, c) for where, c in series.tally.confusions.items() if c.cells and len(c.targets) >= 2]
    usable.sort(key=lambda item: -sum((item[1].cells or {}).values()))
    for where, confusion in usable[:limit]:
        name = unique_name(taken, "confusion", *(value for _, value in where), run)
        plots.append(_confusion(series, name, dict(where), confusion))
    return plots


def _confusion(series: Series, name: str, where: dict[str, str], confusion: AnswerConfusion) -> Plot:
    cells: dict[tuple[str, str], int] = confusion.cells or {}
    targets = sorted(confusion.targets, key=lambda t: (len(t), t) if t.isdigit() else (99, t))
    rest = {read for _, read in cells if read not in confusion.targets}
    columns = [*targets, *(["other"] if rest - {""} else []), *(["unparsed"] if "" in rest else [])]
    counts: dict[tuple[str, str], int] = {}
    for (target, read), count in cells.items():
        column = read if read in confusion.targets else ("unparsed" if read == "" else "other")
        counts[target, column] = counts.get((target, column), 0) + count
    figure, axes = new_figure(1.0 + 0.3 * len(targets))
    for row, target in enumerate(targets):
        total = sum(counts.get((target, column), 0) for column in columns)
        for at, column in enumerate(columns):
            count = counts.get((target, column), 0)
            if count:
                _cell(axes, at, -row, count, total, target == column).set_url(
                    gallery_link(
                        run=series.run,
                        target=target,
                        read="-" if column == "unparsed" else None if column == "other" else column,
                        **meta_filters(where),
                    )
                )
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(-len(targets) + 0.5, 0.5)
    tilted = max(len(short_label(c, 12)) for c in columns) * len(columns) > 44
    axes.set_xticks(
        range(len(columns)),
        [short_label(c, 12) for c in columns],
        rotation=45 if tilted else 0,
        ha="right" if tilted else "center",
    )
    axes.set_yticks([-i for i in range(len(targets))], [short_label(t, 16) for t in targets])
    axes.set_xlabel("extracted answer")
    axes.set_ylabel("target")
    axes.spines[["left", "bottom"]].set_visible(False)
    return Plot(
        "Confusion matrix: " + ", ".join(short_label(KIND_NAMES.get(value, value), 30) for value in where.values()),
        "Rows are targets, columns extracted answers; each cell links to its answers.",
        inline_svg(figure, name, "Confusion of targets and answers"),
    )


def _cell(axes: Axes, x: int, y: int, count: int, total: int, right: bool) -> Any:
    from matplotlib.patches import Rectangle

    share = count / total
    tint = COLOURS["right" if right else "wrong"]
    box = Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, facecolor=tint, alpha=0.12 + 0.6 * share, linewidth=0)
    axes.add_patch(box)
    axes.text(x, y, f"{count:,}", ha="center", va="center", fontsize=8.5)
    return box


def draw_plots(series: Sequence[Series], first: Sequence[Series], comparisons: Sequence[PairedView] = ()) -> list[Plot]:
    """Draw every plot that the data allow. Plots of one run of several have the run's name at the end of theirs.

    Args:
        series: every run under every profile.
        first: every run under its first profile.
        comparisons: of the runs with the first of their benchmark.
    """
    taken: set[str] = set()
    with page_style():
        plots = [forest_plot(series), *_shared(first, comparisons, taken)]
        for number, column in enumerate(first):
            own = _run_plots(column, run_word(column, number, len(first)), taken)
            plots += [_named(plot, column, len(first)) for plot in own]
    return [plot for plot in plots if plot is not None]


def draw_shared_plots(
    headlines: Sequence[HeadlineScore], first: Sequence[Series], comparisons: Sequence[PairedView], taken: set[str]
) -> list[Plot]:
    """Draw the plots that many runs share: headline scores, level curves, rankings and bars, with names at the lines.

    `taken` has the names of the page's plots.
    """
    taken.add("scores")
    with page_style():
        plots = [headline_plot(headlines), *_shared(first, comparisons, taken)]
    return [plot for plot in plots if plot is not None]


def _shared(first: Sequence[Series], comparisons: Sequence[PairedView], taken: set[str]) -> list[Plot]:
    bars = [*gain_plots(comparisons, first, taken), *breakdown_plots(first, taken)]
    return [*level_curves(first, taken), *rankings(first, taken), *bars]


def draw_run_plots(column: Series, run: str, taken: set[str]) -> list[Plot]:
    """Draw the plots of one of many runs; `run` ends their names."""
    with page_style():
        return _run_plots(column, run, taken)


def _run_plots(column: Series, run: str, taken: set[str]) -> list[Plot]:
    plots = [
        *icicles(column, run, taken),
        kinship_bars(column, unique_name(taken, "taxonomic-distance", run)),
        error_bars(column, unique_name(taken, "failed-samples", run)),
        reliability_plot(column, unique_name(taken, "reliability", run)),
        latency_histogram(column, unique_name(taken, "latency", run)),
        *confusion_plots(column, run, taken),
    ]
    return [plot for plot in plots if plot is not None]


def _named(plot: Plot, column: Series, runs: int) -> Plot:
    return plot if runs == 1 else Plot(f"{plot.title} · {column.label}", plot.caption, plot.svg)
