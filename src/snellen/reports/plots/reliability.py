"""Reliability plot: accuracy of answers by the confidence with which they were given."""

from __future__ import annotations

from snellen.reports.plots.base import Plot, Series, new_figure, percent_axis, series_colour
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.scoring.calibration import BINS


def reliability_plot(series: Series, name: str) -> Plot | None:
    """Plot accuracy against confidence in bins of equal width, under the first profile; None without probabilities."""
    bins = series.tally.confidences.bins()
    if not bins:
        return None
    figure, axes = new_figure(3.4)
    tint = series_colour(series.colour)
    axes.plot([0.0, 1.0], [0.0, 1.0], color=COLOURS["muted"], lw=1.2, linestyle="dotted")
    most = max(each.n for each in bins)
    axes.bar(
        [(each.low + each.high) / 2 for each in bins],
        [each.n / most * 0.2 for each in bins],
        width=0.9 / BINS,
        color=COLOURS["muted"],
        alpha=0.3,
        linewidth=0,
    )
    known = [(each.confidence, *each.ci95) for each in bins if each.ci95 is not None]
    axes.vlines(
        [at for at, _, _ in known],
        [low for _, low, _ in known],
        [high for _, _, high in known],
        colors=tint,
        lw=1.5,
        alpha=0.45,
    )
    axes.plot([each.confidence for each in bins], [each.accuracy for each in bins], color=tint, lw=1.4, alpha=0.6)
    axes.scatter(
        [each.confidence for each in bins], [each.accuracy for each in bins], s=26, color=tint, linewidths=0, zorder=3
    )
    for each in bins:
        axes.annotate(
            f"{each.n:,}",
            ((each.low + each.high) / 2, 0.0),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    percent_axis(axes, "x")
    percent_axis(axes, "y")
    axes.set_xlabel("confidence: probability of the answer that was given")
    axes.set_ylabel("accuracy")
    answers = len(series.tally.confidences)
    return Plot(
        "Reliability",
        f"Accuracy by confidence of {answers:,} answers, in {BINS} bins of equal width, with 95 % intervals where enough groups answer; grey bars and numbers say how many. On the "
        "dotted line, confidence equals accuracy; below it the model is overconfident.",
        inline_svg(figure, name, "Accuracy by confidence"),
    )
