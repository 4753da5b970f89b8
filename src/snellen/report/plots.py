"""The plots of a report, as SVG that stands in the page. Every bar and cell leads to the answers behind it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from snellen.report.gather import Confusion, Tally
from snellen.report.links import FAILURES, by, link, metric_link
from snellen.report.svg import COLOURS, SETTINGS, inline
from snellen.report.text import visible
from snellen.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.6
LEVELS = ("kingdom", "phylum", "class", "order", "family", "genus", "species", "subspecies", "variety")
_FOREST_ROWS = 30
SERIES = 6
"""So many colours there are for series; the next one begins anew."""


class Series(Struct, frozen=True):
    """Metrics of one run under one profile, with the colour that they have on the whole page (1 to 6)."""

    label: str
    run: str
    profile: str
    metrics: Sequence[Metric]
    tally: Tally
    colour: int


class Plot(Struct, frozen=True):
    """A figure of the page: title, one sentence that says how to read it, and the drawing."""

    title: str
    caption: str
    svg: str


def colour(number: int) -> str:
    """The stand-in of a series colour; six and then again from the first."""
    return COLOURS[f"series-{(number - 1) % SERIES + 1}"]


def _canvas(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def short(text: str, characters: int = 24) -> str:
    """At most so many characters, for labels."""
    text = visible(text).replace("\n", " ")
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _percent_axis(axes: Axes, axis: str) -> None:
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    labels = ["0", "25", "50", "75", "100 %"]
    if axis == "x":
        axes.set_xlim(-0.01, 1.01)
        axes.set_xticks(ticks, labels)
        axes.grid(axis="x")
    else:
        axes.set_ylim(-0.02, 1.04)
        axes.set_yticks(ticks, labels)
        axes.grid(axis="y")
    axes.set_axisbelow(True)


def forest(series: Sequence[Series]) -> Plot | None:
    """Metrics with their intervals, one colour a series, and a tick where guessing is."""
    found = [[m for m in one.metrics if m.unit == "fraction" and m.value is not None] for one in series]
    known = [[metric.name for metric in one.metrics] for one in series]
    valued = {metric.name for metrics in found for metric in metrics}
    names = _chosen([name for name in dict.fromkeys(n for own in known for n in own) if name in valued], known)
    if len(names) < 2:
        return None
    figure, axes = _canvas(0.5 + (0.14 + 0.09 * len(series)) * len(names))
    place = {name: -row for row, name in enumerate(names)}
    chances: dict[str, float] = {}
    for number, (one, metrics) in enumerate(zip(series, found, strict=True)):
        shift = ((len(series) - 1) / 2 - number) * 0.72 / max(1, len(series))
        shown = [m for m in metrics if m.name in place]
        chances.update({m.name: m.chance for m in shown if m.chance is not None})
        at = [place[m.name] + shift for m in shown]
        ranges = [(y, m.ci95) for y, m in zip(at, shown, strict=True) if m.ci95 is not None]
        tint = colour(one.colour)
        axes.hlines(
            [y for y, _ in ranges],
            [c[0] for _, c in ranges],
            [c[1] for _, c in ranges],
            colors=tint,
            lw=2.4,
            alpha=0.45,
        )
        urls = [metric_link(m.name, one.tally, one.run, one.profile) for m in shown]
        axes.scatter([m.value or 0.0 for m in shown], at, s=18, color=tint, zorder=3, linewidths=0, urls=urls)
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
    _percent_axis(axes, "x")
    return Plot(
        "Scores and their intervals",
        "Dots are scores, bars 95 % intervals, dotted ticks what guessing reaches. A dot leads to its wrong answers.",
        inline(figure, "forest", "Scores with intervals, by metric"),
    )


def _chosen(names: Sequence[str], known: Sequence[Sequence[str]]) -> list[str]:
    """As many parts of the metrics as there is room for; where even one level of parts is too many, of each member of
    a suite its first metric that is more than a share of failures.

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
    """The last two parts of a metric's name, for the axis."""
    return short(" · ".join(name.split("/")[-2:]), 28)


def level_order(values: Sequence[str]) -> list[str]:
    """Taxonomic levels from coarse to fine; others in the order given."""
    known = [level for level in LEVELS if level in values]
    return known + [value for value in values if value not in known]


def falls(one: Series, column: str = "level") -> dict[str, list[Metric]]:
    """Metrics by level, for each name prefix that has at least two: prefix to metrics, coarse to fine."""
    levels = level_order(list(one.tally.meta.get(column, {})))
    found: dict[str, dict[str, Metric]] = {}
    for metric in one.metrics:
        prefix, _, last = metric.name.rpartition("/")
        if last in levels and metric.value is not None and metric.unit == "fraction":
            found.setdefault(prefix, {})[last] = metric
    return {prefix: [at[level] for level in levels if level in at] for prefix, at in found.items() if len(at) >= 2}


def fall(one: Series, name: str) -> Plot | None:
    """Accuracy from the coarsest to the finest level, a line for each kind of question."""
    lines = dict(list(falls(one).items())[:6])
    if not lines:
        return None
    levels = level_order(list(dict.fromkeys(m.name.rpartition("/")[2] for ms in lines.values() for m in ms)))
    figure, axes = _canvas(3.1)
    ends = []
    for number, (prefix, metrics) in enumerate(lines.items(), start=1):
        tint, shift = colour(number), (number - (len(lines) + 1) / 2) * 0.05
        x = [levels.index(m.name.rpartition("/")[2]) + shift for m in metrics]
        y = [m.value for m in metrics if m.value is not None]
        axes.plot(x, y, color=tint, lw=1.6)
        for at, metric in zip(x, metrics, strict=True):
            if metric.ci95 is not None:
                axes.plot([at, at], metric.ci95, color=tint, lw=2.4, alpha=0.35, solid_capstyle="butt")
            url = metric_link(metric.name, one.tally, one.run, one.profile)
            axes.scatter([at], [metric.value or 0.0], s=26, color=tint, zorder=3, linewidths=0, urls=[url])
        chances = [m.chance for m in metrics]
        known = [c for c in chances if c is not None]
        if len(known) == len(x):
            axes.plot(x, known, color=tint, lw=1.0, ls=(0, (1, 2)))
        ends.append((y[-1], x[-1], prefix.partition("/")[2] or prefix, tint))
    _percent_axis(axes, "y")
    axes.set_xticks(range(len(levels)), [short(level, 14) for level in levels])
    axes.set_xlim(-0.25, len(levels) - 1 + 0.25)
    low = 1.2
    for height, right, text, tint in sorted(ends, reverse=True):
        low = min(height, low - 0.075)
        axes.annotate(
            short(text, 18),
            (right, height),
            (1.01, low),
            xycoords="data",
            textcoords=axes.get_yaxis_transform(),
            color=tint,
            va="center",
        )
    axes.spines["left"].set_visible(False)
    return Plot(
        "From coarse to fine",
        "Accuracy at each level with 95 % intervals; dotted lines are what guessing reaches.",
        inline(figure, name, "Accuracy by level"),
    )


def latency(one: Series, name: str) -> Plot | None:
    """How long replies took."""
    seconds = np.asarray(one.tally.latencies, dtype=np.float64)
    if len(seconds) < 5 or float(seconds.max()) <= 0:
        return None
    scale, unit = (1000.0, "ms") if float(np.median(seconds)) < 0.5 else (1.0, "s")
    shown = seconds * scale
    median, late, top = (float(q) for q in np.quantile(shown, (0.5, 0.95, 0.995)))
    figure, axes = _canvas(2.3)
    beyond = int((shown > top * 1.05).sum())
    axes.hist(shown, bins=32, range=(0.0, top * 1.05 or 1.0), color=COLOURS["muted"], alpha=0.75, rwidth=0.9)
    texts = [(median, f" median {median:.3g} {unit}"), (late, f" 95 % {late:.3g} {unit}")]
    if late - median < 0.3 * top:  # the two would lie on each other
        texts = [(median, f" median {median:.3g}, 95 % {late:.3g} {unit} ")]
    for value in (median, late):
        axes.axvline(value, color=COLOURS["ink"], lw=1.0, ls=(0, (1, 1)))
    for value, text in texts:
        side = "right" if value > 0.6 * top else "left"
        axes.annotate(text, (value, 1.0), xycoords=("data", "axes fraction"), va="bottom", ha=side, fontsize=9)
    axes.set_xlabel(f"{unit} a reply")
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    tail = f" {beyond:,} slower replies lie beyond the right edge." if beyond else ""
    return Plot("Time to reply", f"{len(shown):,} replies.{tail}", inline(figure, name, "Histogram of latency"))


def errors(one: Series, name: str) -> Plot | None:
    """Why answers are missing, by kind of error."""
    if not one.tally.errors:
        return None
    kinds = one.tally.errors.most_common(12)
    figure, axes = _canvas(0.35 + 0.28 * len(kinds))
    bars = axes.barh(
        [-i for i in range(len(kinds))], [n for _, n in kinds], height=0.56, color=COLOURS["wrong"], alpha=0.8
    )
    for bar, (kind, count) in zip(bars, kinds, strict=True):
        bar.set_url(link(run=one.run, error=kind))
        axes.annotate(f"{count:,}", (count, bar.get_y() + 0.28), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks([-i for i in range(len(kinds))], [short(kind, 26) for kind, _ in kinds])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xticks([])
    axes.margins(x=0.15)
    return Plot(
        "Answers that failed", "By kind of error; each bar leads to them.", inline(figure, name, "Errors by kind")
    )


def confusions(one: Series, name: str, most: int = 4) -> list[Plot]:
    """Target against answer where there are few targets: the diagonal is right, the rest is mistaken for what?"""
    plots = []
    usable = [(where, c) for where, c in one.tally.confusions.items() if c.cells and len(c.targets) >= 2]
    usable.sort(key=lambda item: -sum((item[1].cells or {}).values()))
    for number, (where, confusion) in enumerate(usable[:most]):
        plots.append(_confusion(one, f"{name}-{number}", dict(where), confusion))
    return plots


def _confusion(one: Series, name: str, where: dict[str, str], confusion: Confusion) -> Plot:
    cells: dict[tuple[str, str], int] = confusion.cells or {}
    targets = sorted(confusion.targets, key=lambda t: (len(t), t) if t.isdigit() else (99, t))
    rest = {read for _, read in cells if read not in confusion.targets}
    columns = [*targets, *(["other"] if rest - {""} else []), *(["not read"] if "" in rest else [])]
    counts: dict[tuple[str, str], int] = {}
    for (target, read), count in cells.items():
        column = read if read in confusion.targets else ("not read" if read == "" else "other")
        counts[target, column] = counts.get((target, column), 0) + count
    figure, axes = _canvas(1.0 + 0.3 * len(targets))
    for row, target in enumerate(targets):
        total = sum(counts.get((target, column), 0) for column in columns)
        for at, column in enumerate(columns):
            count = counts.get((target, column), 0)
            if count:
                _cell(axes, at, -row, count, total, target == column).set_url(
                    link(
                        run=one.run,
                        target=target,
                        read="-" if column == "not read" else None if column == "other" else column,
                        **by(where),
                    )
                )
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(-len(targets) + 0.5, 0.5)
    tilted = max(len(short(c, 12)) for c in columns) * len(columns) > 44
    axes.set_xticks(
        range(len(columns)),
        [short(c, 12) for c in columns],
        rotation=45 if tilted else 0,
        ha="right" if tilted else "center",
    )
    axes.set_yticks([-i for i in range(len(targets))], [short(t, 16) for t in targets])
    axes.set_xlabel("read from the reply")
    axes.set_ylabel("target")
    axes.spines[["left", "bottom"]].set_visible(False)
    return Plot(
        "Mistaken for what: " + ", ".join(short(value, 30) for value in where.values()),
        "Each row is a target, each column what was read; a cell leads to its answers.",
        inline(figure, name, "Confusion of targets and answers"),
    )


def _cell(axes: Axes, x: int, y: int, count: int, total: int, right: bool) -> Any:
    from matplotlib.patches import Rectangle

    share = count / total
    tint = COLOURS["right" if right else "wrong"]
    box = Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, facecolor=tint, alpha=0.12 + 0.6 * share, linewidth=0)
    axes.add_patch(box)
    axes.text(x, y, f"{count:,}", ha="center", va="center", fontsize=8.5)
    return box


def draw(series: Sequence[Series], first: Sequence[Series]) -> list[Plot]:
    """Every plot that the data allow.

    Args:
        series: every run under every profile.
        first: every run under its first profile.
    """
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own matplotlibrc must not change the page
        matplotlib.rcParams.update(SETTINGS)
        plots = [forest(series)]
        for number, one in enumerate(first):
            own = [fall(one, f"fall-{number}"), errors(one, f"errors-{number}"), latency(one, f"latency-{number}")]
            own += confusions(one, f"confusion-{number}")
            plots += [_named(plot, one, len(first)) for plot in own if plot is not None]
    return [plot for plot in plots if plot is not None]


def _named(plot: Plot, one: Series, runs: int) -> Plot:
    return plot if runs == 1 else Plot(f"{plot.title} · {one.label}", plot.caption, plot.svg)
