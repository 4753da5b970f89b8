"""Taxonomic distance of incorrect answers: sibling, cousin or more distant class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snellen.reports.links import metric_link
from snellen.reports.plots.base import Plot, Series, new_figure, short_label
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.scoring.taxonomy import RELATIONS
from snellen.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

_ROWS = 12
_COLOURS = {"sibling": "series-1", "cousin": "series-3", "other": "series-2", "unplaced": "muted"}
_WORDS = {"sibling": "same parent", "cousin": "same grandparent", "other": "more distant", "unplaced": "unparsed"}


def kinship_bars(series: Series, name: str) -> Plot | None:
    """Plot a bar for each level and kind, over the expectation for a random incorrect option."""
    rows: dict[tuple[str, str], dict[str, Metric]] = {}
    for metric in series.metrics:
        parts = metric.name.split("/")
        if "kinship" in parts[:-1] and parts[-1] in RELATIONS and metric.value is not None:
            *path, kind = [part for part in parts[:-1] if part != "kinship"]
            rows.setdefault((" · ".join(path), kind), {})[parts[-1]] = metric
    listed = list(rows.items())[:_ROWS]
    if not listed:
        return None
    figure, axes = new_figure(0.75 + 0.42 * len(listed))
    for row, (_, known) in enumerate(listed):
        offset = by_lot = 0.0
        for relation in RELATIONS:
            share = known.get(relation)
            if share is None or share.value is None:
                continue
            tint = COLOURS[_COLOURS[relation]]
            (bar,) = axes.barh([-row + 0.06], [share.value], left=offset, height=0.4, color=tint, alpha=0.75)
            bar.set_url(metric_link(share.name, series.tally, series.run, series.profile))
            if share.value >= 0.09:
                axes.text(offset + share.value / 2, -row + 0.06, f"{100 * share.value:.0f} %", ha="center", va="center")
            offset += share.value
            if share.chance:
                axes.barh([-row - 0.27], [share.chance], left=by_lot, height=0.1, color=tint, alpha=0.75)
                by_lot += share.chance
    axes.set_yticks(
        [-row for row in range(len(listed))],
        [
            f"{short_label(label, 24)}\n{short_label(kind, 12)}, {next(iter(known.values())).n:,} incorrect"
            for (label, kind), known in listed
        ],
    )
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(-len(listed) + 0.5, 0.45)
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    _legend(axes, {relation for _, known in listed for relation, m in known.items() if m.value or m.chance})
    return Plot(
        "Taxonomic distance of incorrect answers",
        "Relation of the named class to the true class, among incorrect answers. The thin bar is the "
        "expectation for picking an incorrect option at random, where the options are known.",
        inline_svg(figure, name, "Taxonomic distance of incorrect answers to the target"),
    )


def _legend(axes: Axes, used: set[str]) -> None:
    before: Annotation | None = None
    for relation in RELATIONS:
        if relation in used:
            before = axes.annotate(
                _WORDS[relation],
                (0.0, 1.02) if before is None else (1.0, 0.0),
                (0.0, 0.0) if before is None else (10.0, 0.0),
                xycoords=("figure fraction", "axes fraction") if before is None else before,
                textcoords="offset points",
                va="bottom",
                fontsize=9,
                fontweight="bold",
                color=COLOURS[_COLOURS[relation]],
            )
