"""Many data sets by many models: a radar, and the ranks of the models with their critical distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, floor, pi, sin
from textwrap import wrap

import numpy as np
from msgspec import Struct, structs

from snellen.reports.plots.base import (
    Plot,
    Series,
    hollow,
    legend_height,
    line_legend,
    mark_of,
    new_figure,
    series_colour,
    short_label,
    short_labels,
    unique_name,
)
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.reports.views import RunView
from snellen.scoring.statistics.multiple import RankTest, rank_test

LEAST_SETS, MOST_MODELS = 3, 12


class ScoreGrid(Struct, frozen=True):
    """Shares by model and data set; a cell that was not measured is missing.

    Attributes:
        name: of the plots' files.
        what: what is measured, `accuracy of the linear probe`.
        sets: what the data sets are called, `data sets` or `subtasks`.
        scores: model to data set to share.
        order: of the data sets; those that are not in it are not drawn. Empty: by first appearance.
        models: what the models are called, `encoders` or `runs`.
        colours: model to the number of its colour on the page; others have them in order.
    """

    name: str
    what: str
    sets: str
    scores: Mapping[str, Mapping[str, float]]
    order: Sequence[str] = ()
    models: str = "models"
    colours: Mapping[str, int] = {}

    def drawable(self) -> ScoreGrid | None:
        """Return the part that can be drawn: sets that two models have, models that have three of them; else None."""
        measured = [name for by_set in self.scores.values() for name in by_set]
        sets = [name for name in dict.fromkeys(measured) if measured.count(name) > 1]
        own = {model: {name: of[name] for name in sets if name in of} for model, of in self.scores.items()}
        kept = {model: of for model, of in own.items() if len(of) >= LEAST_SETS}
        return structs.replace(self, scores=kept) if len(kept) > 1 else None

    def colour(self, model: str) -> int:
        """Return the colour of a model, which its marker follows."""
        return self.colours.get(model, list(self.scores).index(model) + 1)


def grid_plots(grid: ScoreGrid, taken: set[str]) -> list[Plot]:
    """Draw the radar, and the ranks where there is enough for the test; else the radar's caption says why not."""
    drawn = grid.drawable()
    if drawn is None:
        return []
    shared = [name for name in _sets(drawn) if all(name in of for of in drawn.scores.values())]
    values = np.array([[of[name] for of in drawn.scores.values()] for name in shared]).reshape(-1, len(drawn.scores))
    try:
        ranks = _rank_plot(drawn, rank_test(values), unique_name(taken, "ranks", grid.name))
    except ValueError as error:
        return [radar_plot(drawn, unique_name(taken, "radar", grid.name), f" No ranks: {error}.")]
    return [radar_plot(drawn, unique_name(taken, "radar", grid.name)), ranks]


def _sets(grid: ScoreGrid) -> list[str]:
    return list(grid.order or dict.fromkeys(name for of in grid.scores.values() for name in of))


def radar_plot(grid: ScoreGrid, name: str, remark: str = "") -> Plot:
    """Plot every model as a polygon over spokes of one scale; a score that is missing leaves a gap.

    Source of the form: FG-BMK (arXiv 2504.14988), section 4, where each spoke has a scale of its own.
    """
    sets, models = _sets(grid), list(grid.scores)[:MOST_MODELS]
    lowest = min(share for of in grid.scores.values() for share in of.values())
    base = max(0.0, floor(10 * lowest - 1) / 10)
    angles = [pi / 2 - 2 * pi * place / len(sets) for place in range(len(sets))]
    figure, axes = new_figure(4.9 + legend_height(models))
    axes.set_aspect("equal", anchor="S")  # room for the legend above
    around = np.linspace(0, 2 * pi, 181)
    for level in np.linspace(base, 1.0, 5)[1:]:
        radius = (level - base) / (1 - base)
        axes.plot(radius * np.cos(around), radius * np.sin(around), color=COLOURS["line"], lw=0.6)
        text = f"{100 * level:.3g}" + (" %" if level == 1.0 else "")
        between = pi / 2 + pi / len(sets)  # no spoke, and few lines, lie there
        halo = {"facecolor": COLOURS["paper"], "alpha": 0.8, "edgecolor": "none", "pad": 0.8}
        place = (radius * cos(between), radius * sin(between))
        axes.annotate(text, place, va="center", ha="center", fontsize=8, color=COLOURS["muted"], bbox=halo, zorder=4)
    for angle, label in zip(angles, sets, strict=True):
        axes.plot([0, cos(angle)], [0, sin(angle)], color=COLOURS["line"], lw=0.6)
        side = "center" if abs(cos(angle)) < 0.15 else "left" if cos(angle) > 0 else "right"
        place = (1.07 * cos(angle), 1.1 * sin(angle))
        text = "\n".join(wrap(short_label(label, 30), 16))
        axes.annotate(text, place, ha=side, va="center", fontsize=9)
    styles = [(0, (4, 2)) if hollow(grid.colour(model)) else "-" for model in models]
    for number, model in enumerate(models):
        # A score below 0, as one against chance can be, stands in the centre.
        share = [np.maximum(0.0, grid.scores[model].get(label, np.nan) - base) / (1 - base) for label in sets]
        x, y = ([s * turn(angle) for s, angle in zip(share, angles, strict=True)] for turn in (cos, sin))
        tint = series_colour(grid.colour(model))
        axes.plot([*x, x[0]], [*y, y[0]], color=tint, lw=1.6, ls=styles[number])
        axes.scatter(x, y, s=22, color=tint, lw=0, marker=mark_of(grid.colour(model)), zorder=3)
    axes.set_xlim(-1.6, 1.6)
    axes.set_ylim(-1.2, 1.2)
    axes.set_axis_off()
    line_legend(axes, [(model, grid.colour(model)) for model in models], styles)
    left_out = f" {len(grid.scores) - MOST_MODELS:,} more are left out." if len(grid.scores) > MOST_MODELS else ""
    who = grid.models if len(grid.scores) > 1 else grid.models.removesuffix("s")
    return Plot(
        f"{len(sets):,} {grid.sets} by {len(grid.scores):,} {who}: {grid.what}",
        f"Every spoke has one scale, {100 * base:.0f} % in the centre and 100 % at the rim.{left_out}{remark}",
        inline_svg(figure, name, f"Radar of {grid.what}"),
    )


def _rank_plot(grid: ScoreGrid, test: RankTest, name: str) -> Plot:
    """Plot mean ranks with a bar over each group that is not told apart.

    Source: Demšar 2006, JMLR 7:1, figure 1.
    """
    models = list(grid.scores)
    labels = short_labels(models, 20)
    order = sorted(range(len(models)), key=lambda place: (test.ranks[place], place))
    ranks = [test.ranks[place] for place in order]
    bars = _joined(ranks, test.distance)
    half = -(-len(order) // 2)
    step, first = 0.2, 0.22 + 0.11 * len(bars)
    height = first + step * half
    figure, axes = new_figure(height + 0.75)
    wide = len(models) - 1
    axes.set_xlim(1 - 0.8 * wide, len(models) + 0.8 * wide)
    axes.set_ylim(-height, 0.6)
    axes.set_axis_off()
    axes.plot([1, len(models)], [0, 0], color=COLOURS["ink"], lw=1.0)
    for tick in range(1, len(models) + 1):
        axes.plot([tick, tick], [0, 0.06], color=COLOURS["ink"], lw=1.0)
        axes.annotate(f"{tick}", (tick, 0.08), ha="center", va="bottom", fontsize=9, color=COLOURS["muted"])
    axes.plot([1, 1 + test.distance], [0.42, 0.42], color=COLOURS["ink"], lw=1.6)
    text, end = f"critical distance {test.distance:.2f}", (1 + test.distance, 0.42)
    axes.annotate(text, end, (4, 0), textcoords="offset points", ha="left", va="center", fontsize=9)
    for place, (rank, model) in enumerate(zip(ranks, order, strict=True)):
        left = place < half
        y = -first - step * (place if left else len(order) - 1 - place)
        side, tint = (1 - 0.06 * wide if left else len(models) + 0.06 * wide), series_colour(grid.colour(models[model]))
        axes.plot([rank, rank, side], [0, y, y], color=tint, lw=1.0)
        axes.scatter([rank], [0], s=22, color=tint, lw=0, marker=mark_of(grid.colour(models[model])), zorder=3)
        label = f"{labels[model]}  {rank:.2f}" if left else f"{rank:.2f}  {labels[model]}"
        shift, align = ((-4, 0), "right") if left else ((4, 0), "left")
        axes.annotate(label, (side, y), shift, textcoords="offset points", ha=align, va="center", fontsize=9)
    for number, (low, high) in enumerate(bars):
        y = -0.14 - 0.11 * number
        axes.plot([low - 0.02 * wide, high + 0.02 * wide], [y, y], color=COLOURS["ink"], lw=3.0, solid_capstyle="round")
    verdict = "" if test.p_value < test.alpha else " That test tells nothing apart, so the distances are no finding."
    return Plot(
        f"Mean ranks over {test.sets:,} {grid.sets}: {grid.what}",
        f"1 is the best. Friedman test: chi square {test.chi2:.2f}, {wide} degrees of freedom, "
        f"p {'< 0.001' if test.p_value < 0.001 else f'= {test.p_value:.3f}'}.{verdict} A thick bar joins {grid.models} that the Nemenyi test "
        f"does not tell apart at {test.alpha:g}.",
        inline_svg(figure, name, f"Mean ranks by {grid.what}"),
    )


def _joined(ranks: Sequence[float], distance: float) -> list[tuple[float, float]]:
    """Return the longest spans of sorted ranks that are not longer than the distance and hold two models or more."""
    spans: list[tuple[float, float]] = []
    for place, low in enumerate(ranks):
        end = max(at for at in range(place, len(ranks)) if ranks[at] - low <= distance)
        if end > place and (not spans or ranks[end] > spans[-1][1]):
            spans.append((low, ranks[end]))
    return spans


def run_grids(runs: Sequence[RunView], first: Sequence[Series]) -> list[ScoreGrid]:
    """Return the headline scores by model and benchmark, and those of each suite by model and subtask."""
    headlines: dict[str, dict[str, float]] = {}
    suites: dict[str, dict[str, dict[str, float]]] = {}
    for run, series in zip(runs, first, strict=True):
        shares = {m.name: m.value for m in series.metrics if m.unit == "fraction" and m.value is not None}
        model = f"{run.model} · {run.settings}" if run.settings else run.model
        head = series.metrics[0].name if series.metrics else ""
        if head in shares:
            headlines.setdefault(model, {}).setdefault(run.benchmark, shares[head])
        for task in series.tally.meta.get("task", {}):
            own = next((metric for metric in series.metrics if metric.name.startswith(f"{task}/")), None)
            if own is not None and own.name in shares:
                by_model = suites.setdefault(run.benchmark, {})
                by_model.setdefault(series.run, {})[task] = shares[own.name]
    colours = {series.run: series.number for series in first}
    grids = [ScoreGrid("benchmarks", "headline score", "benchmarks", headlines)]
    for name, of in suites.items():
        what = f"score in {short_label(name, 30)}"
        grids.append(ScoreGrid(name, what, "subtasks", of, models="runs", colours=colours))
    return grids
