"""Headline scores of many runs, one row a run; and scores against costs, with the runs that no other run beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10

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


_DECADES = 1.3
"""Costs that differ by more are on a logarithmic axis."""
_CHARACTER, _LINE = 0.0105, 0.07
"""Width of a character and height of a line of the names, as shares of the plot."""


class CostPoint(Struct, frozen=True):
    """A run's headline score, and its cost in US dollars."""

    headline: HeadlineScore
    cost: float

    @property
    def score(self) -> float:
        """Return the score, 0 to 1."""
        return self.headline.metric.value or 0.0


def unbeaten(points: Sequence[CostPoint]) -> list[CostPoint]:
    """Return the runs that no other run beats in score at the same or a lower cost, from cheap to dear."""
    front: list[CostPoint] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.score, point.headline.series.label)):
        if not front or point.score > front[-1].score:
            front.append(point)
    return front


def comparable(points: Sequence[CostPoint]) -> list[CostPoint]:
    """Return the runs of one benchmark with a share as score, over as many samples as any: others cost less for less."""
    shares = [p for p in points if p.headline.metric.unit == "fraction" and p.headline.metric.value is not None]
    most = max((point.headline.metric.n for point in shares), default=0)
    return [point for point in shares if point.headline.metric.n == most]


def cost_plots(points: Sequence[CostPoint]) -> list[Plot]:
    """Plot score against cost for each benchmark of which two comparable runs have both."""
    plots = []
    for benchmark in dict.fromkeys(point.headline.benchmark for point in points):
        own = comparable([point for point in points if point.headline.benchmark == benchmark])
        if len(own) > 1 and any(point.cost > 0 for point in own):
            plots.append(_cost_plot(benchmark, own))
    return plots


def name_places(
    names: Mapping[tuple[float, float], str], front: Sequence[tuple[float, float]] = ()
) -> dict[tuple[float, float], tuple[bool, bool]]:
    """Choose where each dot's name stands: (right of it, above it). Names without room are left out, later ones first.

    Args:
        names: by place of the dot, both coordinates as shares of the plot.
        front: dots that the dashed line joins, from left to right; no name lies on its level parts.
    """
    ends = [*(x for x, _ in front[1:]), 1.0]
    level = [(x, y - 0.008, end, y + 0.008) for (x, y), end in zip(front, ends, strict=False)]
    boxes: list[tuple[float, float, float, float]] = []
    chosen: dict[tuple[float, float], tuple[bool, bool]] = {}
    dots = [(x - 0.012, y - 0.025, x + 0.012, y + 0.025) for x, y in names]
    for (x, y), name in names.items():
        width = _CHARACTER * len(name)
        for right, above in ((True, True), (False, True), (True, False), (False, False)):
            left = x + 0.015 if right else x - 0.015 - width
            bottom = y + 0.02 if above else y - 0.02 - _LINE
            box = (left, bottom, left + width, bottom + _LINE)
            inside = left >= 0.0 and box[2] <= 1.0 and bottom >= 0.0
            if inside and not any(_overlap(box, other) for other in (*boxes, *dots, *level)):
                boxes.append(box)
                chosen[x, y] = (right, above)
                break
    return chosen


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _cost_plot(benchmark: str, points: Sequence[CostPoint]) -> Plot:
    from matplotlib.ticker import LogLocator

    front = unbeaten(points)
    figure, axes = new_figure(2.8)
    costs = [point.cost for point in points]
    graded = min(costs) > 0 and log10(max(costs) / min(costs)) > _DECADES
    begin, edge = (min(costs) * 0.8, max(costs) * 1.25) if graded else (0.0, max(costs) * 1.05)
    steps = [front[0], *front]
    axes.step(
        [*(point.cost for point in steps), edge],
        [*(point.score for point in steps), front[-1].score],
        where="post",
        color=COLOURS["muted"],
        lw=1.0,
        linestyle="dashed",
    )
    for point in points:
        series, metric = point.headline.series, point.headline.metric
        tint = series_colour(series.colour)
        if metric.ci95 is not None:
            axes.vlines([point.cost], [metric.ci95[0]], [metric.ci95[1]], colors=tint, lw=1.5, alpha=0.45)
        link = metric_link(metric.name, series.tally, series.run, series.profile)
        draw_dots(axes, [point.cost], [point.score], tint, [link], cycle=series.cycle, size=28)
    if graded:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter("")
    shares = [log10(c / begin) / log10(edge / begin) if graded else c / edge for c in costs]
    places = {(share, point.score): point for share, point in zip(shares, points, strict=True)}
    names = {place: short_label(point.headline.series.run, 24) for place, point in places.items()}
    first = [place for place, point in places.items() if point in front]
    written = name_places({place: names[place] for place in [*first, *names]}, sorted(first))
    for place, (right, above) in written.items():
        axes.annotate(
            names[place],
            (places[place].cost, places[place].score),
            xytext=(6 if right else -6, 5 if above else -5),
            textcoords="offset points",
            ha="left" if right else "right",
            va="bottom" if above else "top",
            fontsize=8,
            color=COLOURS["ink"],
        )
    axes.set_xlim(begin, edge)
    axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.4g}")
    axes.set_xlabel("cost of the run in US dollars" + (", logarithmic" if graded else ""))
    axes.set_ylabel(points[0].headline.metric.name)
    percent_axis(axes, "y")
    return Plot(
        "Score against cost" if not benchmark else f"Score against cost: {short_label(benchmark, 40)}",
        "Each dot is a run with its 95 % interval; runs over fewer samples are left out. The dashed line joins the runs that no other run beats in score "
        "at the same or a lower cost. "
        + ("A dot without a name has no room for it. " if len(written) < len(points) else "")
        + "Costs are as recorded; check the prices.",
        inline_svg(
            figure, f"cost-{benchmark}", "Headline score of each run against its cost, with the best for each cost"
        ),
    )
