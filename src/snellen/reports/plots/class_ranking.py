"""Classes from the worst to the best, hundreds or thousands of them in one plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, lgamma, log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from snellen.reports.collect import Asked, Seen, class_name, filters, telling
from snellen.reports.links import NOT_RIGHT, by, link
from snellen.reports.plots.base import Plot, Series, canvas, colour, percent_axis, short
from snellen.reports.plots.svg import COLOURS, inline
from snellen.scoring.taxonomy import BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLOTS = 4
_POINTS = 500
"""A curve is drawn through so many of its classes at most, evenly over the ranks."""
_NAMED = 6


def rankings(runs: Sequence[Series]) -> list[Plot]:
    """Plots of what was asked about bias, then of the finest level of each data set and kind; runs side by side."""
    asked: dict[Asked, None] = {}
    finest: dict[tuple[str, str], Asked] = {}
    for one in runs:
        asked |= dict.fromkeys(part for part, _ in one.tally.classes.of("bias"))
        finest |= {(part.dataset, part.kind): part for part, _ in one.tally.classes.of("hierarchy")}
    asked |= dict.fromkeys(sorted(finest.values(), key=lambda part: telling(part.kind)))
    return [_ranking(runs, part, f"classes-{number}") for number, part in enumerate(list(asked)[:_PLOTS])]


def ranked(part: Mapping[str, Seen]) -> list[tuple[str, Seen]]:
    """Classes with their answers, the worst first; of equal ones that with more answers, then by the alphabet."""
    return sorted(part.items(), key=lambda item: (item[1].share, -item[1].n, item[0]))


def alike(counts: Sequence[int], share: float, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The accuracies that classes would have by chance alone if all were equally hard.

    Args:
        counts: answers of each class.
        share: the accuracy of all of them.
        at: ranks of interest, 0 (worst) to 1.

    Returns:
        The quantiles, at those ranks, of the binomial shares of all classes together.
    """
    sizes, classes = np.unique(np.asarray(counts), return_counts=True)
    mass: dict[float, float] = {}
    if not 0.0 < share < 1.0:
        return np.full(len(at), share)
    for n, weight in zip(sizes.tolist(), classes.tolist(), strict=True):
        for k in range(n + 1):
            chance = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(share) + (n - k) * log(1.0 - share)
            mass[k / n] = mass.get(k / n, 0.0) + weight * exp(chance)
    values = np.array(sorted(mass))
    reached = np.cumsum([mass[value] for value in values])
    return values[np.minimum(np.searchsorted(reached / reached[-1], at, side="left"), len(values) - 1)]


def _ranking(runs: Sequence[Series], asked: Asked, name: str) -> Plot:
    known = [(one, part) for one in runs if (part := one.tally.classes.parts.get(asked))]
    figure, axes = canvas(3.1)
    listed: list[tuple[str, str]] = []
    high = 0.0
    for one, part in known:
        order = ranked(part)
        share = np.array([seen.share for _, seen in order])
        tint = colour(one.colour if len(known) > 1 else 1)
        shown = np.unique(np.linspace(0, len(order) - 1, min(len(order), _POINTS)).round().astype(np.int64))
        x = (shown + 0.5) / len(order)
        axes.plot(x, share[shown], color=tint, lw=1.8, drawstyle="steps-mid")
        if len(known) == 1:
            axes.fill_between(x, share[shown], color=tint, alpha=0.1, linewidth=0, step="mid")
        counts = [seen.n for _, seen in order]
        whole = sum(seen.total for _, seen in order) / sum(counts)
        if max(counts) <= 2_000:
            axes.plot(x, alike(counts, whole, x), color=tint, lw=1.0, ls=(0, (1, 2)), drawstyle="steps-mid")
        worst = order[: max(2, _NAMED // len(known))]
        urls = [
            link(run=one.run, profile=one.profile, verdict=NOT_RIGHT, **by(filters(asked, path))) for path, _ in worst
        ]
        at = [(place + 0.5) / len(order) for place in range(len(worst))]
        axes.scatter(at, [seen.share for _, seen in worst], s=18, color=tint, zorder=3, linewidths=0, urls=urls)
        listed += [
            (f"{short(class_name(path), 26)} · {100 * seen.share:.0f} % of {seen.n}", tint) for path, seen in worst
        ]
        high = max(high, float(np.quantile(share, 0.6)))
    _list(axes, listed, below=high > 0.5)
    percent_axis(axes, "y")
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([0.0, 1.0], ["worst", "best"])
    axes.set_xlabel(f"{len(known[0][1]):,} classes")
    if len(known) == 1:
        _histogram(axes, [seen.share for seen in known[0][1].values()])
    axes.spines["left"].set_visible(False)
    ask = "" if asked.ask == "hierarchy" else asked.ask
    what = " · ".join(short(text, 24) for text in (asked.dataset, ask, asked.level, asked.kind) if text)
    return Plot(
        f"Class by class: {what}",
        "Classes sorted by accuracy, the worst named. Dotted: what chance would make of classes that are all alike."
        + (" On the right: classes in each fifth." if len(known) == 1 else ""),
        inline(figure, name, f"Accuracy of each class, {what}"),
    )


def _list(axes: Axes, lines: Sequence[tuple[str, str]], *, below: bool) -> None:
    """The worst classes by name: under a curve that is high, over one that is low."""
    for number, (text, tint) in enumerate(lines):
        place = (0.97, 0.04 + 0.075 * (len(lines) - 1 - number)) if below else (0.03, 0.95 - 0.075 * number)
        axes.annotate(
            text, place, xycoords="axes fraction", ha="right" if below else "left", va="center", fontsize=9, color=tint
        )


def _histogram(axes: Axes, shares: Sequence[float]) -> None:
    """How many classes lie in each fifth of the accuracy, written at the right."""
    fifth = np.minimum(np.floor(np.round(5.0 * np.asarray(shares), 10)).astype(np.int64), 4)
    for at, count in enumerate(np.bincount(fifth, minlength=len(BINS))):
        axes.annotate(
            f"{count:,}",
            (1.015, 0.2 * at + 0.1),
            xycoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=9,
            color=COLOURS["muted"],
        )
