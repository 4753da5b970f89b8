"""Level curves: accuracy by level of a taxonomy, or by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.reports.links import metric_link
from snellen.reports.plots.base import (
    LineEnd,
    Plot,
    Series,
    draw_dots,
    draw_interval,
    name_lines,
    names_height,
    new_figure,
    percent_axis,
    series_colour,
    short_label,
    unique_name,
)
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.reports.views import MANY
from snellen.scoring.metric_text import is_diagnosis
from snellen.scoring.taxonomy import coarse_to_fine
from snellen.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = 6
_RUNS = 32
_PLOTS = 4
"""Lines of one run, lines of several runs, and plots at most."""


class LevelCurve(Struct, frozen=True):
    """One line of a level curve: its name, its colour and cycle, and (level, metric, link) from coarse to fine."""

    label: str
    colour: int
    points: tuple[tuple[str, Metric, str], ...]
    cycle: int = 0


def level_order(series: Series, column: str = "level") -> list[str]:
    """Return the levels of a run, coarse to fine."""
    depths = series.tally.classes.depths
    return coarse_to_fine({level: depths.get(level, ()) for level in series.tally.meta.get(column, {})})


def curves_by_level(series: Series, column: str = "level") -> dict[str, list[tuple[str, Metric]]]:
    """Map each metric with values on two levels or more, its name without the level, to (level, metric), coarse to fine.

    `accuracy/short/species` and `accuracy/species/short` are both `accuracy/short` on the level species. Shares that
    diagnose (kinship, consistency) are no curves, and of a suite's members only accuracies are.
    """
    levels = level_order(series, column)
    root = series.metrics[0].name.partition("/")[0] if series.metrics else ""
    metrics_by_curve: dict[str, dict[str, Metric]] = {}
    for metric in series.metrics:
        parts = metric.name.split("/")
        at = next((place for place in range(len(parts) - 1, 0, -1) if parts[place] in levels), 0)
        if not at or metric.value is None or metric.unit != "fraction" or is_diagnosis(metric.name):
            continue
        rest = parts[:at] + parts[at + 1 :]
        if rest[0] == root or "accuracy" in rest:
            metrics_by_curve.setdefault("/".join(rest), {})[parts[at]] = metric
    return {
        name: [(level, known[level]) for level in levels if level in known]
        for name, known in metrics_by_curve.items()
        if len(known) >= 2
    }


def level_curves(runs: Sequence[Series], taken: set[str]) -> list[Plot]:
    """Plot accuracy from the coarsest to the finest level.

    One run has a line for each kind of question; several runs have a plot for each kind with a line for each run. Data
    sets of a suite have plots of their own. `taken` has the names of the page's plots.
    """
    curves_of_runs = [(series, _telling(series, curves_by_level(series))) for series in runs]
    names = list(dict.fromkeys(name for _, curves in curves_of_runs for name in curves))
    single = runs[0] if len(runs) == 1 else None
    plots: dict[str, list[LevelCurve]] = {}
    for name in names:
        subject = _dataset(runs, name) if single else _kind(name)
        for series, curves in curves_of_runs:
            if name not in curves:
                continue
            lines = plots.setdefault(subject, [])
            label = _kind(name.removeprefix(f"{subject}/")) if single else series.label
            lines.append(_line(series, label, len(lines) + 1 if single else series.colour, curves[name]))
    order = max((level_order(series) for series in runs), key=len)
    return [
        _plot(
            f"Accuracy from coarse to fine{': ' * bool(subject)}{short_label(subject, 40)}",
            lines[: _LINES if single else _RUNS],
            order,
            len(lines) - (len(lines) if single else _RUNS),
            unique_name(taken, "levels", subject),
        )
        for subject, lines in list(plots.items())[:_PLOTS]
    ]


def _dataset(runs: Sequence[Series], name: str) -> str:
    """Return the data set of a curve; empty if it covers all."""
    first = name.partition("/")[0]
    return first if any(first in series.tally.meta.get("dataset", {}) for series in runs) else ""


def _telling(series: Series, curves: dict[str, list[tuple[str, Metric]]]) -> dict[str, list[tuple[str, Metric]]]:
    """Select comparable curves: with several data sets, only those of a single one."""
    curves = _without_whole(curves)
    own = {name: known for name, known in curves.items() if _dataset([series], name)}
    return own if own and len(series.tally.meta.get("dataset", {})) > 1 else curves


def _without_whole(curves: dict[str, list[tuple[str, Metric]]]) -> dict[str, list[tuple[str, Metric]]]:
    """Drop the curve over all kinds if its kinds have curves: their chance levels differ."""
    return {name: known for name, known in curves.items() if sum(other.startswith(f"{name}/") for other in curves) < 2}


def _kind(name: str) -> str:
    return " · ".join(part for part in name.split("/") if part != "accuracy") or name


def _line(series: Series, label: str, number: int, known: Sequence[tuple[str, Metric]]) -> LevelCurve:
    links = [metric_link(metric.name, series.tally, series.run, series.profile) for _, metric in known]
    points = tuple((level, m, url) for (level, m), url in zip(known, links, strict=True))
    return LevelCurve(label, number, points, series.cycle)


def _plot(title: str, lines: Sequence[LevelCurve], order: Sequence[str], omitted: int, name: str) -> Plot:
    known = dict.fromkeys(level for line in lines for level, _, _ in line.points)
    levels = [level for level in order if level in known] + [level for level in known if level not in order]
    height = max(3.1, names_height(len(lines)))
    figure, axes = new_figure(height)
    apart = min(0.05, 0.4 / len(lines))
    ends = [_draw(axes, line, levels, (n - (len(lines) - 1) / 2) * apart) for n, line in enumerate(lines)]
    _draw_chance(axes, lines, levels, apart)
    percent_axis(axes, "y")
    axes.set_xticks(range(len(levels)), [short_label(level, 14 if len(levels) < 6 else 9) for level in levels])
    axes.set_xlim(-0.25, len(levels) - 1 + 0.25)
    name_lines(axes, ends, height, 18 if len(lines) <= _LINES else 24)
    axes.spines["left"].set_visible(False)
    return Plot(
        title,
        "Accuracy at each level with 95 % intervals; dotted lines are chance."
        + (f" {omitted:,} more runs are omitted." if omitted > 0 else ""),
        inline_svg(figure, name, "Accuracy by level"),
    )


def _draw(axes: Axes, line: LevelCurve, levels: Sequence[str], shift: float) -> LineEnd:
    """Draw one line; return its end."""
    tint = series_colour(line.colour)
    x = [levels.index(level) + shift for level, _, _ in line.points]
    y = [metric.value or 0.0 for _, metric, _ in line.points]
    axes.plot(x, y, color=tint, lw=1.6, ls="--" if line.cycle % 2 else "-")
    for at, (_, metric, url) in zip(x, line.points, strict=True):
        draw_interval(axes, metric.ci95, at, tint, vertical=True)
        draw_dots(axes, [at], [metric.value or 0.0], tint, [url], cycle=line.cycle, size=26)
    return LineEnd(x[-1], y[-1], line.label, tint)


def _draw_chance(axes: Axes, lines: Sequence[LevelCurve], levels: Sequence[str], apart: float) -> None:
    """Draw chance as a dotted line for each line, or where there are many once for those that have the same."""
    shared: dict[tuple[tuple[int, float], ...], None] = {}
    for number, line in enumerate(lines):
        known = [(levels.index(level), m.chance) for level, m, _ in line.points if m.chance is not None]
        if len(known) < len(line.points):
            continue
        if len(lines) >= MANY:
            shared[tuple((at, round(chance, 2)) for at, chance in known)] = None
            continue
        shift = (number - (len(lines) - 1) / 2) * apart
        x = [at + shift for at, _ in known]
        axes.plot(x, [chance for _, chance in known], color=series_colour(line.colour), lw=1.0, ls=(0, (1, 2)))
    for points in shared:
        axes.plot(*zip(*points, strict=True), color=COLOURS["muted"], lw=1.0, ls=(0, (1, 2)))
