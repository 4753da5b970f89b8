"""What wrong answers were mistaken for, on the tree: a sister class, a cousin, or something else altogether."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snellen.reports.links import metric_link
from snellen.reports.plots.base import Plot, Series, canvas, short
from snellen.reports.plots.svg import COLOURS, inline
from snellen.scoring.taxonomy import RELATIONS
from snellen.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

_ROWS = 12
_COLOURS = {"sibling": "series-1", "cousin": "series-3", "other": "series-2", "unplaced": "muted"}
_WORDS = {"sibling": "same parent", "cousin": "same grandparent", "other": "further off", "unplaced": "no class read"}


def kinship_bars(one: Series, name: str) -> Plot | None:
    """A bar for each level and kind, over what picking a wrong option by lot would give."""
    rows: dict[tuple[str, str], dict[str, Metric]] = {}
    for metric in one.metrics:
        parts = metric.name.split("/")
        if "kinship" in parts[:-1] and parts[-1] in RELATIONS and metric.value is not None:
            *path, kind = [part for part in parts[:-1] if part != "kinship"]
            rows.setdefault((" · ".join(path), kind), {})[parts[-1]] = metric
    shown = list(rows.items())[:_ROWS]
    if not shown:
        return None
    figure, axes = canvas(0.75 + 0.42 * len(shown))
    for row, (_, known) in enumerate(shown):
        left = by_lot = 0.0
        for relation in RELATIONS:
            found = known.get(relation)
            if found is None or found.value is None:
                continue
            tint = COLOURS[_COLOURS[relation]]
            (bar,) = axes.barh([-row + 0.06], [found.value], left=left, height=0.4, color=tint, alpha=0.75)
            bar.set_url(metric_link(found.name, one.tally, one.run, one.profile))
            if found.value >= 0.09:
                axes.text(left + found.value / 2, -row + 0.06, f"{100 * found.value:.0f} %", ha="center", va="center")
            left += found.value
            if found.chance:
                axes.barh([-row - 0.27], [found.chance], left=by_lot, height=0.1, color=tint, alpha=0.75)
                by_lot += found.chance
    axes.set_yticks(
        [-row for row in range(len(shown))],
        [
            f"{short(label, 24)}\n{short(kind, 12)}, {next(iter(known.values())).n:,} wrong"
            for (label, kind), known in shown
        ],
    )
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(-len(shown) + 0.5, 0.45)
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    _legend(axes, {relation for _, known in shown for relation, m in known.items() if m.value or m.chance})
    return Plot(
        "How far off wrong answers are",
        "Of the answers that are not right, how the class that was named is related to the true one. The thin bar is "
        "what picking a wrong option by lot would give, where the questions say what they offer.",
        inline(figure, name, "Kinship of wrong answers to the truth"),
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
