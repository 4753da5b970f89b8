"""Classes from the worst to the best, hundreds or thousands of them in one plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, lgamma, log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from snellen.reports.collect import ClassAnswers, QuestionGroup, class_name, group_filters, kind_order
from snellen.reports.links import NOT_RIGHT, gallery_link, meta_filters
from snellen.reports.plots.bars import Bar, BarSeries, bar_plot
from snellen.reports.plots.base import (
    LineEnd,
    Plot,
    Series,
    file_legend,
    file_legend_height,
    legend_height,
    line_legend,
    mark_of,
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
from snellen.scoring.taxonomy import BIAS, BINS, page_histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLOTS = 4
_POINTS = 500
"""Maximum number of classes that a curve is drawn through, evenly over the ranks."""
_NAMED = 6


def rankings(runs: Sequence[Series], taken: set[str]) -> list[Plot]:
    """Plot accuracy by class for bias questions, then for the finest level of each data set and kind.

    `taken` has the names of the page's plots.
    """
    groups: dict[QuestionGroup, None] = {}
    finest: dict[tuple[str, str], QuestionGroup] = {}
    for column in runs:
        groups |= dict.fromkeys(part for part, _ in column.tally.classes.of("bias"))
        finest |= {(part.dataset, part.kind): part for part, _ in column.tally.classes.of("hierarchy")}
    groups |= dict.fromkeys(sorted(finest.values(), key=lambda part: kind_order(part.kind)))
    plots = []
    for part in list(groups)[:_PLOTS]:
        words = [part.dataset, part.ask, part.level, part.kind]
        plots.append(_ranking(runs, part, unique_name(taken, "classes", *words)))
        known = [(run, answers) for run in runs if (answers := run.tally.classes.parts.get(part))]
        if 1 < len(known) < MANY:
            plots.append(_one_order(known, part, unique_name(taken, "classes-in-one-order", *words)))
        if part.ask == BIAS:
            plots.append(_bins(known, part, unique_name(taken, "classes-by-accuracy", *words)))
    return plots


def rank_classes(part: Mapping[str, ClassAnswers]) -> list[tuple[str, ClassAnswers]]:
    """Rank classes by accuracy, the worst first; of equal ones that with more answers, then by the alphabet."""
    return sorted(part.items(), key=lambda item: (item[1].share, -item[1].n, item[0]))


def equal_difficulty_quantiles(counts: Sequence[int], share: float, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the accuracies expected by chance alone if all classes were equally hard.

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


def _ranking(runs: Sequence[Series], group: QuestionGroup, name: str) -> Plot:
    known = [(column, part) for column in runs if (part := column.tally.classes.parts.get(group))]
    named = len(known) >= MANY  # then the runs' names stand at their lines, and there is no room for those of classes
    height = max(3.1, names_height(len(known))) if named else 3.1
    figure, axes = new_figure(height + (0.0 if named else file_legend_height([column.label for column, _ in known])))
    ends: list[tuple[float, LineEnd]] = []
    listed: list[tuple[str, str]] = []
    high = 0.0
    for column, part in known:
        order = rank_classes(part)
        share = np.array([answers.share for _, answers in order])
        tint = series_colour(column.colour if len(known) > 1 else 1)
        places = np.unique(np.linspace(0, len(order) - 1, min(len(order), _POINTS)).round().astype(np.int64))
        x = (places + 0.5) / len(order)
        line = "--" if column.cycle % 2 else "-"
        axes.plot(x, share[places], color=tint, lw=1.8, ls=line, drawstyle="steps-mid")
        if len(known) == 1:
            axes.fill_between(x, share[places], color=tint, alpha=0.1, linewidth=0, step="mid")
        counts = [answers.n for _, answers in order]
        overall = sum(answers.total for _, answers in order) / sum(counts)
        ends.append((overall, LineEnd(1.0, float(share[-1]), column.label, tint)))
        if max(counts) <= 2_000 and not named:
            axes.plot(
                x,
                equal_difficulty_quantiles(counts, overall, x),
                color=tint,
                lw=1.0,
                ls=(0, (1, 2)),
                drawstyle="steps-mid",
            )
        if named:
            continue
        worst = order[: max(2, _NAMED // len(known))]
        urls = [
            gallery_link(
                run=column.run, profile=column.profile, verdict=NOT_RIGHT, **meta_filters(group_filters(group, path))
            )
            for path, _ in worst
        ]
        at = [(place + 0.5) / len(order) for place in range(len(worst))]
        axes.scatter(at, [answers.share for _, answers in worst], s=18, color=tint, zorder=3, linewidths=0, urls=urls)
        listed += [
            (f"{short_label(class_name(path), 26)} · {100 * answers.share:.0f} % of {answers.n}", tint)
            for path, answers in worst
        ]
        high = max(high, float(np.quantile(share, 0.6)))
    if named:
        name_lines(axes, [end for _, end in sorted(ends, key=lambda item: -item[0])], height, 24)
    else:
        _list(axes, listed, below=high > 0.5)
    percent_axis(axes, "y")
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([0.0, 1.0], ["worst", "best"])
    axes.set_xlabel(f"{len(known[0][1]):,} classes")
    if not named:
        file_legend(axes, [(column.label, column.number) for column, _ in known])
    if len(known) == 1:
        _histogram(axes, [answers.share for answers in known[0][1].values()])
    axes.spines["left"].set_visible(False)
    return Plot(
        f"Accuracy by class: {_group_name(group)}",
        (
            "Classes sorted by accuracy. The names of runs are in the order of their accuracy."
            if named
            else "Classes sorted by accuracy; the worst are named. "
            "Dotted: the spread expected by chance if all classes were equally hard."
        )
        + (" Right: number of classes in each fifth." if len(known) == 1 else ""),
        inline_svg(figure, name, f"Accuracy of each class, {_group_name(group)}"),
    )


def _one_order(known: Sequence[tuple[Series, Mapping[str, ClassAnswers]]], group: QuestionGroup, name: str) -> Plot:
    """Plot every run over the classes in the order of the first run, so that it can be seen which ones change.

    Source: FG-BMK (arXiv 2504.14988), figure 3: the original and the fine-tuned model over one index.
    """
    order = [path for path, _ in rank_classes(known[0][1]) if all(path in part for _, part in known)]
    labels = [column.label for column, _ in known]
    figure, axes = new_figure(3.3 + legend_height(labels))
    places = np.unique(np.linspace(0, len(order) - 1, min(len(order), _POINTS)).round().astype(np.int64)).tolist()
    for column, part in known:
        share = [part[order[place]].share for place in places]
        tint, first = series_colour(column.colour), part is known[0][1]
        axes.plot(places, share, color=tint, lw=1.8 if first else 0.7, alpha=1.0 if first else 0.5)
        urls = [
            gallery_link(
                run=column.run, profile=column.profile, **meta_filters(group_filters(group, order[place]))
            )
            for place in places
        ]  # fmt: skip
        axes.scatter(places, share, s=14, color=tint, lw=0, marker=mark_of(column.number), zorder=3, urls=urls)
    percent_axis(axes, "y")
    axes.set_xlabel(f"{len(order):,} classes, the worst of {short_label(labels[0], 30)} first")
    axes.spines["left"].set_visible(False)
    line_legend(axes, [(column.label, column.number) for column, _ in known])
    texts = [_changes(order, known[0][1], part, column.label) for column, part in known[1:]]
    return Plot(
        f"Accuracy by class in one order: {_group_name(group)}",
        f"Each place is one class, in the order of {labels[0]}. {' '.join(texts)} Each point links to its answers.",
        inline_svg(figure, name, f"Accuracy of each class in one order, {_group_name(group)}"),
    )


def _changes(
    order: Sequence[str], before: Mapping[str, ClassAnswers], after: Mapping[str, ClassAnswers], label: str
) -> str:
    """Name the classes whose accuracy rises and falls most."""
    change = sorted(order, key=lambda path: (before[path].share - after[path].share, path))

    def text(path: str) -> str:
        return f"{class_name(path)} ({100 * before[path].share:.0f} → {100 * after[path].share:.0f} %)"

    rises = [text(path) for path in change[:3] if after[path].share > before[path].share]
    falls = [text(path) for path in change[:-4:-1] if after[path].share < before[path].share]
    return f"{label}: rises most: {', '.join(rises) or 'none'}; falls most: {', '.join(falls) or 'none'}."


def _bins(known: Sequence[tuple[Series, Mapping[str, ClassAnswers]]], group: QuestionGroup, name: str) -> Plot:
    """Plot how many classes lie in each bin of FG-BMK's page, and name the worst and the best class of each run."""
    series, texts = [], []
    for column, part in known:
        shares = np.array([answers.share for answers in part.values()])
        counts = page_histogram(shares)
        bars = {f"{label.replace('-', ' to ')} %": Bar(float(count)) for label, count in counts.items()}
        series.append(BarSeries(column.label, column.number if len(known) > 1 else 1, bars))
        order = rank_classes(part)
        worst, best = (f"{class_name(path)} ({100 * answers.share:.1f} %)" for path, answers in (order[0], order[-1]))
        gap = 100 * float(np.ptp(shares))
        texts.append(
            f"{column.label}: worst {worst}, best {best}, gap {gap:.1f} points, standard deviation "
            f"{100 * float(shares.std()):.1f}, {int((shares >= 1.0).sum()):,} of {len(shares):,} without an error."
        )
    caption = f"Classes by their accuracy; a bin holds its lower bound, and the last one 100 %. {' '.join(texts)}"
    return bar_plot(
        name, f"Classes by accuracy: {_group_name(group)}", caption, series, unit="count", counted="classes"
    )


def _group_name(group: QuestionGroup) -> str:
    ask = "" if group.ask == "hierarchy" else group.ask
    return " · ".join(short_label(text, 24) for text in (group.dataset, ask, group.level, group.kind) if text)


def _list(axes: Axes, lines: Sequence[tuple[str, str]], *, below: bool) -> None:
    """Write the names of the worst classes: under a high curve, over a low one."""
    for number, (text, tint) in enumerate(lines):
        place = (0.97, 0.04 + 0.075 * (len(lines) - 1 - number)) if below else (0.03, 0.95 - 0.075 * number)
        axes.annotate(
            text, place, xycoords="axes fraction", ha="right" if below else "left", va="center", fontsize=9, color=tint
        )


def _histogram(axes: Axes, shares: Sequence[float]) -> None:
    """Write the number of classes in each fifth of the accuracy at the right."""
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
