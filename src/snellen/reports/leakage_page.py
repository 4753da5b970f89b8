"""The page of a leakage panel: what was found, accuracy by condition, positions, questions answered blind, and pictures as sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from snellen.reports.escape import clip
from snellen.reports.plots.bars import Bar, BarSeries, bar_plot
from snellen.reports.plots.svg import page_style
from snellen.reports.render import fill_template, read_asset, write_page
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.runs.leakage.panel import ConditionRow, Panel, title_of
from snellen.runs.leakage.tables import tables
from snellen.runs.run import Run
from snellen.types import Sample, Text

SHOWN, BLIND = 4, 200
LOOKED_AT = 50
"""Samples among which those are chosen that most conditions have."""
LIMITS = PageLimits(long_side=240, characters=1_200)


def write_leakage_page(found: Panel, runs: Mapping[str, Run], out: Path) -> Path:
    """Write the page of a panel as one self-contained file; return its path.

    Args:
        runs: by condition, for the pictures and prompts as they were sent.

    Raises:
        StorageError: it cannot be written. MissingExtraError: matplotlib is missing.
    """
    from markupsafe import Markup

    with page_style():
        plots = _plots(found.rows) if found.rows else []
    page = fill_template(
        "leakage.html.jinja",
        read_asset("report.css") + read_asset("features.css"),
        "",
        panel=found,
        title=clip(f"Leakage of {found.benchmark}", 200),
        plots=[(plot, Markup(plot.svg)) for plot in plots],
        samples=_as_sent(runs),
        tables=tables(found, BLIND),
    )
    return write_page(page, out)


def _plots(rows: Sequence[ConditionRow]) -> list[Any]:
    accuracy = {row.title: Bar(row.score.value or 0.0, row.score.ci95) for row in rows}
    chances = {row.title: row.score.chance for row in rows if row.score.chance is not None}
    lost = {
        row.title: Bar(100 * row.paired.difference, ends and (100 * ends[0], 100 * ends[1]))
        for row in rows[1:]
        for ends in [row.paired.ci95]
    }
    caption = "Mean score under each condition, with 95 % intervals; dotted ticks are chance."
    plots = [bar_plot("accuracy", "Accuracy by condition", caption, [BarSeries("", 1, accuracy)], chances=chances)]
    if lost:
        caption = "Difference to the full condition on the same questions, with paired 95 % intervals."
        series = [BarSeries("", 1, lost)]
        plots.append(bar_plot("difference", "Difference to the full condition", caption, series, unit="points"))
    return plots


def _as_sent(runs: Mapping[str, Run]) -> list[dict[str, Any]]:
    """Return some samples as each condition showed them: pictures through the run's media settings, and texts."""
    by_condition: dict[str, dict[str, Sample]] = {}
    for condition, run in runs.items():
        spec = run.meta.spec
        by_condition[condition] = {sample.id: sample for sample in islice(run.benchmark.samples(spec.data), LOOKED_AT)}
    ids = dict.fromkeys(name for samples in by_condition.values() for name in samples)
    chosen = sorted(ids, key=lambda name: -sum(name in samples for samples in by_condition.values()))[:SHOWN]
    album = ThumbnailAlbum(LIMITS)
    shown = []
    for name in chosen:
        views = []
        for condition, samples in by_condition.items():
            if (sample := samples.get(name)) is None:
                continue
            media = runs[condition].meta.spec.options.media
            parts = [part for part in sample.prompt.conversation_parts if not isinstance(part, Text)]
            pictures = [one for part in parts for one in album.add(part, media)][: LIMITS.pictures]
            texts = [part.text for part in sample.prompt.conversation_parts if isinstance(part, Text)]
            views.append(
                {
                    "title": title_of(condition),
                    "pictures": [(album.uris.get(one.get("p", "")), one.get("note", "")) for one in pictures],
                    "text": clip("\n".join(texts), LIMITS.characters),
                }
            )
        shown.append({"id": clip(name, 200), "views": views})
    return shown
