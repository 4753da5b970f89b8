"""Bars with intervals: one row a part, one bar a run. Scores by part of a benchmark, and differences between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from snellen.reports.links import metric_link
from snellen.reports.plots.base import (
    Plot,
    Series,
    draw_interval,
    legend_height,
    line_legend,
    mark_of,
    new_figure,
    percent_axis,
    series_colour,
    short_label,
    unique_name,
)
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.reports.views import PairedView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40
BarUnit = Literal["share", "points", "count"]


class Bar(Struct, frozen=True):
    """One bar: its value with an interval, and where it leads."""

    value: float
    ci95: tuple[float, float] | None = None
    url: str = ""


class BarSeries(Struct, frozen=True):
    """The bars of one run by row; its label, and the number of its colour on the page, which its marker follows."""

    label: str
    colour: int
    bars: Mapping[str, Bar]


def bar_plot(
    name: str,
    title: str,
    caption: str,
    series: Sequence[BarSeries],
    *,
    unit: BarUnit = "share",
    counted: str = "questions",
    chances: Mapping[str, float] | None = None,
) -> Plot:
    """Plot bars from 0, in the order in which rows first appear, each with its number.

    Args:
        name: of the SVG element and its files.
        unit: `share` is drawn in percent, `points` in percentage points on both sides of 0.
        counted: what bars of unit `count` count.
        chances: row to its level of chance, a dotted tick.
    """
    every = dict.fromkeys(row for one in series for row in one.bars)
    rows = list(every)[:MOST_ROWS]
    more = f" {len(every) - MOST_ROWS:,} more rows are omitted." if len(every) > MOST_ROWS else ""
    labels = [one.label for one in series]
    height = 0.16 * len(series) + 0.1
    figure, axes = new_figure(0.75 + height * len(rows) + 0.2 * (len(series) > 1) + legend_height(labels))
    thick = 1 / (len(series) + 0.6)
    ends: list[float] = [0.0]
    for place, row in enumerate(rows):
        for number, one in enumerate(series):
            if row in one.bars:
                at = ((len(series) - 1) / 2 - number) * thick - place
                ends += _draw_bar(axes, one.bars[row], at, one.colour, thick, unit)
        if (chance := (chances or {}).get(row)) is not None:
            axes.plot([chance] * 2, [-place - 0.42, -place + 0.42], color=COLOURS["muted"], lw=1.2, ls="dotted")
    axes.set_yticks([-place for place in range(len(rows))], [short_label(row, 30) for row in rows])
    axes.set_ylim(-len(rows) + 0.4, 0.6)
    axes.spines["left"].set_visible(False)
    if unit == "share":
        percent_axis(axes, "x")
        axes.set_xlim(-0.01, max(1.01, 1.1 * max(ends)))
    else:
        reach = max(ends) - min(ends) or 1.0
        axes.set_xlim(min(ends) - 0.03 * reach, max(ends) + 0.12 * reach)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.axvline(0.0, color=COLOURS["ink"], lw=1.0)
        axes.set_xlabel("percentage points" if unit == "points" else f"number of {counted}")
    line_legend(axes, [(one.label, one.colour) for one in series])
    return Plot(title, caption + more, inline_svg(figure, name, title))


def _draw_bar(axes: Axes, bar: Bar, at: float, colour: int, thick: float, unit: BarUnit) -> tuple[float, float]:
    """Draw one bar with its interval, marker and number; return how far it reaches on both sides."""
    tint = series_colour(colour)
    (box,) = axes.barh([at], [bar.value], height=0.8 * thick, color=tint, alpha=0.3, lw=0)
    box.set_url(bar.url or None)
    draw_interval(axes, bar.ci95, at, tint, alpha=0.7)
    axes.scatter([bar.value], [at], s=16, color=tint, lw=0, zorder=3, marker=mark_of(colour))
    low, high = (end(0.0, bar.value, *(bar.ci95 or ())) for end in (min, max))
    axes.annotate(_number(bar.value, unit), (high, at), (4, 0), textcoords="offset points", va="center", fontsize=8)
    return low, high


def _number(value: float, unit: BarUnit) -> str:
    return f"{100 * value:.0f} %" if unit == "share" else f"{value:+.1f}" if unit == "points" else f"{value:,.0f}"


def breakdown_plots(series: Sequence[Series], taken: set[str]) -> list[Plot]:
    """Plot the metrics that break another one down by a meta column: `pair_accuracy/cue/swap` of `pair_accuracy`.

    There is one plot a column, over all members of a suite, in the metric's own unit. `taken` has the names of plots.
    """
    parts: dict[str, list[BarSeries]] = {}
    chances: dict[str, float] = {}
    for column in series:
        names = {metric.name for metric in column.metrics}
        by_column: dict[str, dict[str, Bar]] = {}
        for metric in column.metrics:
            parts_of = metric.name.split("/")  # a value of the column may hold slashes too
            places = range(len(parts_of) - 2, 0, -1)
            at = next((k for k in places if "/".join(parts_of[:k]) in names and parts_of[k] in column.tally.meta), None)
            if at is None or metric.value is None:
                continue
            whole, meta, value = "/".join(parts_of[:at]), parts_of[at], "/".join(parts_of[at + 1 :])
            row = " · ".join([*whole.split("/")[:-1], value])
            link = metric_link(metric.name, column.tally, column.run, column.profile)
            by_column.setdefault(meta, {})[row] = Bar(metric.value, metric.ci95, link)
            if metric.chance is not None:
                chances[row] = metric.chance
        for meta, bars in by_column.items():
            parts.setdefault(meta, []).append(BarSeries(column.label, column.number, bars))
    ticks = "; dotted ticks are chance" if chances else ""
    caption = f"The benchmark's own figure over each part, with 95 % intervals{ticks}. Each bar links to its answers."
    return [
        bar_plot(unique_name(taken, "by", meta), f"Scores by {short_label(meta)}", caption, own, chances=chances)
        for meta, own in parts.items()
    ]


def gain_plots(comparisons: Sequence[PairedView], series: Sequence[Series], taken: set[str]) -> list[Plot]:
    """Plot the differences of published metrics from the first run of a benchmark, paired; one plot for each first run."""
    colours = {column.run: column.number for column in series}
    plots = []
    for base in dict.fromkeys(pair.second for pair in comparisons if pair.units):
        own = [_gains(pair, colours[pair.first]) for pair in comparisons if pair.second == base and pair.units]
        only = f" {own[0].label} minus {base}." if len(own) == 1 else ""
        caption = f"In the benchmark's own units, over the samples of both runs, with paired 95 % intervals.{only}"
        title = f"Difference from {short_label(base, 40)}"
        plots.append(bar_plot(unique_name(taken, "difference", base), title, caption, own, unit="points"))
    return plots


def _gains(pair: PairedView, colour: int) -> BarSeries:
    bars = {}
    for one in pair.units:
        ends = None if one.ci95 is None else (100 * one.ci95[0], 100 * one.ci95[1])
        bars[one.name.replace("/", " · ")] = Bar(100 * (one.difference or 0.0), ends)
    return BarSeries(pair.first, colour, bars)


def question_plots(benchmark: str, parts: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> list[Plot]:
    """Plot how many questions each part of a benchmark has, and each kind of answer: by part in the same order of kinds.

    Args:
        benchmark: its name, for the titles.
        parts: part to kind to questions, as `CheckResult.parts`.
        names: kinds as they are shown; others keep their name.

    Source of the form: VLM2-Bench (arXiv 2502.12084), figures 4 and 6.
    """
    total = sum(sum(kinds.values()) for kinds in parts.values())
    by_kind: dict[str, int] = {}
    for kinds in parts.values():
        for kind, count in kinds.items():
            by_kind[names.get(kind, kind)] = by_kind.get(names.get(kind, kind), 0) + count
    by_part = {part: sum(kinds.values()) for part, kinds in parts.items() if part}
    plots = []
    for name, what, counts in (
        ("questions-by-part", "part", by_part),
        ("questions-by-kind", "kind of answer", by_kind),
    ):
        bars = {
            f"{short_label(label, 20)} · {100 * count / total:.1f} %": Bar(float(count))
            for label, count in counts.items()
        }
        caption = f"{total:,} questions, with the share of each {what}."
        title = f"Questions of {short_label(benchmark, 40)} by {what}"
        if len(bars) > 1 or (bars and what != "part"):
            plots.append(bar_plot(name, title, caption, [BarSeries("", 1, bars)], unit="count"))
    return plots
