"""Failure labels as a table and as a plot, several runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.reports.links import gallery_link
from snellen.reports.plots.base import Plot, new_figure, series_colour, short_label
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.reports.tables import format_interval, format_percent
from snellen.reports.views import LabelCounts
from snellen.scoring.statistics.intervals import wilson


class RunLabels(Struct, frozen=True):
    """One run's labels, with the name and the colour (1 to 6) that it has on the page; `model` where the name is not it."""

    name: str
    colour: int
    labels: LabelCounts
    model: str = ""


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
    figure, axes = new_figure(0.6 + (0.16 + 0.17 * len(labelled)) * len(names))
    height = 0.78 / len(labelled)
    widest = max(_total(column.labels.counts, name) / column.labels.answers for column in labelled for name in names)
    for number, column in enumerate(labelled):
        shift = ((len(labelled) - 1) / 2 - number) * height
        for row, name in enumerate(names):
            count = _total(column.labels.counts, name)
            share = count / column.labels.answers
            (bar,) = axes.barh(
                [shift - row], [share], height=height * 0.86, color=series_colour(column.colour), alpha=0.85
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
    leads = " Each bar links to its answers." if linked else ""
    return Plot(
        "By label",
        f"Shares of each run’s incorrect answers, with counts.{leads}",
        inline_svg(figure, "labels", "Labels of incorrect answers, by run"),
    )
