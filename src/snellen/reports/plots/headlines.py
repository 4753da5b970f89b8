"""Headline scores of many runs: one row a run with its name, from best to worst within each benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.reports.links import metric_link
from snellen.reports.plots.base import (
    Plot,
    Series,
    draw_dots,
    draw_interval,
    new_figure,
    percent_axis,
    series_colour,
    short_label,
)
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.types import Metric

_ROWS = 60
"""Runs that are drawn at most."""


class HeadlineScore(Struct, frozen=True):
    """A run's first metric for the plot: the run's series and benchmark, and whether the run is incomplete."""

    series: Series
    benchmark: str
    metric: Metric
    incomplete: bool


def headline_order(headlines: Sequence[HeadlineScore]) -> list[HeadlineScore]:
    """Sort by benchmark in order of first appearance, complete runs before others, then from best to worst."""
    place = {name: at for at, name in enumerate(dict.fromkeys(h.benchmark for h in headlines))}
    return sorted(headlines, key=lambda h: (place[h.benchmark], h.incomplete, -(h.metric.value or 0.0)))


def headline_plot(headlines: Sequence[HeadlineScore]) -> Plot | None:
    """Plot headline scores with intervals, and chance of each benchmark; None for fewer than two shares."""
    drawn = headline_order([h for h in headlines if h.metric.unit == "fraction" and h.metric.value is not None])
    if len(drawn) < 2:
        return None
    omitted = len(drawn) - _ROWS
    drawn = drawn[:_ROWS]
    several = len({h.benchmark for h in drawn}) > 1
    labels: list[tuple[float, str]] = []
    row = 0.0
    figure, axes = new_figure(0.5 + 0.24 * (len(drawn) + several * len({h.benchmark for h in drawn})))
    for number, headline in enumerate(drawn):
        if several and (number == 0 or drawn[number - 1].benchmark != headline.benchmark):
            axes.annotate(
                short_label(headline.benchmark, 40),
                (0.0, row),
                xycoords=axes.get_yaxis_transform(),
                va="center",
                fontsize=9,
                color=COLOURS["muted"],
            )
            row -= 1.0
        series, metric = headline.series, headline.metric
        tint = series_colour(series.colour)
        draw_interval(axes, metric.ci95, row, tint, alpha=0.45)
        if metric.chance is not None:
            axes.vlines([metric.chance], [row - 0.5], [row + 0.5], colors=COLOURS["muted"], lw=1.2, linestyles="dotted")
        link = metric_link(metric.name, series.tally, series.run, series.profile)
        draw_dots(axes, [metric.value or 0.0], [row], tint, [link], cycle=series.cycle, size=26)
        labels.append((row, short_label(series.label, 28) + (" (incomplete)" if headline.incomplete else "")))
        row -= 1.0
    axes.set_yticks([at for at, _ in labels], [text for _, text in labels])
    axes.set_ylim(row + 0.4, 0.6)
    axes.spines["left"].set_visible(False)
    percent_axis(axes, "x")
    metrics = " and ".join(dict.fromkeys(h.metric.name for h in drawn))
    return Plot(
        "Headline scores with intervals",
        f"{short_label(metrics, 60)} of each run; bars are 95 % intervals, dotted ticks chance."
        + (f" {omitted:,} more runs are omitted." if omitted > 0 else "")
        + " Each dot links to its incorrect answers.",
        inline_svg(figure, "scores", "Headline score of each run with its interval"),
    )
