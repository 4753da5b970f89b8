"""Failure labels: their counts, and these as a table and as a plot, several runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.reports.links import gallery_link
from snellen.reports.plots.base import (
    SERIES,
    Plot,
    file_legend,
    file_legend_height,
    hollow,
    new_figure,
    series_colour,
    short_label,
)
from snellen.reports.plots.svg import COLOURS, inline_svg, page_style
from snellen.reports.tables import format_interval, format_percent
from snellen.reports.views import LabelCounts
from snellen.runs.failures.labels import NAME, LabelledAnswer, agreements, counts, is_current, saved, whose_decisions
from snellen.runs.failures.rules import UNKNOWN
from snellen.runs.run import Run
from snellen.scoring.statistics.agreement import Agreement
from snellen.scoring.statistics.intervals import wilson


def count_labels(labelled: Sequence[LabelledAnswer], notes: Sequence[str] = ()) -> LabelCounts:
    """Count the labels of one run."""
    lines = [agreement_line(agreement) for agreement in agreements(labelled)]
    added = sum(label.rule == UNKNOWN and label.judge not in (None, UNKNOWN) for label in labelled)
    if added:
        lines.append(f"No rule covers {added:,} of the answers labelled by the judge.")
    closed = sum(
        label.source == "none" and "answered" in label.signals and "traced" not in label.signals for label in labelled
    )
    if closed:
        lines.append(
            f"{closed:,} of the unknown answers were given without tools: whether the image was misjudged or knowledge was "
            "missing shows in no signal, and only a judge or an annotator can tell."
        )
    review = sum(bool(label.review) for label in labelled)
    return LabelCounts(len(labelled), counts(labelled), review, [*notes, *lines])


def load_counts(run: Run) -> LabelCounts | None:
    """Load the label counts that `snellen failures` saved in the run's folder; None if there are none.

    Raises:
        RunError: the file is damaged.
    """
    labels = saved(run)
    if labels is None:
        return None
    old = f"{NAME} is older than the last answer or verdict. Update it: snellen failures {run.path.name}"
    notes = ["" if is_current(run) else old, whose_decisions(run, labels)]
    return count_labels(labels, [note for note in notes if note])


def agreement_line(agreement: Agreement) -> str:
    """`rule and judge agree on 9 of 12 (75.0 %), kappa 0.62`."""
    first, second = agreement.reviewers
    same = round((agreement.observed or 0.0) * agreement.n)
    share = "" if agreement.observed is None else f" ({100 * agreement.observed:.1f} %)"
    kappa = "not defined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    return f"{first} and {second} agree on {same:,} of {agreement.n:,}{share}, kappa {kappa}"


class RunLabels(Struct, frozen=True):
    """One run's labels, with the name and the colour (1 to 8) that it has on the page; `model` where the name is not it.

    `cycle` counts how often the colours were used up before: marks of every second cycle are hollow.
    """

    name: str
    colour: int
    labels: LabelCounts
    model: str = ""
    cycle: int = 0

    @property
    def number(self) -> int:
        """Return the run's place from 1."""
        return self.colour + SERIES * self.cycle


def label_text(label: str) -> str:
    """Return `no search` for `no_search`."""
    return label.replace("_", " ")


def label_rows(labelled: Sequence[RunLabels]) -> list[dict[str, Any]]:
    """Build one row for each label that any run has: its name, and of each run count, share, interval and whose it is.

    Shares are of a run's answers that are not correct, with Wilson's interval.
    """
    return [
        {"label": label, "name": label_text(label), "cells": [_cell(column.labels, label) for column in labelled]}
        for label in _labels_in_use(labelled)
    ]


def _cell(view: LabelCounts, label: str) -> dict[str, Any]:
    by = view.counts.get(label, {})
    count = sum(by.values())
    share = count / view.answers
    low, high = wilson(share, view.answers)
    whose = [f"{number:,} {source}" for source, number in by.items() if number and source != "none"]
    return {
        "count": f"{count:,}",
        "share": format_percent(share),
        "interval": format_interval((low, high), "fraction"),
        "low": round(100 * low, 2),
        "high": round(100 * high, 2),
        "at": round(100 * share, 2),
        "whose": ", ".join(whose),
    }


def _labels_in_use(labelled: Sequence[RunLabels]) -> Iterator[str]:
    names: dict[str, None] = {}
    for column in labelled:
        names |= dict.fromkeys(column.labels.counts)
    for name in names:
        if any(_total(column.labels.counts, name) for column in labelled):
            yield name


def _total(counts: Mapping[str, Mapping[str, int]], label: str) -> int:
    return sum(counts.get(label, {}).values())


def label_bars(labelled: Sequence[RunLabels], *, linked: bool = False) -> Plot | None:
    """Plot the share of each label among incorrect answers, one bar per run.

    Args:
        labelled: the runs; those without such answers must be left out.
        linked: whether a bar leads to `#label=…&run=…`, where the page has such a list.
    """
    names = list(_labels_in_use(labelled))
    if not names:
        return None
    runs = [column.name for column in labelled]
    figure, axes = new_figure(0.6 + (0.16 + 0.17 * len(labelled)) * len(names) + file_legend_height(runs))
    height = 0.78 / len(labelled)
    widest = max(_total(column.labels.counts, name) / column.labels.answers for column in labelled for name in names)
    for number, column in enumerate(labelled):
        shift = ((len(labelled) - 1) / 2 - number) * height
        for row, name in enumerate(names):
            count = _total(column.labels.counts, name)
            share = count / column.labels.answers
            tint = series_colour(column.number)
            (bar,) = axes.barh(
                [shift - row],
                [share],
                height=height * 0.86,
                color=COLOURS["paper"] if hollow(column.number) else tint,
                edgecolor=tint,
                linewidth=1.2 * hollow(column.number),
                alpha=0.85,
            )
            if linked and count:
                bar.set_url(gallery_link(label=name, run=column.name))
            axes.annotate(
                f"{count:,}",
                (share, shift - row),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=COLOURS["muted"],
            )
    axes.set_yticks([-row for row in range(len(names))], [short_label(label_text(name), 26) for name in names])
    axes.set_xlim(0, min(1.0, widest * 1.15) or 1.0)
    step = 0.25 if widest > 0.5 else 0.1 if widest > 0.2 else 0.05
    ticks = [step * i for i in range(int(min(1.0, widest * 1.15) / step) + 1)]
    axes.set_xticks(ticks, [f"{100 * tick:.0f}" + (" %" if tick == ticks[-1] else "") for tick in ticks])
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    file_legend(axes, [(column.name, column.number) for column in labelled])
    leads = " Each bar links to its answers." if linked else ""
    return Plot(
        "By label",
        f"Shares of each run’s incorrect answers, with counts.{leads}",
        inline_svg(figure, "failure-labels", "Labels of incorrect answers, by run"),
    )


def draw_labels(labelled: Sequence[RunLabels], *, linked: bool = False) -> list[Plot]:
    """Draw the plot of labels; empty if there are none."""
    with page_style():
        plot = label_bars(labelled, linked=linked)
    return [] if plot is None else [plot]
