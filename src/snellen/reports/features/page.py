"""The page about feature stores: measures side by side, plots, nearest neighbours, and says against sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from snellen.errors import UsageError
from snellen.features.plot_data import Asked, Curve, Map, Neighbour
from snellen.features.probes import ClassRow
from snellen.features.says_sees import ClassPoint, SaysSees
from snellen.reports.escape import visible
from snellen.reports.features import plots as drawn
from snellen.reports.features.plots import Strength
from snellen.reports.plots.base import SERIES, Plot
from snellen.reports.plots.svg import SETTINGS
from snellen.reports.render import asset, filled
from snellen.reports.tables import percent, quantity, span
from snellen.reports.thumbnails import Album
from snellen.reports.views import Limits
from snellen.sources.blobs import FileBlob
from snellen.types import Blob, Image, Interval, Metric

MOST_CLASSES = 20
LIMITS = Limits(picture_bytes=6_000_000, long_side=112)


class StoreView(Struct, frozen=True, eq=False):
    """One output of one store, measured.

    Attributes:
        name: unique on the page.
        facts: label to text, shown below the name.
        measures: title of a group (retrieval, k-NN, probe, attack) to its metrics.
        curve, sheet, plane: what `snellen.features.plot_data` found; None or empty where labels do not allow it.
        plane_names: class of each point of the plane.
        classes: the probe's classes; `chance` is what guessing reaches in it.
        attacked: for each attack what its strength is, and the points, clean first.
        corrupted: accuracies on corrupted pictures.
        pictures: row number to its picture; those that are not there are shown by name.
        notes: what a reader must know.
    """

    name: str
    facts: Mapping[str, str]
    measures: Mapping[str, Sequence[Metric]]
    curve: Curve | None = None
    sheet: Sequence[Asked] = ()
    plane: Map | None = None
    plane_names: Sequence[str] = ()
    classes: Sequence[ClassRow] = ()
    chance: float | None = None
    attacked: Sequence[tuple[str, Sequence[Strength]]] = ()
    corrupted: Sequence[Metric] = ()
    pictures: Mapping[int, Blob] = field(default_factory=dict)
    notes: Sequence[str] = ()


class JoinedView(Struct, frozen=True):
    """A store set against a question run: names of both, what was found, and what else a reader must know."""

    store: str
    run: str
    model: str
    found: SaysSees
    notes: Sequence[str] = ()


def render(stores: Sequence[StoreView], joined: Sequence[JoinedView] = (), limits: Limits = LIMITS) -> str:
    """The page. The same stores and runs give the same text, byte for byte.

    Raises:
        UsageError: no store, or two of one name.
    """
    from markupsafe import Markup

    names = [one.name for one in stores]
    if not stores or len(set(names)) != len(names):
        raise UsageError(f"a report needs one or more stores with different names; found {names}")
    album = Album(limits)
    sheets = [(one, [_asked(asked, one, album) for asked in one.sheet]) for one in stores if one.sheet]
    overview, classes, relations = _plots(stores, joined)
    return filled(
        "features.html.jinja",
        asset("report.css") + asset("features.css"),
        script="",
        title="What it sees" + (", what it says" if joined else ""),
        stores=[(one, number % SERIES + 1, list(one.facts.items())) for number, one in enumerate(stores)],
        groups=_groups(stores),
        plots=[(plot, Markup(plot.svg)) for plot in overview],
        class_plots=[(plot, Markup(plot.svg)) for plot in classes],
        relations=[(plot, Markup(plot.svg)) for plot in relations],
        joined=[(one, _tiles(one.found), _class_rows(one.found), _left(one.found)) for one in joined],
        sheets=sheets,
        no_room=album.left_out,
    )


def _plots(stores: Sequence[StoreView], joined: Sequence[JoinedView]) -> tuple[list[Plot], list[Plot], list[Plot]]:
    """(curves and maps, bars by class, plots of says against sees)."""
    import matplotlib

    several = len(stores) > 1
    colours = {one.name: number % SERIES + 1 for number, one in enumerate(stores)}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own matplotlibrc must not change the page
        matplotlib.rcParams.update(SETTINGS)
        curves = [(one.name, colours[one.name], one.curve) for one in stores if one.curve is not None]
        attacks = [(one.name, colours[one.name], *attack) for one in stores for attack in one.attacked]
        overview = [drawn.precision_recall(curves), *drawn.robustness(attacks)]
        overview.append(drawn.corruptions([(one.name, colours[one.name], one.corrupted) for one in stores]))
        classes: list[Plot | None] = []
        for number, one in enumerate(stores):
            label = f" · {visible(one.name)}" if several else ""
            if one.plane is not None:
                overview.append(drawn.feature_map(one.plane, one.plane_names, label, number))
            classes.append(drawn.class_bars(one.classes, label, number, one.chance))
        titles = [_title(one, joined) for one in joined]
        relations: list[Plot | None] = [
            drawn.says_against_sees(one.found, f" · {title}" if title else "", number)
            for number, (one, title) in enumerate(zip(joined, titles, strict=True))
        ]
        if joined:
            pairs = [(title or one.run, one.found) for one, title in zip(joined, titles, strict=True)]
            relations.append(drawn.attribution(pairs))
    parts = (overview, classes, relations)
    kept = [[plot for plot in part if plot is not None] for part in parts]
    return kept[0], kept[1], kept[2]


def _title(one: JoinedView, joined: Sequence[JoinedView]) -> str:
    """What tells this pair from the others on the page."""
    stores, runs = {other.store for other in joined}, {other.run for other in joined}
    return visible(" · ".join([one.run] * (len(runs) > 1) + [one.store] * (len(stores) > 1)))


def _groups(stores: Sequence[StoreView]) -> list[dict[str, Any]]:
    """Each group of measures with its metrics as rows and the stores as columns."""
    found = []
    for title in dict.fromkeys(title for one in stores for title in one.measures):
        by = [{metric.name: metric for metric in one.measures.get(title, ())} for one in stores]
        rows = []
        for name in dict.fromkeys(name for metrics in by for name in metrics):
            known = [metrics[name] for metrics in by if name in metrics]
            chance = next((one.chance for one in known if one.chance is not None), None)
            rows.append(
                {
                    "name": name,
                    "chance": "–" if chance is None else percent(chance),
                    "n": " / ".join(dict.fromkeys(f"{one.n:,}" for one in known)),
                    "coverage": " / ".join(dict.fromkeys(percent(one.coverage) for one in known)),
                    "partial": any(one.coverage < 1.0 for one in known),
                    "cells": [_cell(metrics.get(name)) for metrics in by],
                }
            )
        found.append({"title": title, "rows": rows})
    return found


def _cell(metric: Metric | None) -> dict[str, Any] | None:
    if metric is None:
        return None
    shares = metric.unit == "fraction"
    low, high = metric.ci95 if shares and metric.ci95 is not None else (None, None)
    return {
        "text": quantity(metric.value, metric.unit),
        "interval": span(metric.ci95, metric.unit),
        "method": "" if metric.interval is None else metric.interval.text,
        "at": _track(metric.value if shares else None),
        "low": _track(low),
        "high": _track(high),
        "chance": _track(metric.chance if shares else None),
    }


def _track(share: float | None) -> float | None:
    return None if share is None else round(100 * min(1.0, max(0.0, share)), 2)


_TILES = {
    "probe_accuracy": "the probe names the class",
    "answer_accuracy": "the answers are right",
    "said_of_seen": "answers right where the probe is right",
    "said_of_unseen": "answers right where the probe is wrong",
    "lost/seeing": "of what answers lack is not in the features either",
    "correlation": "correlation over classes",
}


def _tiles(found: SaysSees) -> list[dict[str, str]]:
    """The overall figures as (value, interval, what it is)."""
    told = []
    for metric in found.overall:
        if metric.name in _TILES and metric.value is not None:
            value = percent(metric.value) if metric.unit == "fraction" else f"r = {metric.value:.2f}"
            interval = span(metric.ci95, metric.unit)
            if metric.unit != "fraction" and metric.ci95 is not None:
                interval = f"{metric.ci95[0]:.2f} – {metric.ci95[1]:.2f}"
            chance = f"guessing {percent(metric.chance)}" if metric.chance is not None else ""
            method = "" if metric.interval is None else metric.interval.text
            told.append(
                {"value": value, "interval": interval, "method": method, "what": _TILES[metric.name], "chance": chance}
            )
    return told


def _class_rows(found: SaysSees) -> list[dict[str, Any]]:
    """The classes with the largest gaps as text, in points of 100."""
    return [_class_row(one) for one in sorted(found.classes, key=lambda one: -abs(one.gap))[:MOST_CLASSES]]


def _class_row(one: ClassPoint) -> dict[str, Any]:
    return {
        "name": one.name,
        "quadrant": one.quadrant,
        "clear": one.clear,
        "probe": percent(one.probe),
        "probe_span": span(one.probe_ci95, "fraction"),
        "probe_by": _method(one.probe_ci95),
        "answer": percent(one.answer),
        "answer_by": _method(one.answer_ci95),
        "gap_by": _method(one.gap_ci95),
        "answer_span": span(one.answer_ci95, "fraction"),
        "gap": f"{100 * one.gap:+.1f}",
        "gap_span": "" if one.gap_ci95 is None else f"{100 * one.gap_ci95[0]:+.1f} – {100 * one.gap_ci95[1]:+.1f}",
        "gap_clear": one.gap_ci95 is not None and (one.gap_ci95[0] > 0 or one.gap_ci95[1] < 0),
        "seeing": f"{100 * one.lost_seeing:.1f}",
        "saying": f"{100 * one.lost_saying:.1f}",
        "images": f"{one.images:,}",
        "answers": f"{one.answers:,}",
    }


def _method(ends: tuple[float, float] | None) -> str:
    return ends.about.text if isinstance(ends, Interval) else ""


def _left(found: SaysSees) -> str:
    more = len(found.classes) - MOST_CLASSES
    return f"{more:,} classes with smaller gaps are in the JSON (--json)." if more > 0 else ""


def _asked(asked: Asked, store: StoreView, album: Album) -> dict[str, Any]:
    return {"query": _shown(asked.query, store, album), "found": [_shown(one, store, album) for one in asked.found]}


def _shown(one: Neighbour, store: StoreView, album: Album) -> dict[str, Any]:
    blob = store.pictures.get(one.row)
    part: dict[str, str] = {} if blob is None else album.add(Image(blob))[0]
    uri = album.uris.get(part.get("p", ""), "")
    tiny = isinstance(blob, FileBlob) and len(uri) < 6_000
    return {"id": one.id, "name": one.name, "right": one.right, "uri": uri, "note": part.get("note", ""), "tiny": tiny}
